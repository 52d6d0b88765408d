"""Strikes that were measured, and everything that can be fitted to a few of them.

    Surrogate          distilled from MuJoCo, identified and fine-tuned on the strikes
    ContactNetwork     the same strikes and nothing else: what a network knows without pre-training
    RestitutionFriction    two numbers
    MuJoCo             its own contact parameters, by CMA-ES on the strikes

The table's friction comes from the slides after the strikes (`identify_ground_friction`) for all of them alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import expit, logit
from torch import nn

from dexprior.collision.calibration import Identified, IdentifyConfig, finetune, identify
from dexprior.collision.closed_form import RestitutionFriction
from dexprior.collision.planar.rollout import object_velocity, strike_contact
from dexprior.collision.planar.sliding import friction_acceleration
from dexprior.collision.residual import ResidualConfig
from dexprior.collision.surrogate import Surrogate, contact_velocity
from dexprior.config import Ge, Gt, config
from dexprior.errors import BadInput
from dexprior.stats.minimize import minimize_cma
from dexprior.types.check import Checker
from dexprior.types.collision import ContactGeometry
from dexprior.worlds.pushing import PushingConfig, Strikes, simulate_strikes

__all__ = [
    "ContactNetwork",
    "ScratchConfig",
    "StrikeImpacts",
    "TuneStrikesConfig",
    "departure_velocity",
    "fit_restitution",
    "fit_scratch",
    "fit_surrogate",
    "strike_error",
    "tune_mujoco_strikes",
]

_MIN_SPEED = 0.05  # [m/s] slower, the direction of a measured velocity is noise
_WINDOW = 5  # frames over which the speed is judged
_SHORTEST = 5  # frames; a cubic through fewer is no smoothing
_EARLY = 0.06  # [s] of a slide that tell how it began; longer ones carry more of what the friction law misses
_WORST = 2.0  # errors are cut off there, so that one diverging simulation does not decide a search


@dataclass(frozen=True, kw_only=True)
class StrikeImpacts:
    """Strikes on objects at rest and the velocity that each gave; reads as impacts of the object against the rod."""

    schema: ClassVar[str] = "dexprior.strike_impacts/1"

    config: PushingConfig
    pose: Float[np.ndarray, "strike 3"]
    """[x y yaw] of the object when it was struck."""
    strikes: Strikes
    velocity: Float[np.ndarray, "strike 3"]
    """Object's [vx vy omega] when the rod had left."""

    def __post_init__(self) -> None:
        check = Checker(self)
        check.array("pose", "strike", 3)
        check.array("velocity", "strike", 3)
        if len(self.pose) != len(self.strikes):
            raise BadInput(f"StrikeImpacts: {len(self.strikes)} strikes on {len(self.pose)} objects")

    def __len__(self) -> int:
        return len(self.strikes)

    @cached_property
    def _contact(self) -> tuple[Float[np.ndarray, "strike 3"], ContactGeometry]:
        return strike_contact(self.config, self.pose, self.strikes)

    @property
    def pre(self) -> Float[np.ndarray, "strike 3"]:
        """Object's velocity seen from the rod, before."""
        return self._contact[0]

    @property
    def post(self) -> Float[np.ndarray, "strike 3"]:
        """The same after, had the table taken no momentum during the contact."""
        return self.pre + self.velocity / object_velocity(self.config, np.zeros((1, 3)), np.ones((1, 3)))

    @cached_property
    def geometry(self) -> ContactGeometry:
        """Contact rows, inertia of object plus rod, and as context the approach [m/s] and place in the body frame."""
        pre, contact = self._contact
        c, s = np.cos(self.pose[:, 2]), np.sin(self.pose[:, 2])
        along, across = c * pre[:, 0] + s * pre[:, 1], c * pre[:, 1] - s * pre[:, 0]
        context = np.stack([along, across, np.cos(self.strikes.alpha), np.sin(self.strikes.alpha)], axis=1)
        return ContactGeometry(jacobian=contact.jacobian, inverse_inertia=contact.inverse_inertia, context=context)

    def take(self, rows: np.ndarray) -> StrikeImpacts:
        """The chosen strikes, in the given order."""
        chosen = Strikes(**{name: getattr(self.strikes, name)[rows] for name in ("alpha", "speed", "beta")})
        return StrikeImpacts(config=self.config, pose=self.pose[rows], strikes=chosen, velocity=self.velocity[rows])


def strike_error(
    predicted: Float[np.ndarray, "*candidate strike 3"], impacts: StrikeImpacts
) -> Float[np.ndarray, "*candidate strike"]:
    """||predicted - measured|| / ||measured|| of the object's (vx, vy, k omega): the kinetic-energy norm."""
    scale = np.array([1.0, 1.0, impacts.config.footprint.gyration])
    distance = np.linalg.norm((predicted - impacts.velocity) * scale, axis=-1)
    return distance / np.linalg.norm(impacts.velocity * scale, axis=-1)


def departure_velocity(
    config: PushingConfig,
    tails: Float[np.ndarray, "strike frame 3"],
    t: Float[np.ndarray, " frame"],
    since: Float[np.ndarray, " strike"],
    *,
    friction: float,
    torsional_friction: float,
) -> Float[np.ndarray, "strike 3"]:
    """[vx vy omega] at separation, from the frames after it: x = x0 + v0 t + the way that friction takes.

    Friction is integrated along the smoothed motion, so that v0 is found by linear regression over the first 60 ms and
    not by differencing two frames. Frames slower than 0.05 m/s are left out. An object that is seen in fewer than five
    frames gets NaN.

    Args:
        config: the body.
        tails: [x y yaw] at every frame, yaw counted on through full turns; NaN after the end.
        t: [s] from the first frame, common to all.
        since: time from separation to the first frame [s].
        friction, torsional_friction: of the table.

    Raises:
        BadInput: wrong shapes.
    """
    tails, t = np.asarray(tails, dtype=np.float64), np.asarray(t, dtype=np.float64)
    if tails.ndim != 3 or tails.shape[1:] != (len(t), 3) or np.shape(since) != (len(tails),):
        raise BadInput(f"departure_velocity: tails {tails.shape}, {len(t)} times and since {np.shape(since)} disagree")
    scale = np.array([1.0, 1.0, config.footprint.gyration])
    ahead = np.minimum(np.arange(len(t)) + _WINDOW, len(t) - 1)
    found = np.zeros((len(tails), 3))
    for k, tail in enumerate(tails):
        seen = int(np.isfinite(tail).all(axis=1).sum())
        if seen < _SHORTEST:
            found[k] = np.nan
            continue
        step = np.linalg.norm((tail[ahead] - tail[ahead - _WINDOW]) * scale, axis=1) / (t[ahead] - t[ahead - _WINDOW])
        slow = ~(step > _MIN_SPEED)
        end = max(int(slow.argmax()) if slow.any() else seen, _SHORTEST)
        time, pose = t[:end] + since[k], tail[:end]
        way = _way(config, time, pose, friction, torsional_friction)
        early = max(int((t[:end] <= _EARLY).sum()), _SHORTEST)
        uniform = np.stack([np.ones(early), time[:early]], axis=1)
        found[k] = np.linalg.lstsq(uniform, (pose - way)[:early], rcond=None)[0][1]
    return found


def _way(
    config: PushingConfig, time: np.ndarray, pose: np.ndarray, mu: float, mu_t: float
) -> Float[np.ndarray, "frame 3"]:
    """Double integral from separation on of the acceleration by friction, along the smoothed motion."""
    cubic = np.polynomial.polynomial.polyfit(time, pose, 3)
    grid = np.concatenate([[0.0], time])
    yaw = np.polynomial.polynomial.polyval(grid, cubic[:, 2])
    velocity = np.polynomial.polynomial.polyval(grid, np.polynomial.polynomial.polyder(cubic)).T
    a = friction_acceleration(config, yaw, velocity, friction=mu, torsional_friction=mu_t)
    dt = np.diff(grid)[:, None]
    v = np.concatenate([np.zeros((1, 3)), np.cumsum(dt * (a[1:] + a[:-1]) / 2, axis=0)])
    return np.cumsum(dt * v[:-1] + dt**2 * (2 * a[:-1] + a[1:]) / 6, axis=0)


# --- the pre-trained network, and the closed form -------------------------------------------------------------


def fit_surrogate(
    base: Surrogate,
    impacts: StrikeImpacts,
    *,
    identification: IdentifyConfig | None = None,
    residual: ResidualConfig | None = None,
    slowest: float = 0.2,
) -> tuple[Surrogate, Identified]:
    """Identify the base's contact parameters from measured strikes, then condition its residual on what is missed.

    Args:
        base: distilled from MuJoCo.
        impacts: measured strikes.
        identification, residual: settings of both; None takes the defaults.
        slowest: normal speed of the rod at the contact [m/s] from which a strike is read. The calibration takes
            impulses in units of that speed, in which the noise of a grazing strike outweighs all others.

    Raises:
        BadInput: fewer than three such strikes.
    """
    residual = residual or ResidualConfig()
    closing = -contact_velocity(impacts.pre, impacts.geometry)[:, 0]
    read = impacts.take(np.flatnonzero(closing >= slowest))
    identified = identify(base, read, identification or IdentifyConfig(), residual)
    return finetune(base, read, identified, residual), identified


def fit_restitution(impacts: StrikeImpacts, *, ticks: int = 81) -> Float[np.ndarray, " 2"]:
    """phi of `RestitutionFriction` by grid search on [0, 1]^2: smallest mean error of the object's velocity."""
    grid = np.linspace(0.0, 1.0, ticks)
    candidates = np.stack(np.meshgrid(grid, grid, indexing="ij"), -1).reshape(-1, 2)
    rows = np.tile(np.arange(len(impacts)), len(candidates))
    pre, geometry = strike_contact(impacts.config, impacts.pose, impacts.strikes)
    tiled = ContactGeometry(jacobian=geometry.jacobian[rows], inverse_inertia=geometry.inverse_inertia[rows])
    after, _ = RestitutionFriction().predict(pre[rows], tiled, candidates.repeat(len(impacts), axis=0))
    velocity = object_velocity(impacts.config, pre[rows], after).reshape(len(candidates), len(impacts), 3)
    return candidates[int(np.minimum(strike_error(velocity, impacts), _WORST).mean(axis=1).argmin())]


# --- a network without pre-training ----------------------------------------------------------------------------


@config
class ScratchConfig:
    """A network that sees the measured strikes only, of the size and training that CLASH gives its own."""

    width: Annotated[int, Ge(4)] = 128
    """Units per hidden layer."""
    depth: Annotated[int, Ge(1)] = 3
    """Hidden layers."""
    steps: Annotated[int, Ge(1)] = 1000
    """AdamW steps, each on all strikes."""
    learning_rate: Annotated[float, Gt(0)] = 1e-3
    """AdamW's."""
    weight_decay: Annotated[float, Ge(0)] = 0.01
    """AdamW's."""


@dataclass(frozen=True, kw_only=True)
class ContactNetwork:
    """A multilayer perceptron from approach and lever arms to the change of velocity, in the contact frame.

    It has no parameters phi, and knows neither Coulomb's cone nor energy. Implements `CollisionModel`.
    """

    layers: tuple[tuple[np.ndarray, np.ndarray], ...]
    """Weight (out, in) and bias (out,) of each layer."""
    gyration: float
    """[m] in which lever arms and spin are counted."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """None."""
        return ()

    @property
    def rows(self) -> int:
        """Normal and tangent."""
        return 2

    def predict(
        self,
        pre: Float[np.ndarray, "batch 3"],
        geometry: ContactGeometry,
        phi: Float[np.ndarray, "batch 0"],
    ) -> tuple[Float[np.ndarray, "batch 3"], Float[np.ndarray, "batch 3"]]:
        """Velocity after the impact; the standard deviation is zero, as the network has none."""
        inputs, frame, speed = _contact_view(pre, geometry, self.gyration)
        x = inputs
        for weight, bias in self.layers[:-1]:
            x = np.maximum(x @ weight.T + bias, 0.0)
        weight, bias = self.layers[-1]
        change = (x @ weight.T + bias) * speed
        return pre + np.einsum("bij,bj->bi", frame, change), np.zeros_like(pre)


def fit_scratch(impacts: StrikeImpacts, training: ScratchConfig | None = None, *, seed: int) -> ContactNetwork:
    """Train a `ContactNetwork` on measured strikes alone; a function of (impacts, training, seed)."""
    training = training or ScratchConfig()
    gyration = impacts.config.footprint.gyration
    inputs, frame, speed = _contact_view(impacts.pre, impacts.geometry, gyration)
    change = np.linalg.solve(frame, (impacts.post - impacts.pre)[..., None])[..., 0] / speed
    x, y = (torch.as_tensor(a, dtype=torch.float32) for a in (inputs, change))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = [x.shape[1], *[training.width] * training.depth, y.shape[1]]
        linear = [nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]
    hidden: list[nn.Module] = [module for layer in linear[:-1] for module in (layer, nn.ReLU())]
    network = nn.Sequential(*hidden, linear[-1])
    optimizer = torch.optim.AdamW(network.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay)
    for _ in range(training.steps):
        loss = (network(x) - y).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    layers = tuple((layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()) for layer in linear)
    return ContactNetwork(layers=layers, gyration=gyration)


def _contact_view(
    pre: np.ndarray, geometry: ContactGeometry, gyration: float
) -> tuple[np.ndarray, Float[np.ndarray, "batch 3 3"], Float[np.ndarray, "batch 1"]]:
    """Inputs of order one, the frame [normal tangent spin] whose columns span [vx vy omega], and the speed."""
    approach = contact_velocity(pre, geometry)
    speed = np.linalg.norm(approach, axis=1, keepdims=True)
    levers = geometry.jacobian[:, :, 2] / gyration
    frame = np.zeros((len(pre), 3, 3))
    frame[:, :2, 0], frame[:, :2, 1] = geometry.jacobian[:, 0, :2], geometry.jacobian[:, 1, :2]
    frame[:, 2, 2] = 1.0 / gyration
    return np.concatenate([approach / np.maximum(speed, 1e-9), speed, levers], axis=1), frame, speed


# --- MuJoCo tuned on the same strikes --------------------------------------------------------------------------


@config
class TuneStrikesConfig:
    """CMA-ES on MuJoCo's contact parameters between rod and object: log-scaled, the impedance on a logit scale."""

    evaluations: Annotated[int, Ge(8)] = 240
    """Simulations of the whole set of strikes."""
    population: Annotated[int, Ge(4)] = 12
    """Simulated side by side."""
    spread: Annotated[float, Gt(0)] = 0.4
    """Initial standard deviation, where each range is [-1, 1]."""
    rod_friction: tuple[float, float] = (0.02, 1.0)
    """Where it is searched."""
    rod_damping_ratio: tuple[float, float] = (0.05, 1.0)
    """Where it is searched."""
    time_constant: tuple[float, float] = (0.0003, 0.01)
    """Where it is searched [s]."""
    rod_grip: tuple[float, float] = (0.2, 20.0)
    """Where it is searched."""
    rod_impedance: tuple[float, float] = (0.005, 0.95)
    """Where it is searched: from that of the network's simulator to the end of MuJoCo's default."""


def tune_mujoco_strikes(
    impacts: StrikeImpacts,
    tuning: TuneStrikesConfig | None = None,
    *,
    known: Mapping[str, float] | None = None,
    seed: int,
    threads: int = 1,
) -> dict[str, float]:
    """MuJoCo's parameters of the contact with the rod: smallest mean error of the object's velocity.

    Args:
        impacts: measured strikes.
        tuning: ranges and budget.
        known: parameters that were found otherwise, such as the table's friction.
        seed: of the search.
        threads: of MuJoCo's pool.

    Returns:
        The parameters found, with the known ones, by names of `PUSHING_PARAMETERS`.
    """
    tuning, known = tuning or TuneStrikesConfig(), dict(known or {})
    names = ("rod_friction", "rod_damping_ratio", "time_constant", "rod_grip", "rod_impedance")
    low, high = np.array([getattr(tuning, name) for name in names]).T
    low, high = (np.append(np.log(end[:-1]), logit(end[-1])) for end in (low, high))
    n = len(impacts)

    def values(units: np.ndarray) -> np.ndarray:
        found = (low + high) / 2 + (high - low) / 2 * units
        return np.concatenate([np.exp(found[..., :-1]), expit(found[..., -1:])], axis=-1)

    def cost(units: np.ndarray) -> np.ndarray:
        many = len(units)
        rows = np.tile(np.arange(n), many)
        tiled = impacts.take(rows)
        columns: dict[str, Any] = dict(zip(names, values(units).repeat(n, axis=0).T))
        columns |= {name: np.full(many * n, value) for name, value in known.items()}
        found = simulate_strikes(
            impacts.config, tiled.pose, tiled.strikes, parameters=columns, slide=False, threads=threads
        )
        return np.minimum(strike_error(found.velocity, tiled), _WORST).reshape(many, n).mean(axis=1)

    best, _ = minimize_cma(
        cost,
        np.zeros(len(names)),
        spread=tuning.spread,
        bounds=(-1.0, 1.0),
        population=tuning.population,
        evaluations=tuning.evaluations + 1,  # as the package counts: the generation that reaches it is not the last
        seed=seed,
    )
    return {name: float(value) for name, value in zip(names, values(best))} | known
