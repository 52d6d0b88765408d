"""Stages that verbs and the line share, on typed values.

Each stage takes configurations and what came before, writes its results into a folder, and returns plain numbers. A
finished stage is skipped on a rerun, an interrupted one goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
import torch
from accelerate import PartialState

from dexprior.artifacts import RunFolder, file_hash, load_module, save, write_atomic
from dexprior.behavior import BehaviorConfig, BehaviorPrior, Recordings, read_recordings
from dexprior.collision.stage import CollisionConfig
from dexprior.collision.stage import run as run_collision
from dexprior.config import Ge, changed, config, config_hash, to_plain, validate
from dexprior.data.impacts import find_ellipse_impacts
from dexprior.data.plain_clips import PlainClips
from dexprior.data.stacks import Stack, fingerprint, load_stack, recorded_clip, split_stack, stack_episodes
from dexprior.envs.base import EngineName
from dexprior.envs.factory import BackendConfig, make_backend
from dexprior.envs.messages import task_from_plain, task_to_plain
from dexprior.envs.panel import Panel
from dexprior.errors import BadInput
from dexprior.families import ParameterFamily, SensorModels
from dexprior.pipeline.worlds import ABOUT_OTHER
from dexprior.policy.actor import SCHEMA as ACTOR
from dexprior.policy.actor import load_actor, save_actor
from dexprior.policy.density import ActionDensity, load_density
from dexprior.policy.ppo import PpoConfig, train_ppo
from dexprior.policy.rollout import Episodes, actor_policy, run_episodes
from dexprior.pose.estimator import EstimatorConfig, save_estimator
from dexprior.pose.evaluation import claim_of, motion_sigma, read_stack, reading_errors
from dexprior.pose.training import train_estimator
from dexprior.prior.card import model_card, sources_of
from dexprior.prior.conditioning import condition_tensors
from dexprior.prior.evaluation import evaluate_prior
from dexprior.prior.familiarity import Familiarity
from dexprior.prior.proposal import fit_proposal
from dexprior.prior.sampling import HandObjectPipeline, load_prior, sample_many, save_prior
from dexprior.prior.text import text_encoder
from dexprior.prior.training import PriorConfig, train_prior
from dexprior.stats import Family, Rate, bootstrap_mean, compare_pairs
from dexprior.types import Episode, WrenchTrack
from dexprior.worlds.tasks import Task, inject, learned_family
from dexprior.worlds.tasks.actions import MAX_TWIST

__all__ = [
    "DENSITY",
    "EvaluationConfig",
    "files_of_prior",
    "parents_of",
    "run_stage",
    "run_world",
    "seen_through",
    "stage_collision",
    "stage_estimator",
    "stage_evaluation",
    "stage_policy",
    "stage_prior",
    "trained_sensors",
    "trained_task",
]

Stage = Callable[..., dict[str, Any]]
DENSITY = "density.safetensors"
"""File of a density in the folder of the bank that it was fitted to."""


@config
class EvaluationConfig:
    """The held-out panel."""

    instances: Annotated[int, Ge(2)] = 64
    """Scenes; the same ones in every world and for every policy."""
    seed: Annotated[int, Ge(0)] = 1000
    """Seed of the panel; training panels are drawn for another purpose, so that no seed gives the same scenes."""
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


def stage_prior(
    config: PriorConfig,
    demonstrations: Path,
    folder: Path,
    *,
    seed: int,
    videos: Path | None = None,
    more: tuple[int, ...] = (),
) -> dict[str, Any]:
    """Train the video prior, on a folder of plain clips as well where one is given; evaluate it on held-out clips.

    `more` goes on from the finished run in the folder, for so many steps each time, as `train_prior` does.
    """

    def work() -> dict[str, Any]:
        train, held_out = split_stack(_learned(config, demonstrations), config.holdout)
        plain = None
        if videos is not None:
            plain = PlainClips(videos, size=config.size, fps=train.fps, window=config.video_window)
        denoiser = train_prior(train, config, folder, seed=seed, plain=plain, more=more, held_out=held_out)
        if not PartialState().is_main_process:
            sys.exit(0)  # one rank evaluates and records
        save_prior(
            denoiser,
            folder / "checkpoint",
            seed=seed,
            extra={
                "tasks": sorted({str(row["task"]) for row in train.info if row.get("task")}),
                "holdout": config.holdout,
                "sources": sources_of(train.info) + _videos(plain),
                "settings": [f"prior.{word}" for word in changed(config)],
                "steps": config.steps + sum(more),
                "averaged": config.ema > 0,
            },
            familiarity=Familiarity.fit(
                denoiser.motion.condition, condition_tensors(train.conditions, sides=denoiser.sides)
            ),
            proposal=None
            if len(train) < 2
            else fit_proposal(  # of one clip there is nothing to choose from
                train.conditions, fps=train.fps, sides=denoiser.sides, seed=seed, text=text_encoder(config.text)
            ),
        )
        pipeline, _ = load_prior(folder / "checkpoint")
        few = held_out[:24]
        samples = pipeline(few.conditions, seed=seed, provenance={"checkpoint": str(folder.name)})
        save(samples, folder / "samples.safetensors", producer="prior", seed=seed, config=config)
        save(few.conditions, folder / "conditions.safetensors", producer="prior", seed=seed)
        found = evaluate_prior(samples, few, train)
        write_atomic(folder / "checkpoint" / "README.md", model_card(pipeline.info, found).encode())
        return found

    parents = parents_of(*([] if videos is None else [videos / "metadata.json"]))
    inputs = (fingerprint(demonstrations), *parents)
    return run_stage(folder, "prior", config, seed, work, parents=inputs, more=more)


def _videos(plain: PlainClips | None) -> list[dict[str, Any]]:
    """What a card says of plain clips."""
    if plain is None:
        return []
    said = "each video's own, which its metadata.json names"
    return [{"source": f"plain videos, {plain.folder.name}", "licence": said, "clips": len(plain)}]


def stage_estimator(
    config: EstimatorConfig, demonstrations: Path, prior: Path, folder: Path, *, seed: int, holdout: float
) -> dict[str, Any]:
    """Train the pose estimator on demonstrations and on the prior's own samples of their conditions.

    Returns:
        As `reading_errors`, with the number of `clips`, on held-out demonstrations; `samples`: the same on samples of
        their conditions, against the samples' own motion, through all cameras, and `one_camera` through the first;
        claims are scaled on every other sample and judged on the rest;
        `motion_sigma_mm`: what that says of the motion stream.
    """

    def work() -> dict[str, Any]:
        train, held_out = split_stack(load_stack(demonstrations, config.size).of_sides((config.side,)), holdout)
        pipeline, _ = load_prior(prior / "checkpoint")
        few = np.random.default_rng([seed, 7]).permutation(len(train))[: config.samples]
        own = sampled_stack(pipeline, train[np.sort(few)], seed=seed) if len(few) else None
        model = train_estimator(train, config, folder, seed=seed, samples=own)
        unseen = sampled_stack(pipeline, held_out[:24], seed=seed + 1)
        clips = {"held": held_out, "samples": unseen, "one_camera": replace(unseen, views={})}
        true = {name: [recorded_clip(one, k) for k in range(len(one))] for name, one in clips.items()}
        read = {name: read_stack(model, one) for name, one in clips.items()}
        judged, scaled = slice(0, None, 2), slice(int(len(unseen) > 1), None, 2)  # none of a claim on what scaled it
        model.claim.copy_(torch.from_numpy(claim_of(read["samples"][scaled], true["samples"][scaled])))
        model.motion_sigma.copy_(
            torch.tensor(motion_sigma(read["samples"], true["samples"], read["held"], true["held"]))
        )
        save_estimator(model, folder / "estimator.safetensors", seed=seed)
        claimed = {
            name: [(replace(hand, sigma=model.claim.numpy() * hand.sigma), thing) for hand, thing in pairs]
            for name, pairs in read.items()
        }
        found = {name: reading_errors(claimed[name], true[name]) for name in clips}
        for name, errors in found.items():
            errors["within_sigma"] = reading_errors(claimed[name][judged], true[name][judged])["within_sigma"]
        told = {"clips": len(held_out), "motion_sigma_mm": 1000 * float(model.motion_sigma)}
        return {**told, **found.pop("held"), **found}

    parents = (fingerprint(demonstrations), *files_of_prior(prior))
    return run_stage(folder, "estimator", config, seed, work, parents=parents)


def sampled_stack(prior: HandObjectPipeline, clips: Stack, *, seed: int) -> Stack:
    """Samples of a prior for the conditions of recorded clips, with their own motion, seen by the clips' cameras."""
    samples = sample_many(prior, clips.conditions, seed=seed)
    views = {
        name: prior.film(samples, clips.conditions, seen.cameras, name, seed=seed) for name, seen in clips.views.items()
    }
    episodes = [
        Episode(
            sample=sample, condition=condition, views=tuple(view[k] for view in views.values()),
            wrench=WrenchTrack(
                t=sample.hands[0].t, wrench=np.zeros((len(sample.frames), 6)), tared=True, gravity_compensated=True
            ),
        )
        for k, (sample, condition) in enumerate(zip(samples, clips.conditions))
    ]  # fmt: skip
    return stack_episodes(episodes, clips.frames.shape[2], ids=clips.ids)


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
    warm: Path | None = None,
    data: Path | None = None,
    task: Task | None = None,
    scenes: int | None = None,
    family: Sequence[str | Path] = (),
    injectors: Mapping[str, float] | None = None,
    density: bool = False,
    sentence: str | None = None,
    more: tuple[int, ...] = (),
) -> dict[str, Any]:
    """PPO with the behavioral prior, or the same PPO without it; from a fresh actor, or from that of the run `init`.

    Without a folder of a behavioral prior (`behavior=None`) there is none, and instances are drawn: `scenes` of them,
    by default as many as worlds. With `density` the prior is what was fitted beside the bank in `behavior`, which
    holds in any scene: instances are drawn as well. A `sentence` is asked of a prior that knows several.

    With recorded episodes (`data`, a manifest of `ledger plan`) these are the behavioral prior, and `behavior` is not
    read. If `init` is None, it is then the manifest's. The task is that of `init` where none is given, and sensors are
    those that `init` was trained with, but for models that the configuration switches on. `warm` is the folder of a
    run that did this one's warm-up. Worlds have the parameters of `family` (files of `learned_family`) in
    place of the task's, and `injectors` by their strengths; the actor's file names the task without them. `more` goes
    on from the finished run in the folder, for so many iterations each time, as `train_ppo` does.

    Raises:
        BadInput: recordings or a prior, but none is to be used; a prior is to be, but none is given; no task; or a
            family or injectors that the task has no use for.
        ArtifactError: no density was fitted there.
    """
    if data is not None and not use_prior:
        raise BadInput(f"data={data}: recordings act through the behavioral prior, which use_prior=false leaves out")
    if behavior is not None and not use_prior:
        raise BadInput(f"behavior={behavior}: a behavioral prior, which use_prior=false leaves out with its scenes")
    if density and behavior is None:
        raise BadInput("density=true: give behavior=FOLDER, in which `dexprior build-behavior density=flow` fitted one")
    recordings = None if data is None else read_recordings(data)
    if init is None and recordings is not None and recordings.init is not None:
        init = Path(recordings.init)
    if task is None:
        if init is None:
            raise BadInput("no task: give task=NAME, or init=FOLDER of a policy, whose task it then is")
        task = trained_task({"init": init})
    if init is not None:
        sensors = trained_sensors(init).updated(config.simulation.sensors)
        config = replace(config, simulation=replace(config.simulation, sensors=sensors))
    if behavior is None and data is None and use_prior:
        raise BadInput(f"task {task.name!r} without a behavioral prior: give behavior=FOLDER, or use_prior=false")
    trained = inject(task, injectors or {})
    assumed = learned_family(trained, family)

    def work() -> dict[str, Any]:
        prior: BehaviorPrior | ActionDensity | None = None
        if recordings is not None:
            panel, prior = recorded_scenes(recordings, trained, seed=seed, family=assumed)
        elif behavior is not None and not density:
            panel = Panel.load(behavior / "panel.json")
            panel = panel.moved_to(panel.name, assumed, seed=seed) if family or injectors else panel
            prior = BehaviorPrior.load(behavior / "behavior.safetensors")
        else:
            n = config.worlds if scenes is None else scenes
            panel = Panel.sample("train", trained, n, seed=seed, family=assumed, purpose="training")
            prior = load_density(behavior / DENSITY) if behavior is not None else None
        start = None if init is None else load_actor(init / "actor.safetensors")
        actor, curve = train_ppo(
            trained, panel, prior, config, folder, seed=seed, init=start,
            warm=None if warm is None else warm / "state.safetensors", sentence=sentence, more=more,
        )  # fmt: skip
        save_actor(
            actor,
            folder / "actor.safetensors",
            seed=seed,
            extra={
                "prior": use_prior,
                "task": task_to_plain(task),
                "sensors": to_plain(config.simulation.sensors),
            },
        )
        last = curve[-1]
        return {
            "curve": curve,
            "success_in_training": last["success"],
            "reward": last["reward"],
            "steps": last["step"],
        } | ({} if recordings is None else {"recorded": len(recordings.t), "left_out": recordings.left_out})

    started = [run / "actor.safetensors" for run in (init, warm) if run is not None]
    known = []
    if recordings is None and behavior is not None:
        known = [behavior / (DENSITY if density else "behavior.safetensors")]
    parents = parents_of(*known, *started) + (() if recordings is None else (recordings.checksum,))
    parents += _told(family, injectors) + (() if sentence is None else (sentence,))
    kind = "recorded" if recordings is not None else "prior" if use_prior else "plain"
    return run_stage(folder, f"policy-{kind}", config, seed, work, parents=parents, more=more)


def _told(family: Sequence[str | Path], injectors: Mapping[str, float] | None) -> tuple[str, ...]:
    """What a stage's record keeps of them."""
    return parents_of(*map(Path, family)) + ((config_hash(dict(injectors)),) if injectors else ())


def recorded_scenes(
    recordings: Recordings, task: Task, *, seed: int, family: ParameterFamily | None = None
) -> tuple[Panel, BehaviorPrior]:
    """Training panel and behavioral prior of the recorded instances, in worlds of the training family.

    Args:
        recordings: whose folder holds `panel.json`, the panel that they show.
        task: what is trained.
        seed: of the scenes' parameters.
        family: of the worlds; the task's training family by default.

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
    panel = shown.take(ids).moved_to("recorded", family or task.family, seed=seed)
    prior = recordings.prior(BehaviorConfig(), scale=MAX_TWIST, dt=task.control_dt, panel_hash=panel.hash)
    return panel, prior


def stage_evaluation(
    config: EvaluationConfig,
    policies: dict[str, Path],
    folder: Path,
    *,
    seed: int,
    task: Task | None = None,
    family: Sequence[str | Path] = (),
    injectors: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Every policy in the training world and in the other world, on the same held-out scenes.

    The training world has the parameters of `family` (files of `learned_family`), both worlds the `injectors`.

    Raises:
        BadInput: policies of different tasks; a family where no training world is shown; or a family or injectors that
            the task has no use for.
    """
    task = task or trained_task(policies)
    if family and "sim" not in worlds_of(config.backend):
        raise BadInput(
            f"family={','.join(map(str, family))} is of the training world, which backend {config.backend.kind!r} does "
            "not show"
        )
    task = inject(task, injectors or {})
    assumed = learned_family(task, family)

    def work() -> dict[str, Any]:
        outcome: dict[str, dict[str, Any]] = {}
        wins: dict[tuple[str, str], np.ndarray] = {}
        worlds = worlds_of(config.backend)
        for name, path in policies.items():
            actor = load_actor(path / "actor.safetensors")
            outcome[name] = {}
            for world in worlds:
                episodes, panel = run_world(
                    actor_policy(actor), world, config, task=task, assumed=assumed, sensors=trained_sensors(path)
                )
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
        return {"policies": outcome, "compared": Family(compared).as_dict(), "names": names, "other": ABOUT_OTHER}

    parents = parents_of(*(path / "actor.safetensors" for path in policies.values())) + _told(family, injectors)
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


def trained_sensors(policy: Path) -> SensorModels:
    """The models of sensors that a policy was trained with.

    Raises:
        ArtifactError: no actor, or one of another version.
    """
    plain = load_module(policy / "actor.safetensors", schema=ACTOR, command="dexprior train-policy")[2]
    return validate(SensorModels, plain.get("sensors", {}), where=f"{policy}: sensors")


def seen_through(backend: BackendConfig, sensors: SensorModels) -> BackendConfig:
    """A backend with these models of sensors, but for those that its own options switch on."""

    def fitted(options: Any) -> Any:
        return replace(options, sensors=sensors.updated(options.sensors))

    return replace(
        backend, simulation=fitted(backend.simulation), reality=fitted(backend.reality),
        hardware=fitted(backend.hardware),
    )  # fmt: skip


def worlds_of(backend: BackendConfig) -> tuple[str, ...]:
    """Which worlds a backend shows."""
    return ("sim", "other") if backend.kind in get_args(EngineName) else ("other",)


def run_world(
    policy: Callable,
    world: str,
    config: EvaluationConfig,
    *,
    task: Task,
    assumed: ParameterFamily | None = None,
    sensors: SensorModels | None = None,
) -> tuple[Episodes, Panel]:
    """Episodes of the held-out panel in the training world (`sim`) or the other one (`other`), in a backend.

    Args:
        policy: who acts.
        world: one of `worlds_of` the backend.
        config: panel and backend.
        task: what is done.
        assumed: family of the training world; the task's by default.
        sensors: what the backend is seen through, where it has no models of its own.

    Raises:
        BadInput: a world that the backend does not show.
        SafetyStop: a gate stopped the robot.
    """
    known = worlds_of(config.backend)
    if world not in known:
        raise BadInput(f"world {world!r}; choices: {', '.join(known)}")
    task, family = (task, assumed or task.family) if world == "sim" else (task.other(), task.reality)
    if config.cases is None:
        panel = Panel.sample(world, task, config.instances, seed=config.seed, family=family)
    else:
        panel = Panel.load(config.cases).moved_to(world, family, seed=config.seed)
    chosen = seen_through(config.backend, sensors or SensorModels())
    backend = make_backend(chosen, task=task, family=family, n=len(panel))
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


def _learned(config: PriorConfig, demonstrations: Path) -> Stack:
    """The clips with the hands that a prior learns."""
    stack = load_stack(demonstrations, config.size)
    return stack if config.sides is None else stack.of_sides(config.sides)


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
    more: tuple[int, ...] = (),
) -> dict[str, Any]:
    """Do the work unless the folder says that it is done under the same configuration, and continued as `more` says."""
    run = RunFolder(folder, stage, config, seed, parents, more).open()
    done = run.result
    return done if done is not None else run.finish(work())
