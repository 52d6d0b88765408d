"""Simulated worlds of a task as a backend: its truth, seen through sensors and links, with each instance's noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dexprior.envs.base import ActionSpec, Reading, RobotCommand, RobotReading
from dexprior.envs.noise import fast_normals, lane, noisy_touch, noisy_wrench, normals, uniforms
from dexprior.envs.panel import Panel
from dexprior.families import DROPOUTS, ParameterFamily, Phenomena, SensorModels
from dexprior.worlds.engine import Engine
from dexprior.worlds.tasks import ArmAction, Physics, RigState, Task, TaskWorlds

__all__ = ["SimBackend"]

_PROPRIO = ("q", "qd", "tcp", "end")


class SimBackend:
    """n simulated worlds; see `dexprior.envs.base.Backend`.

    Noise is drawn from (instance seed, step), so that a world's readings depend neither on its neighbours nor on when
    they are read.

    Args:
        task: what is done.
        n: worlds.
        family: of the parameters that panels give values of; the task's training family by default.
        phenomena: of contact, that the engine leaves out; none by default.
        sensors: models of the robots' sensors and links; none by default. Seeded by the instance.
        arm_action: what the arm's part of a command is.
        threads: of MuJoCo's pool; 0 takes all cores. Results do not depend on it.
        physics: what steps the worlds.
        around: what is put around that engine, e.g. learned collisions.

    Raises:
        BadInput, UnknownName, MissingExtra: as `TaskWorlds`.
    """

    def __init__(
        self,
        task: Task,
        n: int,
        *,
        family: ParameterFamily | None = None,
        phenomena: Phenomena | None = None,
        sensors: SensorModels | None = None,
        arm_action: ArmAction = "cartesian",
        threads: int = 0,
        physics: Physics = "mujoco",
        around: Callable[[Engine], Engine] | None = None,
    ) -> None:
        self.task, self.n = task, n
        self.options: dict[str, Any] = {
            "family": family, "phenomena": phenomena, "sensors": sensors, "arm_action": arm_action, "threads": threads,
        }  # fmt: skip
        """What another backend of the same worlds is made with."""
        self.worlds = TaskWorlds(task, n, physics=physics, around=around, **self.options)
        self.steps = np.zeros(n, dtype=int)
        """Control periods since each world's reset."""
        self._seeds = np.zeros(n, dtype=np.int64)
        self._noise = np.zeros((n, 2))
        self._fresh: dict[str, np.ndarray] = {}

    @property
    def actions(self) -> ActionSpec:
        """Its robots, and what their actions mean."""
        return self.worlds.actions

    @property
    def labels(self) -> bool:
        """Whether the place of a point in the cloud says which body it lies on."""
        return self.worlds.labels

    def reset(self, panel: Panel, ids: np.ndarray | None = None) -> Reading:
        """Start one instance in each world, or in some; the others stay as they are.

        Raises:
            BadInput: not exactly one instance a world, or a panel of another task.
            UnknownName: a parameter that these worlds do not have.
        """
        ids = np.arange(self.n) if ids is None else np.asarray(ids)
        panel.require(self.task, len(ids))
        rows = [panel.family.as_dict(row) for row in panel.parameters]
        self.worlds.reset(ids, panel.scenes, rows, panel.events, seeds=panel.seeds)
        self._seeds[ids], self.steps[ids] = panel.seeds, 0
        self._set_noise(ids)
        return self._read()

    def step(self, commands: Sequence[RobotCommand]) -> Reading:
        """Advance all worlds by one control period.

        Raises:
            BadInput: commands of another shape, or one that is not finite.
        """
        self.worlds.drive(commands)
        if len(self.worlds.changed):
            self._set_noise(self.worlds.changed)
        self.steps += 1
        return self._read()

    def close(self) -> None:
        """Nothing to let go of."""

    def _set_noise(self, ids: np.ndarray) -> None:
        rows = (self.worlds.view.parameters[i] for i in ids)
        self._noise[ids] = [[row.get(name, 0.0) for name in ("wrench_noise", "cloud_noise")] for row in rows]

    def _read(self) -> Reading:
        truth = self.worlds.truth()
        rigs = self.worlds.sensed(self.worlds.view.rigs)
        streams = self.worlds.received(self._noisy(rigs, self.task.cloud(self.worlds.view, truth)))
        self._keep_stale(streams)
        robots, tip = [], 0
        for k, rig in enumerate(rigs):
            fingers = slice(tip, tip + rig.touch.shape[1])
            seen = {name: streams[f"proprio/{k}/{name}"] for name in _PROPRIO}
            wrench, touch = streams["wrench"][:, 6 * k : 6 * k + 6], streams["touch"][:, fingers]
            robots.append(RobotReading(**seen, wrench=wrench, touch=touch))
            tip = fingers.stop
        return Reading(
            t=self.steps * self.task.control_dt, robots=tuple(robots), cloud=streams["cloud"], truth=truth,
            bodies=streams.get("cloud/bodies"),
        )  # fmt: skip

    def _noisy(self, rigs: Sequence[RigState], cloud: np.ndarray) -> dict[str, np.ndarray]:
        """What leaves the robots in this control period: `proprio/ROBOT/FIELD`, `wrench`, `touch`, `cloud`; and beside
        a cloud without labels `cloud/bodies`, so that they stay together on the way."""
        wrench, touch = np.concatenate([r.wrench for r in rigs], 1), np.concatenate([r.touch for r in rigs], 1)
        felt = wrench.shape[1]
        drawn = normals(self._seeds, self.steps, felt + touch.shape[1])
        strength, blur = self._noise[:, :1], self._noise[:, 1:].astype(np.float32)
        grain = fast_normals(self._seeds, self.steps, cloud[0].size)
        chance = None if self.labels else uniforms(lane(self._seeds, "sight"), self.steps, cloud.shape[1])
        measured = cloud.astype(np.float32) + (blur * grain).reshape(cloud.shape)
        shown, bodies = self.worlds.seen(cloud, measured, chance)
        proprio = {f"proprio/{k}/{name}": getattr(r, name) for k, r in enumerate(rigs) for name in _PROPRIO}
        return proprio | {
            "wrench": noisy_wrench(wrench, strength, drawn[:, :felt]),
            "touch": noisy_touch(touch, strength, drawn[:, felt:]),
            "cloud": shown,
            **({} if bodies is None else {"cloud/bodies": bodies}),
        }

    def _keep_stale(self, streams: dict[str, np.ndarray]) -> None:
        """Where a stream has dropped out, what was seen before."""
        for stream in DROPOUTS:
            stale = self.worlds.stale(stream)
            if stale is None:
                continue
            for name in [name for name in streams if name.partition("/")[0] == stream]:
                old = stale & (self.steps > 0) & (name in self._fresh)
                if old.any():
                    kept = old.reshape(-1, *[1] * (streams[name].ndim - 1))
                    streams[name] = np.where(kept, self._fresh[name], streams[name])
                self._fresh[name] = streams[name]
