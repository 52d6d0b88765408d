"""PPO over many worlds of a task of the suite, near the behavioral prior, with an asymmetric critic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch

from dexprior.behavior import BehaviorPrior
from dexprior.config import config
from dexprior.envs.base import EngineName
from dexprior.envs.factory import SimulationOptions, simulate
from dexprior.envs.panel import Panel
from dexprior.envs.tasks import Reward, TaskVectorEnv
from dexprior.errors import BadInput
from dexprior.policy.actor import Actor, Critic, Senses
from dexprior.policy.collecting import RewardOf, SuiteWorlds
from dexprior.policy.density import ActionDensity
from dexprior.policy.optimising import Judge, Learner, Optimisation, optimise, warm_up_of
from dexprior.policy.priors import BankPrior, DensityPrior, PolicyPrior
from dexprior.worlds.tasks import Task

__all__ = ["PpoConfig", "train_ppo", "warm_up_of"]


@config
class PpoConfig(Optimisation):
    """PPO for tasks of the suite."""

    engine: EngineName = "mujoco"
    """What simulates the worlds: mujoco, hybrid (learned collisions) or warp."""
    simulation: SimulationOptions = SimulationOptions()
    """Options of that engine."""
    reward: Reward = "dense"
    """What is maximised: the task's weighted terms, or its verdict alone (sparse)."""


def train_ppo(
    task: Task,
    panel: Panel,
    prior: BehaviorPrior | ActionDensity | None,
    config: PpoConfig,
    folder: Path,
    *,
    seed: int,
    init: Actor | None = None,
    warm: Path | None = None,
    sentence: str | None = None,
    reward: RewardOf | None = None,
    judge: Judge | None = None,
    more: Sequence[int] = (),
) -> tuple[Actor, list[dict[str, float]]]:
    """Train an actor, or go on from `folder/state.safetensors`; returns it with its learning curve.

    Args:
        task: what is learned.
        panel: training instances of it; with a bank, the ones that it knows.
        prior: a bank of trajectories for these scenes or a density for any; None trains the same PPO without
            regularization.
        config: of the training.
        folder: see `optimise`.
        seed: see `optimise`.
        init: an actor whose weights and spread training starts from; the critic is new, and a warm-up still imitates
            the prior: `warmup=0` keeps what the actor knows.
        warm: see `optimise`.
        sentence: what is asked of a prior that knows several ways; its first by default.
        reward: in place of the task's own.
        judge: see `optimise`.
        more: see `optimise`.

    Raises:
        BadInput: the prior was built for another panel, action or period, the actor has other sizes than the
            configuration's, a rollout's length does not divide an episode's, or a reward is not finite.
        UnknownName: a sentence that the prior does not know.
        Diverged: a loss is not finite; the file holds the last state that was.
    """
    length = task.steps if config.steps is None else config.steps
    if task.steps % length:
        raise BadInput(
            f"policy.steps = {length} does not divide the {task.steps} commands of an episode of {task.name!r}"
        )
    backend = simulate(config.engine, task, config.worlds, family=panel.family, options=config.simulation)
    env = TaskVectorEnv(task, config.worlds, panel=panel, reward=config.reward, autoreset=False, backend=backend)
    senses = Senses.of(env.backend)
    near = _near(prior, panel, env, task, senses, sentence)
    torch.manual_seed(seed)
    networks = config.actor if prior is not None else replace(config.actor, log_std=config.plain_log_std)
    actor = Actor(networks, senses)
    critic = Critic(networks, senses, env.reset()[1]["privileged"].shape[1])
    if init is not None:
        _start_from(init, actor, config)
    curve = optimise(
        SuiteWorlds(env, panel, reward), Learner(actor, critic), near, config, folder, seed=seed, warm=warm,
        judge=judge, more=more, name="train policy" if prior is not None else "train policy without prior",
    )  # fmt: skip
    env.close()
    return actor.eval(), curve


def _near(
    prior: BehaviorPrior | ActionDensity | None,
    panel: Panel,
    env: TaskVectorEnv,
    task: Task,
    senses: Senses,
    sentence: str | None,
) -> PolicyPrior | None:
    """The prior as training asks for it, once it is known to be of these worlds."""
    if prior is None:
        return None
    if isinstance(prior, ActionDensity):
        if prior.config.chunk != 1:
            raise BadInput(
                f"the density gives {prior.config.chunk} actions at once, worlds of {task.name!r} take one at a time: "
                "fit one with density.chunk=1"
            )
        if prior.built.senses != senses:
            raise BadInput(
                f"the density was fitted to other sensors or another task than {task.name!r} here; of what is sensed, "
                f"these differ: {_differing(prior.built.senses, senses)}"
            )
        return DensityPrior(prior, sentence)
    if prior.panel_hash != panel.hash:
        raise BadInput(f"the behavioral prior was built for panel {prior.panel_hash}, this one is {panel.hash}")
    if (prior.size, prior.dt) != (env.actions.size, task.control_dt):
        raise BadInput(
            f"the behavioral prior gives {prior.size} numbers every {prior.dt:g} s, {task.name!r} takes "
            f"{env.actions.size} every {task.control_dt:g} s"
        )
    return BankPrior(prior.asked(sentence))


def _differing(one: Any, other: Senses) -> str:
    if one is None:
        return "all, it reads flat observations"
    return ", ".join(f.name for f in fields(other) if getattr(one, f.name) != getattr(other, f.name))


def _start_from(init: Actor, actor: Actor, config: PpoConfig) -> None:
    sizes = [(c.width, c.point_width) for c in (init.config, config.actor)]
    if sizes[0] != sizes[1]:
        raise BadInput(
            f"the actor to start from has (width, point_width) = {sizes[0]}, the configuration {sizes[1]}: set "
            "policy.actor.width and policy.actor.point_width"
        )
    if init.senses != actor.senses:
        raise BadInput(
            "the actor to start from was trained for another task, robot or kind of sensors; of what it senses and "
            f"sends, these differ: {_differing(init.senses, actor.senses)}"
        )
    actor.load_state_dict(init.state_dict())
