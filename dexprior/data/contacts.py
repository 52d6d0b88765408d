"""Who touches when: from a hand trajectory to the touches in it, and to the moment when it lets go."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from dexprior.data.objects import object_frame
from dexprior.geometry.timing import contact_intervals
from dexprior.geometry.transforms import invert_pose, transform_points
from dexprior.types import FINGERS, ContactSchedule, HandTrajectory, ObjectTrajectory

__all__ = ["contact_schedule", "release_frame"]


def contact_schedule(
    hand: HandTrajectory, thing: ObjectTrajectory, *, touching: Bool[np.ndarray, "time 5"] | None = None
) -> ContactSchedule:
    """The touches of a hand trajectory: when, where on the object and how hard.

    Args:
        hand, thing: at the same times.
        touching: which fingers touch; by default those whose contact is more likely than not.
    """
    touching = hand.contact > 0.5 if touching is None else touching
    tips: Float[np.ndarray, "time 5 3"] = transform_points(invert_pose(object_frame(thing)), hand.joints[:, 4::4])
    touches = [(k, a, b) for k in range(len(FINGERS)) for a, b in contact_intervals(touching[:, k])]
    return ContactSchedule(
        finger=tuple(FINGERS[k] for k, _, _ in touches),
        t_on=np.array([hand.t[a] for _, a, _ in touches]),
        t_off=np.array([hand.t[b - 1] for _, _, b in touches]),
        point=np.array([tips[a:b, k].mean(axis=0) for k, a, b in touches]).reshape(-1, 3),
        normal_force=np.array([hand.force[a:b, k].mean() for k, a, b in touches]),
    )


def release_frame(touching: Bool[np.ndarray, "time 5"]) -> int:
    """The last frame in which two fingers touch; the last of all where there is none."""
    held = np.flatnonzero(touching.sum(axis=1) >= 2)
    return int(held[-1]) if len(held) else len(touching) - 1
