"""Soft actor-critic near a behavior prior: SB3's SAC with the KL to the prior in place of the entropy.

    maximise   E[ sum_t gamma^t r_t ]   subject to   E[ KL(pi(.|s) || prior(.|s)) ] <= delta

SAC's actor reports log pi(a|s), and its temperature alpha keeps E[-log pi] above a target entropy H. If the
actor reports log pi(a|s) - log prior(a|s) instead, whose mean is the KL, and H = -delta, then the same
algorithm keeps the KL below delta, and alpha becomes the price of leaving the prior. Haarnoja et al. 2018,
"Soft Actor-Critic Algorithms and Applications", section 5; for the prior, Pertsch et al. 2020, "Accelerating
Reinforcement Learning with Learned Skill Priors", section 3.3.

The prior here is the distribution over robot actions (`behavior`), not the video prior.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Protocol, runtime_checkable

import gymnasium
import torch
from jaxtyping import Float
from stable_baselines3 import SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.sac.policies import Actor, SACPolicy
from torch import Tensor

from dexprior.artifacts import load_module, save_module
from dexprior.config import Ge, Gt, Le, config, validate
from dexprior.errors import ArtifactError, BadInput, ConfigError

__all__ = [
    "SCHEMA",
    "ActionPrior",
    "AnnealKl",
    "PriorActor",
    "PriorPolicy",
    "SacConfig",
    "Observation",
    "load_policy",
    "mean_kl",
    "save_policy",
    "train_sac",
]

SCHEMA = "dexprior.sac_policy/1"

Observation = Tensor | dict[str, Tensor]


@runtime_checkable
class ActionPrior(Protocol):
    """A distribution over actions, given what a policy sees."""

    def log_prob(self, observation: Observation, action: Float[Tensor, "batch action"]) -> Float[Tensor, " batch"]:
        """Log density at actions in [-1, 1]; finite there, and differentiable with respect to the action."""
        ...


@config
class SacConfig:
    """Training of the policy."""

    steps: Annotated[int, Ge(1)] = 100_000
    """Environment steps, over all environments."""
    delta: Annotated[float, Gt(0)] = 2.0
    """Allowed mean KL to the prior at the start [nats]: small, so that the first motions make sense."""
    delta_final: Annotated[float, Gt(0)] = 20.0
    """Allowed at the end; geometric in between. Equal to `delta`: no annealing."""
    initial_temperature: Annotated[float, Gt(0)] = 0.1
    """Price of the KL before it is adapted, in units of reward a nat."""
    learning_rate: Annotated[float, Gt(0)] = 3e-4
    """Learning rate of actor, critics and temperature."""
    gamma: Annotated[float, Gt(0), Le(1)] = 0.98
    """Discount a step."""
    batch_size: Annotated[int, Ge(1)] = 256
    """Transitions a gradient step."""
    buffer_size: Annotated[int, Ge(1)] = 200_000
    """Transitions kept."""
    learning_starts: Annotated[int, Ge(0)] = 1000
    """Steps with random actions before the first gradient step."""
    gradient_steps: Annotated[int, Ge(1)] = 1
    """Gradient steps a call of the vector environment."""
    widths: tuple[int, ...] = (256, 256)
    """Hidden layers of actor and critics."""


class PriorActor(Actor):
    """SAC's actor, which reports log pi - log prior where SAC expects log pi.

    The prior is no part of the actor: its weights are neither trained nor saved here.
    """

    def __init__(self, *args: Any, prior: ActionPrior, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._prior = (prior,)  # in a tuple, so that torch does not adopt a prior that is a module

    def action_log_prob(self, obs: Any) -> tuple[Float[Tensor, "batch action"], Float[Tensor, " batch"]]:
        """Sampled actions in [-1, 1], and log pi - log prior at them: its mean is the KL to the prior.

        Raises:
            BadInput: the prior answers with another shape than (batch,).
        """
        action, log_pi = super().action_log_prob(obs)
        log_prior = self._prior[0].log_prob(obs, action)
        if log_prior.shape != log_pi.shape:
            raise BadInput(f"prior: log_prob of shape {tuple(log_prior.shape)}, expected {tuple(log_pi.shape)}")
        return action, log_pi - log_prior


class PriorPolicy(SACPolicy):
    """SAC's policy with a `PriorActor`, for flat observations and for named ones."""

    def __init__(self, *args: Any, prior: ActionPrior, **kwargs: Any) -> None:
        self._prior = (prior,)  # the actor is made during the base class's construction
        super().__init__(*args, **kwargs)

    def make_actor(self, features_extractor: Any = None) -> PriorActor:
        """The actor of this policy."""
        kwargs = self._update_features_extractor(self.actor_kwargs, features_extractor)
        return PriorActor(**kwargs, prior=self._prior[0]).to(self.device)


class AnnealKl(BaseCallback):
    """Moves the allowed KL of a SAC near a prior from one value to another, geometrically over its steps.

    Args:
        delta: at the start [nats].
        final: at the end [nats].
        steps: of the training.
    """

    def __init__(self, delta: float, final: float, steps: int) -> None:
        super().__init__()
        self._delta, self._final, self._steps = delta, final, steps

    def _on_step(self) -> bool:
        done = min(self.num_timesteps / self._steps, 1.0)
        self.model.target_entropy = -(self._delta * (self._final / self._delta) ** done)  # type: ignore[attr-defined]
        self.logger.record("train/delta", -self.model.target_entropy)  # type: ignore[attr-defined]
        return True


def train_sac(
    env: gymnasium.Env | VecEnv,
    prior: ActionPrior,
    config: SacConfig,
    seed: int,
    *,
    tensorboard: Path | None = None,
    progress: bool = False,
) -> SAC:
    """Train a policy that maximises reward while its mean KL to the prior stays below the allowed one.

    Args:
        env: with a bounded continuous action space; observations flat or in a `Dict` of flat ones.
        prior: over SB3's normalised actions, in [-1, 1].
        config: of the training.
        seed: of networks, exploration and environment. SB3 seeds torch, NumPy and `random` globally.
        tensorboard: folder for curves.
        progress: show a progress bar.

    Returns:
        The model. `save_policy` writes it; never `model.save`, which pickles.

    Raises:
        BadInput: the prior's answer has the wrong shape.
    """
    named = isinstance(env.observation_space, gymnasium.spaces.Dict)
    model = SAC(
        PriorPolicy,
        env,
        learning_rate=config.learning_rate,
        buffer_size=config.buffer_size,
        learning_starts=config.learning_starts,
        batch_size=config.batch_size,
        gamma=config.gamma,
        gradient_steps=config.gradient_steps,
        ent_coef=f"auto_{config.initial_temperature}",
        target_entropy=-config.delta,
        policy_kwargs=_policy_kwargs(config, named=named) | {"prior": prior},
        tensorboard_log=None if tensorboard is None else str(tensorboard),
        seed=seed,
        device="cpu",
    )
    model.learn(config.steps, callback=AnnealKl(config.delta, config.delta_final, config.steps), progress_bar=progress)
    return model


def save_policy(model: SAC, path: str | Path, config: SacConfig, *, seed: int | None = None) -> Path:
    """Write the weights of actor and critics, with the configuration; the prior is not in it."""
    return save_module(model.policy, path, schema=SCHEMA, producer="sac", config=config, seed=seed)


def load_policy(path: str | Path, observation_space: gymnasium.Space, action_space: gymnasium.spaces.Box) -> SACPolicy:
    """The policy that `save_policy` wrote, to act with; `policy.predict(observation)` gives actions.

    Args:
        path: the file.
        observation_space, action_space: of the environment that it was trained in.

    Raises:
        ArtifactError: missing, damaged or foreign file, or one for other spaces.
    """
    state, plain, _ = load_module(path, schema=SCHEMA)
    try:
        trained = validate(SacConfig, plain, where=str(path))
        named = isinstance(observation_space, gymnasium.spaces.Dict)
        policy = SACPolicy(
            observation_space,
            action_space,
            lambda _: trained.learning_rate,
            **_policy_kwargs(trained, named=named),
        )
        policy.load_state_dict(state)
    except (ConfigError, RuntimeError) as error:
        raise ArtifactError(f"{path}: its weights do not fit these spaces: {error}") from None
    policy.set_training_mode(False)
    return policy


def mean_kl(model: SAC, observation: Observation, *, samples: int = 64) -> float:
    """Monte-Carlo estimate of the mean KL to the prior over a batch of observations [nats]."""
    with torch.no_grad():
        draws = [model.actor.action_log_prob(observation)[1].mean() for _ in range(samples)]
    return float(torch.stack(draws).mean())


def _policy_kwargs(config: SacConfig, *, named: bool) -> dict[str, Any]:
    extractor = CombinedExtractor if named else FlattenExtractor
    return {"net_arch": list(config.widths), "features_extractor_class": extractor}
