"""Films, the viewer, and somebody who plays."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from dexprior.data.readers import probe_clip
from dexprior.envs.panel import Panel
from dexprior.envs.registration import register
from dexprior.envs.tasks import Film, TaskEnv, TaskVectorEnv, make_vec_env, play, play_policy, player_of
from dexprior.errors import BadInput, NoGraphics, UnknownName
from dexprior.worlds.tasks import make_task
from dexprior.worlds.tasks.experts import run_expert


def _peg(n: int):
    env = make_vec_env("peg", num_envs=n, threads=1, autoreset=False)
    env.reset(seed=0)
    return env


def test_a_film_shows_each_world_in_a_tile_of_its_own_and_plays_in_real_time(tmp_path):
    env = _peg(3)
    film = Film(env, [2, 0], cameras=("front", "side"), size=48)
    film.shoot()
    for _ in range(4):
        env.step(np.full((3, 7), 0.8))
        film.shoot()
    assert [frame.shape for frame in film.frames] == [(96, 96, 3)] * 5
    first, last = film.frames[0].astype(int), film.frames[-1].astype(int)
    np.testing.assert_array_equal(last[:48, :48], env.frame(2, camera="front", size=48))
    np.testing.assert_array_equal(last[48:, 48:], env.frame(0, camera="side", size=48))
    assert np.abs(last - first).max() > 50  # the arm moved
    info = probe_clip(film.write(tmp_path / "film.mp4"))
    assert (info.frames, info.fps) == (5, 25.0)
    env.close()


def test_a_reset_shows_the_new_instance():
    env = _peg(1)
    before = env.frame(0, size=64)
    env.reset(seed=1)
    assert (env.frame(0, size=64) != before).any()
    env.close()


def test_bad_films_are_refused(tmp_path):
    env = _peg(2)
    with pytest.raises(BadInput, match=r"worlds \[2\]: there are worlds 0 to 1"):
        Film(env, [2])
    with pytest.raises(BadInput, match="47 px"):
        Film(env, [0], size=47)
    with pytest.raises(BadInput, match="without a frame"):
        Film(env, [0]).write(tmp_path / "film.mp4")


def test_a_policy_plays_like_a_player_that_does_the_same():
    task = make_task("peg")
    env = TaskVectorEnv(task, 2, panel=Panel.sample("mine", task, 2, seed=3), threads=1, autoreset=False)
    env.reset()
    still = play(env.worlds, player_of("still", env.worlds))
    seen = []

    def act(observation):
        seen.append(observation["time"])
        return np.zeros((2, 7))

    policy = play_policy(env, act)
    assert len(seen) == task.steps
    for name in ("solved", "lost", "reward"):
        np.testing.assert_array_equal(getattr(policy, name), getattr(still, name))
    env.close()


def test_the_expert_scores_and_standing_still_does_not():
    env = _peg(2)
    env.reset(seed=1)
    expert = play(env.worlds, player_of("expert", env.worlds))
    env.reset(seed=1)
    still = play(env.worlds, player_of("still", env.worlds))
    assert expert.solved.all()
    assert not (still.solved | still.lost).any()
    assert (expert.reward > still.reward).all()


def test_what_is_solved_and_undone_again_is_not_solved():
    env = _peg(2)
    env.reset(seed=1)
    expert, seen = player_of("expert", env.worlds), np.zeros(2, dtype=bool)

    def undoing(truth, robots, t, memory):
        seen[:] |= env.task.success(truth)
        action = expert(truth, robots, t, memory)
        action[seen, :6] = [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]  # pulls the peg out again
        return action

    played = play(env.worlds, undoing)
    assert seen.all()
    assert not played.solved.any()
    seen[:] = False
    env.reset(seed=1)
    solved, truth = run_expert(env.worlds, undoing)
    assert seen.all()
    np.testing.assert_array_equal(solved, env.task.success(truth))
    assert not solved.any()


def test_random_players_of_one_seed_do_the_same():
    env = _peg(2)
    one, two = (player_of("random", env.worlds, seed=3) for _ in range(2))
    now = env.worlds.truth(), env.worlds.view.rigs
    np.testing.assert_array_equal(one(*now, 0.0, None), two(*now, 0.0, None))
    assert (one(*now, env.task.control_dt, None) != two(*now, 0.0, None)).any()
    with pytest.raises(UnknownName, match="expert, random, still"):
        player_of("human", env.worlds)


def test_one_world_renders_in_the_mode_it_was_made_with(monkeypatch):
    register()
    env = gymnasium.make("dexprior/Peg-v0", render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (480, 480, 3)
    env.close()
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    env = TaskEnv(make_task("peg"), render_mode="human")
    with pytest.raises(NoGraphics, match="DISPLAY"):
        env.reset(seed=0)
