"""Object poses of a foreign data set, brought into the base frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from dexprior.data.importers.base import Mesh
from dexprior.data.importers.checks import last_measured, measured
from dexprior.data.objects import rigid_object
from dexprior.geometry.transforms import IDENTITY_POSE, pose_multiply
from dexprior.types import ObjectTrajectory

__all__ = ["most_moved", "object_track", "objects_with_meshes"]


def object_track(
    name: str,
    t: Float[np.ndarray, " time"],
    pose: Float[np.ndarray, "time 7"],
    valid: Bool[np.ndarray, " time"],
    *,
    base_pose: Float[np.ndarray, "*time 7"] = IDENTITY_POSE,
) -> ObjectTrajectory | None:
    """A trajectory whose unmeasured frames repeat the last measured one; None where none was measured.

    Args:
        name: the object.
        t: seconds.
        pose: [x y z qw qx qy qz] in the data set's frame; NaN counts as not measured.
        valid: which frames the data set annotates.
        base_pose: pose of the data set's frame in the base frame, one or one a frame.
    """
    valid = valid & measured(pose)
    if not valid.any():
        return None
    held = pose[last_measured(valid, f"object {name!r}")]
    return rigid_object(name, t, pose_multiply(base_pose, held), valid)


def objects_with_meshes(
    t: Float[np.ndarray, " time"],
    tracks: Iterable[tuple[str, Float[np.ndarray, "time 7"], Bool[np.ndarray, " time"]]],
    mesh: Callable[[str], Path],
    *,
    base_pose: Float[np.ndarray, " 7"] = IDENTITY_POSE,
) -> tuple[list[ObjectTrajectory], dict[str, Mesh], list[str]]:
    """Trajectories of several objects, the meshes that are there, and what is said of objects that never were seen.

    Args:
        t: seconds.
        tracks: name, pose and which frames are annotated, of each object; see `object_track`.
        mesh: where an object's mesh should lie.
        base_pose: pose of the data set's frame in the base frame.
    """
    objects, meshes, problems = [], {}, []
    for name, pose, valid in tracks:
        thing = object_track(name, t, pose, valid, base_pose=base_pose)
        if thing is None:
            problems.append(f"object {name} was annotated in no frame and is left out")
            continue
        objects.append(thing)
        if (path := mesh(name)).is_file():
            meshes[name] = Mesh(path=path)
    return objects, meshes, problems


def most_moved(objects: list[ObjectTrajectory]) -> str | None:
    """Name of the object that travels furthest: the one acted on, where the data set does not say."""
    if not objects:
        return None
    return max(objects, key=lambda thing: float(np.linalg.norm(np.ptp(thing.centre, axis=0)))).object
