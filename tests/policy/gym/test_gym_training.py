"""Policies for Gymnasium environments: imitation, PPO near a density, residuals, SAC, and what a kill costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dexprior.artifacts import read_tensors
from dexprior.errors import ArtifactError, BadInput
from dexprior.policy.actor import ActorConfig
from dexprior.policy.density import DensityConfig
from dexprior.policy.gym import EnvConfig, GymConfig, evaluate_policy, load_policy, train_gym
from dexprior.policy.gym.cloning import CloningConfig
from dexprior.policy.gym.experts import Defect
from dexprior.policy.gym.offpolicy import OffPolicyConfig
from dexprior.policy.kl import KlConfig
from dexprior.policy.optimising import Optimisation

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = GymConfig(
    env=EnvConfig(success_steps=6), episodes=6, clone=CloningConfig(steps=300, batch=64),
    density=DensityConfig(kind="mixture", components=2, width=16, context=8, steps=150, batch=64),
    ppo=Optimisation(
        worlds=4, iterations=3, warmup=0, guided=0, minibatch=48, actor=ActorConfig(width=32, log_std=-1.5),
        kl=KlConfig(start=0.05),
    ),
    off_policy=OffPolicyConfig(steps=48, learning_starts=12, batch=16, widths=(16,), every=24, judged=2),
    judge_every=2, judged=4,
)  # fmt: skip


@pytest.mark.parametrize("prior", ["expert_file", "episodes_file"])
def test_a_prior_of_either_kind_is_imitated_and_kept(prior, request, tmp_path):
    told = train_gym("Point-v0", SMALL, tmp_path, seed=0, prior=request.getfixturevalue(prior))
    assert [row["iteration"] for row in told["curve"]] == [1, 2, 3]
    assert [row["iteration"] for row in told["curve"] if "judged" in row] == [2, 3]
    assert told["density"]["steps"] > 0
    played = evaluate_policy(tmp_path, None, 10)
    assert played.success.mean() == 1.0
    assert evaluate_policy(tmp_path, EnvConfig(success_steps=12), 4).success.mean() == 0.0


def test_a_policy_learns_without_a_prior(tmp_path):
    ppo = replace(SMALL.ppo, worlds=16, iterations=12, minibatch=96, learning_rate=3e-3, discount=0.9)
    told = train_gym("PointSilent-v0", replace(SMALL, ppo=ppo), tmp_path, seed=0)
    returns = [row["return"] for row in told["curve"]]
    assert np.mean(returns[-2:]) > np.mean(returns[:2]) + 1.0
    assert np.isnan(told["curve"][0]["success"])
    assert not (tmp_path / "density.safetensors").exists()


def test_a_residual_begins_as_its_imitation_and_goes_on_beside_it(expert_file, tmp_path):
    still = replace(SMALL, kind="residual", ppo=replace(SMALL.ppo, iterations=1, learning_rate=1e-12))
    train_gym("Point-v0", still, tmp_path / "still", seed=0, prior=expert_file)
    train_gym("Point-v0", replace(still, kind="ppo"), tmp_path / "own", seed=0, prior=expert_file)
    state = np.random.default_rng(0).uniform(-0.5, 0.5, (20, 2))
    both = [load_policy(tmp_path / name)[0](state) for name in ("still", "own")]
    np.testing.assert_allclose(*both, atol=1e-6)
    moved = replace(SMALL, kind="residual", ppo=replace(SMALL.ppo, learning_rate=1e-2))
    train_gym("Point-v0", moved, tmp_path / "moved", seed=0, prior=expert_file)
    apart = np.abs(load_policy(tmp_path / "moved")[0](state) - both[0])
    assert 1e-4 < apart.max() <= SMALL.residual + 1e-6


def test_chunks_are_decided_at_once(episodes_file, tmp_path):
    chunked = replace(SMALL, kind="residual", env=EnvConfig(chunk=3, success_steps=3))
    told = train_gym("Point-v0", chunked, tmp_path, seed=0, prior=episodes_file)
    assert told["curve"][0]["step"] == 4 * 4
    assert load_policy(tmp_path)[0](np.zeros((5, 2))).shape == (5, 6)


def test_training_goes_on_from_another_policy(expert_file, tmp_path):
    train_gym("Point-v0", SMALL, tmp_path / "first", seed=0, prior=expert_file)
    still = replace(SMALL, ppo=replace(SMALL.ppo, iterations=1, learning_rate=1e-12))
    train_gym("Point-v0", still, tmp_path / "next", seed=1, init=tmp_path / "first")
    state = np.zeros((1, 2))
    np.testing.assert_allclose(*(load_policy(tmp_path / name)[0](state) for name in ("first", "next")), atol=1e-6)
    with pytest.raises(BadInput, match="reads 2 numbers and gives 2, PointNamed-v0 shows 4 and takes 2"):
        train_gym("PointNamed-v0", still, tmp_path / "x", seed=1, init=tmp_path / "first")


@pytest.mark.parametrize("kind", ["ppo", "residual"])
def test_a_killed_training_equals_an_uninterrupted_one(kind, expert_file, tmp_path, kill_registered):
    config = replace(SMALL, kind=kind)
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    whole = train_gym("Point-v0", config, tmp_path / "whole", seed=3, prior=expert_file)
    kill_registered("Point-v0", config, tmp_path / "killed", seed=3, prior=expert_file)
    assert read_tensors(tmp_path / "killed" / "state.safetensors")[1]["progress"]["iteration"] == 1
    assert train_gym("Point-v0", config, tmp_path / "killed", seed=3, prior=expert_file)["curve"] == whole["curve"]
    one, two = (read_tensors(tmp_path / name / "policy.safetensors")[0] for name in ("whole", "killed"))
    for name, value in one.items():
        np.testing.assert_array_equal(value, two[name], err_msg=name)


@pytest.mark.parametrize("prior", ["buffer", "density", "both"])
def test_sac_uses_a_prior_in_each_way_and_resumes(prior, episodes_file, tmp_path, kill_registered):
    config = replace(SMALL, kind="sac", off_policy=replace(SMALL.off_policy, prior=prior))
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    whole = train_gym("Point-v0", config, tmp_path / "whole", seed=0, prior=episodes_file)
    assert [row["step"] for row in whole["curve"]] == [24, 48]
    assert (tmp_path / "whole" / "density.safetensors").exists() == (prior != "buffer")
    kill_registered("Point-v0", config, tmp_path / "killed", seed=0, prior=episodes_file)
    resumed = train_gym("Point-v0", config, tmp_path / "killed", seed=0, prior=episodes_file)
    assert resumed["curve"] == whole["curve"]
    state = np.random.default_rng(0).uniform(-1, 1, (6, 2))
    one, two = (load_policy(tmp_path / name)[0](state) for name in ("whole", "killed"))
    np.testing.assert_array_equal(one, two)
    assert len(evaluate_policy(tmp_path / "whole", None, 3).success) == 3


def test_demonstrations_hold_the_policy_where_they_are(episodes_file, tmp_path):
    """At a large weight the imitation does not leave, at none the same steps do."""
    ppo = replace(SMALL.ppo, kl=KlConfig(start=0.0), learning_rate=1e-2, iterations=4)
    off = {}
    for weight in (0.0, 100.0):
        folder = tmp_path / str(weight)
        folder.mkdir()
        train_gym(
            "Point-v0", replace(SMALL, ppo=replace(ppo, demonstrations=weight)), folder, seed=0, prior=episodes_file
        )
        arrays = np.load(episodes_file)
        off[weight] = np.abs(load_policy(folder)[0](arrays["observations"]) - arrays["actions"]).mean()
    assert off[100.0] < 0.7 * off[0.0]


def test_what_cannot_be_trained_says_so(expert_file, episodes_file, tmp_path):
    cases = {
        "gym.kind=residual stands on an imitation": (replace(SMALL, kind="residual"), {}),
        "there is no prior; give prior=FILE": (
            replace(SMALL, kind="sac", off_policy=replace(SMALL.off_policy, prior="density")), {},
        ),
        "holds episodes, and only an expert gets worse": (
            replace(SMALL, defect=Defect(kind="noise", strength=0.1)), {"prior": episodes_file},
        ),
        "off-policy training decides one action at a time": (
            replace(SMALL, kind="sac", env=EnvConfig(chunk=2)), {"prior": episodes_file},
        ),
        r"off_policy\.every = 20 is no multiple of the 12 steps": (
            replace(SMALL, kind="sac", off_policy=replace(SMALL.off_policy, every=20)), {"prior": episodes_file},
        ),
    }  # fmt: skip
    for said, (config, given) in cases.items():
        with pytest.raises(BadInput, match=said):
            train_gym("Point-v0", config, tmp_path, seed=0, **given)
    with pytest.raises(BadInput, match="the reward of world 0 is nan after 3 decisions"):
        train_gym("PointNan-v0", SMALL, tmp_path, seed=0)
    with pytest.raises(ArtifactError, match=r"holds no policy of a Gymnasium environment"):
        load_policy(tmp_path / "nothing")


def test_one_seed_reproduces_a_run(expert_file, tmp_path):
    curves = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        torch.manual_seed(len(name))
        curves.append(train_gym("Point-v0", SMALL, tmp_path / name, seed=5, prior=expert_file)["curve"])
    assert curves[0] == curves[1]
