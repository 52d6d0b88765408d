"""The line for rigid tasks of the suite that a gripper can do: demonstrations -> prior -> bank -> policies -> ladder.

Every stage writes its results into a folder of its own; a finished one is not done again, an interrupted one goes on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from dexprior.artifacts import save
from dexprior.behavior import BehaviorConfig, BehaviorPrior
from dexprior.config import Ge, config
from dexprior.data.demonstrating import TaskDemonstrationConfig, condition_of, generate_demonstrations
from dexprior.data.stacks import Stack, fingerprint, load_stack, split_stack
from dexprior.envs.panel import Panel
from dexprior.errors import BadInput, ConfigError
from dexprior.geometry.rotations import quat_from_matrix
from dexprior.geometry.transforms import fit_rigid, pose_multiply
from dexprior.pipeline import stages
from dexprior.pipeline.stages import run_stage
from dexprior.pipeline.worlds import judging_worlds
from dexprior.policy.actor import ActorConfig
from dexprior.policy.ppo import PpoConfig
from dexprior.policy.rollout import prior_policy, run_episodes
from dexprior.pose.estimator import EstimatorConfig
from dexprior.prior.sampling import load_prior
from dexprior.prior.training import PriorConfig
from dexprior.retarget.gripper import GripperConfig, ToolTrajectory, grip_map, retarget_to_gripper
from dexprior.types import HandTrajectory, PriorCondition, VideoSample
from dexprior.worlds.rigs import Rig, rig_chain
from dexprior.worlds.tasks import SUITE, Task, make_task, strategies_of
from dexprior.worlds.tasks.actions import MAX_TWIST
from dexprior.worlds.tasks.strategies import Strategy

__all__ = ["POLICIES", "STAGES", "BankConfig", "Clip", "Line", "LineConfig", "clips_of_stack", "follow"]

STAGES = (
    "01-demonstrations", "02-prior", "03-estimator", "04-behavior", "05-policy", "06-policy-no-kl", "07-imitation",
    "08-policy-plain", "09-ladder",
)  # fmt: skip
"""Folders of a run, in order."""
POLICIES = STAGES[4:8]
"""Those of policies: with the KL, without it, its warm-up alone, from scratch."""


@config
class BankConfig:
    """Which scenes the behavioral prior covers, and how its samples are made."""

    scenes: Annotated[int, Ge(1)] = 64
    """Training scenes."""
    sentence: str | None = None
    """What is asked for in all of them, with one person's habits: what differs from scene to scene must be the scene,
    which is all that a policy sees. None takes the first way that was demonstrated."""
    motion_steps: Annotated[int, Ge(1)] = 12
    """Euler steps of the motion stream."""
    video_steps: Annotated[int, Ge(1)] = 3
    """Euler steps of the video stream."""
    behavior: BehaviorConfig = BehaviorConfig(std_turn=0.3)
    """How trajectories become a distribution; its `steps` are the task's."""


@config
class LineConfig:
    """The whole line for one task."""

    task: str = "pick_place"
    """Of the suite, with human demonstrations and a robot with a gripper."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Of the task that the robot is trained on, where they differ from its row in the suite."""
    out: str = "runs/line"
    """Run folder."""
    seed: Annotated[int, Ge(0)] = 0
    """One seed reproduces the run on the same machine."""
    demonstrations: TaskDemonstrationConfig = TaskDemonstrationConfig(n=320, size=48, cameras=("front",), depth=())
    """Human demonstrations."""
    prior: PriorConfig = PriorConfig(holdout=0.2)
    """Video prior."""
    estimator: EstimatorConfig = EstimatorConfig()
    """Pose estimator."""
    gripper: GripperConfig = GripperConfig()
    """From hands to the gripper."""
    bank: BankConfig = BankConfig()
    """Behavioral prior."""
    policy: PpoConfig = PpoConfig(
        worlds=48, iterations=22, warmup=7, guided=5, actor=ActorConfig(width=160, point_width=48)
    )
    """Policies."""
    scored: Annotated[int, Ge(4)] = 64
    """Scenes, or held-out clips, that each rung of the ladder is scored on; fewer clips where fewer are held out."""

    def __post_init__(self) -> None:
        if self.prior.size != self.estimator.size:
            raise ConfigError(
                f"line.estimator.size = {self.estimator.size}: the estimator reads the prior's samples, so it must "
                f"equal line.prior.size = {self.prior.size}"
            )


@dataclass(frozen=True, kw_only=True)
class Clip:
    """A hand and what it handles, in a scene of a task: what a gripper can follow."""

    settings: dict[str, Any]
    """Of the task: the object's sizes."""
    scene: dict[str, Any]
    """As `Task.sample` gives it, without the leading axis."""
    hand: HandTrajectory
    object_pose: Float[np.ndarray, "time 7"]
    surface: Float[np.ndarray, "point 6"]
    """Points and normals of the object in the first frame, base frame."""

    @classmethod
    def of_sample(
        cls,
        sample: VideoSample,
        condition: PriorCondition,
        *,
        scene: dict[str, Any],
        settings: dict[str, Any] | None = None,
        hand: HandTrajectory | None = None,
    ) -> Clip:
        """A sample of the prior for a condition of a scene; `hand` takes the place of the sample's own."""
        assert sample.object.pose is not None  # the prior's samples of rigid things have one
        return cls(
            settings=settings or {}, scene=scene, hand=sample.hand if hand is None else hand,
            object_pose=sample.object.pose, surface=condition.cloud[condition.moves],
        )  # fmt: skip


def clips_of_stack(stack: Stack) -> list[Clip]:
    """Demonstrations as clips; the object's poses are those of the rigid motion that fits its points."""
    clips = []
    for k, condition in enumerate(stack.conditions):
        if condition.pose is None:
            raise BadInput(f"clip {stack.ids[k]} shows something that deforms: a gripper follows rigid objects only")
        hand, thing = stages.recorded_clip(stack, k)
        moved = fit_rigid(np.broadcast_to(thing.points[0], thing.points.shape), thing.points)
        info = stack.info[k]
        clips.append(
            Clip(
                settings=dict(info["object"]), scene=dict(info["scene"]), hand=hand,
                object_pose=pose_multiply(moved, np.broadcast_to(condition.pose, moved.shape)),
                surface=condition.cloud[condition.moves],
            )
        )  # fmt: skip
    return clips


def tool_trajectories(rig: Rig, clips: Sequence[Clip], gripper: GripperConfig) -> list[ToolTrajectory]:
    """What the gripper of a robot at home makes of clips."""
    start = home_of(rig)
    return [retarget_to_gripper(c.hand, c.object_pose, start, gripper, surface=c.surface) for c in clips]


def home_of(rig: Rig) -> Float[np.ndarray, 7]:
    """Tool pose of an arm at the origin in its home posture."""
    p, R, _ = rig_chain(rig.arm.name, rig.end.name)[1].forward(np.asarray(rig.home)[None])
    return np.concatenate([p[0], quat_from_matrix(R[0])])


def bank_of(
    task: Task, rig: Rig, trajectories: Sequence[ToolTrajectory], settings: BehaviorConfig, panel_hash: str
) -> BehaviorPrior:
    """A behavioral prior with one trajectory a scene."""
    return BehaviorPrior.of_tools(
        [[one] for one in trajectories], replace(settings, steps=task.steps), grip=grip_map(rig.end.name),
        scale=MAX_TWIST, dt=task.control_dt, panel_hash=panel_hash,
    )  # fmt: skip


def follow(
    name: str, clips: Sequence[Clip], world: str, *, gripper: GripperConfig, behavior: BehaviorConfig, seed: int
) -> Float[np.ndarray, " clip"]:
    """Whether a robot that follows each clip succeeds in a judging world, without knowing where the object is.

    The arm follows its tool's path, the gripper its opening and the wanted force by touch, under sensor noise.

    Args:
        name: of the task.
        clips: what is followed; each in its own scene.
        world: of `judging_worlds`.
        gripper: how hands become tools.
        behavior: how tools are followed.
        seed: of the world's parameters and noise.
    """
    groups: dict[str, list[int]] = {}
    for k, clip in enumerate(clips):
        groups.setdefault(repr(sorted(clip.settings.items())), []).append(k)
    won = np.zeros(len(clips), dtype=bool)
    for ids in groups.values():
        mine = [clips[k] for k in ids]
        place = judging_worlds(make_task(name, **mine[0].settings))[world]
        scenes = {key: np.array([c.scene[key] for c in mine]) for key in mine[0].scene}
        panel, backend = place.panel(scenes, seed=seed), place.backend(len(mine))
        rig = backend.actions.rigs[0]
        bank = bank_of(place.task, rig, tool_trajectories(rig, mine, gripper), behavior, panel.hash)
        won[ids] = run_episodes(prior_policy(bank, np.arange(len(mine))), backend, panel).success
        backend.close()
    return won


class Line:
    """The stages of one task in order.

    Args:
        config: all settings.

    Raises:
        UnknownName: a task without human demonstrations.
        BadInput: its robot has no gripper that could follow them.
    """

    def __init__(self, config: LineConfig) -> None:
        strategies_of(config.task)
        self.config = config
        self.task = make_task(config.task, **{**SUITE[config.task].robot, **config.settings})
        rigs = self.task.layout().rigs
        if len(rigs) != 1:
            raise BadInput(f"task {config.task!r} has {len(rigs)} robots; the line trains one")
        self.rig = rigs[0]
        grip_map(self.rig.end.name)
        self.folder = {name: Path(config.out) / name for name in STAGES}

    def run(self, *, say: Callable[[str], None] | None = None) -> dict[str, Any]:
        """Do what is not done yet; returns the ladder.

        Args:
            say: where progress lines go; standard error by default.
        """
        from dexprior.pipeline.ladder import climb

        say = say or (lambda line: print(line, file=sys.stderr, flush=True))
        steps: dict[str, Callable[[], dict[str, Any]]] = {
            "01-demonstrations": self.demonstrations, "02-prior": self.prior, "03-estimator": self.estimator,
            "04-behavior": self.behavior,
            "05-policy": lambda: self.policy("05-policy", self.config.policy),
            "06-policy-no-kl": lambda: self.policy("06-policy-no-kl", replace(self.config.policy, kl_start=0.0)),
            "07-imitation": lambda: self.policy(
                "07-imitation", replace(self.config.policy, iterations=max(self.config.policy.warmup, 1))
            ),
            "08-policy-plain": lambda: self.policy("08-policy-plain", self.config.policy, use_prior=False),
            "09-ladder": lambda: climb(self),
        }  # fmt: skip
        result: dict[str, Any] = {}
        for number, (name, step) in enumerate(steps.items(), start=1):
            finished = (self.folder[name] / "done.json").exists()
            say(f"[{number}/{len(steps)}] {name}" + (": already done" if finished else ""))
            started = time.monotonic()
            result = step()
            if not finished:
                say(f"[{number}/{len(steps)}] {name}: {time.monotonic() - started:.0f} s")
        return result

    def demonstrations(self) -> dict[str, Any]:
        """Human demonstrations, in the other world."""
        c, folder = self.config, self.folder["01-demonstrations"]

        def work() -> dict[str, Any]:
            return dict(generate_demonstrations(c.task, c.demonstrations, folder, seed=c.seed))

        return run_stage(folder, "line-demonstrations", c.demonstrations, c.seed, work)

    def prior(self) -> dict[str, Any]:
        """The video prior."""
        c = self.config
        return stages.stage_prior(c.prior, self.folder["01-demonstrations"], self.folder["02-prior"], seed=c.seed)

    def estimator(self) -> dict[str, Any]:
        """The pose estimator."""
        c = self.config
        return stages.stage_estimator(
            c.estimator, self.folder["01-demonstrations"], self.folder["02-prior"], self.folder["03-estimator"],
            seed=c.seed, holdout=c.prior.holdout,
        )  # fmt: skip

    def behavior(self) -> dict[str, Any]:
        """Sample the prior for training scenes, in every strategy's words by turns, and retarget the samples."""
        c, folder = self.config, self.folder["04-behavior"]

        def work() -> dict[str, Any]:
            panel = Panel.sample("train", self.task, c.bank.scenes, seed=c.seed, purpose="training")
            panel.save(folder / "panel.json")
            scenes = [{k: v[i] for k, v in panel.scenes.items()} for i in range(len(panel))]
            conditions = self.conditions(scenes, seed=c.seed, sentence=c.bank.sentence or self.ways()[0].sentences[0])
            samples = self.sample(conditions, seed=c.seed)
            save(samples[:4], folder / "examples.safetensors", producer="behavior", seed=c.seed)
            clips = [Clip.of_sample(s, k, scene=scene) for s, k, scene in zip(samples, conditions, scenes)]
            trajectories = tool_trajectories(self.rig, clips, c.gripper)
            bank = bank_of(self.task, self.rig, trajectories, c.bank.behavior, panel.hash)
            bank.save(folder / "behavior.safetensors")
            return {"scenes": len(panel), "idle": sum(not one.force.any() for one in trajectories)}

        parents = stages.files_of_prior(self.folder["02-prior"])
        return run_stage(folder, "line-behavior", (c.bank, c.gripper), c.seed, work, parents=parents)

    def policy(self, name: str, settings: PpoConfig, *, use_prior: bool = True) -> dict[str, Any]:
        """A policy, with the behavioral prior or without it."""
        return stages.stage_policy(
            settings, self.folder["04-behavior"], self.folder[name], seed=self.config.seed, use_prior=use_prior,
            task=self.task,
        )  # fmt: skip

    # --- what the stages and the ladder share -----------------------------------------------------------------------

    def held_out(self) -> Stack:
        """Clips that nothing was trained on."""
        c = self.config
        stack = load_stack(self.folder["01-demonstrations"], c.prior.size)
        return split_stack(stack, c.prior.holdout)[1][: c.scored]

    def ways(self) -> list[Strategy]:
        """Strategies that were demonstrated."""
        stack = load_stack(self.folder["01-demonstrations"], self.config.prior.size)
        shown = {row["strategy"] for row in stack.info}
        return [way for way in strategies_of(self.config.task) if way.name in shown]

    def conditions(self, scenes: Sequence[dict[str, Any]], *, seed: int, sentence: str) -> list[PriorCondition]:
        """What to ask the prior for in scenes of the line's task, with the same habits in all of them."""
        size = self.config.prior.size
        return [condition_of(self.task, scene, seed=seed, size=size, sentence=sentence) for scene in scenes]

    def sample(self, conditions: Sequence[PriorCondition], *, seed: int) -> list[VideoSample]:
        """Samples of the trained prior."""
        from tqdm import tqdm

        pipeline, _ = load_prior(self.folder["02-prior"] / "checkpoint")
        pipeline.set_progress_bar_config(disable=True)
        c, samples = self.config.bank, []
        for k in tqdm(range(0, len(conditions), _TOGETHER), desc="sample", unit="batch"):
            few = list(conditions[k : k + _TOGETHER])
            samples += pipeline(few, seed=seed + k, motion_steps=c.motion_steps, video_steps=c.video_steps)
        return samples

    @property
    def parents(self) -> tuple[str, ...]:
        """Checksums of what the ladder judges."""
        trained = [self.folder[name] / "actor.safetensors" for name in POLICIES]
        files = [self.folder["04-behavior"] / "behavior.safetensors", *trained]
        return (
            fingerprint(self.folder["01-demonstrations"]), *stages.files_of_prior(self.folder["02-prior"]),
            *stages.parents_of(*files),
        )  # fmt: skip


_TOGETHER = 16  # conditions sampled at once
