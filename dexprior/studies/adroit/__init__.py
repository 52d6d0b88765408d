"""The Adroit hand: a public benchmark with human demonstrations, and priors of known quality.

arms.py    how each arm is trained
study.py   all of it, part by part
"""

from dexprior.studies.adroit.arms import ARMS
from dexprior.studies.adroit.study import AdroitConfig, study_adroit

__all__ = ["ARMS", "AdroitConfig", "study_adroit"]
