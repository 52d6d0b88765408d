"""Make human demonstrations (the default), or find a measured data set.

dexprior data                 generate demonstrations into out
dexprior data list            the measured data sets that dexprior knows
dexprior data get NAME        where a data set lies, or how to get it
dexprior data import          single impacts from recording=FILE.csv and layout=FILE.yaml into out=FILE.npz
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dexprior.config import Ge, config
from dexprior.data import catalog
from dexprior.data.demonstrations import DemonstrationConfig
from dexprior.errors import BadInput

WORDS = ("list", "get NAME", "import")


@config
class Config:
    """Settings of `dexprior data`."""

    out: str = "runs/demonstrations"
    """Folder of the demonstrations, or the .npz of import."""
    recording: str | None = None
    """Motion capture of one rigid body, as CSV."""
    layout: str | None = None
    """The YAML that says what the recording holds; see docs/tutorials/your-own-collisions.md."""
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
    if words == ["import"]:
        return _import(config)
    raise BadInput(f"data {' '.join(words)}: choices: {', '.join(WORDS)}, or nothing")


def _import(config: Config) -> int:
    from dexprior.data.impacts import save_impacts
    from dexprior.data.motion_capture import import_impacts, read_layout

    if config.recording is None or config.layout is None or not config.out.endswith(".npz"):
        raise BadInput("data import: give recording=FILE.csv layout=FILE.yaml out=FILE.npz")
    impacts, counts = import_impacts(config.recording, read_layout(config.layout))
    save_impacts(impacts, config.out)
    print(f"{config.out}: " + ", ".join(f"{name} {n}" for name, n in counts.items()))
    return 0
