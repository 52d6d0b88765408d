"""Meshes are checked before anything collides; clouds lie on the surface."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.collision.shapes import Side, read_solid, regular_contour, surface_cloud
from dexprior.collision.shapes.solids import solid_of_primitive, solid_of_prism
from dexprior.errors import BadInput


def write_obj(path, vertices, faces):
    lines = [f"v {x} {y} {z}" for x, y, z in vertices] + [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in faces]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_stl(path, vertices, faces):
    body = []
    for face in faces:
        corners = "\n".join(f"vertex {x} {y} {z}" for x, y, z in vertices[face])
        body.append(f"facet normal 0 0 0\nouter loop\n{corners}\nendloop\nendfacet")
    path.write_text("solid box\n" + "\n".join(body) + "\nendsolid box\n")
    return path


@pytest.fixture
def box():
    return solid_of_primitive("box", (0.02, 0.03, 0.05))


@pytest.mark.parametrize("write", [write_obj, write_stl])
def test_a_file_gives_the_body_about_its_centre_whatever_its_origin_and_unit(tmp_path, box, write):
    path = write(tmp_path / f"box.{write.__name__[6:]}", 1000.0 * box.vertices + [7.0, -3.0, 11.0], box.faces)
    solid = read_solid(path, scale=0.001)
    assert len(solid.vertices) == 8
    np.testing.assert_allclose(solid.volume, 8 * 0.02 * 0.03 * 0.05, rtol=1e-5)
    np.testing.assert_allclose(np.abs(solid.vertices), np.tile([0.02, 0.03, 0.05], (8, 1)), atol=1e-7)
    np.testing.assert_allclose(solid.centre, [0.007, -0.003, 0.011], atol=1e-7)


def test_a_mesh_that_is_inside_out_is_turned(tmp_path, box):
    solid = read_solid(write_obj(tmp_path / "box.obj", box.vertices, box.faces[:, ::-1]))
    cloud = surface_cloud(solid, 50, seed=0)
    assert ((cloud[:, :3] * cloud[:, 3:]).sum(axis=1) > 0).all()


def test_an_open_mesh_says_how_many_edges_are_open(tmp_path, box):
    with pytest.raises(BadInput, match=r"not watertight, 3 open edge\(s\)"):
        read_solid(write_obj(tmp_path / "open.obj", box.vertices, box.faces[1:]))


def test_a_flat_mesh_a_hollow_one_and_other_files_are_refused(tmp_path, box):
    flat = box.vertices * [1.0, 1.0, 0.0]
    with pytest.raises(BadInput, match=r"degenerate|watertight"):
        read_solid(write_obj(tmp_path / "flat.obj", flat, box.faces))
    dented = np.concatenate([box.vertices, [[0.0, 0.0, 0.0]]])
    a, b, c = box.faces[0]
    faces = np.concatenate([box.faces[1:], [[a, b, 8], [b, c, 8], [c, a, 8]]])
    path = write_obj(tmp_path / "dented.obj", dented, faces)
    with pytest.raises(BadInput, match="not convex"):
        read_solid(path)
    assert read_solid(path, hull=True).volume < box.volume
    with pytest.raises(BadInput, match="no such file"):
        read_solid(tmp_path / "absent.obj")
    (tmp_path / "notes.txt").write_text("no mesh")
    with pytest.raises(BadInput, match=r"\.obj or \.stl"):
        read_solid(tmp_path / "notes.txt")
    (tmp_path / "empty.obj").write_text("# nothing\n")
    with pytest.raises(BadInput, match="no triangles"):
        read_solid(tmp_path / "empty.obj")
    small = write_obj(tmp_path / "small.obj", box.vertices * 1e-4, box.faces)
    with pytest.raises(BadInput, match="is `scale` right"):
        _ = Side(shape="mesh", mesh=str(small)).solid


def test_a_contour_must_be_convex_and_counter_clockwise():
    with pytest.raises(BadInput, match="convex and counter-clockwise"):
        solid_of_prism(regular_contour(5, 0.05)[::-1], 0.02)


def test_round_primitives_have_the_volume_of_their_formula():
    exact = {
        "sphere": ((0.03,), 4 / 3 * np.pi * 0.03**3),
        "ellipsoid": ((0.02, 0.03, 0.04), 4 / 3 * np.pi * 0.02 * 0.03 * 0.04),
        "cylinder": ((0.02, 0.05), np.pi * 0.02**2 * 0.1),
        "capsule": ((0.02, 0.05), np.pi * 0.02**2 * 0.1 + 4 / 3 * np.pi * 0.02**3),
    }
    for shape, (size, volume) in exact.items():
        np.testing.assert_allclose(solid_of_primitive(shape, size).volume, volume, rtol=0.015)


def test_a_cloud_covers_the_surface_by_area(box):
    cloud = surface_cloud(box, 4000, seed=0)
    share = np.abs(cloud[:, 3:]).mean(axis=0)
    area = np.array([0.03 * 0.05, 0.02 * 0.05, 0.02 * 0.03])
    np.testing.assert_allclose(share, area / area.sum(), atol=0.01)
    face = np.abs(cloud[:, 3:]).argmax(axis=1)
    np.testing.assert_allclose(np.abs(cloud[np.arange(4000), face]), np.array([0.02, 0.03, 0.05])[face], atol=1e-12)
    np.testing.assert_array_equal(cloud, surface_cloud(box, 4000, seed=0))


def test_the_cloud_of_a_planar_body_is_its_outline(box):
    cloud = surface_cloud(box, 500, seed=0, lateral=True)
    assert (cloud[:, [2, 5]] == 0).all()
    np.testing.assert_allclose((np.abs(cloud[:, :2]) / [0.02, 0.03]).max(axis=1), 1.0)


def test_the_outline_of_an_ellipsoid_is_its_ellipse():
    cloud = surface_cloud(solid_of_primitive("ellipsoid", (0.05, 0.03, 0.04)), 300, seed=0, lateral=True)
    np.testing.assert_allclose(((cloud[:, :2] / [0.05, 0.03]) ** 2).sum(axis=1), 1.0, atol=0.01)
    exact = cloud[:, :2] / np.square([0.05, 0.03])
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    assert ((cloud[:, 3:5] * exact).sum(axis=1) > 0.99).all()
    right = (cloud[:, 0] > 0).mean()
    np.testing.assert_allclose(right, 0.5, atol=0.02)
