"""Routes driven strike by strike, many at once: how many are finished, and how many sub-goals are reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from jaxtyping import Bool, Float, Int

from dexprior.envs.pushing import PushingTask, Segments, Striker, judge, observe, strikes_from_action
from dexprior.errors import BadInput
from dexprior.policy.pushing.routes import Route, next_segment
from dexprior.stats import Rate
from dexprior.worlds.pushing import PushingConfig, Strikes

__all__ = ["PushPolicy", "RouteRun", "evaluate_routes"]


class PushPolicy(Protocol):
    """Acts on what `observe` gives; SB3's policies do."""

    def predict(self, observation: Any, *, deterministic: bool = False) -> tuple[np.ndarray, Any]:
        """Actions in [-1, 1]."""
        ...


@dataclass(frozen=True)
class RouteRun:
    """What a policy did on one route from many starts."""

    route: Route
    completed: Int[np.ndarray, " run"]
    """Sub-goals reached."""
    strikes: Int[np.ndarray, " run"]
    """Used in all."""
    deviation: Float[np.ndarray, "run segment"]
    """Angle to each sub-goal's orientation when it was reached [rad]; NaN where it was not."""
    poses: tuple[Float[np.ndarray, "rest 3"], ...]
    """Poses of each run: where the object started, and where it stopped after each strike."""
    actions: tuple[Strikes, ...]
    """Actions of each run: the strikes."""

    @property
    def success(self) -> Bool[np.ndarray, " run"]:
        """Whether the whole route was done."""
        return self.completed == self.route.segments

    def as_dict(self) -> dict[str, Any]:
        """Success of full routes and share of sub-goals, with exact intervals; plain data."""
        n, segments = len(self.completed), self.route.segments
        return {
            "segments": segments,
            "success": Rate(int(self.success.sum()), n).as_dict(),
            "sub_goals": Rate(int(self.completed.sum()), n * segments).as_dict(),
            "strikes": float(self.strikes.mean()),
            "deviation": float(np.nanmean(self.deviation)) if np.isfinite(self.deviation).any() else None,
        }


def evaluate_routes(
    policy: PushPolicy,
    striker: Striker,
    route: Route,
    *,
    world: PushingConfig | None = None,
    task: PushingTask | None = None,
    runs: int = 100,
    seed: int = 0,
) -> RouteRun:
    """Drive a route from `runs` random starts: the planner sets sub-goals, the policy strikes.

    A run ends when the object leaves the safe zone of its segment, or when a sub-goal takes too many strikes.

    Args:
        policy: trained on one segment.
        striker: where the strikes are carried out: a real table, or a simulator.
        route: of segments of the task's length.
        world: what is struck.
        task: limits; rewards are not used.
        runs: from starts in the disc about the route's start, as in training.
        seed: of the starts.

    Raises:
        BadInput: a route whose segments are not of the task's length.
    """
    world, task = world or PushingConfig(), task or PushingTask()
    lengths = np.linalg.norm(np.diff(route.corners, axis=0), axis=1)
    if not np.allclose(lengths, task.length, atol=1e-6):
        raise BadInput(f"evaluate_routes: segments of {lengths.round(4)} m, the policy knows {task.length} m")
    rng = np.random.default_rng(seed)
    radius, angle = task.reached * np.sqrt(rng.random(runs)), rng.uniform(-np.pi, np.pi, runs)
    yaw = route.heading[0] + rng.uniform(-task.start_yaw, task.start_yaw, runs)
    pose = np.column_stack([route.corners[0] + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1), yaw])
    completed, used, total = (np.zeros(runs, dtype=int) for _ in range(3))
    deviation = np.full((runs, route.segments), np.nan)
    poses: list[list[np.ndarray]] = [[p.copy()] for p in pose]
    struck: list[list[tuple[float, float, float]]] = [[] for _ in range(runs)]
    running = np.arange(runs)
    while len(running):
        targets = [next_segment(route, int(k)) for k in completed[running]]
        segment = Segments(np.array([t[0] for t in targets]), np.array([t[1] for t in targets]))
        action, _ = policy.predict(observe(task, segment.local(pose[running]), segment.turn), deterministic=True)
        strikes = strikes_from_action(task, world, action)
        pose[running] = striker(pose[running], strikes)
        used[running] += 1
        total[running] += 1
        verdict = judge(task, segment.local(pose[running]), segment.turn, used[running])
        for k, run in enumerate(running):
            poses[run].append(pose[run].copy())
            struck[run].append((strikes.alpha[k], strikes.speed[k], strikes.beta[k]))
        arrived = running[verdict.reached]
        deviation[arrived, completed[arrived]] = verdict.deviation[verdict.reached]
        completed[arrived] += 1
        used[arrived] = 0
        stop = verdict.left | (used[running] >= task.max_strikes) | (completed[running] == route.segments)
        running = running[~stop]
    return RouteRun(
        route=route,
        completed=completed,
        strikes=total,
        deviation=deviation,
        poses=tuple(np.array(p) for p in poses),
        actions=tuple(Strikes(**dict(zip(("alpha", "speed", "beta"), np.array(s).reshape(-1, 3).T))) for s in struck),
    )
