"""A position-controlled arm's logs: lag, backlash, noise floor and first departure of every joint, with intervals."""

from dexprior.transfer.arm.alignment import Estimate, LagFit, fit_lag
from dexprior.transfer.arm.backlash import BacklashFit, fit_backlash, play
from dexprior.transfer.arm.departure import Departure, first_departure
from dexprior.transfer.arm.ledger import ArmLedger, JointRecord, MotionRecord, measure_arm
from dexprior.transfer.arm.logs import Angle, ArmLog, is_arm_log, read_arm_log, read_arm_logs, read_table
from dexprior.transfer.arm.repeats import NoiseFloor, find_period, noise_floor
from dexprior.transfer.arm.report import next_steps, write_arm_report
from dexprior.transfer.arm.settings import ArmReportConfig

__all__ = [
    "Angle",
    "ArmLedger",
    "ArmLog",
    "ArmReportConfig",
    "BacklashFit",
    "Departure",
    "Estimate",
    "JointRecord",
    "LagFit",
    "MotionRecord",
    "NoiseFloor",
    "find_period",
    "first_departure",
    "fit_backlash",
    "fit_lag",
    "is_arm_log",
    "measure_arm",
    "next_steps",
    "noise_floor",
    "play",
    "read_arm_log",
    "read_arm_logs",
    "read_table",
    "write_arm_report",
]
