"""Robots: drivers, the safety gate that every command passes, and a robot in another process to try them."""

from dexprior.envs.hardware.backend import HardwareBackend
from dexprior.envs.hardware.driver import Driver, RobotState, RobotStatus
from dexprior.envs.hardware.gate import Evidence, GateConfig, SafetyGate, load_evidence
from dexprior.envs.hardware.loopback import LoopbackDriver

__all__ = [
    "Driver",
    "Evidence",
    "GateConfig",
    "HardwareBackend",
    "LoopbackDriver",
    "RobotState",
    "RobotStatus",
    "SafetyGate",
    "load_evidence",
]
