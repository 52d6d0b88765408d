"""MuJoCo at its best: contact parameters tuned on measured tosses, by CMA-ES or on a grid.

An objective maps candidate parameter sets to costs, all candidates in one batch:

    whole_toss_objective       mean over tosses of e_q / (e_q + 0.1), e_q averaged over the frames
    subtrajectory_objective    mean position error / 0.015 m + mean rotation error / 0.22 rad, restarts along the toss
    first_impact_objective     mean relative error of the velocity after the first impact

The first saturates: a toss that tumbles onto another face costs about as much whichever way it does, so that the few
chaotic tosses do not drown the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Annotated

import numpy as np
from jaxtyping import Float

from dexprior.config import Ge, Gt, config
from dexprior.data.tosses import CUBE_PARAMETERS, CubeScale, CubeTosses
from dexprior.errors import BadInput, UnknownName
from dexprior.stats.minimize import minimize_cma
from dexprior.studies.cubes.metrics import pose_cost, relative_error, subtrajectory_errors, subtrajectory_starts
from dexprior.studies.cubes.segmentation import CornerImpacts
from dexprior.studies.cubes.simulation import (
    DEFAULT_CONTACT,
    SimulationConfig,
    simulate_first_impacts,
    simulate_many,
)

__all__ = [
    "CUBE_RANGES",
    "CmaConfig",
    "Objective",
    "TossGridConfig",
    "first_impact_objective",
    "subtrajectory_objective",
    "tune_cma",
    "tune_grid",
    "whole_toss_objective",
]

Objective = Callable[[Float[np.ndarray, "candidate 9"]], Float[np.ndarray, " candidate"]]
"""Cost of each set of contact parameters."""

CUBE_RANGES: dict[str, tuple[float, float]] = {
    "friction": (0.02, 1.0),
    "damping_ratio": (0.05, 3.0),
    "time_constant": (0.0015, 0.03),
    "impratio": (0.1, 100.0),
    "torsional": (1e-5, 0.02),
    "rolling": (1e-6, 0.002),
    "impedance_start": (0.005, 0.999),
    "impedance_end": (0.005, 0.9999),
    "impedance_width": (1e-5, 0.02),
}
"""Ranges of `CUBE_PARAMETERS`, each at least as wide as our cube's; searched on log scales, the impedances on logit
scales."""

_SATURATION = 0.1  # e_q at which a toss costs half of what a lost one does
_CHUNK = 4000  # rollouts at a time, which bounds memory


@config
class CmaConfig:
    """CMA-ES over contact parameters (Hansen 2016, the `cma` package)."""

    names: tuple[str, ...] = (
        "friction",
        "damping_ratio",
        "time_constant",
        "impratio",
        "impedance_start",
        "impedance_end",
        "impedance_width",
    )
    """Parameters that are searched; the others keep MuJoCo's defaults."""
    evaluations: Annotated[int, Ge(1)] = 600
    """Parameter sets tried."""
    population: Annotated[int, Ge(4)] = 12
    """Parameter sets per generation."""
    spread: Annotated[float, Gt(0.0)] = 0.2
    """First standard deviation, as a share of each range."""


@config
class TossGridConfig:
    """The grid for tuning: values per parameter, evenly spaced on the search's own scales."""

    sizes: dict[str, int] = field(default_factory=lambda: {"friction": 8, "damping_ratio": 6, "time_constant": 4})
    """Parameter -> number of values; the others keep MuJoCo's defaults."""


# --- objectives ---------------------------------------------------------------------------------------------


def whole_toss_objective(
    tosses: CubeTosses,
    scale: CubeScale,
    settings: SimulationConfig,
    *,
    initial: Float[np.ndarray, "toss 13"] | None = None,
    saturation: float | None = _SATURATION,
) -> Objective:
    """Mean over tosses of e / (e + saturation), with e = e_q averaged over the frames after frame 0.

    Args:
        tosses: to learn from.
        scale: learned from the same tosses.
        settings: step and cone.
        initial: states at frame 0; the measured ones where not given.
        saturation: None for the mean of e itself.
    """
    measured, weight = tosses.padded(), tosses.frame_weights
    start = tosses.initial_states if initial is None else initial

    def cost(phis: np.ndarray) -> np.ndarray:
        def one(part: np.ndarray) -> np.ndarray:
            states = simulate_many(start, measured.shape[1] - 1, part, scale, settings)
            e = (weight * pose_cost(states, measured)).sum(axis=-1)
            return (e if saturation is None else e / (e + saturation)).mean(axis=1)

        return _in_parts(one, phis, len(tosses))

    return cost


def subtrajectory_objective(
    tosses: CubeTosses, scale: CubeScale, settings: SimulationConfig, *, steps: int = 80, stride: int = 8
) -> Objective:
    """Mean position error / 0.015 m + mean rotation error / 0.22 rad over sub-trajectories."""
    begin, _ = subtrajectory_starts(tosses, steps, stride)
    measured = tosses.states[begin[:, None] + np.arange(steps + 1)]

    def cost(phis: np.ndarray) -> np.ndarray:
        def one(part: np.ndarray) -> np.ndarray:
            states = simulate_many(measured[:, 0], steps, part, scale, settings)
            position, rotation = subtrajectory_errors(states, measured)
            return position.mean(axis=1) / 0.015 + rotation.mean(axis=1) / 0.22

        return _in_parts(one, phis, len(begin))

    return cost


def first_impact_objective(impacts: CornerImpacts, settings: SimulationConfig) -> Objective:
    """Mean relative error of the velocity after the first impact, in the kinetic-energy norm."""

    def cost(phis: np.ndarray) -> np.ndarray:
        return _in_parts(
            lambda part: relative_error(simulate_first_impacts(impacts, part, settings), impacts).mean(axis=1),
            phis,
            len(impacts),
        )

    return cost


def _in_parts(cost: Objective, phis: np.ndarray, rollouts: int) -> np.ndarray:
    size = max(1, _CHUNK // rollouts)
    return np.concatenate([cost(phis[k : k + size]) for k in range(0, len(phis), size)])


# --- searches -----------------------------------------------------------------------------------------------


def tune_cma(
    objective: Objective,
    settings: CmaConfig | None = None,
    *,
    seed: int,
    start: Mapping[str, float] = DEFAULT_CONTACT,
) -> tuple[Float[np.ndarray, " 9"], float]:
    """The best contact parameters that CMA-ES tried, and their cost; a function of the seed.

    Args:
        objective: to minimize.
        settings: which parameters, and how long.
        seed: of the search.
        start: where it starts, and the values of the parameters that are not searched.

    Raises:
        UnknownName: `names` holds no such parameter.
    """
    settings = settings or CmaConfig()
    _check_names(settings.names)
    low, high = (np.array([_search_scale(name, CUBE_RANGES[name][end]) for name in settings.names]) for end in (0, 1))
    centre = np.array([_search_scale(name, start[name]) for name in settings.names])
    first = np.clip((centre - low) / (high - low), 0.02, 0.98)

    def decoded(units: np.ndarray) -> np.ndarray:
        return _fill(settings.names, low + units * (high - low), start)

    best, lowest = minimize_cma(
        lambda units: objective(decoded(units)),
        first,
        spread=settings.spread,
        bounds=(0.0, 1.0),
        population=settings.population,
        evaluations=settings.evaluations,
        seed=seed,
    )
    return decoded(best[None])[0], lowest


def tune_grid(
    objective: Objective, settings: TossGridConfig | None = None, *, start: Mapping[str, float] = DEFAULT_CONTACT
) -> tuple[Float[np.ndarray, " 9"], float]:
    """The best contact parameters of a full grid, and their cost.

    Raises:
        UnknownName: `sizes` holds no such parameter.
        BadInput: a parameter has no value.
    """
    settings = settings or TossGridConfig()
    names = tuple(settings.sizes)
    _check_names(names)
    if min(settings.sizes.values(), default=0) < 1:
        raise BadInput(f"tune_grid: sizes {settings.sizes}; every parameter needs at least one value")
    ticks = [
        np.linspace(_search_scale(name, CUBE_RANGES[name][0]), _search_scale(name, CUBE_RANGES[name][1]), size)
        for name, size in settings.sizes.items()
    ]
    phis = _fill(names, np.stack(np.meshgrid(*ticks, indexing="ij"), -1).reshape(-1, len(names)), start)
    costs = objective(phis)
    return phis[int(costs.argmin())], float(costs.min())


def _check_names(names: tuple[str, ...]) -> None:
    for name in names:
        if name not in CUBE_PARAMETERS:
            raise UnknownName("contact parameter", name, CUBE_PARAMETERS)


def _search_scale(name: str, value: float) -> float:
    """Log, or logit for the impedances."""
    if name in ("impedance_start", "impedance_end"):
        return float(np.log(value / (1.0 - value)))
    return float(np.log(value))


def _fill(names: tuple[str, ...], points: np.ndarray, start: Mapping[str, float]) -> np.ndarray:
    """Whole parameter sets from points on the search scales; an impedance never falls with depth."""
    phis = np.tile([start[name] for name in CUBE_PARAMETERS], (len(points), 1))
    for column, name in enumerate(names):
        value = np.exp(points[:, column])
        phis[:, CUBE_PARAMETERS.index(name)] = (
            value / (1.0 + value) if name in ("impedance_start", "impedance_end") else value
        )
    first, last = CUBE_PARAMETERS.index("impedance_start"), CUBE_PARAMETERS.index("impedance_end")
    phis[:, last] = np.maximum(phis[:, last], phis[:, first])
    return phis
