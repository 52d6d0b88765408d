"""Train a policy with batched PPO and an annealed KL to the behavioral prior, or without it (use_prior=false)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dexprior.cli.show import show
from dexprior.config import Ge, config
from dexprior.policy.ppo import PpoConfig


@config
class Config:
    """Settings of `dexprior train-policy`."""

    behavior: str = "runs/demo/05-behavior"
    """Folder of the behavioral prior's run."""
    use_prior: bool = True
    """Whether to regularize to it."""
    out: str = "runs/policy"
    """Run folder."""
    seed: Annotated[int, Ge(0)] = 0
    """Of the training."""
    policy: PpoConfig = PpoConfig()
    """PPO."""


def run(config: Config, words: list[str]) -> int:
    """Train and show."""
    from dexprior.pipeline.stages import stage_policy

    result = stage_policy(
        config.policy, Path(config.behavior), Path(config.out), seed=config.seed, use_prior=config.use_prior
    )
    show(result)
    return 0
