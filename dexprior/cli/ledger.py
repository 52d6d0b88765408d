"""Fill in the transfer ledger of a policy: success and slip in both worlds, gaps, first divergence.

Writes ledger.json and ledger.html.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dexprior.cli.show import show
from dexprior.config import Ge, config
from dexprior.pipeline.stages import EvaluationConfig


@config
class Config:
    """Settings of `dexprior ledger`."""

    policy: str = "runs/demo/07-policy"
    """Folder of a policy's run."""
    out: str = "runs/ledger"
    """Run folder."""
    seed: Annotated[int, Ge(0)] = 0
    """Recorded with the result; the panel has its own."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """The panel."""


def run(config: Config, words: list[str]) -> int:
    """Fill in and show."""
    from dexprior.pipeline.transfer import stage_ledger

    show(stage_ledger(config.evaluation, Path(config.policy), Path(config.out), seed=config.seed))
    return 0
