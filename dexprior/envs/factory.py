"""One name, one backend: simulated, with learned collisions, behind a socket, or a robot."""

from __future__ import annotations

from typing import Annotated, get_args

import numpy as np

from dexprior.config import Ge, Gt, config
from dexprior.envs.base import Backend, BackendName
from dexprior.envs.hardware.options import HardwareOptions
from dexprior.errors import ConfigError, UnknownName
from dexprior.families import ParameterFamily
from dexprior.worlds.tasks import Task, make_task

__all__ = [
    "BackendConfig",
    "HardwareOptions",
    "HybridOptions",
    "MujocoOptions",
    "RealityOptions",
    "make_backend",
]


@config
class MujocoOptions:
    """Simulated worlds."""

    n: Annotated[int, Ge(1)] = 1
    """Worlds stepped together."""
    threads: Annotated[int, Ge(0)] = 1
    """Of the thread pool; 0 takes all cores. Results do not depend on it."""


@config
class HybridOptions:
    """Simulated worlds with a learned collision model."""

    n: Annotated[int, Ge(1)] = 1
    """Worlds stepped together."""
    checkpoint: str | None = None
    """File of the collision model; required."""
    phi: tuple[float, ...] | None = None
    """Its contact parameters; by default those that the file was identified with."""
    min_approach: Annotated[float, Gt(0)] = 0.1
    """Approach speed that makes a first touch an impact [m/s]."""


@config
class RealityOptions:
    """A world in another process."""

    host: str = "127.0.0.1"
    """Where a running server listens."""
    port: Annotated[int, Ge(1)] | None = None
    """Its port; None starts a server of our own, which ends with the backend."""
    seed: Annotated[int, Ge(0)] = 0
    """Draws the values of a server of our own."""
    tracker: bool = True
    """Whether a server of our own tells the truth about the object."""
    timeout: Annotated[float, Gt(0)] = 10.0
    """Within which each request must be answered [s]."""


@config
class BackendConfig:
    """Which backend, and the options of each kind; those of the other kinds are not read."""

    kind: BackendName = "mujoco"
    """One of mujoco, hybrid, reality, hardware."""
    mujoco: MujocoOptions = MujocoOptions()
    """Simulated worlds."""
    hybrid: HybridOptions = HybridOptions()
    """Simulated, with learned collisions."""
    reality: RealityOptions = RealityOptions()
    """Behind a socket."""
    hardware: HardwareOptions = HardwareOptions()
    """A robot."""


def make_backend(
    backend: BackendName | BackendConfig, *, task: Task | str = "insertion", family: ParameterFamily | None = None
) -> Backend:
    """The backend of a name (with its default options) or of a configuration.

    Args:
        backend: `mujoco`, `hybrid`, `reality`, `hardware`, or a `BackendConfig`.
        task: what is done there. By name it is the training world's for simulators, and the other world's for a reality
            server or a loopback robot. A server that runs already has its own.
        family: of the parameters; by default the task's training family for simulators, and its `reality` otherwise.

    Raises:
        UnknownName: no such kind, or no such task.
        ConfigError: an option that this kind requires is missing.
        ArtifactError, ConnectionLost: the collision model, the server or the robot is not there.
    """
    chosen = backend if isinstance(backend, BackendConfig) else BackendConfig(kind=backend)
    if chosen.kind not in get_args(BackendName):
        raise UnknownName("backend", chosen.kind, get_args(BackendName))
    simulated = chosen.kind in ("mujoco", "hybrid")
    if isinstance(task, str):
        task = make_task(task) if simulated else make_task(task).other()
    if chosen.kind == "mujoco":
        from dexprior.envs.sim import SimBackend

        return SimBackend(task, chosen.mujoco.n, family=family, threads=chosen.mujoco.threads)
    if chosen.kind == "hybrid":
        return _hybrid(chosen.hybrid, task, family)
    if chosen.kind == "reality":
        return _reality(chosen.reality, task, family)
    return _hardware(chosen.hardware, task, family)


def _hybrid(options: HybridOptions, task: Task, family: ParameterFamily | None) -> Backend:
    if options.checkpoint is None:
        raise ConfigError("backend.hybrid.checkpoint: required; the collision stage writes collision.safetensors")
    from dexprior.collision import HybridConfig  # these two load torch
    from dexprior.envs.hybrid import HybridBackend

    return HybridBackend.load(
        task,
        options.n,
        options.checkpoint,
        phi=None if options.phi is None else np.array(options.phi),
        family=family,
        config=HybridConfig(min_approach=options.min_approach),
        threads=1,
    )


def _reality(options: RealityOptions, task: Task, family: ParameterFamily | None) -> Backend:
    from dexprior.envs.reality import RealityBackend, start_server

    if options.port is not None:
        return RealityBackend((options.host, options.port), timeout=options.timeout)
    server = start_server(task=task, family=family, seed=options.seed, tracker=options.tracker)
    return RealityBackend(server, timeout=options.timeout)


def _hardware(options: HardwareOptions, task: Task, family: ParameterFamily | None) -> Backend:
    from dexprior.envs.hardware import HardwareBackend, start_gate

    return HardwareBackend(start_gate(options, task=task, family=family))
