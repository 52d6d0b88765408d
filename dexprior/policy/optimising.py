"""PPO near a prior, whatever the worlds are: rollouts, an imitating warm-up, the clipped loss, and exact resuming.

    loss = PPO clip (Schulman et al. 2017) + value + beta * KL(policy || prior) - entropy
           [- weight * log-likelihood of demonstrations (Rajeswaran et al. 2018)]

Own code, because the prior's KL, the privileged critic and bit-exact resuming do not fit a library's train loop.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from dexprior.artifacts import load_training_state, save_training_state
from dexprior.config import Ge, Gt, Le, config
from dexprior.errors import Diverged
from dexprior.policy.actor import ActorConfig, log_prob
from dexprior.policy.collecting import Collector, Rollout, Worlds, tensors
from dexprior.policy.kl import KlConfig, KlWeight, by_phase
from dexprior.policy.pairs import Pairs
from dexprior.policy.priors import PolicyPrior
from dexprior.progress import TrainingLog, place_in_parts

__all__ = ["Judge", "Learner", "Optimisation", "losses", "optimise", "warm_up_of"]


@config
class Optimisation:
    """PPO and its regularization."""

    worlds: Annotated[int, Ge(2)] = 128
    """Simulated side by side."""
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
    resets: Annotated[float, Ge(0), Le(1)] = 0.0
    """Share of the later episodes that begin somewhere along the prior's way: it acts up to a random time, and nothing
    is learned from that part (Uchendu et al. 2022)."""
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
    """Clipping of the probability ratio."""
    entropy: Annotated[float, Ge(0)] = 0.001
    """Weight of the entropy bonus."""
    kl: KlConfig = KlConfig()
    """Weight of the KL to the prior, and when the prior is let go."""
    demonstrations: Annotated[float, Ge(0)] = 0.0
    """Weight of the likelihood of demonstrated actions beside an advantage of one standard deviation, where
    demonstrations are given..."""
    demonstrations_decay: Annotated[float, Gt(0), Le(1)] = 0.95
    """...multiplied by this each iteration."""
    actor: ActorConfig = ActorConfig()
    """Networks."""
    plain_log_std: float = -0.7
    """Initial log standard deviation without a prior: then exploration must find the task by itself."""


@dataclass(frozen=True)
class Learner:
    """Networks that learn together.

    The actor takes observations and gives mean and standard deviation of the action; the critic takes observations and
    privileged states and gives values. An actor whose `features` find bodies in clouds learns that beside the rest.
    """

    actor: nn.Module
    critic: nn.Module

    @property
    def parameters(self) -> list[nn.Parameter]:
        """Parameters of both, those that learn."""
        return [p for p in (*self.actor.parameters(), *self.critic.parameters()) if p.requires_grad]

    @property
    def modules(self) -> dict[str, nn.Module]:
        """Both by name."""
        return {"actor": self.actor, "critic": self.critic}


@dataclass(frozen=True)
class Judge:
    """What looks at an actor while it learns, and what the curve says of it."""

    every: int
    """Iterations between two looks; the last one is always looked at."""
    look: Callable[[Any], dict[str, float]]
    """Function that gives numbers of an actor; it draws nothing, and changes nothing."""


def warm_up_of(config: Optimisation) -> Any:
    """The same training, ending where its warm-up does: what several can share that differ only afterwards."""
    plain = Optimisation()
    return replace(
        config, iterations=max(config.warmup, 1), kl=KlConfig(), resets=plain.resets,
        demonstrations=plain.demonstrations, demonstrations_decay=plain.demonstrations_decay,
    )  # fmt: skip


def optimise(
    worlds: Worlds,
    learner: Learner,
    prior: PolicyPrior | None,
    config: Optimisation,
    folder: Path,
    *,
    seed: int,
    name: str,
    warm: Path | None = None,
    demonstrations: Pairs | None = None,
    judge: Judge | None = None,
    more: Sequence[int] = (),
) -> list[dict[str, float]]:
    """Train a learner in place, or go on from `folder/state.safetensors`; returns the learning curve.

    Every episode is a function of the networks and (seed, iteration), and states are written where all episodes are
    over: no simulator state is in play then.

    Args:
        worlds: where; the caller closes them.
        learner: as it starts.
        prior: None trains the same PPO without regularization and warm-up.
        config: of the training.
        folder: gets the state, and what TensorBoard shows.
        seed: of everything that is drawn.
        name: what the progress bar says.
        warm: state of a run of `warm_up_of(config)` with the same seed, which this one then goes on from.
        demonstrations: whose likelihood the loss holds up, with the weight of the configuration.
        judge: whose numbers the curve has beside those of the training.
        more: iterations of each continuation of the finished training, without a warm-up, over which the KL's weight
            falls anew.

    Raises:
        Diverged: a loss is not finite; the file holds the last state that was.
        ArtifactError: the folder holds the state of another configuration.
    """
    length = config.steps or worlds.steps
    optimizer = torch.optim.Adam(learner.parameters, lr=config.learning_rate, eps=1e-5)
    state, modules = folder / "state.safetensors", learner.modules
    progress: dict[str, Any] = {"iteration": 0, "curve": [], "kl": None}
    seen: dict[str, Tensor] = {}
    begun, known = (state, config) if state.exists() else (warm, warm_up_of(config))
    if begun is not None:
        progress, arrays = load_training_state(
            begun, modules=modules, optimizers={"adam": optimizer}, config=(known, seed)
        )
        seen = {name: torch.from_numpy(value) for name, value in arrays.items()}
    done, curve = int(progress["iteration"]), progress["curve"]
    parts = (config.iterations, *more)
    last = sum(parts)
    kept: dict[str, Any] | None = progress["kl"] if begun == state else None

    def save() -> None:
        save_training_state(
            state, modules=modules, optimizers={"adam": optimizer},
            progress={"iteration": done, "curve": curve, "kl": kept}, config=(config, seed),
            arrays={name: value.numpy() for name, value in seen.items()},
        )  # fmt: skip

    untrained = {name: copy.deepcopy(module.state_dict()) for name, module in modules.items()}
    collector = Collector(
        worlds, learner.actor, learner.critic, prior, length=length, discount=config.discount, trace=config.trace
    )
    shown = None if demonstrations is None or not config.demonstrations else _Shown.of(demonstrations)
    with TrainingLog(folder, name, last * worlds.n * length, curve) as log:
        while done < last:
            place, iterations = place_in_parts(done, parts)
            warmup = config.warmup if done < config.iterations else 0
            kept = None if place == 0 else kept  # a continuation begins with the weight as at the start
            weight = KlWeight(config.kl, warmup=warmup, iterations=iterations, state=kept)
            rng = np.random.default_rng([seed, done])
            imitates = prior is not None and place < warmup
            guided = max(1.0 - done / config.guided, 0.0) if imitates and config.guided else 0.0
            resets = 0.0 if imitates or prior is None else config.resets
            rollout = collector.collect(rng, guided=guided, resets=resets)
            beta = 0.0 if prior is None else weight.at(place)
            update = _Update(rollout, learner, optimizer, prior, config, rng)
            if imitates:
                seen = _joined(seen, rollout)
                stats = update.imitate(seen, done)
            else:
                seen = {}
                pull = config.demonstrations * config.demonstrations_decay ** max(done - config.warmup, 0)
                stats = update.improve(beta, weight, None if shown is None else (shown, pull))
                if prior is not None:
                    weight.learn(kl=stats["kl"], reward=rollout.stats["reward"], success=rollout.stats["success"])
                    stats["let_go"] = float(weight.let_go)
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
            done, kept = done + 1, weight.state
            row = {"iteration": done, "beta": beta, **rollout.stats, **stats}
            if judge is not None and (done % judge.every == 0 or done == last):
                row |= judge.look(learner.actor)
            log.add(done * worlds.n * length, row, show=("success", "reward", "kl"))
            if collector.over or done in (config.iterations, last):
                save()
    return curve


def _finite(modules: dict[str, nn.Module]) -> bool:
    return all(bool(torch.isfinite(p).all()) for module in modules.values() for p in module.parameters())


def _joined(seen: dict[str, Tensor], rollout: Rollout) -> dict[str, Tensor]:
    """What was seen before and now, and what the prior noted there."""
    new = {f"observation/{k}": v for k, v in rollout.observation.items()}
    new |= {f"bodies/{k}": v for k, v in rollout.bodies.items()}
    new |= {f"noted/{k}": v for k, v in rollout.noted.items()}
    return {name: torch.cat([seen[name], value]) if seen else value for name, value in new.items()}


@dataclass(frozen=True)
class _Shown:
    """Demonstrated steps."""

    observation: dict[str, Tensor]
    action: Tensor

    @classmethod
    def of(cls, pairs: Pairs) -> _Shown:
        observation = {name: value.astype(np.float32) for name, value in pairs.observation.items()}
        return cls(tensors(observation), torch.from_numpy(pairs.action.astype(np.float32)))

    def loss(self, actor: nn.Module, n: int, generator: torch.Generator) -> Tensor:
        """Mean negative log-likelihood of n of them."""
        ids = torch.randint(len(self.action), (n,), generator=generator)
        mean, std = actor({name: value[ids] for name, value in self.observation.items()})
        return -log_prob(self.action[ids], mean, std).mean()


class _Update:
    """What one rollout teaches."""

    def __init__(
        self,
        rollout: Rollout,
        learner: Learner,
        optimizer: torch.optim.Optimizer,
        prior: PolicyPrior | None,
        config: Optimisation,
        rng: np.random.Generator,
    ) -> None:
        self._rollout, self._learner, self._optimizer = rollout, learner, optimizer
        self._prior, self._config, self._rng = prior, config, rng
        self._generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        self._right: list[float] = []

    def imitate(self, seen: dict[str, Tensor], iteration: int) -> dict[str, float]:
        """Bring the actor nearer to the prior wherever it has been, and let the critic learn from the last rollout.

        An iteration costs the same however much has been seen: as many minibatches as passes over one rollout have.
        """
        c, rollout, prior = self._config, self._rollout, self._prior
        assert prior is not None
        n = len(rollout.action)
        batches = c.warmup_epochs * -(-n // c.warmup_minibatch)
        total = len(next(iter(seen.values())))
        kls: list[float] = []
        for k in range(batches):
            self._set_rate(c.warmup_rate * (1.0 - 0.95 * (iteration + k / batches) / c.warmup))
            ids = torch.from_numpy(self._rng.integers(total, size=min(c.warmup_minibatch, n)))
            observation = {name: seen[f"observation/{name}"][ids] for name in rollout.observation}
            if rollout.bodies and (iteration == 0 or k % _TELLING == 0):
                self._tell_apart(observation, {name: seen[f"bodies/{name}"][ids] for name in rollout.bodies})
            mean, std = self._learner.actor(observation)
            noted = {name: seen[f"noted/{name}"][ids] for name in rollout.noted}
            kl = prior.kl(noted, mean, std, self._generator).mean()
            now = torch.from_numpy(self._rng.integers(n, size=min(c.warmup_minibatch, n)))
            kls.append(float(kl.detach()))
            last = {name: value[now] for name, value in rollout.observation.items()}
            self._descend(kl + _value_loss(rollout, last, now, self._learner.critic), longest=5.0)
        return {"kl": float(np.mean(kls)), **self._found()}

    def improve(self, beta: float, weight: KlWeight, shown: tuple[_Shown, float] | None = None) -> dict[str, float]:
        """Passes of PPO over the rollout.

        Args:
            beta: weight of the KL.
            weight: by what it is multiplied from state to state.
            shown: demonstrations, and the weight of their likelihood.
        """
        c, rollout, actor = self._config, self._rollout, self._learner.actor
        n = len(rollout.action)
        if not n:
            return {"kl": 0.0}
        advantage = (rollout.advantage - rollout.advantage.mean()) / (rollout.advantage.std(correction=0) + 1e-6)
        self._set_rate(c.learning_rate)
        noted = replace(rollout, observation=_noted(actor, rollout.observation))
        factor = None
        if self._prior is not None:
            factor = weight.factor(rollout.phase, self._prior.strangeness(rollout.noted))
        kls, where = [], []
        for _ in range(c.epochs):
            for ids in torch.from_numpy(self._rng.permutation(n)).split(c.minibatch):
                terms = losses(noted, ids, advantage[ids], self._learner, c, self._prior, self._generator)
                loss = terms["value"] + terms["clip"] - c.entropy * terms["entropy"]
                if "kl" in terms:
                    assert factor is not None
                    loss = loss + beta * (factor[ids] * terms["kl"]).mean() if beta > 0 else loss
                    kls.append(terms["kl"].detach())
                    where.append(rollout.phase[ids])
                if shown is not None:
                    loss = loss + shown[1] * shown[0].loss(actor, len(ids), self._generator)
                self._descend(loss, longest=0.5)
        if rollout.bodies:
            for ids in torch.from_numpy(self._rng.permutation(n)).split(_TOLD)[:_STEPS]:
                observation = {name: rollout.observation[name][ids] for name in ("proprio", *rollout.bodies)}
                self._tell_apart(observation, {name: lies[ids] for name, lies in rollout.bodies.items()})
        if not kls:
            return {"kl": 0.0, **self._found()}
        kl = torch.cat(kls)
        return {"kl": float(kl.mean()), **by_phase(kl, torch.cat(where)), **self._found()}

    def _tell_apart(self, observation: dict[str, Tensor], bodies: dict[str, Tensor]) -> None:
        """One step in which an actor learns to find bodies from some transitions."""
        few = slice(0, _TOLD)
        features: Any = self._learner.actor.features
        apart, right = features.told_apart(
            {name: observation[name][few] for name in ("proprio", *bodies)},
            {name: lies[few] for name, lies in bodies.items()},
        )
        self._descend(apart, longest=5.0)
        self._right.append(float(right))

    def _found(self) -> dict[str, float]:
        """Share of points without labels whose body was found."""
        return {"found": float(np.mean(self._right))} if self._right else {}

    def _set_rate(self, rate: float) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = rate

    def _descend(self, loss: Tensor, *, longest: float) -> None:
        """One step against the gradient, which is cut to a `longest` norm."""
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self._learner.parameters, longest)
        self._optimizer.step()


_TOLD = 64  # transitions in a step that finds bodies
_STEPS = 16  # of them after an update of PPO: while it runs, what is found must not change
_TELLING = 4  # minibatches of the imitation for one step, after a first iteration that needs them soon


def _noted(actor: nn.Module, observation: dict[str, Tensor]) -> dict[str, Tensor]:
    """Observations with what an actor finds in them once for many readings."""
    features: Any = getattr(actor, "features", None)
    return observation if features is None else features.noted(observation)


def _value_loss(rollout: Rollout, observation: dict[str, Tensor], ids: Tensor, critic: nn.Module) -> Tensor:
    value = critic(observation, rollout.privileged[ids])
    return 0.5 * (value - rollout.target[ids]).square().mean()


def losses(
    rollout: Rollout,
    ids: Tensor,
    advantage: Tensor,
    learner: Learner,
    config: Optimisation,
    prior: PolicyPrior | None,
    generator: torch.Generator,
) -> dict[str, Tensor]:
    """Terms of the loss over a minibatch, unweighted: `value`, `clip`, `entropy` and, with a prior, `kl` of each
    transition."""
    observation = {k: v[ids] for k, v in rollout.observation.items()}
    mean, std = learner.actor(observation)
    ratio = (log_prob(rollout.action[ids], mean, std) - rollout.log_prob[ids]).exp()
    clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
    terms = {
        "value": _value_loss(rollout, observation, ids, learner.critic),
        "clip": -torch.min(ratio * advantage, clipped * advantage).mean(),
        "entropy": std.log().sum(),
    }
    if prior is not None:
        terms["kl"] = prior.kl({name: value[ids] for name, value in rollout.noted.items()}, mean, std, generator)
    return terms
