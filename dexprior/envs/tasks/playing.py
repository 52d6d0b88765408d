"""Letting somebody play a task: whether the worlds were solved, and a film of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

from dexprior.envs.tasks.pictures import Film
from dexprior.envs.tasks.vector import TaskVectorEnv
from dexprior.errors import BadInput, UnknownName
from dexprior.worlds.tasks import expert_of
from dexprior.worlds.viewer import Viewer

__all__ = ["Played", "Player", "play", "player_of"]

Player = Callable[[TaskVectorEnv, int], Float[np.ndarray, "n action"]]
"""(environment, control step) -> actions in [-1, 1]."""
Kind = Literal["expert", "random", "still"]


@dataclass(frozen=True)
class Played:
    """One episode in every world."""

    solved: Bool[np.ndarray, " n"]
    """Whether the verdict at the end is a success: what was solved and undone again is not."""
    lost: Bool[np.ndarray, " n"]
    """Whether the task ever said that it is lost."""
    reward: Float[np.ndarray, " n"]
    """Mean dense reward over the episode."""


def player_of(kind: str, env: TaskVectorEnv, *, seed: int = 0) -> Player:
    """Somebody who plays, by name.

    Args:
        kind: the task's scripted `expert`, who knows the truth; `random` actions; or `still`, none.
        env: of the task.
        seed: of random actions.

    Raises:
        UnknownName: nobody of that name, or the task has no expert.
        BadInput: when the expert plays a robot that takes other actions than its own.
    """
    if kind == "expert":
        expert, memory = expert_of(env.task.name), np.zeros((env.num_envs, 4))

        def act(env: TaskVectorEnv, step: int) -> Float[np.ndarray, "n action"]:
            action = expert(env.worlds.truth(), env.worlds.view.rigs, step * env.task.control_dt, memory)
            if action.shape[1] != env.worlds.action_size:
                robots = " and ".join(f"{rig.arm.name} with {rig.end.name}" for rig in env.worlds.rigs)
                raise BadInput(
                    f"the expert of {env.task.name!r} sends {action.shape[1]} numbers, {robots} takes "
                    f"{env.worlds.action_size}: it cannot play this robot; choose another robot, or player=random or "
                    "still"
                )
            return action

        return act
    if kind == "random":
        size = (env.num_envs, env.worlds.action_size)
        return lambda env, step: np.random.default_rng([seed, step]).uniform(-1.0, 1.0, size)
    if kind == "still":
        return lambda env, step: np.zeros((env.num_envs, env.worlds.action_size))
    raise UnknownName("player", kind, ("expert", "random", "still"))


def play(env: TaskVectorEnv, player: Player, *, film: Film | None = None, viewer: Viewer | None = None) -> Played:
    """One episode in every world, from where a reset left them.

    Args:
        env: without autoreset.
        player: who acts.
        film: takes a frame before the first step and after each.
        viewer: follows the first world; the episode ends when its window is closed.
    """
    n, steps = env.num_envs, round(env.task.horizon / env.task.control_dt)
    solved, lost, total, done = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool), np.zeros(n), 0
    if film is not None:
        film.shoot()
    for step in range(steps):
        _, _, terminated, _, info = env.step(player(env, step))
        solved, lost, total, done = info["success"], lost | terminated, total + info["terms"]["total"], step + 1
        if film is not None:
            film.shoot()
        if viewer is not None:
            viewer.show(env.worlds.data(0)[1])
            if not viewer.open:
                break
    return Played(solved=np.array(solved), lost=lost, reward=total / done)
