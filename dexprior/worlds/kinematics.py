"""Forward kinematics and Jacobian of a serial chain for many postures at once, read off a compiled MuJoCo model."""

from __future__ import annotations

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
        # one element a joint: (offset and rotation since the last joint, axis, hinge or slide)
        self._elements: list[tuple[np.ndarray, np.ndarray, np.ndarray, bool]] = []
        offset, rotation = np.zeros(3), np.eye(3)
        for body in reversed(bodies):
            offset = offset + rotation @ model.body_pos[body]
            rotation = rotation @ matrix_from_quat(model.body_quat[body])
            for j in range(model.body_jntadr[body], model.body_jntadr[body] + model.body_jntnum[body]):
                kind, name = int(model.jnt_type[j]), model.joint(j).name
                if kind not in kinds:
                    raise BadInput(f"chain to site {site!r}: joint {name!r} is neither a hinge nor a slide")
                found.append(name)
                anchor = model.jnt_pos[j]
                self._elements.append((offset + rotation @ anchor, rotation, model.jnt_axis[j].copy(), kinds[kind]))
                offset, rotation = -anchor, np.eye(3)
        if found != list(joints):
            raise BadInput(f"chain to site {site!r} has joints {found}, not {list(joints)}")
        self._tip = offset + rotation @ tip.pos, rotation @ matrix_from_quat(tip.quat)

    def forward(
        self, q: Float[np.ndarray, "batch joint"]
    ) -> tuple[Float[np.ndarray, "batch 3"], Float[np.ndarray, "batch 3 3"], Float[np.ndarray, "batch 6 joint"]]:
        """Position and rotation of the site in the world, and its geometric Jacobian.

        The Jacobian maps joint velocities to the twist [v, w] at the site in world axes.
        """
        q = np.asarray(q, dtype=np.float64)
        n, m = len(q), len(self._elements)
        R = np.broadcast_to(np.eye(3), (n, 3, 3))
        p = np.zeros((n, 3))
        axes, origins = np.empty((n, m, 3)), np.empty((n, m, 3))
        for k, (offset, rotation, axis, hinge) in enumerate(self._elements):
            p = p + R @ offset
            R = R @ rotation
            axes[:, k], origins[:, k] = R @ axis, p
            if hinge:
                R = R @ _rotations(axis, q[:, k])
            else:
                p = p + axes[:, k] * q[:, k, None]
        offset, rotation = self._tip
        p = p + R @ offset
        R = R @ rotation
        hinges = np.array([hinge for *_, hinge in self._elements])[:, None]
        linear = np.where(hinges, np.cross(axes, p[:, None] - origins), axes)
        angular = np.where(hinges, axes, 0.0)
        return p, R, np.concatenate([linear, angular], axis=-1).transpose(0, 2, 1)


def _rotations(axis: Float[np.ndarray, " 3"], angle: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n 3 3"]:
    """Rodrigues' formula for one axis and many angles."""
    x, y, z = axis
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    s, c = np.sin(angle)[:, None, None], np.cos(angle)[:, None, None]
    return np.eye(3) + s * K + (1.0 - c) * (K @ K)
