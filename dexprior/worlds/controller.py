"""Cartesian velocity control of serial arms, for many at once."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from jaxtyping import Float

from dexprior.robots.arm7 import HOME, JOINT_LIMITS, ArmKinematics

__all__ = ["CartesianVelocityController", "Kinematics"]

_DAMPING = 0.02  # of the damped least squares [m, rad]
_POSTURE = 0.5  # pull towards the home posture in the null space [1/s]
_LEAD = 0.12  # [rad, m] how far the joint targets may run ahead of the joints: bounds the contact force


class Kinematics(Protocol):
    """What the controller needs of an arm."""

    def forward(
        self, q: Float[np.ndarray, "n joint"]
    ) -> tuple[Float[np.ndarray, "n 3"], Float[np.ndarray, "n 3 3"], Float[np.ndarray, "n 6 joint"]]:
        """Position, rotation and geometric Jacobian of the tool centre point."""
        ...


class CartesianVelocityController:
    """Turns twists at the tool centre point into joint position targets, by damped least squares.

    Nakamura and Hanafusa 1986: dq = J^T (J J^T + lambda^2 I)^-1 twist, plus a posture term in the null space. The
    targets may lead the measured joints by a bounded amount only, so that pushing against something saturates. A
    twist that would take one joint beyond that is slowed down as a whole: the tool keeps the direction that was
    asked for, where joints that saturate one by one would turn it (forward at 0.9 m/s became down at 0.6 m/s).

    Args:
        n: arms.
        kinematics: of one arm; the built-in arm's by default, as are `home` and `limits`.
        home: posture to stay near [rad, m].
        limits: lowest and highest target of each joint.
        lead: how far each target may run ahead of its joint [rad, m].
    """

    def __init__(
        self,
        n: int,
        kinematics: Kinematics | None = None,
        *,
        home: Float[np.ndarray, " joint"] = HOME,
        limits: Float[np.ndarray, "joint 2"] = JOINT_LIMITS,
        lead: float | Float[np.ndarray, " joint"] = _LEAD,
    ) -> None:
        self.kinematics = kinematics or ArmKinematics()
        self.home, self.limits, self.lead = np.asarray(home), np.asarray(limits), lead
        self.target = np.tile(self.home, (n, 1))

    def reset(self, ids: np.ndarray, q: Float[np.ndarray, "m joint"]) -> None:
        """Start from measured joint positions [rad, m]."""
        self.target[ids] = q

    def step(
        self, q: Float[np.ndarray, "n joint"], twist: Float[np.ndarray, "n 6"], dt: float
    ) -> Float[np.ndarray, "n joint"]:
        """Joint targets after `dt` seconds of `twist` [m/s, rad/s], base axes."""
        _, _, J = self.kinematics.forward(self.target)
        Jt = J.transpose(0, 2, 1)
        inverse = Jt @ np.linalg.inv(J @ Jt + _DAMPING**2 * np.eye(6))
        posture = _POSTURE * (self.home - self.target)
        dq = (inverse @ (twist - (J @ posture[..., None])[..., 0])[..., None])[..., 0] + posture
        return self.step_joints(q, dq * self._followed(q, dt * dq)[:, None], dt)

    def step_joints(
        self, q: Float[np.ndarray, "n joint"], speed: Float[np.ndarray, "n joint"], dt: float
    ) -> Float[np.ndarray, "n joint"]:
        """Joint targets after `dt` seconds of joint velocities [rad/s, m/s]."""
        target = np.clip(self.target + dt * speed, q - self.lead, q + self.lead)
        self.target = np.clip(target, self.limits[:, 0], self.limits[:, 1])
        return self.target

    def _followed(self, q: Float[np.ndarray, "n joint"], step: Float[np.ndarray, "n joint"]) -> Float[np.ndarray, " n"]:
        """Share of a step of the targets [rad, m] that keeps every joint's lead, in [0, 1]."""
        ahead = np.clip(self.target - q, -self.lead, self.lead)
        room = self.lead - np.sign(step) * ahead
        share = np.divide(room, np.abs(step), out=np.ones_like(step), where=np.abs(step) > room)
        return share.min(axis=1, initial=1.0)
