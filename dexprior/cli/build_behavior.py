"""Sample the prior for training scenes, read the hands back, retarget them, and make the behavioral prior."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dexprior.cli.show import show
from dexprior.config import Ge, config
from dexprior.pipeline.stages import BankConfig


@config
class Config:
    """Settings of `dexprior build-behavior`."""

    prior: str = "runs/demo/02-prior"
    """Folder of the video prior's run."""
    estimator: str = "runs/demo/03-estimator"
    """Folder of the pose estimator's run."""
    retargeter: str = "runs/demo/04-retargeter"
    """Folder of the retargeting network's run."""
    out: str = "runs/behavior"
    """Run folder."""
    seed: Annotated[int, Ge(0)] = 0
    """Of scenes and samples."""
    bank: BankConfig = BankConfig()
    """Scenes and samples."""


def run(config: Config, words: list[str]) -> int:
    """Build and show."""
    from dexprior.pipeline.stages import stage_behavior

    folders = (Path(config.prior), Path(config.estimator), Path(config.retargeter))
    show(stage_behavior(config.bank, *folders, Path(config.out), seed=config.seed))
    return 0
