"""Settings of the line for one task, and the names of its stages."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Annotated, Any

from dexprior.behavior import BehaviorConfig
from dexprior.collision.clash import TUNED_CLASH, ClashConfig
from dexprior.collision.stage import CollisionConfig
from dexprior.config import Ge, changed, config
from dexprior.data.demonstrating import TaskDemonstrationConfig
from dexprior.envs.factory import SimulationOptions
from dexprior.errors import ConfigError
from dexprior.families import SensorModels, SightConfig
from dexprior.pipeline.stages import EvaluationConfig
from dexprior.pipeline.worlds import SCORING, TUNING
from dexprior.policy.ppo import PpoConfig
from dexprior.pose.estimator import EstimatorConfig
from dexprior.pose.fusion import Source
from dexprior.prior.training import PriorConfig

__all__ = ["POLICIES", "STAGES", "BankConfig", "LineConfig", "changed_settings"]

STAGES = (
    "01-demonstrations", "02-prior", "03-estimator", "04-behavior", "05-imitation", "06-policy", "07-policy-no-kl",
    "08-policy-plain", "09-ladder", "10-collision", "11-ledger", "12-backends",
)  # fmt: skip
"""Folders of a run, in order."""
POLICIES = STAGES[4:8]
"""Those of policies: the warm-up alone, with the KL after it, without it, from scratch."""


@config
class BankConfig:
    """Which scenes the behavioral prior covers, and how its samples are made."""

    scenes: Annotated[int, Ge(1)] = 64
    """Training scenes."""
    sentence: str | tuple[str, ...] | None = None
    """What is asked for in all of them, with one person's habits: what differs from scene to scene must be the scene,
    which is all that a policy sees. None takes the task's first way that is no longer than the prior's clips; of
    several, a policy or a density is told which."""
    source: Source = "motion"
    """Where a sample's hand and object are taken from: its motion stream, the pixels as the pose estimator
    reads them, or both fused."""
    views: tuple[str, ...] = ("side",)
    """Cameras of the demonstrations, beside their own one, that samples are filmed with where the pixels are read."""
    motion_steps: Annotated[int, Ge(1)] = 12
    """Euler steps of the motion stream."""
    video_steps: Annotated[int, Ge(1)] = 2
    """Euler steps of the video stream."""
    draws: Annotated[int, Ge(1)] = 1
    """Noises that samples are drawn from; the bank keeps the one whose samples break the fewest laws of contact, hold
    something and can be reached."""
    rollouts: Annotated[int, Ge(0)] = 0
    """Rollouts of each scene in the training world, by which trajectories are refined; 0 takes them as they are."""
    alike: bool = True
    """Whether all scenes keep the same draw and are refined by the same numbers. Otherwise each keeps its own best
    draw, and those in which the robot fails are refined, each by numbers of its own."""
    gated: bool = True
    """Whether robots are shown to move no faster than the task's gate lets them, where an episode has the time."""
    behavior: BehaviorConfig = BehaviorConfig(std_twist=0.025, std_end=0.025)
    """How trajectories become a distribution, of which most draws succeed where millimetres count; its `steps` are the
    task's."""


@config
class LineConfig:
    """The whole line for one task."""

    task: str = "pick_place"
    """Task of the suite, with human demonstrations: pick_place, peg, insertion, nut_bolt, soft_grasp or folding."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the task that the robot is trained on, where they differ from its row in the suite."""
    out: str = "runs/demo"
    """Run folder."""
    seed: Annotated[int, Ge(0)] = 0
    """One seed reproduces the run on the same machine."""
    threads: Annotated[int, Ge(0)] = 0
    """Threads of torch in each stage; 0 takes one per core, shared by the stages that run side by side."""
    jobs: Annotated[int, Ge(0)] = 0
    """Stages that run side by side, each in a process of its own; 0 takes two where there are two cores."""
    demonstrations: TaskDemonstrationConfig = TaskDemonstrationConfig(n=320, size=48, depth=())
    """Human demonstrations."""
    prior: PriorConfig = PriorConfig(steps=600, holdout=0.1)
    """Video prior."""
    estimator: EstimatorConfig = EstimatorConfig(steps=700)
    """Pose estimator; 300 steps more, a minute and a half, take a fifth of its errors away."""
    gripper: dict[str, Any] = field(default_factory=dict)
    """What makes grippers of hands: settings of `GripperConfig`, where they differ from the task's row in the suite."""
    bank: BankConfig = BankConfig()
    """Behavioral prior."""
    policy: PpoConfig = PpoConfig(
        worlds=48, iterations=14, warmup=6,
        simulation=SimulationOptions(sensors=SensorModels(sight=SightConfig(labels=False))),
    )  # fmt: skip
    """Policies; they are judged through the sensors that they are trained with."""
    scored: Annotated[int, Ge(4)] = 64
    """Scenes that each rung of the ladder is scored on; fewer demonstrations where some fail."""
    gated: Annotated[int, Ge(1)] = 16
    """How many of them the policy also acts in behind the gate, one after the other."""
    collision: CollisionConfig = CollisionConfig(
        clash=ClashConfig(pairs=30_000), clash_tuned=replace(TUNED_CLASH, pairs=30_000, pretrain_steps=2000)
    )
    """Collision model; the reference learns from fewer pairs than in its own evaluation, which would take 40 s more."""
    evaluation: EvaluationConfig = EvaluationConfig(repeats=128)
    """What the ledger compares, and what runs through every backend."""

    def __post_init__(self) -> None:
        if self.seed in (TUNING, SCORING):
            raise ConfigError(f"demo.seed = {self.seed}: kept for scenes that things are chosen or judged on")
        if self.prior.size != self.estimator.size:
            raise ConfigError(
                f"demo.estimator.size = {self.estimator.size}: the estimator reads the prior's samples, so it must "
                f"equal demo.prior.size = {self.prior.size}"
            )
        for name in self.bank.views:
            if name not in self.demonstrations.cameras[1:]:
                raise ConfigError(
                    f"demo.bank.views = {list(self.bank.views)}: no camera {name!r} beside the first of "
                    f"demo.demonstrations.cameras = {list(self.demonstrations.cameras)}"
                )
        if self.demonstrations.size % self.prior.size:
            raise ConfigError(
                f"demo.prior.size = {self.prior.size}: must divide "
                f"demo.demonstrations.size = {self.demonstrations.size}"
            )


def changed_settings(config: LineConfig) -> list[str]:
    """Settings of a run that are not the defaults, but for its folder, as `key=value` words of `dexprior demo`."""
    return [word for word in changed(config) if not word.startswith("out=")]
