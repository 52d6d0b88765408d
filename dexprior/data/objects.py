"""Objects as points of matter: choosing which to follow, moving them with a pose, and a pose from them."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from dexprior.geometry.sampling import farthest_points
from dexprior.geometry.transforms import fit_rigid, pose_multiply, transform_points
from dexprior.types import TRACKS, ObjectTrajectory, PriorCondition

__all__ = ["chosen_points", "followed_object", "frame_points", "object_frame", "rigid_object"]


def frame_points(n: int = TRACKS, radius: float = 0.02) -> Float[np.ndarray, "n 3"]:
    """An even spiral of points around the frame of an object of which nothing but the pose is known [m]."""
    z = 1.0 - (2.0 * np.arange(n) + 1.0) / n
    around = np.pi * (3.0 - np.sqrt(5.0)) * np.arange(n)
    return radius * np.stack([np.sqrt(1 - z**2) * np.cos(around), np.sqrt(1 - z**2) * np.sin(around), z], axis=1)


def chosen_points(points: Float[np.ndarray, "point 3"], n: int = TRACKS) -> Float[np.ndarray, "n 3"]:
    """n of the points, far from each other; fewer points are taken again and again."""
    return points[farthest_points(points, min(n, len(points)))[np.arange(n) % min(n, len(points))]]


def rigid_object(
    name: str,
    t: Float[np.ndarray, " time"],
    pose: Float[np.ndarray, "time 7"],
    valid: Bool[np.ndarray, " time"] | None = None,
    *,
    local: Float[np.ndarray, "point 3"] | None = None,
) -> ObjectTrajectory:
    """A rigid object that is followed by points of its surface.

    Args:
        name: the object.
        t: seconds.
        pose: in the base frame.
        valid: which frames were measured; all of them when omitted.
        local: points of its surface in its own frame [m], of which `TRACKS` are followed; `frame_points` when omitted.
    """
    points = transform_points(pose, frame_points() if local is None else chosen_points(local))
    return ObjectTrajectory(
        object=name, t=t, points=points, valid=np.ones(len(t), dtype=bool) if valid is None else valid, pose=pose
    )


def followed_object(
    t: Float[np.ndarray, " time"], points: Float[np.ndarray, "time track 3"], condition: PriorCondition
) -> ObjectTrajectory:
    """The object of a condition, where its points were found; a rigid one is moved by the motion that fits them best.

    Args:
        t: seconds.
        points: of its matter, in the base frame [m].
        condition: where they are at the start, with the object's pose there unless it deforms.
    """
    pose = None
    if condition.pose is not None:
        moved = fit_rigid(condition.points, points)
        points, pose = transform_points(moved, condition.points), pose_multiply(moved, condition.pose)
    return ObjectTrajectory(object="object", t=t, points=points, valid=np.ones(len(t), dtype=bool), pose=pose)


def object_frame(thing: ObjectTrajectory) -> Float[np.ndarray, "time 7"]:
    """The object's pose; for one that deforms, that of a frame which lay at its centre in the first frame, along the
    base's axes, and moved as rigidly as fits its points best."""
    if thing.pose is not None:
        return thing.pose
    start = np.array([*thing.centre[0], 1.0, 0.0, 0.0, 0.0])
    return pose_multiply(fit_rigid(thing.points[:1], thing.points), start)
