"""Strikes in the striking world as the published reference sees them (CLASH, arXiv 2602.18707, section III).

The struck object is at rest. The state is the rod's speed, the deflection of the impact point about the centre (alpha)
and the deflection of the rod's velocity from the line to the centre (beta); the parameters are friction and damping
ratio between object and rod, and between object and table.
"""

from __future__ import annotations

from typing import Annotated, Protocol

import numpy as np
from jaxtyping import Bool, Float

from dexprior.collision.clash import StateFeatures
from dexprior.collision.shapes.contacts import SEPARATED, ContactWorlds
from dexprior.collision.shapes.scene import prism_strike
from dexprior.config import Ge, Gt, Le, config
from dexprior.errors import BadInput, ConfigError
from dexprior.worlds.pushing import PushingConfig, Strikes, rod_at_touch

__all__ = [
    "STRIKE_PARAMETERS",
    "StrikeSampling",
    "Struck",
    "sample_strikes",
    "simulate_strike_pairs",
    "strike_features",
    "strike_state",
]

STRIKE_PARAMETERS = ("rod_friction", "rod_damping_ratio", "table_friction", "table_damping_ratio")
"""Columns of the parameters, by their names in the striking world: object-object, then object-ground."""

_BLOCK = 2048  # strikes simulated at once
_GAP = 1e-6  # [m] between rod and object at the start
_ENERGY_TOLERANCE = 1e-6


@config
class StrikeSampling:
    """What the paper leaves open: the ranges, all uniform. Impact points cover what the shape allows."""

    pairs: Annotated[int, Ge(1)] = 100_000
    """Strikes that are simulated; those that gain energy or turn into a push are left out."""
    speed: tuple[float, float] = (0.2, 1.5)
    """Speed of the rod [m/s]."""
    beta: Annotated[float, Gt(0)] = 0.5
    """Largest deflection of the rod's velocity [rad]."""
    rod_friction: tuple[float, float] = (0.02, 1.0)
    """Coulomb coefficient between object and rod."""
    rod_damping_ratio: tuple[float, float] = (0.05, 1.0)
    """Damping ratio of the same contact."""
    table_friction: tuple[float, float] = (0.05, 0.6)
    """Coulomb coefficient between object and table; its upper end is lowered to where the object would tip."""
    table_damping_ratio: tuple[float, float] = (0.5, 2.0)
    """Damping ratio of the same contact."""
    time_constant: Annotated[float, Gt(0)] | None = None
    """Time constant of the contact with the rod [s]; None is the world's."""
    impratio: Annotated[float, Gt(0)] | None = None
    """MuJoCo's `impratio` of the contacts; None is the world's."""
    impedance: Annotated[float, Gt(0), Le(0.9999)] | None = None
    """Impedance of the contact with the rod, constant in depth; None is MuJoCo's default."""

    def __post_init__(self) -> None:
        for name in ("speed", *STRIKE_PARAMETERS):
            low, high = getattr(self, name)
            if not 0 < low < high:
                raise ConfigError(f"strikes.{name} = ({low}, {high}): needs 0 < low < high")

    def bounds(self, world: PushingConfig) -> Float[np.ndarray, "4 2"]:
        """Low and high of each parameter for one shape, in the order of `STRIKE_PARAMETERS`.

        Raises:
            ConfigError: the object tips at every table friction of the range.
        """
        found = np.array([getattr(self, name) for name in STRIKE_PARAMETERS])
        row = STRIKE_PARAMETERS.index("table_friction")
        found[row, 1] = min(found[row, 1], world.tipping_friction)
        if found[row, 1] <= found[row, 0]:
            raise ConfigError(
                f"strikes.table_friction = {self.table_friction}: a {world.shape} of this height tips above "
                f"{world.tipping_friction:.3f}"
            )
        return found


def sample_strikes(
    sampling: StrikeSampling, world: PushingConfig, n: int, rng: np.random.Generator
) -> tuple[Strikes, Float[np.ndarray, "n 4"]]:
    """Random strikes, and the parameters of each, in the order of `STRIKE_PARAMETERS`."""
    strikes = Strikes(
        alpha=rng.uniform(*world.alpha_range, n),
        speed=rng.uniform(*sampling.speed, n),
        beta=rng.uniform(-1.0, 1.0, n) * min(sampling.beta, world.max_beta),
    )
    low, high = sampling.bounds(world).T
    return strikes, rng.uniform(low, high, (n, len(low)))


class Struck(Protocol):
    """Objects that were struck at rest, simulated or measured."""

    @property
    def pose(self) -> Float[np.ndarray, "strike 3"]:
        """[x y yaw] at the touch."""
        ...

    @property
    def velocity(self) -> Float[np.ndarray, "strike 3"]:
        """[vx vy omega] right after it."""
        ...


def strike_state(strikes: Strikes) -> Float[np.ndarray, "strike 3"]:
    """What the reference's network sees of strikes: speed [m/s], alpha, beta [rad]."""
    return np.column_stack([strikes.speed, strikes.alpha, strikes.beta])


def strike_features(
    world: PushingConfig,
    strikes: Strikes,
    result: Struck,
    parameters: Float[np.ndarray, "strike 4"] | None = None,
) -> StateFeatures:
    """Strikes and what they did, as the reference's network sees them.

    Args:
        world: the shape that was struck.
        strikes: one per object.
        result: object's velocities, simulated or measured.
        parameters: what the simulator was given, in the order of `STRIKE_PARAMETERS`; None for measured strikes.

    Returns:
        state: speed [m/s], alpha, beta [rad].
        after: (vx, vy, k omega) of the object in its body frame at the touch [m/s].

    Raises:
        BadInput: strikes and results of different number.
    """
    if len(result.velocity) != len(strikes):
        raise BadInput(f"strike_features: {len(strikes)} strikes, but {len(result.velocity)} results")
    c, s = np.cos(result.pose[:, 2]), np.sin(result.pose[:, 2])
    vx, vy, omega = result.velocity.T
    after = np.column_stack([c * vx + s * vy, c * vy - s * vx, world.footprint.gyration * omega])
    return StateFeatures(state=strike_state(strikes), parameters=parameters, after=after)


def simulate_strike_pairs(
    sampling: StrikeSampling, world: PushingConfig, *, seed: int, threads: int = 1
) -> tuple[StateFeatures, dict[str, int]]:
    """Strikes in MuJoCo, from the touch to separation; and how many were left out, and why.

    A function of (sampling, world, seed) alone. Parameters that the reference does not know are those of `world`.
    """
    worlds = ContactWorlds(prism_strike(world.footprint.contour, like=world), _BLOCK, threads=threads)
    parts: list[StateFeatures] = []
    counts = {"simulated": 0, "gained_energy": 0, "cut_off": 0}
    for block in range(-(-sampling.pairs // _BLOCK)):
        strikes, parameters = sample_strikes(sampling, world, _BLOCK, np.random.default_rng([seed, block, 6]))
        velocity, rod_before, rod_after, separated = _strike(worlds, world, sampling, strikes, parameters)
        gained = _gained_energy(world, velocity, rod_before, rod_after)
        wanted = np.arange(_BLOCK) < sampling.pairs - block * _BLOCK
        keep = separated & ~gained & wanted
        counts["simulated"] += int(wanted.sum())
        counts["gained_energy"] += int((gained & separated & wanted).sum())
        counts["cut_off"] += int((~separated & wanted).sum())
        after = velocity * [1.0, 1.0, world.footprint.gyration]
        parts.append(StateFeatures(state=strike_state(strikes)[keep], parameters=parameters[keep], after=after[keep]))
    return (
        StateFeatures(
            state=np.concatenate([part.state for part in parts]),
            parameters=np.concatenate([part.parameters for part in parts if part.parameters is not None]),
            after=np.concatenate([part.after for part in parts]),
        ),
        counts,
    )


def _strike(
    worlds: ContactWorlds,
    world: PushingConfig,
    sampling: StrikeSampling,
    strikes: Strikes,
    parameters: Float[np.ndarray, "strike 4"],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Bool[np.ndarray, " strike"]]:
    """Object's [vx vy omega], the rod's velocity before and after, and whether they separated."""
    n = len(strikes)
    axis, rod, normal = rod_at_touch(world, np.zeros((n, 3)), strikes)
    pose, twist = np.zeros((2, n, 7)), np.zeros((2, n, 6))
    pose[..., 3] = 1.0
    pose[1, :, :2], twist[1, :, :2] = axis + _GAP * normal, rod
    rod_friction, rod_damping, table_friction, table_damping = parameters.T
    given = {
        "friction": rod_friction,
        "damping_ratio": rod_damping,
        "time_constant": np.full(n, sampling.time_constant or world.time_constant),
        "impratio": np.full(n, sampling.impratio or world.impratio),
        "ground_friction": table_friction,
        "ground_damping_ratio": table_damping,
        "ground_torsional_friction": np.full(n, world.torsional_friction),
    }
    after, end = worlds.run(pose, twist, given, impedance=sampling.impedance, resolution=world.resolution)
    return after[0][:, [0, 1, 5]], rod, after[1][:, :2], end == SEPARATED


def _gained_energy(
    world: PushingConfig, velocity: np.ndarray, rod_before: np.ndarray, rod_after: np.ndarray
) -> Bool[np.ndarray, " strike"]:
    before = world.rod_mass * (rod_before**2).sum(axis=1)
    after = world.rod_mass * (rod_after**2).sum(axis=1)
    after = after + world.mass * (velocity[:, :2] ** 2).sum(axis=1) + world.inertia * velocity[:, 2] ** 2
    return after > before * (1.0 + _ENERGY_TOLERANCE)
