"""The transfer stages: the ledger of a policy, and a few episodes through every backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from dexprior.artifacts import file_hash, read_tensors
from dexprior.envs.base import EngineName
from dexprior.envs.factory import BackendConfig, HardwareOptions, SimulationOptions, make_backend
from dexprior.envs.hardware import why_no_gate
from dexprior.envs.panel import Panel
from dexprior.envs.sim import SimBackend
from dexprior.errors import SafetyStop
from dexprior.families import ParameterFamily, SensorModels
from dexprior.pipeline.rounds import REAL, SIM, Tried, explain_round, write_round
from dexprior.pipeline.stages import (
    EvaluationConfig,
    parents_of,
    run_stage,
    run_world,
    seen_through,
    trained_sensors,
    trained_task,
)
from dexprior.pipeline.worlds import ABOUT_OTHER
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
from dexprior.worlds.tasks import Task, learned_family

__all__ = ["stage_backends", "stage_ledger"]

CHANNELS = ("tool_position", "force", "touch", "opening")
"""Measured channels that the ledger compares, where the robot has them: hands have no opening."""
DIVERGENCE = DivergenceConfig(timing="")  # a policy reacts, so that its command has no phase to be late in


def stage_ledger(
    config: EvaluationConfig, policy: Path, folder: Path, *, seed: int, family: Sequence[str | Path] = ()
) -> dict[str, Any]:
    """Fill in the ledger of one policy: both worlds on the same panel, where their traces part, and which gap explains
    it. The folder is a round, which `ledger plan` and `ledger update` read.

    The simulator has the parameters of `family` (files of `learned_family`) in place of the task's.
    """

    def work() -> dict[str, Any]:
        task, act = trained_task({"policy": policy}), actor_policy(load_actor(policy / "actor.safetensors"))
        assumed, sensors = learned_family(task, family), trained_sensors(policy)
        sim, panel = run_world(act, "sim", config, task=task, assumed=assumed, sensors=sensors)
        real, other = run_world(act, "other", config, task=task, sensors=sensors)
        trained = read_tensors(policy / "actor.safetensors")[1]["extra"]
        compared = [
            _where_traces_part(act, task, panel, config, i, sensors) for i in range(min(config.compared, len(panel)))
        ]
        tried = Tried(task=task, policy=policy, act=act, panel=panel, family=assumed, sim=sim, real=real)
        write_round(tried, folder, seed=seed)
        diagnosis, said = explain_round(folder, seed=seed)
        ledger = Ledger(
            round="1",
            policy="PPO with behavioral prior" if trained["prior"] else "PPO without prior",
            assumed=assumed,
            sim=WorldResult(SIM, sim.success, sim.slip_rate, sim.held, panel.hash),
            real=WorldResult(REAL, real.success, real.slip_rate, real.held, other.hash),
            divergences=tuple(tuple(found) for *_, found in compared),
            distance=_mean_distance(compared),
            cases=tuple(str(i) for i in np.flatnonzero(sim.success & ~real.success)),
            diagnosis=diagnosis.gaps,
            notes=(f"{ABOUT_OTHER} No hardware was used.", said),
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
        return {k: data[k] for k in ("success", "slip_rate", "success_gap", "slip_gap", "earliest", "diagnosis")}

    parents = parents_of(policy / "actor.safetensors", *map(Path, family))
    return run_stage(folder, "ledger", config, seed, work, parents=parents)


def stage_backends(
    config: EvaluationConfig, policy: Path, collision: Path, folder: Path, *, seed: int
) -> dict[str, Any]:
    """The same policy and task instances through all four backends of the environment.

    A task in which nothing is struck has no `hybrid`; one without limits for a gate says so in place of `hardware`.
    """

    def work() -> dict[str, Any]:
        task, act = trained_task({"policy": policy}), actor_policy(load_actor(policy / "actor.safetensors"))
        panel = Panel.sample("backends", task, config.backend_scenes, seed=config.seed)
        kinds = {
            "mujoco": BackendConfig(),
            "hybrid": BackendConfig(
                kind="hybrid", simulation=SimulationOptions(checkpoint=str(collision / "collision.safetensors"))
            ),
            "reality": BackendConfig(kind="reality"),
            "hardware": BackendConfig(kind="hardware", hardware=HardwareOptions(keep=str(folder / "gate"))),
        }
        if not task.struck:
            del kinds["hybrid"]
        missing, sensors = why_no_gate(task), trained_sensors(policy)
        if missing is not None:
            del kinds["hardware"]
        found = {name: _episodes(act, seen_through(chosen, sensors), task, panel) for name, chosen in kinds.items()}
        return found if missing is None else found | {"hardware": {"left_out": missing}}

    parents = (file_hash(policy / "actor.safetensors"), file_hash(collision / "collision.safetensors"))
    return run_stage(folder, "backends", config, seed, work, parents=parents)


def _episodes(act: Policy, chosen: BackendConfig, task: Task, panel: Panel) -> dict[str, Any]:
    backend = make_backend(chosen, task=task if chosen.kind in get_args(EngineName) else task.other())
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


def _where_traces_part(
    act: Policy, task: Task, panel: Panel, config: EvaluationConfig, instance: int, sensors: SensorModels
) -> Compared:
    """Traces of one scene over the assumed family against one trace of the other world."""
    values = panel.family.sample(np.random.default_rng([config.seed, 7, instance]), config.repeats)
    noise = np.random.default_rng([config.seed, 8, instance]).integers(2**31, size=config.repeats + 1)

    def variants(family: ParameterFamily, rows: np.ndarray, seeds: np.ndarray) -> Panel:
        same = panel.take([instance] * len(rows))
        return replace(same, name="repeats", family=family, parameters=rows, seeds=seeds)

    assumed = variants(panel.family, values, noise[:-1])
    other = variants(task.reality, task.reality.sample(np.random.default_rng(0), 1), noise[-1:])
    simulated = run_episodes(act, SimBackend(task, config.repeats, family=panel.family, sensors=sensors), assumed)
    real = run_episodes(act, SimBackend(task.other(), 1, family=task.reality, sensors=sensors), other)
    logged = traces(real, other, "other")[0]
    channels = tuple(name for name in CHANNELS if name in logged.channels)
    reference = signals_of(
        [[replace(t, panel_hash=panel.hash)] for t in traces(simulated, assumed, "mujoco")], channels
    )  # fmt: skip
    measured = signals_of([[replace(logged, panel_hash=panel.hash)]], channels, like=reference)
    detector = DivergenceDetector.fit(reference, DIVERGENCE)
    return detector, measured, detector.compare(measured, seed=config.seed)[0]


def _mean_distance(compared: Sequence[Compared]) -> dict[str, float]:
    apart = [distance(measured, detector.reference) for detector, measured, _ in compared]
    return {name: float(np.mean([d[name] for d in apart])) for name in apart[0]}
