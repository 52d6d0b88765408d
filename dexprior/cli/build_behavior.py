"""Sample the prior for training scenes of a task, retarget the samples to its gripper: the behavioral prior.

With density=flow or density=mixture the bank is followed in the training world, and a density of actions is fitted to
what is seen and done, which holds in scenes that the bank does not know (`dexprior train-policy density=true`).

dexprior build-behavior prior=runs/demo/02-prior density=flow
"""

from __future__ import annotations

from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from dexprior.cli.show import show
from dexprior.config import Ge, config
from dexprior.envs.factory import SimulationOptions
from dexprior.pipeline.settings import BankConfig
from dexprior.policy.density import DensityConfig
from dexprior.worlds.tasks import Task

HELP: dict[str, tuple[str, ...]] = {
    "": (
        "task",
        "settings",
        "prior",
        "estimator",
        "out",
        "seed",
        "bank.scenes",
        "bank.draws",
        "bank.source",
        "bank.rollouts",
        "density",
        "gripper",
    ),
}
"""What `--help` shows, of the verb and of its words; what ends in a dot, `--help all` shows."""


@config
class Config:
    """Settings of `dexprior build-behavior`."""

    task: str = "pick_place"
    """Task of the suite, with human demonstrations."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the task that the robot is trained on, where they differ from its row in the suite."""
    prior: str = "runs/demo/02-prior"
    """Folder of the video prior's run."""
    estimator: str = "runs/demo/03-estimator"
    """Folder of the pose estimator's run, where bank.source is not the motion stream."""
    out: str = "runs/behavior"
    """Run folder."""
    seed: Annotated[int, Ge(0)] = 0
    """Seed of scenes and samples."""
    bank: BankConfig = BankConfig()
    """Scenes and samples."""
    density: Literal["flow", "mixture"] | None = None
    """Kind of density that is fitted as well; none by default."""
    fit: DensityConfig = DensityConfig()
    """Fit of that density, whose kind is `density`."""
    replays: Annotated[int, Ge(1)] = 4
    """Times that each scene of the bank is followed for it."""
    simulation: SimulationOptions = SimulationOptions()
    """Worlds in which that is done, with the sensors of the policies that will be kept near it."""
    gripper: dict[str, Any] = field(default_factory=dict)
    """What makes grippers of hands: settings of `GripperConfig`, where they differ from the task's row in the suite."""


def run(config: Config, words: list[str]) -> int:
    """Build and show."""
    from dexprior.pipeline.following import gripper_settings, make_bank
    from dexprior.pipeline.stages import files_of_prior, parents_of, run_stage
    from dexprior.worlds.tasks import robot_task

    prior, out = Path(config.prior), Path(config.out)
    reader = None if config.bank.source == "motion" else Path(config.estimator)
    task, gripper = robot_task(config.task, **config.settings), gripper_settings(config.task, config.gripper)
    fitted = () if config.density is None else (config.density, config.fit, config.replays, config.simulation)

    def work() -> dict[str, Any]:
        made = make_bank(task, config.bank, gripper, prior, out, seed=config.seed, estimator=reader)
        if config.density is None:
            return made
        return made | {"density": _fit(config, task, out)}

    result = run_stage(
        out, "line-behavior", (config.bank, gripper, config.task, config.settings, *fitted), config.seed, work,
        parents=files_of_prior(prior) + (() if reader is None else parents_of(reader / "estimator.safetensors")),
    )  # fmt: skip
    show(result)
    return 0


def _fit(config: Config, task: Task, out: Path) -> dict[str, Any]:
    """Follow the bank in a folder and fit a density beside it; what is known of that."""
    from dexprior.behavior import BehaviorPrior
    from dexprior.envs.panel import Panel
    from dexprior.pipeline.stages import DENSITY
    from dexprior.policy.density import fit_density, save_density
    from dexprior.policy.replays import replay

    bank, panel = BehaviorPrior.load(out / "behavior.safetensors"), Panel.load(out / "panel.json")
    pairs, senses, success = replay(
        task, panel, bank, repeats=config.replays, seed=config.seed, simulation=config.simulation
    )
    settings = replace(config.fit, kind=config.density or config.fit.kind)
    density, told = fit_density(pairs, settings, seed=config.seed, senses=senses)
    save_density(density, out / DENSITY, seed=config.seed)
    return told | {"followed": success}
