"""Studies of what the KL to the behavioral prior buys; each goes on where it was stopped, part by part.

dexprior study mechanism      long training in a wrong world: does the KL hold what works elsewhere? out=DIR
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from dexprior.cli.show import show
from dexprior.config import Ge, config
from dexprior.errors import UnknownName
from dexprior.studies.kl import MechanismConfig

WORDS = ("mechanism",)


@config
class Config:
    """Settings of `dexprior study`."""

    out: str = "runs/study"
    """Folder of the result, with a folder for each part."""
    jobs: Annotated[int, Ge(0)] = 0
    """Parts that run side by side; 0 takes two where there are two cores."""
    mechanism: MechanismConfig = MechanismConfig()
    """Arms, seeds and worlds."""


def run(config: Config, words: list[str]) -> int:
    """Do what is missing, and show what was found."""
    if words != ["mechanism"]:
        raise UnknownName("study", " ".join(words), WORDS)
    from dexprior.studies.kl import study_mechanism

    jobs = config.jobs or min(os.cpu_count() or 1, 2)
    found = study_mechanism(config.mechanism, Path(config.out), jobs=jobs)
    show({"held": found["held"], "drift": found["drift"], "page": str(Path(config.out) / "mechanism.html")})
    return 0
