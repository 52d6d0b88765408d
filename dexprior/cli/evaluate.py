"""A policy in the training world and in the world with the other contact, on the same held-out scenes.

With baseline=FOLDER, two policies are compared on paired scenes. evaluation.backend.kind says where: simulators show
both worlds, a reality server or a robot behind its gate the other one. With task=push, routes are driven on the table
of an independent engine.

dexprior evaluate policy=runs/policy baseline=runs/demo/07-policy
dexprior evaluate policy=runs/policy evaluation.backend.kind=hardware evaluation.instances=4
dexprior evaluate task=push policy=runs/push out=runs/routes
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dexprior.cli.show import show
from dexprior.config import Ge, config
from dexprior.errors import BadInput
from dexprior.pipeline.stages import EvaluationConfig
from dexprior.policy.pushing import RouteStudyConfig, study_routes


@config
class Config:
    """Settings of `dexprior evaluate`."""

    task: str | None = None
    """What the policy was trained for: push, or a task of the suite, which its file knows."""
    policy: str = "runs/demo/07-policy"
    """Folder of a policy's run."""
    baseline: str | None = None
    """Folder of another policy's run."""
    out: str = "runs/evaluation"
    """Run folder; for task=push a folder that routes.json is written to."""
    seed: Annotated[int, Ge(0)] = 0
    """Of the starts of routes; otherwise it is recorded only, as the panel has its own."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """The panel."""
    routes: RouteStudyConfig = RouteStudyConfig()
    """For task=push."""


def run(config: Config, words: list[str]) -> int:
    """Evaluate and show."""
    if config.task == "push":
        if config.baseline is not None:
            raise BadInput("evaluate task=push compares no baseline: evaluate each policy on the same seed")
        show(study_routes(config.routes, Path(config.policy), Path(config.out) / "routes.json", seed=config.seed))
        return 0
    from dexprior.pipeline.stages import stage_evaluation, trained_task

    policies = {"policy": Path(config.policy)}
    if config.baseline is not None:
        policies["baseline"] = Path(config.baseline)
    task = trained_task(policies)
    if config.task not in (None, task.name):
        raise BadInput(f"evaluate task={config.task}: the policy was trained for {task.name!r}")
    show(stage_evaluation(config.evaluation, policies, Path(config.out), seed=config.seed, task=task))
    return 0
