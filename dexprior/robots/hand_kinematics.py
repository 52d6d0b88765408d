"""Positions of a robot hand's points and their Jacobians, for many frames at once (NumPy, no physics).

MuJoCo moves one frame at a time; fitting a whole clip wants all of its frames in one array. The tables come
from the compiled model, so they agree with `mj_kinematics`, which the tests check.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_quat
from dexprior.robots.catalog import fingers_of
from dexprior.robots.machines import EndEffector

if TYPE_CHECKING:
    import mujoco

__all__ = ["HandKinematics"]


@dataclass(frozen=True)
class _Segment:
    """A body below the tool's body: where it sits in its parent, and the joints that move it."""

    parent: int
    """Index of an earlier segment; -1 for the tool's body."""
    position: np.ndarray
    rotation: np.ndarray
    joints: tuple[tuple[int, np.ndarray, np.ndarray, bool, float], ...]
    """(column of q, axis, anchor, whether it slides, reference) in the segment's frame."""


@dataclass(frozen=True)
class HandKinematics:
    """Forward kinematics of a robot hand in the frame of its wrist, as MANO has it."""

    joints: tuple[str, ...]
    """Columns of q, the catalog's order."""
    lower: Float[np.ndarray, " joint"]
    upper: Float[np.ndarray, " joint"]
    fixed: tuple[int, ...]
    """Columns of joints that move no finger in this frame, as those of a wrist between hand and forearm."""
    tip_radius: float
    """Of a fingertip [m]."""
    tips: tuple[int, ...]
    """Rows of the fingertips among the points, in the order of `Fingers.names`; distal joints follow."""
    bases: Float[np.ndarray, "finger 3"]
    """Each finger's knuckle at q = 0: the third joint from its tip [m]."""
    _segments: tuple[_Segment, ...]
    _points: tuple[tuple[int, np.ndarray], ...]
    _start: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, hand: EndEffector) -> HandKinematics:
        """Read the tables of a hand's model.

        Raises:
            BadInput: it has no fingers that follow a human hand's, or a fingertip is not below the body of the wrist.
            MissingExtra: the package that holds it is not installed.
        """
        fingers, model = fingers_of(hand), hand.model
        names, radius = fingers.names, fingers.tip_radius
        wrist = model.site(fingers.wrist)
        sites = [model.site(fingers.tips[finger]) for finger in names]
        root = int(model.site_bodyid[wrist.id])
        R_root_wrist = matrix_from_quat(wrist.quat)
        start = R_root_wrist.T, -R_root_wrist.T @ wrist.pos  # T_wrist_root
        tip_bodies = [int(model.site_bodyid[site.id]) for site in sites]
        distal_bodies = [_last_moved(model, body) for body in tip_bodies]
        order: list[int] = []
        for body, finger in zip([*tip_bodies, *distal_bodies], [*names] * 2):
            chain = []
            while body != root:
                if body == 0:
                    raise BadInput(
                        f"{hand.name}: the {finger}'s tip is not below {model.body(root).name!r}, the body "
                        f"of the site {fingers.wrist!r}"
                    )
                chain.append(body)
                body = int(model.body_parentid[body])
            order += [b for b in reversed(chain) if b not in order]
        segments = tuple(_segment(model, hand, b, order) for b in order)
        points = [(order.index(b), np.array(site.pos)) for site, b in zip(sites, tip_bodies)]
        points += [(order.index(b), np.zeros(3)) for b in distal_bodies]
        limits = np.array([model.joint(j).range for j in hand.joints])
        moving = {joint[0] for segment in segments for joint in segment.joints}
        return cls(
            joints=hand.joints, lower=limits[:, 0], upper=limits[:, 1],
            fixed=tuple(k for k in range(len(hand.joints)) if k not in moving),
            tip_radius=min(_radius(model, site.id) for site in sites) if radius is None else radius,
            tips=tuple(range(len(names))),
            bases=_knuckles(model, distal_bodies, root) @ start[0].T + start[1],
            _segments=segments, _points=tuple(points), _start=start,
        )  # fmt: skip

    def forward(
        self, q: Float[np.ndarray, "time joint"]
    ) -> tuple[Float[np.ndarray, "time point 3"], Float[np.ndarray, "time point 3 joint"]]:
        """Points (fingertips, then distal joints) in the wrist frame [m], and their derivatives."""
        n = len(q)
        placed: list[tuple[np.ndarray, np.ndarray]] = []
        moved_by: list[list[tuple[int, np.ndarray, np.ndarray | None]]] = []
        for segment in self._segments:
            if segment.parent < 0:
                R, p = np.broadcast_to(self._start[0], (n, 3, 3)), np.broadcast_to(self._start[1], (n, 3))
                above: list[tuple[int, np.ndarray, np.ndarray | None]] = []
            else:
                R, p = placed[segment.parent]
                above = moved_by[segment.parent]
            p = p + R @ segment.position
            R = R @ segment.rotation
            mine = list(above)
            for column, axis, anchor, slides, reference in segment.joints:
                value = q[:, column] - reference
                direction = R @ axis
                if slides:
                    p = p + value[:, None] * direction
                    mine.append((column, direction, None))
                    continue
                pivot = p + R @ anchor
                R = R @ _turn(axis, value)
                p = pivot - R @ anchor
                mine.append((column, direction, pivot))
            placed.append((R, p))
            moved_by.append(mine)
        points = np.empty((n, len(self._points), 3))
        jacobian = np.zeros((n, len(self._points), 3, q.shape[1]))
        for k, (segment_index, offset) in enumerate(self._points):
            R, p = placed[segment_index]
            points[:, k] = p + R @ offset
            for column, direction, origin in moved_by[segment_index]:
                arm = direction if origin is None else np.cross(direction, points[:, k] - origin)
                jacobian[:, k, :, column] = arm
        return points, jacobian


def _last_moved(model: mujoco.MjModel, body: int) -> int:
    """The body of a fingertip, or the one above it that a joint moves; its origin is the finger's last joint."""
    while body and not model.body_jntnum[body]:
        body = int(model.body_parentid[body])
    return body


def _radius(model: mujoco.MjModel, site: int) -> float:
    """How thick the solid geom at a fingertip is: a round one's radius, or half of a mesh's shortest side [m]."""
    import mujoco

    body, at = int(model.site_bodyid[site]), model.site_pos[site]
    solid = [g for g in np.flatnonzero(model.geom_bodyid == body) if model.geom_contype[g] or model.geom_conaffinity[g]]
    if not solid:
        raise BadInput(f"nothing solid is at the fingertip {model.site(site).name!r}: say how thick it is")
    nearest = min(solid, key=lambda geom: float(np.linalg.norm(model.geom_pos[geom] - at)))
    round_ones = (mujoco.mjtGeom.mjGEOM_SPHERE, mujoco.mjtGeom.mjGEOM_CAPSULE)
    if model.geom_type[nearest] in round_ones:
        return float(model.geom_size[nearest, 0])
    return float(model.geom_aabb[nearest, 3:].min())


def _knuckles(model: mujoco.MjModel, distal_bodies: list[int], root: int) -> np.ndarray:
    """Third distinct joint centre from each fingertip upwards, in the root body's frame at q = 0 [m]."""
    import mujoco

    model = copy.copy(model)
    model.body_pos[1], model.body_quat[1] = 0.0, [1.0, 0.0, 0.0, 0.0]  # how it hangs on a flange rounds nothing
    data = mujoco.MjData(model)
    data.qpos[:] = 0.0
    mujoco.mj_kinematics(model, data)
    found = []
    for body in distal_bodies:
        centres = [data.xpos[body]]
        while len(centres) < 3 and int(model.body_parentid[body]) != root:
            body = int(model.body_parentid[body])
            if np.linalg.norm(data.xpos[body] - centres[-1]) > 1e-3:  # two bodies may share one joint centre
                centres.append(data.xpos[body])
        found.append(centres[-1])
    return (np.array(found) - data.xpos[root]) @ data.xmat[root].reshape(3, 3)


def _segment(model: mujoco.MjModel, hand: EndEffector, body: int, order: list[int]) -> _Segment:
    import mujoco

    joints = []
    for index in range(model.body_jntadr[body], model.body_jntadr[body] + model.body_jntnum[body]):
        kind = int(model.jnt_type[index])
        name = model.joint(index).name
        if kind not in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE) or name not in hand.joints:
            raise BadInput(f"{hand.name}: joint {name!r} is not a hinge or slide of the catalog's entry")
        slides = kind == mujoco.mjtJoint.mjJNT_SLIDE
        reference = float(model.qpos0[model.jnt_qposadr[index]])
        column = hand.joints.index(name)
        joints.append((column, model.jnt_axis[index].copy(), model.jnt_pos[index].copy(), slides, reference))
    parent = int(model.body_parentid[body])
    return _Segment(
        parent=order.index(parent) if parent in order else -1,
        position=model.body_pos[body].copy(),
        rotation=matrix_from_quat(model.body_quat[body]),
        joints=tuple(joints),
    )


def _turn(axis: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Rotations about a fixed unit axis (Rodrigues)."""
    x, y, z = axis
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    s, c = np.sin(angle)[:, None, None], np.cos(angle)[:, None, None]
    return np.eye(3) + s * K + (1 - c) * (K @ K)
