"""A policy in the training world and in the world with the other contact, on the same held-out scenes.

With baseline=FOLDER, two policies are compared on paired scenes. evaluation.backend.kind says where: simulators show
both worlds, a reality server or a robot behind its gate the other one. With task=push, routes are driven on the table
of an independent engine; a policy that was trained for a Gymnasium environment plays there (env=).

dexprior evaluate policy=runs/policy baseline=runs/demo/06-policy
dexprior evaluate policy=runs/policy evaluation.backend.kind=hardware evaluation.instances=4
dexprior evaluate policy=runs/policy family=runs/round-2/family.json phenomena={stribeck:{}}
dexprior evaluate task=push policy=runs/push out=runs/routes
dexprior evaluate env=AdroitHandDoorSparse-v1 policy=runs/door episodes=100
"""

from __future__ import annotations

from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dexprior.cli.compose import files
from dexprior.cli.show import show
from dexprior.config import Ge, config, to_plain, validate
from dexprior.errors import BadInput
from dexprior.pipeline.stages import EvaluationConfig
from dexprior.policy.gym import EnvConfig
from dexprior.policy.pushing import RouteStudyConfig, study_routes

HELP: dict[str, tuple[str, ...]] = {
    "": (
        "policy",
        "baseline",
        "task",
        "family",
        "phenomena",
        "injectors",
        "out",
        "seed",
        "evaluation.instances",
        "evaluation.backend.kind",
        "episodes",
    ),
}
"""What `--help` shows, of the verb and of its words; what ends in a dot, `--help all` shows."""


@config
class Config:
    """Settings of `dexprior evaluate`."""

    task: str | None = None
    """What the policy was trained for: push, or a task of the suite, which its file knows."""
    env: str | None = None
    """Gymnasium environment that the policy was trained for, where it is not a task."""
    episodes: Annotated[int, Ge(1)] = 100
    """For env: how many are played, from starts that training never drew."""
    gym: dict[str, Any] = field(default_factory=dict)
    """For env: how it is used where that differs from the training, e.g. gym.horizon=300 gym.success_steps=26."""
    policy: str = "runs/demo/06-policy"
    """Folder of a policy's run."""
    baseline: str | None = None
    """Folder of another policy's run."""
    family: str | tuple[str, ...] = ()
    """FILE, or several as FILE,FILE: what `dexprior ledger report`, `fit-noise` or `update` learned of a robot. Its
    parameters take the place of the task's of the same name in the training world; the other world keeps its own."""
    sensors: str | None = None
    """FILE-sensors.json of `dexprior ledger fit-noise`: models of sensors and links, beside those of
    evaluation.backend.simulation.sensors."""
    phenomena: dict[str, Any] = field(default_factory=dict)
    """Laws of contact that the engine leaves out, e.g. phenomena={stribeck:{}}: short for
    evaluation.backend.simulation.phenomena."""
    injectors: dict[str, float] = field(default_factory=dict)
    """Gaps that are not contact, each with a strength from 0 to 1, e.g. injectors={cables:0.5}: docs/families.md."""
    out: str = "runs/evaluation"
    """Run folder; for task=push a folder that routes.json is written to."""
    seed: Annotated[int, Ge(0)] = 0
    """Seed of the starts of routes; otherwise it is recorded only, as the panel has its own."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """The panel."""
    routes: RouteStudyConfig = RouteStudyConfig()
    """Routes for task=push."""


def run(config: Config, words: list[str]) -> int:
    """Evaluate and show."""
    if config.env is not None:
        show(_in_gymnasium(config, config.env))
        return 0
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
    backend = config.evaluation.backend
    if backend.kind in ("reality", "hardware") and (config.sensors or config.phenomena):
        raise BadInput(f"evaluate: sensors and phenomena are of simulated worlds, backend {backend.kind!r} has its own")
    backend = replace(backend, simulation=backend.simulation.told(config.sensors, config.phenomena))
    show(
        stage_evaluation(
            replace(config.evaluation, backend=backend), policies, Path(config.out), seed=config.seed, task=task,
            family=files(config.family), injectors=config.injectors,
        )
    )  # fmt: skip
    return 0


def _in_gymnasium(config: Config, env: str) -> dict[str, Any]:
    """What a policy does in its environment: the rate of won episodes with its interval, and their mean return."""
    from dexprior.artifacts import write_json
    from dexprior.policy.gym import evaluate_policy, load_policy
    from dexprior.stats import Rate

    _, trained, settings = load_policy(config.policy)
    if trained != env:
        raise BadInput(f"evaluate env={env}: the policy in {config.policy} was trained for {trained}")
    settings = validate(EnvConfig, to_plain(settings) | config.gym, where="evaluate.gym")
    played = evaluate_policy(config.policy, settings, config.episodes)
    known = not np.isnan(played.success).any()
    found: dict[str, Any] = {"env": env, "episodes": config.episodes, "return": float(played.returned.mean())}
    if known:
        found["success"] = Rate(int(played.success.sum()), config.episodes).as_dict()
    write_json(Path(config.out) / "evaluation.json", found)
    return found
