"""What every task of the suite says about itself; batched over n worlds, without Gymnasium and without torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, UInt8

from dexprior.errors import BadInput
from dexprior.families import ParameterFamily, Phenomena
from dexprior.robots.rigs import Rig
from dexprior.worlds.tasks.parts import Part

if TYPE_CHECKING:
    import mujoco

    from dexprior.worlds.engine import Engine
    from dexprior.worlds.tasks.view import View

__all__ = ["Layout", "Scenes", "Task", "Truth"]

Scenes = Mapping[str, Float[np.ndarray, "n ..."]]
"""Where things are at reset, by name: plain arrays with a leading axis of task instances."""
Truth = dict[str, Any]
"""What is true in each world, by name: arrays with a leading axis of n worlds. Every task gives `object` (n, 7), the
pose of what is manipulated; `held` (n,), whether it is grasped; and `slip` (n,), its speed relative to what holds it
[m/s]."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a compiled scene is driven by."""

    spec: mujoco.MjSpec
    """Not compiled."""
    rigs: tuple[Rig, ...]
    """Robots in it, in the order of the action's columns."""


class Task(ABC):
    """One manipulation task.

    A task is a value: two with equal configurations make equal worlds. What an instance of it looks like is drawn by
    `sample`; what the world is like beyond that is drawn from `family`.
    """

    name: ClassVar[str]
    control_dt: ClassVar[float] = 0.04
    """Seconds between commands."""
    settle: ClassVar[float] = 0.0
    """Seconds that pass between `place` and the start of an episode, under the controls that `place` set."""
    family: ClassVar[ParameterFamily]
    """What the training simulator assumes about contact, actuators and sensors."""
    reality: ClassVar[ParameterFamily]
    """Another world, outside `family`, in which demonstrations are recorded and policies are judged."""
    weights: ClassVar[Mapping[str, float]]
    """Weights of the reward terms; they sum to one."""
    points: ClassVar[int] = 64
    """Points in the object cloud."""
    struck: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Pairs of bodies or geoms whose impacts a collision model may answer."""

    @property
    @abstractmethod
    def horizon(self) -> float:
        """Seconds in an episode; a class variable where they do not depend on the settings."""

    @property
    def steps(self) -> int:
        """Commands in an episode."""
        return round(self.horizon / self.control_dt)

    @property
    def bodies(self) -> tuple[int, ...]:
        """How many points of the cloud lie on each body, in order."""
        return (self.points,)

    @property
    def parts(self) -> tuple[Part, ...]:
        """What the scene is made of; one of them moves, and is brought to the first of the others where there are any.
        A task that names none has no demonstrations."""
        return ()

    @property
    def phenomena(self) -> Phenomena:
        """What contacts of these worlds have that the engine leaves out; nothing by default."""
        return Phenomena()

    @property
    def manipulated(self) -> Part:
        """The part that moves.

        Raises:
            BadInput: the task names none.
        """
        for part in self.parts:
            if part.moves:
                return part
        raise BadInput(f"task {self.name!r} names no part that moves: it has nothing that demonstrations could show")

    @abstractmethod
    def layout(self) -> Layout:
        """The scene with its robots, as a fresh spec."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, n: int) -> Scenes:
        """Draw n instances."""

    @abstractmethod
    def place(self, view: View, ids: np.ndarray, scenes: Scenes) -> None:
        """Put objects where the instances say; robots are at home already, and sensors are computed afterwards."""

    @abstractmethod
    def measure(self, view: View) -> Truth:
        """What is true now."""

    @abstractmethod
    def cloud(self, view: View, truth: Truth) -> Float[np.ndarray, "n point 3"]:
        """Points on the objects in the world [m], without noise; point k is the same point of matter throughout."""

    @abstractmethod
    def terms(self, truth: Truth) -> dict[str, Float[np.ndarray, " n"]]:
        """Named reward terms in [0, 1]; see `weights`."""

    @abstractmethod
    def success(self, truth: Truth) -> Bool[np.ndarray, " n"]:
        """The verdict on this moment."""

    def other(self) -> Task:
        """The same task in its other world, where that differs in more than the parameters of `reality`."""
        return self

    def configure(self, model: mujoco.MjModel, values: Mapping[str, float]) -> None:  # noqa: B027  # nothing, by default
        """Write into one world's model what a `ParameterFamily` cannot: its values with the target `world/-/`."""

    def engine(self, batch: mujoco.batch.Batch) -> Engine:
        """What steps the worlds: MuJoCo's batch, or something around it."""
        return batch

    def act(self, view: View) -> None:  # noqa: B027  # nothing, by default
        """What the world itself does before each control period, e.g. a shake."""

    def dress(self, model: mujoco.MjModel, look: int) -> None:  # noqa: B027  # nothing, by default
        """Change how one world looks, in a copy of its model that is only rendered; `look` is the instance's seed."""

    def develop(self, image: UInt8[np.ndarray, "height width 3"]) -> UInt8[np.ndarray, "height width 3"]:
        """What the camera makes of a rendered image."""
        return image

    def failure(self, truth: Truth) -> Bool[np.ndarray, " n"]:
        """Whether the episode is lost for good, e.g. a crushed fruit; never by default."""
        return np.zeros(len(truth["held"]), dtype=bool)

    def privileged(self, truth: Truth) -> Float[np.ndarray, "n size"]:
        """What only a critic may see: the object's pose by default."""
        return truth["object"]

    def reward(self, truth: Truth) -> dict[str, Float[np.ndarray, " n"]]:
        """The terms, their weighted mean `total`, and the verdict `sparse`."""
        terms = self.terms(truth)
        total = sum(weight * terms[name] for name, weight in self.weights.items())
        return terms | {"total": np.asarray(total), "sparse": self.success(truth).astype(np.float64)}
