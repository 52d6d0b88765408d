"""Closed surfaces: read from a file or made from a primitive, checked, and sampled as point clouds with normals."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from dexprior import extras
from dexprior.errors import BadInput

__all__ = ["Solid", "read_solid", "regular_contour", "solid_of_primitive", "solid_of_prism", "surface_cloud"]

_SUFFIXES = (".obj", ".stl")
_CONVEX = 0.995  # share of its convex hull that a convex mesh fills; the rest is rounding of the file
_ROUND = 48  # facets of a round primitive; only its point cloud depends on it


@dataclass(frozen=True, eq=False)
class Solid:
    """A closed triangle mesh about its centre of volume."""

    vertices: Float[np.ndarray, "vertex 3"]
    """[m]"""
    faces: Int[np.ndarray, "face 3"]
    """Counter-clockwise seen from outside."""
    volume: float
    """[m^3]"""
    centre: Float[np.ndarray, " 3"]
    """Where the centre of volume was in the coordinates that the solid was made from [m]."""


def read_solid(path: str | Path, *, scale: float = 1.0, hull: bool = False) -> Solid:
    """Read an OBJ or STL file.

    Args:
        path: the file.
        scale: factor on its coordinates, to metres.
        hull: accept a mesh that is not convex.

    Raises:
        BadInput: no such file, another format, no triangles, an open surface, no volume, not convex.
    """
    o3d = extras.open3d()

    path = Path(path)
    if not path.is_file():
        raise BadInput(f"{path}: no such file")
    if path.suffix.lower() not in _SUFFIXES:
        raise BadInput(f"{path}: meshes are read from {' or '.join(_SUFFIXES)} files")
    with o3d.utility.VerbosityContextManager(o3d.utility.VerbosityLevel.Error):
        mesh = o3d.io.read_triangle_mesh(path)
    mesh.remove_duplicated_vertices()
    mesh.remove_degenerate_triangles()
    mesh.remove_unreferenced_vertices()
    vertices, faces = np.asarray(mesh.vertices) * scale, np.asarray(mesh.triangles, dtype=np.int64)
    if not len(faces):
        raise BadInput(f"{path}: no triangles in it; is it a damaged or empty file?")
    if not np.isfinite(vertices).all():
        raise BadInput(f"{path}: {int((~np.isfinite(vertices)).any(axis=1).sum())} vertices are not finite")
    solid = _closed(vertices, faces, str(path))
    full = _hull_volume(solid.vertices, str(path))
    if not hull and solid.volume < _CONVEX * full:
        raise BadInput(
            f"{path}: not convex, it fills {solid.volume / full:.1%} of its convex hull, what MuJoCo collides. "
            "Give hull=true to accept that, or split the mesh into convex parts."
        )
    return solid


def solid_of_prism(contour: Float[np.ndarray, "vertex 2"], half_height: float) -> Solid:
    """A convex cross-section, extruded along z.

    Raises:
        BadInput: a contour that is not convex, not counter-clockwise, or degenerate.
    """
    edge = np.roll(contour, -1, axis=0) - contour
    following = np.roll(edge, -1, axis=0)
    turn = edge[:, 0] * following[:, 1] - edge[:, 1] * following[:, 0]
    if len(contour) < 3 or not (turn > -1e-12).all() or turn.sum() < 1e-12:
        raise BadInput(f"prism: the contour of {len(contour)} vertices is not convex and counter-clockwise")
    n = len(contour)
    vertices = np.concatenate([np.insert(contour, 2, z, axis=1) for z in (-half_height, half_height)])
    k = np.arange(n)
    after = (k + 1) % n
    walls = np.concatenate([np.stack([k, after, n + after], axis=1), np.stack([k, n + after, n + k], axis=1)])
    fan = np.stack([np.zeros(n - 2, dtype=int), k[1:-1], k[2:]], axis=1)
    faces = np.concatenate([walls, fan[:, ::-1], n + fan])
    return _closed(vertices, faces, "prism")


def solid_of_primitive(shape: str, size: tuple[float, ...]) -> Solid:
    """A box, or a faceted stand-in for a round primitive (its surface sampled, its hull taken)."""
    if shape == "box":
        vertices = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * size
    else:
        theta = np.linspace(0.0, np.pi, _ROUND // 2 + 1)
        phi = np.linspace(0.0, 2.0 * np.pi, _ROUND, endpoint=False)
        ring = np.stack([np.cos(phi), np.sin(phi)], axis=1)
        if shape == "cylinder":
            vertices = np.concatenate(
                [np.column_stack([size[0] * ring, np.full(_ROUND, z)]) for z in (-size[1], size[1])]
            )
        else:
            unit = np.concatenate(
                [np.column_stack([np.sin(t) * ring, np.full(_ROUND, np.cos(t))]) for t in theta[1:-1]]
            )
            unit = np.concatenate([unit, [[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]])
            if shape == "capsule":
                equator = np.column_stack([ring, np.zeros(_ROUND)])
                halves = [np.concatenate([unit[s * unit[:, 2] > 1e-9], equator]) for s in (1, -1)]
                vertices = np.concatenate(
                    [size[0] * half + [0.0, 0.0, s * size[1]] for half, s in zip(halves, (1, -1))]
                )
            else:
                vertices = unit * (size if shape == "ellipsoid" else size[0])
    return _hull(vertices, shape)


def regular_contour(corners: int, circumradius: float) -> Float[np.ndarray, "vertex 2"]:
    """Corners of a regular polygon, counter-clockwise, with a face towards -x [m]."""
    angle = np.pi + np.pi / corners * (1 + 2 * np.arange(corners))
    return circumradius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def surface_cloud(solid: Solid, n: int, *, seed: int, lateral: bool = False) -> Float[np.ndarray, "point 6"]:
    """Points spread evenly over the surface, by area, with their outward normals.

    Args:
        solid: the body.
        n: points.
        seed: the cloud is a function of it.
        lateral: only the outline in the plane z = 0, by length: what a planar body is struck on.
    """
    rng = np.random.default_rng([seed, 3])
    corners = solid.vertices[solid.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    if lateral:
        corners, normals = _outline(corners, normals)
        size = np.linalg.norm(corners[:, 1] - corners[:, 0], axis=1)
    else:
        size = np.linalg.norm(normals, axis=1)
    share = np.cumsum(size) / size.sum()
    stratified = (np.arange(n) + rng.uniform(size=n)) / n
    chosen = np.minimum(np.searchsorted(share, stratified, side="right"), len(size) - 1)
    u, v = rng.uniform(size=(2, n))
    if not lateral:
        u = np.sqrt(u)
    weights = np.stack([1.0 - u, u] if lateral else [1.0 - u, u * (1.0 - v), u * v], axis=1)
    points = np.einsum("nk,nkd->nd", weights, corners[chosen])
    normals = normals[chosen] / np.linalg.norm(normals[chosen], axis=1, keepdims=True)
    return np.concatenate([points, normals], axis=1)


def _outline(
    corners: Float[np.ndarray, "face 3 3"], normals: Float[np.ndarray, "face 3"]
) -> tuple[Float[np.ndarray, "segment 2 3"], Float[np.ndarray, "segment 3"]]:
    """Segments in which triangles cross z = 0, and their outward normals in that plane."""
    above = corners[..., 2] > 0
    crossing = above.any(axis=1) & ~above.all(axis=1)
    corners, above, normals = corners[crossing], above[crossing], normals[crossing]
    lone = np.where(above.sum(axis=1) == 1, above.argmax(axis=1), (~above).argmax(axis=1))  # the corner on its own side
    rows = np.arange(len(corners))
    tip = corners[rows, lone]
    ends = []
    for k in (1, 2):
        foot = corners[rows, (lone + k) % 3]
        way = tip[:, 2] / (tip[:, 2] - foot[:, 2])
        ends.append(tip + way[:, None] * (foot - tip))
    segments = np.stack(ends, axis=1)
    segments[..., 2] = 0.0
    flat = normals * [1.0, 1.0, 0.0]
    keep = (np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1) > 0) & (np.linalg.norm(flat, axis=1) > 0)
    return segments[keep], flat[keep]


def _closed(vertices: np.ndarray, faces: np.ndarray, where: str) -> Solid:
    """Check that a surface is closed, turn it outwards, and move its centre of volume to the origin."""
    edges = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    _, uses = np.unique(edges, axis=0, return_counts=True)
    if (uses == 1).any() or (uses > 2).any():
        raise BadInput(
            f"{where}: not watertight, {int((uses == 1).sum())} open edge(s) and {int((uses > 2).sum())} shared by "
            f"more than two of its {len(faces)} triangles; close it in a mesh editor, or take its convex hull"
        )
    directed = faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    if len(np.unique(directed, axis=0)) < len(directed):
        raise BadInput(f"{where}: its triangles are not oriented alike; recompute the normals in a mesh editor")
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    signed = np.einsum("fd,fd->f", a, np.cross(b, c)) / 6.0
    volume = float(signed.sum())
    extent = np.ptp(vertices, axis=0)
    if abs(volume) < 1e-9 * max(extent.max(), 1e-300) ** 3:
        raise BadInput(f"{where}: degenerate, it encloses no volume")
    centre = (signed[:, None] * (a + b + c) / 4.0).sum(axis=0) / volume
    if volume < 0:
        faces = faces[:, ::-1]
    return Solid(vertices=vertices - centre, faces=faces, volume=abs(volume), centre=centre)


def _hull(vertices: np.ndarray, where: str) -> Solid:
    from scipy.spatial import ConvexHull

    hull = ConvexHull(vertices)
    faces = hull.simplices
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    inward = np.einsum("fd,fd->f", np.cross(b - a, c - a), hull.equations[:, :3]) < 0
    faces = np.where(inward[:, None], faces[:, ::-1], faces).astype(np.int64)
    return _closed(vertices, faces, where)


def _hull_volume(vertices: np.ndarray, where: str) -> float:
    from scipy.spatial import ConvexHull, QhullError

    try:
        return float(ConvexHull(vertices).volume)
    except QhullError:
        raise BadInput(f"{where}: degenerate, its vertices lie in a plane") from None
