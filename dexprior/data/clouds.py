"""Point clouds with normals: moved, and sampled on meshes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float

from dexprior import extras
from dexprior.errors import BadInput
from dexprior.geometry.rotations import quat_rotate
from dexprior.geometry.sampling import farthest_points
from dexprior.reading import existing

__all__ = ["mesh_triangles", "place", "triangle_cloud"]


def place(cloud: Float[np.ndarray, "n 6"], pose: Float[np.ndarray, "*batch 7"]) -> Float[np.ndarray, "*batch n 6"]:
    """A local cloud at a pose."""
    pose = np.asarray(pose)
    quat = pose[..., None, 3:]
    points = quat_rotate(quat, cloud[:, :3]) + pose[..., None, :3]
    return np.concatenate([points, quat_rotate(quat, cloud[:, 3:])], axis=-1)


def mesh_triangles(path: str | Path, scale: float = 1.0) -> Float[np.ndarray, "triangle 3 3"]:
    """Corners of a mesh file's triangles, by Open3D [m].

    Args:
        path: a mesh in a format of Open3D.
        scale: metres for one unit of the file.

    Raises:
        BadInput: no such file, no triangle with an area, or points that are not finite.
    """
    o3d = extras.open3d()

    path = existing(path)
    with o3d.utility.VerbosityContextManager(o3d.utility.VerbosityLevel.Error):
        if path.suffix.lower() == ".obj":  # the other reader leaves faces of more than three corners out
            try:
                shape = o3d.t.io.read_triangle_mesh(path).to_legacy()
            except (IndexError, RuntimeError):  # a file without a face
                shape = o3d.geometry.TriangleMesh()
        else:
            shape = o3d.io.read_triangle_mesh(path)
    vertices = np.asarray(shape.vertices) * scale
    faces = np.asarray(shape.triangles, dtype=np.int64).reshape(-1, 3)
    triangles = vertices[faces] if len(vertices) else np.zeros((0, 3, 3))
    if not np.isfinite(vertices).all() or not _twice_area(triangles).sum() > 0:
        raise BadInput(f"{path} holds no triangle, or points that are not finite")
    return triangles


def triangle_cloud(
    triangles: Float[np.ndarray, "triangle 3 3"], points: int, *, seed: int = 0
) -> Float[np.ndarray, "point 6"]:
    """Points and outward normals on triangles, evenly spread [m].

    Uniform samples of the triangles, thinned by farthest-point sampling; the same for one seed.
    """
    cross = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    area = _twice_area(triangles)
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(area), size=8 * points, p=area / area.sum())
    u, v = np.sqrt(rng.random((8 * points, 1))), rng.random((8 * points, 1))
    a, b, c = np.moveaxis(triangles[chosen], 1, 0)
    samples = (1 - u) * a + u * (1 - v) * b + u * v * c
    normals = cross[chosen] / area[chosen, None]
    kept = farthest_points(samples, points)
    return np.concatenate([samples[kept], normals[kept]], axis=1)


def _twice_area(triangles: Float[np.ndarray, "triangle 3 3"]) -> Float[np.ndarray, " triangle"]:
    return np.linalg.norm(np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]), axis=1)
