"""Contact phenomena that engines leave out: which are on, and how strong. All are off by default.

    Phenomena(stribeck=Stribeck(kinetic=0.6), hysteresis=Hysteresis())

What they do to a world, and how closely, is said in `dexprior.worlds.tasks.phenomena`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from dexprior.config import Ge, Gt, Le, Lt, config
from dexprior.errors import BadInput
from dexprior.families.gaps import Gap

__all__ = [
    "PHENOMENA",
    "Anisotropy",
    "Dissipation",
    "Hysteresis",
    "Phenomena",
    "Stribeck",
    "TendonCompliance",
    "ToeStiffness",
]


@config
class Anisotropy:
    """Friction that depends on the direction: an ellipse of coefficients, fixed to the surface."""

    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    """Direction along which things slide easily, in the geom's frame."""
    ratio: Annotated[float, Gt(0), Le(1)] = 0.4
    """Coefficient along the axis over that across it, which is the surface's own."""

    def __post_init__(self) -> None:
        if not any(self.axis):
            raise BadInput("Anisotropy: axis (0, 0, 0) has no direction")


@config
class Stribeck:
    """Friction that depends on the speed of sliding: mu(v) = mu (k + (1 - k) exp(-v / v_s) + c v).

    Armstrong-Helouvry et al. 1994, "A survey of models, analysis tools and compensation methods for the control of
    machines with friction", eq. 3 with an exponent of 1.
    """

    kinetic: Annotated[float, Gt(0), Le(1)] = 0.7
    """k: kinetic over static coefficient; the static one is the surface's own."""
    speed: Annotated[float, Gt(0)] = 0.01
    """v_s: over which friction falls [m/s]."""
    viscous: Annotated[float, Ge(0)] = 0.0
    """c [s/m]"""


@config
class ToeStiffness:
    """Stiffness that grows with the load, as of a fingertip's pulp: F = b (exp(a r) - 1), a force over a depth.

    Serina et al. 1997, "Force response of the fingertip pulp to repeated compression". Its secant stiffness at a load F
    is a F / ln(1 + F / b); the surface's own stiffness is the highest that it reaches.
    """

    ratio: Annotated[float, Gt(1)] = 100.0
    """Highest over lowest secant stiffness."""
    load: Annotated[float, Gt(0)] = 0.01
    """b: load from which it stiffens [N]."""


@config
class Dissipation:
    """Damping that grows with the depth: F = k r (1 + lambda dr/dt), none at first touch and no pull at the last.

    Hunt and Crossley 1975, "Coefficient of restitution interpreted as damping in vibroimpact": at a low speed v a body
    rebounds with e = 1 - 2/3 lambda v. It stands in for the surface's own damper, of which a share is kept: a light
    thing between two stiff pads has a damping ratio of lambda r / (2 timeconst) only, and would chatter.
    """

    damping: Annotated[float, Ge(0)] = 10.0
    """lambda [s/m]; impacts much faster than its inverse hardly rebound. Of lossy rubber; metals have under 1."""
    kept: Annotated[float, Ge(0), Le(1)] = 0.2
    """Share of the surface's own damper that stays."""


@config
class Hysteresis:
    """Stiffness that depends on whether the load grows: F = k r (1 + eta z), dz/dr = (sign(dr/dt) - z) / r_c.

    The Bouc-Wen model with an exponent of 1 (Bouc 1967, Wen 1976). A cycle to a depth R >> r_c dissipates eta k R^2,
    however slowly it is run through.
    """

    loss: Annotated[float, Gt(0), Lt(1)] = 0.3
    """eta"""
    depth: Annotated[float, Gt(0)] = 1e-4
    """r_c: over which it turns round [m]."""


@config
class TendonCompliance:
    """A motor that pulls a finger through a tendon that stretches and rubs.

    The motor reels to reach the commanded tension, no faster than it can; until then tension follows the stretch:
    dT = k(T) (reel + dL), k(T) = k (1 + T / T_0), stiffer under load. Of T there arrives what the bends let through,
    T exp(mu theta s) (Euler and Eytelwein's capstan; Kaneko et al. 1991 for tendons): s goes to -1 where the cable runs
    towards the motor and to 1 where it runs back, so that more force is kept when letting go than comes when pulling.
    """

    friction: Annotated[float, Ge(0)] = 0.10
    """mu of the guides."""
    wrap: Annotated[float, Ge(0)] = 1.0
    """Angle of the bends on the way to the finger [rad]; those at its joints are added."""
    stiffness: Annotated[float, Gt(0)] = 2e3
    """k of the slack tendon [N/m]."""
    stiffening: Annotated[float, Gt(0)] = 10.0
    """T_0: tension that doubles the stiffness [N]."""
    reel: Annotated[float, Gt(0)] = 0.05
    """Highest speed of the reel [m/s]."""


@config
class Phenomena:
    """Which phenomena are on; each may be on alone, and all together."""

    surfaces: str = "*pad_*"
    """Glob over the geoms on whose contacts they act; what these touch may be anything."""
    every: Annotated[int, Ge(1)] = 1
    """Simulation steps between updates."""
    anisotropy: Anisotropy | None = None
    """Friction that depends on the direction of sliding."""
    stribeck: Stribeck | None = None
    """Friction that depends on its speed."""
    toe_stiffness: ToeStiffness | None = None
    """Covers that are soft at first touch."""
    dissipation: Dissipation | None = None
    """Damping that grows with depth."""
    hysteresis: Hysteresis | None = None
    """Force that lags behind indentation."""
    tendon_compliance: TendonCompliance | None = None
    """Tendons that stretch."""

    @property
    def active(self) -> tuple[str, ...]:
        """Names of those that are on."""
        return tuple(name for name in PHENOMENA if getattr(self, name) is not None)

    def updated(self, other: Phenomena | None) -> Phenomena:
        """These phenomena, with those that are on in another in their place, on the other's surfaces."""
        if other is None or not other.active:
            return self
        return replace(other, **{name: getattr(self, name) for name in self.active if name not in other.active})


PHENOMENA: dict[str, Gap] = {
    "anisotropy": "contact", "stribeck": "contact", "toe_stiffness": "contact", "dissipation": "contact",
    "hysteresis": "contact", "tendon_compliance": "contact",
}  # fmt: skip
"""Name -> the gap that it belongs to."""
