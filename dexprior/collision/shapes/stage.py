"""One network for the shapes of several folders of simulated pairs, and how it answers for a shape it never saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.artifacts import RunFolder, file_hash, write_json
from dexprior.collision.evaluation import THRESHOLDS
from dexprior.collision.shapes.generator import load_pairs, load_ranges
from dexprior.collision.shapes.network import (
    ShapeNetwork,
    ShapeNetworkConfig,
    ShapeTrainingConfig,
    load_shape_network,
    planar_strikes,
    relative_errors,
    save_shape_network,
    train_shape_network,
)
from dexprior.errors import BadInput

__all__ = ["distill_shapes"]


def distill_shapes(
    folders: Sequence[str | Path],
    out: str | Path,
    network: ShapeNetworkConfig | None = None,
    training: ShapeTrainingConfig | None = None,
    *,
    seed: int,
    test: str | Path | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Train a `ShapeNetwork` on what `generate` left in some folders, one shape each; goes on where it was stopped.

    Leaves `shapes.safetensors` and `result.json` in `out`.

    Args:
        folders: planar impacts, all from the same ranges of contact parameters.
        out: run folder.
        network: its size; the ranges are those of the folders.
        training: of the network.
        seed: of the network and its batches.
        test: folder of a shape to score on; by default the training impacts are scored.
        progress: show a progress bar.

    Returns:
        Shares of relative errors of the object's velocity below 0.1 and 0.2, and their median, by folder.

    Raises:
        ArtifactError: no pairs in a folder; `out` belongs to another run.
        BadInput: no folder, one given twice, pairs in space, or folders of different ranges.
    """
    if not folders:
        raise BadInput("distill_shapes: give at least one folder of simulated pairs")
    seen: set[Path] = set()
    for folder in (*folders, *([] if test is None else [test])):
        if Path(folder).resolve() in seen:
            raise BadInput(
                f"distill_shapes: {folder} is given twice: each shape once, and the test shape is another one"
            )
        seen.add(Path(folder).resolve())
    ranges = {str(folder): load_ranges(folder).contact for folder in (*folders, *([] if test is None else [test]))}
    first = next(iter(ranges.values()))
    for folder, found in ranges.items():
        if found != first:
            raise BadInput(f"{folder}: its contact parameters have other ranges than those of {folders[0]}")
    network, training = replace(network or ShapeNetworkConfig(), ranges=first), training or ShapeTrainingConfig()
    parents = tuple(file_hash(Path(folder) / "run.json") for folder in folders)
    record = RunFolder(
        Path(out), stage="collision-shapes", config=(network, training), seed=seed, parents=parents
    ).open()
    path = record.file("shapes.safetensors")
    if not path.exists():
        strikes = planar_strikes([load_pairs(folder) for folder in folders], first)
        checkpoint = record.file("distill.safetensors")
        built = train_shape_network(strikes, training, network, seed=seed, checkpoint=checkpoint, progress=progress)
        save_shape_network(built, path, producer="collision", seed=seed, parents=parents)
        checkpoint.unlink(missing_ok=True)
    trained = load_shape_network(path)
    scored = folders if test is None else [test]
    result = {"file": str(path), "scores": {str(folder): _score(trained, folder) for folder in scored}}
    write_json(record.file("result.json"), result)
    return result


def _score(network: ShapeNetwork, folder: str | Path) -> dict[str, float]:
    strikes = planar_strikes([load_pairs(folder)], network.config.ranges)
    errors = relative_errors(network.predict(strikes), strikes.after.numpy())
    shares = {f"acc_{e:g}": float((errors < e).mean()) for e in THRESHOLDS}
    return {**shares, "median": float(np.median(errors)), "n": len(errors)}
