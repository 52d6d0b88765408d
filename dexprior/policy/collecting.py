"""Worlds that are stepped side by side through whole episodes, and the transitions that a policy learns from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dexprior.envs.base import Reading, tracked
from dexprior.envs.panel import Panel
from dexprior.envs.tasks import TaskVectorEnv
from dexprior.errors import BadInput
from dexprior.policy.actor import log_prob
from dexprior.policy.priors import PolicyPrior

__all__ = ["Collector", "RewardOf", "Rollout", "Seen", "SuiteWorlds", "Worlds", "tensors"]

RewardOf = Callable[[Reading, Int[np.ndarray, " n"]], Float[np.ndarray, " n"]]
"""Reward of a reading in known scenes, in place of the task's own."""


@dataclass(frozen=True)
class Seen:
    """What worlds show after a command."""

    observation: dict[str, Float[np.ndarray, "n ..."]]
    """What a policy may see."""
    privileged: Float[np.ndarray, "n size"]
    """What only a critic may see."""
    phase: Int[np.ndarray, " n"]
    """Phase of contact, an index into `dexprior.policy.kl.PHASES`."""
    info: dict[str, Any] = field(default_factory=dict)
    """What else there is: `reading` and `truth` of the suite's tasks, `bodies` beside clouds without labels."""


class Worlds(Protocol):
    """n worlds whose episodes begin and end together; one that has ended early waits for the others."""

    n: int
    steps: int
    """Decisions in an episode."""
    scene: Int[np.ndarray, " n"]
    """Which of the known scenes each world shows."""

    def begin(self, rng: np.random.Generator) -> Seen:
        """Start an episode in every world."""
        ...

    def step(
        self, action: Float[np.ndarray, "n action"]
    ) -> tuple[Seen, Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
        """Act; what is seen then, the rewards, and which episodes have ended before their time."""
        ...

    def told(self, alive: Bool[np.ndarray, " n"]) -> dict[str, float]:
        """Numbers about what was done since the last call; `success` is the share of worlds that have won, NaN where
        nobody says.

        Args:
            alive: episodes that have not ended before their time.
        """
        ...

    def close(self) -> None:
        """Let go of what is simulated."""
        ...


class SuiteWorlds:
    """Worlds of a task of the suite, with instances of a panel.

    Args:
        env: whose episodes are over when the caller says so.
        panel: of the instances, from which each episode draws.
        reward: in place of the environment's own.
    """

    def __init__(self, env: TaskVectorEnv, panel: Panel, reward: RewardOf | None = None) -> None:
        self.env, self._panel, self._reward = env, panel, reward
        self.n, self.steps = env.num_envs, env.task.steps
        self.scene = np.zeros(self.n, dtype=int)
        self._info: dict[str, Any] = {}
        self._slip: list[np.ndarray] = []

    def begin(self, rng: np.random.Generator) -> Seen:
        """See `Worlds`."""
        self.scene = rng.integers(len(self._panel), size=self.n)
        return self._seen(*self.env.reset(options={"instances": self.scene}))

    def step(
        self, action: Float[np.ndarray, "n action"]
    ) -> tuple[Seen, Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
        """See `Worlds`."""
        observation, reward, terminated, _, info = self.env.step(action)
        self._slip.append(info["truth"]["slip"])
        if self._reward is not None:
            reward = self._reward(info["reading"], self.scene)
        return self._seen(observation, info), reward, terminated

    def told(self, alive: Bool[np.ndarray, " n"]) -> dict[str, float]:
        """See `Worlds`; with the shares of worlds that hold the object, and its slip [m/s]."""
        slip, self._slip = float(np.mean(self._slip)), []
        return {
            "success": float((self._info["success"] & alive).mean()),
            "held": float(self._info["truth"]["held"].mean()), "slip": slip,
        }  # fmt: skip

    def close(self) -> None:
        """See `Worlds`."""
        self.env.close()

    def _seen(self, observation: dict[str, np.ndarray], info: dict[str, Any]) -> Seen:
        self._info = info
        touched = np.any([robot.touch.max(axis=1, initial=0.0) > _FELT for robot in info["reading"].robots], axis=0)
        phase = np.where(tracked(info["reading"])["held"], 2, touched.astype(int))
        return Seen(observation, info["privileged"], phase, info)


_FELT = 0.3  # [N] a fingertip counts as touching above this


@dataclass
class Rollout:
    """Transitions of a rollout in one row; those after an episode has ended are left out."""

    observation: dict[str, Tensor]
    privileged: Tensor
    action: Tensor
    log_prob: Tensor
    advantage: Tensor
    target: Tensor
    stats: dict[str, float]
    noted: dict[str, Tensor] = field(default_factory=dict)
    """What the prior notes of each state; nothing without one."""
    phase: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    """Phase of contact of each state."""
    bodies: dict[str, Tensor] = field(default_factory=dict)
    """Which body each point lies on, of every cloud in which an actor must find them."""


class Collector:
    """Runs worlds: one rollout after the other, through whole episodes.

    Args:
        worlds: where.
        actor: who acts; it gives mean and standard deviation.
        critic: of observations and privileged states.
        prior: what notes states, and acts where it is asked to.
        length: decisions in a rollout; divides an episode's.
        discount: gamma.
        trace: lambda of generalised advantage estimation.
    """

    def __init__(
        self,
        worlds: Worlds,
        actor: nn.Module,
        critic: nn.Module,
        prior: PolicyPrior | None,
        *,
        length: int,
        discount: float,
        trace: float,
    ) -> None:
        self._worlds, self._actor, self._critic, self._prior = worlds, actor, critic, prior
        self._length, self._discount, self._trace = length, discount, trace
        self._left = 0
        self._now: Seen | None = None
        self._alive = torch.ones(worlds.n, dtype=torch.bool)
        self._led_until = torch.zeros(worlds.n, dtype=torch.long)

    @property
    def over(self) -> bool:
        """Whether all episodes are over."""
        return self._left == 0

    @torch.no_grad()
    def collect(self, rng: np.random.Generator, *, guided: float = 0.0, resets: float = 0.0) -> Rollout:
        """The next rollout.

        Args:
            rng: of all that is drawn.
            guided: share of the worlds, the first ones, in which the prior acts.
            resets: share of the episodes, where new ones begin, in whose first part the prior acts, up to a random
                time; that part is left out.
        """
        worlds = self._worlds
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        if self.over:
            self._now = worlds.begin(rng)
            self._alive[:], self._left = True, worlds.steps
            until = rng.integers(worlds.steps, size=worlds.n) * (rng.random(worlds.n) < resets) if resets else 0
            self._led_until = torch.from_numpy(np.broadcast_to(until, worlds.n).copy())
        led = torch.arange(worlds.n) < round(guided * worlds.n)
        rows: dict[str, list[Any]] = {}
        for _ in range(self._length):
            for name, value in self._step(generator, led).items():
                rows.setdefault(name, []).append(value)
        assert self._now is not None
        last = self._critic(tensors(self._now.observation), torch.from_numpy(self._now.privileged))
        value, reward, ended = (torch.stack(rows[name]) for name in ("value", "reward", "ended"))
        advantage = advantages(
            reward, torch.cat([value, last[None]]), ended, discount=self._discount, trace=self._trace
        )  # fmt: skip
        alive = torch.stack(rows["alive"]).flatten()

        def flat(values: list[Tensor]) -> Tensor:
            return torch.stack(values).flatten(0, 1)[alive]

        def named(values: list[dict[str, Tensor]]) -> dict[str, Tensor]:
            return {name: flat([row[name] for row in values]) for name in values[0]}

        return Rollout(
            observation=named(rows["observation"]), privileged=flat(rows["privileged"]), action=flat(rows["action"]),
            log_prob=flat(rows["log_prob"]), advantage=advantage.flatten()[alive],
            target=(advantage + value).flatten()[alive], noted=named(rows["noted"]), phase=flat(rows["phase"]),
            bodies=named(rows["bodies"]),
            stats={
                "reward": float(reward.flatten()[alive].mean()) if bool(alive.any()) else 0.0,
                **worlds.told(self._alive.numpy()),
                "lost": float((~self._alive).float().mean()),
            },
        )  # fmt: skip

    def _step(self, generator: torch.Generator, led: Bool[Tensor, " n"]) -> dict[str, Any]:
        now = self._now
        assert now is not None
        seen, secret = tensors(now.observation), torch.from_numpy(now.privileged)
        mean, std = self._actor(seen)
        action = mean + std * torch.randn(mean.shape, generator=generator)
        noted: dict[str, Tensor] = {}
        first_part = self._worlds.steps - self._left < self._led_until
        shown = led | first_part  # where the prior shows what to do
        if self._prior is not None:
            noted = self._prior.note(seen, now.info, self._worlds.scene)
            if bool(shown.any()):
                action[shown] = self._prior.act({name: value[shown] for name, value in noted.items()}, generator)
        bodies = now.info.get("bodies", {}) if finds_bodies(self._actor) else {}
        row = {
            "bodies": {name: torch.from_numpy(lies.astype(np.uint8)) for name, lies in bodies.items()},
            "observation": seen, "privileged": secret, "action": action, "log_prob": log_prob(action, mean, std),
            "value": self._critic(seen, secret), "alive": self._alive & ~first_part, "noted": noted,
            "phase": torch.from_numpy(now.phase),
        }  # fmt: skip
        self._now, reward, terminated = self._worlds.step(action.double().numpy())
        self._left -= 1
        if not np.isfinite(reward).all():
            k = int(np.flatnonzero(~np.isfinite(reward))[0])
            raise BadInput(
                f"the reward of world {k} is {reward[k]} after {self._worlds.steps - self._left} decisions: nothing "
                "can be learned from it"
            )
        ended = torch.from_numpy(terminated)
        self._alive = self._alive & ~ended
        return row | {"reward": torch.from_numpy(reward.astype(np.float32)), "ended": ended}


def finds_bodies(actor: nn.Module) -> bool:
    """Whether an actor must find out which body each point of a cloud lies on."""
    return getattr(getattr(actor, "features", None), "finder", None) is not None


def tensors(observation: dict[str, np.ndarray]) -> dict[str, Tensor]:
    """Observations as torch reads them."""
    return {name: torch.from_numpy(value) for name, value in observation.items()}


def advantages(
    reward: Float[Tensor, "step n"],
    value: Float[Tensor, "step_and_one n"],
    ended: Bool[Tensor, "step n"],
    *,
    discount: float,
    trace: float,
) -> Float[Tensor, "step n"]:
    """Generalised advantage estimation (Schulman et al. 2016).

    An episode that is cut by time goes on in the value of what follows; one that has ended does not.
    """
    advantage = torch.zeros_like(reward)
    running = torch.zeros_like(reward[0])
    for k in reversed(range(len(reward))):
        goes_on = (~ended[k]).to(reward.dtype)
        delta = reward[k] + discount * goes_on * value[k + 1] - value[k]
        running = delta + discount * trace * goes_on * running
        advantage[k] = running
    return advantage
