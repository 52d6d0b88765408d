"""The task on one segment: what the policy sees, what an action strikes, and what a strike earns.

Segment frame: the segment starts at the origin and runs along +x; the sub-goal lies at its end, with an orientation.
The safe zone is the segment's strip, with a disc of the sub-goal's tolerance about each end.

    reward   -distance / length                                              after every strike
             + orientation * (1 - |deviation| / pi)
             + economy * (1 - strikes used / maximum)                        on reaching the sub-goal
             - penalty                                                       on leaving the safe zone

After the sequential pushing of CLASH (arXiv 2602.18707), which does not publish its weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import Ge, Gt, Le, config
from dexprior.errors import BadInput, ConfigError
from dexprior.geometry.rotations import wrap_angle
from dexprior.worlds.pushing import PushingConfig, Strikes

__all__ = ["Judgement", "PushingTask", "Segments", "judge", "observe", "strikes_from_action"]


@config
class PushingTask:
    """Segment, limits and rewards."""

    length: Annotated[float, Gt(0)] = 0.3
    """Length of the segment [m]."""
    width: Annotated[float, Gt(0)] = 0.08
    """Width of the safe zone about the segment [m]; the object's centre of mass must come to rest inside."""
    reached: Annotated[float, Gt(0)] = 0.04
    """Distance at which the sub-goal counts as reached [m]."""
    max_strikes: Annotated[int, Ge(1)] = 8
    """Per sub-goal."""
    max_turn: Annotated[float, Ge(0), Le(np.pi / 2)] = np.pi / 4
    """Largest angle between the segment and its sub-goal's orientation [rad]."""
    start_yaw: Annotated[float, Ge(0), Le(np.pi)] = 0.5
    """Largest angle between the object and the segment at the start of training episodes [rad]."""
    speed: tuple[float, float] = (0.1, 1.0)
    """Slowest and fastest rod [m/s]."""
    orientation: Annotated[float, Ge(0)] = 3.0
    """Reward for the right orientation at the sub-goal."""
    economy: Annotated[float, Ge(0)] = 2.0
    """Reward for using few strikes."""
    penalty: Annotated[float, Ge(0)] = 5.0
    """Penalty for leaving the safe zone."""

    def __post_init__(self) -> None:
        if not 0.01 <= self.speed[0] < self.speed[1]:
            raise ConfigError(f"task.speed = {self.speed}: needs 0.01 <= slowest < fastest")
        if self.length <= 2 * self.reached:
            raise ConfigError(f"task.length = {self.length}: must be more than twice task.reached = {self.reached}")


@dataclass(frozen=True)
class Segments:
    """Upcoming segments of a batch of worlds."""

    origin: Float[np.ndarray, "world 3"]
    """[x y heading] of each segment's start in the world."""
    turn: Float[np.ndarray, " world"]
    """Orientation of the sub-goal, from the segment's heading [rad]."""

    def local(self, pose: Float[np.ndarray, "world 3"]) -> Float[np.ndarray, "world 3"]:
        """Poses in the world -> in each segment's frame, yaw in [-pi, pi)."""
        c, s = np.cos(self.origin[:, 2]), np.sin(self.origin[:, 2])
        dx, dy = (pose - self.origin)[:, :2].T
        yaw = wrap_angle(pose[:, 2] - self.origin[:, 2])
        return np.stack([c * dx + s * dy, c * dy - s * dx, yaw], axis=1)

    def world(self, pose: Float[np.ndarray, "world 3"]) -> Float[np.ndarray, "world 3"]:
        """Poses in each segment's frame -> in the world."""
        c, s = np.cos(self.origin[:, 2]), np.sin(self.origin[:, 2])
        x, y, yaw = pose.T
        return self.origin + np.stack([c * x - s * y, s * x + c * y, yaw], axis=1)


@dataclass(frozen=True)
class Judgement:
    """What strikes led to."""

    reward: Float[np.ndarray, " world"]
    reached: Bool[np.ndarray, " world"]
    left: Bool[np.ndarray, " world"]
    """Outside the safe zone."""
    deviation: Float[np.ndarray, " world"]
    """Angle to the sub-goal's orientation [rad], not negative."""


def observe(
    task: PushingTask, pose: Float[np.ndarray, "world 3"], turn: Float[np.ndarray, " world"]
) -> Float[np.ndarray, "world 6"]:
    """What the policy sees, in numbers of order one.

    Columns: position in the segment (x / length, y / width), sub-goal seen from the object (x, y, over length), and
    cosine and sine of the turn that is left to the sub-goal's orientation.

    Args:
        task: scales.
        pose: of the object in the segment frame.
        turn: orientation of the sub-goal there.
    """
    c, s = np.cos(pose[:, 2]), np.sin(pose[:, 2])
    dx, dy = task.length - pose[:, 0], -pose[:, 1]
    left = turn - pose[:, 2]
    columns = (
        pose[:, 0] / task.length,
        pose[:, 1] / task.width,
        (c * dx + s * dy) / task.length,
        (c * dy - s * dx) / task.length,
        np.cos(left),
        np.sin(left),
    )
    return np.stack(columns, axis=1).astype(np.float32)


def strikes_from_action(task: PushingTask, world: PushingConfig, action: Float[np.ndarray, "world 3"]) -> Strikes:
    """Impact point, speed and direction from actions in [-1, 1]; what lies outside is clipped.

    Raises:
        BadInput: wrong shape, or a number that is not finite.
    """
    action = np.asarray(action, dtype=np.float64)
    if action.ndim != 2 or action.shape[1] != 3 or not np.isfinite(action).all():
        raise BadInput(f"pushing action of shape {action.shape} must be finite and (world, 3): point, speed, direction")
    unit = np.clip(action, -1.0, 1.0)
    low, high = world.alpha_range
    slow, fast = task.speed
    return Strikes(
        alpha=(low + high) / 2 + (high - low) / 2 * unit[:, 0],
        speed=(slow + fast) / 2 + (fast - slow) / 2 * unit[:, 1],
        beta=world.max_beta * unit[:, 2],
    )


def judge(
    task: PushingTask,
    pose: Float[np.ndarray, "world 3"],
    turn: Float[np.ndarray, " world"],
    used: Float[np.ndarray, " world"],
) -> Judgement:
    """Reward and verdict of objects that came to rest at `pose`.

    Args:
        task: limits and rewards.
        pose: in the segment frame.
        turn: orientation of the sub-goal there.
        used: strikes so far, this one included.
    """
    x, y, yaw = pose.T
    distance = np.hypot(x - task.length, y)
    deviation = np.abs(wrap_angle(yaw - turn))
    reached = distance < task.reached
    strip = (np.abs(y) <= task.width / 2) & (x >= 0) & (x <= task.length)
    left = ~(strip | reached | (np.hypot(x, y) <= task.reached))
    earned = task.orientation * (1 - deviation / np.pi) + task.economy * (1 - used / task.max_strikes)
    reward = -distance / task.length + np.where(reached, earned, 0.0) - np.where(left, task.penalty, 0.0)
    return Judgement(reward, reached, left, deviation)
