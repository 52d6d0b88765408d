"""Which robot stands behind the gate, what the gate lets through to it, and the protocol that its process speaks."""

from __future__ import annotations

from dataclasses import field, fields
from typing import Annotated, Any, Literal

from dexprior.config import Ge, config
from dexprior.envs.hardware.franka.limits import GATE
from dexprior.envs.hardware.gate import GateConfig
from dexprior.envs.hardware.profile import RobotProfile
from dexprior.envs.serving import ServingLimits
from dexprior.errors import BadInput
from dexprior.families import SensorModels

__all__ = ["LIMITS", "PROTOCOL", "VERSION", "HardwareOptions"]

PROTOCOL, VERSION = "dexprior.gate", 4
LIMITS = ServingLimits(idle=86_400.0)
"""Limits of gate and robot: a stop connection is silent until it is needed, and a dead client closes its socket."""


@config
class HardwareOptions:
    """A robot behind the safety gate, both in processes of their own."""

    driver: Literal["loopback", "franka"] = "loopback"
    """Which robot: a simulated one in another process, or a Franka FR3 with its hand."""
    address: str | None = None
    """Name or address of a Franka's control unit; required there."""
    realtime_kernel: bool = True
    """Whether a Franka is only driven from a kernel with real-time priorities."""
    port: Annotated[int, Ge(1)] | None = None
    """Port of a loopback robot that runs already; None starts one, which ends with the gate."""
    gate: dict[str, Any] = field(default_factory=dict)
    """Settings of `GateConfig` that differ from what the robot's entry in the catalog and the task's scene say."""
    seed: Annotated[int, Ge(0)] = 0
    """Draws the values of the loopback robot's world."""
    sensors: SensorModels = SensorModels()
    """Models of what the loopback robot senses, and of the links that carry it."""
    real_time: bool = False
    """Whether the loopback robot's clock runs with the wall's."""
    tracker: bool = True
    """Whether the loopback robot tells the truth about the object."""
    keep: str | None = None
    """Folder for the gate's evidence, written whenever it stops the robot and when it ends."""

    def __post_init__(self) -> None:
        if self.driver == "franka" and not self.address:
            raise BadInput("hardware.address: required with hardware.driver=franka; the control unit's name or address")
        _require_settings("gate", GateConfig, self.gate)
        _require_settings("gate.robot", RobotProfile, self.gate.get("robot", {}))

    @property
    def limits(self) -> dict[str, Any]:
        """Settings of the gate: those of the robot, where it has some beside the catalog's, and then those given."""
        if self.driver != "franka":
            return self.gate
        return {**GATE, **self.gate, "robot": {**GATE["robot"], **self.gate.get("robot", {})}}


def _require_settings(where: str, of: type, given: Any) -> None:
    """Names are checked at once; values are when the rest is known."""
    known = [f.name for f in fields(of)]
    if not isinstance(given, dict):
        raise BadInput(f"{where} is {given!r:.80}, expected settings by name. Known here: {', '.join(known)}")
    for name in given:
        if name not in known:
            raise BadInput(f"{where}.{name}: unknown setting. Known here: {', '.join(known)}")
