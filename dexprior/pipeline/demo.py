"""The demo: every stage on the embedded default, in order, resumable, ending on one page."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from dexprior.artifacts import write_json
from dexprior.collision.clash import TUNED_CLASH, ClashConfig
from dexprior.collision.stage import CollisionConfig
from dexprior.config import Ge, config
from dexprior.data.demonstrations import DemonstrationConfig
from dexprior.errors import ConfigError
from dexprior.pipeline import stages
from dexprior.pipeline.report import write_report
from dexprior.pipeline.stages import BankConfig, EvaluationConfig
from dexprior.pipeline.transfer import stage_backends, stage_ledger
from dexprior.policy.ppo import PpoConfig
from dexprior.pose.estimator import EstimatorConfig
from dexprior.prior.training import PriorConfig
from dexprior.retarget.network import RetargetConfig

__all__ = ["DemoConfig", "STAGES", "run_demo"]

STAGES = (
    "01-demonstrations", "02-prior", "03-estimator", "04-retargeter", "05-behavior", "06-collision",
    "07-policy", "08-policy-plain", "09-evaluation", "10-ledger", "11-backends",
)  # fmt: skip
"""Folders of a demo run, in order."""


@config
class DemoConfig:
    """The whole line."""

    out: str = "runs/demo"
    """Run folder."""
    seed: Annotated[int, Ge(0)] = 0
    """One seed reproduces the run on the same machine."""
    threads: Annotated[int, Ge(0)] = 0
    """Threads of torch; 0 takes one per core."""
    demonstrations: DemonstrationConfig = DemonstrationConfig()
    """Human demonstrations."""
    prior: PriorConfig = PriorConfig()
    """Video prior."""
    estimator: EstimatorConfig = EstimatorConfig()
    """Pose estimator."""
    retarget: RetargetConfig = RetargetConfig()
    """Retargeting network."""
    bank: BankConfig = BankConfig()
    """Behavioral prior."""
    collision: CollisionConfig = CollisionConfig(
        clash=ClashConfig(pairs=30_000), clash_tuned=replace(TUNED_CLASH, pairs=30_000, pretrain_steps=2000)
    )
    """Collision model; the reference learns from fewer pairs than in its own evaluation, which would take 40 s more."""
    policy: PpoConfig = PpoConfig()
    """Policy, with and without the prior."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """Held-out panel."""


def run_demo(config: DemoConfig, *, say: Callable[[str], None] | None = None) -> Path:
    """Run every stage that is not finished, then write the report; returns its path.

    Killed at any point, it goes on from the last checkpoint of the stage that was under way.

    Args:
        say: where progress lines go; standard error by default.
    """
    import torch

    _check(config)
    say = say or (lambda line: print(line, file=sys.stderr, flush=True))
    if config.threads:
        torch.set_num_threads(config.threads)
    root = Path(config.out)
    d = {name: root / name for name in STAGES}
    seed, holdout = config.seed, config.prior.holdout
    demos, prior, estimator, retargeter = (d[name] for name in STAGES[:4])
    policies = {"with prior": d["07-policy"], "without prior": d["08-policy-plain"]}
    work: dict[str, Callable[[], dict[str, Any]]] = {
        "01-demonstrations": lambda: stages.stage_demonstrations(config.demonstrations, demos, seed=seed),
        "02-prior": lambda: stages.stage_prior(config.prior, demos, prior, seed=seed),
        "03-estimator": lambda: stages.stage_estimator(
            config.estimator, demos, prior, estimator, seed=seed, holdout=holdout
        ),
        "04-retargeter": lambda: stages.stage_retargeter(
            config.retarget, demos, retargeter, seed=seed, holdout=holdout, size=config.prior.size
        ),
        "05-behavior": lambda: stages.stage_behavior(
            config.bank, prior, estimator, retargeter, d["05-behavior"], seed=seed
        ),
        "06-collision": lambda: stages.stage_collision(config.collision, d["06-collision"], seed=seed),
        "07-policy": lambda: stages.stage_policy(
            config.policy, d["05-behavior"], d["07-policy"], seed=seed, use_prior=True
        ),
        "08-policy-plain": lambda: stages.stage_policy(
            config.policy, d["05-behavior"], d["08-policy-plain"], seed=seed, use_prior=False
        ),
        "09-evaluation": lambda: stages.stage_evaluation(config.evaluation, policies, d["09-evaluation"], seed=seed),
        "10-ledger": lambda: stage_ledger(config.evaluation, d["07-policy"], d["10-ledger"], seed=seed),
        "11-backends": lambda: stage_backends(
            config.evaluation, d["07-policy"], d["06-collision"], d["11-backends"], seed=seed
        ),
    }
    results = {}
    for number, (name, run) in enumerate(work.items(), start=1):
        finished = (d[name] / "done.json").exists()
        say(f"[{number}/{len(work)}] {name}" + (": already done" if finished else ""))
        start = time.monotonic()
        results[name] = run()
        if not finished:
            say(f"[{number}/{len(work)}] {name}: {time.monotonic() - start:.0f} s")
    write_json(root / "results.json", {name: _short(result) for name, result in results.items()})
    report = write_report(root, config, results)
    say(f"report: {report}")
    return report


def _check(config: DemoConfig) -> None:
    """What no single stage can see: settings of different stages that do not fit each other."""
    if config.prior.size != config.estimator.size:
        raise ConfigError(
            f"demo.estimator.size = {config.estimator.size}: the estimator reads the prior's samples, "
            f"so it must equal demo.prior.size = {config.prior.size}"
        )
    if config.demonstrations.size % config.prior.size:
        raise ConfigError(
            f"demo.prior.size = {config.prior.size}: must divide "
            f"demo.demonstrations.size = {config.demonstrations.size}"
        )
    if config.bank.samples > config.bank.candidates:
        raise ConfigError(
            f"demo.bank.samples = {config.bank.samples}: more than demo.bank.candidates = {config.bank.candidates}"
        )


def _short(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name != "curve"}
