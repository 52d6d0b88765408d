"""What the hand does in a clip, as phases of contact, and the poses of a tool that does the same.

While thumb and an opposing finger touch, the tool moves with the object, and turns with it about the vertical (`hold`);
while other contact moves the object, the closed gripper takes the place of the touching finger (`push`).

What deforms has no pose: there the tool goes with the fingers that hold. Where these close from above and below, as on
the hem of a cloth, it comes in along the hand, and turns about any axis, with the matter that is held.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

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
from dexprior.geometry.timing import contact_intervals
from dexprior.geometry.transforms import fit_rigid, invert_pose, pose_multiply, transform_points
from dexprior.hands.skeleton import FINGER_RADIUS
from dexprior.retarget.grips import Follower
from dexprior.types import HandTrajectory, ObjectTrajectory

__all__ = ["Phase", "at_rest", "contact_phases", "grasp_of", "outside", "pinch_of", "push_of"]


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A stretch of a clip in which contact moves the object; frames `start` to `stop`, the latter not included."""

    kind: Literal["push", "hold"]
    start: int
    stop: int


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


def at_rest(object_pose: np.ndarray, touching: np.ndarray, phases: tuple[Phase, ...]) -> Float[np.ndarray, "time 7"]:
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


def outside(surface: Float[np.ndarray, "point 6"]) -> Float[np.ndarray, "point 6"]:
    """What faces away from an object's middle: pads do not meet the walls of a hole."""
    return surface[((surface[:, :3] - surface[:, :3].mean(axis=0)) * surface[:, 3:]).sum(axis=1) > 0.0]


def grasp_of(
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


def pinch_of(
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
        along = quat_rotate(tool[:, 3:], np.broadcast_to([0.0, 0.0, 1.0], (len(tool), 3)))
        tool[:, :3] -= (robot.grip.depth - FINGER_RADIUS) * along
    return tool, _width(hand, hold, y, surface)


def push_of(hand: HandTrajectory, object_pose: np.ndarray, frames: slice) -> Float[np.ndarray, "time 3"]:
    """Where the closed pads take the place of the fingers that push: the nearest part of their last segments."""
    last, tip = hand.joints[frames, 3::4], hand.joints[frames, 4::4]
    share = np.linspace(0.0, 1.0, 5)[:, None]
    segment = last[:, :, None] * (1.0 - share) + tip[:, :, None] * share
    apart = np.linalg.norm(segment - object_pose[frames, None, None, :3], axis=-1).mean(axis=0)
    point = segment[:, np.arange(5), apart.argmin(axis=1)]
    weight = hand.contact[frames].mean(axis=0)
    return (point * weight[None, :, None]).sum(axis=1) / max(float(weight.sum()), 1e-9)


_FACING = 0.85  # cosine between a surface's normal and the pads' axis, from which on the pads take it flat
_PATCH = 5  # followed points that tell how matter turns where it is held
_RESTING = 3  # frames after the hold from which on they tell where the object was set down
_SKIN = 0.001  # [m] below the outermost points that face the pads, which those close on as well
_SMOOTH = 3  # frames to either side over which turns are averaged
_STEEP = 0.7  # cosine between the vertical and the fingers' axis, from which on they close from above and below
_STILL = 0.02  # [m/s] below which an object does not move


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


def _closed(flags: Bool[np.ndarray, " time"], gap: int) -> Bool[np.ndarray, " time"]:
    """The same without pauses of up to `gap` frames."""
    out = flags.copy()
    on = np.flatnonzero(flags)
    for a, b in pairwise(on):
        if 1 < b - a <= gap + 1:
            out[a:b] = True
    return out
