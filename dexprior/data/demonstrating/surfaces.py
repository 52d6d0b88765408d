"""Clouds of a task's parts with normals: an even choice of points on their surfaces, by Open3D."""

from __future__ import annotations

import functools

import numpy as np
from jaxtyping import Bool, Float

from dexprior import extras
from dexprior.data.clouds import place
from dexprior.errors import BadInput, UnknownName
from dexprior.worlds.tasks import Task

__all__ = ["local_cloud", "scene_cloud", "shares", "sheet_cloud"]

_DENSE = 32  # points drawn for each one that is kept


def scene_cloud(
    task: Task,
    pose: Float[np.ndarray, 7],
    fixed: Float[np.ndarray, "part 7"],
    matter: Float[np.ndarray, "matter 3"],
    points: int,
) -> tuple[Float[np.ndarray, "point 6"], Bool[np.ndarray, " point"]]:
    """Points and normals of what is manipulated, then of what is fixed, in the base frame, and which of them move.

    Args:
        task: names its parts; those that are fixed share 3 of 8 points.
        pose: of what is manipulated.
        fixed: poses of the other parts, in their order.
        matter: the task's own cloud, for a part without a surface.
        points: in all.

    Raises:
        BadInput: a task that names no part that moves, or more points than a sheet has.
    """
    moving, others = task.manipulated, [part for part in task.parts if not part.moves]
    first, few = shares(points, len(others))
    if moving.surface is None:
        clouds = [sheet_cloud(matter, first)]
    else:
        clouds = [place(local_cloud(task, moving.name, first), np.asarray(pose))]
    clouds += [place(local_cloud(task, part.name, few), at) for part, at in zip(others, fixed)]
    return np.concatenate(clouds), np.arange(points) < first


def shares(points: int, others: int) -> tuple[int, int]:
    """Points on what is manipulated, and on each of so many parts that stand still."""
    few = 3 * points // 8 // others if others else 0
    return points - few * others, few


def sheet_cloud(sheet: Float[np.ndarray, "vertex 3"], points: int) -> Float[np.ndarray, "point 6"]:
    """Points of a cloth as it lies, with normals upwards, by farthest-point sampling.

    Raises:
        BadInput: more points than the sheet has.
    """
    o3d = extras.open3d()
    if points > len(sheet):
        raise BadInput(f"a cloud of {points} points of a cloth of which {len(sheet)} are known")
    cloud = o3d.geometry.PointCloud(o3d.utility.Vector3dVector(sheet))
    cloud.estimate_normals(o3d.geometry.KDTreeSearchParamKNN(8))
    cloud.orient_normals_to_align_with_direction(np.array([0.0, 0.0, 1.0]))
    kept = cloud.farthest_point_down_sample(points)
    return np.concatenate([np.asarray(kept.points), np.asarray(kept.normals)], axis=1)


@functools.lru_cache(maxsize=64)
def local_cloud(task: Task, name: str, points: int) -> Float[np.ndarray, "point 6"]:
    """One part in its own frame: farthest-point sampling of a dense uniform sample; always the same points.

    Raises:
        UnknownName: no such part, or one without a surface.
    """
    o3d = extras.open3d()

    surfaces = {part.name: part.surface for part in task.parts if part.surface is not None}
    if name not in surfaces:
        raise UnknownName("part with a surface", name, tuple(surfaces))
    corners, faces = surfaces[name]()
    rng = np.random.default_rng(0)
    a, b, c = (corners[faces[:, k]] for k in range(3))
    normals = np.cross(b - a, c - a)
    area = np.linalg.norm(normals, axis=1)
    a, b, c, normals, area = (part[area > 0] for part in (a, b, c, normals, area))
    chosen = rng.choice(len(area), size=_DENSE * points, p=area / area.sum())
    u, v = rng.random((2, len(chosen), 1))
    u, v = np.where(u + v > 1, 1 - u, u), np.where(u + v > 1, 1 - v, v)
    dense = o3d.geometry.PointCloud(o3d.utility.Vector3dVector(a[chosen] + u * (b - a)[chosen] + v * (c - a)[chosen]))
    dense.normals = o3d.utility.Vector3dVector(normals[chosen] / area[chosen, None])
    kept = dense.farthest_point_down_sample(points)
    cloud = np.concatenate([np.asarray(kept.points), np.asarray(kept.normals)], axis=1)
    cloud.setflags(write=False)
    return cloud
