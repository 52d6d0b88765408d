"""Sensor models and links in task worlds."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.envs.tasks import TaskVectorEnv
from dexprior.errors import ConfigError
from dexprior.families import SensorModels
from dexprior.families.sensors import EncoderConfig, ForceTorqueConfig, TactileConfig, TransportConfig
from dexprior.worlds.tasks import TaskWorlds, make_task

_TASK = make_task("pick_place")
_ALL = SensorModels(
    encoder=EncoderConfig(bias=0.01, backlash=0.004, noise=5e-4),
    force_torque=ForceTorqueConfig(),
    tactile=TactileConfig(time_up=0.5, time_out=0.2),
    observation=TransportConfig(latency=0.05, jitter=0.02, start=0.1, stop=0.5),
    command=TransportConfig(latency=0.03, jitter=0.02, start=0.05, stop=0.5),
)
_STREAMS = ("proprio", "wrench", "touch", "cloud")


def _worlds(sensors: SensorModels | None, n: int = 1, *, task=_TASK, threads: int = 1, seeds=None) -> TaskWorlds:
    worlds = TaskWorlds(task, n, threads=threads, sensors=sensors, arm_action="joint")
    scene = task.sample(np.random.default_rng(1), 1)
    base = task.family.as_dict(task.family.sample(np.random.default_rng(0), 1)[0])
    scenes = {name: np.repeat(value, n, axis=0) for name, value in scene.items()}
    worlds.reset(np.arange(n), scenes, [base] * n, seeds=seeds)
    return worlds


def _run(env: TaskVectorEnv, steps: int = 12) -> list[dict[str, np.ndarray]]:
    shown = [env.reset(seed=4)[0]]
    for action in np.random.default_rng(3).uniform(-1, 1, (steps, 1, env.worlds.action_size)):
        shown.append(env.step(np.repeat(action, env.num_envs, axis=0))[0])
    return shown


def test_off_means_the_same_bits():
    plain = _run(TaskVectorEnv(_TASK, 2, threads=1))
    empty = _run(TaskVectorEnv(_TASK, 2, threads=1, sensors={}))
    for a, b in zip(plain, empty):
        assert all(np.array_equal(a[name], b[name]) for name in a)
    ideal = SensorModels(encoder=EncoderConfig(step=0.0), command=TransportConfig(), observation=TransportConfig())
    for a, b in zip(plain, _run(TaskVectorEnv(_TASK, 2, threads=1, sensors=ideal))):  # models that do nothing
        assert all(np.array_equal(a[name], b[name]) for name in a)


def test_the_same_bits_at_any_number_of_threads_and_other_ones_without():
    one = _run(TaskVectorEnv(_TASK, 4, threads=1, sensors=_ALL))
    many = _run(TaskVectorEnv(_TASK, 4, threads=3, sensors=_ALL))
    plain = _run(TaskVectorEnv(_TASK, 4, threads=1))
    for a, b in zip(one, many):
        assert all(np.array_equal(a[name], b[name]) for name in a)
    assert all(not np.array_equal(one[-1][name], plain[-1][name]) for name in _STREAMS if name != "touch")
    assert np.array_equal(one[-1]["time"], plain[-1]["time"])


@pytest.mark.parametrize("name", ["peg", "soft_grasp", "handover", "cube_in_hand"])
def test_every_kind_of_robot_takes_them(name):
    env = TaskVectorEnv(make_task(name), 2, threads=1, sensors=_ALL)
    shown = _run(env, 4)
    assert all(np.isfinite(v).all() for o in shown for v in o.values())
    plain = _run(TaskVectorEnv(make_task(name), 2, threads=1), 4)
    assert not np.array_equal(shown[-1]["proprio"], plain[-1]["proprio"])


def test_alone_or_in_a_batch_and_after_a_snapshot_the_readings_are_the_same():
    many, one = _worlds(_ALL, 3, threads=2, seeds=[5, 6, 7]), _worlds(_ALL, 1, seeds=[6])
    other = TaskWorlds(_TASK, 3, threads=1, sensors=_ALL, arm_action="joint")

    def look(worlds: TaskWorlds) -> np.ndarray:
        rig = worlds.sensed()[0]
        return worlds.received({"a": np.concatenate([rig.q, rig.qd, rig.wrench, rig.touch], axis=1)})["a"]

    actions = np.random.default_rng(3).uniform(-1, 1, (16, 3, 8))
    for action in actions[:8]:
        many.step(action)
        one.step(action[1:2])
        assert np.array_equal(look(many)[1], look(one)[0])
    kept = many.snapshot()
    later = []
    for action in actions[8:]:
        many.step(action)
        later.append(look(many))
    other.restore(kept, many.view.parameters)
    assert np.array_equal(look(other), look(other))
    for action, seen in zip(actions[8:], later):
        other.step(action)
        assert np.array_equal(look(other), seen)
    assert np.array_equal(many.view.qpos, other.view.qpos)


def test_looking_twice_reads_once():
    worlds, twin = (_worlds(_ALL, 2) for _ in range(2))
    for action in np.random.default_rng(0).uniform(-1, 1, (6, 2, 8)):
        for w in (worlds, twin):
            w.step(action)
            first = w.sensed()[0]
        again = twin.sensed()[0]
        assert np.array_equal(first.q, again.q)
        assert np.array_equal(first.wrench, again.wrench)
    assert np.array_equal(worlds.sensed()[0].q, twin.sensed()[0].q)


def test_an_encoders_bias_acts_on_reading_and_command_alike():
    worlds = _worlds(SensorModels(encoder=EncoderConfig(step=0.0, bias=0.02)), 4)
    plain = _worlds(None, 4)
    home = worlds.sensed()[0].q
    true = worlds.state()[0].q
    zeros = home - true
    assert zeros.std() == pytest.approx(0.02, rel=0.5)
    assert np.array_equal(true, plain.state()[0].q)  # it starts where it would, and does not know it
    action = np.zeros((4, 8))
    action[:, 0] = 0.5
    for _ in range(10):
        worlds.step(action)
        plain.step(action)
    # it was told to move by so much, and does, from the same place
    np.testing.assert_allclose(worlds.state()[0].q, plain.state()[0].q, atol=2e-4)
    seen = worlds.sensed()[0]
    np.testing.assert_allclose(seen.q - worlds.state()[0].q, zeros, atol=1e-12)
    apart = np.linalg.norm(seen.tcp[:, :3] - worlds.state()[0].tcp[:, :3], axis=1)
    assert (apart > 1e-3).all()  # but it thinks that its tool is elsewhere
    columns = [worlds.model.actuator(name).id for name in worlds.rigs[0].arm_joints]
    np.testing.assert_allclose(worlds.target - worlds.view.ctrl[:, columns], zeros, atol=1e-12)


def test_readings_come_as_late_as_the_link_is():
    late = _worlds(SensorModels(observation=TransportConfig(latency=0.08)), 2)
    sent, seen = [], []
    for k in range(8):
        sent.append(late.state()[0].q.copy())
        seen.append(late.received({"q": sent[-1]})["q"])
        late.step(np.full((2, 8), 0.3 if k < 5 else -0.3))
    assert np.array_equal(seen[0], sent[0])  # the first is there at once
    for k in range(2, 8):
        assert np.array_equal(seen[k], sent[k - 2])


def test_an_action_comes_as_late_as_the_link_is():
    late, plain = _worlds(SensorModels(command=TransportConfig(latency=0.12))), _worlds(None)
    actions = np.random.default_rng(0).uniform(-1, 1, (10, 1, 8))
    still = plain.view.ctrl.copy()
    for k, action in enumerate(actions):
        late.step(action)
        if k < 3:
            assert np.array_equal(late.view.ctrl, still)
    for action in actions[:7]:
        plain.step(action)
    np.testing.assert_allclose(late.target, plain.target, atol=0.02)


def test_lost_packets_leave_the_last_one():
    worlds = _worlds(SensorModels(observation=TransportConfig(start=0.3, stop=0.3)), 40)
    last, kept, packets = None, 0, 0
    for _ in range(60):
        value = worlds.state()[0].q + worlds.view.time.reshape(-1, 1)
        seen = worlds.received({"q": value})["q"]
        fresh = (seen == value).all(axis=1)
        if last is not None:
            assert np.array_equal(seen[~fresh], last[~fresh])
            kept, packets = kept + (~fresh).sum(), packets + len(fresh)
        last = seen
        worlds.step(np.zeros((40, 8)))
    assert kept / packets == pytest.approx(0.5, rel=0.1)  # start / (start + stop)


def test_unknown_models_are_refused():
    with pytest.raises(ConfigError, match=r"sensors\.encodr: unknown key"):
        TaskVectorEnv(_TASK, 1, sensors={"encodr": {}})
