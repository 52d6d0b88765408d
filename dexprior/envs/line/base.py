"""One interface for simulated, hybrid, remote and real worlds: readings in, commands out, observations and rewards.

    backend.reset(instances) -> Reading      backend.step(twist, opening) -> Reading
    observe(reading) -> what a policy may see        privileged(reading) -> what only a critic may see
    score(reading) -> named reward terms in [0, 1]

Everything has a leading axis of n worlds; a robot is n = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from jaxtyping import Bool, Float

from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_quat, rot6d_from_matrix
from dexprior.worlds.arm import MAX_OPENING
from dexprior.worlds.insertion import InsertionConfig, engaged_depth, succeeded
from dexprior.worlds.measures import tolerance

if TYPE_CHECKING:
    from dexprior.envs.line.panel import Instance

__all__ = [
    "ACTION_SIZE",
    "HORIZON",
    "MAX_TWIST",
    "OBSERVATION_SIZES",
    "PRIVILEGED_SIZE",
    "Backend",
    "BackendName",
    "Reading",
    "Truth",
    "action_from_command",
    "command_from_action",
    "observe",
    "privileged",
    "score",
    "success",
]

BackendName = Literal["mujoco", "hybrid", "reality", "hardware"]

HORIZON = 75
"""Commands in an episode: three seconds."""
MAX_TWIST = np.array([0.5, 0.5, 0.5, 2.0, 2.0, 2.0])
"""What an action of 1 stands for [m/s, rad/s]."""
ACTION_SIZE = 7
"""Six for the twist, one for the gripper's opening."""
CLOUD_POINTS = 64
OBSERVATION_SIZES: dict[str, tuple[int, ...]] = {
    "proprio": (24,), "wrench": (6,), "touch": (2,), "cloud": (CLOUD_POINTS, 3), "time": (1,),
}  # fmt: skip
"""What policies see: joint positions and velocities, tool pose and opening; wrench; touch; object cloud; time."""
PRIVILEGED_SIZE = 13


class _Arrays:
    """Equality of all arrays; a dataclass's own would ask an array for one truth value."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        mine, theirs = vars(self), vars(other)
        return all(
            np.array_equal(mine[k], theirs[k]) if isinstance(mine[k], np.ndarray) else mine[k] == theirs[k]
            for k in mine
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class Truth(_Arrays):
    """What only a simulator, or a tracker, knows."""

    nut: Float[np.ndarray, "n 7"]
    bolt: Float[np.ndarray, "n 3"]
    slip: Float[np.ndarray, " n"]
    """Speed of the held nut relative to the tool [m/s]."""
    held: Bool[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class Reading(_Arrays):
    """What the sensors say after a command."""

    t: Float[np.ndarray, " n"]
    """Seconds since reset, on the world's clock."""
    q: Float[np.ndarray, "n 7"]
    qd: Float[np.ndarray, "n 7"]
    tcp: Float[np.ndarray, "n 7"]
    opening: Float[np.ndarray, " n"]
    wrench: Float[np.ndarray, "n 6"]
    """Of the environment on the tool, wrist frame [N, N m]."""
    touch: Float[np.ndarray, "n 2"]
    """[N]"""
    cloud: Float[np.ndarray, "n point 3"]
    """Measured object points, base frame [m]."""
    truth: Truth | None
    """None where nothing tracks the nut: then there is no reward and no verdict either."""


class Backend(Protocol):
    """A place where commands go and readings come from."""

    @property
    def n(self) -> int:
        """Number of worlds."""
        ...

    @property
    def world(self) -> InsertionConfig:
        """Sizes of nut and bolt."""
        ...

    def reset(self, instances: Sequence[Instance]) -> Reading:
        """Start one task instance in each world."""
        ...

    def step(self, twist: Float[np.ndarray, "n 6"], opening: Float[np.ndarray, " n"]) -> Reading:
        """Send one command to each world: twist at the tool in base axes, wanted opening."""
        ...

    def close(self) -> None:
        """Let go of processes, sockets and robots."""
        ...


def command_from_action(
    action: Float[np.ndarray, "n 7"],
) -> tuple[Float[np.ndarray, "n 6"], Float[np.ndarray, " n"]]:
    """Twist [m/s, rad/s] and opening [m] of normalised actions; actions beyond [-1, 1] are clipped.

    A value that is not finite passes through: simulators refuse it, and a robot's safety gate has to see it to stop.

    Raises:
        BadInput: wrong shape.
    """
    action = np.asarray(action, dtype=np.float64)
    if action.ndim != 2 or action.shape[1] != ACTION_SIZE:
        raise BadInput(f"actions of shape {action.shape}, expected (n, {ACTION_SIZE})")
    action = np.clip(action, -1.0, 1.0)
    return action[:, :6] * MAX_TWIST, (action[:, 6] + 1.0) / 2.0 * MAX_OPENING


def action_from_command(
    twist: Float[np.ndarray, "*batch 6"], opening: Float[np.ndarray, " *batch"]
) -> Float[np.ndarray, "*batch 7"]:
    """Inverse of `command_from_action`, without the clip."""
    return np.concatenate([twist / MAX_TWIST, (2.0 * opening / MAX_OPENING - 1.0)[..., None]], axis=-1)


def observe(reading: Reading) -> dict[str, Float[np.ndarray, n * shape]]:
    """What policies see, as float32 arrays of `OBSERVATION_SIZES`."""
    rotation = rot6d_from_matrix(matrix_from_quat(reading.tcp[:, 3:]))
    proprio = np.concatenate([reading.q, reading.qd, reading.tcp[:, :3], rotation, reading.opening[:, None]], axis=1)
    observation = {
        "proprio": proprio,
        "wrench": reading.wrench,
        "touch": reading.touch,
        "cloud": reading.cloud,
        "time": reading.t[:, None],
    }
    return {name: value.astype(np.float32) for name, value in observation.items()}


def privileged(reading: Reading) -> Float[np.ndarray, "n 13"]:
    """The object's true state, for a critic only.

    Raises:
        BadInput: nothing tracks the nut here.
    """
    truth = _truth(reading)
    rotation = rot6d_from_matrix(matrix_from_quat(truth.nut[:, 3:]))
    parts = [
        truth.nut[:, :3] - reading.tcp[:, :3],
        truth.bolt - truth.nut[:, :3],
        rotation,
        truth.held[:, None].astype(np.float64),
    ]
    return np.concatenate(parts, axis=1).astype(np.float32)


def score(reading: Reading, world: InsertionConfig) -> dict[str, Float[np.ndarray, " n"]]:
    """Named reward terms, each in [0, 1]; `total` is their weighted mean and `sparse` the verdict.

    Raises:
        BadInput: nothing tracks the nut here.
    """
    truth = _truth(reading)
    goal = truth.bolt + np.array([0.0, 0.0, world.bolt_height + world.height / 2])
    reach = tolerance(np.linalg.norm(reading.tcp[:, :3] - truth.nut[:, :3], axis=1), bounds=(0, 0.008), margin=0.15)
    grasp = truth.held.astype(np.float64)
    lateral = np.linalg.norm(truth.nut[:, :2] - truth.bolt[:, :2], axis=1)
    lifted = tolerance(truth.nut[:, 2], bounds=(0.03, 1.0), margin=0.03)
    depth = engaged_depth(world, truth.nut, truth.bolt) / world.success_depth
    engaged = np.clip(depth, 0.0, 1.0)
    carry = tolerance(lateral, bounds=(0, 0.003), margin=0.12) * np.maximum(lifted, np.minimum(engaged * 4, 1.0))
    still = tolerance(truth.slip, bounds=(0, 0.002), margin=0.02) * grasp
    height = tolerance(np.abs(truth.nut[:, 2] - goal[:, 2]), bounds=(0, 0.01), margin=0.1)
    terms = {
        "reach": reach,
        "grasp": grasp,
        "carry": carry,
        "still": still,
        "over": height * carry,
        "engage": engaged,
    }
    weights = {"reach": 0.1, "grasp": 0.1, "carry": 0.2, "still": 0.05, "over": 0.05, "engage": 0.5}
    terms["total"] = sum(weights[name] * terms[name] for name in weights)  # type: ignore[assignment]
    terms["sparse"] = succeeded(world, truth.nut, truth.bolt).astype(np.float64)
    return terms


def success(reading: Reading, world: InsertionConfig) -> Bool[np.ndarray, " n"]:
    """Whether the nut sits on the bolt."""
    truth = _truth(reading)
    return succeeded(world, truth.nut, truth.bolt)


def _truth(reading: Reading) -> Truth:
    if reading.truth is None:
        raise BadInput("nothing tracks the nut in this world: no reward, verdict or privileged state; add a tracker")
    return reading.truth
