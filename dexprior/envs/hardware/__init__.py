"""Robots: drivers, the safety gate that every command passes, and a robot in another process to try them."""

from dexprior.envs.hardware.backend import HardwareBackend, start_gate
from dexprior.envs.hardware.driver import Driver, RobotState, RobotStatus
from dexprior.envs.hardware.envelope import Box
from dexprior.envs.hardware.evidence import Evidence, load_evidence
from dexprior.envs.hardware.gate import GateConfig, SafetyGate
from dexprior.envs.hardware.limits import gate_config, why_no_gate
from dexprior.envs.hardware.loopback import LoopbackDriver
from dexprior.envs.hardware.options import HardwareOptions
from dexprior.envs.hardware.profile import RobotProfile, profile_of

__all__ = [
    "Box",
    "Driver",
    "Evidence",
    "GateConfig",
    "HardwareBackend",
    "HardwareOptions",
    "LoopbackDriver",
    "RobotProfile",
    "RobotState",
    "RobotStatus",
    "SafetyGate",
    "gate_config",
    "load_evidence",
    "profile_of",
    "start_gate",
    "why_no_gate",
]
