"""Make human demonstrations (the default), or find a measured data set.

dexprior data                 generate demonstrations into out
dexprior data list            the measured data sets that dexprior knows
dexprior data get NAME        where a data set lies, or how to get it
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dexprior.config import Ge, config
from dexprior.data import catalog
from dexprior.data.demonstrations import DemonstrationConfig
from dexprior.errors import BadInput

WORDS = ("list", "get NAME")


@config
class Config:
    """Settings of `dexprior data`."""

    out: str = "runs/demonstrations"
    """Folder of the demonstrations."""
    seed: Annotated[int, Ge(0)] = 0
    """Of the demonstrations."""
    demonstrations: DemonstrationConfig = DemonstrationConfig()
    """How many, and what they look like."""


def run(config: Config, words: list[str]) -> int:
    """Generate, list or find."""
    if not words:
        from dexprior.pipeline.stages import stage_demonstrations

        result = stage_demonstrations(config.demonstrations, Path(config.out), seed=config.seed)
        print(f"{result['episodes']} demonstrations of {result['attempts']} attempts in {config.out}")
        return 0
    if words == ["list"]:
        for name in catalog.names():
            print(f"{name:<20} {catalog.find(name) or 'not found'}")
        return 0
    if len(words) == 2 and words[0] == "get":
        print(catalog.get(words[1]))
        return 0
    raise BadInput(f"data {' '.join(words)}: choices: {', '.join(WORDS)}, or nothing")
