"""Train a policy: a task of the suite by batched PPO with an annealed KL to the behavioral prior, or without it
(use_prior=false); task=push by SAC on sequential pushing, in MuJoCo or in the hybrid.

dexprior train-policy init=runs/mine/07-policy policy.warmup=0
dexprior train-policy data=runs/plan/train.json out=runs/next
dexprior train-policy task=pick_place use_prior=false policy.engine=mujoco
dexprior train-policy task=push push.striker.kind=hybrid push.striker.surrogate=runs/mine/collision.safetensors
"""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

from dexprior.artifacts import read_json
from dexprior.cli.show import show
from dexprior.config import Ge, config
from dexprior.errors import BadInput
from dexprior.policy.ppo import PpoConfig
from dexprior.policy.pushing import PushConfig


@config
class Config:
    """Settings of `dexprior train-policy`."""

    task: str = "insertion"
    """What is trained: a task of the suite, or push."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Of the task's configuration, e.g. settings.clearance=0.0001 for the peg."""
    behavior: str | None = None
    """Folder of the behavioral prior's run; runs/demo/05-behavior for the insertion. Without one, and with
    use_prior=false, training instances are drawn."""
    use_prior: bool = True
    """Whether to regularize to it."""
    init: str | None = None
    """Run folder of a policy whose actor training starts from; not for push."""
    data: str | None = None
    """`train.json` of `dexprior ledger plan`: recorded episodes that are the behavioral prior instead of `behavior`;
    for the insertion. Gives `init` too, unless that is set."""
    out: str = "runs/policy"
    """Run folder."""
    seed: Annotated[int, Ge(0)] = 0
    """Of the training."""
    policy: PpoConfig = PpoConfig()
    """PPO, for tasks of the suite."""
    push: PushConfig = PushConfig()
    """SAC, for pushing."""


def run(config: Config, words: list[str]) -> int:
    """Train and show."""
    if config.task == "push":
        if config.init is not None:
            raise BadInput(f"train-policy init={config.init}: only tasks of the suite start from an actor")
        if config.data is not None:
            raise BadInput(f"train-policy data={config.data}: only tasks of the suite learn from recordings")
        from dexprior.policy.pushing import train

        train(config.push, Path(config.out), config.seed)
        curve = read_json(Path(config.out) / "curve.json")
        show({"file": str(Path(config.out) / "policy.safetensors"), "last": curve[-1]})
        return 0
    from dexprior.pipeline.stages import TASK, stage_policy
    from dexprior.worlds.tasks import make_task

    task = make_task(config.task, **config.settings)
    behavior = config.behavior
    if behavior is None and task == TASK:
        behavior = "runs/demo/05-behavior"
    result = stage_policy(
        config.policy,
        None if behavior is None else Path(behavior),
        Path(config.out),
        seed=config.seed,
        use_prior=config.use_prior,
        init=None if config.init is None else Path(config.init),
        data=None if config.data is None else Path(config.data),
        task=task,
    )
    show(result)
    return 0
