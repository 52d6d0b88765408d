"""What holds while bodies collide: the ground, limits and closed loops, compared with MuJoCo's own stiff contacts."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from hybrid_models import Uncertain, strike_two

from dexprior.collision import HybridConfig, HybridStepper, RestitutionFriction

_ARC = " ".join(
    f"{0.05 * np.cos(a):.6f} {y} {0.05 * np.sin(a) - 0.02:.6f}"
    for a in np.linspace(0, np.pi, 25)
    for y in (-0.04, 0.04)
)
STRUCK = {
    "half": '<geom name="struck" type="mesh" mesh="half" mass="0.2" condim="{condim}"/>',
    "box": '<geom name="struck" type="box" size="0.05 0.04 0.02" mass="0.2" condim="{condim}"/>',
}
TABLE = """
<mujoco>
  <option timestep="{step}" cone="{cone}" tolerance="1e-14" iterations="200" jacobian="{jacobian}"/>
  <asset><mesh name="half" vertex="{arc}"/></asset>
  <worldbody>
    <geom name="table" type="plane" size="2 2 0.1" condim="{condim}"/>
    <body name="struck" pos="0 0 0.02"><freejoint/>{geom}</body>
    <body name="ball" pos="0 0 1"><freejoint/>
      <geom name="ball" type="sphere" size="0.02" mass="0.1" condim="{condim}"/></body>
  </worldbody>
  <contact>
    <pair geom1="table" geom2="struck" condim="{condim}" friction="{mu} {mu} 1e-5 1e-5 1e-5" solref="{table}"
          solimp="0.99 0.9999 0.001"/>
    <pair geom1="struck" geom2="ball" condim="{condim}" friction="1e-5 1e-5 1e-5 1e-5 1e-5" solref="0.006 0.15"
          solimp="0.9 0.9 0.001"/>
  </contact>
</mujoco>
"""


def strike(shape, angle, *, step, table, cone="elliptic", condim=1, jacobian="dense", mu=1e-5):
    """An object settled on a table, and a ball just above its surface that comes in from above, aside."""
    xml = TABLE.format(
        step=step,
        table=table,
        mu=mu,
        cone=cone,
        condim=condim,
        jacobian=jacobian,
        arc=_ARC,
        geom=STRUCK[shape].format(condim=condim),
    )
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    for _ in range(round(0.1 / step)):
        mujoco.mj_step(model, data)
    model.opt.gravity[:] = 0
    outward = np.array([np.cos(angle), 0.0, np.sin(angle)])
    data.qpos[7:10] = 0.0702 * outward if shape == "half" else [0.03, 0.0, 0.0602]
    data.qvel[:] = 0
    data.qvel[6:9] = [-1.0, 0.0, -0.3] if shape == "half" else [0.0, 0.0, -1.0]
    return model, data


def strike_in_mujoco(shape, angle, **options):
    """Velocity after the strike, and its restitution, with a table far stiffer than the ball's contact."""
    model, data = strike(shape, angle, step=2e-5, table="0.0005 1", **options)
    before = data.qvel.copy()
    ball = model.geom("ball").id
    while not (rows := [c for c in data.contact if ball in c.geom]):
        mujoco.mj_step(model, data)
    normal = rows[0].frame[:3].copy()
    while any(ball in c.geom for c in data.contact):
        mujoco.mj_step(model, data)
    struck_at = data.qvel[6:9] - data.qvel[:3]
    return data.qvel.copy(), -(normal @ struck_at) / (normal @ before[6:9])


@pytest.mark.parametrize("angle", [0.56, 0.84, 1.08])
def test_a_semi_cylinder_struck_on_a_table_goes_as_in_mujoco(angle):
    expected, restitution = strike_in_mujoco("half", angle)
    model, data = strike("half", angle, step=0.001, table="0.005 1")
    stepper = HybridStepper(model, data, [("struck", "ball")], RestitutionFriction(), np.array([restitution, 0.0]))
    while stepper.counts["impacts"] == 0:
        stepper.step()
    np.testing.assert_allclose(data.qvel, expected, atol=0.02)  # of 1 m/s
    assert abs(data.qvel[0]) > 0.2
    for _ in range(50):  # and it stays on the table
        stepper.step()
        assert abs(data.qvel[2]) < 2e-3
    assert stepper.counts["impacts"] == 1


@pytest.mark.parametrize("angle", [0.56, 0.84, 1.08])
@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
def test_the_table_rubs_while_it_bears_the_blow(angle, cone):
    """The table's friction takes a third of the object's speed and more, within the blow."""
    rough = {"condim": 3, "mu": 0.3}
    expected, restitution = strike_in_mujoco("half", angle, **rough)
    speed = {}
    for name, options in (("rough", rough), ("smooth", {})):
        model, data = strike("half", angle, step=0.001, table="0.005 1", cone=cone, **options)
        stepper = HybridStepper(model, data, [("struck", "ball")], RestitutionFriction(), np.array([restitution, 0.0]))
        while stepper.counts["impacts"] == 0:
            stepper.step()
        speed[name] = stepper.answers[-1].post[0]
    assert speed["rough"] == pytest.approx(expected[0], rel=0.06)
    assert speed["smooth"] < expected[0] - 0.07


def test_friction_never_turns_the_sliding_round():
    """A table that grips holds the object where it is: no speed, not a reversed one."""
    model, data = strike("half", 1.08, step=0.001, table="0.005 1", condim=3, mu=3.0)
    stepper = HybridStepper(model, data, [("struck", "ball")], RestitutionFriction(), np.array([0.5, 0.0]))
    while stepper.counts["impacts"] == 0:
        stepper.step()
    np.testing.assert_allclose(stepper.answers[-1].post[:6], 0.0, atol=1e-4)


@pytest.mark.parametrize(("cone", "condim"), [("elliptic", 3), ("pyramidal", 3), ("pyramidal", 4), ("pyramidal", 1)])
@pytest.mark.parametrize("jacobian", ["dense", "sparse"])
def test_the_held_response_does_not_depend_on_how_mujoco_writes_its_constraints(cone, condim, jacobian):
    outcomes = []
    for options in ({}, {"cone": cone, "condim": condim, "jacobian": jacobian}):
        model, data = strike("half", 0.84, step=0.001, table="0.005 1", **options)
        stepper = HybridStepper(model, data, [("struck", "ball")], RestitutionFriction(), np.array([0.5, 0.0]))
        while stepper.counts["impacts"] == 0:
            stepper.step()
        outcomes.append(stepper.answers[-1].post)
    np.testing.assert_allclose(*outcomes, atol=1e-4)


def test_a_box_struck_from_above_beside_its_centre_bears_the_blow_and_does_not_move():
    """All four corners share the load; the ball rebounds as from a wall."""
    model, data = strike("box", 0.0, step=0.001, table="0.005 1")
    stepper = HybridStepper(model, data, [("struck", "ball")], RestitutionFriction(), np.array([0.6, 0.0]))
    while stepper.counts["impacts"] == 0:
        stepper.step()
    np.testing.assert_allclose(stepper.answers[-1].post[:6], 0.0, atol=1e-4)
    assert stepper.answers[-1].post[8] == pytest.approx(0.6, abs=1e-3)


BEAM = """
<mujoco>
  <option timestep="0.001" gravity="0 0 0"/>
  <worldbody>
    <geom name="table" type="plane" size="2 2 0.1" condim="1"/>
    <body name="box" pos="0 0 0.02"><freejoint/>
      <geom name="box" type="box" size="0.05 0.04 0.02" mass="0.2" condim="1"/>
      <geom name="arm" type="box" size="0.05 0.04 0.005" pos="0.1 0 0.015" mass="0.05" condim="1"/>
    </body>
    <body name="ball" pos="0.14 0 {height}"><freejoint/>
      <geom name="ball" type="sphere" size="0.02" mass="0.1" condim="1"/></body>
  </worldbody>
</mujoco>
"""


@pytest.mark.parametrize(("height", "speed"), [(0.0602, -1.0), (0.0098, 1.0)])
def test_no_held_contact_pulls_and_none_lets_through(height, speed):
    """A blow on an overhang tips the box about its near edge, one from below about its far edge; the others lift."""
    model = mujoco.MjModel.from_xml_string(BEAM.format(height=height))
    data = mujoco.MjData(model)
    data.qpos[2] -= 1e-6  # in touch with the table
    data.qvel[8] = speed
    if speed > 0:
        model.geom("ball").contype = model.geom("ball").conaffinity = 2
        model.geom("arm").contype = model.geom("arm").conaffinity = 3
        model.geom("box").contype = model.geom("box").conaffinity = 1
    stepper = HybridStepper(model, data, [("geom:arm", "geom:ball")], RestitutionFriction(), np.array([0.5, 0.0]))
    while stepper.counts["impacts"] == 0:
        stepper.step()
    answer = stepper.answers[-1]
    mujoco.mj_forward(model, data)
    corners = np.array([[x, y, -0.02] for x in (-0.05, 0.05) for y in (-0.04, 0.04)])
    velocity = answer.post[2] + np.cross(answer.post[3:6], corners)[:, 2]
    momentum = np.zeros(model.nv)
    mujoco.mj_mulM(model, data, momentum, answer.post - answer.pre)
    ground = momentum[2] + momentum[8]  # what the table gave, upward
    pivot, lifted = (velocity[2:], velocity[:2]) if speed < 0 else (velocity[:2], velocity[2:])
    assert ground > 1e-3
    assert (lifted > 0.01).all()
    np.testing.assert_allclose(pivot, 0.0, atol=1e-4)


def test_a_joint_at_its_limit_and_a_closed_loop_hold():
    """A slider at its stop and a slider tied to a heavy one answer as a wall and as their common mass."""
    model, _, stepper = strike_two(
        joint='<joint name="second" type="slide" axis="1 0 0"/>',
        equality='<joint joint1="second" joint2="heavy"/>',
        beside='<body name="heavy" pos="0 2 0"><joint name="heavy" type="slide" axis="1 0 0"/>'
        '<geom size="0.02" mass="0.9"/></body>',
        condim=1,
    )
    post = {answer.pair: answer.post for answer in stepper.answers}
    dof = {name: model.joint(name).dofadr[0] for name in ("a", "stopped", "second", "heavy")}
    assert post[0][dof["a"]] == pytest.approx(-0.5, abs=1e-6)
    assert post[0][dof["stopped"]] == pytest.approx(0.0, abs=1e-6)
    common = 0.1 * 1.5 / 1.1  # m u (1 + e) / (m + M)
    assert post[1][dof["second"]] == pytest.approx(common, rel=1e-6)
    assert post[1][dof["heavy"]] == pytest.approx(common, rel=1e-6)


def test_a_drawn_answer_keeps_the_object_on_the_table_and_has_the_spread_of_the_model():
    posts = []
    for seed in range(60):
        model, data = strike("half", 0.84, step=0.001, table="0.005 1")
        stepper = HybridStepper(
            model, data, [("struck", "ball")], Uncertain(0.1), np.array([0.5, 0.0]), sample=True, seed=seed
        )
        while stepper.counts["impacts"] == 0:
            stepper.step()
        posts.append(stepper.answers[-1].post)
        std = stepper.answers[-1].std
    posts = np.array(posts)
    np.testing.assert_allclose(posts[:, 2], posts[0, 2], atol=1e-6)
    np.testing.assert_allclose(posts[:, 6].std(), std[6], rtol=0.25)
    assert posts[:, 6].std() > 0.01


def test_resting_pairs_that_are_watched_hold_if_so_configured():
    model, data = strike("half", 0.84, step=0.001, table="0.005 1")
    stepper = HybridStepper(
        model,
        data,
        [("struck", "ball"), ("struck", "table")],
        RestitutionFriction(),
        np.array([0.5, 0.0]),
        HybridConfig(resting="holds"),
    )
    while stepper.counts["impacts"] == 0:
        stepper.step()
    assert [answer.pair for answer in stepper.answers] == [0]
    assert data.qvel[2] == pytest.approx(0.0, abs=2e-3)
