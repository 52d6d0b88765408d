"""What a prior is worth: the share of its samples that a robot carries out, errors, diversity, and what each condition
does, beside predictors that learn little and demonstrations.

dexprior evaluate-prior checkpoint=runs/prior data=runs/demonstrations out=runs/prior_evaluation

What the prior held out of data= is judged, or the demonstrations in judged=.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dexprior.cli.show import first_existing, trained
from dexprior.config import Ge, config
from dexprior.pipeline.prior_evaluation import PriorEvaluationConfig

HELP: dict[str, tuple[str, ...]] = {
    "": (
        "checkpoint",
        "data",
        "judged",
        "out",
        "seed",
        "evaluation.clips",
        "evaluation.draws",
        "evaluation.masked",
        "evaluation.replayed",
    ),
}
"""What `--help` shows, of the verb and of its words; what ends in a dot, `--help all` shows."""


@config
class Config:
    """Settings of `dexprior evaluate-prior`."""

    checkpoint: str | None = None
    """Run folder of the video prior, or its checkpoint; by default that of train-prior, then the demo's."""
    data: str | None = None
    """Folder of the demonstrations that it was trained on; by default runs/demonstrations, then the demo's."""
    judged: str | None = None
    """Folder of other demonstrations, to judge instead of those that the prior held out of data=."""
    out: str = "runs/prior_evaluation"
    """Folder of the result."""
    seed: Annotated[int, Ge(0)] = 0
    """Seed of the samples."""
    evaluation: PriorEvaluationConfig = PriorEvaluationConfig()
    """How much is looked at."""


def run(config: Config, words: list[str]) -> int:
    """Judge and print; the whole result is in run.json."""
    from dexprior.pipeline.prior_evaluation import stage_prior_evaluation, table

    found = ["runs/prior", "runs/demo/02-prior"]
    checkpoint = trained(config.checkpoint, found, "prior", "dexprior demo` or `dexprior train-prior")
    data = first_existing(
        config.data, ["runs/demonstrations", "runs/demo/01-demonstrations"], "demonstrations", "dexprior data"
    )
    told = stage_prior_evaluation(
        config.evaluation, checkpoint, data, Path(config.out), seed=config.seed,
        judged=None if config.judged is None else Path(config.judged),
    )  # fmt: skip
    print(table(told))
    return 0
