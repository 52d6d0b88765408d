"""Train a policy: a task of the suite by batched PPO with an annealed KL to the behavioral prior, or without it
(use_prior=false); any Gymnasium environment near a prior from a file (env=ID prior=FILE.npz); task=push by SAC on
sequential pushing, in MuJoCo or in the hybrid.

dexprior train-policy init=runs/mine/06-policy policy.warmup=0
dexprior train-policy data=runs/plan/train.json out=runs/next
dexprior train-policy task=pick_place use_prior=false policy.engine=mujoco
dexprior train-policy init=runs/mine/06-policy policy.warmup=0 family=runs/round-2/family.json sensors=FILE
dexprior train-policy env=AdroitHandDoorSparse-v1 prior=door_human.npz gym.env.success_steps=26
dexprior train-policy env=Pendulum-v1 gym.kind=sac
dexprior train-policy task=push push.striker.kind=hybrid push.striker.surrogate=runs/mine/collision.safetensors
"""

from __future__ import annotations

from dataclasses import field, fields, replace
from pathlib import Path
from typing import Annotated, Any

from dexprior.artifacts import read_json
from dexprior.cli.compose import files, parts
from dexprior.cli.show import show
from dexprior.config import Ge, config
from dexprior.errors import BadInput
from dexprior.policy.gym import GymConfig
from dexprior.policy.ppo import PpoConfig
from dexprior.policy.pushing import PushConfig
from dexprior.reading.files import existing

HELP: dict[str, tuple[str, ...]] = {
    "": (
        "task",
        "behavior",
        "use_prior",
        "init",
        "data",
        "more",
        "family",
        "out",
        "seed",
        "policy.worlds",
        "policy.iterations",
        "policy.engine",
    ),
}
"""What `--help` shows, of the verb and of its words; what ends in a dot, `--help all` shows."""


@config
class Config:
    """Settings of `dexprior train-policy`."""

    task: str | None = None
    """What is trained: a task of the suite, or push. By default that of init, or of the actor that the recordings name,
    or else pick_place."""
    env: str | None = None
    """Id of a Gymnasium environment, or MODULE:ID, in place of a task."""
    prior: str | None = None
    """For env: an .npz with recorded episodes (observations, actions, start), or with an expert's layers (w0, b0, and
    so on)."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Fields of the task's configuration, e.g. settings.clearance=0.0001 for the peg."""
    behavior: str | None = None
    """Folder of the behavioral prior's run; runs/demo/04-behavior where that is of the same task. With use_prior=false
    there is none, and training instances are drawn."""
    use_prior: bool = True
    """Whether to regularize to it."""
    density: bool = False
    """Whether to keep to the density that `build-behavior density=flow` fitted beside the bank: it knows no scenes, and
    training draws new ones."""
    sentence: str | None = None
    """What is asked of a behavioral prior that knows several ways; its first by default."""
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
    """Seed of the training."""
    policy: PpoConfig = PpoConfig()
    """PPO, for tasks of the suite."""
    gym: GymConfig = GymConfig()
    """Training, for env."""
    push: PushConfig = PushConfig()
    """SAC, for pushing."""


def run(config: Config, words: list[str]) -> int:
    """Train and show."""
    if config.env is not None:
        show(_in_gymnasium(config, config.env))
        return 0
    if config.prior is not None:
        raise BadInput(
            f"train-policy prior={config.prior}: for env=ID; the behavioral prior of a task is behavior=FOLDER"
        )
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
        density=config.density,
        sentence=config.sentence,
        more=parts(config.more),
    )
    show(result)
    return 0


def _in_gymnasium(config: Config, env: str) -> dict[str, Any]:
    """Train for an environment; what a stage found."""
    plain = Config()
    told = [
        f.name for f in fields(config) if f.name not in _OF_ENV and getattr(config, f.name) != getattr(plain, f.name)
    ]
    if told:
        raise BadInput(
            f"train-policy env={env} {told[0]}=...: of tasks of the suite; settings for env: {', '.join(_OF_ENV)}"
        )
    from dexprior.pipeline.stages import parents_of, run_stage
    from dexprior.policy.gym import train_gym

    out, init = Path(config.out), None if config.init is None else Path(config.init)
    known = [Path(config.prior)] if config.prior is not None else []
    known += [init / "policy.safetensors"] if init is not None else []
    return run_stage(
        out, "gym-policy", (env, config.gym), config.seed,
        lambda: train_gym(env, config.gym, out, seed=config.seed, prior=config.prior, init=init),
        parents=parents_of(*(existing(path) for path in known)),
    )  # fmt: skip


_OF_ENV = ("env", "prior", "init", "out", "seed", "gym")


def _of_the_demo(task: str) -> str | None:
    """Folder of the demo's behavioral prior, where it is of a task."""
    from dexprior.envs.panel import Panel

    folder = Path("runs/demo/04-behavior")
    finished = (folder / "behavior.safetensors").exists()
    return str(folder) if finished and Panel.load(folder / "panel.json").task == task else None
