"""Parameters that several tasks of the suite have in common."""

from __future__ import annotations

from dexprior.families import Parameter

__all__ = ["mass_of", "pads", "sensors"]

Range = tuple[float, float]


def pads(*, friction: Range, timeconst: Range) -> tuple[Parameter, ...]:
    """Friction coefficient and contact time constant [s] of whatever touches with pads: fingers and grippers."""
    return (
        Parameter(name="pad_friction", unit="1", low=friction[0], high=friction[1], target="geom/*pad_*/friction/0"),
        Parameter(name="pad_timeconst", unit="s", low=timeconst[0], high=timeconst[1], target="geom/*pad_*/solref/0"),
    )


def mass_of(body: str, low: float, high: float) -> Parameter:
    """Mass of a body, as a factor."""
    return Parameter(
        name=f"{body}_mass",
        unit="1",
        low=low,
        high=high,
        target=f"body/{body}/mass",
        operation="scale",
        distribution="log_uniform",
    )


def sensors(*, wrench: float) -> tuple[Parameter, ...]:
    """Standard deviations of noise: at most `wrench` [N] on forces, half a millimetre to two on clouds."""
    return (
        Parameter(name="wrench_noise", unit="N", low=0.0, high=wrench, target="world/-/wrench_noise"),
        Parameter(name="cloud_noise", unit="m", low=0.0005, high=0.002, target="world/-/cloud_noise"),
    )
