"""Cartesian velocity control of the built-in arm, for many arms at once."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from dexprior.worlds.arm import HOME, JOINT_LIMITS, ArmKinematics

__all__ = ["CartesianVelocityController"]

_DAMPING = 0.02  # of the damped least squares [m, rad]
_POSTURE = 0.5  # pull towards HOME in the null space [1/s]
_LEAD = 0.12  # [rad] how far the joint targets may run ahead of the joints: bounds the contact force


class CartesianVelocityController:
    """Turns twists at the tool centre point into joint position targets, by damped least squares.

    Nakamura and Hanafusa 1986: dq = J^T (J J^T + lambda^2 I)^-1 twist, plus a posture term in the null space. The
    targets may lead the measured joints by a bounded angle only, so that pushing against something saturates.
    """

    def __init__(self, n: int) -> None:
        self.kinematics = ArmKinematics()
        self.target = np.tile(HOME, (n, 1))

    def reset(self, ids: np.ndarray, q: Float[np.ndarray, "m 7"]) -> None:
        """Start from measured joint positions [rad]."""
        self.target[ids] = q

    def step(self, q: Float[np.ndarray, "n 7"], twist: Float[np.ndarray, "n 6"], dt: float) -> Float[np.ndarray, "n 7"]:
        """Joint targets after `dt` seconds of `twist` [m/s, rad/s], base axes."""
        _, _, J = self.kinematics.forward(self.target)
        Jt = J.transpose(0, 2, 1)
        inverse = Jt @ np.linalg.inv(J @ Jt + _DAMPING**2 * np.eye(6))
        posture = _POSTURE * (HOME - self.target)
        dq = (inverse @ (twist - (J @ posture[..., None])[..., 0])[..., None])[..., 0] + posture
        target = np.clip(self.target + dt * dq, q - _LEAD, q + _LEAD)
        self.target = np.clip(target, JOINT_LIMITS[:, 0], JOINT_LIMITS[:, 1])
        return self.target
