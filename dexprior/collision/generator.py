"""Impacts made in MuJoCo, for the surrogate to learn from.

An ellipse of random shape strikes a plane; what is kept is the contact frame's view of it: approach velocity,
Delassus operator, contact parameters, and the impulse that explains the change of velocity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from jaxtyping import Float

from dexprior.collision.parameters import ContactRanges
from dexprior.config import Ge, Gt, Le, config
from dexprior.data.impacts import ELLIPSE_MASS, ellipse_contact, kinetic_energy
from dexprior.data.simulated_impacts import CONTACT_PARAMETERS, simulate_impacts
from dexprior.errors import BadInput
from dexprior.families import ParameterFamily
from dexprior.types.check import Checker
from dexprior.types.collision import ContactGeometry

__all__ = ["CollisionPairs", "GeneratorConfig", "best_impulse", "generate_pairs"]

_ENERGY_TOLERANCE = 1e-6  # relative gain of kinetic energy that is still rounding
_MAX_ROUNDS = 20


@config
class GeneratorConfig:
    """What is sampled. Shapes vary so that the Delassus operator does, not only this one ellipse's."""

    pairs: Annotated[int, Ge(1)] = 100_000
    """Accepted impacts."""
    approach_speed: tuple[float, float] = (0.1, 6.0)
    """Normal speed at the contact point [m/s], log-uniform."""
    slide_ratio: Annotated[float, Gt(0)] = 5.0
    """Largest ratio s of tangential to normal speed at the contact point; uniform in s / (1 + |s|)."""
    spin: Annotated[float, Ge(0)] = 30.0
    """Largest angular speed before the impact [rad/s]."""
    semi_major: tuple[float, float] = (0.025, 0.045)
    """[m]"""
    aspect: tuple[float, float] = (0.15, 1.0)
    """Semi-minor over semi-major axis: thin ones are struck far beside the centre."""
    solidity: tuple[float, float] = (0.1, 0.5)
    """Inertia over m (a^2 + b^2), log-uniform: 0.2 for a solid ellipsoid, 0.25 for a plate, more for a dumbbell."""
    impedance: Annotated[float, Gt(0), Le(0.9999)] = 0.005
    """MuJoCo's `solimp`: low values make the contact an explicit spring and damper."""
    resolution: Annotated[int, Ge(4)] = 12
    """Time steps per damping_ratio * time_constant; 12 is within 0.5 % (median) of 60."""


@dataclass(frozen=True, kw_only=True)
class CollisionPairs:
    """Impacts in the contact frame; axis 2 is [normal, tangent]."""

    schema: ClassVar[str] = "dexprior.collision_pairs/1"

    approach: Float[np.ndarray, "pair 2"]
    """Contact velocity before [m/s]; the normal one is negative."""
    delassus: Float[np.ndarray, "pair 2 2"]
    """A = J M^-1 J^T at the first touch [1/kg]."""
    phi: Float[np.ndarray, "pair parameter"]
    """Contact parameters that the simulator was given."""
    impulse: Float[np.ndarray, "pair 2"]
    """Impulse at the first touch [N s]."""
    counts: dict[str, int]
    """How many impacts were simulated, and rejected because they gained energy or were cut off in contact."""

    def __post_init__(self) -> None:
        check = Checker(self)
        check.array("approach", "pair", 2)
        check.array("delassus", "pair", 2, 2)
        check.array("phi", "pair", "parameter")
        check.array("impulse", "pair", 2)

    def __len__(self) -> int:
        return len(self.approach)

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name, as they are saved."""
        return {name: getattr(self, name) for name in ("approach", "delassus", "phi", "impulse")}


def generate_pairs(
    config: GeneratorConfig,
    ranges: ContactRanges,
    *,
    seed: int,
    threads: int = 1,
    family: ParameterFamily | None = None,
) -> CollisionPairs:
    """Simulate random impacts until `config.pairs` are accepted; a function of its arguments but `threads`.

    An impact that gains kinetic energy (MuJoCo's soft contacts do that now and then) or turns into a push is rejected
    and counted.

    Args:
        config: what is sampled.
        ranges: of the contact parameters.
        seed: of everything that is drawn.
        threads: of MuJoCo's pool.
        family: takes the place of the ranges for the contact parameters that it names, with its joint density.

    Raises:
        BadInput: nearly everything is rejected; a family without a contact parameter, or beyond the ranges.
    """
    if family is not None:
        ranges.check_covers(family)
    kept: list[dict[str, np.ndarray]] = []
    counts = {"simulated": 0, "gained_energy": 0, "cut_off": 0}
    missing = config.pairs
    for attempt in range(_MAX_ROUNDS):
        spare = missing // 16 + 8
        found = _simulate_round(config, ranges, family, seed=[seed, attempt], n=missing + spare, threads=threads)
        gained, cut_off = found.pop("gained"), found.pop("cut_off")
        good = ~(gained | cut_off)
        kept.append({name: value[good][:missing] for name, value in found.items()})
        counts["simulated"] += len(good)
        counts["gained_energy"] += int(gained.sum())
        counts["cut_off"] += int(cut_off.sum())
        missing -= len(kept[-1]["approach"])
        if missing == 0:
            break
    else:
        raise BadInput(f"generate_pairs: {missing} of {config.pairs} impacts missing after {counts}")
    joined = {name: np.concatenate([part[name] for part in kept]) for name in kept[0]}
    return CollisionPairs(**joined, counts=counts)


def best_impulse(
    change: Float[np.ndarray, "batch dof"], geometry: ContactGeometry
) -> Float[np.ndarray, "batch contact"]:
    """The contact impulse that best explains a change of velocity, in the kinetic-energy norm.

    argmin_p (M^-1 J^T p - dv)^T M (M^-1 J^T p - dv)  =  A^-1 J dv.
    """
    slip = np.einsum("bcd,bd->bc", geometry.jacobian, change)
    return np.linalg.solve(geometry.delassus, slip[..., None])[..., 0]


def _simulate_round(
    config: GeneratorConfig,
    ranges: ContactRanges,
    family: ParameterFamily | None,
    *,
    seed: list[int],
    n: int,
    threads: int,
) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    phi = ranges.sample(rng, n)
    if family is not None:
        drawn = family.sample(np.random.default_rng([*seed, 7]), n)
        for k, name in enumerate(CONTACT_PARAMETERS):
            if name in family.names:
                phi[:, k] = drawn[:, family.names.index(name)]
    major = rng.uniform(*config.semi_major, n)
    axes = np.stack([major, major * rng.uniform(*config.aspect, n)], axis=1)
    mass = ELLIPSE_MASS  # the outcome in velocities does not depend on it
    inertia = (
        mass
        * (axes**2).sum(axis=1)
        * np.exp(rng.uniform(math.log(config.solidity[0]), math.log(config.solidity[1]), n))
    )
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    normal, tangent = ellipse_contact(angle, axes)
    low, high = np.log(config.approach_speed)
    speed = np.exp(rng.uniform(low, high, n))
    steepest = config.slide_ratio / (1.0 + config.slide_ratio)
    squashed = rng.uniform(-steepest, steepest, n)
    slide = speed * squashed / (1.0 - np.abs(squashed))
    spin = rng.uniform(-config.spin, config.spin, n)
    pre = np.stack([slide - tangent[:, 2] * spin, -speed - normal[:, 2] * spin, spin], axis=1)

    post, separated = simulate_impacts(
        pre,
        angle,
        phi,
        semi_axes=axes,
        mass=mass,
        inertia=inertia,
        impedance=config.impedance,
        resolution=config.resolution,
        threads=threads,
    )
    inverse: Any = np.zeros((n, 3, 3))
    inverse[:, 0, 0] = inverse[:, 1, 1] = 1.0 / mass
    inverse[:, 2, 2] = 1.0 / inertia
    geometry = ContactGeometry(jacobian=np.stack([normal, tangent], axis=1), inverse_inertia=inverse)
    before, after = kinetic_energy(pre, mass, inertia), kinetic_energy(post, mass, inertia)
    return {
        "approach": np.stack([-speed, slide], axis=1),
        "delassus": geometry.delassus,
        "phi": phi,
        "impulse": best_impulse(post - pre, geometry),
        "gained": after > before * (1.0 + _ENERGY_TOLERANCE),
        "cut_off": ~separated,
    }
