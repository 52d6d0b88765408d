"""The transfer stages: the ledger of a policy, and a few episodes through every backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.artifacts import file_hash, read_tensors
from dexprior.envs.factory import BackendConfig, HardwareOptions, SimulationOptions, make_backend
from dexprior.envs.panel import Panel
from dexprior.envs.sim import SimBackend
from dexprior.errors import SafetyStop
from dexprior.families import ParameterFamily
from dexprior.pipeline.stages import TASK, EvaluationConfig, run_stage, run_world
from dexprior.policy.actor import load_actor
from dexprior.policy.rollout import Policy, actor_policy, run_episodes, traces
from dexprior.stats import Rate
from dexprior.transfer import DivergenceConfig, Ledger, WorldResult
from dexprior.transfer.divergence import (
    Divergence,
    DivergenceDetector,
    Signals,
    distance,
    draw_divergence,
    signals_of,
)
from dexprior.transfer.page import Page, ledger_section
from dexprior.worlds.insertion import ABOUT_OTHER

__all__ = ["stage_backends", "stage_ledger"]

CHANNELS = ("tool_position", "force", "touch", "opening")
"""Measured channels that the ledger compares."""
DIVERGENCE = DivergenceConfig(timing="")  # a policy reacts, so that its command has no phase to be late in


def stage_ledger(config: EvaluationConfig, policy: Path, folder: Path, *, seed: int) -> dict[str, Any]:
    """Fill in the ledger of one policy: both worlds on the same panel, and where their traces part."""

    def work() -> dict[str, Any]:
        act = actor_policy(load_actor(policy / "actor.safetensors"))
        sim, panel = run_world(act, "sim", config)
        real, other = run_world(act, "other", config)
        trained = read_tensors(policy / "actor.safetensors")[1]["extra"]
        compared = [_compared(act, panel, config, i) for i in range(min(config.compared, len(panel)))]
        ledger = Ledger(
            round="1",
            policy="PPO with behavioral prior" if trained["prior"] else "PPO without prior",
            assumed=TASK.family,
            sim=WorldResult("simulator", sim.success, sim.slip_rate, sim.held, panel.hash),
            real=WorldResult("other contact", real.success, real.slip_rate, real.held, other.hash),
            divergences=tuple(tuple(found) for *_, found in compared),
            distance=_mean_distance(compared),
            cases=tuple(str(i) for i in np.flatnonzero(sim.success & ~real.success)),
            notes=(f"{ABOUT_OTHER} No hardware was used.",),
        )
        ledger.save(folder / "ledger.json")
        if ledger.cases:
            panel.take([int(i) for i in ledger.cases]).save(folder / "cases.json")
        data = ledger.to_json()
        page = Page("Transfer ledger", "What the simulator promised, and what the other world gave")
        ledger_section(page, data)
        figure = draw_divergence(*compared[0])
        page.figure(figure, "Scene 0: two standard deviations of the simulated family, and the other world")
        page.write(folder / "ledger.html")
        return {k: data[k] for k in ("success", "slip_rate", "success_gap", "slip_gap", "earliest")}

    parents = (file_hash(policy / "actor.safetensors"),)
    return run_stage(folder, "ledger", config, seed, work, parents=parents)


def stage_backends(
    config: EvaluationConfig, policy: Path, collision: Path, folder: Path, *, seed: int
) -> dict[str, Any]:
    """The same policy and task instances through all four backends of the environment."""

    def work() -> dict[str, Any]:
        act = actor_policy(load_actor(policy / "actor.safetensors"))
        panel = Panel.sample("backends", TASK, config.backend_scenes, seed=config.seed)
        kinds = {
            "mujoco": BackendConfig(),
            "hybrid": BackendConfig(
                kind="hybrid", simulation=SimulationOptions(checkpoint=str(collision / "collision.safetensors"))
            ),
            "reality": BackendConfig(kind="reality"),
            "hardware": BackendConfig(kind="hardware", hardware=HardwareOptions(keep=str(folder / "gate"))),
        }
        return {name: _episodes(act, chosen, panel) for name, chosen in kinds.items()}

    parents = (file_hash(policy / "actor.safetensors"), file_hash(collision / "collision.safetensors"))
    return run_stage(folder, "backends", config, seed, work, parents=parents)


def _episodes(act: Policy, chosen: BackendConfig, panel: Panel) -> dict[str, Any]:
    backend = make_backend(chosen)
    try:
        episodes = run_episodes(act, backend, panel)
    except SafetyStop as stop:
        return {"stopped": str(stop)}
    finally:
        backend.close()
    result: dict[str, Any] = {
        "success": Rate(int(episodes.success.sum()), len(episodes.success)).as_dict(),
        "largest_force_N": max(float(np.linalg.norm(r.wrench[..., :3], axis=-1).max()) for r in episodes.robots),
        "slip_rate": float(episodes.slip_rate.mean()),
    }
    if hasattr(backend, "slowed"):
        result["slowed_commands"] = backend.slowed
    if hasattr(backend, "counts"):
        result["collision_model"] = dict(backend.counts)
    return result


Compared = tuple[DivergenceDetector, Signals, list[Divergence]]


def _compared(act: Policy, panel: Panel, config: EvaluationConfig, instance: int) -> Compared:
    """Traces of one scene over the assumed family against one trace of the other world."""
    task = TASK
    values = task.family.sample(np.random.default_rng([config.seed, 7, instance]), config.repeats)
    noise = np.random.default_rng([config.seed, 8, instance]).integers(2**31, size=config.repeats + 1)

    def variants(family: ParameterFamily, rows: np.ndarray, seeds: np.ndarray) -> Panel:
        same = panel.take([instance] * len(rows))
        return replace(same, name="repeats", family=family, parameters=rows, seeds=seeds)

    assumed = variants(task.family, values, noise[:-1])
    other = variants(task.reality, task.reality.sample(np.random.default_rng(0), 1), noise[-1:])
    simulated = run_episodes(act, SimBackend(task, config.repeats), assumed)
    real = run_episodes(act, SimBackend(task.other(), 1, family=task.reality), other)
    reference = signals_of(
        [[replace(t, panel_hash=panel.hash)] for t in traces(simulated, assumed, "mujoco")], CHANNELS
    )  # fmt: skip
    measured = signals_of([[replace(traces(real, other, "other")[0], panel_hash=panel.hash)]], CHANNELS, like=reference)
    detector = DivergenceDetector.fit(reference, DIVERGENCE)
    return detector, measured, detector.compare(measured, seed=config.seed)[0]


def _mean_distance(compared: Sequence[Compared]) -> dict[str, float]:
    apart = [distance(measured, detector.reference) for detector, measured, _ in compared]
    return {name: float(np.mean([d[name] for d in apart])) for name in CHANNELS}
