"""Clips that a gripper follows: demonstrations or samples of the prior, retargeted, tried in the judging worlds, or
gathered in the behavioral prior of training scenes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from dexprior.artifacts import save
from dexprior.behavior import BehaviorConfig, BehaviorPrior
from dexprior.config import validate
from dexprior.data.demonstrating import condition_of
from dexprior.data.stacks import Stack, recorded_clip
from dexprior.envs.hardware import gate_config, why_no_gate
from dexprior.envs.panel import Panel
from dexprior.errors import BadInput
from dexprior.geometry.rotations import yaw_of
from dexprior.geometry.transforms import fit_rigid, pose_multiply
from dexprior.pipeline.refining import NUMBERS, Bank, Refined, astray, refine
from dexprior.pipeline.settings import BankConfig
from dexprior.pipeline.worlds import judging_worlds
from dexprior.policy.rollout import prior_policy, run_episodes
from dexprior.pose.estimator import PoseEstimator, load_estimator
from dexprior.pose.fusion import Source, read_sample
from dexprior.prior.evaluation import laws_broken
from dexprior.prior.sampling import HandObjectPipeline, load_prior, sample_many
from dexprior.retarget.gripper import GripperConfig, ToolTrajectory, retarget_to_gripper
from dexprior.retarget.grips import Follower, grip_map
from dexprior.robots.rigs import Rig
from dexprior.types import HandTrajectory, ObjectTrajectory, PriorCondition, VideoSample
from dexprior.types.episode import View
from dexprior.worlds.tasks import SUITE, Task, robot_task, strategies_of
from dexprior.worlds.tasks.actions import MAX_TWIST
from dexprior.worlds.tasks.scene import camera

__all__ = ["Clip", "clips_of_stack", "film", "follow", "gripper_of", "gripper_settings", "make_bank", "sample_prior"]


@dataclass(frozen=True, kw_only=True)
class Clip:
    """A hand and what it handles, in a scene of a task: what a gripper can follow."""

    settings: dict[str, Any]
    """Settings of the task: the object's sizes."""
    scene: dict[str, Any]
    """As `Task.sample` gives it, without the leading axis."""
    hand: HandTrajectory
    thing: ObjectTrajectory
    """The object with its pose, unless it deforms."""
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
        reader: PoseEstimator | None = None,
        source: Source = "motion",
        views: Sequence[View] = (),
    ) -> Clip:
        """A sample of the prior for a condition of a scene; the `reader` is needed where the source is not the sample's
        own motion, and sees the `views` as well."""
        hand, thing = read_sample(sample, condition, reader, source, views)
        return cls(
            settings=settings or {}, scene=scene, hand=hand, thing=thing, surface=condition.cloud[condition.moves]
        )


def clips_of_stack(stack: Stack) -> list[Clip]:
    """Demonstrations as clips; a rigid object's poses are those of the motion that fits its points."""
    clips = []
    for k, condition in enumerate(stack.conditions):
        hand, thing = recorded_clip(stack, k)
        info = stack.info[k]
        if condition.pose is not None:
            moved = fit_rigid(np.broadcast_to(thing.points[0], thing.points.shape), thing.points)
            thing = replace(thing, pose=pose_multiply(moved, np.broadcast_to(condition.pose, moved.shape)))
        clips.append(
            Clip(
                settings=dict(info["object"]), scene=dict(info["scene"]), hand=hand, thing=thing,
                surface=condition.cloud[condition.moves],
            )
        )  # fmt: skip
    return clips


def gripper_of(task: Task) -> Rig:
    """The one robot of a task, whose end effector can follow clips.

    Raises:
        BadInput: there are more, or it cannot.
    """
    rigs = task.layout().rigs
    if len(rigs) != 1:
        raise BadInput(
            f"task {task.name!r} has {len(rigs)} robots in these settings; one follows the one hand of the "
            f"demonstrations, as in the settings of the task's own row, {dict(SUITE[task.name].robot)}"
        )
    grip_map(rigs[0].end.name)
    return rigs[0]


def gripper_settings(task: str, settings: Mapping[str, Any] | None = None) -> GripperConfig:
    """How hands become tools in a task: as its row in the suite says, unless others are given.

    Raises:
        ConfigError: an unknown setting, or one of a wrong type or out of range.
    """
    row = SUITE[task].gripper if task in SUITE else {}
    return validate(GripperConfig, {**row, **(settings or {})}, where="gripper")


def sample_prior(
    prior: HandObjectPipeline,
    conditions: Sequence[PriorCondition],
    settings: BankConfig,
    *,
    seed: int,
    alike: bool = False,
    video_steps: int | None = None,
) -> list[VideoSample]:
    """Samples of a video prior, a few conditions at a time; `alike`: all from the same noise; 0 `video_steps`: frames
    stay black."""
    return sample_many(
        prior, conditions, seed=seed, alike=alike, motion_steps=settings.motion_steps,
        video_steps=settings.video_steps if video_steps is None else video_steps,
    )  # fmt: skip


def film(
    prior: HandObjectPipeline,
    samples: Sequence[VideoSample],
    conditions: Sequence[PriorCondition],
    settings: BankConfig,
    *,
    seed: int,
) -> dict[str, list[View]]:
    """Samples as the further cameras of the settings see them, by camera."""
    size = prior.denoiser.config.size
    return {
        name: prior.film(
            samples, conditions, [camera(name, size)] * len(samples), name, seed=seed, video_steps=settings.video_steps
        )
        for name in settings.views
    }


def first_way(task: str, seconds: float) -> str:
    """A sentence for the first of a task's strategies that ends within some seconds.

    Raises:
        BadInput: none does.
    """
    for way in strategies_of(task):
        if way.seconds <= seconds + 1e-6:
            return way.sentences[0]
    raise BadInput(f"no strategy of the task {task!r} ends within the {seconds:g} s of the prior's clips")


def make_bank(
    task: Task,
    settings: BankConfig,
    gripper: GripperConfig,
    prior: Path,
    folder: Path,
    *,
    seed: int,
    estimator: Path | None = None,
) -> dict[str, Any]:
    """Sample the prior for training scenes, with the same habits and noise in all of them, and retarget the samples.

    Args:
        task: with one robot, which has a gripper.
        settings: scenes and samples.
        gripper: how hands become tools.
        prior: run folder of the video prior.
        folder: gets `panel.json`, `behavior.safetensors` and the first samples.
        seed: of scenes and samples.
        estimator: run folder of the pose estimator, which reads samples whose motion is not their own.

    Returns:
        `scenes`; `idle`: how many trajectories hold nothing; `gated`: whether they are as fast as a gate lets them be;
        `last_press`: when the last of them lets go [s]; `draws`: of each noise what its samples break, on average, and
        how many scenes keep it; with rollouts `refined`: see `_told`. Where several sentences are asked for, all but
        `scenes` is in `ways`, by sentence.

    Raises:
        BadInput: the prior's clips are too short for every way of doing the task, or there is no estimator and the
            source needs one.
    """
    reader = None
    if settings.source != "motion":
        if estimator is None:
            raise BadInput(f"bank.source = {settings.source!r}: a pose estimator reads the pixels, and none was given")
        reader = load_estimator(estimator / "estimator.safetensors")
    pipeline, _ = load_prior(prior / "checkpoint")
    net = pipeline.denoiser.config
    asked = settings.sentence or first_way(task.name, net.frames / net.fps)
    sentences = (asked,) if isinstance(asked, str) else asked
    panel = Panel.sample("train", task, settings.scenes, seed=seed, purpose="training")
    panel.save(folder / "panel.json")
    ways = [_way(task, settings, gripper, pipeline, reader, panel, one, seed=seed) for one in sentences]
    save(ways[0].samples[:4], folder / "examples.safetensors", producer="behavior", seed=seed)
    save(ways[0].conditions[:4], folder / "conditions.safetensors", producer="behavior", seed=seed)
    kept: dict[str, list[BehaviorPrior | None]] = {
        "behavior": [way.bank for way in ways], "unrefined": [way.unrefined for way in ways],
    }  # fmt: skip
    for name, banks in kept.items():
        known = [bank for bank in banks if bank is not None]
        if known:
            bank = known[0] if len(known) == 1 else BehaviorPrior.together(known, sentences)
            bank.save(folder / f"{name}.safetensors")
    if len(ways) == 1:
        return {"scenes": len(panel), **ways[0].answer}
    return {"scenes": len(panel), "ways": {s: way.answer for s, way in zip(sentences, ways)}}


@dataclass(frozen=True, kw_only=True)
class _Way:
    """What a bank holds of one sentence."""

    bank: BehaviorPrior
    unrefined: BehaviorPrior | None
    samples: list[VideoSample]
    conditions: list[PriorCondition]
    answer: dict[str, Any]


def _way(
    task: Task,
    settings: BankConfig,
    gripper: GripperConfig,
    pipeline: HandObjectPipeline,
    reader: PoseEstimator | None,
    panel: Panel,
    sentence: str,
    *,
    seed: int,
) -> _Way:
    """The samples and trajectories of all scenes of a panel, asked for by a sentence; see `make_bank`."""
    rig, size = gripper_of(task), pipeline.denoiser.config.size
    scenes = [{k: v[i] for k, v in panel.scenes.items()} for i in range(len(panel))]
    conditions = [condition_of(task, scene, seed=seed, size=size, sentence=sentence) for scene in scenes]
    draws = [
        sample_prior(pipeline, conditions, settings, seed=seed + _APART * k, alike=True) for k in range(settings.draws)
    ]

    def bank(trajectories: Sequence[ToolTrajectory]) -> BehaviorPrior:
        return bank_of(task, rig, trajectories, settings.behavior, panel.hash)

    def followed(samples: Sequence[VideoSample]) -> tuple[list[ToolTrajectory], bool]:
        """Their trajectories, and whether they are as fast as a gate lets them be."""
        films = {} if reader is None else film(pipeline, samples, conditions, settings, seed=seed)
        seen = list(films.values())
        clips = [
            Clip.of_sample(s, k, scene=scene, reader=reader, source=settings.source, views=views)
            for s, k, scene, views in zip(samples, conditions, scenes, zip(*seen) if seen else [()] * len(samples))
        ]
        made = tool_trajectories(task, clips, gripper, alike=True, gated=settings.gated)
        if not settings.gated or _last_press(made) <= task.horizon - _TO_REST + 1e-6:
            return made, settings.gated
        return tool_trajectories(task, clips, gripper, alike=True), False  # an episode is too short for it

    made = [followed(samples) for samples in draws]
    broken = np.array([checked(task, samples, conditions, one, bank) for samples, (one, _) in zip(draws, made)])
    kept = np.full(len(panel), broken.mean(axis=1).argmin()) if settings.alike else broken.argmin(axis=0)
    samples = [draws[k][i] for i, k in enumerate(kept)]
    trajectories, gated = made[kept[0]] if settings.alike else followed(samples)
    answer: dict[str, Any] = {
        "draws": {
            "broken": broken.mean(axis=1).tolist(), "kept": np.bincount(kept, minlength=settings.draws).tolist()
        }
    }  # fmt: skip
    unrefined = None
    if settings.rollouts:
        unrefined = bank(trajectories)
        found = refine(
            task, panel, trajectories, bank, rollouts=settings.rollouts, alike=settings.alike, seed=seed
        )  # fmt: skip
        trajectories, answer = found.trajectories, answer | {"refined": _told(found)}
    idle = sum(one.held is None for one in trajectories)
    answer = {"idle": idle, "gated": gated, "last_press": _last_press(trajectories), **answer}
    return _Way(bank=bank(trajectories), unrefined=unrefined, samples=samples, conditions=conditions, answer=answer)


def checked(
    task: Task,
    samples: Sequence[VideoSample],
    conditions: Sequence[PriorCondition],
    trajectories: Sequence[ToolTrajectory],
    bank: Bank,
) -> Float[np.ndarray, " clip"]:
    """What speaks against each sample before a robot tries it: the laws of contact that it breaks, one more where its
    trajectory holds nothing, and one more where the path leaves the arm's reach."""
    broken = np.array([laws_broken(sample, condition) for sample, condition in zip(samples, conditions)])
    idle = np.array([one.held is None for one in trajectories])
    return broken + idle + (astray(task, bank(trajectories)) > _ASTRAY)


def _told(found: Refined) -> dict[str, Any]:
    """What is told of refined trajectories: the `share` of them that changed, successes in the training world `before`
    and `after`, and the root mean square of each number."""
    size = np.sqrt((found.numbers**2).mean(axis=0))
    return {
        "share": float(found.numbers.any(axis=1).mean()), "before": int(found.before.sum()),
        "after": int(found.after.sum()), "numbers": dict(zip(NUMBERS, size.round(3).tolist())),
    }  # fmt: skip


_APART = 1_000_003  # between the seeds of two draws
_ASTRAY = 0.01  # [m] from which on a path is out of reach
_TO_REST = 0.4  # [s] from the last press to the end of an episode, in which what was let go comes to rest


def _last_press(trajectories: Sequence[ToolTrajectory]) -> float:
    """When the last of them lets go [s]; 0 where none holds anything."""
    return max((one.held[1] for one in trajectories if one.held), default=0.0)


def tool_trajectories(
    task: Task, clips: Sequence[Clip], gripper: GripperConfig, *, alike: bool = False, gated: bool = False
) -> list[ToolTrajectory]:
    """What the gripper of a task's robot at home makes of clips.

    Args:
        task: of one robot.
        clips: what is followed.
        gripper: how.
        alike: whether all grasp and let go at the same time, and on one side of the half turn that a grasp allows. What
            differs by neither what is seen nor what is wanted no policy can learn: one that saw +90 and -90 degrees
            would try 0. They hold as long as an episode has the time: what is carried slowly slips and swings less.
        gated: whether they move no faster than the task's gate lets its robot, where it has one.
    """
    rig = gripper_of(task)
    robot = replace(Follower.of(rig.arm.name, rig.end.name, rig.home), fastest=_let_through(task) if gated else None)

    def made(**wanted: float) -> list[ToolTrajectory]:
        follower = replace(robot, **wanted)  # type: ignore[arg-type]  # numbers of it
        return [retarget_to_gripper(c.hand, c.thing, follower, gripper, surface=c.surface) for c in clips]

    found = made()
    first = [one.tool[one.t.searchsorted(one.held[0]), 3:] for one in found if one.held]
    if not alike or not first:
        return found
    turns = [float(yaw_of(tool) - yaw_of(robot.start[3:])) for tool in first]
    turn = 0.5 * float(np.angle(np.mean([np.exp(2j * turn) for turn in turns])))
    earliest = max(one.held[0] for one in made(grasp_turn=turn) if one.held)
    found = made(grasp_turn=turn, not_before=earliest)
    longest = max(one.held[1] - one.held[0] for one in found if one.held)
    return [one.holding_for(max(longest, task.horizon - _TO_REST - earliest)) for one in found]


def _let_through(task: Task) -> Callable[[np.ndarray, np.ndarray], float] | None:
    """The largest speed that a task's gate lets through, by position and velocity; None where there is no gate."""
    if why_no_gate(task) is not None:
        return None
    envelope = gate_config(task).envelope(task.control_dt)
    return lambda position, velocity: envelope.fastest(tuple(position.tolist()), tuple(velocity.tolist()), 0.0)


def bank_of(
    task: Task, rig: Rig, trajectories: Sequence[ToolTrajectory], settings: BehaviorConfig, panel_hash: str
) -> BehaviorPrior:
    """A behavioral prior with one trajectory a scene."""
    return BehaviorPrior.of_tools(
        [[one] for one in trajectories], replace(settings, steps=task.steps), grip=grip_map(rig.end.name),
        scale=MAX_TWIST, dt=task.control_dt, panel_hash=panel_hash,
    )  # fmt: skip


def follow(
    name: str,
    clips: Sequence[Clip],
    worlds: Iterable[str],
    *,
    gripper: GripperConfig,
    behavior: BehaviorConfig,
    seed: int,
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Bool[np.ndarray, " clip"]]:
    """Whether a robot that follows each clip succeeds, by judging world, without knowing where the object is.

    The arm follows its tool's path, the gripper its opening and the wanted force by touch, under sensor noise.

    Args:
        name: of the task.
        clips: what is followed; each in its own scene.
        worlds: of `judging_worlds`.
        gripper: how hands become tools.
        behavior: how tools are followed.
        seed: of the worlds' parameters and noise.
        settings: of the task, e.g. its robot; those of the clips' objects go before them.
    """
    groups: dict[str, list[int]] = {}
    for k, clip in enumerate(clips):
        groups.setdefault(repr(sorted(clip.settings.items())), []).append(k)
    won = {world: np.zeros(len(clips), dtype=bool) for world in worlds}
    for ids in groups.values():
        mine = [clips[k] for k in ids]
        task = robot_task(name, **{**(settings or {}), **mine[0].settings})
        rig, places = task.layout().rigs[0], judging_worlds(task)
        scenes = {key: np.array([c.scene[key] for c in mine]) for key in mine[0].scene}
        panels = {world: places[world].panel(scenes, seed=seed) for world in won}
        bank = bank_of(task, rig, tool_trajectories(task, mine, gripper), behavior, next(iter(panels.values())).hash)
        for world, panel in panels.items():
            backend = places[world].backend(len(mine))
            won[world][ids] = run_episodes(prior_policy(bank, np.arange(len(mine))), backend, panel).success
            backend.close()
    return won
