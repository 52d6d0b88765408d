"""Train a policy: task=insertion by batched PPO with an annealed KL to the behavioral prior, or without it
(use_prior=false); task=push by SAC on sequential pushing, in MuJoCo or in the hybrid.

dexprior train-policy init=runs/mine/07-policy policy.warmup=0
dexprior train-policy data=runs/plan/train.json out=runs/next
dexprior train-policy task=push push.striker.kind=hybrid push.striker.surrogate=runs/mine/collision.safetensors
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from dexprior.artifacts import read_json
from dexprior.cli.show import show
from dexprior.config import Ge, config
from dexprior.errors import BadInput
from dexprior.policy.ppo import PpoConfig
from dexprior.policy.pushing import PushConfig


@config
class Config:
    """Settings of `dexprior train-policy`."""

    task: Literal["insertion", "push"] = "insertion"
    """What is trained."""
    behavior: str = "runs/demo/05-behavior"
    """Folder of the behavioral prior's run."""
    use_prior: bool = True
    """Whether to regularize to it."""
    init: str | None = None
    """Run folder of a policy whose actor training starts from, for the insertion."""
    data: str | None = None
    """`train.json` of `dexprior ledger plan`: recorded episodes that are the behavioral prior instead of `behavior`;
    for the insertion. Gives `init` too, unless that is set."""
    out: str = "runs/policy"
    """Run folder."""
    seed: Annotated[int, Ge(0)] = 0
    """Of the training."""
    policy: PpoConfig = PpoConfig()
    """PPO, for the insertion."""
    push: PushConfig = PushConfig()
    """SAC, for pushing."""


def run(config: Config, words: list[str]) -> int:
    """Train and show."""
    if config.task == "push":
        if config.init is not None:
            raise BadInput(f"train-policy init={config.init}: only task=insertion starts from an actor")
        if config.data is not None:
            raise BadInput(f"train-policy data={config.data}: only task=insertion learns from recordings")
        from dexprior.policy.pushing import train

        train(config.push, Path(config.out), config.seed)
        curve = read_json(Path(config.out) / "curve.json")
        show({"file": str(Path(config.out) / "policy.safetensors"), "last": curve[-1]})
        return 0
    from dexprior.pipeline.stages import stage_policy

    result = stage_policy(
        config.policy,
        Path(config.behavior),
        Path(config.out),
        seed=config.seed,
        use_prior=config.use_prior,
        init=None if config.init is None else Path(config.init),
        data=None if config.data is None else Path(config.data),
    )
    show(result)
    return 0
