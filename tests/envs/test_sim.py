"""Simulated environments keep Gymnasium's rules, and a world's readings are its own."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from dexprior.envs.line import InsertionEnv, InsertionVectorEnv, SimBackend
from dexprior.envs.line.base import HORIZON, OBSERVATION_SIZES, Reading
from dexprior.envs.line.panel import Panel
from dexprior.errors import BadInput
from dexprior.worlds.insertion import OTHER_FAMILY, TRAINING_FAMILY

N = 3


@pytest.fixture(scope="module")
def panel() -> Panel:
    return Panel.sample("test", TRAINING_FAMILY, 5, seed=0)


@pytest.fixture(scope="module")
def actions() -> np.ndarray:
    made = np.random.default_rng(0).uniform(-1, 1, (HORIZON, N, 7)).astype(np.float32)
    made[:, :, 2] -= 0.3
    return np.clip(made, -1, 1)


def backend(n: int = N, **options) -> SimBackend:
    return SimBackend(n, **({"family": TRAINING_FAMILY, "threads": 1} | options))


def commands(k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(k)
    twist = np.tile(rng.uniform(-0.2, 0.2, 6), (n, 1))
    return twist, np.full(n, rng.uniform(0, 0.08))


def assert_rows_equal(one: Reading, other: Reading, mine, theirs) -> None:
    for name, value in vars(one).items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value[mine], getattr(other, name)[theirs], err_msg=name)


# --- Gymnasium ----------------------------------------------------------------------------------------------


def test_the_environment_checker_has_no_complaint(panel):
    env = InsertionEnv(backend(1), panel)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env, skip_render_check=True)
    told = [str(w.message) for w in caught if "infinity" not in str(w.message)]
    assert not told, told
    env.close()


def test_an_episode_is_cut_at_the_horizon_and_never_ended(panel, actions):
    env = InsertionVectorEnv(backend(), panel)
    env.reset()
    for k in range(HORIZON):
        observation, reward, ended, cut, info = env.step(actions[k])
        assert not ended.any()
        assert cut.tolist() == [k == HORIZON - 1] * N
        assert env.observation_space.contains(observation)
        assert ((reward >= 0) & (reward <= 1)).all()
        np.testing.assert_array_equal(reward, info["terms"]["total"])
    env.reset()
    assert not env.step(actions[0])[3].any()


def test_a_single_environment_is_the_first_of_many(panel, actions):
    single, many = InsertionEnv(backend(1), panel), InsertionVectorEnv(backend(), panel)
    (a, info_a), (b, info_b) = single.reset(options={"instance": 2}), many.reset(options={"instances": [2, 0, 1]})
    for k in range(15):
        for name in OBSERVATION_SIZES:
            assert a[name].shape == OBSERVATION_SIZES[name]
            np.testing.assert_array_equal(a[name], b[name][0], err_msg=name)
        np.testing.assert_array_equal(info_a["privileged"], info_b["privileged"][0])
        a, reward_a, _, cut, info_a = single.step(actions[k, 0])
        b, reward_b, _, _, info_b = many.step(actions[k])
        assert reward_a == reward_b[0]
        assert isinstance(reward_a, float)
        assert cut is False


def test_sparse_rewards_are_the_verdict(panel, actions):
    env = InsertionVectorEnv(backend(), panel, reward="sparse")
    env.reset()
    _, reward, _, _, info = env.step(actions[0])
    np.testing.assert_array_equal(reward, info["terms"]["sparse"])


def test_instances_come_from_the_panel(panel):
    env = InsertionVectorEnv(backend(), panel)

    def bolts(**options):
        return env.reset(**options)[1]["reading"].truth.bolt

    known = np.array([i.bolt for i in panel])
    np.testing.assert_array_equal(bolts(), known[:N])
    np.testing.assert_array_equal(bolts(options={"instances": [4, 4, 1]}), known[[4, 4, 1]])
    for seed in (3, [1, 2, 3]):
        drawn = bolts(seed=seed)
        np.testing.assert_array_equal(bolts(seed=seed), drawn)
        assert all((known == bolt).all(axis=1).any() for bolt in drawn)
    assert len({bolts(seed=s).tobytes() for s in range(8)}) > 1
    np.testing.assert_array_equal(bolts(seed=[1, 2, 3])[1], bolts(seed=[7, 2, 8])[1])


def test_more_worlds_than_instances(panel):
    env = InsertionVectorEnv(backend(), panel.subset([0, 1]))
    bolt = env.reset()[1]["reading"].truth.bolt
    np.testing.assert_array_equal(bolt[2], bolt[0])


def test_a_broken_action_moves_nothing(panel):
    env = InsertionEnv(backend(1), panel)
    env.reset()
    with pytest.raises(BadInput, match="not finite"):
        env.step(np.full(7, np.nan))


# --- the backend --------------------------------------------------------------------------------------------


def test_readings_do_not_depend_on_the_neighbours(panel):
    together, alone = backend(), backend(1)
    one, other = together.reset(panel.instances[:N]), alone.reset([panel.instances[2]])
    for k in range(10):
        assert_rows_equal(one, other, [2], [0])
        one, other = together.step(*commands(k, N)), alone.step(*commands(k, 1))
    assert_rows_equal(one, other, [2], [0])


def test_readings_do_not_depend_on_threads(panel):
    one, other = backend(threads=1), backend(threads=2)
    one.reset(panel.instances[:N])
    other.reset(panel.instances[:N])
    for k in range(10):
        assert one.step(*commands(k, N)) == other.step(*commands(k, N))


def test_noise_depends_on_seed_and_step_only(panel):
    """Two instances that differ in the seed alone: the truth is one, the noise is not; the same seed repeats it."""
    instance = replace(panel.instances[0], parameters={**panel.instances[0].parameters, "wrench_noise": 0.3})
    quiet = replace(instance, parameters={**instance.parameters, "wrench_noise": 0.0, "cloud_noise": 0.0})
    worlds = backend(4)
    readings = [worlds.reset([instance, instance, replace(instance, seed=instance.seed + 1), quiet])]
    readings += [worlds.step(*commands(k, 4)) for k in range(4)]
    noises = []
    for reading in readings:
        for name in ("q", "tcp", "t", "opening"):
            np.testing.assert_array_equal(getattr(reading, name)[0], getattr(reading, name)[2])
        np.testing.assert_array_equal(reading.truth.nut[0], reading.truth.nut[3])
        assert_rows_equal(reading, reading, [0], [1])
        noises.append((reading.wrench[0] - reading.wrench[3]).tobytes())
        for name in ("wrench", "cloud"):
            assert (getattr(reading, name)[0] != getattr(reading, name)[2]).any(), name
    assert len(set(noises)) == len(noises)


def test_noise_has_the_size_that_the_instance_says(panel):
    base = panel.instances[0]
    loud = [
        replace(base, seed=k, parameters={**base.parameters, "wrench_noise": 0.4, "cloud_noise": 0.002})
        for k in range(40)
    ]
    quiet = replace(base, parameters={**base.parameters, "wrench_noise": 0.0, "cloud_noise": 0.0})
    reading = backend(41).reset([*loud, quiet])
    wrench = reading.wrench[:40] - reading.wrench[40]
    cloud = reading.cloud[:40] - reading.cloud[40]
    assert wrench[:, :3].std() == pytest.approx(0.4, rel=0.2)
    assert wrench[:, 3:].std() == pytest.approx(0.4 * 0.05, rel=0.2)
    assert cloud.std() == pytest.approx(0.002, rel=0.05)
    assert abs(wrench[:, :3].mean()) < 0.1
    assert abs(cloud.mean()) < 1e-4
    distance = np.corrcoef(cloud.reshape(40, -1))
    assert np.abs(distance - np.eye(40)).max() < 0.35  # seeds that follow each other are not alike


def test_a_finger_that_touches_nothing_reads_nothing(panel):
    noisy = replace(panel.instances[0], parameters={**panel.instances[0].parameters, "wrench_noise": 5.0})
    assert (backend(1).reset([noisy]).touch == 0).all()


def test_a_snapshot_goes_on_with_the_same_readings(panel):
    first, second = backend(), backend()
    first.reset(panel.instances[:N])
    for k in range(6):
        before = first.step(*commands(k, N))
    snapshot = first.snapshot()
    assert second.restore(snapshot, panel.instances[:N]) == before
    for k in range(6, 12):
        assert first.step(*commands(k, N)) == second.step(*commands(k, N))


def test_a_snapshot_survives_a_file(panel, tmp_path):
    from dexprior.artifacts import read_tensors, write_tensors

    first, second = backend(), backend()
    first.reset(panel.instances[:N])
    before = first.step(*commands(0, N))
    snapshot, _ = read_tensors(write_tensors(tmp_path / "state", first.snapshot(), {}))
    assert second.restore(snapshot, panel.instances[:N]) == before


def test_every_world_needs_an_instance(panel):
    with pytest.raises(BadInput, match="2 instances for 3 worlds"):
        backend().reset(panel.instances[:2])


def test_the_two_worlds_really_differ():
    """The same scenes and commands, but another contact: what is felt at the table is not the same."""
    felt = []
    for family, cone in ((TRAINING_FAMILY, "pyramidal"), (OTHER_FAMILY, "elliptic")):
        worlds = backend(1, family=family, cone=cone)
        instance = Panel.sample("x", family, 1, seed=0).instances[0]
        quiet = replace(instance, parameters={**instance.parameters, "wrench_noise": 0.0, "cloud_noise": 0.0})
        reading = worlds.reset([quiet])
        for _ in range(25):
            reading = worlds.step(np.array([[0, 0, -0.4, 0, 0, 0]]), np.array([0.08]))
        felt.append(reading.wrench[0])
    assert np.abs(felt[0]).max() > 5
    assert np.abs(felt[0] - felt[1]).max() > 1e-3


def test_noise_of_neighbouring_seeds_and_steps_is_unrelated():
    from dexprior.envs.noise import normals

    rows = np.concatenate([normals(np.arange(100, 104), step, 200) for step in (0, 1)])
    assert abs(rows.mean()) < 0.1
    assert abs(rows.std() - 1) < 0.1
    for i in range(len(rows)):
        for j in range(i):
            for lag in range(-3, 4):
                a, b = rows[i, 3:-3], np.roll(rows[j], lag)[3:-3]
                assert abs(np.corrcoef(a, b)[0, 1]) < 0.35, (i, j, lag)
