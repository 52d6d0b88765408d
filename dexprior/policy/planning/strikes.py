"""One strike that brings an object to a target pose, found by asking a simulator of strikes.

cost = distance + weight * angle, with the radius of gyration as the weight unless another is given: a turn then costs
what moving a typical point of the object by it does.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from dexprior.config import Ge, Gt, Lt, config
from dexprior.errors import BadInput, ConfigError
from dexprior.geometry.rotations import wrap_angle
from dexprior.policy.planning.search import CemSearch, CmaSearch, Search
from dexprior.worlds.pushing import PushingConfig, Strikes, simulate_strikes

__all__ = ["MujocoStriker", "PlanConfig", "Plans", "StrikeSimulator", "plan_strikes", "pose_cost", "pose_error"]


@runtime_checkable
class StrikeSimulator(Protocol):
    """Where struck objects come to rest."""

    def __call__(self, pose: Float[np.ndarray, "strike 3"], strikes: Strikes) -> Float[np.ndarray, "strike 3"]:
        """Final poses [x y yaw] of objects at rest at `pose`, one strike each."""
        ...


@dataclass(frozen=True, kw_only=True)
class MujocoStriker:
    """A `StrikeSimulator` that is MuJoCo from the first touch to rest."""

    config: PushingConfig
    parameters: Mapping[str, float] = field(default_factory=dict)
    """Values other than the world's, by names of `PUSHING_PARAMETERS`."""
    threads: int = 1

    def __call__(self, pose: Float[np.ndarray, "strike 3"], strikes: Strikes) -> Float[np.ndarray, "strike 3"]:
        """Final poses; the rod is retracted after the first separation."""
        parameters = {name: np.full(len(strikes), value) for name, value in self.parameters.items()}
        return simulate_strikes(self.config, pose, strikes, parameters=parameters, threads=self.threads).final_pose


@config
class PlanConfig:
    """What is searched, and with how many simulated strikes."""

    method: Literal["cma", "cem"] = "cma"
    """CMA-ES, or the cross-entropy method."""
    evaluations: Annotated[int, Ge(8)] = 400
    """Simulated strikes per plan, the same for every simulator; a whole number of populations."""
    population: Annotated[int, Ge(4)] = 40
    """Strikes per generation; all of a generation are simulated at once."""
    speed: tuple[float, float] = (0.1, 1.0)
    """Slowest and fastest rod [m/s]."""
    orientation_weight: Annotated[float, Ge(0)] | None = None
    """w of the cost [m/rad]; None takes the radius of gyration."""
    initial_std: Annotated[float, Gt(0)] = 0.2
    """Standard deviation of CMA-ES after the first population, on the scale where each range is [-1, 1]."""
    elite_share: Annotated[float, Gt(0), Lt(1)] = 0.2
    """Share of a population that the cross-entropy method fits."""

    def __post_init__(self) -> None:
        if not 0.01 <= self.speed[0] < self.speed[1]:
            raise ConfigError(f"plan.speed = {self.speed}: needs 0.01 <= slowest < fastest")
        if self.evaluations % self.population:
            raise ConfigError(
                f"plan.evaluations = {self.evaluations} is not a whole number of populations of {self.population}"
            )


@dataclass(frozen=True, kw_only=True)
class Plans:
    """The best strike found for each target."""

    strikes: Strikes
    final_pose: Float[np.ndarray, "plan 3"]
    """Where the simulator says that the object stops."""
    cost: Float[np.ndarray, " plan"]
    """[m]"""
    history: Float[np.ndarray, "plan generation"]
    """Best cost so far after each generation [m]."""
    evaluations: int
    """Simulated strikes per plan."""
    seconds: float
    """Wall-clock time of all plans together."""


def pose_error(
    pose: Float[np.ndarray, "*batch 3"], target: Float[np.ndarray, "*batch 3"]
) -> tuple[Float[np.ndarray, "*batch"], Float[np.ndarray, "*batch"]]:
    """Distance [m] and angle [rad] between two planar poses."""
    turn = np.abs(wrap_angle(pose[..., 2] - target[..., 2]))
    return np.linalg.norm(pose[..., :2] - target[..., :2], axis=-1), turn


def pose_cost(
    pose: Float[np.ndarray, "*batch 3"], target: Float[np.ndarray, "*batch 3"], *, weight: float
) -> Float[np.ndarray, "*batch"]:
    """Distance plus weight times the angle between two planar poses [m]."""
    distance, turn = pose_error(pose, target)
    return distance + weight * turn


def plan_strikes(
    world: PushingConfig,
    simulator: StrikeSimulator,
    pose: Float[np.ndarray, "plan 3"],
    target: Float[np.ndarray, "plan 3"],
    *,
    plan: PlanConfig | None = None,
    seed: int = 0,
) -> Plans:
    """Find one strike per target, all searches in step so that each generation is one call of the simulator.

    Each search is a function of (seed, its row) alone: other rows do not change it.

    Args:
        world: what is struck; bounds of the strikes come from it.
        simulator: MuJoCo, or a planar rollout.
        pose: [x y yaw] of each object at rest.
        target: [x y yaw] that it should stop at.
        plan: method and budget.
        seed: of the searches.

    Raises:
        BadInput: poses and targets that are not (n, 3) or not finite; a simulator that answers NaN.
    """
    plan = plan or PlanConfig()
    pose, target = np.asarray(pose, dtype=np.float64), np.asarray(target, dtype=np.float64)
    if pose.ndim != 2 or pose.shape[1] != 3 or pose.shape != target.shape or not len(pose):
        raise BadInput(f"plan_strikes: pose {pose.shape} and target {target.shape} must both be (n, 3), n > 0")
    if not (np.isfinite(pose).all() and np.isfinite(target).all()):
        raise BadInput("plan_strikes: a pose or a target is not finite")
    weight = world.footprint.gyration if plan.orientation_weight is None else plan.orientation_weight
    m, size = len(pose), plan.population
    started = time.perf_counter()
    searches = [_search(world, plan, np.random.default_rng([seed, row])) for row in range(m)]
    best_cost, best, best_pose = np.full(m, np.inf), np.zeros((m, 3)), np.zeros((m, 3))
    history = []
    for _ in range(plan.evaluations // size):
        asked = np.stack([search.ask() for search in searches])
        final = simulator(np.repeat(pose, size, axis=0), _strikes(world, plan, asked.reshape(-1, 3)))
        if not np.isfinite(final).all():
            raise BadInput(f"plan_strikes: {type(simulator).__name__} answered a pose that is not finite")
        final = final.reshape(m, size, 3)
        cost = pose_cost(final, target[:, None], weight=weight)
        for row, search in enumerate(searches):
            search.tell(asked[row], cost[row])
            k = int(cost[row].argmin())
            if cost[row, k] < best_cost[row]:
                best_cost[row], best[row], best_pose[row] = cost[row, k], asked[row, k], final[row, k]
        history.append(best_cost.copy())
    return Plans(
        strikes=_strikes(world, plan, best),
        final_pose=best_pose,
        cost=best_cost,
        history=np.stack(history, axis=1),
        evaluations=plan.evaluations,
        seconds=time.perf_counter() - started,
    )


def _search(world: PushingConfig, plan: PlanConfig, rng: np.random.Generator) -> Search:
    wraps = (world.shape != "semi_cylinder", False, False)  # the prisms are struck all around
    if plan.method == "cma":
        return CmaSearch(3, population=plan.population, std=plan.initial_std, wraps=wraps, rng=rng)
    elite = max(2, round(plan.elite_share * plan.population))
    return CemSearch(3, population=plan.population, elite=elite, wraps=wraps, rng=rng)


def _strikes(world: PushingConfig, plan: PlanConfig, unit: np.ndarray) -> Strikes:
    low, high = world.alpha_range
    slow, fast = plan.speed
    return Strikes(
        alpha=(low + high) / 2 + (high - low) / 2 * unit[:, 0],
        speed=(slow + fast) / 2 + (fast - slow) / 2 * unit[:, 1],
        beta=world.max_beta * unit[:, 2],
    )
