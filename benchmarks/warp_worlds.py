"""MuJoCo Warp against `mujoco.batch` on the task suite: the same states, the same verdicts, and how fast.

Prints JSON lines. First the largest differences of positions and velocities after 1, 10 and 100 simulation steps from
the same states of the expert's episode, each world with parameters of its own, under the controls of that moment; then
how many instances the expert solves with either; then control steps a second, {name, value, unit, peer, peer_value,
ratio}. The first call on a machine compiles kernels, which takes minutes.

    python benchmarks/warp_worlds.py [worlds] [task ...]

Needs `dexprior[warp]`; takes the first GPU where there is one.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import dexprior  # noqa: F401  # before MuJoCo: chooses the off-screen OpenGL platform

import mujoco.batch  # isort: skip
import numpy as np

from dexprior.worlds.tasks import Task, TaskWorlds, make_task
from dexprior.worlds.tasks.experts import run_expert
from dexprior.worlds.tasks.suite import SUITE, expert_of
from dexprior.worlds.tasks.warp import WarpBatch

STEPS = (1, 10, 100)
WARP_TASKS = tuple(name for name, entry in SUITE.items() if entry.warp)
MOMENTS = (0.0, 0.2, 0.4)  # shares of the horizon
SEED = 1


def main(worlds: int = 16, tasks: tuple[str, ...] = WARP_TASKS) -> None:
    """Measure and print."""
    import warp

    warp.config.quiet = True
    warp.init()
    device = warp.get_device().name
    for name in tasks:
        task = make_task(name)
        _differences(task, worlds)
        _verdicts(task, worlds)
        _rates(task, worlds, device)


def _differences(task: Task, n: int) -> None:
    worlds, period = _begin(task, n, "mujoco"), task.control_dt
    memory, moments = np.zeros((n, 4)), [round(share * task.horizon / period) for share in MOMENTS]
    for k in range(moments[-1] + 1):
        if k in moments:
            for steps, (positions, velocities) in _apart(worlds).items():
                row = {"task": task.name, "worlds": n, "from_s": round(k * period, 3), "simulation_steps": steps}
                print(json.dumps(row | {"qpos": positions, "qvel": velocities}), flush=True)
        worlds.step(expert_of(task.name)(worlds.truth(), worlds.view.rigs, k * period, memory))


def _apart(worlds: TaskWorlds) -> dict[int, tuple[float, float]]:
    """Largest differences of positions [m, rad] and velocities [m/s, rad/s] after so many steps from now."""
    sides = [_engine(worlds, warp) for warp in (False, True)]
    found, done = {}, 0
    for steps in STEPS:
        for side in sides:
            side.step(nstep=steps - done)
        done = steps
        one, other = ((side.bind("qpos"), side.bind("qvel")) for side in sides)
        found[steps] = tuple(float(np.abs(a - b).max()) for a, b in zip(one, other))
    return found


def _engine(worlds: TaskWorlds, warp: bool) -> Any:
    """Another engine in the state of these worlds, with their parameters."""
    engine: Any = mujoco.batch.Batch(worlds.model, worlds.n, 1)
    if warp:
        engine = WarpBatch(engine, worlds.task.name)
    for name in worlds.parameter_fields:
        engine.expand(name)[:] = worlds.view.model_field(name)
    engine.state[:] = worlds.snapshot()["mujoco"]
    return engine


def _verdicts(task: Task, n: int) -> None:
    solved = {}
    for physics in ("mujoco", "warp"):
        verdict, _ = run_expert(_begin(task, n, physics), expert_of(task.name))
        solved[physics] = int(verdict.sum())
    _print(f"{task.name}, solved of {n} by the expert", solved["warp"], "1", "mujoco.batch", solved["mujoco"])


def _rates(task: Task, n: int, device: str, periods: int = 20) -> None:
    rates = []
    for physics in ("warp", "mujoco"):
        worlds = _begin(task, n, physics)
        action = np.zeros((n, worlds.action_size))
        worlds.step(action)
        start = time.perf_counter()
        for _ in range(periods):
            worlds.step(action)
        rates.append(n * periods / (time.perf_counter() - start))
    _print(f"{task.name}, {n} worlds, {device}", rates[0], "control steps/s", "mujoco.batch, all cores", rates[1])


def _begin(task: Task, n: int, physics: str) -> TaskWorlds:
    worlds = TaskWorlds(task, n, physics=physics)  # type: ignore[arg-type]
    scenes, rows = (
        task.sample(np.random.default_rng([SEED, 0]), n),
        task.family.sample(np.random.default_rng([SEED, 1]), n),
    )
    worlds.reset(np.arange(n), scenes, [task.family.as_dict(row) for row in rows])
    return worlds


def _print(name: str, value: float, unit: str, peer: str, peer_value: float) -> None:
    row = {"name": name, "value": value, "unit": unit, "peer": peer, "peer_value": peer_value}
    print(json.dumps(row | {"ratio": value / peer_value if peer_value else None}), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), tuple(sys.argv[2:]) or WARP_TASKS)
