"""The collision stage: generate, distil, identify, fine-tune, compare; every finished part is kept.

    pairs.safetensors -> base.safetensors -> draws/NNN.safetensors, NNN.json ... -> collision.safetensors, result.json

A draw takes `n_real` measured impacts, fits every method to the same ones, and scores all of them on the others. The
model that is left is that of the first draw. Intervals hold for other draws and other test impacts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float, Int
from tqdm import tqdm

from dexprior.artifacts import RunFolder, file_hash, make_header, read_json, read_tensors, write_json, write_tensors
from dexprior.collision import baselines, evaluation
from dexprior.collision.baselines import MUJOCO_PARAMETERS, CmaConfig, GridConfig
from dexprior.collision.calibration import Identified, IdentifyConfig, finetune, identify
from dexprior.collision.clash import (
    TUNED_CLASH,
    ClashConfig,
    ClashModel,
    ellipse_measured,
    simulate_ellipse_pairs,
    train_clash,
)
from dexprior.collision.closed_form import RestitutionFriction
from dexprior.collision.distill import DistillConfig, distill
from dexprior.collision.generator import CollisionPairs, GeneratorConfig, generate_pairs
from dexprior.collision.mjx_fit import MjxConfig, tune_mujoco_mjx
from dexprior.collision.residual import ResidualConfig
from dexprior.collision.surrogate import Surrogate, SurrogateConfig
from dexprior.config import Ge, config
from dexprior.data.impacts import PlanarImpacts, check_torque_balance, load_impacts
from dexprior.data.simulated_impacts import generate_impacts
from dexprior.errors import BadInput
from dexprior.stats import bootstrap_crossed

__all__ = [
    "OURS",
    "CollisionConfig",
    "Scored",
    "compare",
    "held_out",
    "open_base",
    "run",
    "scored_draws",
    "simulated_pairs",
    "train_base",
]

OURS = "finetuned"
"""The method that the stage leaves as its model."""

_BOUND = "point_impulse_bound"
_KIN = (OURS, "identified", "mujoco_identified", _BOUND)
"""Ours, parts of ours, and the bound that sees the outcome; all others are opponents."""

_STAND_IN: dict[str, Any] = {"phi": (0.2, 0.25, 8e-4, 1.5), "impedance": 0.005, "noise": 0.03}
"""What stands in for measured impacts: about the contact parameters that one half of the measured ellipse's show
(docs/decisions/0007-wide-contact-family.md), and the scatter that no impulse at the contact explains."""

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
    residual: ResidualConfig = ResidualConfig()
    """What measured impacts add to the network."""
    grid: GridConfig = GridConfig()
    """The baselines' grid search."""
    cma: CmaConfig = CmaConfig()
    """MuJoCo tuned by CMA-ES."""
    clash: ClashConfig = ClashConfig()
    """The published reference, as published."""
    clash_tuned: ClashConfig = TUNED_CLASH
    """The same on the network's simulator, with settings that suit the measured ellipse."""
    mjx: MjxConfig | None = None
    """MuJoCo tuned by gradients through MJX, where it is asked for: it compiles for a minute."""
    n_real: Annotated[int, Ge(3)] = 10
    """Measured impacts to adapt to; all methods get the same ones."""
    draws: Annotated[int, Ge(1)] = 1
    """How many times they are drawn anew."""
    resamples: Annotated[int, Ge(10)] = 2000
    """Resamples of draws and test impacts, for the intervals."""
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
    `samples.safetensors` (predicted and measured velocities, error and accuracy curve of each method in the first
    draw), and the parts: `pairs.safetensors`, `base.safetensors`, `draws/` (what every method predicts in each).

    Args:
        config: the stage.
        folder: its run folder.
        seed: of the simulated impacts and the training.
        data: the measured `ellipse_impacts.npz`, or None for generated impacts (marked so in the result).
        progress: show progress bars.

    Raises:
        ArtifactError: the folder belongs to another configuration, seed or data file.
        BadInput: the measured file is unusable.
    """
    parents = () if data is None else (file_hash(data),) if Path(data).is_file() else (str(data),)
    record = RunFolder(Path(folder), stage="collision", config=config, seed=seed, parents=parents).open()
    if record.result is not None:
        return record.result
    impacts = _impacts(config, seed, data)
    return record.finish(_compare(record, config, impacts, None, progress=progress))


def compare(
    config: CollisionConfig, folder: str | Path, *, seed: int, train: Path, test: Path, progress: bool = True
) -> dict[str, Any]:
    """Draw from one measured file and score on another; all else as for `run`.

    Impacts of the test file that the training file also holds are left out of the test.

    Raises:
        ArtifactError: the folder belongs to another configuration, seed or pair of files.
        BadInput: a file is unusable, or nothing is left to test on.
    """
    parents = (file_hash(train), file_hash(test))
    pool, scored = held_out(train, test)
    record = RunFolder(Path(folder), stage="collision-evaluate", config=config, seed=seed, parents=parents)
    if config.n_real >= len(pool):  # before a base model is trained for nothing
        raise BadInput(f"{train} holds {len(pool)} impacts: n_real = {config.n_real} leaves none to score on")
    if (result := record.open().result) is not None:
        return result
    return record.finish(_compare(record, config, pool, scored, progress=progress))


def held_out(train: Path, test: Path) -> tuple[PlanarImpacts, PlanarImpacts | None]:
    """Impacts to draw from, and those to score on; None where one file serves for both and every draw splits it anew.

    Raises:
        BadInput: a file is unusable, or nothing is left to test on.
    """
    pool, scored = load_impacts(train), load_impacts(test)
    if file_hash(train) == file_hash(test):
        return pool, None
    known = {row.tobytes() for row in np.hstack([pool.pre, pool.post])}
    fresh = [k for k, row in enumerate(np.hstack([scored.pre, scored.post])) if row.tobytes() not in known]
    if not fresh:
        raise BadInput(f"{test}: all of its impacts are in {train} as well, so that nothing is left to test on")
    return pool, scored.take(np.array(fresh))


def open_base(config: CollisionConfig, folder: str | Path, *, seed: int) -> RunFolder:
    """The run folder of a base model, which knows nothing of measured impacts.

    Raises:
        ArtifactError: the folder belongs to another configuration or seed.
    """
    identity = (config.generator, config.surrogate, config.distill)
    return RunFolder(Path(folder), stage="collision-base", config=identity, seed=seed).open()


def simulated_pairs(record: RunFolder, config: CollisionConfig) -> CollisionPairs:
    """Simulated impacts, made where the folder does not hold them yet."""
    path = record.file("pairs.safetensors")
    if not path.exists():
        pairs = generate_pairs(config.generator, config.surrogate.ranges, seed=record.seed, threads=config.threads)
        header = make_header(pairs.schema, producer="collision", seed=record.seed, config=config.generator)
        write_tensors(path, pairs.arrays(), {"header": asdict(header), "counts": pairs.counts})
    arrays, meta = read_tensors(path)
    return CollisionPairs(**arrays, counts=meta["counts"])


def train_base(record: RunFolder, config: CollisionConfig, *, progress: bool) -> tuple[Surrogate, CollisionPairs]:
    """Simulated pairs and the network distilled from them, each made where the folder does not hold it yet."""
    pairs = simulated_pairs(record, config)
    path = record.file("base.safetensors")
    if not path.exists():
        checkpoint = record.file("distill.safetensors")
        model = distill(
            pairs, config.distill, config.surrogate, seed=record.seed, checkpoint=checkpoint, progress=progress
        )
        model.save(path, producer="collision", seed=record.seed)
        checkpoint.unlink()
    return Surrogate.load(path), pairs


def _impacts(config: CollisionConfig, seed: int, data: Path | None) -> PlanarImpacts:
    if data is not None:
        return load_impacts(data)
    impacts = generate_impacts(seed, config.generated_impacts, **_STAND_IN)
    check_torque_balance(impacts, where="generated impacts")
    return impacts


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One draw: which impacts were fitted, which were scored, and what every method says of the latter."""

    fitted: Int[np.ndarray, " impact"]
    """Rows of the impacts to draw from."""
    rows: Int[np.ndarray, " scored"]
    """Rows of the impacts to score on."""
    predicted: Mapping[str, Float[np.ndarray, "scored 3"]]
    """[vx vy omega] after each, by method."""


def scored_draws(
    folder: str | Path, config: CollisionConfig, train: PlanarImpacts, test: PlanarImpacts | None
) -> list[Scored]:
    """The draws of a finished run, by its configuration and impacts.

    Raises:
        ArtifactError: a draw is missing or damaged.
    """
    found = []
    for draw, (fitted, rows) in enumerate(_draws(config, train, test)):
        arrays, _ = read_tensors(Path(folder) / f"draws/{draw:03d}.safetensors")
        found.append(Scored(fitted=fitted, rows=rows, predicted=dict(sorted(arrays.items()))))
    return found


def _draws(
    config: CollisionConfig, train: PlanarImpacts, test: PlanarImpacts | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows to fit and rows to score, draw by draw; a function of (`split_seed`, draw) alone."""
    if test is None and not 0 < config.n_real < len(train):
        raise BadInput(f"n_real = {config.n_real}, but it must lie between 1 and {len(train) - 1} for this file")
    if config.n_real > len(train):
        raise BadInput(f"n_real = {config.n_real}, but the training file holds {len(train)} usable impacts")
    for draw in range(config.draws):
        order = np.random.default_rng([config.split_seed, draw]).permutation(len(train))
        fit, rest = np.sort(order[: config.n_real]), np.sort(order[config.n_real :])
        yield fit, rest if test is None else np.arange(len(test))


def _compare(
    record: RunFolder,
    config: CollisionConfig,
    train: PlanarImpacts,
    test: PlanarImpacts | None,
    *,
    progress: bool,
) -> dict[str, Any]:
    base, pairs = train_base(record, config, progress=progress)
    scored = train if test is None else test
    splits = list(_draws(config, train, test))
    references: dict[str, ClashModel] = {}
    found = []
    for draw, (fit, rest) in enumerate(tqdm(splits, desc="draws", disable=not progress or len(splits) == 1)):
        path = record.file(f"draws/{draw:03d}.json")
        if not path.exists():
            if not references:
                references = _references(config, train, seed=record.seed)
            write_json(path, _one_draw(record, config, base, references, train.take(fit), scored.take(rest), draw))
        found.append(read_json(path))
    methods, paired = _figures(scored_draws(record.path, config, train, test), scored, config)
    opponents = [name for name in methods if name not in _KIN]
    result = {
        "source": train.source,
        "n_real": config.n_real,
        "n_test": len(splits[0][1]),
        "draws": len(found),
        "split_seed": config.split_seed,
        "methods": methods,
        "strongest_opponent": min(opponents, key=lambda name: methods[name]["median"]),
        "paired": paired,
        "distribution": _means([f["distribution"] for f in found]),
        "fitted": found[0]["fitted"],
        "distillation_gap": found[0]["distillation_gap"],
        "within_training_range": found[0]["within_training_range"],
        "simulated_pairs": pairs.counts,
    }
    write_json(record.file("result.json"), result)
    return result


def _references(config: CollisionConfig, like: PlanarImpacts, *, seed: int) -> dict[str, ClashModel]:
    """The published reference on its own simulator and on ours, pre-trained."""
    found = {}
    for name in ("clash", "clash_tuned"):
        settings: ClashConfig = getattr(config, name)
        simulated, _ = simulate_ellipse_pairs(settings, like, seed=seed, threads=config.threads)
        found[name] = train_clash(settings, simulated, seed=seed)
    return found


def _one_draw(
    record: RunFolder,
    config: CollisionConfig,
    base: Surrogate,
    references: Mapping[str, ClashModel],
    fit: PlanarImpacts,
    rest: PlanarImpacts,
    draw: int,
) -> dict[str, Any]:
    identified = identify(base, fit, config.identify, config.residual)
    adapted = finetune(base, fit, identified, config.residual)
    predicted, fitted = _opponents(config, references, fit, rest, seed=record.seed + draw)
    same = np.column_stack([_at_impact_speed(base, rest, identified), np.full(len(rest), config.generator.impedance)])
    predicted = {
        OURS: evaluation.predict_impacts(adapted, rest, identified.phi)[0],
        "identified": evaluation.predict_impacts(base, rest, identified.phi)[0],
        "mujoco_identified": baselines.simulate_with(rest, same, threads=config.threads),
        **predicted,
        _BOUND: evaluation.point_impulse_bound(rest),
    }
    header = make_header("dexprior.collision_draw/1", producer="collision", seed=record.seed, config=config)
    write_tensors(record.file(f"draws/{draw:03d}.safetensors"), predicted, {"header": asdict(header)})
    if draw == 0:
        adapted.save(
            record.file("collision.safetensors"), producer="collision", seed=record.seed, parents=record.parents
        )
        _save_samples(record, config, adapted, rest, predicted)
    simulated = replace(rest, post=predicted["mujoco_identified"])
    rows = np.tile(identified.phi, (len(rest), 1))
    return {
        "fitted": {OURS: identified.as_dict(), **fitted},
        "distribution": evaluation.score_distribution(adapted, rest, identified.phi),
        "distillation_gap": float(np.median(evaluation.relative_error(predicted["identified"], simulated))),
        "within_training_range": float(base.inside(rest.pre, rest.geometry, rows).mean()),
    }


def _opponents(
    config: CollisionConfig,
    references: Mapping[str, ClashModel],
    fit: PlanarImpacts,
    rest: PlanarImpacts,
    *,
    seed: int,
) -> tuple[dict[str, np.ndarray], dict[str, dict[str, float]]]:
    """What opponents predict for `rest`, and their parameters; all are fitted to `fit`."""
    ranges, threads = config.surrogate.ranges, config.threads
    tuned = {
        "mujoco_cma": baselines.tune_mujoco_cma(fit, ranges, config.cma, seed=seed, threads=threads),
        "mujoco_grid": baselines.tune_mujoco_grid(
            fit, ranges, config.grid, impedance=config.generator.impedance, threads=threads
        ),
    }
    if config.mjx is not None:
        tuned["mujoco_mjx"] = tune_mujoco_mjx(fit, ranges, config.mjx, impedance=config.cma.impedance, seed=seed)
    predicted = {name: baselines.simulate_with(rest, phi, threads=threads) for name, phi in tuned.items()}
    fitted = {name: dict(zip(MUJOCO_PARAMETERS, phi.tolist())) for name, phi in tuned.items()}
    measured, state, k = ellipse_measured(fit), ellipse_measured(rest).state, np.array([1.0, 1.0, rest.gyration])
    for name, reference in references.items():
        clash = reference.clone()
        clash.identify(measured)
        clash.finetune(measured)
        predicted[name], fitted[name] = clash.predict(state) / k, clash.parameters
    untrained = references["clash"].untrained(seed=seed)
    untrained.finetune(measured, steps=config.clash.steps)
    predicted["clash_without_pretraining"] = untrained.predict(state) / k
    closed = baselines.fit_closed_form(fit, config.grid)
    predicted["closed_form"] = evaluation.predict_impacts(RestitutionFriction(), rest, closed)[0]
    fitted["closed_form"] = dict(zip(RestitutionFriction().parameters, closed.tolist()))
    return predicted, fitted


def _at_impact_speed(base: Surrogate, rest: PlanarImpacts, identified: Identified) -> Float[np.ndarray, "impact 4"]:
    speed = -np.einsum("bd,bd->b", rest.normal_row, rest.pre)
    return base.config.ranges.at_speed(np, np.tile(identified.phi, (len(rest), 1)), speed)


def _save_samples(
    record: RunFolder,
    config: CollisionConfig,
    adapted: Surrogate,
    rest: PlanarImpacts,
    predicted: dict[str, np.ndarray],
) -> None:
    assert adapted.phi is not None
    _, std = evaluation.predict_impacts(adapted, rest, adapted.phi)
    arrays = {
        "source_row": rest.source_row,
        "pre": rest.pre,
        "measured": rest.post,
        "measured_impulse": evaluation.measured_impulse(rest),
        "predicted_std": std,
        "thresholds": _THRESHOLDS,
    }
    for name, post in predicted.items():
        arrays[f"predicted/{name}"] = post
        arrays[f"error/{name}"] = error = evaluation.relative_error(post, rest)
        arrays[f"accuracy/{name}"] = evaluation.accuracy_curve(error, _THRESHOLDS)
    header = make_header("dexprior.collision_samples/2", producer="collision", seed=record.seed, config=config)
    write_tensors(record.file("samples.safetensors"), arrays, {"header": asdict(header)})


def _figures(
    draws: Sequence[Scored], scored: PlanarImpacts, config: CollisionConfig
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Figures of each method with their intervals, and ratios of ours to it on the same draws and impacts."""
    names = list(draws[0].predicted)
    errors = np.full((len(draws), len(scored), len(names)), np.nan)  # NaN: fitted in that draw
    for k, draw in enumerate(draws):
        rest = scored.take(draw.rows)
        errors[k, draw.rows] = np.stack([evaluation.relative_error(draw.predicted[n], rest) for n in names], axis=1)
    value, low, high = (
        part.reshape(2, len(names), len(evaluation.FIGURES))
        for part in bootstrap_crossed(
            errors, lambda table: _with_ratios(table, names.index(OURS)), draws=config.resamples
        )
    )
    per_draw = evaluation.figures(errors)
    methods, paired = {}, {}
    for j, name in enumerate(names):
        methods[name] = {
            **dict(zip(evaluation.FIGURES, value[0, j].tolist())),
            "n": len(draws[0].rows),
            "intervals": {f: [float(low[0, j, i]), float(high[0, j, i])] for i, f in enumerate(evaluation.FIGURES)},
            "per_draw": {f: per_draw[:, j, i].tolist() for i, f in enumerate(evaluation.FIGURES)},
        }
        if name in (OURS, _BOUND):
            continue
        better = per_draw[:, names.index(OURS)] - per_draw[:, j]
        paired[name] = {
            f: {
                "ratio": _number(value[1, j, i]),
                "interval": [_number(low[1, j, i]), _number(high[1, j, i])],
                "no_worse": int((better[:, i] <= 0 if f == "median" else better[:, i] >= 0).sum()),
                "draws": len(draws),
            }
            for i, f in enumerate(evaluation.FIGURES)
        }
    return methods, paired


def _with_ratios(table: Float[np.ndarray, "draw impact method"], ours: int) -> Float[np.ndarray, " figure"]:
    mean = evaluation.figures(table).mean(axis=0)
    ratios = mean[ours] / np.where(mean > 0, mean, np.nan)
    return np.stack([mean, ratios]).ravel()


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _means(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
