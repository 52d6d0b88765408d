"""Forward kinematics and Jacobian of a serial chain for many postures at once, read off a compiled MuJoCo model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_quat

if TYPE_CHECKING:
    import mujoco

__all__ = ["ChainKinematics"]


class ChainKinematics:
    """A chain of hinges and slides from the world to a site, in NumPy.

    The simulator gives the same for one posture; controllers and planners need hundreds at once.

    Args:
        model: compiled.
        joints: names of the chain's joints, from the base outwards.
        site: whose pose is wanted; every joint between it and the world must be in `joints`.

    Raises:
        BadInput: a joint on the way to the site that is not named, named in another order, or neither hinge nor slide.
    """

    def __init__(self, model: mujoco.MjModel, joints: Sequence[str], site: str) -> None:
        import mujoco

        tip = model.site(site)
        bodies, body = [], int(tip.bodyid[0])
        while body:
            bodies.append(body)
            body = int(model.body_parentid[body])
        kinds = {int(mujoco.mjtJoint.mjJNT_HINGE): True, int(mujoco.mjtJoint.mjJNT_SLIDE): False}
        found: list[str] = []
        # one element a joint: offset and rotation since the last joint, to a frame whose z axis is the joint's
        self._elements: list[tuple[np.ndarray, np.ndarray, bool]] = []
        offset, rotation = np.zeros(3), np.eye(3)
        for body in reversed(bodies):
            offset = offset + rotation @ model.body_pos[body]
            rotation = rotation @ matrix_from_quat(model.body_quat[body])
            for j in range(model.body_jntadr[body], model.body_jntadr[body] + model.body_jntnum[body]):
                kind, name = int(model.jnt_type[j]), model.joint(j).name
                if kind not in kinds:
                    raise BadInput(f"chain to site {site!r}: joint {name!r} is neither a hinge nor a slide")
                found.append(name)
                anchor, to_axis = model.jnt_pos[j], _frame_along(model.jnt_axis[j])
                self._elements.append((offset + rotation @ anchor, rotation @ to_axis, kinds[kind]))
                offset, rotation = -to_axis.T @ anchor, to_axis.T
        if found != list(joints):
            raise BadInput(f"chain to site {site!r} has joints {found}, not {list(joints)}")
        self._tip = offset + rotation @ tip.pos, rotation @ matrix_from_quat(tip.quat)
        self._scalars = [(tuple(o.tolist()), tuple(r.ravel().tolist()), hinge) for o, r, hinge in self._elements]
        self._tip_offset = tuple(self._tip[0].tolist())

    def forward(
        self, q: Float[np.ndarray, "batch joint"]
    ) -> tuple[Float[np.ndarray, "batch 3"], Float[np.ndarray, "batch 3 3"], Float[np.ndarray, "batch 6 joint"]]:
        """Position and rotation of the site in the world, and its geometric Jacobian.

        The Jacobian maps joint velocities to the twist [v, w] at the site in world axes.
        """
        q = np.asarray(q, dtype=np.float64)
        n, m = len(q), len(self._elements)
        R: np.ndarray = np.eye(3)
        p = np.zeros(3)
        cosine, sine = np.cos(q)[:, :, None], np.sin(q)[:, :, None]
        axes, origins = np.empty((m, n, 3)), np.empty((m, n, 3))
        for k, (offset, rotation, hinge) in enumerate(self._elements):
            p = p + R @ offset
            R = R @ rotation
            axes[k], origins[k] = R[..., 2], p
            if hinge:
                x, y, c, s = R[..., 0], R[..., 1], cosine[:, k], sine[:, k]
                turned = np.empty((n, 3, 3))
                turned[..., 0], turned[..., 1], turned[..., 2] = c * x + s * y, c * y - s * x, R[..., 2]
                R = turned
            else:
                p = p + axes[k] * q[:, k, None]
        offset, rotation = self._tip
        p = np.broadcast_to(p + R @ offset, (n, 3))
        R = np.broadcast_to(R @ rotation, (n, 3, 3))
        a, r = axes, p - origins
        J = np.empty((n, 6, m))
        J[:, 0] = (a[..., 1] * r[..., 2] - a[..., 2] * r[..., 1]).T
        J[:, 1] = (a[..., 2] * r[..., 0] - a[..., 0] * r[..., 2]).T
        J[:, 2] = (a[..., 0] * r[..., 1] - a[..., 1] * r[..., 0]).T
        J[:, 3:] = axes.transpose(1, 2, 0)
        for k, (_, _, hinge) in enumerate(self._elements):
            if not hinge:
                J[:, :3, k], J[:, 3:, k] = axes[k], 0.0
        return p, R, J

    def jacobian(self, q: Sequence[float]) -> list[tuple[float, float, float, float, float, float]]:
        """Columns of the geometric Jacobian of one posture, one a joint: [v, w] at the site for 1 rad/s or m/s.

        The same as `forward` gives, without an array: NumPy's calls on three numbers take five times as long.
        """
        xx, xy, xz, yx, yy, yz, zx, zy, zz = 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0  # the frame's axes
        px = py = pz = 0.0
        axes: list[tuple[float, float, float, float, float, float]] = []
        for ((ox, oy, oz), (a, b, c, d, e, f, g, h, i), hinge), at in zip(self._scalars, q, strict=True):
            px, py, pz = (
                px + ox * xx + oy * yx + oz * zx,
                py + ox * xy + oy * yy + oz * zy,
                pz + ox * xz + oy * yz + oz * zz,
            )
            ux, uy, uz = a * xx + d * yx + g * zx, a * xy + d * yy + g * zy, a * xz + d * yz + g * zz
            vx, vy, vz = b * xx + e * yx + h * zx, b * xy + e * yy + h * zy, b * xz + e * yz + h * zz
            zx, zy, zz = c * xx + f * yx + i * zx, c * xy + f * yy + i * zy, c * xz + f * yz + i * zz
            axes.append((zx, zy, zz, px, py, pz))
            if hinge:
                k, s = math.cos(at), math.sin(at)
                xx, xy, xz = k * ux + s * vx, k * uy + s * vy, k * uz + s * vz
                yx, yy, yz = k * vx - s * ux, k * vy - s * uy, k * vz - s * uz
            else:
                xx, xy, xz, yx, yy, yz = ux, uy, uz, vx, vy, vz
                px, py, pz = px + at * zx, py + at * zy, pz + at * zz
        ox, oy, oz = self._tip_offset
        px, py, pz = (
            px + ox * xx + oy * yx + oz * zx,
            py + ox * xy + oy * yy + oz * zy,
            pz + ox * xz + oy * yz + oz * zz,
        )
        columns = []
        for (ax, ay, az, x, y, z), (_, _, hinge) in zip(axes, self._scalars):
            if hinge:
                x, y, z = px - x, py - y, pz - z
                columns.append((ay * z - az * y, az * x - ax * z, ax * y - ay * x, ax, ay, az))
            else:
                columns.append((ax, ay, az, 0.0, 0.0, 0.0))
        return columns


def _frame_along(axis: Float[np.ndarray, " 3"]) -> Float[np.ndarray, "3 3"]:
    """A rotation whose third column is a unit vector."""
    z = axis / np.linalg.norm(axis)
    x = np.cross(np.eye(3)[int(np.argmin(np.abs(z)))], z)
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=1)
