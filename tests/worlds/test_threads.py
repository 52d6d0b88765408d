"""Threads are closed meshes, and a nut turned on a bolt advances by the pitch, through contact alone."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.worlds.threads import ThreadConfig, bolt_mesh, nut_mesh


@pytest.mark.parametrize("make", [bolt_mesh, nut_mesh])
def test_meshes_are_closed_and_face_outwards(make):
    vertices, faces = make(ThreadConfig())
    edges = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    _, counts = np.unique(edges, axis=0, return_counts=True)
    assert (counts == 2).all()
    a, b, c = vertices[faces].transpose(1, 0, 2)
    volume = np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6
    t = ThreadConfig()
    full = np.pi * t.radius**2 * t.bolt_length
    hexagon = 2 * np.sqrt(3) * (t.across_flats / 2) ** 2 * t.nut_height
    expected = full if make is bolt_mesh else hexagon - np.pi * (t.radius + t.clearance) ** 2 * t.nut_height
    assert volume == pytest.approx(expected, rel=0.06)


def test_a_nut_fits_its_bolt_in_phase_and_not_half_a_pitch_off():
    """At the same height, the nut's hole is wider than the bolt everywhere in phase, and cuts into it out of phase."""
    t = ThreadConfig(slices=20)
    bolt, nut = bolt_mesh(t)[0], nut_mesh(t)[0]

    def radius(points: np.ndarray, z: float) -> np.ndarray:
        ring = points[np.abs(points[:, 2] - z) < 1e-9][: t.sectors]
        return np.hypot(ring[:, 0], ring[:, 1])

    middle = 4 * t.pitch
    at = radius(bolt, middle)
    assert len(at) == t.sectors
    assert (radius(nut, 0.0) - at).min() == pytest.approx(t.clearance, abs=1e-9)
    assert (radius(nut, 0.5 * t.pitch) - at).min() < -t.depth / 2


def test_pitch_of_five_turns():
    """The nut is driven round at one turn a second under a push of half a newton; nothing else guides it."""
    t = ThreadConfig()
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.option.timestep, spec.option.integrator = 0.001, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.sdf_iterations, spec.option.sdf_initpoints = 6, 12
    for name, (vertices, faces) in (("bolt", bolt_mesh(t)), ("nut", nut_mesh(t))):
        mesh = spec.add_mesh(name=name, uservert=vertices.ravel(), userface=faces.ravel())
        mesh.needsdf, mesh.octree_maxdepth = True, 6
        mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_EXACT
    shape = {"type": mujoco.mjtGeom.mjGEOM_SDF, "friction": [0.1, 0.005, 0.0001], "solref": [0.005, 1.0]}
    spec.worldbody.add_geom(name="bolt", meshname="bolt", **shape)
    nut = spec.worldbody.add_body(name="nut", pos=[0, 0, t.bolt_length])
    nut.add_freejoint(name="nut")
    nut.add_geom(name="nut", meshname="nut", mass=0.05, **shape)
    model = spec.compile()
    data = mujoco.MjData(model)
    turned, rows = 0.0, []
    for _ in range(5600):
        spin = data.qvel[3:6]
        data.qfrc_applied[2] = -0.5
        data.qfrc_applied[3:5] = -0.001 * spin[:2]
        data.qfrc_applied[5] = np.clip(0.002 * (-2 * np.pi - spin[2]), -0.05, 0.05)
        mujoco.mj_step(model, data)
        turned -= spin[2] * model.opt.timestep / (2 * np.pi)
        rows.append((turned, data.qpos[2]))
    turns, height = np.array(rows).T
    on = turns > turns[-1] - 4.0
    assert turns[-1] > 4.5
    assert -np.polyfit(turns[on], height[on], 1)[0] == pytest.approx(t.pitch, rel=0.02)


def test_impossible_threads_are_refused():
    with pytest.raises(BadInput, match="must hold"):
        ThreadConfig(depth=0.02)
    with pytest.raises(BadInput, match="must hold"):
        ThreadConfig(across_flats=0.02)
