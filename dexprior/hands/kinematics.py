"""Positions of a robot hand's points and their Jacobians, for many frames at once (NumPy, no physics).

MuJoCo moves one frame at a time; fitting a whole clip wants all of its frames in one array. The tables come
from the compiled model, so they agree with `mj_kinematics`, which the tests check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_quat
from dexprior.hands.catalog import Robot

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
    """Forward kinematics of a robot hand in the frame of its tool site (the wrist)."""

    joints: tuple[str, ...]
    """Columns of q, the catalog's order."""
    lower: Float[np.ndarray, " joint"]
    upper: Float[np.ndarray, " joint"]
    tips: tuple[int, ...]
    """Rows of the fingertips among the points, in the order of `Robot.fingers`; distal joints follow."""
    bases: Float[np.ndarray, "finger 3"]
    """Each finger's knuckle at q = 0: the third joint from its tip [m]."""
    _segments: tuple[_Segment, ...]
    _points: tuple[tuple[int, np.ndarray], ...]
    _start: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, robot: Robot, model: mujoco.MjModel) -> HandKinematics:
        """Read the tables of a compiled model.

        Raises:
            BadInput: a fingertip is not below the body that carries the tool site.
        """
        tool = model.site(robot.tool)
        root = int(model.site_bodyid[tool.id])
        R_root_tool = matrix_from_quat(tool.quat)
        start = R_root_tool.T, -R_root_tool.T @ tool.pos  # T_tool_root
        tip_bodies = [int(model.site_bodyid[model.site(robot.tips[f]).id]) for f in robot.fingers]
        distal_bodies = [int(model.body(robot.distals[f]).id) for f in robot.fingers]
        order: list[int] = []
        for body, finger in zip([*tip_bodies, *distal_bodies], [*robot.fingers] * 2):
            chain = []
            while body != root:
                if body == 0:
                    raise BadInput(
                        f"{robot.name}: the {finger}'s tip is not below {model.body(root).name!r}, the body "
                        f"of the site {robot.tool!r}"
                    )
                chain.append(body)
                body = int(model.body_parentid[body])
            order += [b for b in reversed(chain) if b not in order]
        segments = tuple(_segment(model, robot, b, order) for b in order)
        points = [
            (order.index(b), np.array(model.site(robot.tips[f]).pos)) for f, b in zip(robot.fingers, tip_bodies)
        ] + [(order.index(b), np.zeros(3)) for b in distal_bodies]
        limits = np.array([model.joint(j).range for j in robot.joints])
        bases = _knuckles(model, distal_bodies, root) @ start[0].T + start[1]
        n = len(robot.fingers)
        return cls(robot.joints, limits[:, 0], limits[:, 1], tuple(range(n)), bases, segments, tuple(points), start)

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


def _knuckles(model: mujoco.MjModel, distal_bodies: list[int], root: int) -> np.ndarray:
    """Third distinct joint centre from each fingertip upwards, in the root body's frame at q = 0 [m]."""
    import mujoco

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


def _segment(model: mujoco.MjModel, robot: Robot, body: int, order: list[int]) -> _Segment:
    import mujoco

    joints = []
    for index in range(model.body_jntadr[body], model.body_jntadr[body] + model.body_jntnum[body]):
        kind = int(model.jnt_type[index])
        name = model.joint(index).name
        if kind not in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE) or name not in robot.joints:
            raise BadInput(f"{robot.name}: joint {name!r} is not a hinge or slide of the catalog's entry")
        slides = kind == mujoco.mjtJoint.mjJNT_SLIDE
        reference = float(model.qpos0[model.jnt_qposadr[index]])
        column = robot.joints.index(name)
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
