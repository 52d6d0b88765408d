"""Running policies: batched episodes, success, slip rate, and traces for the ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from dexprior.behavior import BehaviorPrior
from dexprior.envs.line.base import HORIZON, Backend, Reading, command_from_action, observe, success
from dexprior.envs.line.panel import Panel
from dexprior.types import Channel, Trace
from dexprior.worlds.measures import slip_rate
from dexprior.worlds.stepping import CONTROL_DT

__all__ = ["Episodes", "Policy", "actor_policy", "prior_policy", "recorded", "run_episodes", "traces"]

Policy = Callable[[dict[str, np.ndarray], Reading], Float[np.ndarray, "n 7"]]
"""Observation (and the reading it came from, for open-loop baselines) -> actions."""


@dataclass(frozen=True)
class Episodes:
    """One episode of each instance of a panel; time first."""

    success: Bool[np.ndarray, " n"]
    slip_rate: Float[np.ndarray, " n"]
    """Share of the held steps in which the nut slips; 0 for a nut that was never held."""
    held: Bool[np.ndarray, " n"]
    """Whether the nut was held at any time."""
    t: Float[np.ndarray, " step"]
    tcp: Float[np.ndarray, "step n 7"]
    opening: Float[np.ndarray, "step n"]
    wrench: Float[np.ndarray, "step n 6"]
    touch: Float[np.ndarray, "step n 2"]
    slip: Float[np.ndarray, "step n"]
    nut: Float[np.ndarray, "step n 7"]
    action: Float[np.ndarray, "step n 7"]


def actor_policy(actor: Any) -> Policy:
    """The mean action of a trained actor."""
    return lambda observation, reading: actor.act(observation)


def prior_policy(prior: BehaviorPrior, scene: np.ndarray) -> Policy:
    """The most likely trajectory of the behavioral prior, followed with feedback on the tool's own pose only."""

    def act(observation: dict[str, np.ndarray], reading: Reading) -> Float[np.ndarray, "n 7"]:
        mean, log_weight = prior.components(reading.tcp, reading.t, scene)
        return mean[np.arange(len(mean)), log_weight.argmax(axis=1)]

    return act


def run_episodes(policy: Policy, backend: Backend, panel: Panel) -> Episodes:
    """One episode of each instance; the panel's length is a multiple of the number of worlds."""
    parts: list[dict[str, Any]] = []
    for start in range(0, len(panel), backend.n):
        instances = panel.instances[start : start + backend.n]
        reading = backend.reset(instances)
        rows = []
        for _ in range(HORIZON):
            action = policy(observe(reading), reading)
            reading = backend.step(*command_from_action(action))
            rows.append((reading, action))
        parts.append({"rows": rows, "success": success(reading, backend.world)})

    def gather(get: Callable[[Reading], np.ndarray]) -> np.ndarray:
        return np.concatenate([np.stack([get(r) for r, _ in p["rows"]]) for p in parts], axis=1)

    slip = gather(lambda r: r.truth.slip)  # type: ignore[union-attr]
    held = gather(lambda r: r.truth.held)  # type: ignore[union-attr]
    return Episodes(
        success=np.concatenate([p["success"] for p in parts]),
        slip_rate=np.nan_to_num(slip_rate(slip, held)),  # zero where nothing was ever held
        held=np.any(held, axis=0),
        t=gather(lambda r: r.t)[:, 0],
        tcp=gather(lambda r: r.tcp),
        opening=gather(lambda r: r.opening),
        wrench=gather(lambda r: r.wrench),
        touch=gather(lambda r: r.touch),
        slip=slip,
        nut=gather(lambda r: r.truth.nut),  # type: ignore[union-attr]
        action=np.concatenate([np.stack([a for _, a in p["rows"]]) for p in parts], axis=1),
    )


def recorded(episodes: Episodes, panel: Panel, backend: str) -> list[Trace]:
    """What a robot logs to be trained on: one trace an instance, with the tool's pose and the actions as they are sent.

    `dexprior.behavior.read_recordings` reads them; `panel.json` belongs beside them.
    """
    return [
        Trace(
            channels={
                "tool_pose": Channel(
                    t=episodes.t, t_host=episodes.t, value=episodes.tcp[:, i], unit="m, 1", frame="base",
                    kind="measured",
                ),
                "command": Channel(
                    t=episodes.t - CONTROL_DT, t_host=episodes.t - CONTROL_DT, value=episodes.action[:, i], unit="1",
                    frame="base", kind="commanded",
                ),
            },
            panel_hash=panel.hash,
            info={"instance": i, "backend": backend, "success": bool(episodes.success[i])},
        )
        for i in range(len(episodes.success))
    ]  # fmt: skip


def traces(episodes: Episodes, panel: Panel, backend: str) -> list[Trace]:
    """The ledger's view of episodes: one trace an instance."""

    def channel(value: np.ndarray, unit: str, frame: str, kind: str = "measured") -> Channel:
        value = value[:, None] if value.ndim == 1 else value
        return Channel(t=episodes.t, t_host=episodes.t, value=value, unit=unit, frame=frame, kind=kind)  # type: ignore[arg-type]

    return [
        Trace(
            channels={
                "tool_position": channel(episodes.tcp[:, i, :3], "m", "base"),
                "force": channel(episodes.wrench[:, i, :3], "N", "sensor"),
                "touch": channel(episodes.touch[:, i], "N", "pads"),
                "opening": channel(episodes.opening[:, i], "m", "-"),
                "slip": channel(episodes.slip[:, i], "m/s", "tcp", "privileged"),
                "object": channel(episodes.nut[:, i, :3], "m", "base", "privileged"),
                "command": channel(episodes.action[:, i], "1", "base", "commanded"),
            },
            panel_hash=panel.hash,
            info={"instance": i, "backend": backend, "success": bool(episodes.success[i])},
        )
        for i in range(len(episodes.success))
    ]
