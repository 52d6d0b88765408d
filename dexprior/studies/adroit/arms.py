"""Arms of the study: what each does with the same demonstrations, the same networks and the same steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dexprior.policy.gym import GymConfig
from dexprior.policy.kl import KlConfig
from dexprior.policy.pairs import Pairs

__all__ = ["ARMS", "OFF_POLICY", "arm_config", "door_rewards"]

ARMS = {
    "bc": "the imitation alone",
    "none": "PPO from the imitation, without any tie to the demonstrations",
    "kl": "the same near a flow that was fitted to them, with an annealed weight",
    "kl_fixed": "the same with a fixed weight",
    "dapg": "PPO from the imitation, whose loss holds up their likelihood (Rajeswaran et al. 2018)",
    "residual": "PPO of a residual beside the fixed imitation, near the flow (after DICE-RL)",
    "rlpd": "SAC with them in half of every batch (Ball et al. 2023; two critics, one update a step)",
    "kl_sac": "SAC near the flow",
}
"""Arm -> what it is."""
OFF_POLICY = ("rlpd", "kl_sac")
_DOOR, _OPEN = 28, 1.35  # column of the hinge's angle in an observation, and what counts as open [rad]


def arm_config(arm: str, base: GymConfig) -> GymConfig:
    """How an arm is trained, from settings that all share."""
    none = replace(base.ppo, kl=KlConfig(start=0.0))
    changed: dict[str, dict[str, Any]] = {
        "bc": {"kind": "clone"},
        "none": {"ppo": none},
        "kl": {},
        "kl_fixed": {"ppo": replace(base.ppo, kl=replace(base.ppo.kl, schedule="fixed"))},
        "dapg": {"ppo": replace(none, demonstrations=0.1)},
        "residual": {"kind": "residual"},
        "rlpd": {"kind": "sac", "off_policy": replace(base.off_policy, prior="buffer")},
        "kl_sac": {"kind": "sac", "off_policy": replace(base.off_policy, prior="density")},
    }
    return replace(base, **changed[arm])


def door_rewards(pairs: Pairs) -> Pairs:
    """Recorded steps with the rewards of `AdroitHandDoorSparse-v1`: by where the hinge is after each of them."""
    angle = pairs.observation["state"][:, _DOOR]
    last = np.append(pairs.episode[1:] != pairs.episode[:-1], True)
    after = np.where(last, angle, np.append(angle[1:], angle[-1]))
    return replace(pairs, reward=np.where(after >= _OPEN, 10.0, -0.1))
