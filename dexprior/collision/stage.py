"""The collision stage: generate, distil, identify, fine-tune, evaluate; every finished part is kept."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dexprior.artifacts import (
    RunFolder,
    file_hash,
    make_header,
    read_tensors,
    write_json,
    write_tensors,
)
from dexprior.collision import evaluation
from dexprior.collision.closed_form import RestitutionFriction
from dexprior.collision.evaluation import GridConfig
from dexprior.collision.generator import CollisionPairs, GeneratorConfig, best_impulse, generate_pairs
from dexprior.collision.surrogate import Surrogate, SurrogateConfig, seen_range
from dexprior.collision.training import (
    DistillConfig,
    FinetuneConfig,
    IdentifyConfig,
    distill,
    finetune,
    identify,
)
from dexprior.config import Ge, config
from dexprior.data.impacts import PlanarImpacts, check_torque_balance, generate_impacts, load_ellipse_impacts

__all__ = ["CollisionConfig", "run"]

_THRESHOLDS = np.linspace(0.0, 0.6, 121)


@config
class CollisionConfig:
    """The whole stage."""

    generator: GeneratorConfig = GeneratorConfig()
    """Simulated impacts."""
    surrogate: SurrogateConfig = SurrogateConfig()
    """The network, and the range of the contact parameters in all parts of the stage."""
    distill: DistillConfig = DistillConfig()
    """Base training."""
    identify: IdentifyConfig = IdentifyConfig()
    """Contact parameters of the measured impacts."""
    finetune: FinetuneConfig = FinetuneConfig()
    """Adaptation of the network."""
    grid: GridConfig = GridConfig()
    """The baselines' grid search."""
    n_real: Annotated[int, Ge(3)] = 10
    """Measured impacts to adapt to; all methods get the same ones, and all others are for evaluation."""
    split_seed: Annotated[int, Ge(0)] = 0
    """Which impacts those are."""
    generated_impacts: Annotated[int, Ge(10)] = 400
    """Stand-in impacts where no measured file is given."""
    threads: Annotated[int, Ge(1)] = 2
    """Threads of the simulation; results do not depend on it."""


def run(
    config: CollisionConfig, folder: str | Path, *, seed: int, data: Path | None, progress: bool = True
) -> dict[str, Any]:
    """Make a collision model and measure it; run again on the same folder, it goes on where it was stopped.

    Leaves in the folder: `collision.safetensors` (the model and its identified phi), `result.json` (numbers),
    `samples.safetensors` (predicted and measured velocities, error and accuracy curve of each method), and
    the parts: `pairs.safetensors`, `base.safetensors`, `identified.json`, `finetune.json`.

    Args:
        config: the stage.
        folder: its run folder.
        seed: of the simulated impacts and the training.
        data: the measured `ellipse_impacts.npz`, or None for generated impacts (marked so in the result).
        progress: show a progress bar.

    Raises:
        ArtifactError: the folder belongs to another configuration, seed or data file.
        BadInput: the measured file is unusable.
    """
    parents = () if data is None else (file_hash(data),) if Path(data).is_file() else (str(data),)
    record = RunFolder(Path(folder), stage="collision", config=config, seed=seed, parents=parents).open()
    if record.result is not None:
        return record.result

    impacts = _impacts(config, seed, data)
    fit, rest = impacts.split(config.n_real, config.split_seed)
    pairs = _pairs(record, config)
    base = _base(record, config, pairs, progress=progress)
    adapted = _adapt(record, config, base, fit)
    result = _evaluate(record, config, base, adapted, fit, rest, pairs)
    return record.finish(result)


def _impacts(config: CollisionConfig, seed: int, data: Path | None) -> PlanarImpacts:
    if data is not None:
        return load_ellipse_impacts(data)
    impacts = generate_impacts(seed, config.generated_impacts)
    check_torque_balance(impacts, where="generated impacts")
    return impacts


def _pairs(record: RunFolder, config: CollisionConfig) -> CollisionPairs:
    path = record.file("pairs.safetensors")
    if not path.exists():
        pairs = generate_pairs(config.generator, config.surrogate.ranges, seed=record.seed, threads=config.threads)
        header = make_header(pairs.schema, producer="collision", seed=record.seed, config=config.generator)
        write_tensors(path, pairs.arrays(), {"header": asdict(header), "counts": pairs.counts})
    arrays, meta = read_tensors(path)
    return CollisionPairs(**arrays, counts=meta["counts"])


def _base(record: RunFolder, config: CollisionConfig, pairs: CollisionPairs, *, progress: bool) -> Surrogate:
    path = record.file("base.safetensors")
    if not path.exists():
        checkpoint = record.file("distill.safetensors")
        network = distill(
            pairs,
            config.distill,
            config.surrogate,
            seed=record.seed,
            checkpoint=checkpoint,
            progress=progress,
        )
        model = Surrogate.from_network(network, seen_range(pairs))
        model.save(path, producer="collision", seed=record.seed)
        checkpoint.unlink()
    return Surrogate.load(path)


def _adapt(record: RunFolder, config: CollisionConfig, base: Surrogate, fit: PlanarImpacts) -> Surrogate:
    identified, path = record.file("identified.json"), record.file("collision.safetensors")
    if not identified.exists():
        phi = identify(base.network(), fit, config.identify)
        write_json(identified, dict(zip(base.parameters, phi.tolist())))
    if not path.exists():
        phi = _identified(record, base)
        tuned = finetune(base.network(), fit, phi, config.finetune)
        write_json(
            record.file("finetune.json"),
            {
                "steps": tuned.steps,
                "held_out": tuned.held_out.tolist(),
                "sigma_scale": tuned.sigma_scale,
            },
        )
        model = Surrogate.from_network(tuned.network, base.seen, phi)
        model.save(path, producer="collision", seed=record.seed, parents=record.parents)
    return Surrogate.load(path)


def _identified(record: RunFolder, base: Surrogate) -> np.ndarray:
    named = json.loads(record.file("identified.json").read_text())
    return np.array([named[name] for name in base.parameters])


def _evaluate(
    record: RunFolder,
    config: CollisionConfig,
    base: Surrogate,
    adapted: Surrogate,
    fit: PlanarImpacts,
    rest: PlanarImpacts,
    pairs: CollisionPairs,
) -> dict[str, Any]:
    phi = _identified(record, base)
    grid_phi = evaluation.tune_mujoco(fit, config.surrogate.ranges, config.grid, threads=config.threads)
    closed_phi = evaluation.fit_closed_form(fit, config.grid)
    tuned_post, tuned_std = evaluation.predict_impacts(adapted, rest, phi)
    predicted = {
        "mujoco_tuned": evaluation.simulate_with(rest, grid_phi, threads=config.threads),
        "closed_form": evaluation.predict_impacts(RestitutionFriction(), rest, closed_phi)[0],
        "surrogate": evaluation.predict_impacts(base, rest, phi)[0],
        "surrogate_finetuned": tuned_post,
        "point_impulse_bound": evaluation.point_impulse_bound(rest),
    }
    errors = {name: evaluation.relative_error(post, rest) for name, post in predicted.items()}
    finetuned = json.loads(record.file("finetune.json").read_text())
    simulated = replace(rest, post=evaluation.simulate_with(rest, phi, threads=config.threads))
    unit = -rest.geometry.delassus[:, :1, 0] / np.einsum("bd,bd->b", rest.normal_row, rest.pre)[:, None]
    result = {
        "source": rest.source,
        "n_real": len(fit),
        "split_seed": config.split_seed,
        "methods": {name: evaluation.summarize(e) for name, e in errors.items()},
        "fitted": {
            "mujoco_tuned": dict(zip(base.parameters, grid_phi.tolist())),
            "closed_form": dict(zip(RestitutionFriction().parameters, closed_phi.tolist())),
            "surrogate": dict(zip(base.parameters, phi.tolist())),
        },
        "finetune": {"steps": finetuned["steps"], "sigma_scale": finetuned["sigma_scale"]},
        "distillation_gap": float(np.median(evaluation.relative_error(predicted["surrogate"], simulated))),
        "within_one_sigma": float((np.abs(tuned_post - rest.post) < tuned_std).mean()),
        "within_training_range": float(base.inside(rest.pre, rest.geometry, np.tile(phi, (len(rest), 1))).mean()),
        "simulated_pairs": pairs.counts,
    }
    impulse = best_impulse(rest.post - rest.pre, rest.geometry) * unit
    arrays = {
        "source_row": rest.source_row,
        "pre": rest.pre,
        "measured": rest.post,
        "measured_impulse": impulse,
        "predicted_std": tuned_std,
        "thresholds": _THRESHOLDS,
    }
    for name, post in predicted.items():
        arrays[f"predicted/{name}"] = post
        arrays[f"error/{name}"] = errors[name]
        arrays[f"accuracy/{name}"] = evaluation.accuracy_curve(errors[name], _THRESHOLDS)
    header = make_header("dexprior.collision_samples/1", producer="collision", seed=record.seed, config=config)
    write_tensors(record.file("samples.safetensors"), arrays, {"header": asdict(header)})
    write_json(record.file("result.json"), result)
    return result
