"""Distil MuJoCo's collisions, identify and fine-tune on ten measured impacts, and evaluate on the rest.

Measured impacts are looked for under $DEXPRIOR_DATA; where there are none, generated ones stand in and the result says
so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dexprior.cli.show import show
from dexprior.collision.stage import CollisionConfig
from dexprior.config import Ge, config


@config
class Config:
    """Settings of `dexprior collision`."""

    data: str | None = None
    """The measured ellipse_impacts.npz; by default looked for."""
    out: str = "runs/collision"
    """Run folder."""
    seed: Annotated[int, Ge(0)] = 0
    """Of simulation and training."""
    collision: CollisionConfig = CollisionConfig()
    """The stage."""


def run(config: Config, words: list[str]) -> int:
    """Run the stage and draw its accuracy."""
    from dexprior.collision.report import plot_accuracy
    from dexprior.collision.stage import run as run_stage
    from dexprior.data.impacts import find_ellipse_impacts

    data = Path(config.data) if config.data else find_ellipse_impacts()
    show(run_stage(config.collision, Path(config.out), seed=config.seed, data=data))
    plot_accuracy(config.out, Path(config.out) / "accuracy.png")
    return 0
