"""PPO over many worlds with an annealed KL to the behavioral prior, and an asymmetric critic.

    loss = PPO clip (Schulman et al. 2017) + value + beta(i) * KL(policy || behavioral prior) - entropy

Own code, because the prior's KL, the privileged critic and bit-exact resuming do not fit a library's train loop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from dexprior.artifacts import load_training_state, save_training_state
from dexprior.behavior import BehaviorPrior
from dexprior.config import Ge, Gt, Le, config
from dexprior.envs.line import InsertionVectorEnv, SimBackend
from dexprior.envs.line.base import HORIZON
from dexprior.envs.line.panel import Panel
from dexprior.errors import BadInput
from dexprior.policy.actor import Actor, ActorConfig, Critic, gaussian_kl, log_prob
from dexprior.progress import TrainingLog

__all__ = ["PpoConfig", "train_ppo"]


@config
class PpoConfig:
    """PPO and its regularization."""

    worlds: Annotated[int, Ge(2)] = 128
    """Simulated side by side; each iteration runs one episode in every one."""
    iterations: Annotated[int, Ge(1)] = 22
    """Rollout and update rounds."""
    warmup: Annotated[int, Ge(0)] = 5
    """First iterations that only imitate the prior (KL alone); with no prior there is none."""
    guided: Annotated[int, Ge(0)] = 3
    """Over so many of them the share of worlds that the prior itself drives falls from all to none: the actor learns
    what the prior would do in the states that the actor gets into (DAgger, Ross et al. 2011)."""
    epochs: Annotated[int, Ge(1)] = 4
    """Passes over each rollout."""
    warmup_epochs: Annotated[int, Ge(1)] = 14
    """Passes over each rollout while imitating."""
    minibatch: Annotated[int, Ge(1)] = 960
    """Steps in a gradient step."""
    learning_rate: Annotated[float, Gt(0)] = 3e-4
    """Adam's; three times as much while imitating."""
    discount: Annotated[float, Gt(0), Le(1)] = 0.98
    """Gamma."""
    trace: Annotated[float, Ge(0), Le(1)] = 0.95
    """Lambda of generalised advantage estimation."""
    clip: Annotated[float, Gt(0)] = 0.2
    """Of the probability ratio."""
    entropy: Annotated[float, Ge(0)] = 0.001
    """Weight of the entropy bonus."""
    kl_start: Annotated[float, Ge(0)] = 0.1
    """Weight of the KL to the prior after the warm-up..."""
    kl_end: Annotated[float, Ge(0)] = 0.01
    """...and at the end; geometric in between."""
    actor: ActorConfig = ActorConfig()
    """Networks."""
    plain_log_std: float = -0.7
    """Initial log standard deviation without a prior: then exploration must find the task by itself."""


@dataclass
class _Rollout:
    observation: dict[str, Tensor]
    privileged: Tensor
    action: Tensor
    log_prob: Tensor
    advantage: Tensor
    target: Tensor
    prior_mean: Tensor | None
    prior_weight: Tensor | None
    stats: dict[str, float]


def train_ppo(
    panel: Panel,
    prior: BehaviorPrior | None,
    config: PpoConfig,
    folder: Path,
    *,
    seed: int,
    init: Actor | None = None,
) -> tuple[Actor, list[dict[str, float]]]:
    """Train an actor, or go on from `folder/state.safetensors`; returns it with its learning curve.

    Every iteration is a function of the networks and (seed, iteration): episodes are complete at its end, so no
    simulator state is in play between iterations.

    Args:
        panel: training instances; with a prior, the ones that it knows.
        prior: None trains the same PPO without regularization.
        init: an actor whose weights and spread training starts from; the critic is new, and a warm-up still imitates
            the prior: `warmup=0` keeps what the actor knows.

    Raises:
        BadInput: the prior was built for another panel, or the actor has other sizes than the configuration's.
    """
    if prior is not None and prior.panel_hash != panel.hash:
        raise BadInput(f"the behavioral prior was built for panel {prior.panel_hash}, this one is {panel.hash}")
    torch.manual_seed(seed)
    networks = config.actor if prior is not None else replace(config.actor, log_std=config.plain_log_std)
    actor, critic = Actor(networks), Critic(networks)
    if init is not None:
        sizes = [(c.width, c.point_width) for c in (init.config, config.actor)]
        if sizes[0] != sizes[1]:
            raise BadInput(
                f"the actor to start from has (width, point_width) = {sizes[0]}, the configuration {sizes[1]}: set "
                "policy.actor.width and policy.actor.point_width"
            )
        actor.load_state_dict(init.state_dict())
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=config.learning_rate, eps=1e-5)
    state = folder / "state.safetensors"
    done = 0
    curve: list[dict[str, float]] = []
    modules = {"actor": actor, "critic": critic}
    if state.exists():
        progress, _ = load_training_state(state, modules=modules, optimizers={"adam": optimizer}, config=(config, seed))
        done, curve = progress["iteration"], progress["curve"]
    env = InsertionVectorEnv(SimBackend(config.worlds, family=panel.family), panel)
    name = "train policy" if prior is not None else "train policy without prior"
    per_iteration = config.worlds * HORIZON
    with TrainingLog(folder, name, config.iterations * per_iteration, curve) as log:
        while done < config.iterations:
            rng = np.random.default_rng([seed, done])
            imitate = prior is not None and done < config.warmup
            guided = max(1.0 - done / config.guided, 0.0) if imitate and config.guided else 0.0
            rollout = _collect(env, actor, critic, prior, config, rng, guided=guided)
            for group in optimizer.param_groups:
                group["lr"] = config.learning_rate * (3.0 if imitate else 1.0)
            beta = 0.0 if prior is None else _beta(config, done)
            stats = _update(rollout, actor, critic, optimizer, prior, config, rng, beta, imitate=imitate)
            done += 1
            row = {"iteration": done, "beta": beta, **rollout.stats, **stats}
            log.add(done * per_iteration, row, show=("success", "reward", "kl"))
            save_training_state(
                state, modules=modules, optimizers={"adam": optimizer}, progress={"iteration": done, "curve": curve},
                config=(config, seed),
            )  # fmt: skip
    env.close()
    return actor.eval(), curve


def _beta(config: PpoConfig, iteration: int) -> float:
    """Weight of the KL: constant in the warm-up, then geometric from `kl_start` to `kl_end`."""
    if iteration < config.warmup:
        return config.kl_start
    u = (iteration - config.warmup) / max(config.iterations - config.warmup - 1, 1)
    return float(config.kl_start * (config.kl_end / config.kl_start) ** u) if config.kl_start > 0 else 0.0


@torch.no_grad()
def _collect(
    env: InsertionVectorEnv,
    actor: Actor,
    critic: Critic,
    prior: BehaviorPrior | None,
    config: PpoConfig,
    rng: np.random.Generator,
    *,
    guided: float,
) -> _Rollout:
    """One episode in every world; in the first `guided` share of them the prior acts."""
    generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
    scene = rng.integers(len(env.panel), size=config.worlds)
    observation, info = env.reset(options={"instances": scene})
    rows: dict[str, list[Any]] = {k: [] for k in ("obs", "priv", "act", "logp", "value", "reward", "mean", "weight")}
    slips: list[np.ndarray] = []
    for _ in range(HORIZON):
        seen = {k: torch.from_numpy(v) for k, v in observation.items()}
        secret = torch.from_numpy(info["privileged"])
        mean, std = actor(seen)
        action = mean + std * torch.randn(mean.shape, generator=generator)
        reading = info["reading"]
        if prior is not None:
            prior_mean, log_weight = prior.components(reading.tcp, reading.t, scene)
            rows["mean"].append(torch.from_numpy(prior_mean.astype(np.float32)))
            rows["weight"].append(torch.from_numpy(np.exp(log_weight).astype(np.float32)))
            led = round(guided * config.worlds)
            if led:
                drawn = prior.sample(rng, reading.tcp[:led], reading.t[:led], scene[:led])
                action[:led] = torch.from_numpy(drawn.astype(np.float32))
        rows["obs"].append(seen)
        rows["priv"].append(secret)
        rows["act"].append(action)
        rows["logp"].append(log_prob(action, mean, std))
        rows["value"].append(critic(seen, secret))
        observation, reward, _, _, info = env.step(action.double().numpy())
        rows["reward"].append(torch.from_numpy(reward.astype(np.float32)))
        slips.append(info["reading"].truth.slip)
    last = critic({k: torch.from_numpy(v) for k, v in observation.items()}, torch.from_numpy(info["privileged"]))
    value, rewards = torch.stack(rows["value"]), torch.stack(rows["reward"])
    advantage = _advantages(rewards, torch.cat([value, last[None]]), config)

    def flat(values: list[Tensor]) -> Tensor:
        return torch.stack(values).flatten(0, 1)

    return _Rollout(
        observation={k: flat([o[k] for o in rows["obs"]]) for k in rows["obs"][0]},
        privileged=flat(rows["priv"]),
        action=flat(rows["act"]),
        log_prob=flat(rows["logp"]),
        advantage=advantage.flatten(),
        target=(advantage + value).flatten(),
        prior_mean=flat(rows["mean"]) if prior is not None else None,
        prior_weight=flat(rows["weight"]) if prior is not None else None,
        stats={
            "reward": float(rewards.mean()),
            "success": float(info["terms"]["sparse"].mean()),
            "grasp": float(info["terms"]["grasp"].mean()),
            "slip": float(np.mean(slips)),
        },
    )


def _advantages(reward: Tensor, value: Tensor, config: PpoConfig) -> Tensor:
    """Generalised advantage estimation (Schulman et al. 2016); episodes are cut by time, so values bootstrap."""
    advantage = torch.zeros_like(reward)
    running = torch.zeros_like(reward[0])
    for k in reversed(range(len(reward))):
        delta = reward[k] + config.discount * value[k + 1] - value[k]
        running = delta + config.discount * config.trace * running
        advantage[k] = running
    return advantage


def _update(
    rollout: _Rollout,
    actor: Actor,
    critic: Critic,
    optimizer: torch.optim.Optimizer,
    prior: BehaviorPrior | None,
    config: PpoConfig,
    rng: np.random.Generator,
    beta: float,
    *,
    imitate: bool,
) -> dict[str, float]:
    n = len(rollout.action)
    advantage = (rollout.advantage - rollout.advantage.mean()) / (rollout.advantage.std() + 1e-6)
    prior_std = None if prior is None else torch.from_numpy(prior.std.astype(np.float32))
    kls: list[float] = []
    for _ in range(config.warmup_epochs if imitate else config.epochs):
        order = torch.from_numpy(rng.permutation(n))
        for ids in order.split(config.minibatch):
            observation = {k: v[ids] for k, v in rollout.observation.items()}
            mean, std = actor(observation)
            value = critic(observation, rollout.privileged[ids])
            loss = 0.5 * (value - rollout.target[ids]).square().mean()
            if not imitate:
                ratio = (log_prob(rollout.action[ids], mean, std) - rollout.log_prob[ids]).exp()
                a = advantage[ids]
                loss = loss - torch.min(ratio * a, ratio.clamp(1 - config.clip, 1 + config.clip) * a).mean()
                loss = loss - config.entropy * std.log().sum()
            if prior_std is not None:
                assert rollout.prior_mean is not None
                assert rollout.prior_weight is not None
                kl = gaussian_kl(mean, std, rollout.prior_mean[ids], prior_std, rollout.prior_weight[ids]).mean()
                loss = loss + (1.0 if imitate else beta) * kl
                kls.append(float(kl.detach()))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_([*actor.parameters(), *critic.parameters()], 5.0 if imitate else 0.5)
            optimizer.step()
    return {"kl": float(np.mean(kls)) if kls else 0.0}
