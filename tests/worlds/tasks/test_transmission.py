"""Delay and backlash between commands and joints."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.errors import BadInput, UnknownName
from dexprior.families import Parameter, ParameterFamily, actuation, servos
from dexprior.worlds.tasks import TaskWorlds, make_task

_TASK = make_task("pick_place")
_FAMILY = _TASK.family.extended(*actuation(delay=(0.0, 0.1), backlash=(0.0, 0.1)))


def _worlds(values: list[dict[str, float]], *, n: int | None = None, threads: int = 1, arm_action="joint", task=_TASK):
    n = len(values) if n is None else n
    family = task.family.extended(*actuation(delay=(0.0, 0.1), backlash=(0.0, 0.1)))
    worlds = TaskWorlds(task, n, threads=threads, family=family, arm_action=arm_action)
    scene = task.sample(np.random.default_rng(1), 1)
    base = task.family.as_dict(task.family.sample(np.random.default_rng(0), 1)[0])
    scenes = {name: np.repeat(value, n, axis=0) for name, value in scene.items()}
    worlds.reset(np.arange(n), scenes, [base | {"actuator_delay": 0.0, "backlash": 0.0} | v for v in values])
    return worlds


def test_nothing_is_changed_by_a_transmission_that_does_nothing():
    """A delay and a band of zero give the bits of a family without them."""
    plain = TaskWorlds(_TASK, 1, threads=1, arm_action="joint")
    base = _TASK.family.as_dict(_TASK.family.sample(np.random.default_rng(0), 1)[0])
    plain.reset(np.arange(1), _TASK.sample(np.random.default_rng(1), 1), [base])
    ideal = _worlds([{}])
    for action in np.random.default_rng(2).uniform(-1, 1, (12, 1, 8)):
        plain.step(action)
        ideal.step(action)
    np.testing.assert_array_equal(plain.view.qpos, ideal.view.qpos)
    assert "transmission/queue" not in plain.view.memory


@pytest.mark.parametrize("delay", [0.012, 0.04, 0.076])
def test_a_delayed_world_does_the_same_later(delay):
    """x_delayed(t + delay) = x(t): the joint's path is the same one, shifted."""
    worlds = _worlds([{}, {"actuator_delay": delay}])
    path = []
    for k in range(12):
        action = np.zeros((2, 8))
        action[:, 3], action[:, 7] = (0.6 if k < 6 else -0.4), 1.0
        worlds.step(action)
        path.append(worlds.state()[0].q[:, 3].copy())
    path = np.array(path)
    times, home = 0.04 * np.arange(13), worlds.rigs[0].home[3]
    late = np.interp(times[1:] - delay, times, np.concatenate([[home], path[:, 0]]))
    apart = np.abs(path[:, 1] - path[:, 0])
    assert np.abs(path[:, 1] - late).max() < 0.4 * apart.max()
    assert apart.max() > 0.6 * delay * 0.9  # the joint moves at 0.6 of 1.5 rad/s


def test_a_joint_crosses_the_band_before_it_turns_back():
    """The loop of transmitted over commanded angle is as wide as the band, and it does not close on the way."""
    band = 0.05
    worlds = _worlds([{}, {"backlash": band}])
    rows = []
    for k in range(40):
        action = np.zeros((2, 8))
        action[:, 0], action[:, 7] = (0.5 if (k // 10) % 2 == 0 else -0.5), 1.0
        worlds.step(action)
        rows.append((worlds.target[1, 0], worlds.view.ctrl[1, 0], worlds.view.ctrl[0, 0]))
    command, sent, ideal = np.array(rows).T
    np.testing.assert_allclose(np.abs(command - sent).max(), band / 2, atol=1e-12)
    assert np.abs(command - ideal).max() < 0.02 * np.ptp(command)  # no band, no gap; the lead limit sees other joints
    area = abs(np.sum((sent[11:31] + np.roll(sent[11:31], 1)) / 2 * np.diff(command[11:31], prepend=command[30])))
    assert area > 0.5 * band * np.ptp(sent)
    grip = worlds.view.model.actuator("robot/pad_left").id
    np.testing.assert_array_equal(worlds.view.ctrl[0, grip], worlds.view.ctrl[1, grip])  # slides have no gears


def test_a_joint_has_a_delay_and_a_band_of_its_own():
    """What is said of one joint acts on it alone, and goes before what is said of all."""
    task = _TASK
    of = {"unit": "1", "low": 0.0, "high": 0.1}
    own = (
        Parameter(name="backlash.elbow", target="world/joint4/backlash", **of),
        Parameter(name="late", target="world/joint1/actuator_delay", **of),
    )
    family = task.family.extended(*actuation(delay=(0.0, 0.1), backlash=(0.0, 0.1)), *own)
    worlds = TaskWorlds(task, 2, threads=1, family=family, arm_action="joint")
    scene = {name: np.repeat(v, 2, axis=0) for name, v in task.sample(np.random.default_rng(1), 1).items()}
    base = task.family.as_dict(task.family.sample(np.random.default_rng(0), 1)[0])
    plain = base | {"actuator_delay": 0.02, "backlash": 0.01, "backlash.elbow": 0.01, "late": 0.02}
    worlds.reset(np.arange(2), scene, [plain | {"backlash.elbow": 0.05, "late": 0.08}, plain])
    joints = [worlds.view.model.actuator(f"robot/joint{k}").id for k in range(1, 8)]
    apart = np.zeros(7)
    for k in range(20):
        action = np.full((2, 8), 0.4 if (k // 5) % 2 == 0 else -0.4)
        worlds.step(action)
        apart = np.maximum(apart, np.abs(np.subtract(*worlds.view.ctrl[:, joints])))
    assert (apart[[0, 3]] > 0.01).all()
    assert apart[[1, 2, 4, 5, 6]].max() < 0.1 * apart[[0, 3]].min()  # but for what the arm's own coupling does
    other = Parameter(name="backlash.shoulder", target="world/shoulder/backlash", **of)
    with pytest.raises(UnknownName, match=r"joint for parameter 'backlash.shoulder' 'shoulder'.*joint1"):
        TaskWorlds(task, 1, threads=1, family=task.family.extended(other))


def test_alone_or_in_a_batch_and_after_a_snapshot_the_bits_are_the_same():
    values = [{"actuator_delay": d, "backlash": b} for d, b in ((0.0, 0.02), (0.052, 0.01), (0.1, 0.0))]
    many, one = _worlds(values, threads=2), _worlds(values[1:2])
    actions = np.random.default_rng(3).uniform(-1, 1, (14, 3, 8))
    for action in actions[:7]:
        many.step(action)
        one.step(action[1:2])
    np.testing.assert_array_equal(many.view.qpos[1], one.view.qpos[0])
    kept = many.snapshot()
    for action in actions[7:]:
        many.step(action)
    other = TaskWorlds(_TASK, 3, threads=1, family=_FAMILY, arm_action="joint")
    other.restore(kept, many.view.parameters)
    for action in actions[7:]:
        other.step(action)
    np.testing.assert_array_equal(many.view.qpos, other.view.qpos)


@pytest.mark.parametrize("name", ["peg", "soft_grasp"])
def test_every_task_takes_them(name):
    task = make_task(name)
    worlds = _worlds([{}, {"actuator_delay": 0.06, "backlash": 0.02}], task=task, arm_action="cartesian")
    for action in np.random.default_rng(0).uniform(-1, 1, (4, 1, worlds.action_size)):
        worlds.step(np.repeat(action, 2, axis=0))
    q = worlds.state()[0].q
    assert np.abs(q[0] - q[1]).max() > 1e-3
    assert all(np.isfinite(v).all() for v in worlds.truth().values())


def test_a_softer_servo_sags_more_under_a_load():
    """q - u = torque / kp: half the gain, twice the error."""
    family = _TASK.family.extended(*servos(stiffness=(0.25, 1.0), damping=(0.5, 2.0)))
    worlds = TaskWorlds(_TASK, 3, threads=1, family=family, arm_action="joint")
    base = _TASK.family.as_dict(_TASK.family.sample(np.random.default_rng(0), 1)[0])
    scenes = {k: np.repeat(v, 3, axis=0) for k, v in _TASK.sample(np.random.default_rng(1), 1).items()}
    factors = [(1.0, 1.0), (0.5, 1.0), (1.0, 2.0)]
    rows = [base | {"servo_stiffness": s, "servo_damping": d} for s, d in factors]
    worlds.reset(np.arange(3), scenes, rows)
    worlds.view.state_field("xfrc_applied")[:, worlds.model.body("robot/hand").id, 2] = -20.0
    for _ in range(40):
        worlds.step(np.tile([0.0] * 7 + [1.0], (3, 1)))
    sag = worlds.state()[0].q - worlds.view.ctrl[:, :7]
    np.testing.assert_allclose(sag[1, [1, 3]], 2 * sag[0, [1, 3]], rtol=0.05)
    np.testing.assert_allclose(sag[2], sag[0], atol=1e-4)
    assert (worlds.view.model_field("actuator_biasprm")[2, :7, 2] == 2 * worlds.model.actuator_biasprm[:7, 2]).all()
    with pytest.raises(BadInput, match="must be positive"):
        servos(stiffness=(0.0, 1.0))


def test_negative_values_are_refused():
    with pytest.raises(BadInput, match=r"delay starts at -0\.1"):
        actuation(delay=(-0.1, 0.0))
    bad = Parameter(name="backlash", unit="rad", low=-1.0, high=0.0, target="world/-/backlash")
    with pytest.raises(BadInput, match=r"backlash reaches -1\.0"):
        TaskWorlds(_TASK, 1, family=ParameterFamily("bad", (bad,)))
    with pytest.raises(BadInput, match="twice"):
        _FAMILY.extended(*actuation())
