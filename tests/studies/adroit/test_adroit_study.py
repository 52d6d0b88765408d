"""The study of the Adroit hand: arms, rewards of recorded steps, and parts that are done once."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from dexprior.data import catalog
from dexprior.errors import UnknownName
from dexprior.policy.actor import ActorConfig
from dexprior.policy.gym import EnvConfig, GymConfig
from dexprior.policy.gym.cloning import CloningConfig
from dexprior.policy.gym.offpolicy import OffPolicyConfig
from dexprior.policy.pairs import Pairs
from dexprior.studies.adroit import ARMS, AdroitConfig, study_adroit
from dexprior.studies.adroit.arms import arm_config, door_rewards


def test_recorded_steps_get_the_rewards_of_the_environment():
    state = np.zeros((5, 39))
    state[:, 28] = [1.0, 1.4, 1.5, 0.0, 1.36]
    pairs = Pairs(observation={"state": state}, action=np.zeros((5, 28)), episode=np.array([0, 0, 0, 1, 1]))
    assert door_rewards(pairs).reward.tolist() == [10.0, 10.0, 10.0, 10.0, 10.0]
    state[:, 28] = [1.0, 1.2, 1.5, 0.0, 0.3]
    assert door_rewards(pairs).reward.tolist() == [-0.1, 10.0, 10.0, -0.1, -0.1]


def test_arms_differ_in_what_they_say():
    base = GymConfig()
    made = {arm: arm_config(arm, base) for arm in ARMS}
    assert made["kl"] == base
    assert made["none"].ppo.kl.start == made["dapg"].ppo.kl.start == 0.0
    assert made["dapg"].ppo.demonstrations > 0
    assert [made[arm].kind for arm in ("bc", "residual", "rlpd")] == ["clone", "residual", "sac"]
    assert (made["rlpd"].off_policy.prior, made["kl_sac"].off_policy.prior) == ("buffer", "density")
    config = AdroitConfig()
    assert set(config.arms) | set(config.once) | set(config.off_policy) == set(ARMS)


def test_an_unknown_arm_is_named(tmp_path):
    with pytest.raises(UnknownName, match="unknown arm 'rlpb'; did you mean 'rlpd'"):
        study_adroit(AdroitConfig(arms=("rlpb",)), tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_the_study_runs_part_by_part(tmp_path):
    pytest.importorskip("gymnasium_robotics", reason="needs gymnasium-robotics")
    if catalog.find("adroit-door") is None or catalog.find("adroit-experts") is None:
        pytest.skip("$DEXPRIOR_DATA holds no adroit-door or adroit-experts")
    base = GymConfig()
    gym = replace(
        base, env=EnvConfig(success_steps=26, reward_scale=0.1), episodes=2, clone=CloningConfig(steps=20),
        density=replace(base.density, steps=4, width=8, context=4), judged=2, judge_every=1,
        ppo=replace(base.ppo, worlds=2, iterations=1, epochs=1, actor=ActorConfig(width=16)),
        off_policy=OffPolicyConfig(
            steps=200, every=200, learning_starts=190, batch=8, widths=(8,), judged=1
        ),
    )  # fmt: skip
    config = AdroitConfig(
        arms=("bc", "kl"), once=("none", "dapg", "residual", "kl_sac"), seeds=2, off_policy_seeds=1,
        horizons=(200, 220), episodes=2, expert=str(catalog.get("adroit-experts") / "door.npz"), defects=("noise",),
        qualities=(0.5,), gym=gym,
    )  # fmt: skip
    found = study_adroit(config, tmp_path)
    assert set(found["arms"]) == {"bc", "kl", "none", "dapg", "residual", "kl_sac", "rlpd"}
    assert found["over"]["bc"]["n"] == 2
    assert set(found["arms"]["kl"]["seeds"][0]["rates"]) == {"200", "220"}
    worse = found["degraded"]["noise-50-percent"]
    assert worse["strength"] > 0
    assert set(worse["seeds"]) == {0, 1}
    said: list[str] = []
    again = study_adroit(config, tmp_path, say=said.append)
    assert not said
    assert json.dumps(again["over"]) == json.dumps(found["over"])
