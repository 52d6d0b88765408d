"""The same command in many simulated worlds, logged as a robot would log it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from dexprior.artifacts import read_object, write_json
from dexprior.config import Ge, config
from dexprior.errors import ArtifactError, BadInput
from dexprior.families import Event, ParameterFamily, Phenomena
from dexprior.families.sensors.sampler import quantised
from dexprior.reading import as_described, integer, mapping, number, numbers, text
from dexprior.transfer.divergence import Signals
from dexprior.worlds.tasks import Recording, Scenes, Task, TaskWorlds, episode, expert_of, make_task, record

__all__ = ["CHANNELS", "Probe", "SensorNoise", "as_the_expert_did", "probe_of", "replay", "until_touched", "wiping"]

_SCHEMA = "dexprior.probe/1"
_FELT = 0.3  # [N] on a fingertip
CHANNELS = {"joints": "rad", "force": "N", "touch": "N", "slip": "m/s"}
"""What is logged, with units: joints of the arm, wrench at the wrist (torques in N m), normal forces on the fingertips,
slip of what is held."""


@config
class SensorNoise:
    """White noise of one reading, and the encoder's step."""

    joint: Annotated[float, Ge(0)] = 2e-4
    """[rad]"""
    step: Annotated[float, Ge(0)] = 3.8e-4
    """Step of the encoder (14 bits a turn) [rad]."""
    force: Annotated[float, Ge(0)] = 0.2
    """[N]"""
    torque: Annotated[float, Ge(0)] = 0.01
    """[N m]"""
    touch: Annotated[float, Ge(0)] = 0.1
    """[N]"""
    slip: Annotated[float, Ge(0)] = 2e-3
    """Noise of a tracker or a tactile sensor [m/s]."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What is replayed: one instance of a task and the actions of its robot."""

    task: Task
    scene: Scenes
    """Scene, of one instance."""
    actions: Float[np.ndarray, "step action"]
    """Actions in [-1, 1], one a control period."""
    every: int = 2
    """Simulation steps between two samples."""
    repeatability: Annotated[float, Ge(0)] = 0.005
    """Relative scatter of every parameter from repeat to repeat: no two trials are alike."""
    noise: SensorNoise = field(default_factory=SensorNoise)

    @property
    def panel_hash(self) -> str:
        """Hash of the instance and the actions."""
        scene = {name: np.asarray(value).tolist() for name, value in self.scene.items()}
        content = json.dumps([repr(self.task), scene, self.actions.tolist()])
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    def save(self, path: str | Path, *, settings: Mapping[str, Any] | None = None) -> Path:
        """Write as JSON.

        Args:
            path: of the file.
            settings: fields of the task's configuration that differ from the defaults.

        Raises:
            BadInput: a task that these settings do not make, e.g. one with injectors.
        """
        settings = dict(settings or {})
        if make_task(self.task.name, **settings) != self.task:
            raise BadInput(f"task {self.task.name!r} with settings {settings} is not the task of this probe")
        scene = {name: np.asarray(value).tolist() for name, value in self.scene.items()}
        data = {
            "schema": _SCHEMA, "task": self.task.name, "settings": settings, "scene": scene,
            "actions": self.actions.tolist(), "every": self.every, "repeatability": self.repeatability,
            "noise": asdict(self.noise), "panel": self.panel_hash,
        }  # fmt: skip
        return write_json(path, data)

    @classmethod
    def read(cls, path: str | Path) -> Probe:
        """Inverse of `save`.

        Raises:
            ArtifactError: no such file, or no probe, or one whose task has changed since.
            UnknownName: no such task.
        """
        path = Path(path)
        data = read_object(path, "a probe", schema=_SCHEMA)
        with as_described("a probe", path, ArtifactError):
            probe = cls(
                task=make_task(
                    text(data["task"], f"{path}: task"), **mapping(data["settings"], f"{path}: settings")
                ),
                scene={
                    name: numbers(value, f"{path}: scene: {name}")
                    for name, value in mapping(data["scene"], f"{path}: scene").items()
                },
                actions=numbers(data["actions"], f"{path}: actions"), every=integer(data["every"], f"{path}: every"),
                repeatability=number(data["repeatability"], f"{path}: repeatability", low=0.0),
                noise=SensorNoise(**mapping(data["noise"], f"{path}: noise")),
            )  # fmt: skip
        if "panel" not in data or probe.panel_hash != data["panel"]:
            raise ArtifactError(f"{path} was made with another version of the task {data['task']!r}: make it anew")
        return probe

    def commands(self, family: ParameterFamily) -> tuple[Float[np.ndarray, " time"], Float[np.ndarray, "time joint"]]:
        """What a real arm is to be told: times [s] and joint targets [rad], one a control period, in the middle of a
        family."""
        worlds = TaskWorlds(self.task, 1, family=family, threads=1)
        worlds.reset(np.arange(1), self.scene, [family.as_dict(family.medians())])
        steps = round(self.task.control_dt / worlds.model.opt.timestep)
        recording = record(worlds, lambda k: self.actions[k][None], len(self.actions), every=steps)
        return recording.t - self.task.control_dt, recording.command[0]


def wiping(task: Task, *, seconds: float = 2.5, speed: float = 0.1, period: float = 1.0) -> Probe:
    """The motion with which contact is probed: the block of the task `wipe` is lowered and wiped to and fro.

    Args:
        task: of the kind `wipe`.
        seconds: how long.
        speed: largest speed along x [m/s].
        period: of the motion [s].
    """
    from dexprior.worlds.tasks.actions import MAX_TWIST

    if task.name != "wipe":
        raise BadInput(f"the wiping probe is a motion of the task 'wipe', not of {task.name!r}")
    t = np.arange(round(seconds / task.control_dt)) * task.control_dt
    actions = np.zeros((len(t), 7))
    actions[:, 6] = -1.0
    down = t < 0.5
    actions[down, 2] = -0.03 / MAX_TWIST[2]
    actions[~down, 0] = speed * np.cos(2 * np.pi * (t[~down] - 0.5) / period) / MAX_TWIST[0]
    return Probe(task=task, scene={"middle": np.array([[0.48, 0.0]]), "yaw": np.zeros(1)}, actions=actions, every=4)


def until_touched(probe: Probe, family: ParameterFamily, *, seconds: float = 0.8) -> Probe:
    """A probe cut so long after fingertips first feel something in the middle of a family: later, contacts diverge.

    Args:
        probe: what is replayed.
        family: whose medians the world has.
        seconds: that are kept after the first touch, or after the start where nothing is felt.
    """
    logged = replay(replace(probe, repeatability=0.0), family, family.medians()[None], repeats=1, seed=0, noisy=False)
    touch = logged.values.get("touch", np.zeros((1, 1, 1, 1)))
    felt = np.flatnonzero(touch[0, 0].max(axis=1) > _FELT)
    steps = int(((logged.t[felt[0]] if len(felt) else 0.0) + seconds) / probe.task.control_dt + 1e-9)
    return replace(probe, actions=probe.actions[:steps])


def probe_of(task: Task, family: ParameterFamily, *, seed: int) -> Probe:
    """The motion that a task is probed with: wiping where it wipes, what its expert does elsewhere."""
    return wiping(task) if task.name == "wipe" else as_the_expert_did(task, family, seed=seed)


def as_the_expert_did(task: Task, family: ParameterFamily, *, seed: int, every: int = 2) -> Probe:
    """An instance of a task and the actions that its expert takes in the middle of a family.

    Args:
        task: with an expert.
        family: whose medians the world has.
        seed: of the instance.
        every: simulation steps between two samples.

    Raises:
        UnknownName: the task has no expert.
        BadInput: the expert fails.
    """
    worlds = TaskWorlds(task, 1, family=family, threads=1)
    scene = task.sample(np.random.default_rng(seed), 1)
    worlds.reset(np.arange(1), scene, [family.as_dict(family.medians())])
    actions, solved = [], False
    for step in episode(worlds, expert_of(task.name)):
        actions.append(step.action[0])
        solved |= bool(task.success(step.truth)[0])
    if not solved:
        raise BadInput(f"task {task.name!r}: its expert does not solve the instance of seed {seed}; choose another")
    return Probe(task=task, scene=scene, actions=np.array(actions), every=every)


def replay(
    probe: Probe,
    family: ParameterFamily,
    values: Float[np.ndarray, "group parameter"],
    *,
    repeats: int,
    seed: int,
    events: Callable[[Mapping[str, float]], Sequence[Event]] = lambda values: (),
    phenomena: Phenomena | None = None,
    disturb: Callable[[Recording], Mapping[str, np.ndarray]] | None = None,
    noisy: bool = True,
    threads: int = 0,
) -> Signals:
    """Log groups of worlds that are all given the same command.

    Args:
        probe: what is replayed.
        family: whose parameters the values are.
        values: one row a group.
        repeats: worlds in each group; they differ by the probe's repeatability and by noise.
        seed: of both.
        events: what happens in a world with these values.
        phenomena: of contact.
        disturb: what sensors add to a recording, by channel (world, time, n).
        noisy: whether sensors have noise.
        threads: of MuJoCo's pool.

    Returns:
        Signals of the channels in `CHANNELS` that the robot has: without joints of an arm there are no `joints`.
    """
    values = np.asarray(values, dtype=np.float64)
    n = len(values) * repeats
    rng = np.random.default_rng(seed)
    each = np.repeat(values, repeats, axis=0)
    each = each * (1.0 + probe.repeatability * rng.standard_normal(each.shape))
    low = np.array([p.low for p in family.parameters])
    high = np.array([p.high for p in family.parameters])
    parameters = [family.as_dict(row) for row in np.clip(each, low, high)]
    worlds = TaskWorlds(probe.task, n, family=family, phenomena=phenomena, threads=threads)
    scene = {name: np.repeat(np.asarray(value), n, axis=0) for name, value in probe.scene.items()}
    worlds.reset(np.arange(n), scene, parameters, [tuple(events(row)) for row in parameters])
    recording = record(worlds, lambda k: np.tile(probe.actions[k], (n, 1)), len(probe.actions), every=probe.every)
    logged = {"joints": recording.q, "force": recording.wrench, "touch": recording.touch, "slip": recording.slip}
    logged = {name: x for name, x in logged.items() if x.shape[-1]}  # a hand on a stand has no arm to log
    if disturb is not None:
        logged |= {name: logged[name] + added for name, added in disturb(recording).items() if name in logged}
    if noisy:
        logged = _read(logged, probe.noise, rng)
    return Signals(
        t=recording.t,
        values={name: x.reshape(len(values), repeats, *x.shape[1:]) for name, x in logged.items()},
        units={name: CHANNELS[name] for name in logged},
        panel_hash=probe.panel_hash,
        shifts=np.zeros((len(values), repeats)),
        until=np.full(len(values), recording.t[-1]),
    )


def _read(logged: Mapping[str, np.ndarray], noise: SensorNoise, rng: np.random.Generator) -> dict[str, np.ndarray]:
    wrench = np.repeat([noise.force, noise.torque], 3)
    sizes = {"joints": noise.joint, "force": wrench, "touch": noise.touch, "slip": noise.slip}
    read = {name: x + np.asarray(sizes[name]) * rng.standard_normal(x.shape) for name, x in logged.items()}
    if "joints" in read:
        read["joints"] = quantised(read["joints"], noise.step)
    return read
