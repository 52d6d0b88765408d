"""Soft actor-critic in one environment: demonstrations in half of every batch, near a density, or both.

The first is RLPD's recipe (Ball et al. 2023) with two critics and as many updates as steps: layer norms in the critics,
every batch half of demonstrations. The second replaces SAC's entropy by the KL; see `dexprior.policy.sac`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import gymnasium
import numpy as np
import torch
from stable_baselines3 import SAC
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.sac.policies import SACPolicy
from torch import nn

from dexprior.artifacts import load_module, save_module
from dexprior.config import Ge, Gt, Le, config, to_plain, validate
from dexprior.errors import ArtifactError, BadInput
from dexprior.policy.chunked_sac import learn_in_chunks
from dexprior.policy.density import ActionDensity
from dexprior.policy.gym.worlds import EnvConfig, GymWorlds, make
from dexprior.policy.pairs import Pairs
from dexprior.policy.priors import DensityPrior
from dexprior.policy.sac import AnnealKl, PriorPolicy

__all__ = ["OffPolicyConfig", "load_off_policy", "train_off_policy", "transitions"]

SCHEMA = "dexprior.gym_sac/1"


@config
class OffPolicyConfig:
    """Soft actor-critic."""

    prior: Literal["buffer", "density", "both"] = "buffer"
    """How the prior is used: its episodes in half of every batch, the KL to its density in place of the entropy, or
    both."""
    steps: Annotated[int, Ge(1)] = 150_000
    """Environment steps, and as many updates."""
    learning_starts: Annotated[int, Ge(0)] = 1000
    """Steps before the first update."""
    batch: Annotated[int, Ge(2)] = 256
    """Transitions in an update."""
    rate: Annotated[float, Gt(0)] = 3e-4
    """Adam's, of actor, critics and temperature."""
    discount: Annotated[float, Gt(0), Le(1)] = 0.99
    """Gamma."""
    widths: tuple[int, ...] = (256, 256)
    """Hidden layers of actor and critics."""
    layer_norm: bool = True
    """Whether the critics' layers are normalised, which keeps them from promising much where nobody has been."""
    delta: Annotated[float, Gt(0)] = 2.0
    """For a density: allowed mean KL at the start [nats]..."""
    delta_final: Annotated[float, Gt(0)] = 20.0
    """...and at the end; geometric in between."""
    every: Annotated[int, Ge(1)] = 10_000
    """Steps between checkpoints and rows of the curve; a multiple of the episode's."""
    judged: Annotated[int, Ge(1)] = 20
    """Episodes that a row of the curve is judged on."""


class _NormedPolicy(PriorPolicy):
    """SB3's policy, near a prior where there is one, with layer norms in its critics where that is asked for."""

    def __init__(self, *args: Any, layer_norm: bool = False, **kwargs: Any) -> None:
        self._layer_norm = layer_norm
        super().__init__(*args, **kwargs)

    def make_actor(self, features_extractor: Any = None) -> Any:
        """The actor of this policy."""
        if self._prior[0] is None:
            return SACPolicy.make_actor(self, features_extractor)
        return super().make_actor(features_extractor)

    def make_critic(self, features_extractor: Any = None) -> Any:
        """The critics of this policy."""
        critic: Any = super().make_critic(features_extractor)
        if self._layer_norm:
            for k, network in enumerate(critic.q_networks):
                parts: list[nn.Module] = []
                for layer in network:
                    parts.append(layer)
                    if isinstance(layer, nn.Linear) and layer.out_features > 1:
                        parts.append(nn.LayerNorm(layer.out_features))
                critic.q_networks[k] = nn.Sequential(*parts)
                setattr(critic, f"qf{k}", critic.q_networks[k])
        return critic


class _HalfShown(ReplayBuffer):
    """A buffer of which half of every batch are demonstrated transitions.

    Args:
        shown: transitions as a buffer returns them; None for none.
    """

    def __init__(self, *args: Any, shown: ReplayBufferSamples | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._shown = shown

    def sample(self, batch_size: int, env: Any = None) -> ReplayBufferSamples:
        """A batch."""
        if self._shown is None:
            return super().sample(batch_size, env)
        own = super().sample(batch_size - batch_size // 2, env)
        ids = torch.from_numpy(np.random.randint(len(self._shown.actions), size=batch_size // 2))  # noqa: NPY002  # SB3's
        both: Any = zip(own, self._shown)
        merged: Any = [None if one is None or two is None else torch.cat([one, two[ids]]) for one, two in both]
        return ReplayBufferSamples(*merged)


def transitions(pairs: Pairs, scale: float = 1.0) -> ReplayBufferSamples:
    """Steps of episodes with what followed; the last step of an episode that time has cut is left out.

    Args:
        pairs: what was seen and done, with rewards.
        scale: factor on the rewards.

    Raises:
        BadInput: nobody says what the steps brought.
    """
    if pairs.reward is None:
        raise BadInput(
            "the prior's episodes come without rewards, which half of every batch needs: give a file with 'rewards', "
            "or gym.off_policy.prior=density"
        )
    state = torch.from_numpy(pairs.observation["state"].astype(np.float32))
    ended = np.zeros(len(pairs), dtype=bool) if pairs.ended is None else pairs.ended
    same = np.append(pairs.episode[1:] == pairs.episode[:-1], False)
    rows = torch.from_numpy(np.flatnonzero(same | ended))
    after = (rows + 1).clamp(max=len(state) - 1)
    done = torch.from_numpy(ended.astype(np.float32))[rows, None]
    action = torch.from_numpy(pairs.action.astype(np.float32))[rows]
    reward = torch.from_numpy((scale * pairs.reward).astype(np.float32))[rows, None]
    return ReplayBufferSamples(state[rows], action, state[after], done, reward)


def train_off_policy(
    name: str,
    settings: EnvConfig,
    config: OffPolicyConfig,
    folder: Path,
    *,
    seed: int,
    pairs: Pairs | None,
    density: ActionDensity | None,
) -> list[dict[str, float]]:
    """Train, or go on where an interrupted run stopped; writes `policy.safetensors`, and returns the curve.

    Args:
        name: of the environment.
        settings: how it is used.
        config: of the training.
        folder: exists.
        seed: of everything that is drawn.
        pairs: demonstrations, of single actions; None for SAC without any.
        density: of a single action, where the configuration keeps near it.

    Raises:
        BadInput: chunks, which SAC does not take, or checkpoints that cut episodes.
    """
    if settings.chunk != 1:
        raise BadInput(f"env.chunk = {settings.chunk}: off-policy training decides one action at a time")
    env, judge = _Scaled(make(name, settings.horizon), settings.reward_scale), GymWorlds(name, config.judged, settings)
    if config.every % judge.steps:
        raise BadInput(
            f"off_policy.every = {config.every} is no multiple of the {judge.steps} steps of an episode of {name}"
        )
    near = None if density is None or config.prior == "buffer" else DensityPrior(density)
    shown = None if pairs is None or config.prior == "density" else transitions(pairs, settings.reward_scale)
    model = SAC(
        _NormedPolicy, env, learning_rate=config.rate, buffer_size=config.steps + 1, batch_size=config.batch,
        learning_starts=config.learning_starts, gamma=config.discount, seed=seed, device="cpu",
        ent_coef="auto_0.1", target_entropy="auto" if near is None else -config.delta,
        replay_buffer_class=_HalfShown,
        replay_buffer_kwargs={"shown": shown},
        policy_kwargs={"net_arch": list(config.widths), "prior": near, "layer_norm": config.layer_norm},
    )  # fmt: skip
    seeds = np.random.default_rng([seed, 5]).integers(2**31, size=config.judged)

    def row() -> dict[str, float]:
        return _judged(model.policy, judge, seeds)

    def seed_worlds(words: int) -> None:
        model.get_env().seed(words)  # type: ignore[union-attr]

    curve = learn_in_chunks(
        model, folder, steps=config.steps, every=config.every, identity={"gym": (name, settings, config), "seed": seed},
        seed=seed, seed_worlds=seed_worlds, row=row, name=f"SAC on {name}", show=("success", "return"),
        callback=None if near is None else AnnealKl(config.delta, config.delta_final, config.steps),
    )  # fmt: skip
    judge.close()
    save_module(
        model.policy, folder / "policy.safetensors", schema=SCHEMA, producer="sac", config=config, seed=seed,
        extra={"env": name, "settings": to_plain(settings)},
    )  # fmt: skip
    return curve


def load_off_policy(path: Path, name: str) -> SACPolicy:
    """The policy that `train_off_policy` wrote, to act with.

    Raises:
        ArtifactError: missing, damaged or foreign file, or one for other spaces.
    """
    state, plain, _ = load_module(path, schema=SCHEMA, command="dexprior train-policy env=ID gym.kind=sac")
    trained, env = validate(OffPolicyConfig, plain, where=str(path)), make(name)
    policy = _NormedPolicy(
        env.observation_space, env.action_space, lambda _: trained.rate, net_arch=list(trained.widths), prior=None,
        layer_norm=trained.layer_norm,
    )  # fmt: skip
    env.close()
    try:
        policy.load_state_dict(state)
    except RuntimeError as error:
        raise ArtifactError(f"{path}: its weights do not fit the spaces of {name}: {error}") from None
    policy.set_training_mode(False)
    return policy


class _Scaled(gymnasium.RewardWrapper):
    """Rewards times a factor."""

    def __init__(self, env: gymnasium.Env, factor: float) -> None:
        super().__init__(env)
        self._factor = factor

    def reward(self, reward: Any) -> float:
        """The scaled reward."""
        return self._factor * float(reward)


def _judged(policy: Any, worlds: GymWorlds, seeds: np.ndarray) -> dict[str, float]:
    """Success and return of the mean actions on fixed episodes."""
    policy.set_training_mode(False)
    seen = worlds.begin_at(seeds)
    alive = np.ones(worlds.n, dtype=bool)
    for _ in range(worlds.steps):
        seen, _, ended = worlds.step(policy.predict(seen.observation["state"], deterministic=True)[0])
        alive &= ~ended
    return worlds.told(alive)
