"""Measure every cube simulator on held-out tosses, over many draws of a few tosses to learn from.

Each draw is kept as plain data, toss by toss, so that a run that was stopped goes on where it was, and so that figures,
intervals and paired ratios are all taken from the same errors.

Ours answers for a whole toss with the mean of its ensemble, and `ours_single` is its most probable toss alone;
`mujoco_cma_mean` is the tuned MuJoCo with that trick. `prior` is our cube before any toss.

| key | asks |
|---|---|
| `first` | relative error of the velocity after the first impact |
| `whole/flight` | e_q of the whole toss from a start fitted to the flight: the fair comparison, all get the same |
| `whole/frame0` | the same from the measured frame 0; with ContactNets' position, angle and penetration |
| `steps_80`, `steps_16` | NeRD's sub-trajectories |
| `distribution` | of stochastic simulators: final face, likelihood, coverage |
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from jaxtyping import Bool

from dexprior.artifacts import read_object, write_atomic
from dexprior.config import Ge, Gt, Lt, config, config_hash, to_plain
from dexprior.data.tosses import CUBE_PARAMETERS, CubeScale, CubeTosses, fit_scale, split_groups
from dexprior.errors import BadInput
from dexprior.studies.cubes.closed_form import corner_impact, fit_corner_impact
from dexprior.studies.cubes.family import CUBE_FAMILY, family_prior, simulate_family_impacts
from dexprior.studies.cubes.metrics import (
    bootstrap,
    coverage,
    face_probability,
    face_up,
    kernel_likelihood,
    point_impulse_bound,
    relative_error,
    subtrajectories,
    whole_toss_errors,
)
from dexprior.studies.cubes.model import (
    CubeSimulator,
    FamilyConfig,
    contact_frame,
    fit_first_impacts,
    fit_whole_tosses,
    mean_states,
    stochastic,
)
from dexprior.studies.cubes.segmentation import CornerImpacts, SegmentationConfig, first_impacts, flight_starts
from dexprior.studies.cubes.simulation import (
    SOFT_CONTACT,
    MujocoTosses,
    SimulationConfig,
    TossSimulator,
    ensemble,
    simulate_first_impacts,
)
from dexprior.studies.cubes.tuning import (
    CmaConfig,
    TossGridConfig,
    first_impact_objective,
    subtrajectory_objective,
    tune_cma,
    tune_grid,
    whole_toss_objective,
)

__all__ = ["CubeEvaluationConfig", "evaluate_cube"]

_MIN_IMPACTS = 3
_LEVEL = 0.95
_NORMAL_90 = 1.6449  # of a standard normal, 90 % lies within
_Arrays = dict[str, np.ndarray]


@config
class CubeEvaluationConfig:
    """What is fitted on each draw, and how much is played."""

    family: FamilyConfig = field(default_factory=lambda: FamilyConfig(threads=2))
    """Our cube."""
    learned_second_corner: Annotated[float, Gt(0.0)] = 0.004
    """We also learn from first impacts whose second corner is only this far from the table [m], as our cube has all its
    corners; the scored ones are single-corner impacts."""
    simulation: SimulationConfig = field(default_factory=lambda: SimulationConfig(substeps=16, threads=2))
    """Simulation of the tuned MuJoCo; it steps as finely as ours, since the contacts that it may find are as stiff."""
    cma: CmaConfig = field(default_factory=lambda: CmaConfig(evaluations=420))
    """Tunes MuJoCo, on each question's own objective."""
    grid: TossGridConfig = field(default_factory=TossGridConfig)
    """Tunes MuJoCo, on each question's own objective."""
    segmentation: SegmentationConfig = field(default_factory=SegmentationConfig)
    """Segmentation into first impacts and flights."""
    rollout_draws: Annotated[int, Ge(0)] = 4
    """Draws that are scored on whole tosses and sub-trajectories too, which cost most of the time."""
    members: Annotated[int, Ge(2)] = 12
    """Rollouts in an ensemble."""
    fit_stride: Annotated[int, Ge(1)] = 12
    """Every how many frames a sub-trajectory starts when MuJoCo is tuned on them."""
    score_stride: Annotated[int, Ge(1)] = 4
    """The same when simulators are scored; 1 is the published definition."""
    held_out: Annotated[float, Gt(0.0), Lt(1.0)] = 0.5
    """Share of the recordings to score on, where one file serves for both."""
    resamples: Annotated[int, Ge(10)] = 1000
    """Resamples of recordings and draws, for the intervals."""


def evaluate_cube(
    train: CubeTosses,
    test: CubeTosses,
    settings: CubeEvaluationConfig | None = None,
    *,
    seed: int = 0,
    n_real: int = 10,
    draws: int = 20,
    folder: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Fit on `n_real` random tosses of `train`, score on `test`, `draws` times; plain data.

    Where `test` is `train`, its recordings are split. Where they only share recordings, `train` gives up its copies.

    Args:
        train: to draw from.
        test: to score on.
        settings: what is fitted and played.
        seed: of the split, the draws, the searches and the ensembles.
        n_real: tosses to learn from.
        draws: how many times.
        folder: keeps each draw's errors; one that is there already, of the same settings and tosses, is not repeated.
        progress: called with the number of draws done, and `draws`.

    Returns:
        `settings`, `tosses`, `figures` (key -> method -> figure -> [value, low, high], an interval of 95 % over
        recordings and draws, and [low, high] of the draws in `over_draws`), `ratios` of ours to the tuned MuJoCo,
        `parameters`,
        and `skipped`: draws and why.

    Raises:
        BadInput: fewer recordings than `n_real`, `draws` below 1, or no usable first impact in `test`.
    """
    settings = settings or CubeEvaluationConfig()
    if draws < 1:
        raise BadInput(f"evaluate_cube: draws = {draws}; at least 1")
    train, test, shared = _separate(train, test, settings.held_out, seed)
    key = config_hash({"settings": to_plain(settings), "n": n_real, "seed": seed, "tosses": _digest(train, test)})
    done: list[_Draw] = []
    for k in range(draws):
        path = None if folder is None else Path(folder) / f"draw_{k:03d}.json"
        found = None if path is None else _load(path, key)
        if found is None:
            found = _draw(train, test, settings, seed + k, n_real, rollouts=k < settings.rollout_draws)
            if path is not None:
                _save(path, key, found)
        done.append(found)
        if progress is not None:
            progress(k + 1, draws)
    return {
        "schema": "dexprior.cube_evaluation/1",
        "settings": to_plain(settings),
        "seed": seed,
        "n_real": n_real,
        "draws": draws,
        "tosses": {"train": len(train), "test": len(test), "shared_and_left_out": shared},
        "figures": _figures(done, test, settings),
        "ratios": _ratios(done, test, settings),
        "parameters": [draw.parameters for draw in done],
        "skipped": {str(k): draw.skipped for k, draw in enumerate(done) if draw.skipped},
    }


# --- one draw -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Draw:
    errors: _Arrays
    """`key/method/column` -> one number per test toss, NaN where the question does not apply."""
    scalars: dict[str, float]
    """`key/method/figure` -> number."""
    parameters: dict[str, Any]
    skipped: list[str]


def _draw(
    train: CubeTosses, test: CubeTosses, settings: CubeEvaluationConfig, seed: int, n_real: int, *, rollouts: bool
) -> _Draw:
    chosen = train.sample(n_real, seed)
    draw = _Draw(errors={}, scalars={}, parameters={"seed": seed}, skipped=[])
    try:
        scale = fit_scale(chosen)
    except BadInput as error:
        draw.skipped.append(str(error))
        return draw
    draw.parameters["scale"] = [scale.half_width, scale.gravity, scale.table_height]
    _first(draw, chosen, test, scale, settings, seed)
    if rollouts:
        _whole(draw, chosen, test, scale, settings, seed)
    return draw


def _first(
    draw: _Draw, chosen: CubeTosses, test: CubeTosses, scale: CubeScale, settings: CubeEvaluationConfig, seed: int
) -> None:
    scored = first_impacts(test, scale, settings.segmentation)
    wider = replace(
        settings.segmentation,
        second_corner=min(settings.learned_second_corner, settings.segmentation.second_corner),
    )
    family = settings.family
    prior = simulate_family_impacts(
        scored, family_prior()[None], substeps=family.impact_substeps, threads=family.threads
    )[0]
    predicted = {"prior": prior, "bound": point_impulse_bound(scored)}
    single = _impacts_or_none(chosen, scale, settings.segmentation)
    wide = _impacts_or_none(chosen, scale, wider)
    draw.parameters["first_impacts"] = {"single": len(single or ()), "ours": len(wide or ())}
    if wide is not None and len(wide) >= _MIN_IMPACTS:
        model = fit_first_impacts(wide, family, seed=seed)
        predicted["ours"], covariance = model.predict(scored)
        draw.parameters["first/ours"] = dict(zip(CUBE_FAMILY, model.phi.tolist()))
        _spread(draw, scored, predicted["ours"], covariance)
    else:
        draw.skipped.append(f"first/ours: {len(wide or ())} usable first impacts in {len(chosen)} tosses")
    if single is not None and len(single) >= _MIN_IMPACTS:
        objective = first_impact_objective(single, settings.simulation)
        tuned = {
            "mujoco_cma": tune_cma(objective, settings.cma, seed=seed, start=SOFT_CONTACT)[0],
            "mujoco_grid": tune_grid(objective, settings.grid)[0],
        }
        for name, phi in tuned.items():
            predicted[name] = simulate_first_impacts(scored, phi[None], settings.simulation)[0]
            draw.parameters[f"first/{name}"] = dict(zip(CUBE_PARAMETERS, phi.tolist()))
        textbook = fit_corner_impact(single)
        predicted["closed_form"] = corner_impact(scored, *textbook)
        draw.parameters["first/closed_form"] = {"restitution": textbook[0], "friction": textbook[1]}
    else:
        draw.skipped.append(f"first/others: {len(single or ())} single-corner first impacts in {len(chosen)} tosses")
    for name, post in predicted.items():
        column = np.full(len(test), np.nan)
        column[scored.toss] = relative_error(post, scored)
        draw.errors[f"first/{name}/relative"] = column


def _impacts_or_none(tosses: CubeTosses, scale: CubeScale, settings: SegmentationConfig) -> CornerImpacts | None:
    """`first_impacts`, but None where there is none: a few random tosses may well have no usable one."""
    try:
        return first_impacts(tosses, scale, settings)
    except BadInput:
        return None


def _spread(draw: _Draw, impacts: CornerImpacts, post: np.ndarray, covariance: np.ndarray) -> None:
    missed = contact_frame(impacts, impacts.post - post)
    deviation = np.sqrt(np.einsum("bii->bi", covariance))
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), missed[..., None])[..., 0]
    log_determinant = np.linalg.slogdet(covariance)[1]
    density = -0.5 * ((whitened**2).sum(-1) + log_determinant + 6.0 * np.log(2.0 * np.pi))
    draw.scalars["first/ours/coverage_90"] = float((np.abs(missed) < _NORMAL_90 * deviation).mean())
    draw.scalars["first/ours/log_likelihood"] = float(density.mean())


def _whole(
    draw: _Draw, chosen: CubeTosses, test: CubeTosses, scale: CubeScale, settings: CubeEvaluationConfig, seed: int
) -> None:
    start = flight_starts(chosen, scale, settings.segmentation)
    ours = fit_whole_tosses(chosen, scale, settings.family, seed=seed, initial=start)
    objective = whole_toss_objective(chosen, scale, settings.simulation, initial=start)
    cma, _ = tune_cma(objective, settings.cma, seed=seed, start=SOFT_CONTACT)
    grid, _ = tune_grid(objective, settings.grid)
    short, _ = tune_cma(
        subtrajectory_objective(chosen, scale, settings.simulation, stride=settings.fit_stride),
        settings.cma,
        seed=seed,
        start=SOFT_CONTACT,
    )

    def mujoco(phi: np.ndarray) -> TossSimulator:
        return MujocoTosses(phi=phi, scale=scale, settings=settings.simulation)

    cube = CubeSimulator(phi=ours, scale=scale, substeps=settings.family.substeps, threads=settings.family.threads)
    draw.parameters["whole/ours"] = dict(zip(CUBE_FAMILY, ours.tolist()))
    for name, phi in {"whole/mujoco_cma": cma, "whole/mujoco_grid": grid, "steps/mujoco_cma": short}.items():
        draw.parameters[name] = dict(zip(CUBE_PARAMETERS, phi.tolist()))
    measured = test.padded()
    steps = measured.shape[1] - 1
    simulators: dict[str, TossSimulator] = {
        "ours_single": cube,
        "mujoco_cma": mujoco(cma),
        "mujoco_grid": mujoco(grid),
        "prior": replace(cube, phi=family_prior()),
    }
    starts = {"flight": flight_starts(test, scale, settings.segmentation), "frame0": test.initial_states}
    for where, initial in starts.items():
        played = {name: simulator.rollout(initial, steps, seed) for name, simulator in simulators.items()}
        for name, mean, simulator in (
            ("ours", "ours", cube),
            ("mujoco_cma", "mujoco_cma_mean", simulators["mujoco_cma"]),
        ):
            members = ensemble(stochastic(simulator), initial, steps, members=settings.members, seed=seed)
            played[mean] = mean_states(members)
            played[mean][:, 0] = initial
            if where == "flight":
                _distribution(draw, name, members, measured, test)
        for name, states in played.items():
            errors = whole_toss_errors(states, measured, test, scale)
            for column in ("cost", "final_cost", "position", "angle", "penetration"):
                draw.errors[f"whole/{where}/{name}/{column}"] = getattr(errors, column)
    for horizon in (80, 16):
        usable = np.flatnonzero(test.lengths > horizon)
        for name, simulator in {"ours": cube, "mujoco_cma": mujoco(short), "prior": simulators["prior"]}.items():
            found = subtrajectories(simulator, test, steps=horizon, stride=settings.score_stride, seed=seed)
            for column in ("position", "rotation"):
                draw.errors[f"steps_{horizon}/{name}/{column}"] = _spread_out(getattr(found, column), usable, len(test))


def _distribution(draw: _Draw, name: str, members: np.ndarray, measured: np.ndarray, test: CubeTosses) -> None:
    rows = np.arange(len(test))
    last = test.lengths - 1
    final, real = members[:, rows, last], measured[rows, last]
    draw.errors[f"distribution/{name}/face_probability"] = face_probability(final, real)
    draw.errors[f"distribution/{name}/face_hit"] = (face_up(members[0, rows, last]) == face_up(real)).astype(float)
    draw.errors[f"distribution/{name}/log_likelihood"] = kernel_likelihood(final, real)
    for axis, letter in enumerate("xy"):
        draw.scalars[f"distribution/{name}/coverage_90_{letter}"] = coverage(final[..., axis], real[:, axis])


def _spread_out(values: np.ndarray, rows: np.ndarray, n: int) -> np.ndarray:
    column = np.full(n, np.nan)
    column[rows] = values
    return column


# --- figures ------------------------------------------------------------------------------------------------

_Statistic = Callable[[np.ndarray], np.ndarray]


def _share(bound: float, *, above: bool = False) -> _Statistic:
    def share(x: np.ndarray) -> np.ndarray:
        hit = np.where(np.isnan(x), np.nan, x > bound if above else x < bound)
        found: np.ndarray = np.nanmean(hit, axis=0)
        return found

    return share


def _median(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.nanmedian(x, axis=0)
    return found


def _mean(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.nanmean(x, axis=0)
    return found


_FIGURES: dict[str, dict[str, _Statistic]] = {
    "relative": {"within_0.1": _share(0.1), "within_0.2": _share(0.2), "median": _median},
    "cost": {"e_q_median": _median, "e_q_mean": _mean, "e_q_above_0.5": _share(0.5, above=True)},
    "final_cost": {"final_e_q_median": _median, "final_e_q_above_0.5": _share(0.5, above=True)},
    "position": {"position": _mean},
    "angle": {"angle_deg": _mean},
    "penetration": {"penetration_percent": _mean},
    "rotation": {"rotation": _mean},
    "face_probability": {"face_probability": _mean},
    "face_hit": {"single_rollout_face_hit": _mean},
    "log_likelihood": {"median_log_likelihood": _median},
}
"""Column -> figure -> statistic over the tosses (first axis) of each draw. Positions of whole tosses are in % of the
width, those of sub-trajectories in m; rotations in rad."""


def _figures(done: list[_Draw], test: CubeTosses, settings: CubeEvaluationConfig) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name in sorted({name for draw in done for name in draw.errors}):
        key, method, column = name.rsplit("/", 2)
        values = np.stack([draw.errors[name] for draw in done if name in draw.errors], axis=1)
        entry = figures.setdefault(key, {}).setdefault(method, {"draws": values.shape[1], "over_draws": {}})
        for figure, statistic in _FIGURES[column].items():
            entry[figure] = _interval(values, lambda x, axis, s=statistic: s(x).mean(), test, settings)
            each = statistic(values)
            entry["over_draws"][figure] = [float(np.quantile(each, q)) for q in (0.025, 0.975)]
    for name in sorted({name for draw in done for name in draw.scalars}):
        key, method, figure = name.rsplit("/", 2)
        found = [draw.scalars[name] for draw in done if name in draw.scalars]
        figures[key][method][figure] = [
            float(np.mean(found)),
            float(np.quantile(found, 0.025)),
            float(np.quantile(found, 0.975)),
        ]
    return figures


_RATIOS = {
    "whole/flight/ours to mujoco_cma, e_q": ("whole/flight/ours/cost", "whole/flight/mujoco_cma/cost"),
    "whole/flight/ours to mujoco_cma_mean, e_q": ("whole/flight/ours/cost", "whole/flight/mujoco_cma_mean/cost"),
    "whole/flight/ours to mujoco_grid, e_q": ("whole/flight/ours/cost", "whole/flight/mujoco_grid/cost"),
    "whole/flight/ours_single to mujoco_cma, e_q": ("whole/flight/ours_single/cost", "whole/flight/mujoco_cma/cost"),
    "whole/frame0/ours to mujoco_cma, e_q": ("whole/frame0/ours/cost", "whole/frame0/mujoco_cma/cost"),
    "whole/ours from the flight to mujoco_cma from frame 0, e_q": (
        "whole/flight/ours/cost",
        "whole/frame0/mujoco_cma/cost",
    ),
    "steps_80/ours to mujoco_cma, position": ("steps_80/ours/position", "steps_80/mujoco_cma/position"),
    "steps_80/ours to mujoco_cma, rotation": ("steps_80/ours/rotation", "steps_80/mujoco_cma/rotation"),
}


def _ratios(done: list[_Draw], test: CubeTosses, settings: CubeEvaluationConfig) -> dict[str, list[float]]:
    """Ratios of means over tosses and draws, with their intervals."""
    ratios = {}
    for label, names in _RATIOS.items():
        pairs = [np.stack([draw.errors[name] for name in names], axis=-1) for draw in done if names[0] in draw.errors]
        if pairs:
            values = np.stack(pairs, axis=1)
            ratios[label] = _interval(values, lambda x, axis: np.divide(*np.nanmean(x, axis=(0, 1))), test, settings)
    return ratios


def _interval(
    values: np.ndarray, statistic: Callable[..., np.ndarray], test: CubeTosses, settings: CubeEvaluationConfig
) -> list[float]:
    used = ~np.isnan(values.reshape(len(values), -1)).all(axis=1)
    return list(
        bootstrap(
            values[used],
            statistic,
            groups=test.duplicate_group[used],
            crossed=True,
            level=_LEVEL,
            draws=settings.resamples,
        )
    )


# --- tosses and files ---------------------------------------------------------------------------------------


def _separate(train: CubeTosses, test: CubeTosses, held_out: float, seed: int) -> tuple[CubeTosses, CubeTosses, int]:
    """Tosses without a recording in common, and how many were left out for it."""
    copies = _copies(train, test)
    if not copies.any():
        return train, test, 0
    if copies.all() and len(train) == len(test):
        return *split_groups(train, held_out, seed), 0
    if copies.all():
        raise BadInput(f"evaluate_cube: all {len(train)} tosses to learn from are among the {len(test)} to score on")
    return train.take(np.flatnonzero(~copies)), test, int(copies.sum())


def _copies(train: CubeTosses, test: CubeTosses) -> Bool[np.ndarray, " toss"]:
    """Which tosses of `train` start exactly like one of `test`."""
    known = {row.tobytes() for row in test.initial_states}
    return np.array([row.tobytes() in known for row in train.initial_states], dtype=bool)


def _digest(train: CubeTosses, test: CubeTosses) -> list[str]:
    import hashlib

    return [hashlib.sha256(tosses.states.tobytes()).hexdigest()[:12] for tosses in (train, test)]


def _save(path: Path, key: str, draw: _Draw) -> None:
    plain = {
        "key": key,
        "errors": {k: [None if np.isnan(x) else float(x) for x in v] for k, v in draw.errors.items()},
        "scalars": draw.scalars,
        "parameters": draw.parameters,
        "skipped": draw.skipped,
    }
    write_atomic(path, json.dumps(plain).encode())


def _load(path: Path, key: str) -> _Draw | None:
    """An earlier run's draw, if it is of the same settings and tosses."""
    if not path.is_file():
        return None
    plain = read_object(path)
    if plain.get("key") != key:
        return None
    errors = {k: np.array([np.nan if x is None else x for x in v]) for k, v in plain["errors"].items()}
    return _Draw(errors=errors, scalars=plain["scalars"], parameters=plain["parameters"], skipped=plain["skipped"])
