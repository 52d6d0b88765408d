"""Where the human hand takes hold of an object of which nothing but a cloud is known.

Thumb and fingers meet opposite points: the line between them lies in the friction cones of both (Nguyen 1988,
"Constructing Force-Closure Grasps"). A grasp counts where forces within all cones balance, `solve_grasp` finds a
posture, and that posture leaves the object and the table alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_axis_angle
from dexprior.geometry.sampling import farthest_points
from dexprior.hands.skeleton import BONES, FINGER_RADIUS, forward
from dexprior.robots.human_hand import finger_pose_from_hinges
from dexprior.worlds.human_rig import REACHED, Contact, HandGrasp, Vector, solve_grasp

__all__ = ["GRASPS", "Grasp", "grasp_cloud", "hand_in_cloud"]

Grasp = Literal["two-finger", "three-finger", "power"]
GRASPS: tuple[Grasp, ...] = get_args(Grasp)
"""Thumb against index and middle finger side by side; against the two spread; against all four."""

FRICTION = 0.5
"""Coefficient that a grasp must make do with; pads and objects of the suite have more in most worlds."""

_OPPOSITE = {
    "two-finger": ("index", "middle"),
    "three-finger": ("index", "middle"),
    "power": ("index", "middle", "ring", "little"),
}
_BESIDE = 2 * FINGER_RADIUS + 0.001  # [m] between two fingertips that touch side by side
_CROWDED = 0.8  # of that is as near as fingers go
_FEWEST = 0.004  # [m] apart that thumb and fingers are at least
_WIDEST = 0.105  # [m] apart that they are at most
_YAW = (-0.9, 1.4)  # [rad] about z of the line from thumb to fingers: what a right hand reaches from behind the table
_STEEP = 0.45  # [rad] of that line against the table
_INTO = 0.004  # [m] that a segment of the hand may reach into the object: pads give way
_WAYS: tuple[tuple[Vector, Vector], ...] = (
    ((0.7, 0.0, -0.7), (-0.7, 0.0, -0.7)),
    ((0.8, 0.0, -0.6), (-0.6, 0.0, -0.8)),
)
_ROLLS = (0.0, 0.8, 1.35)  # [rad] about the line from thumb to fingers: from above, between, from the right side
_TRIED = 12  # postures that are computed at most: one takes a second


@dataclass(frozen=True)
class _Place:
    """Contacts in a frame whose x axis points from the thumb to the fingers, about z, and how the hand comes."""

    yaw: float
    way: tuple[Vector, Vector]
    contacts: tuple[Contact, ...]
    cost: float


def grasp_cloud(
    cloud: Float[np.ndarray, "point 6"], kind: Grasp, *, floor: float, friction: float = FRICTION
) -> tuple[HandGrasp, float]:
    """A grasp of a cloud by the right hand, relative to the object turned by a yaw: (grasp, yaw [rad]).

    `dexprior.worlds.tasks.strategies.plan.carried` brings it to where the object is.

    Args:
        cloud: points of the whole surface [m] and outward unit normals, about the object's centre, axes of the base.
        kind: of `GRASPS`.
        floor: height of the table in that frame [m].
        friction: between finger and object.

    Raises:
        BadInput: no opposite points that the hand can reach, or no posture within `REACHED` of any of them; names the
            smallest distance.
    """
    places = _places(cloud, kind, floor, friction)
    if not places:
        raise BadInput(_nowhere(cloud, kind))
    least, reached = np.inf, 0
    for place in places[:_TRIED]:
        grasp = solve_grasp(
            place.contacts, fingers=place.way[0], palm=place.way[1], floor=floor, outside=True, within=np.inf
        )
        least = min(least, grasp.error)
        if grasp.error > REACHED:
            continue
        reached += 1
        turn = matrix_from_axis_angle(np.array([0.0, 0.0, -place.yaw]))
        turned = np.concatenate([cloud[:, :3] @ turn.T, cloud[:, 3:] @ turn.T], axis=1)
        joints = forward(grasp.wrist_pose, finger_pose_from_hinges(grasp.touch))
        if hand_in_cloud(joints, turned) <= _INTO and joints[0, 2] > floor + 0.03:
            return grasp, place.yaw
    if reached:
        raise BadInput(
            f"a {kind} grasp of this object: {reached} postures reach their contacts, but the hand reaches more than "
            f"{1000 * _INTO:.0f} mm into the object or into the table in each; turn the object, give more points, or "
            f"take another of {', '.join(GRASPS)}"
        )
    raise BadInput(
        f"no posture of the hand comes within {1000 * REACHED:.0f} mm of the contacts of a {kind} grasp: the nearest "
        f"of {min(len(places), _TRIED)} leaves {1000 * least:.0f} mm; take another of {', '.join(GRASPS)}"
    )


def hand_in_cloud(joints: Float[np.ndarray, "21 3"], cloud: Float[np.ndarray, "point 6"]) -> float:
    """How far the hand's segments reach through a surface: the largest depth [m], zero where they stay outside.

    Args:
        joints: of the hand, as `dexprior.hands.skeleton.forward` gives them.
        cloud: surface points and outward normals in the same frame.
    """
    share = np.linspace(0.0, 1.0, 9)[:, None]
    ends = joints[np.array(BONES)]
    along = (ends[:, None, 0] * (1 - share) + ends[:, None, 1] * share).reshape(-1, 3)
    apart = along[:, None] - cloud[:, :3]
    nearest = np.square(apart).sum(-1).argmin(axis=1)
    offset = apart[np.arange(len(along)), nearest]
    distance = np.linalg.norm(offset, axis=1)
    # beside an edge the nearest point's normal says little: inside is what lies clearly behind it
    within = np.einsum("ij,ij->i", offset, cloud[nearest, 3:]) < -0.5 * distance
    return float(max(0.0, (FINGER_RADIUS - np.where(within, -distance, distance)).max()))


def _places(cloud: Float[np.ndarray, "point 6"], kind: Grasp, floor: float, friction: float) -> list[_Place]:
    """Sets of contacts, best first; those that differ come before those that are nearly alike."""
    kept = farthest_points(cloud[:, :3], min(250, len(cloud)))
    p, n = cloud[kept, :3], cloud[kept, 3:]
    d = p[None] - p[:, None]
    width = np.linalg.norm(d, axis=-1)
    u = d / np.where(width > 0, width, 1.0)[..., None]
    inside = 1.0 / np.hypot(1.0, friction)  # cosine of the cone's half angle
    thumb, fingers = -np.einsum("ijk,ik->ij", u, n), np.einsum("ijk,jk->ij", u, n)
    yaw = np.arctan2(u[..., 1], u[..., 0])
    top = cloud[:, 2].max()
    lowest = floor + min(FINGER_RADIUS + 0.004, 0.4 * (top - floor))
    fits = (np.minimum(thumb, fingers) >= inside) & (width >= _FEWEST) & (width <= _WIDEST)
    fits &= (np.abs(u[..., 2]) <= np.sin(_STEEP)) & (yaw >= _YAW[0]) & (yaw <= _YAW[1])
    fits &= (p[:, None, 2] >= lowest) & (p[None, :, 2] >= lowest)
    i, j = np.nonzero(fits)
    middle = (p[i] + p[j]) / 2
    aim = max(0.15 * top, top - 0.045)  # a little above the middle; fingers that come from above reach so far down
    off = np.hypot(*(middle[:, :2] - (cloud[:, :2].max(0) + cloud[:, :2].min(0)) / 2).T)
    cost = off / 0.012 + np.abs(middle[:, 2] - aim) / 0.015 + 4.0 * (2.0 - thumb[i, j] - fingers[i, j])
    turned = yaw[i, j]
    cost += np.abs(turned - 0.2) / 0.6 + width[i, j] / 0.05
    order = np.argsort(cost, kind="stable")
    chosen: list[int] = []
    for k in order:  # one of each neighbourhood
        if len(chosen) == 40:
            break
        near = np.linalg.norm(middle[chosen] - middle[k], axis=1) < 0.008
        if not (near & (np.abs(turned[chosen] - turned[k]) < 0.25)).any():
            chosen.append(int(k))
    found = []
    for k, roll, (number, way) in itertools.product(chosen, _ROLLS, enumerate(_WAYS)):
        made = _contacts(cloud, kind, (p[i[k]], n[i[k]]), (p[j[k]], n[j[k]]), float(turned[k]), roll, lowest)
        if made is not None and _balanced(made, friction):
            turn = matrix_from_axis_angle(np.array([roll, 0.0, 0.0]))
            ways = tuple(tuple(float(x) for x in turn @ np.array(direction)) for direction in way)
            worse = 1.5 * roll + 0.3 * number + 0.4 * (len(_OPPOSITE[kind]) + 1 - len(made))
            found.append(_Place(float(turned[k]), ways, made, float(cost[k]) + worse))  # type: ignore[arg-type]
    return sorted(found, key=lambda place: place.cost)


def _contacts(
    cloud: Float[np.ndarray, "point 6"],
    kind: Grasp,
    thumb: tuple[np.ndarray, np.ndarray],
    across: tuple[np.ndarray, np.ndarray],
    yaw: float,
    roll: float,
    lowest: float,
) -> tuple[Contact, ...] | None:
    """Contacts of all fingers around a pair of opposite points, in the frame turned by the yaw; None where there is no
    surface for one."""
    turn = matrix_from_axis_angle(np.array([0.0, 0.0, -yaw]))
    points, normals = cloud[:, :3] @ turn.T, cloud[:, 3:] @ turn.T
    a, b = turn @ thumb[0], turn @ across[0]
    line = (b - a) / np.linalg.norm(b - a)
    beside = np.array([0.0, np.cos(roll), np.sin(roll)])  # from the little finger's side to the index finger's
    beside = beside - (beside @ line) * line
    beside /= np.linalg.norm(beside)
    third = np.cross(line, beside)
    facing = (normals @ line > 0.2) & ((points - a) @ line > 0.5 * np.linalg.norm(b - a))
    for spread in _spreads(kind, float(np.linalg.norm(b - a))):
        made = [_contact("thumb", a, turn @ thumb[1])]
        for finger, off in zip(_OPPOSITE[kind], spread):
            found = _surface(points[facing], normals[facing], b, beside, third, off)
            if found is None or found[0][2] < lowest:
                break
            made.append(_contact(finger, *found))
        else:
            return tuple(made)
    return None


def _spreads(kind: Grasp, width: float) -> Iterator[tuple[float, ...]]:
    """Where the fingers opposite the thumb are, across the line from it [m]: the widest that is wanted first."""
    if kind == "power":
        yield from (tuple(s * _BESIDE * k for k in (1.5, 0.5, -0.5, -1.5)) for s in (1.0, 0.9, _CROWDED))
    elif kind == "three-finger":
        wide = float(np.clip(0.28 * width, 0.013, 0.022))
        yield from ((off, -off) for off in (wide, 0.011, _CROWDED * _BESIDE / 2))
    else:
        yield from ((s * _BESIDE / 2, -s * _BESIDE / 2) for s in (1.0, _CROWDED))
        yield (0.0,)


def _surface(
    points: Float[np.ndarray, "point 3"],
    normals: Float[np.ndarray, "point 3"],
    about: Float[np.ndarray, 3],
    beside: Float[np.ndarray, 3],
    third: Float[np.ndarray, 3],
    off: float,
) -> tuple[np.ndarray, np.ndarray] | None:
    """The surface point so far beside another one, by the tangent plane of the nearest known point: (point, normal)."""
    if not len(points):
        return None
    apart = points - about - off * beside
    across = np.stack([apart @ beside, apart @ third], axis=1)
    distance = np.linalg.norm(across, axis=1)
    k = int(distance.argmin())
    if distance[k] > 0.006:
        return None
    # back along the tangent plane: the missing shift across, without its part along the normal
    shift = -(across[k, 0] * beside + across[k, 1] * third)
    return points[k] + shift - (shift @ normals[k]) * normals[k], normals[k]


def _contact(finger: str, point: Float[np.ndarray, 3], normal: Float[np.ndarray, 3]) -> Contact:
    x, y, z = (float(v) for v in point)
    i, j, k = (float(v) for v in normal / np.linalg.norm(normal))
    return Contact(finger=finger, point=(x, y, z), normal=(i, j, k))


def _balanced(contacts: tuple[Contact, ...], friction: float) -> bool:
    """Whether forces within the friction cones, of which the thumb's has a normal part of one, add up to none.

    Cones are pyramids of eight edges; non-negative least squares finds the edges' shares.
    """
    from scipy.optimize import nnls

    columns = []
    middle = np.mean([c.point for c in contacts], axis=0)
    for k, contact in enumerate(contacts):
        normal = np.array(contact.normal)
        first = np.cross(normal, np.eye(3)[np.abs(normal).argmin()])
        first /= np.linalg.norm(first)
        second = np.cross(normal, first)
        for angle in np.arange(8) * np.pi / 4:
            force = -normal + friction * (np.cos(angle) * first + np.sin(angle) * second)
            torque = np.cross(np.array(contact.point) - middle, force) / 0.03
            columns.append(np.concatenate([force, torque, [1.0 if k == 0 else 0.0]]))
    _, left = nnls(np.array(columns).T, np.array([0.0] * 6 + [1.0]))
    return bool(left < 0.03)


def _nowhere(cloud: Float[np.ndarray, "point 6"], kind: Grasp) -> str:
    size = " x ".join(f"{1000 * extent:.0f}" for extent in np.ptp(cloud[:, :3], axis=0))
    return (
        f"no {kind} grasp of an object of {size} mm: no points of it lie opposite each other by their normals, "
        f"{1000 * _FEWEST:.0f} to {1000 * _WIDEST:.0f} mm apart, where a right hand gets at them from above or from "
        f"its side, with surface for each finger; take another of {', '.join(GRASPS)}, turn the object, or check that "
        "the normals point outwards"
    )
