"""What every task of the suite says about itself; batched over n worlds, without Gymnasium and without torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float

from dexprior.errors import BadInput
from dexprior.families import ParameterFamily
from dexprior.worlds.rigs import Rig

if TYPE_CHECKING:
    import mujoco

    from dexprior.worlds.tasks.worlds import View

__all__ = ["SLIP_SPEED", "Layout", "Scenes", "Task", "Truth", "slip_rate", "slip_speed", "tolerance"]

Scenes = Mapping[str, Float[np.ndarray, "n ..."]]
"""Where things are at reset, by name: plain arrays with a leading axis of task instances."""
Truth = dict[str, Any]
"""What is true in each world, by name: arrays with a leading axis of n worlds. Every task gives `object` (n, 7), the
pose of what is manipulated; `held` (n,), whether it is grasped; and `slip` (n,), its speed relative to what holds it
[m/s]."""

SLIP_SPEED = 0.01
"""[m/s] a held object that moves faster than this relative to what holds it slips; the same in every world."""


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
    horizon: ClassVar[float]
    """Seconds in an episode."""
    settle: ClassVar[float] = 0.0
    """Seconds that pass between `place` and the start of an episode, under the controls that `place` set."""
    family: ClassVar[ParameterFamily]
    """What the training simulator assumes about contact, actuators and sensors."""
    reality: ClassVar[ParameterFamily]
    """Another world, outside `family`, in which demonstrations are recorded and policies are judged."""
    weights: ClassVar[Mapping[str, float]]
    """Of the reward terms; they sum to one."""
    points: ClassVar[int] = 64
    """In the object cloud."""

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

    def configure(self, model: mujoco.MjModel, values: Mapping[str, float]) -> None:  # noqa: B027  # nothing, by default
        """Write into one world's model what a `ParameterFamily` cannot: its values with the target `world/-/`."""

    def engine(self, batch: mujoco.batch.Batch) -> Any:
        """What steps the worlds: MuJoCo's batch, or something around it with the same methods."""
        return batch

    def act(self, view: View) -> None:  # noqa: B027  # nothing, by default
        """What the world itself does before each control period, e.g. a shake."""

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


def tolerance(x: Float[np.ndarray, " *n"], *, bounds: tuple[float, float], margin: float) -> Float[np.ndarray, " *n"]:
    """1 inside `bounds`, falling as a Gaussian to 0.1 at a distance of `margin` outside.

    The contract of dm_control's shaping function of this name.

    Raises:
        BadInput: empty bounds, or a margin that is not positive.
    """
    low, high = bounds
    if low > high or margin <= 0:
        raise BadInput(f"tolerance needs low <= high and margin > 0, got bounds {bounds} and margin {margin}")
    x = np.asarray(x, dtype=np.float64)
    outside = np.where(x < low, low - x, np.where(x > high, x - high, 0.0)) / margin
    return np.exp(np.log(0.1) * outside**2)


def slip_speed(
    *,
    point: Float[np.ndarray, "n 3"],
    velocity: Float[np.ndarray, "n 3"],
    tool: Float[np.ndarray, "n 3"],
    twist: Float[np.ndarray, "n 6"],
    held: Bool[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """Speed of a point of the object relative to the rigid motion of the tool that holds it; 0 where nothing does.

    Args:
        point, velocity: of the object [m, m/s].
        tool: origin of the tool [m].
        twist: of the tool, [v w] at its origin in world axes.
        held: whether it is held.
    """
    carried = twist[:, :3] + np.cross(twist[:, 3:], point - tool)
    return np.where(held, np.linalg.norm(velocity - carried, axis=1), 0.0)


def slip_rate(slip: Float[np.ndarray, "time n"], held: Bool[np.ndarray, "time n"]) -> Float[np.ndarray, " n"]:
    """Share of the time in which a held object slips; NaN where it was never held."""
    held = np.asarray(held, dtype=bool)
    time = held.sum(axis=0)
    slipping = (held & (np.asarray(slip) > SLIP_SPEED)).sum(axis=0)
    return np.divide(slipping, time, out=np.full(len(time), np.nan), where=time > 0)
