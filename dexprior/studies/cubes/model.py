"""Our cube: a few numbers of the wider family, found by their posterior, and the distribution of tosses they give.

    phi = argmin  sum_i e_i / (e_i + saturation) + prior_weight * sum_k ((phi_k - centre_k) / spread_k)^2

over first impacts (e: relative error of the velocity after) or whole tosses (e: e_q, averaged over the frames), by
CMA-ES (Hansen 2016). The first term saturates, so that the few tosses that tumble onto another face do not decide; the
second keeps what few tosses cannot tell at its prior.

Tosses bifurcate. `CubeSimulator` draws each toss's parameters about phi and its start about the measured one, and
`MeanToss` answers with the pose that has the smallest expected e_q under that distribution, frame by frame.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from jaxtyping import Float

from dexprior.config import Ge, Gt, config
from dexprior.data.tosses import CubeScale, CubeTosses
from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_quat
from dexprior.stats.minimize import minimize_cma
from dexprior.studies.cubes.family import (
    CUBE_FAMILY,
    family_from_unit,
    simulate_family,
    simulate_family_impacts,
)
from dexprior.studies.cubes.metrics import pose_cost, relative_error
from dexprior.studies.cubes.segmentation import CornerImpacts
from dexprior.studies.cubes.simulation import NoisyStart, TossSimulator, ensemble

__all__ = [
    "CubeSimulator",
    "FamilyConfig",
    "FirstImpactModel",
    "MeanToss",
    "fit_first_impacts",
    "fit_whole_tosses",
    "mean_states",
    "stochastic",
]

_MIN_IMPACTS = 3  # fewer cannot tell friction from restitution from inertia
_CHUNK = 4000  # rollouts at a time, which bounds memory
_SCATTER = 0.04  # prior of the misfit in each direction, as a share of the speed before...
_SCATTER_WEIGHT = 8.0  # ... and the number of impacts that it counts for
_JITTER = {"friction": 0.12, "damping_ratio": 0.3, "time_constant": 0.3, "impratio": 0.3, "inertia": 0.1}


@config
class FamilyConfig:
    """How the cube's parameters are found, and how it is stepped."""

    names: tuple[str, ...] = ("friction", "damping_ratio", "time_constant", "impratio", "inertia", "rounding")
    """Parameters that are searched; the others keep the prior's centre. Offsets of the centre of mass fit better and
    predict worse."""
    prior_weight: Annotated[float, Ge(0.0)] = 0.3
    """Weight of the prior against one impact or toss."""
    saturation: Annotated[float, Gt(0.0)] = 0.1
    """Error that costs half of what a lost impact or toss does."""
    evaluations: Annotated[int, Ge(1)] = 240
    """Parameter sets tried."""
    population: Annotated[int, Ge(4)] = 12
    """Parameter sets per generation."""
    step: Annotated[float, Gt(0.0)] = 0.15
    """First standard deviation, as a share of each range."""
    substeps: Annotated[int, Ge(12)] = 16
    """MuJoCo steps per frame for tosses."""
    impact_substeps: Annotated[int, Ge(16)] = 32
    """MuJoCo steps per frame for first impacts alone."""
    threads: Annotated[int, Ge(0)] = 1
    """Threads of MuJoCo's pool (0: all CPUs); results do not depend on it."""


# --- first impacts ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FirstImpactModel:
    """What the cube does at its first impact."""

    phi: Float[np.ndarray, " 9"]
    """Parameters in the order of `CUBE_FAMILY`."""
    scatter: Float[np.ndarray, "6 6"]
    """Covariance of the misfit in the contact frame, over the squared speed before (kinetic-energy norm)."""
    settings: FamilyConfig

    def predict(self, impacts: CornerImpacts) -> tuple[Float[np.ndarray, "impact 6"], Float[np.ndarray, "impact 6 6"]]:
        """Velocity after, and its covariance in the contact frame (see `contact_frame`)."""
        post = simulate_family_impacts(
            impacts, self.phi[None], substeps=self.settings.impact_substeps, threads=self.settings.threads
        )[0]
        return post, self.scatter * _squared_speed(impacts)[:, None, None]


def fit_first_impacts(impacts: CornerImpacts, settings: FamilyConfig, *, seed: int) -> FirstImpactModel:
    """Parameters of the largest posterior density, and the scatter that they leave.

    Raises:
        BadInput: fewer than three impacts.
        UnknownName: `settings.names` holds no such parameter.
    """
    if len(impacts) < _MIN_IMPACTS:
        raise BadInput(f"fit_first_impacts: {len(impacts)} impacts; at least {_MIN_IMPACTS} are needed")

    def errors(phis: np.ndarray) -> np.ndarray:
        post = simulate_family_impacts(impacts, phis, substeps=settings.impact_substeps, threads=settings.threads)
        return relative_error(post, impacts)

    phi = _maximize_posterior(errors, len(impacts), settings, seed)
    return FirstImpactModel(phi=phi, scatter=_scatter(impacts, phi, settings), settings=settings)


def contact_frame(impacts: CornerImpacts, velocity: Float[np.ndarray, "impact 6"]) -> Float[np.ndarray, "impact 6"]:
    """Velocities in normal, sliding and third direction, [v, k omega] in m/s, k the radius of gyration."""
    axes = impacts.geometry.jacobian[:, :, :3]
    turned = np.einsum("bij,bj->bi", matrix_from_quat(impacts.pose[:, 3:]), velocity[:, 3:])
    both = np.stack([velocity[:, :3], impacts.velocity_scale[3] * turned], axis=1)
    return np.einsum("bij,bpj->bpi", axes, both).reshape(-1, 6)


def _scatter(impacts: CornerImpacts, phi: np.ndarray, settings: FamilyConfig) -> np.ndarray:
    post = simulate_family_impacts(impacts, phi[None], substeps=settings.impact_substeps, threads=settings.threads)[0]
    missed = contact_frame(impacts, impacts.post - post) / np.sqrt(_squared_speed(impacts))[:, None]
    prior = _SCATTER_WEIGHT * _SCATTER**2 * np.eye(6)
    covariance: np.ndarray = (missed.T @ missed + prior) / (len(impacts) + _SCATTER_WEIGHT)
    return covariance


def _squared_speed(impacts: CornerImpacts) -> np.ndarray:
    squared: np.ndarray = ((impacts.pre * impacts.velocity_scale) ** 2).sum(axis=1)
    return squared


# --- whole tosses -------------------------------------------------------------------------------------------


def fit_whole_tosses(
    tosses: CubeTosses,
    scale: CubeScale,
    settings: FamilyConfig,
    *,
    seed: int,
    initial: Float[np.ndarray, "toss 13"] | None = None,
) -> Float[np.ndarray, " 9"]:
    """Parameters of the largest posterior density, in the order of `CUBE_FAMILY`.

    Args:
        tosses: to learn from.
        scale: learned from the same tosses.
        settings: of the search.
        seed: of the search.
        initial: states at frame 0; the measured ones where not given.

    Raises:
        UnknownName: `settings.names` holds no such parameter.
    """
    measured, weight = tosses.padded(), tosses.frame_weights
    start = tosses.initial_states if initial is None else initial
    n, steps = len(tosses), measured.shape[1] - 1

    def errors(phis: np.ndarray) -> np.ndarray:
        many = len(phis)
        states = simulate_family(
            np.tile(start, (many, 1)),
            steps,
            np.repeat(phis, n, axis=0),
            scale,
            substeps=settings.substeps,
            threads=settings.threads,
        ).reshape(many, n, steps + 1, 13)
        return (weight * pose_cost(states, measured)).sum(axis=-1)

    return _maximize_posterior(errors, n, settings, seed)


def _maximize_posterior(
    errors: Callable[[np.ndarray], np.ndarray], items: int, settings: FamilyConfig, seed: int
) -> Float[np.ndarray, " 9"]:
    """Best of what CMA-ES tried, from the prior's centre on; `errors` gives (candidate, item)."""
    names, part = settings.names, max(1, _CHUNK // items)

    def cost(unit: np.ndarray) -> np.ndarray:
        phis, away = family_from_unit(names, unit)
        e = np.concatenate([errors(phis[k : k + part]) for k in range(0, len(phis), part)])
        return (e / (e + settings.saturation)).sum(axis=1) + settings.prior_weight * (away**2).sum(axis=1)

    middle = _unit_prior(names)
    at_prior = float(cost(middle[None])[0])
    best, lowest = minimize_cma(
        cost,
        middle,
        spread=settings.step,
        bounds=(0.0, 1.0),
        population=settings.population,
        evaluations=settings.evaluations - 1,
        seed=seed,
    )
    return family_from_unit(names, (best if lowest < at_prior else middle)[None])[0][0]


def _unit_prior(names: tuple[str, ...]) -> np.ndarray:
    """The prior's centre in the searched box."""
    _, low = family_from_unit(names, np.zeros((1, len(names))))
    _, high = family_from_unit(names, np.ones((1, len(names))))
    unit: np.ndarray = (-low / (high - low))[0]
    return unit


# --- simulators ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CubeSimulator:
    """A toss of the family's cube; with `jitter` above zero each toss draws its own parameters."""

    phi: Float[np.ndarray, " 9"]
    """Parameters in the order of `CUBE_FAMILY`."""
    scale: CubeScale
    """Scale of lengths, gravity and the table."""
    jitter: float = 0.0
    """Share of the declared scatter: 12 % of friction, 30 % of damping ratio, time constant and impratio, 10 % of
    inertia."""
    substeps: int = 16
    """MuJoCo steps per frame."""
    threads: int = 1
    """Threads of MuJoCo's pool."""

    def rollout(
        self, initial_states: Float[np.ndarray, "toss 13"], steps: int, seed: int = 0
    ) -> Float[np.ndarray, "toss step_and_start 13"]:
        """States at frames 0..steps; a function of the seed, and without jitter not even of that."""
        phi = np.tile(self.phi, (len(initial_states), 1))
        if self.jitter > 0:
            noise = np.random.default_rng([seed, 35]).normal(size=(len(phi), len(_JITTER)))
            columns = [CUBE_FAMILY.index(name) for name in _JITTER]
            phi[:, columns] *= np.exp(self.jitter * np.array(list(_JITTER.values())) * noise)
        return simulate_family(initial_states, steps, phi, self.scale, substeps=self.substeps, threads=self.threads)


def stochastic(simulator: TossSimulator, *, blur: float = 2.0) -> NoisyStart:
    """A distribution of tosses: starts blurred by `blur` times their measurement noise, parameters with jitter."""
    if isinstance(simulator, CubeSimulator):
        simulator = replace(simulator, jitter=1.0)
    still = NoisyStart(simulator=simulator)
    return replace(
        still,
        position=blur * still.position,
        rotation=blur * still.rotation,
        velocity=blur * still.velocity,
        spin=blur * still.spin,
    )


@dataclass(frozen=True, kw_only=True)
class MeanToss:
    """Deterministic answer of a stochastic simulator: the mean over its rollouts, which has the least expected e_q.

    It is a prediction, not a motion: between two outcomes it may hover where no cube can be.
    """

    simulator: TossSimulator
    """Stochastic."""
    members: int = 12
    """Rollouts."""

    def rollout(
        self, initial_states: Float[np.ndarray, "toss 13"], steps: int, seed: int = 0
    ) -> Float[np.ndarray, "toss step_and_start 13"]:
        """Mean states at frames 0..steps; frame 0 is the given one."""
        states = mean_states(ensemble(self.simulator, initial_states, steps, members=self.members, seed=seed))
        states[:, 0] = initial_states
        return states


def mean_states(states: Float[np.ndarray, "member *batch 13"]) -> Float[np.ndarray, "*batch 13"]:
    """Mean positions and velocities, and the chordal mean of the orientations.

    The mean quaternion is the largest eigenvector of the mean of q q^T (Markley et al. 2007, "Averaging Quaternions").
    """
    mean = states.mean(axis=0)
    quat = states[..., 3:7]
    outer = np.einsum("m...i,m...j->...ij", quat, quat)
    mean[..., 3:7] = np.linalg.eigh(outer)[1][..., -1]
    return mean
