"""One name, one backend: simulated, with learned collisions, behind a socket, or a robot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, get_args

import numpy as np

from dexprior.config import Ge, Gt, config, to_plain, validate
from dexprior.envs.base import Backend, BackendName, EngineName
from dexprior.envs.hardware.options import HardwareOptions
from dexprior.errors import ConfigError, UnknownName
from dexprior.families import ParameterFamily, Phenomena, SensorModels
from dexprior.worlds.tasks import Task, make_task

if TYPE_CHECKING:
    from dexprior.envs.sim import SimBackend

__all__ = [
    "BackendConfig",
    "HardwareOptions",
    "RealityOptions",
    "SimulationOptions",
    "make_backend",
    "simulate",
]


@config
class SimulationOptions:
    """Worlds that are simulated here."""

    threads: Annotated[int, Ge(0)] = 0
    """Size of the thread pool; 0 takes all cores. Results do not depend on it."""
    sensors: SensorModels = SensorModels()
    """Models of what the robots sense, and of the links that carry it."""
    phenomena: Phenomena = Phenomena()
    """Laws of contact that the engine leaves out."""
    checkpoint: str | None = None
    """For learned collisions: file of the collision model; required there."""
    phi: tuple[float, ...] | None = None
    """Its contact parameters; by default those that the file was identified with."""
    min_approach: Annotated[float, Gt(0)] = 0.1
    """Approach speed that makes a first touch an impact [m/s]."""

    def told(self, sensors: str | None, phenomena: Mapping[str, Any]) -> SimulationOptions:
        """These options with the models of a file, and with phenomena by their plain values; others stay.

        Args:
            sensors: JSON of sensor models, as `dexprior ledger fit-noise` writes it; None changes none.
            phenomena: e.g. `{"stribeck": {}}`.

        Raises:
            BadInput: no such file.
            ConfigError: an unknown name, or a value out of range; the path is named.
        """
        models = SensorModels() if sensors is None else SensorModels.read(sensors)
        return replace(
            self,
            sensors=self.sensors.updated(models),
            phenomena=validate(Phenomena, to_plain(self.phenomena) | dict(phenomena), where="phenomena"),
        )


@config
class RealityOptions:
    """A world in another process."""

    host: str = "127.0.0.1"
    """Where a running server listens."""
    port: Annotated[int, Ge(1)] | None = None
    """Its port; None starts a server of our own, which ends with the backend."""
    seed: Annotated[int, Ge(0)] = 0
    """Draws the values of a server of our own."""
    sensors: SensorModels = SensorModels()
    """Models of what a server of our own senses, and of the links that carry it."""
    tracker: bool = True
    """Whether a server of our own tells the truth about the object."""
    timeout: Annotated[float, Gt(0)] = 10.0
    """Within which each request must be answered [s]."""


@config
class BackendConfig:
    """Which backend, and the options of each kind; those of the other kinds are not read."""

    kind: BackendName = "mujoco"
    """One of mujoco, hybrid, warp, reality, hardware."""
    n: Annotated[int, Ge(1)] = 1
    """Worlds stepped together, where they are simulated."""
    simulation: SimulationOptions = SimulationOptions()
    """Simulated worlds: by MuJoCo, with learned collisions, or by MuJoCo Warp on a GPU."""
    reality: RealityOptions = RealityOptions()
    """Behind a socket."""
    hardware: HardwareOptions = HardwareOptions()
    """A robot."""


def make_backend(
    backend: BackendName | BackendConfig,
    *,
    task: Task | str = "insertion",
    family: ParameterFamily | None = None,
    n: int | None = None,
) -> Backend:
    """The backend of a name (with its default options) or of a configuration.

    Args:
        backend: `mujoco`, `hybrid`, `warp`, `reality`, `hardware`, or a `BackendConfig`.
        task: what is done there. By name it is the training world's for simulators, and the other world's for a reality
            server or a loopback robot. A server that runs already has its own.
        family: of the parameters; by default the task's training family for simulators, and its `reality` otherwise.
        n: worlds of a simulator, instead of the configuration's.

    Raises:
        UnknownName: no such kind, or no such task.
        ConfigError: an option that this kind requires is missing.
        ArtifactError, ConnectionLost: the collision model, the server or the robot is not there.
    """
    chosen = backend if isinstance(backend, BackendConfig) else BackendConfig(kind=backend)
    if chosen.kind not in get_args(BackendName):
        raise UnknownName("backend", chosen.kind, get_args(BackendName))
    if isinstance(task, str):
        task = make_task(task) if chosen.kind in get_args(EngineName) else make_task(task).other()
    if chosen.kind == "reality":
        return _reality(chosen.reality, task, family)
    if chosen.kind == "hardware":
        return _hardware(chosen.hardware, task, family)
    return simulate(chosen.kind, task, n or chosen.n, family=family, options=chosen.simulation)


def simulate(
    engine: EngineName,
    task: Task,
    n: int,
    *,
    family: ParameterFamily | None = None,
    options: SimulationOptions | None = None,
) -> SimBackend:
    """n worlds of a task, stepped by MuJoCo, with learned collisions, or by MuJoCo Warp.

    Raises:
        ConfigError: learned collisions without a checkpoint.
        ArtifactError: the collision model cannot be read.
        BadInput, MissingExtra: the engine cannot step this task, or is not installed.
    """
    o = options or SimulationOptions()
    common: dict[str, Any] = {"family": family, "sensors": o.sensors, "phenomena": o.phenomena, "threads": o.threads}
    if engine != "hybrid":
        from dexprior.envs.sim import SimBackend

        return SimBackend(task, n, physics=engine, **common)
    if o.checkpoint is None:
        raise ConfigError("backend.simulation.checkpoint: required; the collision stage writes collision.safetensors")
    from dexprior.collision import HybridConfig  # these two load torch
    from dexprior.envs.hybrid import HybridBackend

    return HybridBackend.load(
        task,
        n,
        o.checkpoint,
        phi=None if o.phi is None else np.array(o.phi),
        config=HybridConfig(min_approach=o.min_approach),
        **common,
    )


def _reality(options: RealityOptions, task: Task, family: ParameterFamily | None) -> Backend:
    from dexprior.envs.reality import RealityBackend, start_server

    if options.port is not None:
        return RealityBackend((options.host, options.port), timeout=options.timeout)
    server = start_server(task=task, family=family, sensors=options.sensors, seed=options.seed, tracker=options.tracker)
    return RealityBackend(server, timeout=options.timeout)


def _hardware(options: HardwareOptions, task: Task, family: ParameterFamily | None) -> Backend:
    from dexprior.envs.hardware import HardwareBackend, start_gate

    return HardwareBackend(start_gate(options, task=task, family=family))
