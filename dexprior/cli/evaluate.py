"""A policy in the training world and in the world with the other contact, on the same held-out scenes.

With baseline=FOLDER, two policies are compared on paired scenes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dexprior.cli.show import show
from dexprior.config import Ge, config
from dexprior.pipeline.stages import EvaluationConfig


@config
class Config:
    """Settings of `dexprior evaluate`."""

    policy: str = "runs/demo/07-policy"
    """Folder of a policy's run."""
    baseline: str | None = None
    """Folder of another policy's run."""
    out: str = "runs/evaluation"
    """Run folder."""
    seed: Annotated[int, Ge(0)] = 0
    """Recorded with the result; the panel has its own."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """The panel."""


def run(config: Config, words: list[str]) -> int:
    """Evaluate and show."""
    from dexprior.pipeline.stages import stage_evaluation

    policies = {"policy": Path(config.policy)}
    if config.baseline is not None:
        policies["baseline"] = Path(config.baseline)
    show(stage_evaluation(config.evaluation, policies, Path(config.out), seed=config.seed))
    return 0
