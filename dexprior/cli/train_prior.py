"""Train the video diffusion prior on a folder of demonstrations.

On GPUs: accelerate launch --config_file configs/accelerate/gpu.yaml scripts/train_prior.py key=value, or ddp.yaml, or
fsdp2.yaml (docs/training-at-scale.md). The first line that it says, and `ranks` in run.json, tell how many processes
train together: accelerate launch --cpu starts one, whatever its --num_processes; cpu.yaml starts two.

prior.validate.every=100 looks at held-out clips on the way: losses, errors and a picture, in OUT/validation.

An interrupted run goes on from its last checkpoint when the same command is given again. A finished one goes on for 500
steps with more=500, with a learning rate that rises and falls again, and once more for 200 with more=500,200.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dexprior.cli.compose import parts
from dexprior.cli.show import first_existing, show
from dexprior.config import Ge, config
from dexprior.prior.training import PriorConfig

HELP: dict[str, tuple[str, ...]] = {
    "": (
        "demonstrations",
        "videos",
        "out",
        "seed",
        "more",
        "prior.size",
        "prior.steps",
        "prior.batch",
        "prior.width",
        "prior.layers",
        "prior.learning_rate",
        "prior.checkpoint_every",
    ),
}
"""What `--help` shows, of the verb and of its words; what ends in a dot, `--help all` shows."""


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
    """Seed of the training."""
    more: Annotated[int, Ge(1)] | tuple[Annotated[int, Ge(1)], ...] = ()
    """Steps to go on with from the finished run in `out`; several continuations in a row as more=500,200."""
    prior: PriorConfig = PriorConfig()
    """Network and training."""


def run(config: Config, words: list[str]) -> int:
    """Train and evaluate."""
    from dexprior.pipeline.stages import stage_prior

    videos = None if config.videos is None else Path(config.videos)
    folder = first_existing(
        config.demonstrations, ["runs/demonstrations", "runs/demo/01-demonstrations"], "demonstrations", "dexprior data"
    )
    result = stage_prior(
        config.prior, folder, Path(config.out), seed=config.seed, videos=videos, more=parts(config.more)
    )
    show(result)
    return 0
