"""Sample the prior for training scenes of a task, retarget the samples to its gripper: the behavioral prior."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

from dexprior.cli.show import show
from dexprior.config import Ge, config
from dexprior.pipeline.settings import BankConfig


@config
class Config:
    """Settings of `dexprior build-behavior`."""

    task: str = "pick_place"
    """Of the suite, with human demonstrations."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Of the task that the robot is trained on, where they differ from its row in the suite."""
    prior: str = "runs/demo/02-prior"
    """Folder of the video prior's run."""
    estimator: str = "runs/demo/03-estimator"
    """Folder of the pose estimator's run, where bank.source is not the motion stream."""
    out: str = "runs/behavior"
    """Run folder."""
    seed: Annotated[int, Ge(0)] = 0
    """Of scenes and samples."""
    bank: BankConfig = BankConfig()
    """Scenes and samples."""
    gripper: dict[str, Any] = field(default_factory=dict)
    """From hands to the gripper: settings of `GripperConfig`, where they differ from the task's row in the suite."""


def run(config: Config, words: list[str]) -> int:
    """Build and show."""
    from dexprior.pipeline.following import gripper_settings, make_bank
    from dexprior.pipeline.stages import files_of_prior, parents_of, run_stage
    from dexprior.worlds.tasks import robot_task

    prior, out = Path(config.prior), Path(config.out)
    reader = None if config.bank.source == "motion" else Path(config.estimator)
    task, gripper = robot_task(config.task, **config.settings), gripper_settings(config.task, config.gripper)
    result = run_stage(
        out, "line-behavior", (config.bank, gripper, config.task, config.settings), config.seed,
        lambda: make_bank(task, config.bank, gripper, prior, out, seed=config.seed, estimator=reader),
        parents=files_of_prior(prior) + (() if reader is None else parents_of(reader / "estimator.safetensors")),
    )  # fmt: skip
    show(result)
    return 0
