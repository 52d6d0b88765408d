"""What the KL to the behavioral prior buys, decided by experiments that could say that it buys nothing.

worlds.py      a training world that is wrong in a way that pays, worlds elsewhere, and how policies are scored there
seeds.py       differences and intervals over seeds
mechanism.py   does a policy without the KL drift from what works elsewhere, and does the KL hold it?
controls.py    other priors, other uses of the same prior, and more of the simulator
crossover.py   does a prior carry the contact that its demonstrations had?
page.py        curves and tables
"""

from dexprior.studies.kl.controls import ControlsConfig, study_controls
from dexprior.studies.kl.crossover import CrossoverConfig, study_crossover
from dexprior.studies.kl.mechanism import MechanismConfig, study_mechanism

__all__ = [
    "ControlsConfig", "CrossoverConfig", "MechanismConfig", "study_controls", "study_crossover", "study_mechanism",
]  # fmt: skip
