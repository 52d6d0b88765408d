"""The collision stage: generate, distil, identify, fine-tune, compare; every finished part is kept.

    pairs.safetensors -> base.safetensors -> draws/NNN.json ... -> collision.safetensors, result.json

A draw takes `n_real` measured impacts, fits every method to the same ones, and scores all of them on the others. The
model that is left is that of the first draw.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float
from tqdm import tqdm

from dexprior.artifacts import RunFolder, file_hash, make_header, read_json, read_tensors, write_json, write_tensors
from dexprior.collision import baselines, evaluation
from dexprior.collision.baselines import CmaConfig, GridConfig
from dexprior.collision.calibration import Identified, IdentifyConfig, finetune, identify
from dexprior.collision.clash import ClashConfig, ClashModel, ellipse_measured, simulate_ellipse_pairs, train_clash
from dexprior.collision.closed_form import RestitutionFriction
from dexprior.collision.distill import DistillConfig, distill
from dexprior.collision.generator import CollisionPairs, GeneratorConfig, generate_pairs
from dexprior.collision.mjx_fit import MjxConfig, tune_mujoco_mjx
from dexprior.collision.residual import ResidualConfig
from dexprior.collision.surrogate import Surrogate, SurrogateConfig
from dexprior.config import Ge, config
from dexprior.data.impacts import PlanarImpacts, check_torque_balance, load_impacts
from dexprior.data.simulated_impacts import CONTACT_PARAMETERS, generate_impacts
from dexprior.errors import BadInput
from dexprior.stats import bootstrap_mean

__all__ = ["OURS", "CollisionConfig", "compare", "open_base", "run", "simulated_pairs", "train_base"]

OURS = "finetuned"
"""The method that the stage leaves as its model."""

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
    """The published reference."""
    mjx: MjxConfig | None = None
    """MuJoCo tuned by gradients through MJX, where it is asked for: it compiles for a minute."""
    n_real: Annotated[int, Ge(3)] = 10
    """Measured impacts to adapt to; all methods get the same ones."""
    draws: Annotated[int, Ge(1)] = 1
    """How many times they are drawn anew."""
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
    draw), and the parts: `pairs.safetensors`, `base.safetensors`, `draws/`.

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
    pool, held_out = load_impacts(train), load_impacts(test)
    record = RunFolder(Path(folder), stage="collision-evaluate", config=config, seed=seed, parents=parents)
    if config.n_real >= len(pool):  # before a base model is trained for nothing
        raise BadInput(f"{train} holds {len(pool)} impacts: n_real = {config.n_real} leaves none to score on")
    if (result := record.open().result) is not None:
        return result
    if parents[0] == parents[1]:
        return record.finish(_compare(record, config, pool, None, progress=progress))
    known = {row.tobytes() for row in np.hstack([pool.pre, pool.post])}
    fresh = [k for k, row in enumerate(np.hstack([held_out.pre, held_out.post])) if row.tobytes() not in known]
    if not fresh:
        raise BadInput(f"{test}: all of its impacts are in {train} as well, so that nothing is left to test on")
    return record.finish(_compare(record, config, pool, held_out.take(np.array(fresh)), progress=progress))


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


def _draws(
    config: CollisionConfig, train: PlanarImpacts, test: PlanarImpacts | None
) -> Iterator[tuple[PlanarImpacts, PlanarImpacts]]:
    """Measured impacts to fit and to score, draw by draw; a function of (`split_seed`, draw) alone."""
    if test is None and not 0 < config.n_real < len(train):
        raise BadInput(f"n_real = {config.n_real}, but it must lie between 1 and {len(train) - 1} for this file")
    if config.n_real > len(train):
        raise BadInput(f"n_real = {config.n_real}, but the training file holds {len(train)} usable impacts")
    for draw in range(config.draws):
        order = np.random.default_rng([config.split_seed, draw]).permutation(len(train))
        fit = train.take(np.sort(order[: config.n_real]))
        yield fit, test if test is not None else train.take(np.sort(order[config.n_real :]))


def _compare(
    record: RunFolder,
    config: CollisionConfig,
    train: PlanarImpacts,
    test: PlanarImpacts | None,
    *,
    progress: bool,
) -> dict[str, Any]:
    base, pairs = train_base(record, config, progress=progress)
    splits = list(_draws(config, train, test))
    reference: ClashModel | None = None
    found = []
    for draw, (fit, rest) in enumerate(tqdm(splits, desc="draws", disable=not progress or len(splits) == 1)):
        path = record.file(f"draws/{draw:03d}.json")
        if not path.exists():
            if reference is None:
                simulated, _ = simulate_ellipse_pairs(config.clash, train, seed=record.seed, threads=config.threads)
                reference = train_clash(config.clash, simulated, seed=record.seed)
            write_json(path, _one_draw(record, config, base, reference, fit, rest, draw))
        found.append(read_json(path))
    first_fit, first_rest = splits[0]
    result = {
        "source": train.source,
        "n_real": len(first_fit),
        "n_test": len(first_rest),
        "draws": len(found),
        "split_seed": config.split_seed,
        "methods": {name: _over_draws([f["methods"][name] for f in found]) for name in found[0]["methods"]},
        "paired": _paired([f["methods"] for f in found]),
        "distribution": _means([f["distribution"] for f in found]),
        "fitted": found[0]["fitted"],
        "distillation_gap": found[0]["distillation_gap"],
        "within_training_range": found[0]["within_training_range"],
        "simulated_pairs": pairs.counts,
    }
    write_json(record.file("result.json"), result)
    return result


def _one_draw(
    record: RunFolder,
    config: CollisionConfig,
    base: Surrogate,
    reference: ClashModel,
    fit: PlanarImpacts,
    rest: PlanarImpacts,
    draw: int,
) -> dict[str, Any]:
    identified = identify(base, fit, config.identify, config.residual)
    adapted = finetune(base, fit, identified, config.residual)
    predicted, fitted = _baselines(config, identified, reference, fit, rest, seed=record.seed + draw)
    predicted = {
        OURS: evaluation.predict_impacts(adapted, rest, identified.phi)[0],
        "identified": evaluation.predict_impacts(base, rest, identified.phi)[0],
        **predicted,
    }
    errors = {name: evaluation.relative_error(post, rest) for name, post in predicted.items()}
    scaled = _at_impact_speed(base, rest, identified)
    impedance = config.generator.impedance
    post = baselines.simulate_with(rest, scaled, impedance=impedance, threads=config.threads)
    simulated = replace(rest, post=post)
    if draw == 0:
        adapted.save(
            record.file("collision.safetensors"), producer="collision", seed=record.seed, parents=record.parents
        )
        _save_samples(record, config, adapted, rest, predicted, errors)
    rows = np.tile(identified.phi, (len(rest), 1))
    return {
        "methods": {name: evaluation.summarize(e) for name, e in errors.items()},
        "fitted": {OURS: identified.as_dict(), **fitted},
        "distribution": evaluation.score_distribution(adapted, rest, identified.phi),
        "distillation_gap": float(np.median(evaluation.relative_error(predicted["identified"], simulated))),
        "within_training_range": float(base.inside(rest.pre, rest.geometry, rows).mean()),
    }


def _baselines(
    config: CollisionConfig,
    identified: Identified,
    reference: ClashModel,
    fit: PlanarImpacts,
    rest: PlanarImpacts,
    *,
    seed: int,
) -> tuple[dict[str, np.ndarray], dict[str, dict[str, float]]]:
    ranges, threads = config.surrogate.ranges, config.threads
    grid = baselines.tune_mujoco_grid(fit, ranges, config.grid, threads=threads)
    cma = baselines.tune_mujoco_cma(fit, ranges, config.cma, seed=seed, threads=threads)
    closed = baselines.fit_closed_form(fit, config.grid)
    measured = ellipse_measured(fit)
    clash = reference.clone()
    clash.identify(measured)
    clash.finetune(measured)
    untrained = reference.untrained(seed=seed)
    untrained.finetune(measured, steps=config.clash.steps)
    state, k = ellipse_measured(rest).state, np.array([1.0, 1.0, rest.gyration])
    predicted = {
        "clash": clash.predict(state) / k,
        "clash_without_pretraining": untrained.predict(state) / k,
        "mujoco_grid": baselines.simulate_with(rest, grid, threads=threads),
        "mujoco_cma": baselines.simulate_with(rest, cma, threads=threads),
        "mujoco_identified": baselines.simulate_with(rest, identified.phi[: len(CONTACT_PARAMETERS)], threads=threads),
        "closed_form": evaluation.predict_impacts(RestitutionFriction(), rest, closed)[0],
        "point_impulse_bound": evaluation.point_impulse_bound(rest),
    }
    fitted = {
        "clash": clash.parameters,
        "mujoco_grid": dict(zip(CONTACT_PARAMETERS, grid.tolist())),
        "mujoco_cma": dict(zip(CONTACT_PARAMETERS, cma.tolist())),
        "closed_form": dict(zip(RestitutionFriction().parameters, closed.tolist())),
    }
    if config.mjx is not None:
        found = tune_mujoco_mjx(fit, ranges, config.mjx, seed=seed)
        predicted["mujoco_mjx"] = baselines.simulate_with(rest, found, threads=threads)
        fitted["mujoco_mjx"] = dict(zip(CONTACT_PARAMETERS, found.tolist()))
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
    errors: dict[str, np.ndarray],
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
        arrays[f"error/{name}"] = errors[name]
        arrays[f"accuracy/{name}"] = evaluation.accuracy_curve(errors[name], _THRESHOLDS)
    header = make_header("dexprior.collision_samples/2", producer="collision", seed=record.seed, config=config)
    write_tensors(record.file("samples.safetensors"), arrays, {"header": asdict(header)})


def _over_draws(summaries: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over draws, with their bootstrap interval; one draw keeps the binomial interval of its impacts."""
    if len(summaries) == 1:
        return summaries[0]
    names = [name for name in summaries[0] if name not in ("n", "intervals")]
    values = {name: np.array([s[name] for s in summaries]) for name in names}
    return {
        **{name: float(v.mean()) for name, v in values.items()},
        "n": summaries[0]["n"],
        "intervals": {name: list(bootstrap_mean(v)[1:]) for name, v in values.items()},
        "per_draw": {name: v.tolist() for name, v in values.items()},
    }


def _paired(draws: list[dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """Ours against each other method on the same draws: ratio of the mean shares, and in how many draws no worse."""
    found: dict[str, Any] = {}
    for name in draws[0]:
        if name in (OURS, "point_impulse_bound"):
            continue
        entry: dict[str, Any] = {}
        for measure in ("acc_0.1", "acc_0.2"):
            ours = np.array([d[OURS][measure] for d in draws])
            other = np.array([d[name][measure] for d in draws])
            ratio, interval = evaluation.paired_ratio(ours, other)
            entry[measure] = {
                "ratio": ratio,
                "interval": interval,
                "no_worse": int((ours >= other).sum()),
                "draws": len(draws),
            }
        found[name] = entry
    return found


def _means(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
