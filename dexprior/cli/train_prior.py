"""Train the video diffusion prior on a folder of demonstrations.

On several GPUs: accelerate launch scripts/train_prior.py key=value. An interrupted run goes on from its last
checkpoint when the same command is given again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dexprior.cli.show import first_existing, show
from dexprior.config import Ge, config
from dexprior.prior.training import PriorConfig


@config
class Config:
    """Settings of `dexprior train-prior`."""

    demonstrations: str | None = None
    """Folder of episodes (`dexprior data`); by default runs/demonstrations, then the demo's."""
    videos: str | None = None
    """Folder of plain clips that train the video stage as well (`dexprior data import videos=FOLDER`)."""
    out: str = "runs/prior"
    """Run folder."""
    seed: Annotated[int, Ge(0)] = 0
    """Of the training."""
    prior: PriorConfig = PriorConfig()
    """Network and training."""


def run(config: Config, words: list[str]) -> int:
    """Train and evaluate."""
    from dexprior.pipeline.stages import stage_prior

    videos = None if config.videos is None else Path(config.videos)
    folder = first_existing(
        config.demonstrations, ["runs/demonstrations", "runs/demo/01-demonstrations"], "demonstrations", "dexprior data"
    )
    result = stage_prior(config.prior, folder, Path(config.out), seed=config.seed, videos=videos)
    show(result)
    return 0
