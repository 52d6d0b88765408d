"""Noise of real logs: sensor models and links fitted with intervals, and what a log cannot tell named as such."""

from dexprior.transfer.noise.estimates import Fitted
from dexprior.transfer.noise.fitting import LogNoise, NoiseFit, fit_noise
from dexprior.transfer.noise.joints import fit_joint, fit_play, rests
from dexprior.transfer.noise.logs import COLUMNS, StillLog, find_logs, kind_of, read_still_log
from dexprior.transfer.noise.quantum import fit_step
from dexprior.transfer.noise.settings import NoiseFitConfig
from dexprior.transfer.noise.stamps import fit_stamps, unbroken
from dexprior.transfer.noise.still import fit_still

__all__ = [
    "COLUMNS",
    "Fitted",
    "LogNoise",
    "NoiseFit",
    "NoiseFitConfig",
    "StillLog",
    "find_logs",
    "fit_joint",
    "fit_noise",
    "fit_play",
    "fit_stamps",
    "fit_step",
    "fit_still",
    "kind_of",
    "read_still_log",
    "rests",
    "unbroken",
]
