"""A bank's trajectories, followed again and again with a policy's sensors: what a density is fitted to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from dexprior.behavior import BehaviorPrior
from dexprior.envs.factory import SimulationOptions, simulate
from dexprior.envs.panel import Panel
from dexprior.envs.tasks import TaskVectorEnv
from dexprior.errors import BadInput
from dexprior.policy.actor import Senses
from dexprior.policy.pairs import Pairs
from dexprior.policy.priors import BankPrior
from dexprior.worlds.tasks import Task

__all__ = ["replay"]


def replay(
    task: Task, panel: Panel, bank: BehaviorPrior, *, repeats: int, seed: int, simulation: SimulationOptions
) -> tuple[Pairs, Senses, float]:
    """Episodes in which actions are drawn from a bank in its own scenes; those that fail are left out.

    Args:
        task: in whose training world the bank is followed.
        panel: the scenes that the bank knows.
        bank: with one way of doing the task, or several.
        repeats: how often each way is followed in each scene, under other noise.
        seed: of actions, parameters and noise.
        simulation: options of the worlds, with the sensors that policies will have.

    Returns:
        The pairs, what the observations are, and the share of the episodes that succeeded.

    Raises:
        BadInput: a bank of other scenes, or fewer than two episodes that succeed.
    """
    if bank.panel_hash != panel.hash:
        raise BadInput(f"the behavioral prior was built for panel {bank.panel_hash}, this one is {panel.hash}")
    backend = simulate("mujoco", task, len(panel), family=panel.family, options=simulation)
    env = TaskVectorEnv(task, len(panel), panel=panel, autoreset=False, backend=backend)
    generator = torch.Generator().manual_seed(seed)
    scene, sentences = np.arange(len(panel)), tuple(dict.fromkeys(bank.sentences))
    rows: list[tuple[dict[str, np.ndarray], np.ndarray, dict[str, np.ndarray]]] = []
    won, ways = [], []
    for repeat in range(repeats):
        for way, sentence in enumerate(sentences or (None,)):
            near = BankPrior(bank.asked(sentence))
            env.panel = _noisy(panel, seed + repeat)
            observation, info = env.reset(options={"instances": scene})
            for _ in range(task.steps):
                action = near.act(near.note({}, info, scene), generator).numpy()
                rows.append((observation, action, info.get("bodies", {})))
                observation, _, _, _, info = env.step(action.astype(np.float64))
            won.append(info["success"])
            ways.append(np.full(len(panel), way))
    senses = Senses.of(env.backend)
    env.close()
    success = np.concatenate(won)
    if success.sum() < 2:
        raise BadInput(
            f"following the bank succeeds in {int(success.sum())} of {len(success)} episodes in the training world: "
            "there is nothing to fit a density to"
        )
    keep = np.flatnonzero(success)

    def together(values: list[np.ndarray]) -> np.ndarray:
        """Rows by time -> rows by episode, without what failed."""
        stacked = np.stack(values).reshape(len(won), task.steps, len(panel), *values[0].shape[1:])
        return np.concatenate(stacked.swapaxes(1, 2))[keep].reshape(-1, *values[0].shape[1:])

    observation, _, bodies = rows[0]
    pairs = Pairs(
        observation={name: together([row[0][name] for row in rows]) for name in observation},
        action=together([row[1] for row in rows]), episode=np.repeat(keep, task.steps),
        sentence=np.repeat(np.concatenate(ways)[keep], task.steps) if len(sentences) > 1 else None,
        sentences=sentences, bodies={name: together([row[2][name] for row in rows]) for name in bodies},
    )  # fmt: skip
    return pairs, senses, float(success.mean())


def _noisy(panel: Panel, seed: int) -> Panel:
    """The same scenes under other parameters and noise."""
    rng = np.random.default_rng([seed, 12])
    parameters = panel.family.sample(rng, len(panel))
    return replace(panel, parameters=parameters, seeds=rng.integers(2**31, size=len(panel)))
