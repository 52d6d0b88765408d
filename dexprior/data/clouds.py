"""Object point clouds with normals: what the prior is conditioned on and what policies see."""

from __future__ import annotations

from functools import cache

import numpy as np
from jaxtyping import Float

from dexprior.geometry.rotations import quat_rotate
from dexprior.worlds.insertion import BOLT_POINTS, NUT_POINTS, InsertionConfig, scene_cloud

__all__ = ["NUT_POINTS", "condition_cloud", "local_clouds", "place"]


@cache
def local_clouds(config: InsertionConfig) -> tuple[Float[np.ndarray, "nut 6"], Float[np.ndarray, "bolt 6"]]:
    """Points and normals of nut and bolt in their own frames; always the same points."""
    return scene_cloud(config, NUT_POINTS, BOLT_POINTS)


def place(cloud: Float[np.ndarray, "n 6"], pose: Float[np.ndarray, "*batch 7"]) -> Float[np.ndarray, "*batch n 6"]:
    """A local cloud at a pose."""
    pose = np.asarray(pose)
    quat = pose[..., None, 3:]
    points = quat_rotate(quat, cloud[:, :3]) + pose[..., None, :3]
    return np.concatenate([points, quat_rotate(quat, cloud[:, 3:])], axis=-1)


def condition_cloud(
    config: InsertionConfig, nut_pose: Float[np.ndarray, 7], bolt: Float[np.ndarray, 3]
) -> Float[np.ndarray, "n 6"]:
    """The scene's cloud in the base frame: nut, then bolt."""
    nut, post = local_clouds(config)
    return np.concatenate([place(nut, nut_pose), place(post, np.array([*bolt, 1.0, 0.0, 0.0, 0.0]))])
