"""Who touches when: from a hand trajectory to the touches in it, and to the moment when it lets go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from dexprior.data.objects import object_frame
from dexprior.geometry.timing import contact_intervals
from dexprior.geometry.transforms import invert_pose, transform_points
from dexprior.types import FINGERS, ContactSchedule, HandTrajectory, ObjectTrajectory

__all__ = ["CONTACT_OFF", "CONTACT_ON", "contact_schedule", "release_frame"]

CONTACT_ON = 0.30
"""[N] a simulated fingertip counts as touching above this..."""
CONTACT_OFF = 0.15
"""[N] ...and as free below this."""


def contact_schedule(
    hands: Sequence[HandTrajectory],
    thing: ObjectTrajectory,
    *,
    touching: Sequence[Bool[np.ndarray, "time 5"]] | None = None,
) -> ContactSchedule:
    """The touches of a clip's hands: when, where on the object and how hard.

    Args:
        hands, thing: at the same times.
        touching: which fingers of each hand touch; by default those whose contact is more likely than not.
    """
    frame = invert_pose(object_frame(thing))
    touches = []
    for h, hand in enumerate(hands):
        tips: Float[np.ndarray, "time 5 3"] = transform_points(frame, hand.joints[:, 4::4])
        touches += [
            (hand, FINGERS[k], a, b, tips[a:b, k].mean(axis=0), hand.force[a:b, k].mean())
            for k in range(len(FINGERS))
            for a, b in contact_intervals((hand.contact > 0.5 if touching is None else touching[h])[:, k])
        ]
    return ContactSchedule(
        side=tuple(hand.side for hand, *_ in touches),
        finger=tuple(finger for _, finger, *_ in touches),
        t_on=np.array([hand.t[a] for hand, _, a, *_ in touches]),
        t_off=np.array([hand.t[b - 1] for hand, _, _, b, *_ in touches]),
        point=np.array([point for *_, point, _ in touches]).reshape(-1, 3),
        normal_force=np.array([force for *_, force in touches]),
    )


def release_frame(touching: Bool[np.ndarray, "time finger"]) -> int:
    """The last frame in which two fingers touch; the last of all where there is none."""
    held = np.flatnonzero(touching.sum(axis=1) >= 2)
    return int(held[-1]) if len(held) else len(touching) - 1
