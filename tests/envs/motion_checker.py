"""Whether twists that were sent to a robot, one a millisecond, keep to limits of speed, acceleration and jerk."""

import numpy as np

from dexprior.envs.hardware.franka import MotionLimits


def beyond(twists: np.ndarray, cycles: np.ndarray, limits: MotionLimits) -> dict[str, float]:
    """By how much the largest of each norm exceeds its limit, as a ratio; only of those that do.

    Args:
        twists: (cycle, 6) [m/s, rad/s].
        cycles: milliseconds between each and the one before.
        limits: of the robot.
    """
    found = {}
    dt = 1e-3 * cycles[1:, None]
    for part, names in ((twists[:, :3], ("speed", "acceleration", "jerk")), (twists[:, 3:], ANGULAR)):
        acceleration = np.diff(part, axis=0) / dt
        jerk = np.diff(acceleration, axis=0) / dt[1:]
        for name, values in zip(names, (part, acceleration, jerk)):
            ratio = float(np.linalg.norm(values, axis=1).max(initial=0.0)) / getattr(limits, name)
            if ratio > 1.0 + 1e-6:
                found[name] = ratio
    return found


ANGULAR = ("angular_speed", "angular_acceleration", "angular_jerk")
