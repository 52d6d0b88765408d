"""Studies of what the KL to the behavioral prior buys; each goes on where it was stopped, part by part.

dexprior study mechanism      long training in a wrong world: does the KL hold what works elsewhere? out=DIR
dexprior study controls       what else could have done it: other priors, other uses, more of the simulator
dexprior study adroit         the Adroit door: human demonstrations used in several ways, and experts made worse
dexprior study crossover      does a prior carry the contact of its demonstrations? two lines, one constant apart
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from dexprior.cli.show import show
from dexprior.config import Ge, config
from dexprior.errors import UnknownName
from dexprior.studies.adroit.study import AdroitConfig
from dexprior.studies.kl.controls import ControlsConfig
from dexprior.studies.kl.crossover import CrossoverConfig
from dexprior.studies.kl.mechanism import MechanismConfig

WORDS = ("mechanism", "controls", "crossover", "adroit")
HELP: dict[str, tuple[str, ...]] = {
    "": ("out", "jobs"),
    "mechanism": ("out", "jobs", "mechanism."),
    "controls": ("out", "jobs", "controls."),
    "crossover": ("out", "jobs", "crossover."),
    "adroit": ("out", "jobs", "adroit."),
}
"""What `--help` shows, of the verb and of its words; what ends in a dot, `--help all` shows."""


@config
class Config:
    """Settings of `dexprior study`."""

    out: str = "runs/study"
    """Folder of the result, with a folder for each part."""
    jobs: Annotated[int, Ge(0)] = 0
    """Parts that run side by side; 0 takes two where there are two cores."""
    mechanism: MechanismConfig = MechanismConfig()
    """Arms, seeds and worlds of the long training."""
    controls: ControlsConfig = ControlsConfig()
    """Arms and seeds of the controls."""
    crossover: CrossoverConfig = CrossoverConfig()
    """Lines, constant and seeds of the crossover."""
    adroit: AdroitConfig = AdroitConfig()
    """Arms, seeds and priors of the Adroit hand."""


def run(config: Config, words: list[str]) -> int:
    """Do what is missing, and show what was found."""
    if len(words) != 1 or words[0] not in WORDS:
        raise UnknownName("study", " ".join(words), WORDS)
    from dexprior.studies.kl import study_controls, study_crossover, study_mechanism

    jobs, out = config.jobs or min(os.cpu_count() or 1, 2), Path(config.out)
    if words == ["mechanism"]:
        found = study_mechanism(config.mechanism, out, jobs=jobs)
        show({"held": found["held"], "drift": found["drift"], "page": str(out / "mechanism.html")})
    elif words == ["controls"]:
        found = study_controls(config.controls, out, jobs=jobs)
        rates = {arm: _rates(row["won"]) for arm, row in found["arms"].items()}
        show({"success": rates, "over": found["over"], "file": str(out / "controls.json")})
    elif words == ["crossover"]:
        show(study_crossover(config.crossover, out, jobs=jobs))
    else:
        from dexprior.studies.adroit import study_adroit

        found = study_adroit(config.adroit, out, jobs=jobs)
        pooled = {arm: [row["pooled"] for row in told["seeds"].values()] for arm, told in found["arms"].items()}
        show({"pooled": pooled, "over": found["over"], "file": str(out / "adroit.json")})
    return 0


def _rates(won: dict[str, dict[str, list[int]]]) -> dict[str, str]:
    """Successes of all seeds by world."""
    worlds = next(iter(won.values()))
    return {
        world: f"{sum(sum(row[world]) for row in won.values())} of {sum(len(row[world]) for row in won.values())}"
        for world in worlds
    }
