"""Running policies: batched episodes, success, slip rate, and traces for the ledger."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from dexprior.behavior import BehaviorPrior
from dexprior.envs.base import Backend, FirstLook, ObservationSpec, Reading, RobotReading, tracked
from dexprior.envs.panel import Panel
from dexprior.types import Channel, ChannelKind, Trace
from dexprior.worlds.measures import slip_rate
from dexprior.worlds.tasks import Task, expert_of

__all__ = ["Episodes", "Policy", "actor_policy", "expert_policy", "prior_policy", "recorded", "run_episodes", "traces"]

Policy = Callable[[dict[str, np.ndarray], Reading], Float[np.ndarray, "n action"]]
"""Observation (and the reading it came from, for open-loop baselines) -> actions."""


@dataclass(frozen=True)
class Episodes:
    """One episode of each instance of a panel; time first."""

    success: Bool[np.ndarray, " n"]
    """The verdict at the end, of episodes that were not lost before."""
    lost: Bool[np.ndarray, " n"]
    """Whether the task ever said that an episode is lost for good."""
    slip_rate: Float[np.ndarray, " n"]
    """Share of the held steps in which the object slips; 0 for one that was never held."""
    held: Bool[np.ndarray, " n"]
    """Whether the object was held at any time."""
    saturated: int
    """Numbers of all actions that were clipped to [-1, 1]."""
    control_dt: float
    """[s]"""
    t: Float[np.ndarray, " step"]
    robots: tuple[RobotReading, ...]
    """Arrays (step, n, ...)."""
    opening: Float[np.ndarray, "step n robot"] | None
    """Distance between the pads of parallel grippers [m]; None for other end effectors."""
    slip: Float[np.ndarray, "step n"]
    object: Float[np.ndarray, "step n 7"]
    action: Float[np.ndarray, "step n action"]


def actor_policy(actor: Any) -> Policy:
    """The mean action of a trained actor."""
    return lambda observation, reading: actor.act(observation)


def prior_policy(prior: BehaviorPrior, scene: np.ndarray) -> Policy:
    """The most likely trajectory of the behavioral prior, followed with feedback on the robots' own poses and touch."""

    def act(observation: dict[str, np.ndarray], reading: Reading) -> Float[np.ndarray, "n action"]:
        mean, log_weight = prior.components(reading.tools, reading.t, scene, reading.grips)
        return mean[np.arange(len(mean)), log_weight.argmax(axis=1)]

    return act


def expert_policy(task: Task) -> Policy:
    """The scripted expert of a task, who is told where everything is.

    Raises:
        UnknownName: it has none.
    """
    expert, memory = expert_of(task.name), np.zeros((0, 4))

    def act(observation: dict[str, np.ndarray], reading: Reading) -> Float[np.ndarray, "n action"]:
        nonlocal memory
        t = float(np.round(reading.t[0] / task.control_dt) * task.control_dt)
        if t == 0.0:
            memory = np.zeros((len(reading.t), 4))
        return expert(tracked(reading), reading.robots, t, memory)  # type: ignore[arg-type]  # joints, tools and touch

    return act


def run_episodes(policy: Policy, backend: Backend, panel: Panel) -> Episodes:
    """One episode of each instance; the panel's length is a multiple of the number of worlds.

    Raises:
        BadInput: it is none, or nothing tracks the object in these worlds.
    """
    task, see = backend.task, ObservationSpec.of(backend)
    parts: list[list[tuple[Reading, np.ndarray]]] = []
    for start in range(0, len(panel), backend.n):
        reading = backend.reset(panel.take(np.arange(start, min(start + backend.n, len(panel)))))
        rows, look = [], FirstLook(labels=backend.labels)
        for _ in range(task.steps):
            action = policy(see.observe(reading, look.see(reading)), reading)
            reading = backend.step(backend.actions.commands(action))
            rows.append((reading, action))
        parts.append(rows)

    def gather(get: Callable[[Any], np.ndarray], robot: int | None = None) -> np.ndarray:
        """An array of every reading, or of one robot in it."""
        seen = [[reading if robot is None else reading.robots[robot] for reading, _ in rows] for rows in parts]
        return np.concatenate([np.stack([get(one) for one in rows]) for rows in seen], axis=1)

    slip, held = gather(lambda r: tracked(r)["slip"]), gather(lambda r: tracked(r)["held"])
    lost = np.any(gather(lambda r: task.failure(tracked(r))), axis=0)
    action = np.concatenate([np.stack([a for _, a in rows]) for rows in parts], axis=1)
    robots = []
    for k in range(len(backend.actions.rigs)):
        fields = {name: gather(operator.attrgetter(name), robot=k) for name in _FIELDS}
        robots.append(RobotReading(**fields))
    slides = all(all(rig.end.slides) for rig in backend.actions.rigs)
    return Episodes(
        success=np.concatenate([task.success(tracked(rows[-1][0])) for rows in parts]) & ~lost,
        lost=lost,
        slip_rate=np.nan_to_num(slip_rate(slip, held)),  # zero where nothing was ever held
        held=np.any(held, axis=0),
        saturated=backend.actions.saturated(action),
        control_dt=task.control_dt,
        t=gather(lambda r: r.t)[:, 0],
        robots=tuple(robots),
        opening=np.stack([robot.end.sum(axis=2) for robot in robots], axis=2) if slides else None,
        slip=slip,
        object=gather(lambda r: tracked(r)["object"]),
        action=action,
    )


_FIELDS = ("q", "qd", "tcp", "end", "wrench", "touch")


def recorded(episodes: Episodes, panel: Panel, backend: str) -> list[Trace]:
    """What robots log to be trained on: one trace an instance, with the tools' poses and the actions as they are sent.

    `dexprior.behavior.read_recordings` reads them; `panel.json` belongs beside them.
    """
    sent = episodes.t - episodes.control_dt
    tools = np.concatenate([robot.tcp for robot in episodes.robots], axis=2)
    return [
        Trace(
            channels={
                "tool_pose": _channel(episodes.t, tools[:, i], "m, 1", "base"),
                "command": _channel(sent, episodes.action[:, i], "1", "base", "commanded"),
            },
            panel_hash=panel.hash,
            info={"instance": i, "backend": backend, "success": bool(episodes.success[i])},
        )
        for i in range(len(episodes.success))
    ]


def traces(episodes: Episodes, panel: Panel, backend: str) -> list[Trace]:
    """The ledger's view of episodes: one trace an instance, with the channels of all robots side by side."""
    t = episodes.t

    def all_robots(get: Callable[[RobotReading], np.ndarray]) -> np.ndarray:
        return np.concatenate([get(robot) for robot in episodes.robots], axis=2)

    position, force = all_robots(lambda r: r.tcp[..., :3]), all_robots(lambda r: r.wrench[..., :3])
    touch, opening = all_robots(lambda r: r.touch), episodes.opening
    return [
        Trace(
            channels={
                "tool_position": _channel(t, position[:, i], "m", "base"),
                "force": _channel(t, force[:, i], "N", "sensor"),
                "touch": _channel(t, touch[:, i], "N", "pads"),
                **({} if opening is None else {"opening": _channel(t, opening[:, i], "m", "-")}),
                "slip": _channel(t, episodes.slip[:, i], "m/s", "tcp", "privileged"),
                "object": _channel(t, episodes.object[:, i, :3], "m", "base", "privileged"),
                "command": _channel(t, episodes.action[:, i], "1", "base", "commanded"),
            },
            panel_hash=panel.hash,
            info={"instance": i, "backend": backend, "success": bool(episodes.success[i])},
        )
        for i in range(len(episodes.success))
    ]


def _channel(t: np.ndarray, value: np.ndarray, unit: str, frame: str, kind: ChannelKind = "measured") -> Channel:
    value = value[:, None] if value.ndim == 1 else value
    return Channel(t=t, t_host=t, value=value, unit=unit, frame=frame, kind=kind)
