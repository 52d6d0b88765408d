"""Clouds of others: every kind of file, and what goes wrong with them."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.data.own_objects.files import DENSE, read_object
from dexprior.errors import BadInput, UnknownName


def _ball(n=200, radius=0.03):
    k = np.arange(n)
    z, turn = 1 - (2 * k + 1) / n, np.pi * (3 - np.sqrt(5)) * k
    unit = np.stack([np.sqrt(1 - z**2) * np.cos(turn), np.sqrt(1 - z**2) * np.sin(turn), z], axis=1)
    return radius * unit, unit


def _write(path, points, normals=None):
    """The same points in each of the formats."""
    both = points if normals is None else np.concatenate([points, normals], axis=1)
    if path.suffix == ".npz":
        np.savez(path, points=points, **({} if normals is None else {"normals": normals}))
    elif path.suffix == ".npy":
        np.save(path, both)
    elif path.suffix == ".csv":
        header = "x,y,z" if normals is None else "x,y,z,nx,ny,nz"
        np.savetxt(path, both, delimiter=",", header=header, comments="")
    else:
        names = ["x", "y", "z", "nx", "ny", "nz"][: both.shape[1]]
        head = ["ply", "format ascii 1.0", f"element vertex {len(both)}", *(f"property float {n}" for n in names)]
        path.write_text("\n".join([*head, "end_header", *(" ".join(map(str, row)) for row in both)]) + "\n")
    return path


@pytest.mark.parametrize("name", ["a.npz", "a.npy", "a.csv", "a.ply"])
def test_points_come_back_from_every_format(tmp_path, name):
    points, normals = _ball()
    cloud = read_object(_write(tmp_path / name, points, 2.0 * normals))
    np.testing.assert_allclose(cloud, np.concatenate([points, normals], axis=1), atol=1e-6)


@pytest.mark.parametrize("name", ["a.npz", "a.npy", "a.csv", "a.ply"])
def test_points_without_normals_are_refused_unless_they_are_to_be_estimated(tmp_path, name):
    points, normals = _ball()
    path = _write(tmp_path / name, points)
    with pytest.raises(BadInput, match=r"points without normals: give them beside the points .*normals=estimate"):
        read_object(path)
    found = read_object(path, normals="estimate")
    assert (np.einsum("ij,ij->i", found[:, 3:], normals) > 0.95).all()


@pytest.mark.parametrize(("factor", "unit"), [(1000.0, "mm"), (100.0, "cm")])
def test_a_file_in_other_units_is_told_from_its_size(tmp_path, factor, unit):
    points, normals = _ball()
    path = _write(tmp_path / "a.npz", factor * points, normals)
    with pytest.raises(BadInput, match=rf"m large with units=m, .*give units={unit}"):
        read_object(path)
    np.testing.assert_allclose(read_object(path, units=unit)[:, :3], points, atol=1e-12)
    metres = _write(tmp_path / "b.npz", points, normals)
    with pytest.raises(BadInput, match=r"give units=m$"):
        read_object(metres, units="mm")


@pytest.mark.parametrize("factor", [1.0, 1000.0])
def test_a_mesh_is_sampled_on_its_surface_whichever_way_its_triangles_are_wound(tmp_path, factor):
    """A box of quads: a reader that takes triangles alone would see nothing of it."""
    half = np.array([0.03, 0.02, 0.025])
    corners = [half * [x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    quads = [(1, 2, 4, 3), (5, 7, 8, 6), (1, 5, 6, 2), (3, 4, 8, 7), (1, 3, 7, 5), (2, 6, 8, 4)]
    for name, order in (("a.obj", 1), ("b.obj", -1)):
        lines = ["v " + " ".join(str(factor * x) for x in corner) for corner in corners]
        lines += ["f " + " ".join(map(str, quad[::order])) for quad in quads]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        cloud = read_object(tmp_path / name, units="m" if factor == 1.0 else "mm")
        assert cloud.shape == (DENSE, 6)
        np.testing.assert_allclose(np.abs(cloud[:, :3] / half).max(axis=1), 1.0, atol=1e-5)
        assert (np.einsum("ij,ij->i", cloud[:, :3], cloud[:, 3:]) > 0.015).all()
        for axis in range(3):
            assert {-1.0, 1.0} <= set(cloud[:, 3 + axis].round(6))
    if factor > 1:
        with pytest.raises(BadInput, match="give units=mm"):
            read_object(tmp_path / "a.obj")


def test_what_is_no_cloud_of_an_object_is_one_sentence(tmp_path):
    points, normals = _ball()
    few = _write(tmp_path / "few.npy", points[:20], normals[:20])
    with pytest.raises(BadInput, match="holds 20 points, 64 are needed"):
        read_object(few)
    inward = _write(tmp_path / "inward.npy", points, -normals)
    with pytest.raises(BadInput, match="normals point into the object"):
        read_object(inward)
    nowhere = points.copy()
    nowhere[3] = np.nan
    with pytest.raises(BadInput, match="not finite"):
        read_object(_write(tmp_path / "nan.npy", nowhere, normals))
    flat = normals.copy()
    flat[5] = 0.0
    with pytest.raises(BadInput, match="normals of no length"):
        read_object(_write(tmp_path / "zero.npy", points, flat))
    np.save(tmp_path / "wide.npy", np.zeros((100, 4)))
    with pytest.raises(BadInput, match=r"shape \(100, 4\).*expected \(n, 3\) or \(n, 6\)"):
        read_object(tmp_path / "wide.npy")
    np.savez(tmp_path / "other.npz", cloud=points)
    with pytest.raises(BadInput, match="holds no 'points'; it has: cloud"):
        read_object(tmp_path / "other.npz")
    (tmp_path / "half.csv").write_text("x,y,z,nx\n0,0,0,1\n")
    with pytest.raises(BadInput, match="no column ny, nz"):
        read_object(tmp_path / "half.csv")
    for name in ("junk.obj", "junk.stl"):
        (tmp_path / name).write_text("hello\n")
        with pytest.raises(BadInput, match="holds no triangle"):
            read_object(tmp_path / name)
    (tmp_path / "junk.ply").write_text("hello\n")
    with pytest.raises(BadInput, match="holds no points"):
        read_object(tmp_path / "junk.ply")
    (tmp_path / "a.txt").write_text("0 0 0\n")
    with pytest.raises(UnknownName, match=r"\.obj, \.stl, \.ply, \.npz, \.npy, \.csv"):
        read_object(tmp_path / "a.txt")
    with pytest.raises(BadInput, match="no such file"):
        read_object(tmp_path / "none.obj")
