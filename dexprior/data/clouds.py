"""Point clouds with normals."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from dexprior.geometry.rotations import quat_rotate

__all__ = ["place"]


def place(cloud: Float[np.ndarray, "n 6"], pose: Float[np.ndarray, "*batch 7"]) -> Float[np.ndarray, "*batch n 6"]:
    """A local cloud at a pose."""
    pose = np.asarray(pose)
    quat = pose[..., None, 3:]
    points = quat_rotate(quat, cloud[:, :3]) + pose[..., None, :3]
    return np.concatenate([points, quat_rotate(quat, cloud[:, 3:])], axis=-1)
