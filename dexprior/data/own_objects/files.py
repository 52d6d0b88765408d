"""Clouds of objects from files of others: meshes, and points with normals."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float

from dexprior import extras
from dexprior.data.clouds import mesh_triangles, triangle_cloud
from dexprior.errors import BadInput, UnknownName
from dexprior.progress import say
from dexprior.reading import existing, read_csv, read_npy, read_npz

__all__ = ["read_object"]

MESHES = (".obj", ".stl", ".ply")
POINTS = (".ply", ".npz", ".npy", ".csv")
DENSE = 1500
"""Points that a mesh is sampled with: 5 mm apart on a mug."""

_UNITS = {"m": 1.0, "cm": 0.01, "mm": 0.001}
_LARGEST = 1.0  # [m] that an object which a hand moves has at most...
_SMALLEST = 0.003  # [m] ...and at least
_LIKELY = (0.01, 0.5)  # [m] of most such objects: how another unit is guessed
_NEIGHBOURS = 12  # points that a normal is estimated from
_COLUMNS = ("x", "y", "z", "nx", "ny", "nz")
_HOW = (
    "give them beside the points (.npz: points and normals; .npy: six columns; .csv: x,y,z,nx,ny,nz; .ply: nx, ny, nz)"
    ", or set normals=estimate where the points show the object from all sides"
)


def read_object(
    path: str | Path,
    *,
    units: Literal["m", "cm", "mm"] = "m",
    normals: Literal["given", "estimate"] = "given",
    least: int = 64,
) -> Float[np.ndarray, "point 6"]:
    """Points of an object's surface and outward unit normals, in the file's frame [m].

    A mesh gives `DENSE` evenly spread points, a file of points its own.

    Args:
        path: `.obj`, `.stl` or `.ply` with triangles; `.ply`, `.npz` (`points`, `normals`), `.npy` (six columns) or
            `.csv` (x, y, z, nx, ny, nz) with points.
        units: of the file.
        normals: whether to estimate those of points.
        least: points that are needed.

    Raises:
        BadInput: no such file, damaged, points without normals, fewer points than needed, not finite, a size that no
            object in a hand has, or normals that point inwards.
        UnknownName: another kind of file.
    """
    path = existing(path)
    kind = path.suffix.lower()
    if kind not in (*MESHES, *POINTS):
        raise UnknownName("kind of cloud file", kind or path.name, tuple(dict.fromkeys((*MESHES, *POINTS))))
    scale = _UNITS[units]
    if kind in MESHES and (kind != ".ply" or _has_faces(path)):
        triangles = mesh_triangles(path, scale)
        _check_size(triangles.reshape(-1, 3), path, units)
        cloud = triangle_cloud(triangles, DENSE)
        return cloud if _outward(cloud) else cloud * [1, 1, 1, -1, -1, -1]  # another winding of the triangles
    points, given = _read_points(path, kind)
    points = points * scale
    if not np.isfinite(points).all():
        raise BadInput(f"{path} holds points that are not finite")
    if len(points) < least:
        raise BadInput(
            f"{path} holds {len(points)} points, {least} are needed: give more of the surface, or a smaller cloud with "
            "points=N for a prior that was trained on such"
        )
    _check_size(points, path, units)
    if normals == "estimate":
        given = _estimated(points)
    elif given is None:
        raise BadInput(f"{path} holds points without normals: {_HOW}")
    length = np.linalg.norm(given, axis=1, keepdims=True)
    if not np.isfinite(length).all() or not (length > 1e-6).all():
        raise BadInput(f"{path} holds normals of no length or that are not finite: {_HOW}")
    cloud = np.concatenate([points, given / length], axis=1)
    if not _outward(cloud):
        raise BadInput(f"{path}: its normals point into the object: turn them round, or set normals=estimate")
    return cloud


def _has_faces(path: Path) -> bool:
    o3d = extras.open3d()
    with o3d.utility.VerbosityContextManager(o3d.utility.VerbosityLevel.Error):
        return bool(len(o3d.io.read_triangle_mesh(path).triangles))


def _read_points(path: Path, kind: str) -> tuple[np.ndarray, np.ndarray | None]:
    if kind == ".ply":
        o3d = extras.open3d()
        with o3d.utility.VerbosityContextManager(o3d.utility.VerbosityLevel.Error):
            found = o3d.io.read_point_cloud(str(path))
        if not found.has_points():
            raise BadInput(f"{path} holds no points, or it is damaged")
        return np.asarray(found.points), np.asarray(found.normals) if found.has_normals() else None
    if kind == ".csv":
        table = read_csv(path)
        table.needs(_COLUMNS[:3])
        given = [name for name in _COLUMNS if name in table.columns]
        if len(given) not in (3, 6):
            table.needs(_COLUMNS)
        values = np.stack([table.numbers(name) for name in given], axis=1)
        return values[:, :3], values[:, 3:] if len(given) == 6 else None
    if kind == ".npy":
        values = _numbers(read_npy(path), path, (3, 6))
        return values[:, :3], values[:, 3:] if values.shape[1] == 6 else None
    held = read_npz(path)
    if "points" not in held:
        raise BadInput(f"{path} holds no 'points'; it has: {', '.join(held) or 'nothing'}")
    points = _numbers(held["points"], f"{path}: points", (3,))
    if "normals" not in held:
        return points, None
    normals = _numbers(held["normals"], f"{path}: normals", (3,))
    if len(normals) != len(points):
        raise BadInput(f"{path} holds {len(points)} points and {len(normals)} normals")
    return points, normals


def _numbers(values: np.ndarray, where: object, widths: tuple[int, ...]) -> np.ndarray:
    if values.ndim != 2 or values.shape[1] not in widths or values.dtype.kind not in "fiu":
        wanted = " or ".join(f"(n, {width})" for width in widths)
        raise BadInput(f"{where} has shape {values.shape} of {values.dtype}, expected {wanted} of numbers")
    return values.astype(np.float64)


def _check_size(points: Float[np.ndarray, "point 3"], path: Path, units: str) -> None:
    extent = float(np.ptp(points, axis=0).max())
    if _SMALLEST <= extent <= _LARGEST:
        return
    in_file = extent / _UNITS[units]
    likely = [name for name, scale in _UNITS.items() if _LIKELY[0] <= in_file * scale <= _LIKELY[1]]
    fix = f": give units={likely[-1]}" if likely else ""
    raise BadInput(
        f"{path} is {extent:.3g} m large with units={units}, an object in a hand has {_SMALLEST:g} to {_LARGEST:g} m"
        f"{fix}"
    )


def _outward(cloud: Float[np.ndarray, "point 6"]) -> bool:
    """Whether normals point outwards, by the divergence theorem: on an even cloud of a closed surface the mean of p . n
    has the sign of the volume."""
    return bool(np.einsum("ij,ij->i", cloud[:, :3] - cloud[:, :3].mean(axis=0), cloud[:, 3:]).mean() > 0)


def _estimated(points: Float[np.ndarray, "point 3"]) -> Float[np.ndarray, "point 3"]:
    """Normals of planes through neighbours, oriented alike from one to the next and outwards on the whole."""
    o3d = extras.open3d()
    cloud = o3d.geometry.PointCloud(o3d.utility.Vector3dVector(points))
    cloud.estimate_normals(o3d.geometry.KDTreeSearchParamKNN(_NEIGHBOURS))
    cloud.orient_normals_consistent_tangent_plane(_NEIGHBOURS)
    normals = np.asarray(cloud.normals)
    say(f"normals estimated from {len(points)} points: look at the grasp before you trust it")
    return normals if _outward(np.concatenate([points, normals], axis=1)) else -normals
