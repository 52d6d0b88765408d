"""A hand's clip -> what an end effector does that closes by one number: contact as the hand had it, free motion planned
anew.

In phases of contact, time is the hand's. Between them the tool draws back, crosses and comes in along its own axis,
from above where it points down, in the hand's time or in what the arm needs, whichever is longer: pads that straddle an
object would otherwise knock it over, and an arm starts elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from jaxtyping import Float

from dexprior.config import Ge, Gt, config
from dexprior.geometry.rotations import quat_rotate, quat_slerp, rotation_angle
from dexprior.geometry.timing import minimum_jerk
from dexprior.geometry.transforms import interpolate_poses
from dexprior.retarget.grips import Follower
from dexprior.retarget.phases import at_rest, contact_phases, grasp_of, outside, pinch_of, push_of
from dexprior.types import HandTrajectory, ObjectTrajectory

__all__ = ["GripperConfig", "ToolTrajectory", "retarget_to_gripper"]


@config
class GripperConfig:
    """How closely an arm and its gripper follow the hand."""

    max_speed: Annotated[float, Gt(0)] = 0.30
    """Fastest mean speed of the tool along each free motion [m/s]."""
    floor: float = 0.002
    """Lowest height of the fingertips [m]."""
    clearance: Annotated[float, Gt(0)] = 0.06
    """How far from its start or end, along the tool, a free motion crosses [m]."""
    descent: Annotated[float, Gt(0)] = 0.30
    """Shortest time to come in from there [s]."""
    margin: Annotated[float, Ge(0)] = 0.05
    """How much wider the open gripper is than the hand's pinch when it comes in [m]."""
    release: Annotated[float, Gt(0)] = 0.08
    """How much it opens, at most, to let go [m]."""
    closing_speed: Annotated[float, Gt(0)] = 0.25
    """Speed at which the opening shrinks [m/s]."""
    settling: Annotated[float, Ge(0)] = 0.12
    """How long the closed gripper builds up its grip before the object moves [s]."""
    force_gain: Annotated[float, Gt(0)] = 4.0
    """Force of two pads as a multiple of the thumb's, which bears as much as all fingers that face it; more fingertips
    share as much as two. What they hold may be more slippery than it was for the human."""
    lift: Annotated[float, Ge(0)] = 0.0
    """How much higher than the hand it carries, where the hand is highest above both ends of a hold [m]."""
    least_force: Annotated[float, Ge(0)] = 2.5
    """Smallest force of a fingertip while it holds [N]."""
    behind: Annotated[float, Ge(0)] = 0.03
    """How far behind a pushed object the tool comes down [m]."""
    moves: Annotated[float, Gt(0)] = 0.012
    """Distance from which on an object counts as pushed [m]."""
    turns: Annotated[float, Gt(0)] = 0.3
    """Angle from which on a hold counts, beside the longest one, that turned an object which then rested [rad]."""


@dataclass(frozen=True, kw_only=True)
class ToolTrajectory:
    """What a gripper is to do; between samples it is interpolated."""

    t: Float[np.ndarray, " time"]
    """Seconds since the arm left its start."""
    tool: Float[np.ndarray, "time 7"]
    """Pose of the tool centre point in the base frame: z points out of the gripper, y along the pads' axis [m,
    quaternion]."""
    opening: Float[np.ndarray, " time"]
    """Between the fingertips; while they press, the width of what they press on [m]."""
    force: Float[np.ndarray, " time"]
    """Force of each fingertip on what is between them [N]."""
    clip: Float[np.ndarray, " time"]
    """Seconds since the clip's first frame of what is done then; in free motion what is on the way to it."""

    @property
    def held(self) -> tuple[float, float] | None:
        """Start and end of its pressing [s]; None where it never does."""
        pressing = self.t[self.force > 0.0]
        return (float(pressing[0]), float(pressing[-1])) if len(pressing) else None

    def holding_for(self, seconds: float) -> ToolTrajectory:
        """The same, from the first press to the last one so much more slowly that it takes as long."""
        if self.held is None:
            return self
        start, stop = self.held
        slower = seconds / max(stop - start, _INSTANT)
        t = np.where(self.t < start, self.t, start + slower * (np.minimum(self.t, stop) - start))
        return replace(self, t=t + np.maximum(self.t - stop, 0.0))

    def at(self, t: Float[np.ndarray, " step"]) -> ToolTrajectory:
        """Sampled at other times [s]; its ends are held."""
        return ToolTrajectory(
            t=t,
            tool=interpolate_poses(t, self.t, self.tool),
            opening=np.interp(t, self.t, self.opening),
            force=np.interp(t, self.t, self.force),
            clip=np.interp(t, self.t, self.clip),
        )


def retarget_to_gripper(
    hand: HandTrajectory,
    thing: ObjectTrajectory,
    robot: Follower,
    config: GripperConfig,
    *,
    surface: Float[np.ndarray, "point 6"] | None = None,
) -> ToolTrajectory:
    """The gripper's version of a clip.

    Args:
        hand: with `contact` and `force`.
        thing: that it handles, at the same times, with its pose unless it deforms.
        robot: that follows.
        config: limits.
        surface: points and normals of the object in the first frame, base frame; without it the pads close where the
            hand did, on what was between its fingers.

    Returns:
        A trajectory that starts where the robot does; it stays there where the hand holds nothing, and holds on where
        the hand does to the end.
    """
    touching, object_pose = hand.contact > 0.5, thing.pose
    phases = contact_phases(hand.t, touching, object_pose, moves=config.moves, turns=config.turns)
    if not phases:
        t = hand.t - hand.t[0]
        n = len(t)
        open_ = np.full(n, robot.grip.widest)
        return ToolTrajectory(t=t, tool=np.tile(robot.start, (n, 1)), opening=open_, force=np.zeros(n), clip=t)
    plan = _Plan(robot, config)
    if object_pose is None:
        grasps = [pinch_of(hand, thing, phase, surface, robot) for phase in phases]
    else:
        object_pose = at_rest(object_pose, touching, phases)
        surface = None if surface is None else outside(surface)
        holds = [phase for phase in phases if phase.kind == "hold"]
        grasps = [grasp_of(hand, object_pose, phase, surface, robot) for phase in holds]
        for phase in phases[: len(phases) - len(holds)]:
            frames = slice(phase.start, phase.stop)
            path = push_of(hand, object_pose, frames)
            path = np.concatenate([path, np.tile(grasps[0][0][0, 3:], (len(path), 1))], axis=1)
            plan.push(hand.t[frames] - hand.t[0], path, object_pose[phase.stop - 1, :3] - object_pose[phase.start, :3])
        phases = tuple(holds)
    for phase, (grasp, width) in zip(phases, grasps):
        frames = slice(phase.start, phase.stop)
        shared = config.force_gain * 2.0 / robot.grip.tips
        force = np.maximum(shared * hand.force[frames, 0], config.least_force)
        plan.hold(hand.t[frames] - hand.t[0], grasp, width, force)
    return plan.finish(held=phases[-1].stop == len(hand.t))


class _Plan:
    """Keyframes on the robot's clock, which runs behind the hand's where free motion took longer."""

    def __init__(self, robot: Follower, config: GripperConfig) -> None:
        self._c, self._robot, self._grip = config, robot, robot.grip
        self._late, self._holds = 0.0, False
        self._rows: list[tuple[float, np.ndarray, float, float]] = [(0.0, robot.start, robot.grip.widest, 0.0)]
        self._clocks: list[tuple[float, float]] = [(0.0, 0.0)]  # of the robot and the hand

    def push(self, t: np.ndarray, path: np.ndarray, way: np.ndarray) -> None:
        """Come down closed behind an object, and follow the push along its `way`."""
        behind = path[:1].copy()
        behind[0, :3] -= self._c.behind * way / np.linalg.norm(way)
        t, path = np.append(t[0] - _RUN_UP, t), self._raised(np.concatenate([behind, path]))
        self._late = max(self._late, self._cross(path[0], t[0], 0.0) - t[0])
        slowed = self._slowed(t, path)
        self._rows += [(float(at), pose, 0.0, 0.0) for at, pose in zip(slowed[1:] + self._late, path[1:])]
        self._clocks += zip(slowed[1:] + self._late, t[1:])
        self._late += float(slowed[-1] - t[-1])

    def hold(self, t: np.ndarray, path: np.ndarray, width: float, force: np.ndarray) -> None:
        """Come in open around an object, let go of it before where it was held, close on it, and carry it."""
        c, path = self._c, self._raised(_lifted(path, self._c.lift))
        if self._holds:
            self._let_go()
        else:
            self._late = max(self._late, self._robot.not_before - t[0])
        self._holds = True
        wide = min(width + c.margin, self._grip.widest)
        closing = max(wide - width, 0.0) / c.closing_speed
        arrive = self._cross(path[0], t[0] - closing - c.settling, wide)
        self._late = max(self._late, arrive + closing + c.settling - t[0])
        self._rows.append((float(t[0] + self._late - c.settling), path[0], width, 0.0))
        slowed = self._slowed(t, path)
        self._rows += [(float(at), pose, width, float(f)) for at, pose, f in zip(slowed + self._late, path, force)]
        self._clocks += zip(slowed + self._late, t)
        self._late += float(slowed[-1] - t[-1])

    def finish(self, *, held: bool) -> ToolTrajectory:
        """Let go and draw back, unless it is to be `held` on."""
        if not held:
            self._let_go()
            t, pose, wide, _ = self._rows[-1]
            self._add(t, self._motion(pose, _back(pose, self._c.clearance), self._c.descent), wide)
        columns = zip(*self._rows)
        clock, poses, opening, force = (np.array(column) for column in columns)
        known, own = np.array(self._clocks).T
        clip = np.interp(clock, known, own) + np.maximum(clock - known[-1], 0.0)
        return ToolTrajectory(t=clock, tool=poses, opening=opening, force=force, clip=clip)

    def _let_go(self) -> None:
        t, pose, width, _ = self._rows[-1]
        wide = min(width + self._c.release, self._grip.widest)
        self._rows += [(t + 0.04, pose, width, 0.0), (t + 0.20, pose, wide, 0.0)]

    def _raised(self, path: np.ndarray) -> np.ndarray:
        """The path, its fingertips nowhere below the floor."""
        path = path.copy()
        down = np.maximum(-_axis(path)[:, 2], 0.0)
        path[:, 2] = np.maximum(path[:, 2], self._c.floor + down * self._grip.depth)
        return path

    def _cross(self, goal: np.ndarray, wanted: float, opening: float) -> float:
        """Draw back, cross and come in; returns when the tool is there, at `wanted` on the hand's clock or later."""
        c = self._c
        now, pose, had, _ = self._rows[-1]
        first = len(self._rows) == 1
        above = _back(goal, c.clearance)
        lifted = pose if first else _back(pose, max(float((pose - above)[:3] @ _axis(pose)), 0.0))
        rise = 0.0 if first else max(_apart(lifted, pose) / c.max_speed, 0.2)
        span = max(_apart(above, lifted) / c.max_speed, float(rotation_angle(lifted[3:], above[3:])) / _TURNING, 0.2)
        up, down = [] if first else [self._motion(pose, lifted, rise)], self._motion(above, goal, c.descent)
        least = self._motion(lifted, above, span)[0][-1]
        need = sum(float(t[-1]) for t, _ in (*up, down)) + least
        spare = max(wanted + self._late - now - need, 0.0)
        t, poses = self._motion(lifted, above, span + spare)
        across = (t * ((least + spare) / t[-1]), poses)  # a slower motion is slowed less
        for motion, wide in [*((m, had) for m in up), (across, opening), (down, opening)]:
            now = self._add(now, motion, wide)
        return now

    def _motion(self, a: np.ndarray, b: np.ndarray, seconds: float) -> tuple[np.ndarray, np.ndarray]:
        """A smooth motion between two poses: times since its start, and poses, without the first."""
        u = np.linspace(0.0, 1.0, max(round(seconds / 0.04), 1) + 1)
        s = minimum_jerk(u)
        position = a[:3] + s[:, None] * (b[:3] - a[:3])
        turn = quat_slerp(np.tile(a[3:], (len(s), 1)), np.tile(b[3:], (len(s), 1)), s)
        poses = np.concatenate([position, turn], axis=1)
        return self._slowed(u * seconds, poses)[1:], poses[1:]

    def _slowed(self, t: np.ndarray, path: np.ndarray) -> np.ndarray:
        """When the poses of a path are passed that is as fast as asked where the tool is let go as fast."""
        fastest = self._robot.fastest
        if fastest is None or len(t) < 2:
            return t
        way, asked = np.diff(path[:, :3], axis=0), np.diff(t)
        apart = np.linalg.norm(way, axis=1)
        velocity = way / asked[:, None]
        least = [d / max(fastest(p, v), _CREEP) if d > 0.0 else 0.0 for d, p, v in zip(apart, path, velocity)]
        return t[0] + np.concatenate([[0.0], np.maximum(asked, least).cumsum()])

    def _add(self, start: float, motion: tuple[np.ndarray, np.ndarray], opening: float) -> float:
        """Append a motion; returns when it is over."""
        self._rows += [(float(start + t), pose, opening, 0.0) for t, pose in zip(*motion)]
        return self._rows[-1][0]


_INSTANT = 1e-6  # [s] of a press
_RUN_UP = 0.16  # [s] from there to the object
_TURNING = 1.5  # [rad/s] of the tool in free motion
_CREEP = 1e-3  # [m/s] at which it goes on where it is not let go at all


def _lifted(path: np.ndarray, by: float) -> np.ndarray:
    """A path raised by so much where it is highest, and less in proportion to its height above its higher end."""
    above = np.maximum(path[:, 2] - max(path[0, 2], path[-1, 2]), 0.0)
    if above.max() == 0.0:
        return path
    path = path.copy()
    path[:, 2] += by * above / max(above.max(), by)
    return path


def _back(pose: Float[np.ndarray, 7], way: float) -> Float[np.ndarray, 7]:
    """A tool pose drawn back along the tool [m]."""
    return np.concatenate([pose[:3] - way * _axis(pose), pose[3:]])


def _axis(pose: Float[np.ndarray, "*batch 7"]) -> Float[np.ndarray, "*batch 3"]:
    """Where the tool points."""
    return quat_rotate(pose[..., 3:], np.broadcast_to([0.0, 0.0, 1.0], (*pose.shape[:-1], 3)))


def _apart(a: np.ndarray, b: np.ndarray) -> float:
    """Distance of two poses [m]."""
    return float(np.linalg.norm(a[:3] - b[:3]))
