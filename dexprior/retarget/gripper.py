"""A hand's clip -> what an end effector does that closes by one number: contact as the hand had it, free motion planned
anew.

A clip is read as phases. While thumb and an opposing finger touch, the tool moves with the object, and turns with it
about the vertical (`hold`); while other contact moves the object, the closed gripper takes the place of the touching
finger (`push`). In both, time is the hand's. Between them the tool draws back, crosses and comes in along its own axis,
from above where it points down, in the hand's time or in what the arm needs, whichever is longer: pads that straddle an
object would otherwise knock it over, and an arm starts elsewhere.

What deforms has no pose: there the tool goes with the fingers that hold. Where these close from above and below, as on
the hem of a cloth, it comes in along the hand, and turns about any axis, with the matter that is held.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import Ge, Gt, config
from dexprior.geometry.rotations import (
    quat_conjugate,
    quat_from_matrix,
    quat_from_yaw,
    quat_multiply,
    quat_rotate,
    quat_slerp,
    rotation_angle,
    wrap_angle,
)
from dexprior.geometry.timing import contact_intervals, minimum_jerk
from dexprior.geometry.transforms import (
    fit_rigid,
    interpolate_poses,
    invert_pose,
    pose_multiply,
    transform_points,
)
from dexprior.hands.skeleton import FINGER_RADIUS
from dexprior.retarget.grips import GripMap, grip_map
from dexprior.robots.rigs import home_pose, turn_range
from dexprior.types import HandTrajectory, ObjectTrajectory

__all__ = ["Follower", "GripperConfig", "Phase", "ToolTrajectory", "contact_phases", "retarget_to_gripper"]


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
    """By how much the open gripper is wider than the hand's pinch when it comes in [m]."""
    release: Annotated[float, Gt(0)] = 0.08
    """By how much it opens, at most, to let go [m]."""
    closing_speed: Annotated[float, Gt(0)] = 0.25
    """By which the opening shrinks [m/s]."""
    settling: Annotated[float, Ge(0)] = 0.12
    """How long the closed gripper builds up its grip before the object moves [s]."""
    force_gain: Annotated[float, Gt(0)] = 4.0
    """Force of each pad as a multiple of the thumb's: two pads replace three fingertips, and what they hold may be more
    slippery than it was for the human."""
    lift: Annotated[float, Ge(0)] = 0.0
    """How much higher than the hand it carries, where the hand is highest above both ends of a hold [m]."""
    least_force: Annotated[float, Ge(0)] = 2.5
    """Smallest force of a pad while it holds [N]."""
    behind: Annotated[float, Ge(0)] = 0.03
    """How far behind a pushed object the tool comes down [m]."""
    moves: Annotated[float, Gt(0)] = 0.012
    """Distance from which on an object counts as pushed [m]."""
    turns: Annotated[float, Gt(0)] = 0.3
    """Angle from which on a hold counts, beside the longest one, that turned an object which then rested [rad]."""


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
    """Pose of the tool centre point in the base frame: z points out of the gripper, y along the pads' axis [m,
    quaternion]."""
    opening: Float[np.ndarray, " time"]
    """Between the fingertips; while they press, the width of what they press on [m]."""
    force: Float[np.ndarray, " time"]
    """Of each fingertip on what is between them [N]."""

    @property
    def held(self) -> tuple[float, float] | None:
        """From when until when it presses [s]; None where it never does."""
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
        )


@dataclass(frozen=True, kw_only=True)
class Follower:
    """The robot that follows a hand."""

    start: Float[np.ndarray, 7]
    """Tool pose from which its arm sets out."""
    grip: GripMap
    """How its end effector closes."""
    turns: tuple[float, float]
    """By how much it turns its tool about the vertical from there: least and most [rad]."""
    grasp_turn: float = 0.0
    """A grasp is the same after half a turn: of the two that its range allows, the one nearer to this turn [rad]."""
    not_before: float = 0.0
    """Earliest time at which it has grasped [s]."""
    fastest: Callable[[Float[np.ndarray, " 3"], Float[np.ndarray, " 3"]], float] | None = None
    """Position [m] and velocity [m/s] of its tool -> the largest speed in that direction that it is let go at; None
    where nothing limits it."""

    @classmethod
    def of(cls, arm: str, end: str, home: Float[np.ndarray, " joint"] | None = None) -> Follower:
        """An arm at the origin with an end effector, by name, in a home posture, by default the arm's own.

        Raises:
            UnknownName, MissingExtra: as `dexprior.robots.rigs.add_rig`.
            BadInput: the end effector closes by no one number, or the arm has no joints.
        """
        return cls(start=home_pose(arm, end, home), grip=grip_map(end), turns=turn_range(arm, end, home))


def contact_phases(
    t: Float[np.ndarray, " time"],
    touching: Bool[np.ndarray, "time 5"],
    object_pose: Float[np.ndarray, "time 7"] | None,
    *,
    moves: float,
    turns: float,
) -> tuple[Phase, ...]:
    """The longest hold, the holds beside it that turn the object, and the pushes before them; none where nothing is
    held.

    A hold beside it counts where the object turns about the vertical in it, and rests from there to its neighbour: what
    moves in between was held on, and the touch was lost on the fingers only.

    Args:
        t: [s]
        touching: which fingers touch.
        object_pose: None for what deforms, of which only the longest hold counts.
        moves: distance from which on the object counts as pushed [m].
        turns: angle from which on it counts as turned [rad].
    """
    holding = _closed(touching[:, 0] & touching[:, 1:3].any(axis=1), 2)
    holds = contact_intervals(holding)
    if not holds:
        return ()
    longest = max(range(len(holds)), key=lambda k: holds[k][1] - holds[k][0])
    if object_pose is None:
        start, stop = holds[longest]
        return (Phase(kind="hold", start=start, stop=stop),)
    speed = np.linalg.norm(np.gradient(object_pose[:, :3], t, axis=0), axis=1)
    yaw = _yaw_since(object_pose[0, 3:], object_pose[:, 3:])
    kept = [longest]
    for way in (-1, 1):
        k = longest + way
        while 0 <= k < len(holds) and abs(yaw[holds[k][1] - 1] - yaw[holds[k][0]]) > turns:
            (_, first), (second, _) = sorted((holds[k], holds[k - way]))
            if (speed[first:second] > _STILL).any():
                break
            kept.append(k)
            k += way
    starts = [holds[k][0] for k in sorted(kept)]
    moved = _closed(speed > _STILL, 2)[: max(starts[0] - 2, 0)]
    touched = np.asarray(touching.any(axis=1))
    pushes = []
    for a, b in contact_intervals(moved):
        if touched[a:b].any():
            first = a + int(touched[a:b].argmax())  # what moves before is not pushed
            if np.linalg.norm(object_pose[b - 1, :3] - object_pose[first, :3]) > moves:
                pushes.append(Phase(kind="push", start=first, stop=b))
    return (*pushes, *(Phase(kind="hold", start=holds[k][0], stop=holds[k][1]) for k in sorted(kept)))


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
        return ToolTrajectory(t=t, tool=np.tile(robot.start, (n, 1)), opening=open_, force=np.zeros(n))
    plan = _Plan(robot, config)
    if object_pose is None:
        grasps = [_pinch(hand, thing, phase, surface, robot) for phase in phases]
    else:
        object_pose = _at_rest(object_pose, touching, phases)
        surface = None if surface is None else _outside(surface)
        holds = [phase for phase in phases if phase.kind == "hold"]
        grasps = [_grasp(hand, object_pose, phase, surface, robot) for phase in holds]
        for phase in phases[: len(phases) - len(holds)]:
            frames = slice(phase.start, phase.stop)
            path = _pushing(hand, object_pose, frames)
            path = np.concatenate([path, np.tile(grasps[0][0][0, 3:], (len(path), 1))], axis=1)
            plan.push(hand.t[frames] - hand.t[0], path, object_pose[phase.stop - 1, :3] - object_pose[phase.start, :3])
        phases = tuple(holds)
    for phase, (grasp, width) in zip(phases, grasps):
        frames = slice(phase.start, phase.stop)
        force = np.maximum(config.force_gain * hand.force[frames, 0], config.least_force)
        plan.hold(hand.t[frames] - hand.t[0], grasp, width, force)
    return plan.finish(held=phases[-1].stop == len(hand.t))


class _Plan:
    """Keyframes on the robot's clock, which runs behind the hand's where free motion took longer."""

    def __init__(self, robot: Follower, config: GripperConfig) -> None:
        self._c, self._robot, self._grip = config, robot, robot.grip
        self._late, self._holds = 0.0, False
        self._rows: list[tuple[float, np.ndarray, float, float]] = [(0.0, robot.start, robot.grip.widest, 0.0)]

    def push(self, t: np.ndarray, path: np.ndarray, way: np.ndarray) -> None:
        """Come down closed behind an object, and follow the push along its `way`."""
        behind = path[:1].copy()
        behind[0, :3] -= self._c.behind * way / np.linalg.norm(way)
        t, path = np.append(t[0] - _RUN_UP, t), self._raised(np.concatenate([behind, path]))
        self._late = max(self._late, self._cross(path[0], t[0], 0.0) - t[0])
        slowed = self._slowed(t, path)
        self._rows += [(float(at), pose, 0.0, 0.0) for at, pose in zip(slowed[1:] + self._late, path[1:])]
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
        self._late += float(slowed[-1] - t[-1])

    def finish(self, *, held: bool) -> ToolTrajectory:
        """Let go and draw back, unless it is to be `held` on."""
        if not held:
            self._let_go()
            t, pose, wide, _ = self._rows[-1]
            self._add(t, self._motion(pose, _back(pose, self._c.clearance), self._c.descent), wide)
        columns = zip(*self._rows)
        clock, poses, opening, force = (np.array(column) for column in columns)
        return ToolTrajectory(t=clock, tool=poses, opening=opening, force=force)

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


_FACING = 0.85  # cosine between a surface's normal and the pads' axis, from which on the pads take it flat
_INSTANT = 1e-6  # [s] of a press
_PATCH = 5  # followed points that tell how matter turns where it is held
_RESTING = 3  # frames after the hold from which on they tell where the object was set down
_RUN_UP = 0.16  # [s] from there to the object
_SKIN = 0.001  # [m] below the outermost points that face the pads, which those close on as well
_SMOOTH = 3  # frames to either side over which turns are averaged
_STEEP = 0.7  # cosine between the vertical and the fingers' axis, from which on they close from above and below
_STILL = 0.02  # [m/s] below which an object does not move
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
    hand: HandTrajectory,
    object_pose: np.ndarray,
    hold: Phase,
    surface: Float[np.ndarray, "point 6"] | None,
    robot: Follower,
) -> tuple[Float[np.ndarray, "time 7"], float]:
    """Tool poses that carry the object as the hand does, pads where thumb and opposing fingers were; its width there.

    The object is taken where it lies before the hand touches it: a hand drags it a little while it closes, pads that
    close from both sides do not.
    """
    few, thumb, opposing = _fingers(hand, hold)
    before, at = max(hold.start - 1, 0), min(hold.start + 1, hold.stop - 1)
    back = quat_multiply(object_pose[before, 3:], quat_conjugate(object_pose[at, 3:]))
    across = quat_rotate(back, (opposing - thumb)[few].mean(axis=0))
    pose = object_pose[hold.start : hold.stop].copy()
    pose[0] = object_pose[before]  # where it is taken
    if surface is not None:
        surface = _where_held(surface, object_pose[0], object_pose[before])
    yaw = _smooth(_yaw_since(object_pose[before, 3:], pose[:, 3:]))
    y = _squared(across, surface)
    quat = _upright(y, yaw, robot)
    middle = quat_rotate(back, 0.5 * (thumb[at] + opposing[at]) - object_pose[at, :3])
    offset = middle - (middle @ y) * y  # pads close on the middle of what is between them
    turned = quat_from_yaw(yaw)
    n = len(pose)
    position = pose[:, :3] + quat_rotate(turned, np.tile(offset, (n, 1)))
    tool = np.concatenate([position, quat_multiply(turned, np.tile(quat, (n, 1)))], axis=1)
    return tool, _width(hand, hold, y, surface)


def _pinch(
    hand: HandTrajectory,
    thing: ObjectTrajectory,
    hold: Phase,
    surface: Float[np.ndarray, "point 6"] | None,
    robot: Follower,
) -> tuple[Float[np.ndarray, "time 7"], float]:
    """Tool poses that go with the fingers that hold what deforms; its width there.

    Fingers that close from the sides are followed from above, and turn the tool about the vertical. Those that close
    from above and below are followed along the hand; from there on the tool turns with the matter that is nearest, as
    pads hold it flat where fingers let it bend.
    """
    few, thumb, opposing = _fingers(hand, hold)
    frames, first = slice(hold.start, hold.stop), min(hold.start + 1, hold.stop - 1)
    across = (opposing - thumb)[few].mean(axis=0)
    wrist = hand.wrist_pose[frames]
    level = abs(across[2]) < _STEEP * np.linalg.norm(across)
    if level:
        yaw = _smooth(_yaw_since(wrist[0, 3:], wrist[:, 3:]))
        y = _squared(across, surface)
        turned, quat = quat_from_yaw(yaw), _upright(y, yaw, robot)
    else:
        y = _squared(across, surface, level=False)
        inwards = 0.5 * (thumb + opposing)[first] - hand.wrist_pose[first, :3]
        z = inwards - (inwards @ y) * y
        z /= max(float(np.linalg.norm(z)), 1e-9)
        apart = np.linalg.norm(thing.points[first] - 0.5 * (thumb + opposing)[first], axis=1)
        patch = thing.points[frames, np.argsort(apart)[:_PATCH]]
        turned = fit_rigid(np.broadcast_to(patch[0], patch.shape), patch)[:, 3:]
        quat = min(_half_turns(y, z), key=lambda one: rotation_angle(one, robot.start[3:]))
    tool = np.concatenate([0.5 * (thumb + opposing)[frames], quat_multiply(turned, np.tile(quat, (len(wrist), 1)))], 1)
    if not level:  # the pads reach as far as the fingertips do
        tool[:, :3] -= (robot.grip.depth - FINGER_RADIUS) * _axis(tool)
    return tool, _width(hand, hold, y, surface)


def _fingers(
    hand: HandTrajectory, hold: Phase
) -> tuple[slice, Float[np.ndarray, "time 3"], Float[np.ndarray, "time 3"]]:
    """The first frames of a hold; where the thumb's tip is, and the mean of index and middle fingers' tips by who
    touches there [m]."""
    few = slice(hold.start, min(hold.start + 4, hold.stop))
    tips = hand.joints[:, 4::4]
    weight = np.maximum(hand.contact[few, 1:3].mean(axis=0), 1e-3)
    return few, tips[:, 0], (tips[:, 1:3] * weight[None, :, None]).sum(axis=1) / weight.sum()


def _upright(y: Float[np.ndarray, " 3"], yaw: Float[np.ndarray, " time"], robot: Follower) -> Float[np.ndarray, " 4"]:
    """A tool that points down with its pads along y or, the other half turn, along -y: the one nearer to what the
    robot prefers from which it turns by `yaw` [rad] without leaving its range."""
    best, found = (np.inf, np.inf), robot.start[3:]
    for quat in _half_turns(y, np.array([0.0, 0.0, -1.0])):
        since = float(wrap_angle(_yaw_since(robot.start[3:], quat[None]))[0])
        low, high = robot.turns[0] - (since + yaw.min()), since + yaw.max() - robot.turns[1]
        beyond = max(low, high, 0.0)
        aside = abs(float(wrap_angle(np.array(since - robot.grasp_turn))))
        if (beyond, aside) < best:
            best, found = (beyond, aside), quat
    return found


def _half_turns(y: Float[np.ndarray, " 3"], z: Float[np.ndarray, " 3"]) -> Float[np.ndarray, "2 4"]:
    """Both tools that point along z with their pads along y."""
    return np.stack([quat_from_matrix(np.stack([np.cross(s * y, z), s * y, z], axis=1)) for s in (1.0, -1.0)])


def _where_held(
    surface: Float[np.ndarray, "point 6"], first: Float[np.ndarray, 7], now: Float[np.ndarray, 7]
) -> Float[np.ndarray, "point 6"]:
    """Points and normals of an object that has moved since the first frame."""
    moved = pose_multiply(now, invert_pose(first))
    return np.concatenate([transform_points(moved, surface[:, :3]), quat_rotate(moved[3:], surface[:, 3:])], axis=1)


def _outside(surface: Float[np.ndarray, "point 6"]) -> Float[np.ndarray, "point 6"]:
    """What faces away from an object's middle: pads do not meet the walls of a hole."""
    return surface[((surface[:, :3] - surface[:, :3].mean(axis=0)) * surface[:, 3:]).sum(axis=1) > 0.0]


def _back(pose: Float[np.ndarray, 7], way: float) -> Float[np.ndarray, 7]:
    """A tool pose drawn back along the tool [m]."""
    return np.concatenate([pose[:3] - way * _axis(pose), pose[3:]])


def _axis(pose: Float[np.ndarray, "*batch 7"]) -> Float[np.ndarray, "*batch 3"]:
    """Where the tool points."""
    return quat_rotate(pose[..., 3:], np.broadcast_to([0.0, 0.0, 1.0], (*pose.shape[:-1], 3)))


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
        sides = [side * (surface[side * facing > _FACING, :3] @ y) for side in (1.0, -1.0)]
        if all(map(len, sides)):
            return max(float(sum(side[side > side.max() - _SKIN].mean() for side in sides)), 0.0)
    tips = hand.joints[hold.start : hold.stop, 4::4]
    apart = np.linalg.norm(tips[:, 1:3].mean(axis=1) - tips[:, 0], axis=1)
    return max(float(np.median(apart)) - 2 * FINGER_RADIUS, 0.0)


def _squared(
    across: Float[np.ndarray, " 3"], surface: Float[np.ndarray, "point 6"] | None, *, level: bool = True
) -> Float[np.ndarray, " 3"]:
    """A direction, horizontal where it is to be level, turned to face the surfaces that it runs into where these are
    near to it."""
    flat = np.array([1.0, 1.0, 0.0 if level else 1.0])
    y = across * flat
    y /= max(float(np.linalg.norm(y)), 1e-9)
    if surface is None:
        return y
    normals = surface[:, 3:]
    facing = np.sign(normals @ y)[:, None] * normals
    near = facing @ y > _FACING
    if not near.any():
        return y
    y = facing[near].mean(axis=0) * flat
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
