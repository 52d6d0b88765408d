"""Environment steps per second against two peers in the same run: bare `mj_step`, and Stable-Baselines3's DummyVecEnv.

Prints JSON lines {name, value, unit, peer, peer_value, ratio}.

    python benchmarks/stepping.py [worlds] [steps]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import dexprior  # noqa: F401  # before MuJoCo: chooses the off-screen OpenGL platform

import mujoco  # isort: skip
import numpy as np

from dexprior.envs.panel import Panel
from dexprior.envs.tasks import TaskEnv, TaskVectorEnv
from dexprior.worlds.tasks import make_task

TASK = make_task("insertion")


def main(worlds: int = 64, steps: int = 75) -> None:
    """Measure and print."""
    panel = Panel.sample("benchmark", TASK, worlds, seed=0)
    ours = _vector(panel, worlds, steps)
    for peer, rate in (
        ("bare mj_step, one thread", _bare(steps)),
        ("SB3 DummyVecEnv", _dummy(panel, min(worlds, 8), steps)),
    ):
        row = {
            "name": f"environment steps, {worlds} worlds",
            "value": ours,
            "unit": "steps/s",
            "peer": peer,
            "peer_value": rate,
            "ratio": ours / rate,
        }
        print(json.dumps(row))


def _rate(step: Callable[[], object], steps: int, per_step: int) -> float:
    step()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    return steps * per_step / (time.perf_counter() - start)


def _vector(panel: Panel, worlds: int, steps: int) -> float:
    env = TaskVectorEnv(TASK, worlds, panel=panel, autoreset=False)
    env.reset()
    actions = np.zeros((worlds, 7))
    return _rate(lambda: env.step(actions), steps, worlds)


def _bare(steps: int) -> float:
    """Control periods per second of physics alone: no observation, reward or controller."""
    model = TASK.layout().spec.compile()
    data = mujoco.MjData(model)
    substeps = round(TASK.control_dt / model.opt.timestep)
    return _rate(lambda: mujoco.mj_step(model, data, nstep=substeps), 20 * steps, 1)


def _dummy(panel: Panel, worlds: int, steps: int) -> float:
    from stable_baselines3.common.vec_env import DummyVecEnv

    env = DummyVecEnv([lambda: TaskEnv(TASK, panel=panel) for _ in range(worlds)])
    env.reset()
    actions = np.zeros((worlds, 7), dtype=np.float32)
    return _rate(lambda: env.step(actions), steps, worlds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
