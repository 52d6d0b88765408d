"""Letting somebody play a task: whether the worlds were solved, and a film of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from jaxtyping import Bool, Float

from dexprior.envs.tasks.pictures import Film
from dexprior.errors import BadInput, UnknownName
from dexprior.worlds.tasks import Player, RigState, TaskWorlds, Truth, episode, expert_of
from dexprior.worlds.viewer import Viewer

if TYPE_CHECKING:
    from dexprior.envs.tasks.vector import TaskVectorEnv

__all__ = ["Played", "play", "play_policy", "player_of"]

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


def player_of(kind: str, worlds: TaskWorlds, *, seed: int = 0) -> Player:
    """Somebody who plays, by name.

    Args:
        kind: the task's scripted `expert`, who knows the truth; `random` actions; or `still`, none.
        worlds: of the task.
        seed: of random actions.

    Raises:
        UnknownName: nobody of that name, or the task has no expert.
        BadInput: when the expert plays a robot that takes other actions than its own.
    """
    if kind not in get_args(Kind):
        raise UnknownName("player", kind, get_args(Kind))
    task, size = worlds.task, worlds.action_size
    expert = expert_of(task.name) if kind == "expert" else None

    def act(truth: Truth, robots: tuple[RigState, ...], t: float, memory: np.ndarray) -> Float[np.ndarray, "n action"]:
        if expert is None and kind == "still":
            return np.zeros((worlds.n, size))
        if expert is None:
            step = round(t / task.control_dt)
            return np.random.default_rng([seed, step]).uniform(-1.0, 1.0, (worlds.n, size))
        action = expert(truth, robots, t, memory)
        if action.shape[1] != size:
            named = " and ".join(f"{rig.arm.name} with {rig.end.name}" for rig in worlds.rigs)
            raise BadInput(
                f"the expert of {task.name!r} sends {action.shape[1]} numbers, {named} takes {size}: it cannot play "
                "this robot; choose another robot, or player=random or still"
            )
        return action

    return act


def play(worlds: TaskWorlds, player: Player, *, film: Film | None = None, viewer: Viewer | None = None) -> Played:
    """One episode in every world, from where a reset left them.

    Args:
        worlds: of an environment or a backend.
        player: who acts.
        film: takes a frame before the first step and after each.
        viewer: follows the first world; the episode ends when its window is closed.
    """
    task = worlds.task
    lost, total = np.zeros(worlds.n, dtype=bool), np.zeros(worlds.n)
    if film is not None:
        film.shoot()
    for step in episode(worlds, player):
        lost, total = lost | task.failure(step.truth), total + task.reward(step.truth)["total"]
        if film is not None:
            film.shoot()
        if viewer is not None:
            viewer.show(worlds.data(0)[1])
            if not viewer.open:
                break
    return Played(solved=np.array(task.success(step.truth)), lost=lost, reward=total / (step.number + 1))


def play_policy(
    env: TaskVectorEnv,
    act: Callable[[dict[str, np.ndarray]], Float[np.ndarray, "n action"]],
    *,
    film: Film | None = None,
    viewer: Viewer | None = None,
) -> Played:
    """One episode of a policy in every world, from a reset on; it sees what the environment shows and no more.

    Args:
        env: whose worlds do not restart by themselves.
        act: observations to actions.
        film: as in `play`.
        viewer: as in `play`.
    """
    observation, info = env.reset()
    lost, total, taken = np.zeros(env.num_envs, dtype=bool), np.zeros(env.num_envs), 0
    if film is not None:
        film.shoot()
    for _ in range(env.task.steps):
        observation, reward, terminated, _, info = env.step(act(observation))
        lost, total, taken = lost | terminated, total + reward, taken + 1
        if film is not None:
            film.shoot()
        if viewer is not None:
            viewer.show(env.worlds.data(0)[1])
            if not viewer.open:
                break
    return Played(solved=np.array(info["success"]), lost=lost, reward=total / taken)
