"""Which of six gaps explains what a robot did: signatures of injected causes, how trials failed, and interventions.

bank = SignatureBank.make(probe, CAUSES, repeats=5)                 # what each cause would do to this task's signals
diagnose(bank, real, trials=trials, interventions=panels)[0].gaps   # {"contact": .93, ..., "unknown": .02}
"""

from dexprior.transfer.diagnosis.causes import CAUSES, Cause, cause_of, completed, identified, inject_cause, injectable
from dexprior.transfer.diagnosis.evidence import (
    UNKNOWN,
    Intervention,
    Trial,
    prior_of_failures,
    support_of_intervention,
)
from dexprior.transfer.diagnosis.posterior import CALIBRATED, Calibration, Diagnosis, calibrate, diagnose
from dexprior.transfer.diagnosis.ranking import Effect, rank_parameters
from dexprior.transfer.diagnosis.signatures import BankConfig, SignatureBank, inject_strengths

__all__ = [
    # what may be wrong
    "CAUSES",
    "UNKNOWN",
    "Cause",
    "cause_of",
    "completed",
    "identified",
    "inject_cause",
    "inject_strengths",
    "injectable",
    # what is known
    "BankConfig",
    "Intervention",
    "SignatureBank",
    "Trial",
    "prior_of_failures",
    "support_of_intervention",
    # what follows
    "CALIBRATED",
    "Calibration",
    "Diagnosis",
    "Effect",
    "calibrate",
    "diagnose",
    "rank_parameters",
]
