"""What sensors feel of an impact that the model answers: its impulse, wherever it went, and nothing else."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from hybrid_models import strike_two

from dexprior.collision import HybridConfig, HybridStepper, RestitutionFriction
from dexprior.collision.hybrid import HybridBatch

FALL = """
<mujoco>
  <option timestep="0.002" cone="{cone}" integrator="{integrator}" gravity="0 0 0"/>
  <worldbody>
    <body name="stalk" pos="0 0 -0.2">
      <geom type="cylinder" size="0.01 0.1" pos="0 0 0.1" contype="0" conaffinity="0" mass="1"/>
      <body name="plate" pos="0 0 0.2">
        <geom name="plate" type="box" size="0.2 0.2 0.01" pos="0 0 -0.01" mass="0.5" condim="{condim}"/>
        <site name="plate" type="box" size="0.2 0.2 0.02"/>
        <site name="foot" pos="0 0 -0.2"/>
      </body>
    </body>
    <body name="ball" pos="0.1 0 0.07">
      <freejoint/>
      <geom name="ball" type="sphere" size="0.05" mass="0.1" condim="{condim}"/>
      <site name="ball" type="sphere" size="0.06"/>
    </body>
  </worldbody>
  <sensor>
    <touch name="plate" site="plate"/>
    <touch name="ball" site="ball"/>
    <force name="force" site="foot"/>
    <torque name="torque" site="foot"/>
    <contact name="contact" geom1="plate" geom2="ball" data="force" reduce="netforce"/>
    <touch name="late" site="ball" delay="0.01" nsample="8"/>
  </sensor>
</mujoco>
"""
PHI = np.array([0.6, 0.3])
THROWN = [0.4, 0.1, -1.0, 0.0, 0.0, 0.0]


def fall(cone="elliptic", condim=3, integrator="Euler"):
    model = mujoco.MjModel.from_xml_string(FALL.format(cone=cone, condim=condim, integrator=integrator))
    data = mujoco.MjData(model)
    data.qvel[:6] = THROWN
    return model, data


def felt(model, data, step, steps=60, every=1):
    """Sum of readings times the time between them, by sensor."""
    total = np.zeros(model.nsensordata)
    for k in range(steps):
        step()
        if (k + 1) % every == 0:
            total += every * model.opt.timestep * data.sensordata
    return {
        model.sensor(k).name: total[model.sensor_adr[k] : model.sensor_adr[k] + model.sensor_dim[k]]
        for k in range(model.nsensor)
    }


def momentum(model, data, body):
    """Linear momentum of a body [N s]."""
    velocity = np.zeros(6)
    mujoco.mj_forward(model, data)
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_BODY, model.body(body).id, velocity, 0)
    return model.body_mass[model.body(body).id] * velocity[3:]


@pytest.mark.parametrize("by", ["the collision model", "MuJoCo"])
@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
@pytest.mark.parametrize("condim", [1, 3, 6])
def test_a_bounce_is_felt_as_the_momentum_that_it_gives(by, cone, condim):
    """By touch on both bodies, and by force, torque and contact sensors of the plate; MuJoCo's law and ours."""
    model, data = fall(cone, condim)
    stepper = HybridStepper(model, data, [("ball", "plate")], RestitutionFriction(), PHI)
    step = stepper.step if by == "the collision model" else lambda: mujoco.mj_step(model, data)
    before = data.qvel[:3].copy()
    total = felt(model, data, step)
    assert stepper.counts["impacts"] == (by == "the collision model")
    given = 0.1 * (data.qvel[:3] - before)
    assert given[2] > 0.1
    np.testing.assert_allclose(total["ball"], given[2], rtol=1e-5)
    np.testing.assert_allclose(total["plate"], given[2], rtol=1e-5)
    np.testing.assert_allclose(total["late"], given[2], rtol=1e-5)
    np.testing.assert_allclose(total["force"], given, atol=1e-6)  # what holds the plate answers what lifts the ball
    assert total["torque"][1] == pytest.approx(-0.109 * given[2] + 0.2 * given[0], rel=0.03)
    np.testing.assert_allclose(total["contact"], given, atol=1e-6)  # world axes
    if stepper.counts["impacts"]:
        assert given[0] < -0.01  # the model rubs, whatever MuJoCo's contact does


def test_the_step_of_an_impact_holds_its_mean_forces():
    """Contact forces on two free bodies are equal, opposite and what changed their momenta."""
    model = mujoco.MjModel.from_xml_string("""<mujoco><option timestep="0.001" gravity="0 0 0"/><worldbody>
      <body name="a"><freejoint/><geom name="a" size="0.05" mass="0.1"/></body>
      <body name="b" pos="0.1 0.03 0.02"><freejoint/><geom name="b" size="0.05" mass="0.3"/></body>
    </worldbody></mujoco>""")
    data = mujoco.MjData(model)
    data.qvel[:6] = [1.0, 0.2, -0.1, 3.0, -20.0, 5.0]
    stepper = HybridStepper(model, data, [("a", "b")], RestitutionFriction(), PHI)
    while stepper.counts["impacts"] == 0:
        before = data.qvel.copy()
        stepper.step()
    force = np.zeros(6)
    mujoco.mj_contactForce(model, data, 0, force)
    pushed = model.opt.timestep * data.contact[0].frame.reshape(3, 3).T @ force[:3]  # of geom a on geom b
    np.testing.assert_allclose(pushed, 0.3 * (data.qvel - before)[6:9], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(-pushed, 0.1 * (data.qvel - before)[:3], rtol=1e-6, atol=1e-9)
    assert force[0] > 0
    np.testing.assert_allclose(data.qacc, (data.qvel - before) / model.opt.timestep, rtol=1e-9, atol=1e-9)


CROWD = """
<mujoco>
  <option timestep="0.002" cone="{cone}" jacobian="{jacobian}"/>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 0.1"/>
    {bodies}
    <body name="slider" pos="-0.1 0 0.03">
      <joint name="slider" type="slide" axis="1 0 0" range="-0.01 0.01" limited="true"/>
      <geom name="slider" size="0.03" mass="0.2"/></body>
    <body name="hung" pos="0.4 0 0.03"><freejoint/><geom name="hung" size="0.03" mass="0.2"/></body>
  </worldbody>
  <equality><weld body1="hung"/></equality>
</mujoco>
"""


@pytest.mark.parametrize("cone", ["elliptic", "pyramidal"])
@pytest.mark.parametrize("jacobian", ["dense", "sparse"])
def test_the_forces_of_the_constraints_are_what_moves_the_world(cone, jacobian):
    """In each step, with an impact or without: J^T f is the constraint force, and f explains the change of velocity."""
    shapes = ("type='box' size='0.03 0.03 0.03'", "type='sphere' size='0.03'", "type='cylinder' size='0.03 0.03'")
    bodies = "".join(
        f"<body name='o{k}' pos='{0.07 * (k % 4)} {0.07 * (k // 4)} {0.031 + 0.03 * (k % 3)}'><freejoint/>"
        f"<geom name='o{k}' {shapes[k % 3]} mass='{0.05 + 0.05 * k}'/></body>"
        for k in range(6)
    )
    model = mujoco.MjModel.from_xml_string(CROWD.format(cone=cone, jacobian=jacobian, bodies=bodies))
    data = mujoco.MjData(model)
    data.qvel[:36].reshape(-1, 6)[:, :3] = np.random.default_rng(1).normal(0, 0.9, (6, 3))
    names = [f"o{k}" for k in range(6)]
    pairs = [(names[i], names[j]) for i in range(6) for j in range(i)]
    pairs += [(one, other) for one in ("slider", "hung") for other in names] + [("floor", name) for name in names[:3]]
    stepper = HybridStepper(model, data, pairs, RestitutionFriction(), np.array([0.5, 0.4]))
    for _ in range(150):
        impacts = stepper.counts["impacts"]
        stepper.step()
        force = np.zeros(model.nv)
        mujoco.mj_mulJacTVec(model, data, force, data.efc_force)
        scale = np.abs(data.qfrc_constraint).max()
        tolerance = 1e-9 if impacts == stepper.counts["impacts"] else 1e-4
        np.testing.assert_allclose(force, data.qfrc_constraint, rtol=0, atol=tolerance * scale + 1e-9)
    assert stepper.counts["impacts"] > 10


GRIP = """
<mujoco>
  <option timestep="0.002" cone="elliptic" impratio="10"/>
  <worldbody>
    <body name="ground"><geom name="ground" type="box" size="0.5 0.5 0.01" pos="0 0 -0.01"/>
      <site name="ground" type="box" size="0.5 0.5 0.02"/></body>
    <body name="wall" pos="0.2 0 {low}"><geom name="wall" type="box" size="0.01 0.2 0.05"/>
      <site name="wall" type="box" size="0.02 0.2 0.06"/></body>
    <body name="arm" pos="0 0 {height}">
      <joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/>
      <geom type="sphere" size="0.02" mass="0.4" contype="0" conaffinity="0" pos="0 0 0.1"/>
      <body name="hand" pos="0 0 0.08">
        <site name="wrist"/>
        <geom type="sphere" size="0.02" mass="0.2" contype="0" conaffinity="0"/>
        <body name="left" pos="-0.03 0 -0.08"><joint name="left" type="slide" axis="1 0 0"/>
          <geom name="left" type="box" size="0.005 0.02 0.02" mass="0.05" friction="1.5"/>
          <site name="left" type="box" size="0.01 0.03 0.03"/></body>
        <body name="right" pos="0.03 0 -0.08"><joint name="right" type="slide" axis="1 0 0"/>
          <geom name="right" type="box" size="0.005 0.02 0.02" mass="0.05" friction="1.5"/>
          <site name="right" type="box" size="0.01 0.03 0.03"/></body>
      </body>
    </body>
    <body name="block" pos="0 0 {block}"><freejoint name="block"/>
      <geom name="block" type="box" size="0.025 0.02 0.05" mass="0.3" friction="1.5"/></body>
  </worldbody>
  <equality><joint joint1="left" joint2="right" polycoef="0 -1 0 0 0"/></equality>
  <actuator>
    <motor joint="right"/>
  </actuator>
  <sensor>
    <touch name="left" site="left"/><touch name="right" site="right"/>
    <force name="ground" site="ground"/><force name="wall" site="wall"/>
    <force name="wrist" site="wrist"/>
  </sensor>
</mujoco>
"""
HAND = ("hand", "left", "right")


def grip(velocity, *, low=0.0, aside=0.0):
    """A hand that holds a block, and moves with it; nothing else drives it."""
    model = mujoco.MjModel.from_xml_string(GRIP.format(height=low + 0.1, block=low + 0.06, low=low))
    model.opt.gravity[:] = 0
    data = mujoco.MjData(model)
    data.joint("x").qpos[0] = aside
    data.joint("block").qpos[0] = aside
    data.ctrl[0] = -20.0
    for _ in range(300):
        mujoco.mj_step(model, data)
    assert data.sensor("left").data[0] > 5  # N
    data.qvel[:] = 0
    data.joint("x").qvel[0], data.joint("z").qvel[0] = velocity
    data.joint("block").qvel[[0, 2]] = velocity
    return model, data


@pytest.mark.parametrize(
    ("name", "velocity", "start"),
    [("ground", (0.0, -0.5), {}), ("wall", (0.8, 0.0), {"low": 0.2, "aside": 0.16})],
)
@pytest.mark.parametrize("shown", [1, 10])
def test_a_held_block_that_strikes_something_is_felt_at_the_wrist(name, velocity, start, shown):
    """Whatever the wrist pulls, less what it struck, is the momentum of hand and block."""
    model, data = grip(velocity, **start)
    stepper = HybridStepper(
        model, data, [("block", name)], RestitutionFriction(), PHI, HybridConfig(sensing_time=shown * 0.002)
    )
    bodies = (*HAND, "block")
    before = sum(momentum(model, data, body) for body in bodies)
    total = felt(model, data, stepper.step, 60)
    assert stepper.counts["impacts"] >= 1
    change = sum(momentum(model, data, body) for body in bodies) - before
    assert np.abs(total[name]).max() > 0.1
    np.testing.assert_allclose(total["wrist"] + total[name], change, atol=1e-3)


def test_pads_that_press_on_a_struck_block_feel_the_blow_at_once():
    """A wall strikes the block along the pads' normals: the pad behind it bears more, and the step says how much."""
    model, data = grip((0.8, 0.0), low=0.2, aside=0.16)
    stepper = HybridStepper(model, data, [("block", "wall")], RestitutionFriction(), PHI)
    while stepper.counts["impacts"] == 0 and data.time < 1:
        before, held = data.qvel.copy(), data.sensor("left").data[0]
        stepper.step()
    left, right, wall = (data.sensor(name).data[0] for name in ("left", "right", "wall"))
    assert left - held > 5  # N, in the very step
    assert -wall * 0.002 > 0.1
    given = 0.3 * (data.qvel - before)[model.joint("block").dofadr[0]]
    assert 0.002 * (left - right + wall) == pytest.approx(given, rel=1e-3)


PILE = """
<mujoco>
  <option timestep="0.001" cone="elliptic"/>
  <worldbody>
    {under}
    <body name="lying" pos="0 0 {high}"><freejoint name="lying"/><geom name="lying" mass="0.2" {shape}/></body>
    <body name="ball" pos="0 0 1"><freejoint name="ball"/><geom name="ball" size="0.02" mass="0.1"/>
      <site name="ball" size="0.03"/></body>
  </worldbody>
  <sensor>{sensors}<touch name="ball" site="ball"/></sensor>
</mujoco>
"""
PLATE = """<body name="{name}" pos="{pos}" euler="{euler}"><geom name="{name}" type="box" size="0.1 0.1 0.01"/>
  <site name="{name}" type="box" size="0.1 0.1 0.02"/></body>"""


def struck_from_above(under, names, shape, high, reach):
    """A blow of 1 m/s on something that lies on plates: readings times the time step, less those at rest."""
    sensors = "".join(f'<touch name="{name}" site="{name}"/>' for name in names)
    model = mujoco.MjModel.from_xml_string(PILE.format(under=under, sensors=sensors, high=high, shape=shape))
    data = mujoco.MjData(model)
    for _ in range(300):
        mujoco.mj_step(model, data)
    held = data.sensordata.copy()
    data.qvel[:] = 0
    data.joint("ball").qpos[:3] = data.joint("lying").qpos[:3] + np.array([0, 0, reach + 0.0201])
    data.joint("ball").qvel[2] = -1.0
    stepper = HybridStepper(model, data, [("ball", "lying")], RestitutionFriction(), np.array([0.5, 0.0]))
    while stepper.counts["impacts"] == 0 and data.time < 0.4:
        stepper.step()
    assert stepper.counts["impacts"] == 1
    return model, data, 0.001 * (data.sensordata - held)


def test_what_lies_under_a_struck_box_bears_the_blow_shared_by_its_corners():
    plate = PLATE.format(name="plate", pos="0 0 -0.01", euler="0 0 0")
    model, data, total = struck_from_above(plate, ["plate"], 'type="box" size="0.04 0.04 0.03"', 0.03, 0.03)
    assert total[1] == pytest.approx(0.15, rel=0.015)  # m u (1 + e)
    assert total[0] == pytest.approx(0.15, rel=0.02)
    force, forces = np.zeros(6), []
    for k in range(data.ncon):
        if model.geom("ball").id not in data.contact[k].geom:
            mujoco.mj_contactForce(model, data, k, force)
            forces.append(force[0])
    assert len(forces) == 4
    np.testing.assert_allclose(forces, np.mean(forces), rtol=0.02)


def test_friction_bears_no_more_of_a_blow_than_it_must():
    """A roll in a groove of 90 degrees: each flank bears 1 / sqrt 2 of the blow, as it would without friction."""
    flanks = "".join(
        PLATE.format(name=name, pos=f"{side * 0.0566} 0 0.0424", euler=f"0 {-45 * side} 0")
        for name, side in (("left", -1), ("right", 1))
    )
    roll = 'type="capsule" size="0.04 0.05" euler="90 0 0"'
    _, _, total = struck_from_above(flanks, ["left", "right"], roll, 0.0566, 0.04)
    assert total[2] == pytest.approx(0.15, rel=0.015)
    np.testing.assert_allclose(total[:2], total[2] / np.sqrt(2), rtol=0.02)


def test_a_stop_and_a_weld_feel_what_they_hold():
    model, data, _ = strike_two(joint="<freejoint/>", equality='<weld body1="second"/>')
    assert 0.001 * data.sensor("stop").data[0] == pytest.approx(0.15, rel=1e-3)
    weld = data.efc_force[data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY]
    assert 0.001 * abs(weld[0]) == pytest.approx(0.15, rel=1e-3)
    force = np.zeros(model.nv)
    mujoco.mj_mulJacTVec(model, data, force, data.efc_force)
    np.testing.assert_allclose(force, data.qfrc_constraint, atol=1e-3 * np.abs(force).max())


@pytest.mark.parametrize("integrator", ["Euler", "implicit", "implicitfast"])
@pytest.mark.parametrize("shown", [1, 5])
def test_sensing_moves_nothing(integrator, shown):
    """The same bits as where the second half of the step is MuJoCo's own."""

    class Unfelt(HybridStepper):
        def _step2(self, event, change):
            mujoco.mj_step2(self.model, self.data)

    states = []
    for kind in (HybridStepper, Unfelt):
        model, data = grip((0.3, -0.5))
        model.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator.upper()}")
        model.opt.gravity[2] = -9.81
        config = HybridConfig(sensing_time=shown * 0.002)
        stepper = kind(model, data, [("block", "ground"), ("block", "wall")], RestitutionFriction(), PHI, config)
        for _ in range(150):
            stepper.step()
            states.append(np.concatenate([data.qpos, data.qvel, data.qacc_warmstart]))
        assert stepper.counts["impacts"] > 0
    np.testing.assert_array_equal(states[:150], states[150:])


def test_without_an_impact_sensors_read_the_same_bits():
    model, data = grip((0.3, -0.5))
    twin = mujoco.MjData(model)
    mujoco.mj_copyData(twin, model, data)
    slow = HybridConfig(min_approach=1e6, sensing_time=0.02)
    stepper = HybridStepper(model, data, [("block", "ground")], RestitutionFriction(), PHI, slow)
    strongest = 0.0
    for _ in range(60):
        stepper.step()
        mujoco.mj_step(model, twin)
        np.testing.assert_array_equal(data.sensordata, twin.sensordata)
        strongest = max(strongest, abs(data.sensor("ground").data[2]))
    assert strongest > 10


def test_a_pair_in_its_impact_does_not_read_the_forces_of_others():
    """Between the answer and the separation the ball touches, and bears nothing; the heavy box beside it does."""
    model = mujoco.MjModel.from_xml_string("""
    <mujoco><option timestep="0.001"/><worldbody>
      <geom name="floor" type="plane" size="1 1 0.1"/>
      <body name="ball" pos="0 0 0.0501"><freejoint name="ball"/><geom name="ball" size="0.05" mass="0.1"/>
        <site name="ball" size="0.06"/></body>
      <body name="box" pos="0.5 0 0.05"><freejoint/><geom type="box" size="0.05 0.05 0.05" mass="5"/></body>
    </worldbody><sensor><touch name="ball" site="ball"/></sensor></mujoco>""")
    data = mujoco.MjData(model)
    data.joint("ball").qvel[2] = -1.0
    stepper = HybridStepper(model, data, [("ball", "floor")], RestitutionFriction(), np.array([0.3, 0.3]))
    while stepper.counts["impacts"] == 0:
        stepper.step()
    assert data.sensordata[0] == pytest.approx(0.13 / 0.001, rel=0.01)
    stepper.step()
    assert stepper._impact_age
    assert any(model.geom("ball").id in pair for pair in data.contact.geom)
    assert data.sensordata[0] == 0.0


@pytest.mark.parametrize("every", [1, 2, 5, 10])
def test_no_reader_at_the_rate_of_the_sensing_time_misses_an_impact(every):
    """Ten steps long each force reading holds its part: whoever reads that often, or more often, sums up to all."""
    for late in range(10):
        model, data = fall()
        data.qpos[2] += 0.0021 * late  # the impact comes at any moment between two readings
        config = HybridConfig(sensing_time=0.02)
        stepper = HybridStepper(model, data, [("ball", "plate")], RestitutionFriction(), PHI, config)
        total = felt(model, data, stepper.step, every=every)
        assert stepper.counts["impacts"] == 1
        np.testing.assert_allclose(total["ball"], 0.16, rtol=1e-6)
        np.testing.assert_allclose(total["force"][2], 0.16, rtol=1e-6)


def test_what_is_shown_of_an_impact_ends_with_the_world_that_it_was_in():
    model, data = fall()
    stepper = HybridStepper(
        model, data, [("ball", "plate")], RestitutionFriction(), PHI, HybridConfig(sensing_time=0.02)
    )
    while stepper.counts["impacts"] == 0:
        stepper.step()
    mujoco.mj_resetData(model, data)
    data.time = 5.0
    stepper.step()
    assert not data.sensor("ball").data.any()


def test_sensors_of_many_worlds_read_as_in_each_alone():
    model, _ = fall()
    config = HybridConfig(sensing_time=0.01)
    batch = HybridBatch(model, 3, [("ball", "plate")], RestitutionFriction(), PHI, config, threads=2)
    alone = [
        HybridStepper(model, mujoco.MjData(model), [("ball", "plate")], RestitutionFriction(), PHI, config)
        for _ in range(3)
    ]
    for worlds in (batch.data, [stepper.data for stepper in alone]):
        for k, data in enumerate(worlds):
            data.qvel[:3] = 0.1 * k, 0.0, -1.0 - 0.3 * k
    seen = np.zeros(3, dtype=bool)
    for _ in range(30):
        batch.step(1)
        for k, stepper in enumerate(alone):
            stepper.step()
            np.testing.assert_allclose(batch.data[k].sensordata, stepper.data.sensordata, rtol=1e-9, atol=1e-9)
            seen[k] |= stepper.data.sensor("ball").data[0] > 1
    assert seen.all()
