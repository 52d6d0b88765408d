"""The hybrid stepper: one answer per impact, MuJoCo for all else, and no energy from nowhere."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
import pytest

from dexprior.collision import HybridConfig, HybridStepper, RestitutionFriction
from dexprior.errors import BadInput, UnknownName

WORLD = """
<mujoco>
  <option timestep="0.001" integrator="{integrator}" cone="elliptic"/>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 0.1" solref="{solref}"/>
    <body name="ellipse" pos="0 0 0.2">
      <freejoint/>
      <geom name="ellipse" type="ellipsoid" size="0.035 0.03 0.025" mass="0.0364" solref="{solref}"/>
    </body>
    <body name="box" pos="0.5 0 0.05">
      <freejoint/>
      <geom name="box" type="box" size="0.05 0.05 0.05" mass="0.2"/>
    </body>
    <body name="pusher" pos="0.38 0 0.05">
      <joint name="push" type="slide" axis="1 0 0" damping="2"/>
      <geom name="pusher" type="sphere" size="0.03" mass="0.3"/>
    </body>
  </worldbody>
  <actuator><motor joint="push" name="push"/></actuator>
</mujoco>
"""
SOFT_AND_BOUNCY = "0.01 0.1"  # MuJoCo's own answer would be large: a double count would show
TUNED = np.array([0.3, 0.3, 0.001, 1.0, 0.0])


def world(integrator="Euler", solref=SOFT_AND_BOUNCY):
    model = mujoco.MjModel.from_xml_string(WORLD.format(integrator=integrator, solref=solref))
    return model, mujoco.MjData(model)


def throw(data):
    """Tilt the ellipse and throw it at the floor."""
    data.qpos[3:7] = [np.cos(0.25), 0.0, np.sin(0.25), 0.0]
    data.qvel[:6] = [0.6, 0.1, -1.0, 0.5, 2.0, 0.3]


def energy(model, data):
    """Kinetic and potential energy of the ellipse [J]."""
    velocity = np.zeros(6)
    body = model.body("ellipse").id
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_BODY, body, velocity, 1)
    inertia, mass = model.body_inertia[body], model.body_mass[body]
    kinetic = 0.5 * (mass * velocity[3:] @ velocity[3:] + velocity[:3] @ (inertia * velocity[:3]))
    return kinetic + mass * 9.81 * data.qpos[2]


@dataclass
class Recorded:
    """Passes on to another model, and keeps what was asked and answered; `spoil` alters the answer."""

    inner: object
    spoil: object = None

    def __post_init__(self):
        self.asked = []

    @property
    def rows(self):
        return self.inner.rows

    @property
    def parameters(self):
        return self.inner.parameters

    def inside(self, pre, geometry, phi):
        return self.inner.inside(pre, geometry, phi) if hasattr(self.inner, "inside") else np.array([True])

    def predict(self, pre, geometry, phi):
        post, std = self.inner.predict(pre, geometry, phi)
        if self.spoil is not None:
            post = self.spoil(pre, post)
        self.asked.append((pre[0].copy(), post[0].copy(), geometry))
        return post, std


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "implicit"])
def test_a_dropped_ellipse_leaves_as_the_model_says(surrogate, integrator):
    model, data = world(integrator)
    throw(data)
    recorded = Recorded(surrogate)
    stepper = HybridStepper(model, data, [("floor", "ellipse")], recorded, TUNED)
    while stepper.counts["impacts"] == 0:
        stepper.step()
    (_, post, geometry), start = recorded.asked[0], data.time
    while data.ncon and any("ellipse" in pair for pair in touching(model, data)):
        stepper.step()
    fallen = np.zeros(model.nv)
    fallen[2] = -9.81 * (data.time - start + model.opt.timestep)
    difference = (data.qvel - post - fallen)[:6]
    assert np.linalg.norm(difference[:3]) < 0.02 * np.linalg.norm(post[:3])
    assert np.linalg.norm(difference[3:]) < 0.02 * np.linalg.norm(post[3:6])
    assert (geometry.jacobian[0] @ post)[0] > 0
    assert stepper.counts["impacts"] == 1


def touching(model, data):
    return [tuple(model.geom(g).name for g in pair) for pair in data.contact.geom]


def test_without_watched_pairs_it_is_mj_step(surrogate):
    model, data = world()
    twin = mujoco.MjData(model)
    throw(data)
    throw(twin)
    stepper = HybridStepper(model, data, [], surrogate, TUNED)
    for _ in range(300):
        stepper.step()
        mujoco.mj_step(model, twin)
    np.testing.assert_array_equal(data.qpos, twin.qpos)
    np.testing.assert_array_equal(data.qvel, twin.qvel)


def test_a_sustained_push_is_mujocos(surrogate):
    """The pusher starts in touch and accelerates slowly: no impact, the same bits as MuJoCo."""
    model, data = world()
    data.qpos[model.joint("push").qposadr[0]] = 0.0401  # touches the box
    data.ctrl[0] = 8.0
    twin = mujoco.MjData(model)
    twin.qpos[:], twin.ctrl[:] = data.qpos, data.ctrl
    stepper = HybridStepper(model, data, [("pusher", "box")], surrogate, TUNED)
    for _ in range(400):
        stepper.step()
        mujoco.mj_step(model, twin)
    assert data.qpos[model.joint("push").qposadr[0]] > 0.1  # it did push
    np.testing.assert_array_equal(data.qpos, twin.qpos)
    assert stepper.counts["impacts"] == 0


def test_a_strike_that_goes_on_pushing_is_handed_back():
    model, data = world()
    data.qvel[model.joint("push").dofadr[0]] = 1.0
    data.ctrl[0] = 30.0
    stepper = HybridStepper(model, data, [("pusher", "box")], RestitutionFriction(), np.array([0.05, 0.3]))
    for _ in range(400):
        stepper.step()
    assert stepper.counts["impacts"] >= 1
    assert stepper.counts["handed_back"] >= 1
    gap = data.body("box").xpos[0] - data.body("pusher").xpos[0]
    assert gap > 0.07  # MuJoCo keeps them apart again: 0.08 m is just touching


def test_the_other_contacts_of_the_world_stay_mujocos():
    """While the ellipse bounces off the floor by the model, the box keeps standing on the same floor."""
    model, data = world()
    throw(data)
    stepper = HybridStepper(model, data, [("floor", "ellipse")], RestitutionFriction(), np.array([0.6, 0.2]))
    lowest = np.inf
    for _ in range(500):
        stepper.step()
        lowest = min(lowest, data.body("box").xpos[2])
    assert stepper.counts["impacts"] >= 2
    assert lowest > 0.048


@pytest.mark.parametrize("solref", ["0.02 1", SOFT_AND_BOUNCY])
def test_impacts_never_add_energy(surrogate, solref):
    model, data = world(solref=solref)
    throw(data)
    stepper = HybridStepper(model, data, [("floor", "ellipse")], surrogate, TUNED)
    mujoco.mj_forward(model, data)
    top, bounces = energy(model, data), 0
    while stepper.counts["impacts"] < 4 and data.time < 2.0:
        stepper.step()
        if stepper.counts["impacts"] > bounces:
            bounces = stepper.counts["impacts"]
            assert energy(model, data) < top
            top = energy(model, data)
    assert bounces >= 2


@pytest.mark.parametrize(
    ("spoil", "guard"),
    [
        (lambda pre, post: post * np.nan, "not_finite"),
        (lambda pre, post: pre - 3.0 * (post - pre), "energy"),
        (lambda pre, post: 0.5 * pre, "penetrating"),
    ],
)
def test_a_bad_answer_falls_back_to_mujoco_and_is_counted(spoil, guard):
    model, data = world()
    twin = mujoco.MjData(model)
    throw(data)
    throw(twin)
    bad = Recorded(RestitutionFriction(), spoil)
    stepper = HybridStepper(model, data, [("floor", "ellipse")], bad, np.array([0.5, 0.2]))
    for _ in range(300):
        stepper.step()
        mujoco.mj_step(model, twin)
    assert stepper.counts[guard] >= 1
    assert stepper.counts["impacts"] == 0
    np.testing.assert_array_equal(data.qpos, twin.qpos)


def test_an_impact_outside_the_training_range_falls_back_and_is_counted(surrogate):
    model, data = world()
    throw(data)
    data.qvel[2] = -60.0
    stepper = HybridStepper(model, data, [("floor", "ellipse")], surrogate, TUNED)
    for _ in range(10):
        stepper.step()
    assert stepper.counts["out_of_range"] == 1
    assert stepper.counts["impacts"] == 0


def test_the_order_of_the_names_does_not_matter():
    outcomes = []
    for pair in (("floor", "ellipse"), ("ellipse", "floor")):
        model, data = world()
        throw(data)
        stepper = HybridStepper(model, data, [pair], RestitutionFriction(), np.array([0.5, 0.2]))
        for _ in range(200):
            stepper.step()
        outcomes.append(data.qpos.copy())
    np.testing.assert_array_equal(*outcomes)


def test_two_moving_bodies_exchange_momentum():
    """A strike keeps the total momentum along x: the pusher's loss is the box's gain."""
    model, data = world()
    model.opt.gravity[:] = 0
    model.dof_damping[:] = 0
    dof = model.joint("push").dofadr[0]
    data.qvel[dof] = 1.0
    stepper = HybridStepper(model, data, [("pusher", "box")], RestitutionFriction(), np.array([0.7, 0.3]))
    for _ in range(150):
        stepper.step()
    assert stepper.counts["impacts"] == 1
    pusher, box = data.qvel[dof], data.qvel[6]
    assert 0.3 * pusher + 0.2 * box == pytest.approx(0.3, rel=1e-9)
    assert box - pusher == pytest.approx(0.7, rel=0.05)  # Newton's law, up to the box's small turn


def test_wrong_names_shapes_and_integrators_are_refused(surrogate):
    model, data = world()
    with pytest.raises(UnknownName, match="did you mean 'ellipse'"):
        HybridStepper(model, data, [("floor", "elipse")], surrogate, TUNED)
    with pytest.raises(BadInput, match=r"expected \(5,\) or \(1, 5\)"):
        HybridStepper(model, data, [("floor", "ellipse")], surrogate, TUNED[:2])
    model, data = world("RK4")
    with pytest.raises(BadInput, match="RK4"):
        HybridStepper(model, data, [("floor", "ellipse")], surrogate, TUNED)


def test_a_slow_touch_is_left_to_mujoco(surrogate):
    model, data = world()
    throw(data)
    patient = HybridConfig(min_approach=50.0)
    stepper = HybridStepper(model, data, [("floor", "ellipse")], surrogate, TUNED, patient)
    twin = mujoco.MjData(model)
    throw(twin)
    for _ in range(300):
        stepper.step()
        mujoco.mj_step(model, twin)
    np.testing.assert_array_equal(data.qpos, twin.qpos)
