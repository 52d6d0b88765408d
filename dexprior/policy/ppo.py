"""PPO over many worlds with an annealed KL to the behavioral prior, and an asymmetric critic.

    loss = PPO clip (Schulman et al. 2017) + value + beta(i) * KL(policy || behavioral prior) - entropy

Own code, because the prior's KL, the privileged critic and bit-exact resuming do not fit a library's train loop.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from dexprior.artifacts import load_training_state, save_training_state
from dexprior.behavior import BehaviorPrior
from dexprior.config import Ge, Gt, Le, config
from dexprior.envs.base import EngineName
from dexprior.envs.factory import SimulationOptions, simulate
from dexprior.envs.panel import Panel
from dexprior.envs.tasks import TaskVectorEnv
from dexprior.errors import BadInput, Diverged
from dexprior.policy.actor import Actor, ActorConfig, Critic, Senses, gaussian_kl, log_prob
from dexprior.progress import TrainingLog, place_in_parts
from dexprior.worlds.tasks import Task

__all__ = ["PpoConfig", "train_ppo", "warm_up_of"]


@config
class PpoConfig:
    """PPO and its regularization."""

    worlds: Annotated[int, Ge(2)] = 128
    """Simulated side by side."""
    engine: EngineName = "mujoco"
    """What simulates them: mujoco, hybrid (learned collisions) or warp."""
    simulation: SimulationOptions = SimulationOptions()
    """Of that engine."""
    iterations: Annotated[int, Ge(1)] = 22
    """Rollout and update rounds."""
    steps: Annotated[int, Ge(1)] | None = None
    """Commands in a rollout; None takes a whole episode, fewer must divide it. A run that is interrupted goes on from
    the last iteration at whose end an episode was over."""
    warmup: Annotated[int, Ge(0)] = 5
    """First iterations that only imitate the prior (KL alone), on all that was seen so far; with no prior there is
    none."""
    guided: Annotated[int, Ge(0)] = 3
    """Over so many of them the share of worlds that the prior itself drives falls from all to none: the actor learns
    what the prior would do in the states that the actor gets into (DAgger, Ross et al. 2011)."""
    epochs: Annotated[int, Ge(1)] = 4
    """Passes over each rollout."""
    minibatch: Annotated[int, Ge(1)] = 960
    """Steps in a gradient step."""
    learning_rate: Annotated[float, Gt(0)] = 3e-4
    """Adam's."""
    warmup_epochs: Annotated[int, Ge(1)] = 14
    """Passes over each rollout while imitating..."""
    warmup_minibatch: Annotated[int, Ge(1)] = 320
    """...with so many steps in a gradient step..."""
    warmup_rate: Annotated[float, Gt(0)] = 3e-3
    """...and Adam's rate, which falls to a twentieth of this."""
    discount: Annotated[float, Gt(0), Le(1)] = 0.98
    """Gamma."""
    trace: Annotated[float, Ge(0), Le(1)] = 0.95
    """Lambda of generalised advantage estimation."""
    clip: Annotated[float, Gt(0)] = 0.2
    """Of the probability ratio."""
    entropy: Annotated[float, Ge(0)] = 0.001
    """Weight of the entropy bonus."""
    kl_start: Annotated[float, Ge(0)] = 0.1
    """Weight of the KL to the prior after the warm-up; 0 leaves it out, whatever was imitated before..."""
    kl_end: Annotated[float, Gt(0)] = 0.01
    """...and at the end; geometric in between."""
    actor: ActorConfig = ActorConfig()
    """Networks."""
    plain_log_std: float = -0.7
    """Initial log standard deviation without a prior: then exploration must find the task by itself."""


@dataclass
class _Rollout:
    """Transitions of a rollout in one row; those after an episode was lost are left out."""

    observation: dict[str, Tensor]
    privileged: Tensor
    action: Tensor
    log_prob: Tensor
    advantage: Tensor
    target: Tensor
    prior_mean: Tensor | None
    prior_weight: Tensor | None
    stats: dict[str, float]
    bodies: dict[str, Tensor] = field(default_factory=dict)
    """Of every cloud in which an actor must find them, which body each point lies on."""


def train_ppo(
    task: Task,
    panel: Panel,
    prior: BehaviorPrior | None,
    config: PpoConfig,
    folder: Path,
    *,
    seed: int,
    init: Actor | None = None,
    warm: Path | None = None,
    more: Sequence[int] = (),
) -> tuple[Actor, list[dict[str, float]]]:
    """Train an actor, or go on from `folder/state.safetensors`; returns it with its learning curve.

    Every episode is a function of the networks and (seed, iteration), and states are written where all episodes are
    over: no simulator state is in play then.

    Args:
        task: what is learned.
        panel: training instances of it; with a prior, the ones that it knows.
        prior: None trains the same PPO without regularization.
        init: an actor whose weights and spread training starts from; the critic is new, and a warm-up still imitates
            the prior: `warmup=0` keeps what the actor knows.
        warm: state of a run of `warm_up_of(config)` with the same seed, which this one then goes on from.
        more: iterations of each continuation of the finished training, without a warm-up, over which the KL's weight
            falls anew.

    Raises:
        BadInput: the prior was built for another panel, action or period, the actor has other sizes than the
            configuration's, or a rollout's length does not divide an episode's.
        Diverged: a loss is not finite; the file holds the last state that was.
    """
    length = task.steps if config.steps is None else config.steps
    if task.steps % length:
        raise BadInput(
            f"policy.steps = {length} does not divide the {task.steps} commands of an episode of {task.name!r}"
        )
    backend = simulate(config.engine, task, config.worlds, family=panel.family, options=config.simulation)
    env = TaskVectorEnv(task, config.worlds, panel=panel, autoreset=False, backend=backend)
    _check(prior, panel, env, task)
    torch.manual_seed(seed)
    networks = config.actor if prior is not None else replace(config.actor, log_std=config.plain_log_std)
    senses = Senses.of(env.backend)
    actor = Actor(networks, senses)
    critic = Critic(networks, senses, env.reset()[1]["privileged"].shape[1])
    if init is not None:
        _start_from(init, actor, config)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=config.learning_rate, eps=1e-5)
    state = folder / "state.safetensors"
    done = 0
    curve: list[dict[str, float]] = []
    seen: dict[str, Tensor] = {}
    modules = {"actor": actor, "critic": critic}
    begun, known = (state, config) if state.exists() else (warm, warm_up_of(config))
    if begun is not None:
        progress, arrays = load_training_state(
            begun, modules=modules, optimizers={"adam": optimizer}, config=(known, seed)
        )
        done, curve = progress["iteration"], progress["curve"]
        seen = {name: torch.from_numpy(value) for name, value in arrays.items()}

    def save() -> None:
        save_training_state(
            state, modules=modules, optimizers={"adam": optimizer}, progress={"iteration": done, "curve": curve},
            config=(config, seed), arrays={name: value.numpy() for name, value in seen.items()},
        )  # fmt: skip

    untrained = {name: copy.deepcopy(module.state_dict()) for name, module in modules.items()}
    collector = _Collector(env, actor, critic, prior, config, length)
    name = "train policy" if prior is not None else "train policy without prior"
    per_iteration = config.worlds * length
    parts = (config.iterations, *more)
    last = sum(parts)
    with TrainingLog(folder, name, last * per_iteration, curve) as log:
        while done < last:
            place, iterations = place_in_parts(done, parts)
            schedule = config if done < config.iterations else replace(config, iterations=iterations, warmup=0)
            rng = np.random.default_rng([seed, done])
            imitated = prior if place < schedule.warmup else None
            guided = max(1.0 - done / config.guided, 0.0) if imitated is not None and config.guided else 0.0
            rollout = collector.collect(rng, guided=guided)
            beta = 0.0 if prior is None else _beta(schedule, place)
            if imitated is not None:
                seen = _joined(seen, rollout)
                stats = _imitate(seen, rollout, actor, critic, optimizer, imitated, config, rng, done)
            else:
                seen = {}
                stats = _update(rollout, actor, critic, optimizer, prior, config, rng, beta)
            if not _finite(modules):
                if not state.exists():
                    for module, weights in untrained.items():
                        modules[module].load_state_dict(weights)
                    optimizer.state.clear()
                    save()
                raise Diverged(
                    f"{name}: a loss of iteration {done + 1} is not finite; {state} holds the last good state. Usually "
                    "policy.learning_rate is too large"
                )
            done += 1
            row = {"iteration": done, "beta": beta, **rollout.stats, **stats}
            log.add(done * per_iteration, row, show=("success", "reward", "kl"))
            if collector.over or done in (config.iterations, last):
                save()
    env.close()
    return actor.eval(), curve


def warm_up_of(config: PpoConfig) -> PpoConfig:
    """The same training, ending where its warm-up does: what several can share that differ only afterwards."""
    plain = PpoConfig()
    return replace(config, iterations=max(config.warmup, 1), kl_start=plain.kl_start, kl_end=plain.kl_end)


def _check(prior: BehaviorPrior | None, panel: Panel, env: TaskVectorEnv, task: Task) -> None:
    if prior is None:
        return
    if prior.panel_hash != panel.hash:
        raise BadInput(f"the behavioral prior was built for panel {prior.panel_hash}, this one is {panel.hash}")
    if (prior.size, prior.dt) != (env.actions.size, task.control_dt):
        raise BadInput(
            f"the behavioral prior gives {prior.size} numbers every {prior.dt:g} s, {task.name!r} takes "
            f"{env.actions.size} every {task.control_dt:g} s"
        )


def _start_from(init: Actor, actor: Actor, config: PpoConfig) -> None:
    sizes = [(c.width, c.point_width) for c in (init.config, config.actor)]
    if sizes[0] != sizes[1]:
        raise BadInput(
            f"the actor to start from has (width, point_width) = {sizes[0]}, the configuration {sizes[1]}: set "
            "policy.actor.width and policy.actor.point_width"
        )
    if init.senses != actor.senses:
        other = [f.name for f in fields(init.senses) if getattr(init.senses, f.name) != getattr(actor.senses, f.name)]
        raise BadInput(
            "the actor to start from was trained for another task, robot or kind of sensors; of what it senses and "
            f"sends, these differ: {', '.join(other)}"
        )
    actor.load_state_dict(init.state_dict())


def _finite(modules: dict[str, nn.Module]) -> bool:
    return all(bool(torch.isfinite(p).all()) for module in modules.values() for p in module.parameters())


def _beta(config: PpoConfig, iteration: int) -> float:
    """Weight of the KL: constant in the warm-up, then geometric from `kl_start` to `kl_end`."""
    if iteration < config.warmup:
        return config.kl_start
    u = (iteration - config.warmup) / max(config.iterations - config.warmup - 1, 1)
    return float(config.kl_start * (config.kl_end / config.kl_start) ** u) if config.kl_start > 0 else 0.0


class _Collector:
    """Runs the worlds: one rollout after the other, through whole episodes."""

    def __init__(
        self,
        env: TaskVectorEnv,
        actor: Actor,
        critic: Critic,
        prior: BehaviorPrior | None,
        config: PpoConfig,
        length: int,
    ) -> None:
        self._env, self._actor, self._critic, self._prior = env, actor, critic, prior
        self._config, self._length = config, length
        self._left = 0
        self._now: tuple[dict[str, np.ndarray], dict[str, Any]] = ({}, {})
        self._scene = np.zeros(config.worlds, dtype=int)
        self._alive = torch.ones(config.worlds, dtype=torch.bool)

    @property
    def over(self) -> bool:
        """Whether all episodes are over."""
        return self._left == 0

    @torch.no_grad()
    def collect(self, rng: np.random.Generator, *, guided: float = 0.0) -> _Rollout:
        """The next rollout; in the first `guided` share of the worlds the prior acts."""
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        if self.over:
            self._scene = rng.integers(len(self._env.panel or ()), size=self._config.worlds)
            self._now = self._env.reset(options={"instances": self._scene})
            self._alive[:], self._left = True, self._env.task.steps
        led = round(guided * self._config.worlds)
        rows: dict[str, list[Any]] = {}
        for _ in range(self._length):
            for name, value in self._step(rng, generator, led).items():
                rows.setdefault(name, []).append(value)
        self._left -= self._length
        observation, info = self._now
        last = self._critic(_tensors(observation), torch.from_numpy(info["privileged"]))
        value, reward, ended = (torch.stack(rows[name]) for name in ("value", "reward", "ended"))
        advantage = _advantages(reward, torch.cat([value, last[None]]), self._config, ended)
        alive = torch.stack(rows["alive"]).flatten()

        def flat(values: list[Tensor]) -> Tensor:
            return torch.stack(values).flatten(0, 1)[alive]

        known = self._prior is not None
        return _Rollout(
            observation={name: flat([row[name] for row in rows["observation"]]) for name in observation},
            privileged=flat(rows["privileged"]),
            action=flat(rows["action"]),
            log_prob=flat(rows["log_prob"]),
            advantage=advantage.flatten()[alive],
            target=(advantage + value).flatten()[alive],
            prior_mean=flat(rows["mean"]) if known else None,
            prior_weight=flat(rows["weight"]) if known else None,
            bodies={name: flat([row[name] for row in rows["bodies"]]) for name in rows["bodies"][0]},
            stats={
                "reward": float(reward.flatten()[alive].mean()),
                "success": float((torch.from_numpy(info["success"]) & self._alive).float().mean()),
                "held": float(info["truth"]["held"].mean()),
                "lost": float((~self._alive).float().mean()),
                "slip": float(np.mean(rows["slip"])),
            },
        )

    def _step(self, rng: np.random.Generator, generator: torch.Generator, led: int) -> dict[str, Any]:
        observation, info = self._now
        seen, secret = _tensors(observation), torch.from_numpy(info["privileged"])
        mean, std = self._actor(seen)
        action = mean + std * torch.randn(mean.shape, generator=generator)
        row: dict[str, Any] = {}
        if self._prior is not None:
            tools, t, grips = (getattr(info["reading"], name) for name in ("tools", "t", "grips"))
            prior_mean, log_weight = self._prior.components(tools, t, self._scene, grips)
            row["mean"] = torch.from_numpy(prior_mean.astype(np.float32))
            row["weight"] = torch.from_numpy(np.exp(log_weight).astype(np.float32))
            if led:
                drawn = self._prior.sample(rng, tools[:led], t[:led], self._scene[:led], grips[:led])
                action[:led] = torch.from_numpy(drawn.astype(np.float32))
        bodies = {} if self._actor.features.finder is None else info["bodies"]
        row |= {
            "bodies": {name: torch.from_numpy(lies.astype(np.uint8)) for name, lies in bodies.items()},
            "observation": seen, "privileged": secret, "action": action, "log_prob": log_prob(action, mean, std),
            "value": self._critic(seen, secret), "alive": self._alive.clone(),
        }  # fmt: skip
        observation, reward, terminated, _, info = self._env.step(action.double().numpy())
        self._now = observation, info
        ended = torch.from_numpy(terminated)
        self._alive &= ~ended
        row |= {"reward": torch.from_numpy(reward.astype(np.float32)), "ended": ended, "slip": info["truth"]["slip"]}
        return row


def _tensors(observation: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(value) for name, value in observation.items()}


def _advantages(reward: Tensor, value: Tensor, config: PpoConfig, ended: Tensor) -> Tensor:
    """Generalised advantage estimation (Schulman et al. 2016).

    An episode that is cut by time goes on in the value of what follows; one that has ended does not.
    """
    advantage = torch.zeros_like(reward)
    running = torch.zeros_like(reward[0])
    for k in reversed(range(len(reward))):
        goes_on = (~ended[k]).to(reward.dtype)
        delta = reward[k] + config.discount * goes_on * value[k + 1] - value[k]
        running = delta + config.discount * config.trace * goes_on * running
        advantage[k] = running
    return advantage


def _joined(seen: dict[str, Tensor], rollout: _Rollout) -> dict[str, Tensor]:
    """What was seen before and now, and what the prior would have done there."""
    assert rollout.prior_mean is not None
    assert rollout.prior_weight is not None
    new = {f"observation/{k}": v for k, v in rollout.observation.items()}
    new |= {f"bodies/{k}": v for k, v in rollout.bodies.items()}
    new |= {"prior/mean": rollout.prior_mean, "prior/weight": rollout.prior_weight}
    return {name: torch.cat([seen[name], value]) if seen else value for name, value in new.items()}


def _imitate(
    seen: dict[str, Tensor],
    rollout: _Rollout,
    actor: Actor,
    critic: Critic,
    optimizer: torch.optim.Optimizer,
    prior: BehaviorPrior,
    config: PpoConfig,
    rng: np.random.Generator,
    iteration: int,
) -> dict[str, float]:
    """Bring the actor nearer to the prior wherever it has been, and let the critic learn from the last rollout.

    An iteration costs the same however much has been seen: as many minibatches as passes over one rollout have.
    """
    n = len(rollout.action)
    batches = config.warmup_epochs * -(-n // config.warmup_minibatch)
    std = torch.from_numpy(prior.std.astype(np.float32))
    kls: list[float] = []
    right: list[float] = []
    for k in range(batches):
        share = (iteration + k / batches) / config.warmup
        _set_rate(optimizer, config.warmup_rate * (1.0 - 0.95 * share))
        ids = torch.from_numpy(rng.integers(len(seen["prior/mean"]), size=min(config.warmup_minibatch, n)))
        observation = {name: seen[f"observation/{name}"][ids] for name in rollout.observation}
        if rollout.bodies and (iteration == 0 or k % _TELLING == 0):
            bodies = {name: seen[f"bodies/{name}"][ids] for name in rollout.bodies}
            right.append(_tell_apart(observation, bodies, actor, critic, optimizer))
        mean, spread = actor(observation)
        kl = gaussian_kl(mean, spread, seen["prior/mean"][ids], std, seen["prior/weight"][ids]).mean()
        now = torch.from_numpy(rng.integers(n, size=min(config.warmup_minibatch, n)))
        kls.append(float(kl.detach()))
        last = {name: value[now] for name, value in rollout.observation.items()}
        _descend(kl + _value_loss(rollout, last, now, critic), actor, critic, optimizer, longest=5.0)
    return {"kl": float(np.mean(kls)), **_found(right)}


def _tell_apart(
    observation: dict[str, Tensor],
    bodies: dict[str, Tensor],
    actor: Actor,
    critic: Critic,
    optimizer: torch.optim.Optimizer,
) -> float:
    """One step in which an actor learns to find bodies from some transitions; the share of points that it had right."""
    few = slice(0, _TOLD)
    apart, right = actor.features.told_apart(
        {name: observation[name][few] for name in ("proprio", *bodies)},
        {name: lies[few] for name, lies in bodies.items()},
    )
    _descend(apart, actor, critic, optimizer, longest=5.0)
    return float(right)


_TOLD = 64  # transitions in such a step
_STEPS = 16  # of them after an update of PPO: while it runs, what is found must not change
_TELLING = 4  # minibatches of the imitation for one step, after a first iteration that needs them soon


def _found(right: list[float]) -> dict[str, float]:
    """Of points without labels, the share whose body was found."""
    return {"found": float(np.mean(right))} if right else {}


def _update(
    rollout: _Rollout,
    actor: Actor,
    critic: Critic,
    optimizer: torch.optim.Optimizer,
    prior: BehaviorPrior | None,
    config: PpoConfig,
    rng: np.random.Generator,
    beta: float,
) -> dict[str, float]:
    """Passes of PPO over a rollout."""
    n = len(rollout.action)
    advantage = (rollout.advantage - rollout.advantage.mean()) / (rollout.advantage.std() + 1e-6)
    prior_std = None if prior is None else torch.from_numpy(prior.std.astype(np.float32))
    kls: list[float] = []
    right: list[float] = []
    _set_rate(optimizer, config.learning_rate)
    noted = replace(rollout, observation=actor.features.noted(rollout.observation))
    for _ in range(config.epochs):
        order = torch.from_numpy(rng.permutation(n))
        for ids in order.split(config.minibatch):
            terms = _losses(noted, ids, advantage[ids], actor, critic, prior_std, config)
            loss = terms["value"] + terms["clip"] - config.entropy * terms["entropy"]
            if "kl" in terms:
                loss = loss + beta * terms["kl"] if beta > 0 else loss
                kls.append(float(terms["kl"].detach()))
            _descend(loss, actor, critic, optimizer, longest=0.5)
    if rollout.bodies:
        for ids in torch.from_numpy(rng.permutation(n)).split(_TOLD)[:_STEPS]:
            observation = {name: rollout.observation[name][ids] for name in ("proprio", *rollout.bodies)}
            bodies = {name: lies[ids] for name, lies in rollout.bodies.items()}
            right.append(_tell_apart(observation, bodies, actor, critic, optimizer))
    return {"kl": float(np.mean(kls)) if kls else 0.0, **_found(right)}


def _set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def _descend(loss: Tensor, actor: Actor, critic: Critic, optimizer: torch.optim.Optimizer, *, longest: float) -> None:
    """One step against the gradient, which is cut to a `longest` norm."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_([*actor.parameters(), *critic.parameters()], longest)
    optimizer.step()


def _value_loss(rollout: _Rollout, observation: dict[str, Tensor], ids: Tensor, critic: Critic) -> Tensor:
    value = critic(observation, rollout.privileged[ids])
    return 0.5 * (value - rollout.target[ids]).square().mean()


def _losses(
    rollout: _Rollout, ids: Tensor, advantage: Tensor, actor: Actor, critic: Critic, prior_std: Tensor | None,
    config: PpoConfig,
) -> dict[str, Tensor]:  # fmt: skip
    """Terms of the loss over a minibatch, unweighted: `value`, `clip`, `entropy` and, with a prior, `kl`."""
    observation = {k: v[ids] for k, v in rollout.observation.items()}
    mean, std = actor(observation)
    ratio = (log_prob(rollout.action[ids], mean, std) - rollout.log_prob[ids]).exp()
    clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
    terms = {
        "value": _value_loss(rollout, observation, ids, critic),
        "clip": -torch.min(ratio * advantage, clipped * advantage).mean(),
        "entropy": std.log().sum(),
    }
    if prior_std is not None:
        assert rollout.prior_mean is not None
        assert rollout.prior_weight is not None
        terms["kl"] = gaussian_kl(mean, std, rollout.prior_mean[ids], prior_std, rollout.prior_weight[ids]).mean()
    return terms
