"""A position-controlled servo that drives a pendulum: its logs, a friction model, and the fit of one to the other."""

from dexprior.transfer.servo.fitting import ServoFit, ServoFitConfig, fit_servo, read_fit
from dexprior.transfer.servo.logs import ServoLog, read_servo_entries, read_servo_log, read_servo_logs
from dexprior.transfer.servo.model import SERVO_FAMILY, ServoBatch, published_friction, simulate
from dexprior.transfer.servo.scoring import read_published, score_servo

__all__ = [
    "SERVO_FAMILY",
    "ServoBatch",
    "ServoFit",
    "ServoFitConfig",
    "ServoLog",
    "fit_servo",
    "published_friction",
    "read_fit",
    "read_published",
    "read_servo_entries",
    "read_servo_log",
    "read_servo_logs",
    "score_servo",
    "simulate",
]
