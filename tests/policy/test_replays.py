"""A bank that is followed, and the density that is fitted to it, as a prior for PPO in scenes it has not seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from reaching import Reaching

from dexprior.behavior import BehaviorConfig, BehaviorPrior
from dexprior.envs.factory import SimulationOptions
from dexprior.envs.panel import Panel
from dexprior.errors import BadInput, UnknownName
from dexprior.families import SensorModels, SightConfig
from dexprior.policy.actor import ActorConfig
from dexprior.policy.density import DensityConfig, fit_density
from dexprior.policy.kl import KlConfig
from dexprior.policy.ppo import PpoConfig, train_ppo
from dexprior.policy.replays import replay
from dexprior.worlds.tasks.actions import MAX_TWIST

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = DensityConfig(kind="mixture", components=2, width=32, context=16, point_width=8, steps=200, batch=128)
OPTIONS = SimulationOptions()


@dataclass(frozen=True)
class Easy(Reaching):
    """Reaching, in which all episodes succeed."""

    name: ClassVar[str] = "reaching"

    def success(self, truth):
        return np.ones(len(truth["held"]), dtype=bool)


@pytest.fixture(scope="module")
def scenes():
    return Panel.sample("train", Easy(), 16, seed=0, purpose="training")


def _straight(panel, *, sentences=()):
    """To the mark in a straight line; with two sentences the second goes away from it."""
    home, steps = np.array([0.45, 0.0, 0.2]), 20
    tool = np.zeros((len(panel), max(len(sentences), 1), steps, 1, 7))
    tool[..., 4] = 1.0
    share = np.linspace(0.0, 1.0, steps)[None, :, None]
    for k in range(tool.shape[1]):
        tool[:, k, :, 0, :3] = home + (1 - 2 * k) * share * (panel.scenes["mark"][:, None] - home)
    end = np.ones((*tool.shape[:4], 1))
    return BehaviorPrior(
        BehaviorConfig(), MAX_TWIST, Easy().control_dt, tool, end, panel.hash, sentences=tuple(sentences)
    )  # fmt: skip


def test_replays_are_the_bank_s_own_actions_with_a_policy_s_sensors(scenes):
    bank = _straight(scenes)
    pairs, senses, success = replay(Easy(), scenes, bank, repeats=2, seed=0, simulation=OPTIONS)
    assert success == 1.0
    assert pairs.episodes == 32
    assert len(pairs) == 32 * 20
    assert senses.bodies == (4,)
    first = pairs.take(np.flatnonzero(np.diff(pairs.episode, prepend=-1)))
    mean, _ = bank.components(_tools(first, senses.robots[0].joints), np.zeros(32), np.tile(np.arange(16), 2))
    assert np.abs(first.action - mean[:, 0])[:, :3].max() < 5 * bank.std.max()
    again, *_ = replay(Easy(), scenes, bank, repeats=2, seed=0, simulation=OPTIONS)
    np.testing.assert_array_equal(again.action, pairs.action)


def _tools(pairs, joints):
    """Poses of the tools, of which the places are what was seen."""
    tools = np.zeros((len(pairs), 1, 7))
    tools[..., 4] = 1.0
    tools[:, 0, :3] = pairs.observation["proprio"][:, 2 * joints : 2 * joints + 3]
    return tools


def test_a_density_of_replays_goes_to_marks_that_it_has_not_seen(scenes, tmp_path):
    pairs, senses, _ = replay(Easy(), scenes, _straight(scenes), repeats=3, seed=0, simulation=OPTIONS)
    density, _ = fit_density(pairs, SMALL, seed=0, senses=senses)
    config = PpoConfig(
        worlds=8, iterations=3, warmup=3, guided=1, warmup_epochs=6, warmup_minibatch=40, epochs=1,
        actor=ActorConfig(width=32, point_width=8), kl=KlConfig(start=0.1),
    )  # fmt: skip
    unseen = Panel.sample("unseen", Easy(), 24, seed=7, purpose="training")
    _, curve = train_ppo(Easy(), unseen, density, config, tmp_path / "near", seed=0)
    assert curve[-1]["kl"] < 0.6 * curve[0]["kl"]
    assert curve[-1]["reward"] > curve[0]["reward"] - 0.05
    blind = SimulationOptions(sensors=SensorModels(sight=SightConfig(labels=False)))
    with pytest.raises(BadInput, match=r"fitted to other sensors .* these differ: labels"):
        train_ppo(Easy(), unseen, density, replace(config, simulation=blind), tmp_path / "x", seed=0)
    chunked, _ = fit_density(pairs, replace(SMALL, steps=1, chunk=2), seed=0, senses=senses)
    with pytest.raises(BadInput, match=r"gives 2 actions at once, .* density\.chunk=1"):
        train_ppo(Easy(), unseen, chunked, config, tmp_path / "x", seed=0)


def test_a_bank_of_several_ways_is_asked_for_one(scenes):
    ways = ("towards", "away")
    bank = _straight(scenes, sentences=ways)
    pairs, _, _ = replay(Easy(), scenes, bank, repeats=1, seed=0, simulation=OPTIONS)
    assert pairs.sentences == ways
    assert pairs.episodes == 32
    np.testing.assert_array_equal(np.unique(pairs.sentence), [0, 1])
    for k, way in enumerate(ways):
        one = bank.asked(way)
        np.testing.assert_array_equal(one.tool[:, 0], bank.tool[:, k])
        assert one.sentences == (way,)
    assert bank.asked(None).sentences == ("towards",)
    with pytest.raises(UnknownName, match="unknown sentence 'awai'; did you mean 'away'"):
        bank.asked("awai")


def test_banks_of_sentences_become_one_and_survive_a_file(scenes, tmp_path):
    parts = [_straight(scenes, sentences=("a",)), _straight(scenes, sentences=("b",))]
    both = BehaviorPrior.together(parts, ["a", "b"])
    assert both.tool.shape[1] == 2
    again = BehaviorPrior.load(both.save(tmp_path / "behavior.safetensors"))
    assert again.sentences == ("a", "b")
    other = _straight(Panel.sample("other", Easy(), 16, seed=9))
    with pytest.raises(BadInput, match="banks of different panels"):
        BehaviorPrior.together([parts[0], other], ["a", "b"])


def test_what_cannot_be_followed_is_refused(scenes):
    @dataclass(frozen=True)
    class Never(Easy):
        name: ClassVar[str] = "reaching"

        def success(self, truth):
            return np.zeros(len(truth["held"]), dtype=bool)

    with pytest.raises(BadInput, match="succeeds in 0 of 16 episodes"):
        replay(Never(), scenes, _straight(scenes), repeats=1, seed=0, simulation=OPTIONS)
    other = Panel.sample("other", Easy(), 16, seed=9)
    with pytest.raises(BadInput, match=f"built for panel {scenes.hash}, this one is {other.hash}"):
        replay(Easy(), other, _straight(scenes), repeats=1, seed=0, simulation=OPTIONS)
