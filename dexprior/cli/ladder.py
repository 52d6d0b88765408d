"""What succeeds after each stage of a finished run of the demo, in every judging world, on as many scenes as you like.

dexprior ladder run=runs/demo scored=256 out=runs/ladder

The run's settings are read from its folder; it is not trained again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dexprior.config import Ge, config

HELP: dict[str, tuple[str, ...]] = {
    "": ("run", "scored", "out"),
}
"""What `--help` shows, of the verb and of its words; what ends in a dot, `--help all` shows."""


@config
class Config:
    """Settings of `dexprior ladder`."""

    run: str = "runs/demo"
    """Folder of the demo's run."""
    scored: Annotated[int, Ge(4)] = 64
    """Scenes that each rung is scored on; fewer demonstrations where some fail."""
    out: str = "runs/ladder"
    """Folder of the result."""


def run(config: Config, words: list[str]) -> int:
    """Judge what was not judged yet, and print the table."""
    from dexprior.errors import ArtifactError
    from dexprior.pipeline.ladder import climb
    from dexprior.pipeline.line import Line
    from dexprior.pipeline.rungs import table
    from dexprior.pipeline.settings import POLICIES

    line = Line.load(config.run, scored=config.scored)
    missing = [name for name in POLICIES if not line.finished(name)]
    if missing:
        raise ArtifactError(
            f"{config.run}: {missing[0]} is not finished; go on with `dexprior demo task={line.config.task} "
            f"out={config.run}`"
        )
    print(table(climb(line, Path(config.out))))
    return 0
