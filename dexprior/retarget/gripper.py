"""A hand's clip -> what a parallel gripper does: contact as the hand had it, free motion planned anew.

A clip is read as phases. While thumb and an opposing finger touch, the tool moves with the object, and turns with it
about the vertical (`hold`); while other contact moves the object, the closed gripper takes the place of the touching
finger (`push`). In both, time is the hand's. Between them the tool lifts, crosses and comes down from above, in the
hand's time or in what the arm needs, whichever is longer: pads that straddle an object would otherwise knock it over,
and an arm starts elsewhere.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import Ge, Gt, config
from dexprior.errors import BadInput
from dexprior.geometry.rotations import (
    quat_conjugate,
    quat_from_matrix,
    quat_from_yaw,
    quat_multiply,
    quat_rotate,
    quat_slerp,
    wrap_angle,
    yaw_of,
)
from dexprior.geometry.timing import contact_intervals, minimum_jerk
from dexprior.geometry.transforms import interpolate_poses
from dexprior.hands.skeleton import FINGER_RADIUS
from dexprior.types import HandTrajectory
from dexprior.worlds.rigs import end_effector, joint_slides

__all__ = [
    "GripMap",
    "GripperConfig",
    "Phase",
    "ToolTrajectory",
    "contact_phases",
    "grip_map",
    "retarget_to_gripper",
]


@config
class GripperConfig:
    """What the gripper and its arm can do, and how closely they follow the hand."""

    max_opening: Annotated[float, Gt(0)] = 0.08
    """Widest opening between the pads [m]."""
    max_speed: Annotated[float, Gt(0)] = 0.30
    """Fastest mean speed of the tool along each free motion [m/s]."""
    floor: float = 0.012
    """Lowest height of the tool [m]."""
    clearance: Annotated[float, Gt(0)] = 0.06
    """How far above its start or end a free motion crosses [m]."""
    descent: Annotated[float, Gt(0)] = 0.30
    """Shortest time to come down from there [s]."""
    margin: Annotated[float, Ge(0)] = 0.05
    """By how much the open gripper is wider than the hand's pinch when it comes down [m]."""
    closing_speed: Annotated[float, Gt(0)] = 0.25
    """By which the opening shrinks [m/s]."""
    settling: Annotated[float, Ge(0)] = 0.12
    """How long the closed gripper builds up its grip before the object moves [s]."""
    force_gain: Annotated[float, Gt(0)] = 1.5
    """Force of each pad as a multiple of the thumb's: two pads replace three fingertips."""
    least_force: Annotated[float, Ge(0)] = 2.5
    """Smallest force of a pad while it holds [N]."""
    behind: Annotated[float, Ge(0)] = 0.03
    """How far behind a pushed object the tool comes down [m]."""
    moves: Annotated[float, Gt(0)] = 0.012
    """Distance from which on an object counts as pushed [m]."""


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A stretch of a clip in which contact moves the object; frames `start` to `stop`, the latter not included."""

    kind: Literal["push", "hold"]
    start: int
    stop: int


@dataclass(frozen=True, kw_only=True)
class ToolTrajectory:
    """What a gripper is to do; between samples it is interpolated."""

    t: Float[np.ndarray, " time"]
    """Seconds since the arm left its start."""
    tool: Float[np.ndarray, "time 7"]
    """Pose of the tool centre point in the base frame: z points down, y along the pads' axis [m, quaternion]."""
    opening: Float[np.ndarray, " time"]
    """Between the pads; while they press, the width of what they press on [m]."""
    force: Float[np.ndarray, " time"]
    """Of each pad on what is between them [N]."""

    def at(self, t: Float[np.ndarray, " step"]) -> ToolTrajectory:
        """Sampled at other times [s]; its ends are held."""
        return ToolTrajectory(
            t=t,
            tool=interpolate_poses(t, self.t, self.tool),
            opening=np.interp(t, self.t, self.opening),
            force=np.interp(t, self.t, self.force),
        )


@dataclass(frozen=True, kw_only=True)
class GripMap:
    """From what is between a parallel gripper's pads to its number in an action: -1 closed, 1 open."""

    widest: float
    """Opening at 1 [m]."""
    stiffness: float
    """Of each pad's servo [N/m]."""

    def numbers(self, opening: Float[np.ndarray, "*batch"]) -> Float[np.ndarray, "*batch"]:
        """That bring the pads to an opening [m] where nothing is between them."""
        return 2.0 * opening / self.widest - 1.0

    @property
    def give(self) -> float:
        """By how much less a number is that makes each pad press with a newton [1/N]."""
        return 4.0 / (self.stiffness * self.widest)


@functools.cache
def grip_map(end: str) -> GripMap:
    """Of an end effector by name.

    Raises:
        UnknownName: no such end effector.
        BadInput: it is no parallel gripper with one number.
    """
    import mujoco

    effector = end_effector(end)
    slides = all(joint_slides(end)) and len(effector.joints) == 2
    if not slides or effector.action_size != 1 or np.any(effector.control[:, 0]):
        raise BadInput(
            f"end effector {end!r}: no map from an opening and a force to its actuators; grippers with one are parallel"
        )
    model: mujoco.MjModel = effector.build().compile()
    return GripMap(
        widest=float(effector.control[:, 1].sum()),
        stiffness=float(model.actuator(effector.actuators[0]).gainprm[0]),
    )


def contact_phases(
    t: Float[np.ndarray, " time"],
    touching: Bool[np.ndarray, "time 5"],
    position: Float[np.ndarray, "time 3"],
    *,
    moves: float,
) -> tuple[Phase, ...]:
    """The pushes before the longest hold, and that hold; none where nothing is held.

    Args:
        t: [s]
        touching: which fingers touch.
        position: of the object [m].
        moves: distance from which on it counts as pushed [m].
    """
    holding = _closed(touching[:, 0] & touching[:, 1:3].any(axis=1), 2)
    holds = contact_intervals(holding)
    if not holds:
        return ()
    start, stop = max(holds, key=lambda run: run[1] - run[0])
    speed = np.linalg.norm(np.gradient(position, t, axis=0), axis=1)
    moved = _closed(speed > _STILL, 2)[: max(start - 2, 0)]
    touched = np.asarray(touching.any(axis=1))
    pushes = []
    for a, b in contact_intervals(moved):
        if touched[a:b].any():
            first = a + int(touched[a:b].argmax())  # what moves before is not pushed
            if np.linalg.norm(position[b - 1] - position[first]) > moves:
                pushes.append(Phase(kind="push", start=first, stop=b))
    return (*pushes, Phase(kind="hold", start=start, stop=stop))


def retarget_to_gripper(
    hand: HandTrajectory,
    object_pose: Float[np.ndarray, "time 7"],
    start: Float[np.ndarray, 7],
    config: GripperConfig,
    *,
    surface: Float[np.ndarray, "point 6"] | None = None,
) -> ToolTrajectory:
    """The gripper's version of a clip.

    Args:
        hand: with `contact` and `force`.
        object_pose: of what it handles, at the same times.
        start: tool pose from which the arm sets out.
        config: limits.
        surface: points and normals of the object in the first frame, base frame; without it the pads close where the
            hand did, on what was between its fingers.

    Returns:
        A trajectory that starts at `start`; it stays there where the hand holds nothing.
    """
    phases = contact_phases(hand.t, hand.contact > 0.5, object_pose[:, :3], moves=config.moves)
    if not phases:
        t = hand.t - hand.t[0]
        n = len(t)
        open_ = np.full(n, config.max_opening)
        return ToolTrajectory(t=t, tool=np.tile(start, (n, 1)), opening=open_, force=np.zeros(n))
    object_pose = _at_rest(object_pose, hand.contact > 0.5, phases)
    plan = _Plan(start, config)
    grasp, width = _grasp(hand, object_pose, phases[-1], surface)
    for phase in phases:
        frames = slice(phase.start, phase.stop)
        since = hand.t[frames] - hand.t[0]
        if phase.kind == "push":
            path = np.concatenate([_pushing(hand, object_pose, frames), np.tile(grasp[0, 3:], (len(since), 1))], axis=1)
            plan.push(since, path, object_pose[phase.stop - 1, :3] - object_pose[phase.start, :3])
        else:
            plan.hold(since, grasp, width, np.maximum(config.force_gain * hand.force[frames, 0], config.least_force))
    return plan.finish()


class _Plan:
    """Keyframes on the robot's clock, which runs behind the hand's where free motion took longer."""

    def __init__(self, start: Float[np.ndarray, 7], config: GripperConfig) -> None:
        self._c = config
        self._late = 0.0
        self._rows: list[tuple[float, np.ndarray, float, float]] = [(0.0, np.asarray(start), config.max_opening, 0.0)]

    def push(self, t: np.ndarray, path: np.ndarray, way: np.ndarray) -> None:
        """Come down closed behind an object, and follow the push along its `way`."""
        behind = path[:1].copy()
        behind[0, :3] -= self._c.behind * way / np.linalg.norm(way)
        t, path = np.append(t[0] - _RUN_UP, t), self._raised(np.concatenate([behind, path]))
        self._late = max(self._late, self._cross(path[0], t[0], 0.0) - t[0])
        self._rows += [(float(at), pose, 0.0, 0.0) for at, pose in zip(t[1:] + self._late, path[1:])]

    def hold(self, t: np.ndarray, path: np.ndarray, width: float, force: np.ndarray) -> None:
        """Come down open around an object, close on it, and carry it."""
        c, path = self._c, self._raised(path)
        wide = min(width + c.margin, c.max_opening)
        closing = max(wide - width, 0.0) / c.closing_speed
        arrive = self._cross(path[0], t[0] - closing - c.settling, wide)
        self._late = max(self._late, arrive + closing + c.settling - t[0])
        self._rows.append((float(t[0] + self._late - c.settling), path[0], width, 0.0))
        self._rows += [(float(at), pose, width, float(f)) for at, pose, f in zip(t + self._late, path, force)]

    def finish(self) -> ToolTrajectory:
        """Let go, and rise."""
        t, pose, _, _ = self._rows[-1]
        wide = self._c.max_opening
        up = pose + np.array([0.0, 0.0, self._c.clearance, 0.0, 0.0, 0.0, 0.0])
        self._rows += [(t + 0.04, pose, wide, 0.0), (t + 0.20, pose, wide, 0.0)]
        self._move(t + 0.20, pose, t + 0.20 + self._c.descent, up, wide)
        columns = zip(*self._rows)
        clock, poses, opening, force = (np.array(column) for column in columns)
        return ToolTrajectory(t=clock, tool=poses, opening=opening, force=force)

    def _raised(self, path: np.ndarray) -> np.ndarray:
        """The path, nowhere below the floor."""
        path = path.copy()
        path[:, 2] = np.maximum(path[:, 2], self._c.floor)
        return path

    def _cross(self, goal: np.ndarray, wanted: float, opening: float) -> float:
        """Lift, cross and come down; returns when the tool is there, at `wanted` on the hand's clock or later."""
        c = self._c
        now, pose, had, _ = self._rows[-1]
        first = len(self._rows) == 1
        above = goal + np.array([0.0, 0.0, c.clearance, 0.0, 0.0, 0.0, 0.0])
        lifted = pose if first else pose + np.array([0.0, 0.0, max(above[2] - pose[2], 0.0), 0.0, 0.0, 0.0, 0.0])
        rise = 0.0 if first else max(_apart(lifted, pose) / c.max_speed, 0.2)
        span = max(_apart(above, lifted) / c.max_speed, _turn(lifted, above) / _TURNING, 0.2)
        need = rise + span + c.descent
        ready = max(wanted + self._late, now + need)
        spare = ready - now - need
        marks = np.cumsum([now, rise, span + spare, c.descent])
        if not first:
            self._move(marks[0], pose, marks[1], lifted, had)
        self._move(marks[1], lifted, marks[2], above, opening)
        self._move(marks[2], above, marks[3], goal, opening)
        return float(marks[3])

    def _move(self, start: float, a: np.ndarray, stop: float, b: np.ndarray, opening: float) -> None:
        """A smooth motion between two poses."""
        u = np.linspace(0.0, 1.0, max(round((stop - start) / 0.04), 1) + 1)[1:]
        s = minimum_jerk(u)
        position = a[:3] + s[:, None] * (b[:3] - a[:3])
        turn = quat_slerp(np.tile(a[3:], (len(s), 1)), np.tile(b[3:], (len(s), 1)), s)
        poses = np.concatenate([position, turn], axis=1)
        self._rows += [(float(start + v * (stop - start)), p, opening, 0.0) for v, p in zip(u, poses)]


_FACING = 0.85  # cosine between a surface's normal and the pads' axis, from which on the pads take it flat
_RESTING = 3  # frames after the hold from which on they tell where the object was set down
_RUN_UP = 0.16  # [s] from there to the object
_SMOOTH = 3  # frames to either side over which turns are averaged
_STILL = 0.02  # [m/s] below which an object does not move
_TURNING = 1.5  # [rad/s] of the tool in free motion


def _at_rest(object_pose: np.ndarray, touching: np.ndarray, phases: tuple[Phase, ...]) -> Float[np.ndarray, "time 7"]:
    """The object's path with what it does untouched taken out: it lies still before contact and after it is let go.

    In a recording it does. Where it was generated, or estimated, the rest after the hold tells the place where it was
    set down better than the moment of letting go; the difference is spread over the hold.
    """
    pose = object_pose.copy()
    first, hold = phases[0].start, phases[-1]
    pose[:first] = pose[0]
    after = np.flatnonzero(~touching[hold.stop :].any(axis=1)) + hold.stop
    if len(after) < _RESTING:
        return pose
    rest = np.concatenate([np.median(pose[after, :3], axis=0), pose[after[len(after) // 2], 3:]])
    start, last = hold.start, hold.stop - 1
    share = np.linspace(0.0, 1.0, hold.stop - start)[:, None]
    carried = pose[start : hold.stop].copy()
    pose[start : hold.stop, :3] += (1.0 - share) * (pose[max(start - 1, 0), :3] - carried[0, :3])
    pose[start : hold.stop, :3] += share * (rest[:3] - carried[-1, :3])
    missing = quat_multiply(rest[3:], quat_conjugate(pose[last, 3:]))
    turn = quat_slerp(np.tile([1.0, 0.0, 0.0, 0.0], (len(share), 1)), np.tile(missing, (len(share), 1)), share[:, 0])
    pose[start : hold.stop, 3:] = quat_multiply(turn, pose[start : hold.stop, 3:])
    pose[hold.stop :] = rest
    return pose


def _grasp(
    hand: HandTrajectory, object_pose: np.ndarray, hold: Phase, surface: Float[np.ndarray, "point 6"] | None
) -> tuple[Float[np.ndarray, "time 7"], float]:
    """Tool poses that carry the object as the hand does, pads where thumb and opposing fingers were; its width there.

    The object is taken where it lies before the hand touches it: a hand drags it a little while it closes, pads that
    close from both sides do not.
    """
    few = slice(hold.start, min(hold.start + 4, hold.stop))
    tips = hand.joints[:, 4::4]
    weight = np.maximum(hand.contact[few, 1:3].mean(axis=0), 1e-3)
    opposing = (tips[:, 1:3] * weight[None, :, None]).sum(axis=1) / weight.sum()
    before, at = max(hold.start - 1, 0), min(hold.start + 1, hold.stop - 1)
    back = quat_multiply(object_pose[before, 3:], quat_conjugate(object_pose[at, 3:]))
    across = quat_rotate(back, (opposing - tips[:, 0])[few].mean(axis=0))
    y = _squared(across, surface)
    y = -y if y[1] > 0 else y  # of the two halves, the turn nearer to the arm's home
    z = np.array([0.0, 0.0, -1.0])
    quat = quat_from_matrix(np.stack([np.cross(y, z), y, z], axis=1))
    middle = quat_rotate(back, 0.5 * (tips[at, 0] + opposing[at]) - object_pose[at, :3])
    offset = middle - (middle @ y) * y  # pads close on the middle of what is between them
    pose = object_pose[hold.start : hold.stop].copy()
    pose[0] = object_pose[before]  # where it is taken
    turned = quat_from_yaw(_smooth(_yaw_since(object_pose[before, 3:], pose[:, 3:])))
    n = len(pose)
    position = pose[:, :3] + quat_rotate(turned, np.tile(offset, (n, 1)))
    tool = np.concatenate([position, quat_multiply(turned, np.tile(quat, (n, 1)))], axis=1)
    return tool, _width(hand, hold, y, surface)


def _yaw_since(first: Float[np.ndarray, 4], quat: Float[np.ndarray, "time 4"]) -> Float[np.ndarray, " time"]:
    """Turn about the vertical since a first orientation, continuous over time [rad]; tilts are left out."""
    since = quat_multiply(quat, quat_conjugate(first))
    return np.unwrap(2.0 * np.arctan2(since[:, 3], since[:, 0]))


def _smooth(angle: Float[np.ndarray, " time"]) -> Float[np.ndarray, " time"]:
    """Without what changes from frame to frame; the ends are kept."""
    out = angle.copy()
    for k in range(1, len(angle) - 1):
        reach = min(_SMOOTH, k, len(angle) - 1 - k)
        out[k] = angle[k - reach : k + reach + 1].mean()
    return out


def _width(
    hand: HandTrajectory, hold: Phase, y: Float[np.ndarray, " 3"], surface: Float[np.ndarray, "point 6"] | None
) -> float:
    """What is between the pads [m]: the distance of the surfaces that face them, or of the fingers that hold."""
    if surface is not None:
        facing = surface[:, 3:] @ y
        sides = [surface[side, :3] @ y for side in (facing > _FACING, facing < -_FACING)]
        if all(map(len, sides)):
            return max(float(sides[0].mean() - sides[1].mean()), 0.0)
    tips = hand.joints[hold.start : hold.stop, 4::4]
    apart = np.linalg.norm(tips[:, 1:3].mean(axis=1) - tips[:, 0], axis=1)
    return max(float(np.median(apart)) - 2 * FINGER_RADIUS, 0.0)


def _squared(across: Float[np.ndarray, " 3"], surface: Float[np.ndarray, "point 6"] | None) -> Float[np.ndarray, " 3"]:
    """A horizontal direction, turned to face the surfaces that it runs into where these are near to it."""
    y = np.array([across[0], across[1], 0.0])
    y /= max(float(np.linalg.norm(y)), 1e-9)
    if surface is None:
        return y
    normals = surface[:, 3:]
    facing = np.sign(normals @ y)[:, None] * normals
    near = facing @ y > _FACING
    if not near.any():
        return y
    y = facing[near].mean(axis=0)
    y[2] = 0.0
    return y / np.linalg.norm(y)


def _pushing(hand: HandTrajectory, object_pose: np.ndarray, frames: slice) -> Float[np.ndarray, "time 3"]:
    """Where the closed pads take the place of the fingers that push: the nearest part of their last segments."""
    last, tip = hand.joints[frames, 3::4], hand.joints[frames, 4::4]
    share = np.linspace(0.0, 1.0, 5)[:, None]
    segment = last[:, :, None] * (1.0 - share) + tip[:, :, None] * share
    apart = np.linalg.norm(segment - object_pose[frames, None, None, :3], axis=-1).mean(axis=0)
    point = segment[:, np.arange(5), apart.argmin(axis=1)]
    weight = hand.contact[frames].mean(axis=0)
    return (point * weight[None, :, None]).sum(axis=1) / max(float(weight.sum()), 1e-9)


def _closed(flags: Bool[np.ndarray, " time"], gap: int) -> Bool[np.ndarray, " time"]:
    """The same without pauses of up to `gap` frames."""
    out = flags.copy()
    on = np.flatnonzero(flags)
    for a, b in pairwise(on):
        if 1 < b - a <= gap + 1:
            out[a:b] = True
    return out


def _apart(a: np.ndarray, b: np.ndarray) -> float:
    """Distance of two poses [m]."""
    return float(np.linalg.norm(a[:3] - b[:3]))


def _turn(a: np.ndarray, b: np.ndarray) -> float:
    """Angle between two upright tools [rad]."""
    return float(np.abs(wrap_angle(yaw_of(a[None, 3:]) - yaw_of(b[None, 3:])))[0])
