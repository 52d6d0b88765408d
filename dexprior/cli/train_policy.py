"""Train a policy: a task of the suite by batched PPO with an annealed KL to the behavioral prior, or without it
(use_prior=false); task=push by SAC on sequential pushing, in MuJoCo or in the hybrid.

dexprior train-policy init=runs/mine/06-policy policy.warmup=0
dexprior train-policy data=runs/plan/train.json out=runs/next
dexprior train-policy task=pick_place use_prior=false policy.engine=mujoco
dexprior train-policy init=runs/mine/06-policy policy.warmup=0 family=runs/round-2/family.json sensors=FILE
dexprior train-policy task=push push.striker.kind=hybrid push.striker.surrogate=runs/mine/collision.safetensors
"""

from __future__ import annotations

from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any

from dexprior.artifacts import read_json
from dexprior.cli.compose import files, parts
from dexprior.cli.show import show
from dexprior.config import Ge, config
from dexprior.errors import BadInput
from dexprior.policy.ppo import PpoConfig
from dexprior.policy.pushing import PushConfig


@config
class Config:
    """Settings of `dexprior train-policy`."""

    task: str | None = None
    """What is trained: a task of the suite, or push. By default that of init, or of the actor that the recordings name,
    or else pick_place."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Of the task's configuration, e.g. settings.clearance=0.0001 for the peg."""
    behavior: str | None = None
    """Folder of the behavioral prior's run; runs/demo/04-behavior where that is of the same task. With use_prior=false
    there is none, and training instances are drawn."""
    use_prior: bool = True
    """Whether to regularize to it."""
    init: str | None = None
    """Run folder of a policy whose actor training starts from; not for push."""
    data: str | None = None
    """`train.json` of `dexprior ledger plan`: recorded episodes that are the behavioral prior instead of `behavior`.
    Gives `init` too, unless that is set."""
    family: str | tuple[str, ...] = ()
    """FILE, or several as FILE,FILE: what `dexprior ledger report`, `fit-noise` or `update` learned of a robot. Its
    parameters take the place of the task's of the same name in the training world."""
    sensors: str | None = None
    """FILE-sensors.json of `dexprior ledger fit-noise`: models of sensors and links, beside those of
    policy.simulation.sensors."""
    phenomena: dict[str, Any] = field(default_factory=dict)
    """Laws of contact that the engine leaves out, e.g. phenomena={stribeck:{}}: short for
    policy.simulation.phenomena."""
    injectors: dict[str, float] = field(default_factory=dict)
    """Gaps that are not contact, each with a strength from 0 to 1, e.g. injectors={cables:0.5}: docs/families.md."""
    out: str = "runs/policy"
    """Run folder."""
    more: Annotated[int, Ge(1)] | tuple[Annotated[int, Ge(1)], ...] = ()
    """Iterations to go on with from the finished run in `out`, over which the KL's weight falls anew; several
    continuations in a row as more=5,3. Not for push."""
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
        if config.more:
            raise BadInput(f"train-policy more={config.more}: only policies of the suite's tasks go on when finished")
        if config.data is not None:
            raise BadInput(f"train-policy data={config.data}: only tasks of the suite learn from recordings")
        if told := [name for name in ("family", "sensors", "phenomena", "injectors") if getattr(config, name)]:
            raise BadInput(f"train-policy {told[0]}={getattr(config, told[0])}: only tasks of the suite take it")
        from dexprior.policy.pushing import train

        train(config.push, Path(config.out), config.seed)
        curve = read_json(Path(config.out) / "curve.json")
        show({"file": str(Path(config.out) / "policy.safetensors"), "last": curve[-1]})
        return 0
    from dexprior.pipeline.stages import stage_policy, trained_task
    from dexprior.worlds.tasks import robot_task

    init = None if config.init is None else Path(config.init)
    if config.task is None and init is not None:
        task = trained_task({"init": init})
    elif config.task is None and config.data is not None:
        task = None  # the recordings' actor knows
    else:
        task = robot_task(config.task or "pick_place", **config.settings)
    behavior = config.behavior
    if behavior is None and task is not None and config.use_prior:
        behavior = _of_the_demo(task.name)
    simulation = config.policy.simulation.told(config.sensors, config.phenomena)
    result = stage_policy(
        replace(config.policy, simulation=simulation),
        None if behavior is None else Path(behavior),
        Path(config.out),
        seed=config.seed,
        use_prior=config.use_prior,
        init=init,
        data=None if config.data is None else Path(config.data),
        task=task,
        family=files(config.family),
        injectors=config.injectors,
        more=parts(config.more),
    )
    show(result)
    return 0


def _of_the_demo(task: str) -> str | None:
    """Folder of the demo's behavioral prior, where it is of a task."""
    from dexprior.envs.panel import Panel

    folder = Path("runs/demo/04-behavior")
    finished = (folder / "behavior.safetensors").exists()
    return str(folder) if finished and Panel.load(folder / "panel.json").task == task else None
