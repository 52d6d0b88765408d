"""Clouds of a task's objects with normals: an even choice of points on their surfaces, by Open3D."""

from __future__ import annotations

import functools

import numpy as np
from jaxtyping import Float

from dexprior import extras
from dexprior.data.clouds import place
from dexprior.errors import BadInput, UnknownName
from dexprior.worlds.tasks import NutBolt, Peg, PickPlace, SoftGrasp, Task
from dexprior.worlds.tasks.peg import WALL
from dexprior.worlds.threads import bolt_mesh, nut_mesh

__all__ = ["local_cloud", "sheet_cloud", "task_cloud"]

_DENSE = 32  # points drawn for each one that is kept


def task_cloud(
    task: Task, pose: Float[np.ndarray, 7], fixed: Float[np.ndarray, "body 7"], points: int
) -> Float[np.ndarray, "point 6"]:
    """Points and normals of what the task manipulates, then of what it is put into, in the base frame.

    Args:
        task: with or without something fixed: the peg's block and the bolt take 3 of 8 points.
        pose: of the object.
        fixed: poses of the scene's fixed bodies, in the model's order.
        points: in all.

    Raises:
        UnknownName: a task whose surfaces are not known here.
    """
    if not isinstance(task, NutBolt | Peg):
        return place(local_cloud(task, points), np.asarray(pose))
    few = 3 * points // 8
    parts = (local_cloud(task, points - few), pose), (local_cloud(task, few, fixed=True), fixed[0])
    return np.concatenate([place(cloud, np.asarray(at)) for cloud, at in parts])


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
def local_cloud(task: Task, points: int, *, fixed: bool = False) -> Float[np.ndarray, "point 6"]:
    """One part in its own frame: farthest-point sampling of a dense uniform sample; always the same points."""
    o3d = extras.open3d()

    corners, faces = (np.asarray(part) for part in _mesh(task, fixed))
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


def _mesh(task: Task, fixed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and outward-facing triangles."""
    o3d = extras.open3d()

    if isinstance(task, NutBolt):
        return (bolt_mesh if fixed else nut_mesh)(task.config.thread)
    if isinstance(task, Peg):
        return _block(task) if fixed else _box(task.config.half_width, task.config.half_width, task.config.half_length)
    if isinstance(task, PickPlace):
        return _box(*[task.config.half_size] * 3)
    if isinstance(task, SoftGrasp):
        ball = o3d.geometry.TriangleMesh.create_sphere(radius=1.0, resolution=24)
        return np.asarray(ball.vertices) * np.asarray(task.fruit.size) / 2, np.asarray(ball.triangles)
    raise UnknownName("task with known surfaces", task.name, ("nut_bolt", "peg", "pick_place", "soft_grasp"))


def _box(x: float, y: float, z: float) -> tuple[np.ndarray, np.ndarray]:
    o3d = extras.open3d()

    box = o3d.geometry.TriangleMesh.create_box(2 * x, 2 * y, 2 * z)
    return np.asarray(box.vertices) - [x, y, z], np.asarray(box.triangles)


def _block(task: Peg) -> tuple[np.ndarray, np.ndarray]:
    """What is seen of the block: its top around the hole, the chamfer, the walls of the hole, its outside."""
    c = task.config
    square = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
    inner = c.half_width + c.clearance
    rings = [(inner, 0.0), (inner, c.hole_depth - c.chamfer), (inner + c.chamfer, c.hole_depth)]
    rings += [(inner + WALL, c.hole_depth), (inner + WALL, 0.0)]
    vertices = np.concatenate([np.column_stack([r * square, np.full(4, z)]) for r, z in rings])
    faces = []
    for low in range(0, 4 * (len(rings) - 1), 4):
        for k in range(4):
            a, b = low + k, low + (k + 1) % 4
            faces += [[a, a + 4, b], [b, a + 4, b + 4]]
    return vertices, np.array(faces)
