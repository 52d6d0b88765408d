"""Timed plans of the human hand, for many worlds at once, and what a strategy is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from dexprior.geometry.rotations import quat_from_yaw, quat_rotate
from dexprior.geometry.timing import minimum_jerk
from dexprior.worlds.human_rig import HandGrasp, gantry_from_wrist
from dexprior.worlds.tasks.base import Scenes, Truth

__all__ = ["HandPlan", "Knob", "Strategy", "carried", "knots_of", "offset", "steadied"]


@dataclass(frozen=True)
class Knob:
    """A continuous parameter of a strategy: what habits vary, and what sampling refines."""

    name: str
    low: float
    high: float


@dataclass
class HandPlan:
    """Knots with minimum-jerk blends between them."""

    times: Float[np.ndarray, "n knot"]
    """Seconds since the start, strictly increasing from zero."""
    arm: Float[np.ndarray, "n knot 6"]
    """Gantry positions [m, rad]."""
    hinges: Float[np.ndarray, "n knot hinge"]
    """Commanded angles of the fingers [rad]."""
    grasp: HandGrasp
    """Grasp by which the object is held."""
    release: int | None = None
    """Knot from which on the fingers open for good; None where they hold to the end."""
    even: tuple[int, ...] = ()
    """Knots from which on it goes to the next one at constant speed: curves are made of many."""

    def at(self, t: float) -> tuple[Float[np.ndarray, "n 6"], Float[np.ndarray, "n hinge"]]:
        """Where the wrist and the fingers are told to be."""
        n, knots = self.times.shape
        k = np.clip((self.times <= t).sum(axis=1) - 1, 0, knots - 2)
        rows = np.arange(n)
        start, stop = self.times[rows, k], self.times[rows, k + 1]
        linear = (t - start) / (stop - start)
        u = np.where(np.isin(k, self.even), np.clip(linear, 0.0, 1.0), minimum_jerk(linear))[:, None]
        arm = self.arm[rows, k] + u * (self.arm[rows, k + 1] - self.arm[rows, k])
        return arm, self.hinges[rows, k] + u * (self.hinges[rows, k + 1] - self.hinges[rows, k])

    def held_until(self, end: float) -> Float[np.ndarray, " n"]:
        """Seconds at which the fingers open for good, or `end`."""
        return np.full(len(self.times), end) if self.release is None else np.minimum(self.times[:, self.release], end)


Values = Mapping[str, Float[np.ndarray, " n"]]
"""A strategy's parameters by name."""
Replan = Callable[[Any, HandPlan, Truth, Float[np.ndarray, "n 6"], Values], HandPlan]
"""(task, plan, truth, gantry now, parameters) -> the plan with another rest."""


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """One way of doing a task."""

    name: str
    sentences: tuple[str, ...]
    """Paraphrases that demonstrations are told with. They name the way of doing it and nothing of the object's size or
    place; no other strategy of the task has one of them."""
    knobs: tuple[Knob, ...]
    plan: Callable[[Any, Scenes, Values], HandPlan]
    """(task, instances, parameters) -> what to do."""
    seconds: float
    """Length of a clip: no plan is longer."""
    looks: tuple[tuple[int, Replan], ...] = ()
    """Knots at which the hand looks at the object again, and how the plan goes on from there."""
    servo: Callable[[Any, HandPlan, Truth, float], Float[np.ndarray, "n 6"]] | None = None
    """(task, plan, truth, seconds) -> speed at which the wrist's targets are shifted [m/s, rad/s]: watching closely."""
    held_out: tuple[str, ...] = ()
    """Further paraphrases that no demonstration is told with: what a prior that learned from them has never read."""

    def values(self, unit: Float[np.ndarray, "n knob"]) -> dict[str, Float[np.ndarray, " n"]]:
        """Parameters from numbers in [0, 1]."""
        return {k.name: k.low + (k.high - k.low) * unit[:, i] for i, k in enumerate(self.knobs)}


def carried(
    grasp: HandGrasp, centre: Float[np.ndarray, "n 3"], yaw: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "n 6"]:
    """Gantry positions at which the hand grasps an upright object; the gantry's yaw is continuous in the object's."""
    n = len(centre)
    turn = quat_from_yaw(yaw)
    position = centre + quat_rotate(turn, np.broadcast_to(grasp.wrist_pose[:3], (n, 3)))
    own = gantry_from_wrist(np.concatenate([np.zeros(3), grasp.wrist_pose[3:]]))
    return np.concatenate([position, np.column_stack([own[3] + yaw, np.tile(own[4:], (n, 1))])], axis=1)


def offset(x: float, y: float, z: float) -> Float[np.ndarray, " 3"]:
    """The same displacement in every world [m]."""
    return np.array([x, y, z])


def knots_of(
    rows: list[tuple[Any, Float[np.ndarray, "n 6"], Float[np.ndarray, "n hinge"]]],
    grasp: HandGrasp,
    *,
    release: int | None,
    even: tuple[int, ...] = (),
) -> HandPlan:
    """A plan from (seconds since the knot before, wrist, fingers); the first row is the start; the rest: see there."""
    n = len(rows[0][1])
    spans = np.stack([np.broadcast_to(np.asarray(row[0], dtype=np.float64), (n,)) for row in rows], axis=1)
    spans[:, 0] = 0.0
    return HandPlan(
        times=np.cumsum(spans, axis=1),
        arm=np.stack([row[1] for row in rows], axis=1),
        hinges=np.stack([np.broadcast_to(row[2], (n, np.shape(row[2])[-1])) for row in rows], axis=1),
        grasp=grasp,
        release=release,
        even=even,
    )


def steadied(
    aim: Float[np.ndarray, "n 6"],
    pose: Float[np.ndarray, "n 7"],
    point: Float[np.ndarray, "n 3"],
    error: Float[np.ndarray, "n 2"],
    yaw: Float[np.ndarray, " n"],
) -> Float[np.ndarray, "n 6"]:
    """Speed of the wrist's targets that brings a held object's axis upright and a point of it to its goal.

    Args:
        aim: gantry positions that the plan wants now.
        pose: of the object, its axis along z.
        point: on it, in the base frame [m].
        error: from there to the goal, across the table [m].
        yaw: by which it is to turn [rad].
    """
    axis = quat_rotate(pose[:, 3:], np.broadcast_to([0.0, 0.0, 1.0], (len(pose), 3)))
    tilt = np.cross(axis, [0.0, 0.0, 1.0])
    c, s = np.cos(aim[:, 3]), np.sin(aim[:, 3])
    roll, pitch = c * tilt[:, 0] + s * tilt[:, 1], c * tilt[:, 1] - s * tilt[:, 0]
    turn = np.column_stack([3.0 * yaw, 3.0 * pitch, 3.0 * roll])
    # the point moves with the wrist as it turns about it
    world = np.column_stack([3.0 * tilt[:, :2], turn[:, 0]])
    swing = np.cross(world, point - aim[:, :3])
    return np.clip(np.column_stack([7.0 * error - swing[:, :2], np.zeros(len(pose)), turn]), -0.8, 0.8)
