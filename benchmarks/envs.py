"""Environment steps of the task suite per CPU-second against bare `mj_step` from the same states, in one run.

Prints JSON lines {name, value, unit, peer, peer_value, ratio}. Against other packages: `peers.py`.

    python benchmarks/envs.py [worlds]
    python benchmarks/envs.py cloths
    python benchmarks/envs.py training runs/demo    # with the bank of a run of the demo
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import dexprior  # noqa: F401  # before MuJoCo: chooses the off-screen OpenGL platform

import mujoco  # isort: skip
import mujoco.batch
import numpy as np
import torch

from dexprior.behavior import BehaviorPrior
from dexprior.envs.panel import Panel
from dexprior.envs.tasks import TaskVectorEnv, make_vec_env
from dexprior.pipeline.line import Line
from dexprior.policy import ppo
from dexprior.worlds.tasks import episode, expert_of

RIGID = ("pick_place", "peg", "nut_bolt", "cube_in_hand")


def main(worlds: int = 256) -> None:
    """Measure and print."""
    for task in RIGID:
        n = min(worlds, 16) if task == "nut_bolt" else worlds
        ours, bare = against_bare(*_busy(task, n))
        _print(f"{task}, {n} worlds, one thread", ours, "control steps/CPU-s", "bare mj_step", bare)
    _threads(worlds)
    _simulation_speed(worlds)
    _cloths()


def _busy(task: str, worlds: int, threads: int = 1) -> tuple[TaskVectorEnv, np.ndarray]:
    """Worlds in the middle of the expert's work, where contacts are, and its action there."""
    env = make_vec_env(task, num_envs=worlds, threads=threads, autoreset=False)
    env.reset(seed=0)
    for step in episode(env.worlds, expert_of(task), seconds=0.4 * env.task.horizon):
        action = step.action
    return env, action


def against_bare(env: TaskVectorEnv, action: np.ndarray, rounds: int = 5, steps: int = 4) -> tuple[float, float]:
    """Control steps per CPU-second of the environment, and of `mj_step` from the same states under the same controls.

    Both sides start every round from the same states; medians over rounds.
    """
    n, substeps = env.num_envs, round(env.task.control_dt / env.worlds.model.opt.timestep)
    some = range(0, n, max(n // 16, 1))
    rates = []
    for _ in range(rounds):
        pairs = [env.worlds.data(k) for k in some]
        start = time.process_time()
        for model, data in pairs:
            for _ in range(steps):
                mujoco.mj_step(model, data, nstep=substeps)
        bare = steps * len(pairs) / (time.process_time() - start)
        start = time.process_time()
        for _ in range(steps):
            env.step(action)
        rates.append((steps * n / (time.process_time() - start), bare))
    ours, bare = np.median(rates, axis=0)
    return float(ours), float(bare)


def _threads(worlds: int) -> None:
    """Wall-clock rates of one thread and of two."""

    def rate(threads: int) -> float:
        env, _ = _busy("pick_place", worlds, threads)
        action = np.zeros((worlds, env.worlds.action_size))
        return _wall(lambda: env.step(action), 20) * worlds

    one, two = rate(1), rate(2)
    _print(f"pick_place, {worlds} worlds, two threads", two, "control steps/s", "one thread", one)


def _simulation_speed(worlds: int) -> None:
    """Simulation steps of the thread, and how many times faster than real time the fruit in grasp is."""
    env, _ = _busy("nut_bolt", 8)
    substeps = round(env.task.control_dt / env.worlds.model.opt.timestep)
    action = np.zeros((8, env.worlds.action_size))
    action[:, 6] = -1.0
    rate = _cpu(lambda: env.worlds.step(action), 20) * 8 * substeps
    _print("nut on bolt, with the arm", rate, "simulation steps/CPU-s", "target", 1000.0)
    env, _ = _busy("soft_grasp", 8)
    action = np.zeros((8, env.worlds.action_size))
    rate = _cpu(lambda: env.step(action), 20) * 8 * env.task.control_dt
    _print("strawberry in grasp", rate, "simulated s/CPU-s", "target", 5.0)


def _cloths(instances: int = 8) -> None:
    """Whole folds by the expert, observations and the expert itself not counted: flexes against the particle cloth."""
    reference, _ = _folding(1, engine="flex", resolution=11)
    _print("11x11 flex cloth, a fold", reference, "simulated s/CPU-s", "target", 1.3)
    fine, _ = _folding(1, engine="flex", resolution=15)
    for resolution in (11, 15):
        rate, _ = _folding(8, engine="particles", resolution=resolution)
        _print(f"{resolution}x{resolution} particle cloth, a fold", rate, "simulated s/CPU-s", "15x15 flex", fine)
    for outline in ("square", "shirt"):
        lies = [_folding(instances, engine=engine, outline=outline)[1] for engine in ("flex", "particles")]
        apart = np.linalg.norm(lies[0] - lies[1], axis=-1).mean()
        _print(f"folded {outline}, particles from flex, mean over points", 1e3 * float(apart), "mm", "target", 10.0)


def _folding(worlds: int, **settings: object) -> tuple[float, np.ndarray]:
    """Simulated seconds per CPU-second, over worlds, of the steps of an episode; and where points of the cloth end."""
    env = make_vec_env("folding", num_envs=worlds, threads=1, autoreset=False, settings=settings)
    env.reset(seed=0)
    memory, spent, period = np.zeros((worlds, 4)), 0.0, env.task.control_dt
    for k in range(round(env.task.horizon / period)):
        action = expert_of("folding")(env.worlds.truth(), env.worlds.view.rigs, k * period, memory)
        start = time.process_time()
        env.worlds.step(action)
        spent += time.process_time() - start
    return worlds * env.task.horizon / spent, env.task.cloud(env.worlds.view, env.worlds.truth())


def _training(run: str) -> None:
    """What share of PPO's CPU time physics and networks take, on one thread, from worlds through sight to updates.

    Networks are the actor's and critic's forward passes and the descent; physics is MuJoCo's own functions.
    """
    line = Line.load(run)
    simulation = replace(line.config.policy.simulation, threads=1)
    config = replace(line.config.policy, iterations=3, warmup=0, simulation=simulation)
    bank = line.folder["04-behavior"]
    prior, panel = BehaviorPrior.load(bank / "behavior.safetensors"), Panel.load(bank / "panel.json")
    spent = {"physics": 0.0, "networks": 0.0}
    for kind, owner, names in (
        ("physics", mujoco.batch.Batch, ("step", "forward", "reset")),
        ("physics", mujoco, ("mj_multiRay", "mj_kinematics", "mj_camlight", "mj_setConst", "mj_resetData")),
        ("networks", ppo.Actor, ("forward",)), ("networks", ppo.Critic, ("forward",)), ("networks", ppo, ("_descend",)),
    ):  # fmt: skip
        for name in names:
            setattr(owner, name, _counted(getattr(owner, name), kind, spent))
    torch.set_num_threads(1)
    importlib.import_module("torch.utils.tensorboard")  # which training would import
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        ppo.train_ppo(line.task, panel, prior, config, Path(folder), seed=0)
        whole = time.process_time() - start
    steps = config.iterations * config.worlds * line.task.steps
    name = f"training of {line.task.name}, {config.worlds} worlds"
    _print(f"{name}: rate", steps / whole, "control steps/CPU-s", "physics and networks", steps / sum(spent.values()))
    _print(f"{name}: physics and networks", sum(spent.values()) / whole, "share of CPU time", "target", 0.85)
    _print(f"{name}: physics", spent["physics"] / whole, "share of CPU time", "networks", spent["networks"] / whole)


def _counted(work: Callable[..., object], kind: str, spent: dict[str, float]) -> Callable[..., object]:
    def counted(*args: object, **kwargs: object) -> object:
        start = time.process_time()
        try:
            return work(*args, **kwargs)
        finally:
            spent[kind] += time.process_time() - start

    return counted


def _cpu(step: Callable[[], object], times: int) -> float:
    step()
    start = time.process_time()
    for _ in range(times):
        step()
    return times / (time.process_time() - start)


def _wall(step: Callable[[], object], times: int) -> float:
    step()
    start = time.perf_counter()
    for _ in range(times):
        step()
    return times / (time.perf_counter() - start)


def _print(name: str, value: float, unit: str, peer: str, peer_value: float) -> None:
    row = {"name": name, "value": value, "unit": unit, "peer": peer, "peer_value": peer_value}
    print(json.dumps(row | {"ratio": value / peer_value}), flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["cloths"]:
        _cloths()
    elif sys.argv[1:2] == ["training"]:
        _training(sys.argv[2])
    else:
        main(*map(int, sys.argv[1:2]))
