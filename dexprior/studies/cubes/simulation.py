"""Who can play a toss: one protocol, and MuJoCo behind it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from dexprior.config import Ge, Gt, config
from dexprior.data.tosses import CUBE_DT, CUBE_PARAMETERS, CubeScale, lowest_corner, simulate_tosses
from dexprior.errors import BadInput
from dexprior.geometry.rotations import quat_from_axis_angle, quat_multiply
from dexprior.studies.cubes.segmentation import CornerImpacts

__all__ = [
    "DEFAULT_CONTACT",
    "SOFT_CONTACT",
    "MujocoTosses",
    "NoisyStart",
    "SimulationConfig",
    "TossSimulator",
    "ensemble",
    "simulate_first_impacts",
    "simulate_many",
]

DEFAULT_CONTACT: dict[str, float] = {
    "friction": 0.16,
    "damping_ratio": 0.6,
    "time_constant": 0.0034,
    "impratio": 1.0,
    "torsional": 0.0,
    "rolling": 0.0,
    "impedance_start": 0.9,
    "impedance_end": 0.95,
    "impedance_width": 0.001,
}
"""MuJoCo's own defaults, with the published friction of the cube and a time constant that `substeps` can resolve."""

SOFT_CONTACT = DEFAULT_CONTACT | {
    "friction": 0.2,
    "damping_ratio": 0.5,
    "time_constant": 0.003,
    "impedance_start": 0.01,
    "impedance_end": 0.01,
}
"""About the prior's centre of our cube, at a low impedance: where a search that may leave the defaults starts."""


@config
class SimulationConfig:
    """How MuJoCo plays tosses."""

    substeps: Annotated[int, Ge(2)] = 8
    """Steps per frame of 1/148 s. Against 64: 4-8 mm (median) at the end of a toss, 2-6 % of final orientations, 2-4 %
    of the mean error; parameters tuned at one step belong to that step."""
    cone: Literal["elliptic", "pyramidal"] = "elliptic"
    """Shape of MuJoCo's friction cone."""
    impact_substeps: Annotated[int, Ge(2)] = 32
    """Steps per frame for first impacts alone: where within a step the touch falls moves the velocity after by 7 % at 8
    and by 2 % at 32."""
    impact_seconds: Annotated[float, Gt(0.0)] = 0.06
    """A first impact that has not separated by then is read off there [s]."""
    threads: Annotated[int, Ge(0)] = 1
    """Threads of MuJoCo's pool (0: all CPUs); results do not depend on it."""


@runtime_checkable
class TossSimulator(Protocol):
    """Plays tosses of one cube; `MujocoTosses` is one, a hybrid simulator another."""

    def rollout(
        self, initial_states: Float[np.ndarray, "toss 13"], steps: int, seed: int
    ) -> Float[np.ndarray, "toss step_and_start 13"]:
        """States at frames 0..steps of 1/148 s; a deterministic simulator ignores the seed."""
        ...


@dataclass(frozen=True, kw_only=True)
class MujocoTosses:
    """MuJoCo with one set of contact parameters."""

    phi: Float[np.ndarray, " 9"]
    """Parameters in the order of `CUBE_PARAMETERS`."""
    scale: CubeScale
    """Scale of lengths, gravity and the table."""
    settings: SimulationConfig = field(default_factory=SimulationConfig)
    """How to step."""

    def __post_init__(self) -> None:
        phi = np.array(self.phi, dtype=np.float64)
        if phi.shape != (len(CUBE_PARAMETERS),) or not np.isfinite(phi).all():
            raise BadInput(f"MujocoTosses.phi = {phi}; expected finite {', '.join(CUBE_PARAMETERS)}")
        phi.setflags(write=False)
        object.__setattr__(self, "phi", phi)

    def rollout(
        self, initial_states: Float[np.ndarray, "toss 13"], steps: int, seed: int = 0
    ) -> Float[np.ndarray, "toss step_and_start 13"]:
        """States at frames 0..steps; MuJoCo is deterministic, so the seed does not matter."""
        return simulate_many(initial_states, steps, self.phi[None], self.scale, self.settings)[0]


@dataclass(frozen=True, kw_only=True)
class NoisyStart:
    """Makes any simulator a distribution: its initial states are blurred by their measurement noise."""

    simulator: TossSimulator
    """That plays each blurred start."""
    position: float = 2e-4
    """Standard deviation [m]."""
    rotation: float = 2e-3
    """[rad]"""
    velocity: float = 0.01
    """[m/s]"""
    spin: float = 0.1
    """[rad/s]"""

    def rollout(
        self, initial_states: Float[np.ndarray, "toss 13"], steps: int, seed: int
    ) -> Float[np.ndarray, "toss step_and_start 13"]:
        """One sample; a function of the seed."""
        rng = np.random.default_rng([seed, 33])
        noise = rng.normal(size=(len(initial_states), 12))
        start = np.array(initial_states)
        start[:, :3] += self.position * noise[:, :3]
        start[:, 3:7] = quat_multiply(start[:, 3:7], quat_from_axis_angle(self.rotation * noise[:, 3:6]))
        start[:, 7:10] += self.velocity * noise[:, 6:9]
        start[:, 10:] += self.spin * noise[:, 9:]
        return self.simulator.rollout(start, steps, seed)


def ensemble(
    simulator: TossSimulator, initial_states: Float[np.ndarray, "toss 13"], steps: int, *, members: int, seed: int
) -> Float[np.ndarray, "member toss step_and_start 13"]:
    """Several rollouts of the same tosses, each with a seed of its own."""
    seeds = np.random.SeedSequence([seed, 34]).generate_state(members)
    return np.stack([simulator.rollout(initial_states, steps, int(s)) for s in seeds])


def simulate_many(
    initial: Float[np.ndarray, "toss 13"],
    steps: int,
    phis: Float[np.ndarray, "candidate 9"],
    scale: CubeScale,
    settings: SimulationConfig,
) -> Float[np.ndarray, "candidate toss step_and_start 13"]:
    """Every toss with every set of contact parameters, in one batch."""
    many, n = len(phis), len(initial)
    states = simulate_tosses(
        np.tile(initial, (many, 1)),
        steps,
        np.repeat(phis, n, axis=0),
        scale,
        cone=settings.cone,
        substeps=settings.substeps,
        threads=settings.threads,
    )
    return states.reshape(many, n, steps + 1, 13)


def simulate_first_impacts(
    impacts: CornerImpacts,
    phis: Float[np.ndarray, "candidate 9"],
    settings: SimulationConfig,
    *,
    clearance: float = 5e-4,
) -> Float[np.ndarray, "candidate impact 6"]:
    """MuJoCo's velocity after each impact, from the measured state before, carried back to the touch.

    Read off when every corner is `clearance` above the table again after the first descent, as in the measured record;
    an impact that does not separate within `impact_seconds` is read off there.

    Args:
        impacts: the states before.
        phis: contact parameters, in the order of `CUBE_PARAMETERS`.
        settings: step and cone.
        clearance: height of the lowest corner that ends the contact [m].
    """
    many, n = len(phis), len(impacts)
    dt = CUBE_DT / settings.impact_substeps
    steps = int(np.ceil(settings.impact_seconds / dt))
    states = simulate_tosses(
        np.tile(impacts.states, (many, 1)),
        steps,
        np.repeat(phis, n, axis=0),
        impacts.scale,
        cone=settings.cone,
        substeps=1,
        dt=dt,
        threads=settings.threads,
    )
    height = lowest_corner(states, impacts.scale)
    free = (height > clearance) & (np.arange(steps + 1) > 1)
    k = np.where(free.any(axis=1), free.argmax(axis=1), steps)
    post = states[np.arange(many * n), k, 7:]
    post[:, 2] += impacts.scale.gravity * k * dt
    return post.reshape(many, n, 6)
