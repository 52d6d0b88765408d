"""How well a simulator plays measured tosses: one function for each published way to ask.

| question | function | after |
|---|---|---|
| velocity after the first impact | `relative_error`, `point_impulse_bound` | CLASH, equation 4 |
| whole toss, from frame 0 | `whole_toss` | Acosta, Yang and Posa 2022 (e_q); ContactNets (width, angle, penetration) |
| 80 or 16 steps from every frame | `subtrajectories` | NeRD |
| distributions | `face_probability`, `kernel_likelihood`, `coverage` | |

Errors are kept per toss, so that intervals resample recordings (`bootstrap`) and simulators are compared in pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from dexprior.collision.generator import best_impulse
from dexprior.collision.surrogate import apply_impulse
from dexprior.data.tosses import CUBE_HALF_WIDTH, CubeScale, CubeTosses, lowest_corner
from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_quat, rotation_angle
from dexprior.studies.cubes.segmentation import CornerImpacts
from dexprior.studies.cubes.simulation import TossSimulator

__all__ = [
    "SubtrajectoryErrors",
    "WholeTossErrors",
    "bootstrap",
    "coverage",
    "face_probability",
    "face_up",
    "kernel_likelihood",
    "paired_ratio",
    "point_impulse_bound",
    "pose_cost",
    "relative_error",
    "subtrajectories",
    "subtrajectory_errors",
    "subtrajectory_starts",
    "whole_toss",
    "whole_toss_errors",
]

_LARGE = 0.5  # an e_q above it: the cube ended on another face, or far away
_CHUNK = 2000  # rollouts at a time, which bounds memory


# --- first impacts ------------------------------------------------------------------------------------------


def relative_error(
    predicted: Float[np.ndarray, "*candidate impact 6"], impacts: CornerImpacts
) -> Float[np.ndarray, "*candidate impact"]:
    """||predicted - measured|| / ||measured|| of the velocity after, in the kinetic-energy norm."""
    scale = impacts.velocity_scale
    distance = np.linalg.norm((predicted - impacts.post) * scale, axis=-1)
    return distance / np.linalg.norm(impacts.post * scale, axis=-1)


def point_impulse_bound(impacts: CornerImpacts) -> Float[np.ndarray, "impact 6"]:
    """The best that one impulse at the touching corner can do: a bound, not a model, as it sees the outcome."""
    geometry = impacts.geometry
    impulse = best_impulse(impacts.post - impacts.pre, geometry)
    return apply_impulse(impacts.pre, geometry, impulse, np.zeros_like(impulse))[0]


# --- whole tosses -------------------------------------------------------------------------------------------


def pose_cost(
    states: Float[np.ndarray, "*batch 13"], measured: Float[np.ndarray, "*batch 13"]
) -> Float[np.ndarray, " *batch"]:
    """e_q of one frame: dist^2 / 0.0524 + angle^2, with dist in m and angle in rad."""
    apart = ((states[..., :3] - measured[..., :3]) ** 2).sum(-1)
    return apart / CUBE_HALF_WIDTH + rotation_angle(states[..., 3:7], measured[..., 3:7]) ** 2


@dataclass(frozen=True, kw_only=True)
class WholeTossErrors:
    """Errors of one simulator, toss by toss, from frame 0 to the last measured frame."""

    cost: Float[np.ndarray, " toss"]
    """e_q, averaged over the frames after frame 0: the published figures are of this average."""
    final_cost: Float[np.ndarray, " toss"]
    """e_q of the last frame."""
    position: Float[np.ndarray, " toss"]
    """Mean distance of the centres, in % of the cube's width."""
    angle: Float[np.ndarray, " toss"]
    """Mean angle [deg]."""
    penetration: Float[np.ndarray, " toss"]
    """Mean depth of the simulated cube's lowest corner below the table, in % of the width."""
    group: Int[np.ndarray, " toss"]
    """Duplicate group."""


def whole_toss(
    simulator: TossSimulator,
    tosses: CubeTosses,
    scale: CubeScale,
    *,
    initial: Float[np.ndarray, "toss 13"] | None = None,
    seed: int = 0,
) -> WholeTossErrors:
    """Play every toss from frame 0 and compare every later frame.

    Args:
        simulator: the player.
        tosses: what happened.
        scale: of the width and the table, for position and penetration.
        initial: states at frame 0; the measured ones where not given (`flight_starts` gives smoother ones).
        seed: for a stochastic simulator.

    Raises:
        BadInput: the simulator returns another shape, or states that are not finite.
    """
    start = tosses.initial_states if initial is None else initial
    measured = tosses.padded()
    steps = measured.shape[1] - 1
    states = _play(simulator, start, steps, seed)
    return whole_toss_errors(states, measured, tosses, scale)


def whole_toss_errors(
    states: Float[np.ndarray, "toss frame 13"],
    measured: Float[np.ndarray, "toss frame 13"],
    tosses: CubeTosses,
    scale: CubeScale,
) -> WholeTossErrors:
    """As `whole_toss`, of rollouts that exist already; `measured` is `tosses.padded()`."""
    weight = tosses.frame_weights
    width = 2.0 * scale.half_width
    cost = pose_cost(states, measured)
    apart = np.linalg.norm(states[..., :3] - measured[..., :3], axis=-1)
    angle = np.degrees(rotation_angle(states[..., 3:7], measured[..., 3:7]))
    depth = np.maximum(-lowest_corner(states, scale), 0.0)
    return WholeTossErrors(
        cost=(weight * cost).sum(axis=1),
        final_cost=cost[np.arange(len(tosses)), tosses.lengths - 1],
        position=100.0 / width * (weight * apart).sum(axis=1),
        angle=(weight * angle).sum(axis=1),
        penetration=100.0 / width * (weight * depth).sum(axis=1),
        group=tosses.duplicate_group,
    )


# --- sub-trajectories ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SubtrajectoryErrors:
    """Errors of one simulator, averaged over the sub-trajectories of each toss that is long enough."""

    position: Float[np.ndarray, " toss"]
    """Mean distance of the centres [m]."""
    rotation: Float[np.ndarray, " toss"]
    """Mean angle [rad]."""
    count: Int[np.ndarray, " toss"]
    """Sub-trajectories of each toss."""
    group: Int[np.ndarray, " toss"]
    """Duplicate group."""


def subtrajectories(
    simulator: TossSimulator, tosses: CubeTosses, *, steps: int = 80, stride: int = 1, seed: int = 0
) -> SubtrajectoryErrors:
    """Restart the simulator from every `stride`-th measured frame and let it run for `steps` frames.

    The error of a sub-trajectory is the mean over its frames 1..steps. A toss's figure is the mean over its
    sub-trajectories, so that intervals can resample tosses.

    Raises:
        BadInput: no toss is longer than `steps`; the simulator returns another shape, or states that are not finite.
    """
    begin, toss = subtrajectory_starts(tosses, steps, stride)
    window = np.arange(steps + 1)
    position, rotation = np.zeros(len(begin)), np.zeros(len(begin))
    for chunk in range(0, len(begin), _CHUNK):
        rows = slice(chunk, chunk + _CHUNK)
        measured = tosses.states[begin[rows, None] + window]
        states = _play(simulator, measured[:, 0], steps, seed + chunk)
        position[rows], rotation[rows] = subtrajectory_errors(states, measured)
    count = np.bincount(toss, minlength=len(tosses))
    used = count > 0
    return SubtrajectoryErrors(
        position=np.bincount(toss, position, len(tosses))[used] / count[used],
        rotation=np.bincount(toss, rotation, len(tosses))[used] / count[used],
        count=count[used],
        group=tosses.duplicate_group[used],
    )


def subtrajectory_errors(
    states: Float[np.ndarray, "*batch frame 13"], measured: Float[np.ndarray, "*batch frame 13"]
) -> tuple[Float[np.ndarray, " *batch"], Float[np.ndarray, " *batch"]]:
    """Mean distance [m] and mean angle [rad] over all frames but the first."""
    apart = np.linalg.norm(states[..., 1:, :3] - measured[..., 1:, :3], axis=-1).mean(-1)
    angle = rotation_angle(states[..., 1:, 3:7], measured[..., 1:, 3:7]).mean(-1)
    return apart, angle


def subtrajectory_starts(
    tosses: CubeTosses, steps: int, stride: int
) -> tuple[Int[np.ndarray, " start"], Int[np.ndarray, " start"]]:
    """Rows that start a sub-trajectory, and the toss of each.

    Raises:
        BadInput: no toss is longer than `steps`.
    """
    first = [np.arange(s, e - steps, stride) for s, e in zip(tosses.start[:-1], tosses.start[1:])]
    if not any(len(f) for f in first):
        raise BadInput(f"sub-trajectories of {steps} steps need longer tosses; the longest has {tosses.lengths.max()}")
    return np.concatenate(first), np.repeat(np.arange(len(tosses)), [len(f) for f in first])


# --- distributions ------------------------------------------------------------------------------------------


def face_up(states: Float[np.ndarray, "*batch 13"]) -> Int[np.ndarray, " *batch"]:
    """Which face looks up: 0..5 for +x -x +y -y +z -z of the body."""
    up = matrix_from_quat(states[..., 3:7])[..., 2, :]
    axis = np.abs(up).argmax(-1)
    sign = np.take_along_axis(up, axis[..., None], axis=-1)[..., 0] < 0
    return 2 * axis + sign


def face_probability(
    members: Float[np.ndarray, "member toss 13"], measured: Float[np.ndarray, "toss 13"]
) -> Float[np.ndarray, " toss"]:
    """Probability that an ensemble's final states give to the face that really came up.

    Counts with half a member added to each of the six faces (Krichevsky and Trofimov 1981), so that it is never zero.
    """
    hits = (face_up(members) == face_up(measured)).sum(axis=0)
    return (hits + 0.5) / (len(members) + 3.0)


def kernel_likelihood(
    members: Float[np.ndarray, "member toss 13"], measured: Float[np.ndarray, "toss 13"], *, bandwidth: float = 0.1
) -> Float[np.ndarray, " toss"]:
    """Log density of each measured pose under a Gaussian kernel estimate of the ensemble [nats].

    The kernel's distance is sqrt(e_q), over x, y and the rotation vector: five numbers, as the height of a cube at rest
    is no news. `bandwidth` is its standard deviation: 0.1 is 23 mm or 0.1 rad.
    """
    apart = ((members[..., :2] - measured[..., :2]) ** 2).sum(-1) / CUBE_HALF_WIDTH
    cost = apart + rotation_angle(members[..., 3:7], measured[..., 3:7]) ** 2
    kernel = -0.5 * cost / bandwidth**2
    top = kernel.max(axis=0)
    log_mean = top + np.log(np.exp(kernel - top).mean(axis=0))
    return log_mean - 2.5 * np.log(2.0 * np.pi * bandwidth**2) - np.log(CUBE_HALF_WIDTH)


def coverage(
    members: Float[np.ndarray, "member toss"], measured: Float[np.ndarray, " toss"], *, level: float = 0.9
) -> float:
    """Share of measured values inside the ensemble's central interval; `level` of them for honest ensembles."""
    tail = 0.5 * (1.0 - level)
    low, high = np.quantile(members, [tail, 1.0 - tail], axis=0)
    return float(((measured >= low) & (measured <= high)).mean())


# --- intervals ----------------------------------------------------------------------------------------------


def bootstrap(
    values: Float[np.ndarray, "toss *columns"],  # noqa: UP037
    statistic: Callable[..., np.ndarray] = np.mean,
    *,
    groups: Int[np.ndarray, " toss"] | None = None,
    crossed: bool = False,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> tuple[float, float, float]:
    """A statistic with its percentile bootstrap interval over recordings: (value, low, high).

    Args:
        values: one row per toss.
        statistic: called with `axis=0`.
        groups: tosses of one group are drawn together; each alone where not given.
        crossed: columns are draws that were scored on the same tosses, and are resampled as well (see
            `dexprior.stats.bootstrap_crossed`).
        level: of the interval.
        draws: resamples.
        seed: of the resampling.

    Raises:
        BadInput: no values.
    """
    values = np.asarray(values, dtype=np.float64)
    if len(values) == 0:
        raise BadInput("bootstrap: no values")
    kinds = np.arange(len(values)) if groups is None else np.unique(groups, return_inverse=True)[1]
    members = [np.flatnonzero(kinds == k) for k in range(kinds.max() + 1)]
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        sample = values[np.concatenate([members[k] for k in rng.integers(len(members), size=len(members))])]
        if crossed:
            sample = sample[:, rng.integers(sample.shape[1], size=sample.shape[1])]
        found.append(statistic(sample, axis=0))
    tail = 0.5 * (1.0 - level)
    low, high = np.quantile(found, [tail, 1.0 - tail])
    return float(statistic(values, axis=0)), float(low), float(high)


def paired_ratio(
    ours: Float[np.ndarray, " toss"],
    theirs: Float[np.ndarray, " toss"],
    *,
    groups: Int[np.ndarray, " toss"] | None = None,
    kind: str = "mean",
    draws: int = 2000,
    seed: int = 0,
) -> tuple[float, float, float]:
    """Ratio of two simulators' errors on the same tosses, with its interval: (value, low, high).

    Args:
        ours: errors of the first.
        theirs: errors of the second.
        groups: as in `bootstrap`.
        kind: `mean` for the ratio of means, `median` for that of medians, `geometric` for the mean log ratio.
        draws: resamples.
        seed: of the resampling.

    Raises:
        BadInput: unknown kind.
    """

    def geometric(pairs: np.ndarray, axis: int) -> np.ndarray:
        return np.exp(np.log(pairs[:, 0] / pairs[:, 1]).mean(axis=axis))

    kinds: dict[str, Callable[..., np.ndarray]] = {
        "mean": lambda pairs, axis: np.divide(*pairs.mean(axis=axis)),
        "median": lambda pairs, axis: np.divide(*np.median(pairs, axis=axis)),
        "geometric": geometric,
    }
    if kind not in kinds:
        raise BadInput(f"paired_ratio: kind = {kind!r}; choices: {', '.join(kinds)}")
    return bootstrap(np.stack([ours, theirs], axis=1), kinds[kind], groups=groups, draws=draws, seed=seed)


def _play(simulator: TossSimulator, start: np.ndarray, steps: int, seed: int) -> np.ndarray:
    states = np.asarray(simulator.rollout(start, steps, seed))
    if states.shape != (len(start), steps + 1, 13):
        raise BadInput(
            f"{type(simulator).__name__}.rollout returned {states.shape}, expected {(len(start), steps + 1, 13)}: "
            "toss, frame (the first is the initial state), state"
        )
    if not np.isfinite(states).all():
        bad = int((~np.isfinite(states)).any(axis=(1, 2)).sum())
        raise BadInput(f"{type(simulator).__name__}.rollout returned states that are not finite in {bad} tosses")
    return states
