"""What to ask the prior for with an object that no task of the suite has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
from jaxtyping import Float

from dexprior.artifacts import load
from dexprior.data.clouds import place
from dexprior.data.demonstrating.conditions import configuration
from dexprior.data.demonstrating.surfaces import local_cloud, shares
from dexprior.data.objects import chosen_points
from dexprior.data.own_objects.files import DENSE, read_object
from dexprior.data.own_objects.settings import OwnObjectConfig
from dexprior.errors import BadInput, UnknownName
from dexprior.geometry.rotations import quat_from_yaw
from dexprior.geometry.sampling import farthest_points
from dexprior.geometry.transforms import invert_pose, pose_multiply, project, transform_points
from dexprior.hands.side import mirrored
from dexprior.hands.skeleton import FINGER_RADIUS, forward
from dexprior.progress import say
from dexprior.robots.gantry import GANTRY
from dexprior.robots.human_hand import REST, finger_pose_from_hinges
from dexprior.types import FINGERS, Camera, ContactConfiguration, PriorCondition
from dexprior.worlds.grasping import GRASPS, Grasp, grasp_cloud
from dexprior.worlds.human_rig import REACHED
from dexprior.worlds.tasks import human_task, strategies_of
from dexprior.worlds.tasks.scene import CAMERAS, camera
from dexprior.worlds.tasks.strategies.plan import carried

__all__ = ["OwnConditions", "own_conditions"]

_TASK = "pick_place"  # whose mark it is, and whose habits of starting
_SIZE = 64  # [px] of the camera's pictures; sampling scales them
_TABLE = 0.005  # [m] that a cloud may be off the table by error of measurement
_FLOATS = 0.03  # [m] above the table from which on nobody believes that an object lies there
_ON_TABLE = 0.01  # [m] above the table up to which an object's end counts as set down
_MOST = 20000  # points of a cloud that are looked at
_LET_GO = 0.7  # of the clip's length
_NEEDED = {"cloud": "FILE", "text": '"what is to be done"', "goal": "x,y,z"}


@dataclass(frozen=True)
class OwnConditions:
    """What to ask for, and the grasp that it was made from."""

    conditions: list[PriorCondition]
    cloud: Float[np.ndarray, "point 6"]
    """The object's surface as it lies, denser than in the conditions."""
    held: ContactConfiguration
    """The hand that holds it there."""


def own_conditions(config: OwnObjectConfig, *, n: int = 1, seed: int = 0) -> OwnConditions:
    """Conditions with one object, grasp and goal; they differ in where the open hand starts.

    Args:
        config: the object and what is to be done with it.
        n: conditions.
        seed: condition k starts as (seed + k) says.

    Raises:
        BadInput: a setting is missing, the text is empty, the file is none of an object (see `read_object`), the object
            is not on the table, no grasp (see `grasp_cloud`), a goal that the hand does not reach or that lies in the
            table, or a configuration of another hand or away from the object.
        UnknownName: a grasp or a camera that is neither known nor a file.
    """
    for name, form in _NEEDED.items():
        if getattr(config, name) is None:
            raise BadInput(f"{name} is not given: {name}={form}")
    assert config.cloud is not None
    assert config.text is not None
    text = config.text.strip()
    if not text:
        raise BadInput('text is empty: the prior is asked by a sentence, e.g. text="put the mug on the mark"')
    view = _camera(config.camera)
    cloud = _placed(config)
    pose = np.array([*_middle(cloud), 1.0, 0.0, 0.0, 0.0])
    end = pose_multiply(_end(config, pose), invert_pose(pose))
    lowest = float(transform_points(end, cloud[:, :3])[:, 2].min())
    if lowest < -_TABLE:
        raise BadInput(
            f"goal = {_said(config.goal)}: the object would reach {-1000 * lowest:.0f} mm into the table (z = 0); the "
            f"goal is where its middle ends: give a z of at least {_end(config, pose)[2] - lowest:.3f}"
        )
    starts, held = _hands(config, cloud, n, seed)
    target = _moved(held, end)
    for hand in starts:
        _check_reach(hand, f"the object at {_said(tuple(pose[:3]))}")
    _check_reach(target, f"goal = {_said(config.goal)}")
    first, few = shares(config.points, 1 if config.mark and lowest <= _ON_TABLE else 0)
    kept = cloud[farthest_points(cloud[:, :3], first)]
    goal = None
    if few:
        goal = np.array([*transform_points(end, pose[None, :3])[0, :2], 0.0, 1.0, 0.0, 0.0, 0.0])
        kept = np.concatenate([kept, place(local_cloud(human_task(_TASK, 0), "mark", few), goal)])
    _say_where_unseen(view, {"the object": pose[:3], "its goal": _end(config, pose)[:3]})
    conditions = [
        PriorCondition(
            cloud=kept,
            moves=np.arange(config.points) < first,
            points=chosen_points(kept[:first, :3]),
            start=(start,),
            target=(target,),
            target_at=_LET_GO * config.seconds if config.target_at is None else config.target_at,
            seconds=config.seconds,
            camera=view,
            text=text,
            pose=pose,
            goal=goal,
        )
        for start in starts
    ]
    return OwnConditions(conditions, cloud, held)


def _placed(config: OwnObjectConfig) -> Float[np.ndarray, "point 6"]:
    """The object's surface in the base frame, on the table."""
    path = Path(str(config.cloud))
    cloud = read_object(path, units=config.units, normals=config.normals, least=config.points)
    cloud = cloud[:: -(-len(cloud) // _MOST)]
    cloud = cloud[farthest_points(cloud[:, :3], min(DENSE, len(cloud)))]
    if config.at is not None:
        if len(config.at) not in (2, 3):
            raise BadInput(f"at = {_said(config.at)}: expected x,y or x,y,yaw [m, rad]")
        x, y, *yaw = config.at
        middle = _middle(cloud)
        cloud = place(
            cloud - [*middle[:2], cloud[:, 2].min(), 0, 0, 0],
            np.array([x, y, 0.0, *quat_from_yaw(np.array(yaw[0] if yaw else 0.0))]),
        )
    lowest = float(cloud[:, 2].min())
    if not -_TABLE <= lowest <= _FLOATS:
        where = f"{-1000 * lowest:.0f} mm below" if lowest < 0 else f"{1000 * lowest:.0f} mm above"
        raise BadInput(
            f"{path}: the object's lowest point is {where} the table (z = 0, z up, base frame): stand it there with "
            "at=x,y, e.g. at=0.45,-0.1"
        )
    return cloud


def _end(config: OwnObjectConfig, pose: Float[np.ndarray, 7]) -> Float[np.ndarray, 7]:
    """Pose of the object's middle at the end."""
    goal = np.array(config.goal, dtype=np.float64)
    if len(goal) not in (2, 3, 7):
        raise BadInput(f"goal = {_said(config.goal)}: expected x,y or x,y,z or x,y,z,qw,qx,qy,qz [m]")
    if len(goal) < 7:
        return np.concatenate([goal, pose[len(goal) :]])
    length = float(np.linalg.norm(goal[3:]))
    if abs(length - 1.0) > 0.01:
        raise BadInput(f"goal = {_said(config.goal)}: its quaternion qw,qx,qy,qz has length {length:.3g}, not 1")
    return np.concatenate([goal[:3], goal[3:] / length])


def _hands(
    config: OwnObjectConfig, cloud: Float[np.ndarray, "point 6"], n: int, seed: int
) -> tuple[list[ContactConfiguration], ContactConfiguration]:
    """The open hand at each start, and the hand at the object as it lies."""
    habits = strategies_of(_TASK)[0]
    drawn = [habits.values(np.random.default_rng(seed + k).random((1, len(habits.knobs)))) for k in range(n)]
    away = [np.column_stack([v["from_x"], v["from_y"], v["from_z"]]) for v in drawn]
    if config.grasp not in GRASPS:
        held = _read_hand(config, cloud)
        rest = finger_pose_from_hinges(REST)
        free = replace(held, touching=np.zeros(5, dtype=bool), points=np.zeros((5, 3)))
        if held.side == "left":
            rest = (rest.reshape(15, 3) * [1.0, -1.0, -1.0]).ravel()
        lift = [np.array([*row[0], 1.0, 0.0, 0.0, 0.0]) for row in away]
        return [replace(_moved(free, up), finger_pose=rest) for up in lift], held
    left = config.side == "left"
    seen = cloud * [1, -1, 1, 1, -1, 1] if left else cloud  # a left hand is a right one in a mirror
    middle = _middle(seen)
    local = seen - [*middle, 0, 0, 0]
    grasp, yaw = grasp_cloud(local, cast(Grasp, config.grasp), floor=-middle[2])
    at = np.array([yaw])
    held = configuration(carried(grasp, middle[None], at), grasp.touch[None], grasp.fingers)
    starts = [
        configuration(carried(grasp, middle + off, at + v["turned"]), grasp.open[None], ())
        for off, v in zip(away, drawn)
    ]
    return ([mirrored(start) for start in starts], mirrored(held)) if left else (starts, held)


def _read_hand(config: OwnObjectConfig, cloud: Float[np.ndarray, "point 6"]) -> ContactConfiguration:
    """A configuration of a file that touches the cloud."""
    path = Path(config.grasp)
    if not path.is_file():
        raise UnknownName("grasp (or file of a ContactConfiguration)", config.grasp, GRASPS)
    hand = load(path, ContactConfiguration)
    if hand.side != config.side:
        raise BadInput(
            f"grasp={path} is of a {hand.side} hand, side={config.side} is asked for: give side={hand.side} with a "
            "prior that has seen that hand, or another file"
        )
    if not hand.touching.any():
        raise BadInput(f"grasp={path}: no finger touches the object")
    tips = forward(hand.wrist_pose, hand.finger_pose, hand.betas, hand.side)[4::4][hand.touching]
    apart = tips[:, None] - cloud[:, :3]
    nearest = np.linalg.norm(apart, axis=-1).argmin(axis=1)
    offset = apart[np.arange(len(tips)), nearest]
    height = np.einsum("ij,ij->i", offset, cloud[nearest, 3:])
    beside = np.linalg.norm(offset - height[:, None] * cloud[nearest, 3:], axis=1)
    spacing = 0.5 * np.sqrt(_area_of_a_point(cloud))
    gap = np.hypot(height, np.maximum(beside - spacing, 0.0)) - FINGER_RADIUS
    if gap.max() > REACHED:
        names = [name for name, touches in zip(FINGERS, hand.touching) if touches]
        raise BadInput(
            f"grasp={path}: no posture within {1000 * REACHED:.0f} mm of its contacts: the {names[int(gap.argmax())]} "
            f"is said to touch, but is {1000 * gap.max():.0f} mm away from the object's surface as it lies"
        )
    return hand


def _area_of_a_point(cloud: Float[np.ndarray, "point 6"]) -> float:
    """About the square of the distance to the nearest neighbour, at its largest [m^2]."""
    some = cloud[:: -(-len(cloud) // 200), :3]
    apart = np.square(some[:, None] - cloud[:, :3]).sum(axis=-1)
    return float(np.partition(apart, 1, axis=1)[:, 1].max())


def _moved(hand: ContactConfiguration, by: Float[np.ndarray, 7]) -> ContactConfiguration:
    """A configuration moved in the base frame."""
    points = np.where(hand.touching[:, None], transform_points(by, hand.points), 0.0)
    return replace(hand, wrist_pose=pose_multiply(by, hand.wrist_pose), points=points)


def _check_reach(hand: ContactConfiguration, what: str) -> None:
    low, high = GANTRY.limits[:3].T
    wrist = hand.wrist_pose[:3]
    if (wrist < low).any() or (wrist > high).any():
        raise BadInput(
            f"{what} is out of the hand's reach: the wrist would be at {_said(tuple(wrist))} m, it gets to "
            + ", ".join(f"{axis} = {a:g} to {b:g}" for axis, a, b in zip("xyz", low, high))
        )
    joints = forward(hand.wrist_pose, hand.finger_pose, hand.betas, hand.side)
    if joints[:, 2].min() < 0:
        raise BadInput(
            f"{what} is out of the hand's reach: {-1000 * joints[:, 2].min():.0f} mm of it would be in the table"
        )


def _camera(name: str) -> Camera:
    if name in CAMERAS:
        return camera(name, _SIZE)
    if Path(name).is_file():
        return load(name, Camera)
    raise UnknownName("camera (or file of a Camera)", name, tuple(CAMERAS))


def _say_where_unseen(view: Camera, places: dict[str, Float[np.ndarray, 3]]) -> None:
    T = view.poses(1)[0]
    for name, point in places.items():
        pixel = project(view.K, T, point[None])[0]
        if not ((pixel >= 0) & (pixel <= [view.width, view.height])).all():
            say(f"{name} at {_said(tuple(point))} is outside of the camera's picture: the clip will not show it")


def _middle(cloud: Float[np.ndarray, "point 6"]) -> Float[np.ndarray, 3]:
    return (cloud[:, :3].min(axis=0) + cloud[:, :3].max(axis=0)) / 2


def _said(numbers: tuple[float, ...] | None) -> str:
    return ",".join(f"{float(x):.4g}" for x in numbers or ())
