"""Training of pushing: resumed equals uninterrupted, a policy survives the disk, and the batch is SB3's environment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dexprior.collision import ContactRanges, ImpulseNetwork, Surrogate, SurrogateConfig
from dexprior.envs.pushing import PushingWorlds
from dexprior.errors import ArtifactError, ConfigError
from dexprior.policy.planning import MujocoStriker
from dexprior.policy.pushing import (
    PushConfig,
    PushingVecEnv,
    StrikerConfig,
    load_push_policy,
    make_striker,
    train,
)


@pytest.fixture(scope="module")
def surrogate(tmp_path_factory):
    """An untrained network with parameters: any passive collision will do."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = ImpulseNetwork(SurrogateConfig(width=8, depth=1))
    model = Surrogate.from_network(network, np.array([[-5.0, 5.0], [-1.0, 1.0], [-1.0, 2.0], [-4.0, 2.0]]))
    phi = ContactRanges().from_unit(np, np.zeros((1, 5)))[0]
    path = tmp_path_factory.mktemp("model") / "surrogate.safetensors"
    replace(model, phi=phi).save(path, producer="test", seed=0)
    return str(path)


@pytest.fixture(scope="module")
def config(surrogate):
    return PushConfig(
        striker=StrikerConfig(kind="hybrid", surrogate=surrogate),
        steps=96, worlds=8, hidden=(8,), batch=8, learning_starts=32, checkpoint_every=48,
    )  # fmt: skip


class _Killed(Exception):
    pass


def test_a_resumed_run_equals_an_uninterrupted_one(config, tmp_path, monkeypatch):
    whole = train(config, tmp_path / "whole", 3, quiet=True)
    begin, begun = PushingWorlds.seed, []

    def killed_in_the_second_chunk(worlds, seed):
        begun.append(seed)
        if len(begun) == 2:
            raise _Killed
        begin(worlds, seed)

    with monkeypatch.context() as patched:
        patched.setattr(PushingWorlds, "seed", killed_in_the_second_chunk)
        with pytest.raises(_Killed):
            train(config, tmp_path / "parts", 3, quiet=True)
    resumed = train(config, tmp_path / "parts", 3, quiet=True)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
    assert (tmp_path / "whole" / "curve.json").read_text() == (tmp_path / "parts" / "curve.json").read_text()

    loaded, trained = load_push_policy(tmp_path / "whole" / "policy.safetensors")
    assert trained == config
    seen = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    np.testing.assert_array_equal(
        loaded.predict(seen, deterministic=True)[0], whole.predict(seen, deterministic=True)[0]
    )
    with pytest.raises(ArtifactError, match="belongs to another run: seed is 3 there, 4 here"):
        train(config, tmp_path / "whole", 4, quiet=True)


def test_worlds_restart_on_their_own_and_report_episodes(config):
    worlds = PushingWorlds(config.world, config.task, make_striker(config.striker, config.world), 6, seed=0)
    env = PushingVecEnv(worlds)
    env.reset()
    rng, ended = np.random.default_rng(0), 0
    for _ in range(12):
        _, reward, done, infos = env.step(rng.uniform(-1, 1, (6, 3)))
        assert np.isfinite(reward).all()
        ended += int(done.sum())
        assert all(("terminal_observation" in info) == bool(d) for info, d in zip(infos, done))
        assert (worlds.used[done] == 0).all()
    assert len(env.episodes) == ended > 0
    assert max(strikes for _, strikes, _, _ in env.episodes) <= config.task.max_strikes


def test_the_simulator_is_chosen_by_name(config, tmp_path):
    assert isinstance(make_striker(StrikerConfig(), config.world), MujocoStriker)
    with pytest.raises(ConfigError, match="hybrid needs one"):
        StrikerConfig(kind="hybrid")
    with pytest.raises(ConfigError, match="whole number of rounds"):
        PushConfig(worlds=7, checkpoint_every=50)


def test_a_surrogate_without_parameters_is_refused(config, surrogate, tmp_path):
    path = tmp_path / "bare.safetensors"
    replace(Surrogate.load(surrogate), phi=None).save(path, producer="test", seed=0)
    with pytest.raises(ArtifactError, match="no identified parameters"):
        make_striker(StrikerConfig(kind="hybrid", surrogate=str(path)), config.world)
