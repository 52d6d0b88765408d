"""Gymnasium environments over the task suite."""

from __future__ import annotations

import copy
import itertools
import pickle
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from dexprior.envs.panel import Panel
from dexprior.envs.registration import ENVIRONMENTS, register
from dexprior.envs.tasks import TaskEnv, TaskVectorEnv, make_vec_env
from dexprior.errors import ArtifactError, BadInput, UnknownName
from dexprior.families import EventFamily, EventPrior
from dexprior.worlds.tasks import SUITE, make_task

QUICK = ("cube_in_hand", "folding", "handover", "insertion", "peg", "pick_place", "soft_grasp", "wipe")


def test_every_task_is_registered():
    register()
    register()  # again does nothing
    assert sorted(ENVIRONMENTS.values()) == sorted(SUITE)
    assert set(ENVIRONMENTS) <= set(gymnasium.registry)


@pytest.mark.parametrize("task", QUICK)
@pytest.mark.filterwarnings("ignore:.*infinity.*:UserWarning")
def test_gymnasium_accepts_it(task):
    register()
    name = next(name for name, known in ENVIRONMENTS.items() if known == task)
    env = gymnasium.make(name)
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_make_vec_finds_the_vector_environment():
    register()
    envs = gymnasium.make_vec("dexprior/PickPlace-v0", num_envs=3, threads=1)
    assert isinstance(envs.unwrapped, TaskVectorEnv)
    observation, info = envs.reset(seed=0)
    assert observation["cloud"].shape == (3, 64, 3)
    assert envs.observation_space.contains(observation)
    assert info["terms"]["total"].shape == (3,)


def test_policies_see_the_object_only_with_a_tracker():
    blind, tracked = (TaskEnv(make_task("peg"), tracker=tracker) for tracker in (False, True))
    assert "object" not in blind.observation_space.spaces
    observation, info = tracked.reset(seed=1)
    np.testing.assert_allclose(observation["object"], info["truth"]["object"], atol=1e-6)
    assert "privileged" in info


def test_one_seed_gives_one_run_whatever_the_threads():
    def run(threads: int) -> np.ndarray:
        env = make_vec_env("pick_place", num_envs=4, threads=threads)
        env.reset(seed=5)
        rng = np.random.default_rng(0)
        rows = [env.step(rng.uniform(-1, 1, (4, 7)))[0] for _ in range(110)]  # past the first restart
        return np.concatenate([row[key].reshape(4, -1) for row in rows for key in sorted(row)], axis=1)

    first = run(1)
    np.testing.assert_array_equal(first, run(2))
    assert len(np.unique(first[:, 0])) == 4


def _rows(observation, world):
    return {name: value[world] for name, value in observation.items()}


def _same(one, other):
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


@pytest.mark.parametrize("panel", [False, True])
def test_a_list_of_seeds_gives_each_world_what_one_world_of_that_seed_does(panel):
    task, seeds = make_task("pick_place"), [11, 3, 11]
    options = {"panel": Panel.sample("p", task, 40, seed=4)} if panel else {}
    envs = TaskVectorEnv(task, 3, threads=1, **options)
    actions = np.random.default_rng(2).uniform(-1, 1, (30, 1, 7))
    seen = [envs.reset(seed=seeds)[0], *(envs.step(np.repeat(a, 3, axis=0))[0] for a in actions)]
    later = None if panel else envs.reset()[0]
    for world, seed in enumerate(seeds):
        one = TaskEnv(task, threads=1, **options)
        alone = [one.reset(seed=seed)[0], *(one.step(a[0])[0] for a in actions)]
        for both in zip(seen, alone):
            _same(_rows(both[0], world), both[1])
        if later is not None:  # and what is drawn next, too
            _same(_rows(later, world), one.reset()[0])
    for wrong in ([1, 2], [1, 2, 3, 4]):
        with pytest.raises(BadInput, match=f"{len(wrong)} seeds for 3 worlds"):
            envs.reset(seed=wrong)


def test_a_seed_that_is_not_given_leaves_a_world_as_it_is():
    envs = [make_vec_env("pick_place", num_envs=2, threads=1) for _ in range(2)]
    for env in envs:
        env.reset(seed=[7, 8])
    mixed, whole = envs[0].reset(seed=[9, None])[0], envs[1].reset()[0]
    _same(_rows(mixed, 1), _rows(whole, 1))
    assert (mixed["cloud"][0] != whole["cloud"][0]).any()
    _same(envs[0].reset(seed=5)[0], envs[1].reset(seed=5)[0])  # one number is of all again


def test_a_mask_restarts_some_worlds_and_leaves_the_others_in_their_episodes():
    masked, left = (make_vec_env("pick_place", num_envs=3, threads=1, autoreset=False) for _ in range(2))
    actions = np.random.default_rng(0).uniform(-1, 1, (6, 3, 7))
    for env in (masked, left):
        env.reset(seed=1)
        for action in actions[:4]:
            env.step(action)
    options = {"reset_mask": np.array([False, True, False])}
    observation, _ = masked.reset(seed=[0, 21, 0], options=options)
    assert "reset_mask" in options
    _same(_rows(observation, 1), _rows(make_vec_env("pick_place", num_envs=1, threads=1).reset(seed=[21])[0], 0))
    assert observation["time"][1] < observation["time"][0] == observation["time"][2]
    for action in actions[4:]:
        one, other = masked.step(action)[0], left.step(action)[0]
        for world in (0, 2):
            _same(_rows(one, world), _rows(other, world))
    for wrong in ([True], np.zeros(3, dtype=bool), np.ones(3)):
        with pytest.raises(BadInput, match="expected 3 times true or false"):
            masked.reset(options={"reset_mask": wrong})


def test_frames_may_be_asked_for_by_name_and_nothing_else():
    envs = gymnasium.make_vec("dexprior/Peg-v0", num_envs=2, render_mode="rgb_array", threads=1)
    assert envs.unwrapped.render_mode == "rgb_array"
    with pytest.raises(UnknownName, match=r"unknown render mode of many worlds 'human'.*rgb_array"):
        gymnasium.make_vec("dexprior/Peg-v0", num_envs=2, render_mode="human")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_copy_is_refused_with_what_to_do_instead(copied):
    for env in (gymnasium.make("dexprior/Peg-v0"), make_vec_env("peg", num_envs=2, threads=1)):
        with pytest.raises(TypeError, match=r"Make another one with the same arguments.*reset\(seed=...\)"):
            copied(env.unwrapped)
        if copied is not copy.copy:  # a wrapper's shallow copy holds the same environment
            with pytest.raises(TypeError, match="hand other processes a function that makes one"):
                copied(env)


def test_an_episode_ends_at_its_horizon_and_restarts_with_the_next_step():
    env = make_vec_env("peg", num_envs=2, threads=1)
    env.reset(seed=0)
    action = np.zeros((2, 7))
    for k in range(75):
        observation, reward, terminated, truncated, _ = env.step(action)
        assert truncated.all() == (k == 74)
        assert not terminated.any()
        np.testing.assert_allclose(observation["time"], 0.04 * (k + 1), atol=1e-6)
    observation, reward, terminated, truncated, _ = env.step(action)
    np.testing.assert_array_equal(observation["time"], 0.0)
    np.testing.assert_array_equal(reward, 0.0)
    assert not truncated.any()
    observation, reward, *_ = env.step(action)
    np.testing.assert_allclose(observation["time"], 0.04, atol=1e-6)
    assert (reward > 0).all()


def test_a_lost_world_terminates_alone():
    env = make_vec_env("soft_grasp", num_envs=2, threads=1)
    env.reset(seed=0)
    env.worlds.view.remember("bruise", np.zeros(2))[1] = 1.0
    _, _, terminated, truncated, info = env.step(np.ones((2, 9)))
    assert terminated.tolist() == [False, True]
    assert not truncated.any()
    assert not info["success"].any()
    observation, _, terminated, *_ = env.step(np.ones((2, 9)))
    assert not terminated.any()
    np.testing.assert_allclose(observation["time"][:, 0], [0.08, 0.0], atol=1e-6)


def test_noise_is_the_seeds_and_fades_with_its_parameter():
    task = make_task("pick_place")
    panel = Panel.sample("p", task, 2, seed=0)
    quiet = panel.parameters.copy()
    for name in ("wrench_noise", "cloud_noise"):
        quiet[:, task.family.names.index(name)] = [0.0, {"wrench_noise": 0.3, "cloud_noise": 0.002}[name]]
    noisy = Panel("q", panel.task, panel.family, panel.scenes, quiet, panel.seeds)
    env = TaskVectorEnv(task, 2, panel=noisy, threads=1)
    observation, info = env.reset(options={"instances": [0, 1]})
    true = task.cloud(env.worlds.view, info["truth"])
    error = np.abs(observation["cloud"] - true).reshape(2, -1)
    assert error[0].max() < 1e-6
    assert 0.001 < error[1].std() * np.sqrt(1 / (1 - 2 / np.pi)) < 0.003
    again, _ = env.reset(options={"instances": [0, 1]})
    np.testing.assert_array_equal(again["cloud"], observation["cloud"])


def test_a_panel_fixes_the_instances(tmp_path):
    task = make_task("peg")
    panel = Panel.sample("held-out", task, 5, seed=3)
    copy = Panel.load(panel.save(tmp_path / "panel.json"))
    assert copy.hash == panel.hash
    other = Panel.sample("other world", task, 5, seed=3, family=task.reality)
    assert other.hash == panel.hash
    assert Panel.sample("p", task, 5, seed=3, purpose="training").hash != panel.hash
    assert Panel.sample("p", task, 5, seed=4).hash != panel.hash
    env = TaskVectorEnv(task, 2, panel=copy, threads=1)
    env.reset(options={"instances": [4, 1]})
    holes = env.worlds.view.field("mocap_pos")[:, 0]
    np.testing.assert_array_equal(holes, panel.scenes["hole"][[4, 1]])
    env.reset()
    np.testing.assert_array_equal(env.worlds.view.field("mocap_pos")[:, 0], panel.scenes["hole"][[0, 1]])


def test_a_sensor_that_drops_out_keeps_its_last_reading(tmp_path):
    task = make_task("pick_place")
    drop = EventPrior(kind="dropout", target="wrench", time=(0.1, 0.1), duration=(0.12, 0.12))
    noise = EventPrior(kind="set", target="wrench_noise", time=(0.2, 0.2), low=(0.0,), high=(0.0,))
    panel = Panel.sample("dropouts", task, 2, seed=0, events=EventFamily("e", (drop, noise)))
    assert panel.hash != Panel.sample("plain", task, 2, seed=0).hash
    again = Panel.load(panel.save(tmp_path / "panel.json"))
    assert again.events == panel.events
    assert again.take([1]).events == panel.events[1:]
    env = TaskVectorEnv(task, 2, panel=again, threads=1)
    readings = [env.reset(options={"instances": [0, 1]})[0]["wrench"]]
    exact = []
    for _ in range(8):
        readings.append(env.step(np.zeros((2, 7)))[0]["wrench"])
        exact.append(env.worlds.view.rigs[0].wrench)
    same = [bool((a == b).all()) for a, b in itertools.pairwise(readings)]
    assert same == [False, False, True, True, True, False, False, False]
    quiet = [bool(np.allclose(a, b, atol=1e-5)) for a, b in zip(readings[1:], exact)]
    assert quiet[5:] == [True, True, True]
    assert not any(quiet[:5])
    for_good = EventPrior(kind="dropout", target="proprio", time=(0.1, 0.1))
    blind = TaskVectorEnv(task, 1, events=EventFamily("e", (for_good,)), threads=1)
    blind.reset(seed=0)
    seen = [blind.step(np.array([[0.5, 0, 0, 0, 0, 0, 1.0]]))[0]["proprio"] for _ in range(12)]
    assert (seen[0] != seen[1]).any()
    for later in seen[2:]:
        np.testing.assert_array_equal(later, seen[1])
    drawn = TaskVectorEnv(task, 2, events=EventFamily("e", (drop,)), threads=1)
    drawn.reset(seed=0)
    assert drawn.worlds.stale("wrench").tolist() == [False, False]
    assert drawn.worlds.stale("touch") is None
    with pytest.raises(BadInput, match="events of 1 instances"):
        Panel("p", panel.task, panel.family, panel.scenes, panel.parameters, panel.seeds, panel.events[:1])


def test_bad_panels_and_options_are_refused(tmp_path):
    peg, cube = make_task("peg"), make_task("pick_place")
    panel = Panel.sample("p", peg, 2, seed=0)
    with pytest.raises(BadInput, match="is of task 'peg'"):
        TaskVectorEnv(cube, 2, panel=panel)
    with pytest.raises(BadInput, match="at least one"):
        Panel.sample("p", peg, 0, seed=0)
    with pytest.raises(BadInput, match=r"0\.\.1"):
        panel.take([2])
    file = panel.save(tmp_path / "panel.json")
    file.write_text(file.read_text().replace(panel.hash, "0" * 12))
    with pytest.raises(BadInput, match="hash"):
        Panel.load(file)
    file.write_text("{")
    with pytest.raises(ArtifactError, match=r"not valid JSON"):
        Panel.load(file)
    with pytest.raises(BadInput, match="needs a panel"):
        TaskVectorEnv(peg, 2, threads=1).reset(options={"instances": [0, 1]})
    with pytest.raises(UnknownName, match="dense"):
        TaskVectorEnv(peg, 1, reward="shaped")
    with pytest.raises(UnknownName, match="rgb_array"):
        TaskEnv(peg, render_mode="ansi")
    with pytest.raises(BadInput, match="3 seeds but 2 rows"):
        Panel("p", "peg", peg.family, panel.scenes, panel.parameters, np.zeros(3, dtype=int))


def test_a_frame_shows_the_scene():
    env = TaskEnv(make_task("pick_place"), render_mode="rgb_array")
    env.reset(seed=0)
    frame = env.render()
    assert frame.shape == (480, 480, 3)
    orange = (frame[..., 0] > 150) & (frame[..., 2] < 80)
    assert orange.sum() > 50  # the cube


def test_plain_settings_switch_injectors_and_phenomena():
    """By Gymnasium's name, from plain data; an instance looks the same wherever it is shown."""
    register()
    settings = {"injectors": {"light": 0.8, "blur": 0.3, "clutter": 0.2}, "injector_seed": 1}
    env = gymnasium.make("dexprior/PickPlace-v0", settings=settings, render_mode="rgb_array")
    env.reset(seed=0)
    frame = env.render()
    assert env.unwrapped.task.injectors.as_dict() == settings["injectors"]
    task = make_task("pick_place", **settings)
    two = TaskVectorEnv(task, 2, phenomena={"stribeck": {"kinetic": 0.6}}, threads=1)
    panel = Panel.sample("p", task, 2, seed=4)
    assert panel.scenes["clutter"].shape == (2, 2, 3)
    shown = TaskVectorEnv(task, 2, panel=panel, threads=1)
    shown.reset(options={"instances": [0, 1]})
    first = shown.frame(0, size=64)
    shown.reset(options={"instances": [1, 0]})
    np.testing.assert_array_equal(shown.frame(1, size=64), first)
    assert (shown.frame(0, size=64) != first).any()
    two.reset(seed=0)
    assert two.observation_space.contains(two.step(np.zeros((2, 7)))[0])
    assert frame.shape == (480, 480, 3)


def test_importing_the_environments_registers_their_names():
    code = "import gymnasium, dexprior.envs; print('dexprior/SoftGrasp-v0' in gymnasium.registry)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "True"
