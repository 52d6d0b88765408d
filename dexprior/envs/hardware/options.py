"""Which robot stands behind the gate, what the gate lets through to it, and the protocol that its process speaks."""

from __future__ import annotations

from typing import Annotated, Literal

from dexprior.config import Ge, config
from dexprior.envs.hardware.gate import GateConfig
from dexprior.envs.serving import ServingLimits

__all__ = ["LIMITS", "PROTOCOL", "VERSION", "HardwareOptions"]

PROTOCOL, VERSION = "dexprior.gate", 2
LIMITS = ServingLimits(idle=86_400.0)
"""Of gate and robot: a stop connection is silent until it is needed, and a dead client closes its socket."""


@config
class HardwareOptions:
    """A robot behind the safety gate, both in processes of their own."""

    driver: Literal["loopback"] = "loopback"
    """Which robot; `loopback` is a simulated one in another process."""
    port: Annotated[int, Ge(1)] | None = None
    """Of a loopback robot that runs already; None starts one, which ends with the gate."""
    gate: GateConfig = GateConfig()
    """What may be sent to it, and how it slows down."""
    seed: Annotated[int, Ge(0)] = 0
    """Draws the values of the loopback robot's world."""
    real_time: bool = False
    """Whether the loopback robot's clock runs with the wall's."""
    tracker: bool = True
    """Whether the loopback robot tells the truth about the object."""
    keep: str | None = None
    """Folder for the gate's evidence, written whenever it stops the robot and when it ends."""
