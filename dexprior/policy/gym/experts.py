"""Priors from files: recorded episodes, or an expert's layers that are played; and experts that were made worse.

read_prior("door.npz", worlds)          # -> Expert or Pairs
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float, Int

from dexprior.config import Ge, config
from dexprior.errors import BadInput
from dexprior.policy.gym.worlds import GymWorlds
from dexprior.policy.pairs import Pairs
from dexprior.reading import read_npz

__all__ = ["Act", "Defect", "Expert", "Played", "defective", "play", "read_prior", "to_quality"]

Act = Callable[[Float[np.ndarray, "n number"]], Float[np.ndarray, "n action"]]
"""Flat observations -> actions in [-1, 1]; called once a step from the beginning of episodes on."""
_LAYERS = ("w0", "b0", "w1", "b1", "w2", "b2")
_SCALES = ("in_shift", "in_scale", "out_shift", "out_scale")


@dataclass(frozen=True, eq=False)
class Expert:
    """A network of three layers with tanh between, as published for hand_dapg (Rajeswaran et al. 2018).

    a = out_scale * net((o - in_shift) / (in_scale + 1e-8)) + out_shift
    """

    layers: tuple[Float[np.ndarray, ...], ...]
    """Weight and bias of each layer; weights are (out, in)."""
    scales: tuple[Float[np.ndarray, ...], ...]
    """Shift and scale of what goes in, then of what comes out."""

    def __call__(self, observation: Float[np.ndarray, "n number"]) -> Float[np.ndarray, "n action"]:
        """The mean action."""
        in_shift, in_scale, out_shift, out_scale = self.scales
        x = (observation - in_shift) / (in_scale + 1e-8)
        for k in range(0, 6, 2):
            x = x @ self.layers[k].T + self.layers[k + 1]
            x = np.tanh(x) if k < 4 else x
        return out_scale * x + out_shift


def read_prior(path: str | Path, worlds: GymWorlds) -> Expert | Pairs:
    """An expert's layers (`w0`, `b0`, ... `in_shift` ...), or recorded episodes.

    Episodes: `observations` (step, number), `actions` (step, action), and `start`, the row at which each begins, with
    or without the number of rows at its end.

    Raises:
        BadInput: no such file, neither of both, or one of other sizes than the environment's.
    """
    arrays = read_npz(path)
    if all(name in arrays for name in ("observations", "actions")):
        return _pairs(arrays, path, worlds)
    if missing := [name for name in (*_LAYERS, *_SCALES) if name not in arrays]:
        raise BadInput(
            f"{path} holds {', '.join(arrays)}: neither recorded episodes (observations, actions, start) nor an "
            f"expert's layers, of which {missing[0]} is missing"
        )
    expert = Expert(
        tuple(arrays[name].astype(np.float64) for name in _LAYERS),
        tuple(arrays[name].astype(np.float64) for name in _SCALES),
    )
    try:
        shape = expert(np.zeros((1, worlds.size))).shape
    except ValueError:
        shape = None
    if shape != (1, worlds.actions):
        size = arrays["w0"].shape[-1], arrays["b2"].shape[-1]
        raise BadInput(
            f"{path} is an expert that reads {size[0]} numbers and gives {size[1]}; this environment shows "
            f"{worlds.size} and takes {worlds.actions}"
        )
    return expert


def _pairs(arrays: dict[str, np.ndarray], path: str | Path, worlds: GymWorlds) -> Pairs:
    observation, action = arrays["observations"], arrays["actions"]
    if observation.ndim != 2 or action.ndim != 2 or len(observation) != len(action):
        raise BadInput(f"{path}: observations {observation.shape} and actions {action.shape}, expected a row a step")
    if (observation.shape[1], action.shape[1]) != (worlds.size, worlds.actions):
        raise BadInput(
            f"{path} holds observations of {observation.shape[1]} numbers and actions of {action.shape[1]}; this "
            f"environment shows {worlds.size} and takes {worlds.actions}"
        )
    if "start" not in arrays:
        raise BadInput(f"{path} holds no 'start': the rows at which its episodes begin")
    start = np.unique(np.append(arrays["start"].astype(np.int64), [0, len(action)]))
    if start[0] < 0 or start[-1] > len(action):
        raise BadInput(f"{path}: start has {start[0]}..{start[-1]}, of {len(action)} rows")
    episode = np.repeat(np.arange(len(start) - 1), np.diff(start))
    reward = arrays.get("rewards")
    if reward is not None and reward.shape != episode.shape:
        raise BadInput(f"{path}: rewards {reward.shape}, expected one for each of {len(episode)} steps")
    return Pairs(
        observation={"state": observation.astype(np.float32)}, action=np.clip(action, -1.0, 1.0), episode=episode,
        reward=reward,
    )  # fmt: skip


@config
class Defect:
    """How an expert is made worse."""

    kind: Literal["none", "noise", "bias", "slow", "delay"] = "none"
    """noise: normal noise on each action; bias: one wrong offset of all actions; slow: it acts every second step and
    goes half of the way; delay: it acts on what it saw steps ago."""
    strength: Annotated[float, Ge(0)] = 0.0
    """Standard deviation, size of the offset, share of the way that is left out, or steps."""


def defective(expert: Act, defect: Defect, actions: int, *, seed: int) -> Callable[[], Act]:
    """Makes what acts in a batch of episodes, once for each batch.

    Args:
        expert: at its best.
        defect: what is wrong with it.
        actions: numbers in an action.
        seed: of its noise, and of the direction of its bias.
    """
    rng = np.random.default_rng([seed, 3])
    offset = defect.strength * np.random.default_rng([seed, 4]).choice([-1.0, 1.0], size=actions)

    def begin() -> Act:
        memory: list[Any] = []

        def act(observation: Float[np.ndarray, "n number"]) -> Float[np.ndarray, "n action"]:
            if defect.kind == "noise":
                action = expert(observation)
                return np.clip(action + defect.strength * rng.normal(size=action.shape), -1.0, 1.0)
            if defect.kind == "bias":
                return np.clip(expert(observation) + offset, -1.0, 1.0)
            if defect.kind == "delay":
                memory.append(observation.copy())
                return np.clip(expert(memory[max(len(memory) - 1 - round(defect.strength), 0)]), -1.0, 1.0)
            action = np.clip(expert(observation), -1.0, 1.0)
            if defect.kind == "slow":
                memory[:] = [action if not memory else memory[0] + (1.0 - defect.strength) * (action - memory[0])]
                return memory[0].copy()
            return action

        return act

    return begin


@dataclass(frozen=True, eq=False)
class Played:
    """Episodes that were played."""

    pairs: Pairs
    success: Float[np.ndarray, " episode"]
    """Whether each was won; NaN where the environment does not say."""
    returned: Float[np.ndarray, " episode"]
    """Sum of rewards."""
    won_steps: Int[np.ndarray, " episode"]
    """Steps in which the environment said that it is a success."""


def play(worlds: GymWorlds, begin: Callable[[], Act], episodes: int, *, seed: int) -> Played:
    """Play episodes from the beginning, each from a seed of its own; steps after an end are left out.

    Args:
        worlds: where; one action is decided at a time.
        begin: makes who acts in a batch of episodes.
        episodes: how many.
        seed: of where they begin: seed + 0, 1, ...
    """
    states, actions, rewards, ends, ids, success, returned, won = [], [], [], [], [], [], [], []
    for first in range(0, episodes, worlds.n):
        few = min(worlds.n, episodes - first)
        act, seen = begin(), worlds.begin_at(seed + first + np.arange(worlds.n))
        alive = np.arange(worlds.n) < few
        for _ in range(worlds.steps):
            state = seen.observation["state"]
            action = act(state.astype(np.float64))
            states.append(state[alive])
            actions.append(action[alive])
            ids.append(first + np.flatnonzero(alive))
            seen, reward, ended = worlds.step(action)
            rewards.append(reward[alive] / worlds.settings.reward_scale)
            ends.append(ended[alive])
            alive = alive & ~ended
        success.append(worlds.success[:few])
        returned.append(worlds.returned[:few].copy())
        won.append(worlds.won[:few].copy())
    episode = np.concatenate(ids)
    order = np.argsort(episode, kind="stable")
    pairs = Pairs(
        observation={"state": np.concatenate(states)[order]}, action=np.concatenate(actions)[order],
        episode=episode[order], reward=np.concatenate(rewards)[order], ended=np.concatenate(ends)[order],
    )  # fmt: skip
    return Played(pairs, np.concatenate(success), np.concatenate(returned), np.concatenate(won))


def to_quality(
    worlds: GymWorlds, expert: Act, kind: Literal["noise", "bias", "slow", "delay"], wanted: float, *, seed: int,
    episodes: int = 100,
) -> tuple[Defect, float]:  # fmt: skip
    """The strength of a defect at which an expert wins a share of its episodes, by bisection; and that share.

    Delays are whole steps, so that a share between two of them cannot be met: the nearest counts.
    """

    def measured(strength: float) -> float:
        defect = Defect(kind=kind, strength=strength)
        played = play(worlds, defective(expert, defect, worlds.actions, seed=seed), episodes, seed=seed)
        return float(played.success.mean())

    low, high = 0.0, _WORST[kind]
    tried: dict[float, float] = {}
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high) if kind != "delay" else float(round(0.5 * (low + high)))
        if middle in tried:
            break
        tried[middle] = measured(middle)
        if abs(tried[middle] - wanted) <= 0.5 / episodes:
            break
        low, high = (middle, high) if tried[middle] > wanted else (low, middle)
    best = min(tried, key=lambda strength: abs(tried[strength] - wanted))
    return Defect(kind=kind, strength=best), tried[best]


_WORST = {"noise": 1.5, "bias": 1.0, "slow": 0.98, "delay": 40.0}
_HALVINGS = 8
