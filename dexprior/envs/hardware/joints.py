"""Which twists keep the joints of a robot away from their limits: judged by the gate, and kept to by its client.

Joints are foreseen one period ahead, as the arm's controller moves them: linear in the tool's twist. A joint that is
within the margin already may leave it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from dexprior.envs.hardware.profile import RobotProfile
from dexprior.robots.rigs import rig_chain

__all__ = ["JointRoom"]

_DAMPING = 0.02  # of the inverse kinematics that predicts the joints, as in the arm's controller [m, rad]
_TOLERANCE = 1e-9  # [rad] by which a joint within the margin may come closer to its limit


class JointRoom:
    """Distances of the joints to their limits.

    Args:
        robot: whose.
        margin: to keep [rad, m].
    """

    def __init__(self, robot: RobotProfile, margin: float) -> None:
        rig, chain = rig_chain(robot.arm, robot.end)
        self._jacobian = chain.jacobian
        self._limits = [(float(low), float(high)) for low, high in rig.arm.limits]
        self._margin, self._damping = margin, _DAMPING**2 * np.eye(6)

    @property
    def joints(self) -> int:
        """How many there are."""
        return len(self._limits)

    def worst(self, q: Sequence[float], twist: Sequence[float], period: float) -> tuple[int, float] | None:
        """The joint that a twist for a period brings closest to its limit, and how close [rad]; None where all keep the
        margin, or move away from their limits."""
        worst, joint = math.inf, -1
        for k, (now, speed, (low, high)) in enumerate(zip(q, self._speeds(q, np.array(twist)).tolist(), self._limits)):
            then = now + period * speed
            margin = min(then - low, high - then)
            if margin < self._margin and margin < worst and margin < min(now - low, high - now) - _TOLERANCE:
                worst, joint = margin, k
        return None if joint < 0 else (joint, worst)

    def kept(self, q: Sequence[float], twist: Float[np.ndarray, " 6"], period: float) -> Float[np.ndarray, " 6"]:
        """A twist that keeps the margin: with less turning where that helps, and with less of all where it does not."""
        if self.worst(q, twist.tolist(), period) is None:
            return twist
        turning = np.concatenate([np.zeros(3), twist[3:]])
        share = self._share(q, twist - turning, turning, period)
        if share is not None:
            return twist - (1.0 - share) * turning
        return (self._share(q, np.zeros(6), twist, period) or 0.0) * twist

    def _share(
        self, q: Sequence[float], base: Float[np.ndarray, " 6"], part: Float[np.ndarray, " 6"], period: float
    ) -> float | None:
        """Largest share in [0, 1] of a part that keeps the margin beside a base; None if none does."""
        fixed, added = period * self._speeds(q, base), period * self._speeds(q, part)
        least, most = 0.0, 1.0
        for now, a, b, (low, high) in zip(q, fixed.tolist(), added.tolist(), self._limits):
            for room, way, more in ((high - now, a, b), (now - low, -a, -b)):
                free = max(room - self._margin, 0.0)  # towards this limit
                if more > 0.0:
                    most = min(most, (free - way) / more)
                elif more < 0.0:
                    least = max(least, (free - way) / more)
                elif way > free:
                    return None
        return most if most >= least else None

    def _speeds(self, q: Sequence[float], twist: Float[np.ndarray, " 6"]) -> Float[np.ndarray, " joint"]:
        J = np.array(self._jacobian(list(q)))
        return J @ np.linalg.solve(J.T @ J + self._damping, twist)
