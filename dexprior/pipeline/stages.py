"""The stages in a row, on typed values: what `demo` and the end-to-end tests call.

Each stage takes configurations and what came before, writes its results into a folder, and returns plain numbers. A
finished stage is skipped on a rerun, an interrupted one goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
from accelerate import PartialState
from jaxtyping import Float

from dexprior.artifacts import RunFolder, file_hash, load_all, load_module, save
from dexprior.behavior import BehaviorConfig, BehaviorPrior, Recordings, read_recordings
from dexprior.collision.stage import CollisionConfig
from dexprior.collision.stage import run as run_collision
from dexprior.config import Ge, config
from dexprior.data.demonstrations import DemonstrationConfig, generate, scene_condition
from dexprior.data.impacts import find_ellipse_impacts
from dexprior.data.plain_clips import PlainClips
from dexprior.data.stacks import Stack, fingerprint, load_stack, split_stack
from dexprior.envs.base import EngineName
from dexprior.envs.factory import BackendConfig, make_backend
from dexprior.envs.messages import task_from_plain, task_to_plain
from dexprior.envs.panel import Panel
from dexprior.envs.sim import SimBackend
from dexprior.errors import BadInput
from dexprior.policy.actor import SCHEMA as ACTOR
from dexprior.policy.actor import load_actor, save_actor
from dexprior.policy.ppo import PpoConfig, train_ppo
from dexprior.policy.rollout import Episodes, actor_policy, prior_policy, run_episodes
from dexprior.pose.estimator import (
    EstimatorConfig,
    PoseEstimator,
    estimate,
    joint_error,
    load_estimator,
    save_estimator,
    train_estimator,
)
from dexprior.pose.fusion import fuse_hands
from dexprior.prior.evaluation import evaluate_prior, rank_samples
from dexprior.prior.sampling import HandObjectPipeline, load_prior, save_prior
from dexprior.prior.training import PriorConfig, train_prior
from dexprior.retarget.arm_ik import solve_arm
from dexprior.retarget.evaluation import replay_onsets
from dexprior.retarget.network import (
    RetargetConfig,
    Retargeter,
    load_retargeter,
    save_retargeter,
    tool_trajectory,
    train_retargeter,
)
from dexprior.stats import Family, Rate, bootstrap_mean, compare_pairs
from dexprior.types import HandTrajectory, JointTrajectory, ObjectTrajectory, PriorCondition, VideoSample
from dexprior.worlds.arm import MAX_OPENING
from dexprior.worlds.insertion import ABOUT_OTHER, InsertionConfig
from dexprior.worlds.tasks import Task, make_task
from dexprior.worlds.tasks.actions import MAX_TWIST

__all__ = [
    "TASK",
    "BankConfig",
    "EvaluationConfig",
    "Retargeted",
    "build_bank",
    "files_of_prior",
    "parents_of",
    "recorded_clip",
    "retarget_sample",
    "run_stage",
    "run_world",
    "stage_behavior",
    "stage_collision",
    "stage_demonstrations",
    "stage_estimator",
    "stage_evaluation",
    "stage_policy",
    "stage_prior",
    "stage_retargeter",
    "trained_task",
]

Stage = Callable[..., dict[str, Any]]
TASK = make_task("insertion")
"""What the line is run for."""


@config
class BankConfig:
    """Which scenes the behavioral prior covers, and how its samples are made."""

    scenes: Annotated[int, Ge(1)] = 64
    """Training scenes."""
    samples: Annotated[int, Ge(1)] = 1
    """Trajectories kept for each scene."""
    candidates: Annotated[int, Ge(1)] = 1
    """Clips drawn for each scene; those that break the fewest laws of contact are kept."""
    motion_steps: Annotated[int, Ge(1)] = 12
    """Euler steps of the motion stream."""
    video_steps: Annotated[int, Ge(1)] = 3
    """Euler steps of the video stream."""
    behavior: BehaviorConfig = BehaviorConfig()
    """How trajectories become a distribution."""


@config
class EvaluationConfig:
    """The held-out panel."""

    instances: Annotated[int, Ge(2)] = 64
    """Scenes; the same ones in every world and for every policy."""
    seed: Annotated[int, Ge(0)] = 1000
    """Of the panel; training panels are drawn for another purpose, so that no seed gives the same scenes."""
    cases: str | None = None
    """A panel to use instead, e.g. the `cases.json` of a ledger: what only the simulator solved."""
    compared: Annotated[int, Ge(1)] = 4
    """Scenes whose traces the ledger compares."""
    backend_scenes: Annotated[int, Ge(1)] = 4
    """Scenes that are run through every backend."""
    backend: BackendConfig = BackendConfig()
    """Where policies are evaluated. Simulators show the training world and the other one, all scenes at once; a reality
    server or a robot is the other world, one scene after another."""
    repeats: Annotated[int, Ge(20)] = 192
    """Simulated traces of each of them, over the assumed family; what four channels need at a level of 5 % is 123."""


def stage_demonstrations(config: DemonstrationConfig, folder: Path, *, seed: int) -> dict[str, Any]:
    """Human demonstrations in the other world."""
    return run_stage(folder, "demonstrations", config, seed, lambda: generate(config, folder, seed=seed))


def stage_prior(
    config: PriorConfig, demonstrations: Path, folder: Path, *, seed: int, videos: Path | None = None
) -> dict[str, Any]:
    """Train the video prior, on a folder of plain clips as well where one is given; evaluate it on held-out clips."""

    def work() -> dict[str, Any]:
        train, held_out = split_stack(load_stack(demonstrations, config.size), config.holdout)
        plain = None
        if videos is not None:
            plain = PlainClips(videos, size=config.size, fps=train.fps, window=config.video_window)
        denoiser = train_prior(train, config, folder, seed=seed, plain=plain)
        if not PartialState().is_main_process:
            sys.exit(0)  # one rank evaluates and records
        save_prior(
            denoiser,
            folder / "checkpoint",
            seed=seed,
            extra={"tasks": sorted({str(row["task"]) for row in train.info if row.get("task")})},
        )
        pipeline, _ = load_prior(folder / "checkpoint")
        few = held_out[:24]
        samples = pipeline(few.conditions, seed=seed, provenance={"checkpoint": str(folder.name)})
        save(samples, folder / "samples.safetensors", producer="prior", seed=seed, config=config)
        return evaluate_prior(samples, few, train)

    parents = parents_of(*([] if videos is None else [videos / "metadata.json"]))
    return run_stage(folder, "prior", config, seed, work, parents=(fingerprint(demonstrations), *parents))


def stage_estimator(
    config: EstimatorConfig, demonstrations: Path, prior: Path, folder: Path, *, seed: int, holdout: float
) -> dict[str, Any]:
    """Train the pose estimator; its error on held-out clips, and its disagreement with the prior's motion stream."""

    def work() -> dict[str, Any]:
        train, held_out = split_stack(load_stack(demonstrations, config.size), holdout)
        model = train_estimator(train, config, folder, seed=seed)
        save_estimator(model, folder / "estimator.safetensors", seed=seed)
        errors, wrist = [], []
        for k in range(len(held_out)):
            n = held_out.length[k]
            hand = estimate(model, held_out.seen(k), held_out.conditions[k].camera, held_out.fps)
            errors.append(np.linalg.norm(hand.joints - held_out.joints[k, :n], axis=-1).mean(axis=-1))
            wrist.append(np.linalg.norm(hand.wrist_pose[:, :3] - held_out.wrist_pose[k, :n, :3], axis=-1))
        samples = load_all(prior / "samples.safetensors", VideoSample)
        apart = [joint_error(_estimated(model, s), s.hand).mean() for s in samples]
        return {
            "clips": len(held_out),
            "joint_error_mm": _mean_mm(np.array([e.mean() for e in errors])),
            "joint_error_median_mm": float(1000 * np.median(np.concatenate(errors))),
            "wrist_error_mm": _mean_mm(np.array([w.mean() for w in wrist])),
            "disagreement_with_prior_mm": _mean_mm(np.array(apart)),
        }

    return run_stage(folder, "estimator", config, seed, work, parents=parents_of(prior / "samples.safetensors"))


def stage_retargeter(
    config: RetargetConfig, demonstrations: Path, folder: Path, *, seed: int, holdout: float, size: int
) -> dict[str, Any]:
    """Train the retargeting network; replay held-out clips on the simulated arm and compare contact onsets."""

    def work() -> dict[str, Any]:
        train, held_out = split_stack(load_stack(demonstrations, size), holdout)
        model = train_retargeter(train, config, folder, seed=seed)
        save_retargeter(model, folder / "retargeter.safetensors", seed=seed)
        few = held_out[:32]
        moved = [_retarget(model, *recorded_clip(few, k)) for k in range(len(few))]
        save(
            [m.trajectory for m in moved[:4]],
            folder / "trajectories.safetensors",
            producer="retarget",
            seed=seed,
        )
        moves, openings = [m.trajectory for m in moved], [m.opening for m in moved]
        return replay_onsets(moves, openings, few, InsertionConfig(), grip_gain=config.grip_gain) | {
            "feasible": float(np.mean([m.trajectory.feasible.mean() for m in moved]))
        }

    return run_stage(folder, "retargeter", config, seed, work, parents=(fingerprint(demonstrations),))


def stage_behavior(
    config: BankConfig, prior: Path, estimator: Path, retargeter: Path, folder: Path, *, seed: int
) -> dict[str, Any]:
    """Sample the video prior for training scenes, read the hand back from the videos, retarget, and make a bank."""

    def work() -> dict[str, Any]:
        panel = Panel.sample("train", TASK, config.scenes, seed=seed, purpose="training")
        panel.save(folder / "panel.json")
        pipeline, _ = load_prior(prior / "checkpoint")
        bank, result = build_bank(
            panel,
            pipeline,
            load_estimator(estimator / "estimator.safetensors"),
            load_retargeter(retargeter / "retargeter.safetensors"),
            config,
            seed=seed,
            examples=folder / "examples.safetensors",
        )
        bank.save(folder / "behavior.safetensors")
        backend = SimBackend(TASK, config.scenes)
        alone = run_episodes(prior_policy(bank, np.arange(config.scenes)), backend, panel)
        return {**result, "prior_alone_success": Rate(int(alone.success.sum()), len(alone.success)).as_dict()}

    parents = files_of_prior(prior) + parents_of(
        estimator / "estimator.safetensors", retargeter / "retargeter.safetensors"
    )
    return run_stage(folder, "behavior", config, seed, work, parents=parents)


def stage_collision(config: CollisionConfig, folder: Path, *, seed: int) -> dict[str, Any]:
    """Distil, identify and fine-tune the collision model; on measured impacts where they are found."""
    return run_collision(config, folder, seed=seed, data=find_ellipse_impacts())


def stage_policy(
    config: PpoConfig,
    behavior: Path | None,
    folder: Path,
    *,
    seed: int,
    use_prior: bool,
    init: Path | None = None,
    data: Path | None = None,
    task: Task = TASK,
) -> dict[str, Any]:
    """PPO with the behavioral prior, or the same PPO without it; from a fresh actor, or from that of the run `init`.

    Without a folder of a behavioral prior (`behavior=None`) there is none, and instances are drawn: as many as worlds.

    With recorded episodes (`data`, a manifest of `ledger plan`) these are the behavioral prior, and `behavior` is not
    read. If `init` is None, it is then the manifest's.

    Raises:
        BadInput: recordings, but no prior is to be used.
    """
    if behavior is None and data is None and use_prior:
        raise BadInput(f"task {task.name!r} without a behavioral prior: give behavior=FOLDER, or use_prior=false")
    if data is not None and not use_prior:
        raise BadInput(f"data={data}: recordings act through the behavioral prior, which use_prior=false leaves out")
    recordings = None if data is None else read_recordings(data)
    if init is None and recordings is not None and recordings.init is not None:
        init = Path(recordings.init)

    def work() -> dict[str, Any]:
        prior = None
        if recordings is not None:
            panel, prior = recorded_scenes(recordings, seed=seed)
        elif behavior is not None:
            panel = Panel.load(behavior / "panel.json")
            prior = BehaviorPrior.load(behavior / "behavior.safetensors") if use_prior else None
        else:
            panel = Panel.sample("train", task, config.worlds, seed=seed, purpose="training")
        start = None if init is None else load_actor(init / "actor.safetensors")
        actor, curve = train_ppo(task, panel, prior, config, folder, seed=seed, init=start)
        save_actor(
            actor, folder / "actor.safetensors", seed=seed, extra={"prior": use_prior, "task": task_to_plain(task)}
        )
        last = curve[-1]
        return {
            "curve": curve,
            "success_in_training": last["success"],
            "reward": last["reward"],
            "steps": last["step"],
        } | ({} if recordings is None else {"recorded": len(recordings.t), "left_out": recordings.left_out})

    started = [] if init is None else [init / "actor.safetensors"]
    known = [behavior / "behavior.safetensors"] if recordings is None and behavior is not None else []
    parents = parents_of(*known, *started) + (() if recordings is None else (recordings.checksum,))
    kind = "recorded" if recordings is not None else "prior" if use_prior else "plain"
    return run_stage(folder, f"policy-{kind}", config, seed, work, parents=parents)


def recorded_scenes(recordings: Recordings, *, seed: int) -> tuple[Panel, BehaviorPrior]:
    """Training panel and behavioral prior of the recorded instances, in worlds of the training family.

    Args:
        recordings: whose folder holds `panel.json`, the panel that they show.
        seed: of the scenes' parameters.

    Raises:
        ArtifactError: no such panel.
        BadInput: another one, or an instance beyond its end.
    """
    shown = Panel.load(recordings.folder / "panel.json")
    if shown.hash != recordings.panel_hash:
        raise BadInput(
            f"{recordings.folder / 'panel.json'} is panel {shown.hash}, the episodes beside it show "
            f"{recordings.panel_hash}"
        )
    ids = np.unique(recordings.instances)
    panel = shown.take(ids).moved_to("recorded", TASK.family, seed=seed)
    prior = recordings.prior(BehaviorConfig(), scale=MAX_TWIST, dt=TASK.control_dt, panel_hash=panel.hash)
    return panel, prior


def stage_evaluation(
    config: EvaluationConfig, policies: dict[str, Path], folder: Path, *, seed: int, task: Task | None = None
) -> dict[str, Any]:
    """Every policy in the training world and in the other world, on the same held-out scenes.

    Raises:
        BadInput: policies of different tasks.
    """
    task = task or trained_task(policies)

    def work() -> dict[str, Any]:
        outcome: dict[str, dict[str, Any]] = {}
        wins: dict[tuple[str, str], np.ndarray] = {}
        worlds = worlds_of(config.backend)
        for name, path in policies.items():
            actor = load_actor(path / "actor.safetensors")
            outcome[name] = {}
            for world in worlds:
                episodes, panel = run_world(actor_policy(actor), world, config, task=task)
                wins[name, world] = episodes.success
                outcome[name][world] = describe_episodes(episodes) | {"panel": panel.hash}
        names = list(policies)
        compared = {}
        if len(names) == 2:
            a, b = names
            compared = {
                world: compare_pairs(wins[a, world], wins[b, world], names=(a, b), panel=outcome[a][world]["panel"])
                for world in worlds
            }
        about = ABOUT_OTHER if task.name == TASK.name else ""
        return {"policies": outcome, "compared": Family(compared).as_dict(), "names": names, "other": about}

    parents = parents_of(*(path / "actor.safetensors" for path in policies.values()))
    return run_stage(folder, "evaluation", config, seed, work, parents=parents)


def trained_task(policies: dict[str, Path]) -> Task:
    """The task that policies were trained for.

    Raises:
        BadInput: they were trained for different ones.
        ArtifactError: no actor, or one of another version.
    """
    found = {}
    for name, path in policies.items():
        plain = load_module(path / "actor.safetensors", schema=ACTOR, command="dexprior train-policy")[2]
        found[name] = task_from_plain(plain.get("task"), f"{path}: task")
    if len(set(found.values())) > 1:
        shown = ", ".join(f"{name}: {task!r}" for name, task in found.items())
        raise BadInput(f"policies of different tasks cannot be compared: {shown}")
    return next(iter(found.values()))


def worlds_of(backend: BackendConfig) -> tuple[str, ...]:
    """Which worlds a backend shows."""
    return ("sim", "other") if backend.kind in get_args(EngineName) else ("other",)


def run_world(policy: Callable, world: str, config: EvaluationConfig, *, task: Task = TASK) -> tuple[Episodes, Panel]:
    """Episodes of the held-out panel in the training world (`sim`) or the other one (`other`), in a backend.

    Raises:
        BadInput: a world that the backend does not show.
        SafetyStop: a gate stopped the robot.
    """
    known = worlds_of(config.backend)
    if world not in known:
        raise BadInput(f"world {world!r}; choices: {', '.join(known)}")
    task, family = (task, task.family) if world == "sim" else (task.other(), task.reality)
    if config.cases is None:
        panel = Panel.sample(world, task, config.instances, seed=config.seed, family=family)
    else:
        panel = Panel.load(config.cases).moved_to(world, family, seed=config.seed)
    backend = make_backend(config.backend, task=task, family=family, n=len(panel))
    try:
        return run_episodes(policy, backend, panel), panel
    finally:
        backend.close()


def describe_episodes(episodes: Episodes) -> dict[str, Any]:
    """Success and slip with intervals, episodes that were lost, and the share of action numbers that were clipped."""
    mean, low, high = bootstrap_mean(episodes.slip_rate)
    return {
        "success": Rate(int(episodes.success.sum()), len(episodes.success)).as_dict(),
        "slip_rate": {"mean": mean, "low": low, "high": high},
        "held": Rate(int(episodes.held.sum()), len(episodes.held)).as_dict(),
        "lost": int(episodes.lost.sum()),
        "saturated": episodes.saturated / episodes.action.size,
    }


# --- from a scene to robot trajectories --------------------------------------------------------------------------


@dataclass(frozen=True)
class Retargeted:
    """What one clip became."""

    sample: VideoSample
    estimated: HandTrajectory
    hand: HandTrajectory
    """Estimate and motion stream, fused."""
    trajectory: JointTrajectory
    opening: Float[np.ndarray, " time"]


def retarget_sample(sample: VideoSample, estimated: HandTrajectory, retargeter: Retargeter) -> Retargeted:
    """Fuse the hand that was read from a sampled clip with the clip's own motion stream, and retarget it."""
    moved = _retarget(retargeter, fuse_hands(estimated, sample.hand), sample.object)
    return replace(moved, sample=sample, estimated=estimated)


def build_bank(
    panel: Panel,
    pipeline: HandObjectPipeline,
    estimator: PoseEstimator,
    retargeter: Retargeter,
    config: BankConfig,
    *,
    seed: int,
    examples: Path | None = None,
) -> tuple[BehaviorPrior, dict[str, Any]]:
    """The behavioral prior of a panel's scenes.

    Args:
        examples: where to keep the first clips for a report.
    """
    from tqdm import tqdm

    net = pipeline.denoiser.config
    conditions: list[PriorCondition] = []
    for nut, bolt, yaw in zip(*(panel.scenes[name] for name in ("nut", "bolt", "yaw"))):
        scene = {"nut": nut, "bolt": bolt, "nut_yaw": float(yaw)}
        # one way to reach and to hold in every scene: what differs is the scene, and the prior's own noise
        condition = scene_condition(InsertionConfig(), scene, seed=seed, size=net.size, frames=net.frames, fps=net.fps)
        conditions += [condition] * config.candidates
    pipeline.set_progress_bar_config(disable=True)
    kept: list[list[Retargeted]] = []
    for k in tqdm(range(len(panel)), desc="sample and retarget", unit="scene"):
        mine = conditions[k * config.candidates : (k + 1) * config.candidates]
        samples = pipeline(
            mine, seed=seed + k, motion_steps=config.motion_steps, video_steps=config.video_steps,
            provenance={"scene": k},
        )  # fmt: skip
        best = rank_samples(samples, mine)[: config.samples]
        if len(best) < config.samples:
            raise BadInput(f"{config.candidates} candidates cannot give {config.samples} samples a scene")
        kept.append([retarget_sample(samples[i], _estimated(estimator, samples[i]), retargeter) for i in best])
    bank, counts = BehaviorPrior.build(
        [[m.trajectory for m in row] for row in kept],
        [[2.0 * m.opening[:, None] / MAX_OPENING - 1.0 for m in row] for row in kept],
        config.behavior,
        scale=MAX_TWIST,
        dt=TASK.control_dt,
        panel_hash=panel.hash,
    )
    if examples is not None:
        first = [row[0] for row in kept[:4]]
        save([m.sample for m in first], examples, producer="behavior", seed=seed)
        save(
            [m.estimated for m in first],
            examples.with_name("estimated.safetensors"),
            producer="behavior",
            seed=seed,
        )
        save(
            [m.trajectory for m in first],
            examples.with_name("robot.safetensors"),
            producer="behavior",
            seed=seed,
        )
    disagreement = [joint_error(m.estimated, m.sample.hand).mean() for row in kept for m in row]
    return bank, {**counts, "disagreement_mm": _mean_mm(np.array(disagreement))}


def _estimated(model: PoseEstimator, sample: VideoSample) -> HandTrajectory:
    return estimate(model, sample.frames, sample.camera, sample.fps)


def _retarget(model: Retargeter, hand: HandTrajectory, held: ObjectTrajectory) -> Retargeted:
    tool, opening = tool_trajectory(model, hand, held)
    trajectory = solve_arm(hand.t, tool, opening)
    return Retargeted(None, hand, hand, trajectory, opening)  # type: ignore[arg-type]


def recorded_clip(stack: Stack, k: int) -> tuple[HandTrajectory, ObjectTrajectory]:
    """Hand and object of a recorded clip."""
    n = stack.length[k]
    t = np.arange(n) / stack.fps
    hand = HandTrajectory(
        t=t, side="right", wrist_pose=stack.wrist_pose[k, :n], finger_pose=stack.finger_pose[k, :n],
        betas=np.zeros(10), joints=stack.joints[k, :n], contact=stack.contact[k, :n], force=stack.force[k, :n],
        valid=stack.hand_known[k, :n], sigma=np.zeros((n, 21)), scale_known=True,
    )  # fmt: skip
    return hand, ObjectTrajectory(object="object", t=t, points=stack.points[k, :n], valid=stack.object_known[k, :n])


def _mean_mm(values: np.ndarray) -> dict[str, float]:
    mean, low, high = bootstrap_mean(1000 * values)
    return {"mean": mean, "low": low, "high": high}


def files_of_prior(prior: Path) -> tuple[str, ...]:
    """Checksums of the checkpoint in a prior's run folder."""
    weights = sorted((prior / "checkpoint" / "denoiser").glob("*.safetensors"))
    return parents_of(*weights, prior / "checkpoint" / "dexprior.json")


def parents_of(*paths: Path) -> tuple[str, ...]:
    """Checksums of files that a stage starts from."""
    return tuple(file_hash(p) for p in paths)


def run_stage(
    folder: Path,
    stage: str,
    config: Any,
    seed: int,
    work: Callable[[], dict[str, Any]],
    parents: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Do the work unless the folder says that it is done under the same configuration."""
    run = RunFolder(folder, stage, config, seed, parents).open()
    done = run.result
    return done if done is not None else run.finish(work())
