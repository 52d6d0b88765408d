"""Observations, and what was done there: what policies and densities learn to imitate from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from dexprior.errors import BadInput

__all__ = ["Pairs"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """Steps of episodes, in the order of time within each."""

    observation: dict[str, Float[np.ndarray, "step ..."]]
    """What was seen, by name."""
    action: Float[np.ndarray, "step action"]
    """What was done then."""
    episode: Int[np.ndarray, " step"]
    """Which episode each step is of; each one's steps lie in a row."""
    sentence: Int[np.ndarray, " step"] | None = None
    """Which of `sentences` was asked for; None where there is one way of doing it."""
    sentences: tuple[str, ...] = ()
    bodies: dict[str, Int[np.ndarray, "step point"]] = field(default_factory=dict)
    """Which body each point lies on, of clouds without labels."""
    reward: Float[np.ndarray, " step"] | None = None
    """What it brought, where that is known."""
    ended: Bool[np.ndarray, " step"] | None = None
    """Whether the episode ended by itself with the step; None where none did."""

    def __post_init__(self) -> None:
        rows = {**self.observation, **self.bodies, "action": self.action}
        rows |= {name: getattr(self, name) for name in _OPTIONAL if getattr(self, name) is not None}
        for name, value in rows.items():
            if len(value) != len(self.episode):
                raise BadInput(f"pairs: {len(value)} rows of {name!r} for {len(self.episode)} steps")
            if not np.isfinite(value).all():
                raise BadInput(f"pairs: {name!r} holds numbers that are not finite")
        if not len(self.episode):
            raise BadInput("pairs: no step at all; an empty set teaches nothing")

    def __len__(self) -> int:
        return len(self.episode)

    @property
    def episodes(self) -> int:
        """Number of episodes."""
        return len(np.unique(self.episode))

    def take(self, rows: np.ndarray) -> Pairs:
        """Some of the steps, by index or mask."""

        def few(value: np.ndarray | None) -> Any:
            return None if value is None else value[rows]

        return replace(
            self, observation={name: value[rows] for name, value in self.observation.items()}, action=self.action[rows],
            episode=self.episode[rows], bodies={name: value[rows] for name, value in self.bodies.items()},
            sentence=few(self.sentence), reward=few(self.reward), ended=few(self.ended),
        )  # fmt: skip

    def split(self, share: float, seed: int) -> tuple[Pairs, Pairs]:
        """Steps to learn from, and a share of the episodes that is held out: at least one, and never all."""
        ids = np.random.default_rng([seed, _SPLIT]).permutation(np.unique(self.episode))
        if len(ids) < 2:
            raise BadInput("pairs: one episode cannot be split into what is learned and what is held out; give two")
        held = np.isin(self.episode, ids[: min(max(round(share * len(ids)), 1), len(ids) - 1)])
        return self.take(~held), self.take(held)

    def chunks(self, n: int) -> Pairs:
        """Every n-th step of each episode, with the n actions from there on side by side; rests, and what the steps
        brought, are left out.

        Raises:
            BadInput: no episode is as long.
        """
        if n == 1:
            return self
        begins = np.flatnonzero(np.diff(self.episode, prepend=self.episode[0] - 1))
        within = np.arange(len(self)) - np.repeat(begins, np.diff(begins, append=len(self)))
        ends = np.append(begins[1:], len(self))
        last = np.repeat(ends, np.diff(begins, append=len(self)))
        rows = np.flatnonzero((within % n == 0) & (np.arange(len(self)) + n <= last))
        if not len(rows):
            raise BadInput(f"pairs: no episode has the {n} steps of a chunk")
        action = self.action[rows[:, None] + np.arange(n)].reshape(len(rows), -1)
        return replace(self.take(rows), action=action, reward=None, ended=None)


_OPTIONAL = ("sentence", "reward", "ended")
_SPLIT = 11
