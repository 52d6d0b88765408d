"""One interface for simulated, hybrid, remote and real worlds: commands out, readings in, and what policies see.

    backend.reset(panel) -> Reading      backend.step(backend.actions.commands(action)) -> Reading
    ObservationSpec.of(backend).observe(reading, first) -> what a policy may see

Everything has a leading axis of n worlds; a robot is n = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from jaxtyping import Bool, Float, Int

from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_quat, rot6d_from_matrix
from dexprior.robots.rigs import Rig
from dexprior.worlds.tasks import ActionSpec, RobotCommand, Task, Truth

if TYPE_CHECKING:
    from dexprior.envs.panel import Panel

__all__ = [
    "ActionSpec",
    "Backend",
    "BackendName",
    "EngineName",
    "FirstLook",
    "ObservationSpec",
    "Reading",
    "RobotCommand",
    "RobotReading",
    "Truth",
    "tracked",
]

EngineName = Literal["mujoco", "hybrid", "warp"]
"""What simulates: MuJoCo, MuJoCo with learned collisions, or MuJoCo Warp on a GPU, in single precision."""
BackendName = Literal[EngineName, "reality", "hardware"]
"""Where commands go: worlds that are simulated here, one behind a socket, or a robot."""


class _Arrays:
    """Equality of all arrays; a dataclass's own would ask an array for one truth value."""

    def __eq__(self, other: object) -> bool:
        return _same(vars(self), vars(other)) if type(other) is type(self) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, dict):
        return isinstance(other, dict) and set(one) == set(other) and all(_same(one[k], other[k]) for k in one)
    return bool(one == other)


@dataclass(frozen=True, eq=False)
class RobotReading(_Arrays):
    """What the sensors of one robot say."""

    q: Float[np.ndarray, "n joint"]
    """Joints of the arm [rad, m]."""
    qd: Float[np.ndarray, "n joint"]
    tcp: Float[np.ndarray, "n 7"]
    """Pose of the tool centre point in the world."""
    end: Float[np.ndarray, "n end"]
    """Joints of the end effector [rad, m]."""
    wrench: Float[np.ndarray, "n 6"]
    """Wrench of the environment on the tool, wrist frame [N, N m]."""
    touch: Float[np.ndarray, "n fingertip"]
    """Normal force on each fingertip [N]."""


@dataclass(frozen=True, eq=False)
class Reading(_Arrays):
    """What the sensors say after a command."""

    t: Float[np.ndarray, " n"]
    """Seconds since reset, on the world's clock."""
    robots: tuple[RobotReading, ...]
    cloud: Float[np.ndarray, "n point 3"]
    """Measured object points in the world [m]."""
    truth: Truth | None
    """What the task says is true; None where nothing tracks the object: then there is no reward and no verdict."""
    bodies: Int[np.ndarray, "n point"] | None = None
    """Which body each point of a cloud without labels lies on, for training alone; None where its place says so, and
    where nobody knows."""

    @property
    def tools(self) -> Float[np.ndarray, "n robot 7"]:
        """Pose of every robot's tool centre point."""
        return np.stack([robot.tcp for robot in self.robots], axis=1)

    @property
    def grips(self) -> Float[np.ndarray, "n robot"]:
        """Mean normal force on every end effector's fingertips [N]."""
        return np.stack([robot.touch.mean(axis=1) for robot in self.robots], axis=1)


class Backend(Protocol):
    """A place where commands go and readings come from."""

    @property
    def task(self) -> Task:
        """What is done there."""
        ...

    @property
    def n(self) -> int:
        """Number of worlds."""
        ...

    @property
    def actions(self) -> ActionSpec:
        """Its robots, and what their actions mean."""
        ...

    @property
    def labels(self) -> bool:
        """Whether the place of a point in the cloud says which body it lies on (`SightConfig.labels`)."""
        ...

    def reset(self, panel: Panel, ids: np.ndarray | None = None) -> Reading:
        """Start one instance of the panel in each world, or in some."""
        ...

    def step(self, commands: Sequence[RobotCommand]) -> Reading:
        """Send every robot of every world its command for one control period."""
        ...

    def close(self) -> None:
        """Let go of processes, sockets and robots."""
        ...


def tracked(reading: Reading) -> Truth:
    """The truth in a reading.

    Raises:
        BadInput: nothing tracks the object there.
    """
    if reading.truth is None:
        raise BadInput("nothing tracks the object in this world: no reward, verdict or privileged state; add a tracker")
    return reading.truth


class FirstLook:
    """How things lay when each world's episode began, which a hand hides later: the mean of the first clouds, in which
    nothing was touched yet.

    Without labels no place of a cloud is the same point in the next one. Then every point of the first cloud becomes
    the mean of what lies nearer to it than to the others, in all these clouds (MacQueen 1967).

    Args:
        labels: whether they have labels, as the backend says.
    """

    def __init__(self, *, labels: bool = True) -> None:
        self._labels = labels
        self._seen, self._t = np.zeros(0, dtype=int), np.zeros(0)
        self._mean = np.zeros((0, 0, 3), dtype=np.float32)
        self._count, self._first = np.zeros((0, 0), dtype=np.float32), np.zeros((0, 0), dtype=int)
        self.bodies: Int[np.ndarray, "n point"] | None = None
        """Which body each point of the cloud lies on, for training alone, where readings say so."""

    def see(self, reading: Reading) -> Float[np.ndarray, "n point 3"]:
        """The cloud [m] as known with this reading; of one time of a world one reading counts, and that at t = 0 is its
        episode's first."""
        if self._mean.shape != reading.cloud.shape:
            self._seen, self._mean = np.zeros(len(reading.t), dtype=int), np.zeros_like(reading.cloud)
            self._t = np.full(len(reading.t), np.nan)
            places = reading.cloud.shape[:2]
            self._count, self._first = np.zeros(places, dtype=np.float32), np.zeros(places, dtype=int)
            self.bodies = None
        begins = reading.t == 0.0
        self._seen[begins], self._mean[begins] = 0, 0.0  # nothing is left of another episode, not in the last bit
        looking = (self._seen < _LOOKS) & (begins | (reading.t != self._t))
        self._t = reading.t.copy()
        self._seen[looking] += 1
        if self._labels:
            share = (1.0 / self._seen[looking]).astype(reading.cloud.dtype)[:, None, None]
            self._mean[looking] += share * (reading.cloud[looking] - self._mean[looking])
        elif looking.any():
            self._gather(reading, begins, looking)
        return self._mean.copy()

    def _gather(self, reading: Reading, begins: Bool[np.ndarray, " n"], looking: Bool[np.ndarray, " n"]) -> None:
        """Take the points of clouds without labels to what they are nearest to."""
        self._mean[begins], self._count[begins] = reading.cloud[begins], 0.0
        if reading.bodies is not None:
            self.bodies = reading.bodies.copy() if self.bodies is None else self.bodies
            self.bodies[begins] = reading.bodies[begins]
        new, old = reading.cloud[looking], self._mean[looking]
        nearest = np.square(new[:, :, None] - old[:, None]).sum(axis=-1).argmin(axis=2)
        fresh = begins[looking]
        self._first[begins] = nearest[fresh]  # of points that the first cloud holds twice, the first stands for both
        taken = (nearest[:, None] == np.arange(new.shape[1])[:, None]).astype(new.dtype)  # which slot takes which point
        count = self._count[looking] + taken.sum(axis=2)
        total = self._count[looking][..., None] * old + taken @ new
        mean = np.where(count[..., None] > 0, total / np.maximum(count, 1.0)[..., None], old)
        self._mean[looking] = np.take_along_axis(mean, self._first[looking][..., None], axis=1)
        self._count[looking] = count


_LOOKS = 10  # readings of a first look, 0.4 s


@dataclass(frozen=True)
class ObservationSpec:
    """What policies see of a reading, and which column says what.

    `proprio` holds, robot by robot: `q` and `qd` of the arm, `position` and `rotation` (two rows) of the tool, and the
    joints of the `end` effector.
    """

    rigs: tuple[Rig, ...]
    points: int
    """Points in the object cloud."""
    tracker: bool = False
    """Whether they see the object's pose."""

    @classmethod
    def of(cls, backend: Backend, *, tracker: bool = False) -> ObservationSpec:
        """The observations of a backend's readings."""
        return cls(backend.actions.rigs, backend.task.points, tracker)

    @cached_property
    def columns(self) -> tuple[dict[str, slice], ...]:
        """Columns of each robot: part of `proprio` -> its columns."""
        found, start = [], 0
        for rig in self.rigs:
            joints = len(rig.arm.joints)
            sizes = {"q": joints, "qd": joints, "position": 3, "rotation": 6, "end": len(rig.end.joints)}
            parts = {}
            for name, size in sizes.items():
                parts[name] = slice(start, start + size)
                start += size
            found.append(parts)
        return tuple(found)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name of an observation -> its shape, without the leading axis."""
        shapes: dict[str, tuple[int, ...]] = {
            "proprio": (self.columns[-1]["end"].stop if self.rigs else 0,), "wrench": (6 * len(self.rigs),),
            "touch": (sum(len(rig.end.touch) for rig in self.rigs),), "cloud": (self.points, 3),
            "first_cloud": (self.points, 3), "time": (1,),
        }  # fmt: skip
        return shapes | ({"object": (7,)} if self.tracker else {})

    def observe(self, reading: Reading, first: Float[np.ndarray, "n point 3"]) -> dict[str, Float[np.ndarray, "n ..."]]:
        """Observations, float32.

        Args:
            reading: of now.
            first: cloud of a `FirstLook` at each world [m].

        Raises:
            BadInput: the object's pose is asked for, and nothing tracks it; or no camera shows as many points.
        """
        if reading.cloud.shape[1] != self.points:
            raise BadInput(
                f"this cell's camera shows {reading.cloud.shape[1]} points of the objects, the task has {self.points}: "
                "what sees clouds cannot act there"
            )
        proprio = [
            part
            for r in reading.robots
            for part in (r.q, r.qd, r.tcp[:, :3], rot6d_from_matrix(matrix_from_quat(r.tcp[:, 3:])), r.end)
        ]
        shown = {
            "proprio": np.concatenate(proprio, axis=1),
            "wrench": np.concatenate([r.wrench for r in reading.robots], axis=1),
            "touch": np.concatenate([r.touch for r in reading.robots], axis=1),
            "cloud": reading.cloud,
            "first_cloud": first,
            "time": reading.t[:, None],
        }
        if self.tracker:
            shown["object"] = tracked(reading)["object"]
        return {name: value.astype(np.float32, copy=False) for name, value in shown.items()}
