"""Several bodies at once: rows of balls, one ball against two, faces, mechanisms, crowded tables."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from hybrid_models import Counted, Sticking, Uncertain

from dexprior.collision import HybridConfig, HybridStepper, RestitutionFriction
from dexprior.collision.hybrid.contacts import Patch
from dexprior.errors import BadInput, UnknownName

RADIUS = 0.02


def balls(places, masses, *, geom='condim="1"', step=0.0005):
    """Free balls without gravity, named ball0, ball1, ..."""
    bodies = "".join(
        f'<body name="ball{k}" pos="{x} {y} 0"><freejoint/>'
        f'<geom name="ball{k}" type="sphere" size="{RADIUS}" mass="{m}" {geom}/></body>'
        for k, ((x, y), m) in enumerate(zip(places, masses))
    )
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="{step}" gravity="0 0 0"/><worldbody>{bodies}</worldbody></mujoco>'
    )
    return model, mujoco.MjData(model)


def linear(data):
    return data.qvel.reshape(-1, 6)[:, :3]


def row_of_balls(n, restitution, *, masses=None, config=None, steps=40):
    """The first ball rolls into a row of touching ones."""
    places = [(-2.2 * RADIUS, 0.0)] + [(k * (2 * RADIUS - 1e-9), 0.0) for k in range(n - 1)]
    model, data = balls(places, masses or [0.1] * n)
    data.qvel[0] = 1.0
    pairs = [(f"ball{k}", f"ball{k + 1}") for k in range(n - 1)]
    stepper = HybridStepper(model, data, pairs, RestitutionFriction(), np.array([restitution, 0.0]), config)
    stepper.step(steps)
    return linear(data)[:, 0], stepper


def test_a_newton_cradle_passes_the_blow_to_the_last_ball():
    speed, stepper = row_of_balls(5, 1.0, steps=20)
    np.testing.assert_allclose(speed, [0, 0, 0, 0, 1], atol=1e-6)
    assert stepper.counts["impacts"] == 4
    assert stepper.counts["unresolved"] == 0


@pytest.mark.parametrize("restitution", [0.0, 0.3, 0.8])
def test_a_row_keeps_its_momentum_and_comes_apart(restitution):
    masses = [0.1, 0.3, 0.05, 0.2]
    speed, stepper = row_of_balls(4, restitution, masses=masses)
    assert np.dot(masses, speed) == pytest.approx(0.1, rel=1e-6)
    assert (np.diff(speed) > -2e-3).all()
    assert np.dot(masses, speed**2) <= 0.1
    assert stepper.counts["unresolved"] == 0


def test_resting_balls_hold_one_another_if_so_configured():
    """Then the row is one body of three masses, as for unwatched contacts: v = m u (1 + e) / (m + 3 m)."""
    speed, _ = row_of_balls(4, 1.0, config=HybridConfig(resting="holds"), steps=20)
    np.testing.assert_allclose(speed, [-0.5, 0.5, 0.5, 0.5], atol=2e-3)


def test_what_the_sweeps_leave_is_stopped_without_rebound_and_counted():
    """One sweep answers the first pair alone; the row behind it is pushed, not run through."""
    speed, stepper = row_of_balls(4, 0.0, config=HybridConfig(max_sweeps=1), steps=12)
    assert stepper.counts["unresolved"] == 1
    assert stepper.counts["impacts"] == 1
    assert np.dot([0.1] * 4, speed) == pytest.approx(0.1, rel=1e-6)
    assert np.isfinite(speed).all()


def test_a_pair_that_cannot_give_way_is_left_to_mujoco_and_counted():
    """A slider that is tied to its place runs into a post: what ties it bears the blow."""
    model = mujoco.MjModel.from_xml_string("""
    <mujoco><option timestep="0.001"/><worldbody>
      <geom name="post" size="0.02" pos="0.0405 0 0"/>
      <body name="slider"><joint name="slider" type="slide" axis="1 0 0"/>
        <geom name="slider" size="0.02"/></body>
    </worldbody><equality><joint joint1="slider"/></equality></mujoco>""")
    data, twin = mujoco.MjData(model), mujoco.MjData(model)
    stepper = HybridStepper(model, data, [("slider", "post")], RestitutionFriction(), np.array([0.5, 0.0]))
    data.qvel[0] = twin.qvel[0] = 1.0
    for _ in range(50):
        stepper.step()
        mujoco.mj_step(model, twin)
    assert stepper.counts["blocked"] == 1
    assert stepper.counts["impacts"] == 0
    np.testing.assert_array_equal(data.qpos, twin.qpos)


def one_against_two(angle, restitution, masses=(0.1, 0.1, 0.1), mirrored=False):
    """A ball that meets two others in the same step, at +-angle from its path."""
    side = -1.0 if mirrored else 1.0
    reach = 2 * RADIUS + 1e-6
    places = [(0.0, 0.0)] + [(reach * np.cos(angle), s * side * reach * np.sin(angle)) for s in (1, -1)]
    model, data = balls(places, masses, step=1e-5)  # so that they hardly move before the touch is seen
    data.qvel[0] = 1.0
    model_of = Counted()
    pairs = [("ball0", "ball1"), ("ball0", "ball2")]
    stepper = HybridStepper(model, data, pairs, model_of, np.array([restitution, 0.0]))
    stepper.step(10)
    assert stepper.counts["impacts"] == 2
    return linear(data).copy(), model_of


@pytest.mark.parametrize("restitution", [0.0, 0.5, 1.0])
def test_one_ball_against_two_obeys_newtons_law_at_both(restitution):
    """p/m (1 + 2 cos^2) = (1 + e) v cos, from both contacts at once; no energy is lost at e = 1."""
    angle = np.deg2rad(40.0)
    velocity, model_of = one_against_two(angle, restitution)
    cos = np.cos(angle)
    impulse = (1 + restitution) * cos / (1 + 2 * cos**2)
    np.testing.assert_allclose(velocity[0], [1 - 2 * impulse * cos, 0, 0], atol=1e-3)
    np.testing.assert_allclose(velocity[1, :2], impulse * np.array([cos, np.sin(angle)]), atol=1e-3)
    assert model_of.calls == 1  # both are asked together
    if restitution == 1.0:
        assert (velocity**2).sum() == pytest.approx(1.0, rel=1e-8)


def test_mirrored_worlds_give_mirrored_answers():
    """Unequal masses, swapped and mirrored: no order of pairs enters."""
    one, _ = one_against_two(0.7, 0.6, masses=(0.1, 0.05, 0.3))
    other, _ = one_against_two(0.7, 0.6, masses=(0.1, 0.05, 0.3), mirrored=True)
    np.testing.assert_allclose(other, one * [1, -1, 1], rtol=0, atol=1e-12)
    straight, _ = one_against_two(0.7, 0.6)
    assert straight[0, 1] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(straight[1], straight[2] * [1, -1, 1], rtol=0, atol=1e-12)


def rough_blow(seed):
    """Kinetic energy before and after a spinning ball meets two others at once, all of them rough and bouncy."""
    rng = np.random.default_rng(seed)
    reach = 2 * RADIUS + 1e-6
    above, below = rng.uniform(0.2, 1.4, 2)
    places = [(0.0, 0.0), *((reach * np.cos(a), reach * np.sin(a)) for a in (above, -below))]
    model, data = balls(places, 0.1 * np.exp(rng.uniform(-2, 2, 3)), geom='condim="3"', step=1e-5)
    data.qvel[:6] = [1.0, 0.3 * rng.normal(), 0.0, 0.0, 0.0, 60.0 * rng.normal()]
    data.qvel[[11, 17]] = 60.0 * rng.normal(size=2)
    phi = np.array([rng.uniform(0.5, 1.0), rng.uniform(0.2, 1.0)])
    stepper = HybridStepper(model, data, [("ball0", "ball1"), ("ball0", "ball2")], RestitutionFriction(), phi)
    mujoco.mj_forward(model, data)
    before = 0.5 * data.qvel @ _momentum(model, data, data.qvel)
    stepper.step(12)
    assert stepper.counts["impacts"] >= 1
    return before, 0.5 * data.qvel @ _momentum(model, data, data.qvel)


@pytest.mark.parametrize("seed", [0, 1, 41, 141])  # the joint law of the last two would add 8 and 9 %
def test_two_rough_blows_at_once_add_no_energy(seed):
    """Each answer alone is passive, and Newton's law at both contacts together need not be (Kane 1984)."""
    before, after = rough_blow(seed)
    assert after <= before * (1 + 1e-9)


@pytest.mark.parametrize(("restitution", "answered"), [(0.99, True), (1.01, False)])
def test_an_answer_that_gains_a_little_energy_is_refused(restitution, answered):
    model, data = balls([(0, 0), (2 * RADIUS + 1e-6, 0)], [0.1, 0.2], step=1e-5)
    data.qvel[0] = 1.0
    stepper = HybridStepper(model, data, [("ball0", "ball1")], RestitutionFriction(), np.array([restitution, 0.0]))
    stepper.step(5)
    assert stepper.counts["impacts"] == answered
    assert stepper.counts["energy"] == (not answered)


@pytest.mark.parametrize("seed", range(12))
def test_drawn_answers_add_no_energy_either(seed):
    """A rebound that is all but elastic, told within 10 %: half of the draws would gain energy."""
    model, data = balls([(0, 0), (2 * RADIUS + 1e-6, 0)], [0.1, 0.2], step=1e-5)
    data.qvel[0] = 1.0
    phi = np.array([0.99, 0.0])
    stepper = HybridStepper(model, data, [("ball0", "ball1")], Uncertain(0.1), phi, sample=True, seed=seed)
    stepper.step(5)
    assert stepper.counts["impacts"] == 1
    assert np.dot([0.1, 0.2], (linear(data) ** 2).sum(axis=1)) <= 0.1 * (1 + 1e-9)


def test_impacts_that_share_no_body_do_not_disturb_each_other():
    places = [(0, 0), (2 * RADIUS + 1e-5, 0), (0, 1), (2 * RADIUS + 1e-5, 1)]
    model, data = balls(places, [0.1, 0.2, 0.1, 0.2])
    data.qvel[0] = data.qvel[12] = 1.0
    model_of = Counted()
    pairs = [("ball0", "ball1"), ("ball2", "ball3")]
    stepper = HybridStepper(model, data, pairs, model_of, np.array([[0.0, 0.0], [1.0, 0.0]]))
    stepper.step(5)
    np.testing.assert_allclose(linear(data)[:, 0], [1 / 3, 1 / 3, -1 / 3, 2 / 3], atol=1e-6)
    assert (model_of.calls, model_of.questions) == (1, 2)


CRATE = """
<mujoco>
  <option timestep="0.001" cone="elliptic" integrator="{integrator}"/>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 0.1"/>
    <body name="crate" pos="0 0 0.1">
      <freejoint/>
      <geom name="a" type="box" size="0.02 0.02 0.02" pos="0.03 0.03 0" mass="0.1"/>
      <geom name="b" type="box" size="0.02 0.02 0.02" pos="-0.03 0.03 0" mass="0.1"/>
      <geom name="c" type="box" size="0.02 0.02 0.02" pos="0.03 -0.03 0" mass="0.1"/>
      <geom name="d" type="box" size="0.02 0.02 0.02" pos="-0.03 -0.03 0" mass="0.1"/>
    </body>
  </worldbody>
</mujoco>
"""


def drop_crate(pairs, model_of, *, tilt=0.0, phi=(0.5, 0.2)):
    model = mujoco.MjModel.from_xml_string(CRATE.format(integrator="Euler"))
    data = mujoco.MjData(model)
    data.qpos[3:7] = [np.cos(tilt / 2), 0.0, np.sin(tilt / 2), 0.0]
    stepper = HybridStepper(model, data, pairs, model_of, np.array(phi))
    while stepper.counts["impacts"] == 0:
        stepper.step()
    return data, stepper


def test_a_flat_face_of_four_geoms_lands_as_one_patch():
    model_of = Counted()
    data, stepper = drop_crate([("crate", "floor")], model_of)
    answer = stepper.answers[-1]
    assert (stepper.counts["impacts"], model_of.questions) == (1, 1)
    assert answer.post[2] == pytest.approx(-0.5 * answer.pre[2], rel=1e-9)
    np.testing.assert_allclose(answer.post[[0, 1, 3, 4, 5]], 0.0, atol=1e-9)
    same, _ = drop_crate([(("a", "b", "c", "d"), "floor")], Counted())
    np.testing.assert_array_equal(same.qvel, data.qvel)
    split, _ = drop_crate([(geom, "floor") for geom in "abcd"], Counted())
    np.testing.assert_allclose(split.qvel, data.qvel, atol=1e-9)  # four pairs at once come to the same


def test_a_face_that_lands_tilted_is_struck_at_its_edge_first():
    data, stepper = drop_crate([("crate", "floor")], Counted(), tilt=0.05)
    answer = stepper.answers[0]
    assert answer.post[4] * answer.pre[2] > 0.1  # it turns towards lying flat
    while stepper.counts["impacts"] < 2 and data.time < 0.4:
        stepper.step()
        if data.ncon and stepper._impact_age:
            assert stepper._approach(stepper._patch(0)) <= 2e-3  # what was answered does not go in
    assert stepper.counts["impacts"] >= 2  # the other edge follows


def test_opposite_normals_are_not_averaged():
    """A pin that touches both sides of its hole: the side that it moves against is the contact."""
    normal = np.array([[1.0, 0, 0], [-1.0, 0, 0]])
    relative = np.stack([np.eye(3), np.eye(3)])
    frame = Patch(normal, relative).frame(np.array([-0.5, 0.2, 0.0]), rows=3)
    np.testing.assert_allclose(frame.jacobian[0], [1, 0, 0])
    np.testing.assert_allclose(frame.velocity, [-0.5, 0.2, 0.0])
    still = Patch(normal, relative).frame(np.zeros(3), rows=2, inverse=np.eye(3))
    assert np.isfinite(still.jacobian).all()


ARM = """
<mujoco>
  <option timestep="0.0005" gravity="0 0 0"/>
  <worldbody>
    <body name="upper"><joint name="shoulder" axis="0 0 1"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" mass="1"/>
      <body name="lower" pos="0.3 0 0"><joint name="elbow" axis="0 0 1" armature="0.01"/>
        <geom name="lower" type="capsule" fromto="0 0 0 0.25 0 0" size="0.02" mass="0.5" condim="1"/>
      </body>
    </body>
    <body name="ball" pos="0.5 0.045 0"><freejoint/>
      <geom name="ball" type="sphere" size="0.02" mass="0.2" condim="1"/></body>
  </worldbody>
</mujoco>
"""


def test_a_mechanism_answers_with_its_own_inertia():
    """M dv = J^T p for the arm and the ball together, the ball gains what the arm loses, and Newton's law holds."""
    model = mujoco.MjModel.from_xml_string(ARM)
    data = mujoco.MjData(model)
    data.qvel[:2] = [3.0, 1.0]
    stepper = HybridStepper(model, data, [("lower", "ball")], RestitutionFriction(), np.array([0.6, 0.0]))
    while stepper.counts["impacts"] == 0:
        stepper.step()
    answer = stepper.answers[-1]
    change = np.zeros(model.nv)
    mujoco.mj_mulM(model, data, change, answer.post - answer.pre)
    push = change[2:5]  # on the ball
    assert np.linalg.norm(push) > 0.05
    np.testing.assert_allclose(push[2], 0.0, atol=1e-12)
    at = data.body("ball").xpos - RADIUS * push / np.linalg.norm(push)
    jacobian = np.zeros((3, model.nv))
    mujoco.mj_jac(model, data, jacobian, None, at, model.body("lower").id)
    np.testing.assert_allclose(change[:2], -(jacobian[:, :2].T @ push), rtol=1e-2)  # moved half a step since
    energy = [0.5 * v @ _momentum(model, data, v) for v in (answer.pre, answer.post)]
    assert energy[1] < energy[0]


def _momentum(model, data, velocity):
    momentum = np.zeros(model.nv)
    mujoco.mj_mulM(model, data, momentum, velocity)
    return momentum


def test_a_model_of_three_rows_takes_spin_and_both_tangents():
    model, data = balls([(0, 0), (2 * RADIUS + 1e-6, 0)], [0.1, 0.2], geom='condim="3"', step=1e-5)
    data.qvel[:6] = [1.0, 0.0, 0.0, 5.0, 40.0, -30.0]
    data.qvel[6:] = [0.0, 0.0, 0.0, 0.0, 10.0, 20.0]
    stepper = HybridStepper(model, data, [("ball0", "ball1")], Sticking(), np.array([0.5]))
    while stepper.counts["impacts"] == 0:
        stepper.step()
    answer = stepper.answers[-1]
    one, other = answer.post[:6], answer.post[6:]
    arm = np.array([RADIUS, 0.0, 0.0])
    slip = (other[:3] - np.cross(other[3:], arm)) - (one[:3] + np.cross(one[3:], arm))
    np.testing.assert_allclose(slip, [0.5, 0.0, 0.0], atol=1e-3)
    assert answer.approach.shape == (3,)


TABLETOP = """
<mujoco>
  <option timestep="0.002" cone="elliptic"/>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 0.1"/>
    {bodies}
  </worldbody>
</mujoco>
"""


def crowd(n=8):
    shapes = ("type='box' size='0.03 0.03 0.03'", "type='sphere' size='0.03'", "type='cylinder' size='0.03 0.03'")
    bodies = "".join(
        f"<body name='o{k}' pos='{0.07 * (k % 4)} {0.07 * (k // 4)} {0.031 + 0.03 * (k % 3)}'><freejoint/>"
        f"<geom name='o{k}' {shapes[k % 3]} mass='0.1'/></body>"
        for k in range(n)
    )
    model = mujoco.MjModel.from_xml_string(TABLETOP.format(bodies=bodies))
    data = mujoco.MjData(model)
    data.qvel.reshape(-1, 6)[:, :3] = np.random.default_rng(1).normal(0, 0.7, (n, 3))
    pairs = [(f"o{i}", f"o{j}") for i in range(n) for j in range(i)] + [("floor", f"o{i}") for i in range(n)]
    return model, data, pairs


def test_a_crowded_table_stays_finite_loses_energy_and_comes_to_rest():
    model, data, pairs = crowd()
    stepper = HybridStepper(model, data, pairs, RestitutionFriction(), np.array([0.3, 0.4]))
    model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    mujoco.mj_forward(model, data)
    start = data.energy.sum()
    while data.time < 3.0:
        stepper.step()
        assert np.isfinite(data.qpos).all()
        assert data.energy.sum() < start + 1e-3
    assert stepper.counts["impacts"] > 20
    assert stepper.counts["handed_back"] > 0
    assert (data.qpos.reshape(-1, 7)[:, 2] > 0.02).all()  # nothing fell through
    assert np.abs(linear(data)[::3]).max() < 0.02  # the boxes lie; what is round may roll on


def test_a_run_repeats_bit_by_bit():
    states = []
    for _ in range(2):
        model, data, pairs = crowd(5)
        HybridStepper(model, data, pairs, RestitutionFriction(), np.array([0.3, 0.4])).step(300)
        states.append(data.qpos.copy())
    np.testing.assert_array_equal(*states)


@pytest.mark.parametrize("integrator", ["Euler", "implicit", "implicitfast"])
def test_after_the_hand_over_of_a_sustained_push_the_trajectory_is_mujocos(integrator):
    """A striker that goes on pushing: from the hand-over on, the same bits as mj_step, and no jump at it."""
    model = mujoco.MjModel.from_xml_string(f"""
    <mujoco>
      <option timestep="0.001" integrator="{integrator}" cone="elliptic"/>
      <worldbody>
        <geom name="floor" type="plane" size="2 2 0.1"/>
        <body name="box" pos="0.5 0 0.05"><freejoint/>
          <geom name="box" type="box" size="0.05 0.05 0.05" mass="0.2"/></body>
        <body name="pusher" pos="0.4 0 0.05"><joint name="push" type="slide" axis="1 0 0" damping="2"/>
          <joint type="slide" axis="0 1 0" stiffness="100" damping="1"/>
          <geom name="pusher" type="sphere" size="0.03" mass="0.3"/></body>
      </worldbody>
      <actuator><motor joint="push"/></actuator>
    </mujoco>""")
    data = mujoco.MjData(model)
    data.joint("push").qvel[0], data.ctrl[0] = 0.3, 4.0
    stepper = HybridStepper(model, data, [("pusher", "box")], RestitutionFriction(), np.array([0.1, 0.3]))
    while stepper.counts["handed_back"] == 0 and data.time < 1.0:
        before = data.qvel.copy()
        stepper.step()
    assert stepper.counts["impacts"] >= 1
    assert np.abs(data.qvel - before).max() < 0.05  # the blow itself changed 0.2 m/s
    twin = mujoco.MjData(model)
    mujoco.mj_copyData(twin, model, data)
    impacts = stepper.counts["impacts"]
    for _ in range(400):
        stepper.step()
        mujoco.mj_step(model, twin)
    assert stepper.counts["impacts"] == impacts
    np.testing.assert_array_equal(data.qpos, twin.qpos)
    assert data.body("box").xpos[0] > 0.6  # it was pushed


def test_a_reset_world_is_noticed_by_its_clock():
    model, data = balls([(0, 0), (2 * RADIUS + 1e-5, 0)], [0.1, 0.1])
    stepper = HybridStepper(model, data, [("ball0", "ball1")], RestitutionFriction(), np.array([0.5, 0.0]))
    for expected in (1, 2):
        mujoco.mj_resetData(model, data)
        data.qvel[0] = 1.0
        stepper.step(2)
        assert stepper.counts["impacts"] == expected


def test_names_are_looked_up_among_geoms_and_bodies():
    model = mujoco.MjModel.from_xml_string("""
    <mujoco><worldbody>
      <geom name="floor" type="plane" size="1 1 1"/>
      <body name="cup" pos="0 0 1"><freejoint/><geom name="cup" size="0.1"/><geom name="handle" size="0.05"/>
        <body name="hook"><joint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body></body>
    </worldbody></mujoco>""")

    def watch(*pairs):
        return HybridStepper(model, mujoco.MjData(model), pairs, RestitutionFriction(), np.array([0.5, 0.0]))

    watch(("body:cup", "floor"))
    watch(("geom:cup", "floor"), ("handle", "floor"))
    with pytest.raises(BadInput, match="say 'geom:cup' or 'body:cup'"):
        watch(("cup", "floor"))
    with pytest.raises(UnknownName, match=r"geom or body 'flor'; did you mean 'floor'\? Known: cup, floor, handle"):
        watch(("flor", "handle"))
    with pytest.raises(UnknownName, match="unknown body 'handle'"):
        watch(("body:handle", "floor"))
    with pytest.raises(BadInput, match="body 'hook' has no geom"):
        watch(("hook", "floor"))
    with pytest.raises(BadInput, match="'handle' is on both sides"):
        watch(("handle", "body:cup"))
    with pytest.raises(BadInput, match="watched by pair 0"):
        watch(("floor", "body:cup"), ("handle", "floor"))
    with pytest.raises(BadInput, match="has two sides"):
        watch("floor")
    with pytest.raises(BadInput, match="names no geom"):
        watch(((), "floor"))


def test_sleep_and_odd_models_are_refused():
    model, data = balls([(0, 0)], [0.1])
    model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_SLEEP
    with pytest.raises(BadInput, match="sleep"):
        HybridStepper(model, data, [], RestitutionFriction(), np.array([0.5, 0.0]))
    model, data = balls([(0, 0)], [0.1])
    odd = Sticking()
    odd.rows = 6
    with pytest.raises(BadInput, match="reads 6 contact rows"):
        HybridStepper(model, data, [], odd, np.array([0.5]))
