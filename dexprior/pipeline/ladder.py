"""The ladder: success of whatever comes out of each stage of the line, in every judging world.

A rung is a way to act; what is lost from one rung to the next is lost in the stage between them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool

from dexprior.artifacts import RunFolder, load_all, save
from dexprior.data.demonstrating import condition_of, generate_demonstrations
from dexprior.data.stacks import Stack, load_stack
from dexprior.envs.hardware import why_no_gate
from dexprior.errors import ArtifactError, BadInput
from dexprior.pipeline.following import Clip, clips_of_stack, film, follow, sample_prior
from dexprior.pipeline.settings import LineConfig
from dexprior.pipeline.stages import run_stage
from dexprior.pipeline.steps import Step, run_steps
from dexprior.pipeline.worlds import SCORING, JudgingWorld, judging_worlds
from dexprior.policy.actor import load_actor
from dexprior.policy.gated import run_gated
from dexprior.policy.rollout import Policy, actor_policy, expert_policy, prior_policy, run_episodes
from dexprior.pose.estimator import load_estimator
from dexprior.pose.fusion import Source
from dexprior.prior.sampling import HandObjectPipeline, load_prior
from dexprior.progress import say
from dexprior.stats import Rate
from dexprior.types import PriorCondition, VideoSample
from dexprior.types.episode import View
from dexprior.worlds.tasks import Scenes, robot_task

if TYPE_CHECKING:
    from dexprior.pipeline.line import Line

__all__ = ["GATED", "RUNGS", "climb", "everywhere", "judged_clips", "paired_ratio", "scoring_scenes"]

Won = Bool[np.ndarray, " scene"]
RUNGS = {
    "expert": "the scripted expert, who knows where everything is",
    "demonstration": "human demonstrations of the scoring scenes, retargeted and followed",
    "sample": "the prior's samples under the same conditions",
    "made condition": "its samples under conditions made for the same scenes",
    "proposed": "its samples under starts and targets that it proposes itself, from the object and the sentence",
    "pixels": "the hand and the object that the pose estimator reads from the samples' frames",
    "fused": "these and the sample's own motion, fused",
    "unrefined": "samples of the training scenes, followed in them, before rollouts refined them",
    "bank": "samples of the training scenes, followed in them",
    "imitation": "the bank imitated: the warm-up of the next two",
    "policy": "PPO with the KL to the bank",
    "gate": "the same, behind the safety gate of a robot in another process",
    "kl 0": "the same warm-up, then PPO without it",
    "plain": "PPO from scratch",
}
"""Rung -> what acts, all on scenes of the scoring seed but the bank, which has its own, as it had before it was refined
(`BankConfig.rollouts`). A robot has no other laws of contact: the gate is climbed in `GATED` worlds only, and by tasks
that have one."""
GATED = ("training", "other")
_TRAINED = {
    "imitation": "05-imitation", "policy": "06-policy", "gate": "06-policy", "kl 0": "07-policy-no-kl",
    "plain": "08-policy-plain",
}  # fmt: skip
_BANKS = {"unrefined": "unrefined.safetensors", "bank": "behavior.safetensors"}
_PARTS = ("demonstrations", "samples")
_NEEDS: dict[str, tuple[str, ...]] = {
    "demonstrations": (), "samples": ("02-prior", "demonstrations"),
    "expert": (), "demonstration": ("samples",), "sample": ("samples",),
    "made condition": ("samples",), "proposed": ("samples",),
    "pixels": ("03-estimator", "samples"), "fused": ("03-estimator", "samples"),
    "unrefined": ("04-behavior",), "bank": ("04-behavior",),
    **{rung: (stage,) for rung, stage in _TRAINED.items()},
}  # fmt: skip
_LOSSES = (
    ("demonstration", "sample"), ("sample", "made condition"), ("sample", "proposed"), ("sample", "pixels"),
    ("sample", "fused"), ("unrefined", "bank"), ("policy", "gate"), ("kl 0", "policy"), ("imitation", "kl 0"),
    ("plain", "policy"),
)  # fmt: skip
_DRAWS = 2000


def climb(line: Line, folder: Path, *, say: Callable[[str], None] = say) -> dict[str, Any]:
    """Judge every rung of a line's run, side by side as the line's own stages are.

    Args:
        line: whose other stages are done.
        folder: where the result goes, with a folder for each rung.
        say: where progress lines go; standard error by default.

    Returns:
        As `gathered`.
    """
    steps = ladder_steps(line, folder)
    alone = {name: replace(step, needs=tuple(n for n in step.needs if n in steps)) for name, step in steps.items()}
    run_steps(alone, jobs=line.jobs, threads=line.threads, began=say, ended=lambda name: say(f"{name}: done"))
    return gathered(line, folder)


def ladder_steps(line: Line, folder: Path) -> dict[str, Step]:
    """The rungs that a line has, the longest first, and what several of them need: demonstrations of the scoring
    scenes, and samples."""
    c, names = line.config, rungs_of(line)
    works: dict[str, Callable[[], dict[str, Any]]] = {
        "demonstrations": functools.partial(_demonstrate, c, folder), "samples": functools.partial(_sample, c, folder),
        **{rung: functools.partial(judge, c, folder, rung) for rung in sorted(names, key=lambda rung: rung != "gate")},
    }  # fmt: skip
    return {
        f"{folder.name}/{name}": Step(
            work=work,
            needs=tuple(f"{folder.name}/{need}" if need in _PARTS else need for need in _NEEDS[name]),
            finished=RunFolder.finished(folder / name),
        )
        for name, work in works.items()
    }


def rungs_of(line: Line) -> list[str]:
    """The rungs of `RUNGS` that a line has."""
    left_out = {"gate"} if why_no_gate(line.task) is not None else set()
    left_out |= set() if line.config.bank.rollouts else {"unrefined"}
    return [rung for rung in RUNGS if rung not in left_out]


def judge(config: LineConfig, folder: Path, rung: str) -> dict[str, Any]:
    """Judge one rung in every world.

    Args:
        config: of the line; what the rung needs is done.
        folder: of the ladder.
        rung: one of `RUNGS`.

    Returns:
        World -> whether it succeeded, scene by scene.
    """
    from dexprior.pipeline.line import Line

    line = Line(config)

    def work() -> dict[str, Any]:
        return {world: won.astype(int).tolist() for world, won in _won(line, folder, rung).items()}

    return run_stage(folder / rung, "rung", _settings(line), config.seed, work, parents=_parents(line, rung))


def gathered(line: Line, folder: Path) -> dict[str, Any]:
    """What the rungs of a ladder's folder found together.

    Returns:
        `left_out`: how many demonstrations are longer than the prior's clips, and not judged; `rungs`: rung -> world
        -> rate with its interval, and `won`, scene by scene; `ratios`: pairs of rungs on the same scenes, how much of
        the first's success the second keeps, with intervals.
    """
    c = line.config

    def work() -> dict[str, Any]:
        found = {rung: judge(c, folder, rung) for rung in rungs_of(line)}
        won = {
            rung: {world: np.array(row, dtype=bool) for world, row in worlds.items()} for rung, worlds in found.items()
        }
        return {
            "task": c.task,
            "left_out": _sampled(folder)["left_out"],
            "rungs": {
                rung: {
                    world: {**Rate(int(w.sum()), len(w)).as_dict(), "won": w.astype(int).tolist()}
                    for world, w in row.items()
                }
                for rung, row in won.items()
            },
            "ratios": {
                f"{b} / {a}": {
                    world: paired_ratio(won[a][world][: len(second)], second) for world, second in won[b].items()
                }
                for a, b in _LOSSES
                if a in won and b in won
            },
        }

    return run_stage(folder, "ladder", _settings(line), c.seed, work, parents=_parents(line, *rungs_of(line)))


def paired_ratio(first: Won, second: Won, *, level: float = 0.95, seed: int = 0) -> dict[str, float] | None:
    """Successes of the second over those of the first on the same scenes, with a bootstrap interval over scenes.

    None where the first succeeds in under a tenth of them.
    """
    if first.mean() < 0.1:
        return None
    ids = np.random.default_rng(seed).integers(len(first), size=(_DRAWS, len(first)))
    below = first[ids].sum(axis=1)
    drawn = second[ids].sum(axis=1)[below > 0] / below[below > 0]
    low, high = np.quantile(drawn, [0.5 - level / 2, 0.5 + level / 2])
    return {"ratio": float(second.sum() / first.sum()), "low": float(low), "high": float(high)}


def _settings(line: Line) -> tuple[Any, ...]:
    c = line.config
    return c.task, c.settings, line.gripper, c.bank, c.prior.size, c.scored, c.gated, c.policy.simulation


def _parents(line: Line, *rungs: str) -> tuple[str, ...]:
    """Checksums of what rungs judge; the samples are the prior's."""
    needed = {"02-prior" if need == "samples" else need for rung in rungs for need in _NEEDS[rung]}
    return tuple(checksum for stage in sorted(needed) for checksum in line.made(stage))


def _demonstrate(config: LineConfig, folder: Path) -> dict[str, Any]:
    """Demonstrations in scenes of the scoring seed."""
    settings = replace(config.demonstrations, n=config.scored)

    def work() -> dict[str, Any]:
        return dict(generate_demonstrations(config.task, settings, folder / "demonstrations", seed=SCORING))

    return run_stage(folder / "demonstrations", "line-demonstrations", settings, SCORING, work)


def _sample(config: LineConfig, folder: Path) -> dict[str, Any]:
    """Samples for the conditions of demonstrations, for those of the same that the prior proposes, and for conditions
    that are made for their scenes and kept as well.

    Returns:
        `judged`: ids of the demonstrations that are no longer than what the prior samples; `left_out`: how many are;
        `made`: rungs whose samples there are.
    """
    from dexprior.pipeline.line import Line

    line = Line(config)

    def work() -> dict[str, Any]:
        prior, _ = load_prior(line.folder["02-prior"] / "checkpoint")
        judged = judged_clips(config, folder)
        held, made = _within(line, judged, prior)
        save(made, folder / "samples" / "conditions.safetensors", producer="ladder", seed=SCORING)
        asked = {
            "sample": held.conditions, "made condition": made,
            "proposed": prior.propose(held.conditions, seed=SCORING),
        }  # fmt: skip
        for name, conditions in asked.items():
            steps = None if name == "sample" else 0  # nobody reads the others' frames; motions are the same without
            samples = sample_prior(prior, conditions, config.bank, seed=SCORING, video_steps=steps)
            save(samples, folder / "samples" / f"{name}.safetensors", producer="ladder", seed=SCORING)
            if name == "sample":
                for view, seen in film(prior, samples, conditions, config.bank, seed=SCORING).items():
                    save(seen, folder / "samples" / f"{name}.{view}.safetensors", producer="ladder", seed=SCORING)
        return {"judged": list(held.ids), "left_out": len(judged) - len(held), "made": list(asked)}

    return run_stage(folder / "samples", "samples", _settings(line), SCORING, work, parents=line.made("02-prior"))


def _sampled(folder: Path) -> dict[str, Any]:
    """What `_sample` found, from its record alone: that it is of this prior is checked where it is made or taken over.

    Raises:
        ArtifactError: an older version made the samples, or nobody did.
    """
    found = RunFolder.recorded(folder / "samples")
    if found is None or "proposed" not in found.get("made", ()):
        raise ArtifactError(
            f"{folder / 'samples'} does not hold the samples of all rungs: an older version made it, or none. Delete "
            "that folder, and the same command makes it again"
        )
    return found


def judged_clips(config: LineConfig, folder: Path) -> Stack:
    """Demonstrations in scenes on which nothing was trained or chosen, as a ladder's folder has them; failures left
    out."""
    return load_stack(folder / "demonstrations", config.prior.size)


def _won(line: Line, folder: Path, rung: str) -> dict[str, Won]:
    """Whether a rung succeeds, by world."""
    worlds = judging_worlds(line.task)
    if rung == "expert":
        return everywhere(line, worlds, expert_policy(line.task))
    if rung in _BANKS:
        return _bank(line, worlds, _BANKS[rung])
    if rung in _TRAINED:
        policy = actor_policy(load_actor(line.folder[_TRAINED[rung]] / "actor.safetensors"))
        if rung == "gate":
            return _gate(line, {name: worlds[name] for name in GATED}, policy)
        return everywhere(line, worlds, policy)
    clips = _clips(line, folder, rung)
    return follow(
        line.config.task, clips, worlds, gripper=line.gripper, behavior=line.config.bank.behavior, seed=SCORING,
        settings=line.config.settings,
    )  # fmt: skip


def _clips(line: Line, folder: Path, rung: str) -> list[Clip]:
    """What is followed on a rung: judged demonstrations, or the samples that were made for them."""
    stack = judged_clips(line.config, folder)
    held = stack[np.isin(stack.ids, _sampled(folder)["judged"])]
    recorded = clips_of_stack(held)
    if rung == "demonstration":
        return recorded
    files = folder / "samples"
    followed = rung if rung in ("made condition", "proposed") else "sample"
    made = followed == "made condition"
    conditions = load_all(files / "conditions.safetensors", PriorCondition) if made else held.conditions
    samples = load_all(files / f"{followed}.safetensors", VideoSample)
    source: Source = "pixels" if rung == "pixels" else "fused" if rung == "fused" else "motion"
    reader = None if source == "motion" else load_estimator(line.folder["03-estimator"] / "estimator.safetensors")
    seen = [
        load_all(files / f"sample.{view}.safetensors", View)
        for view in ([] if reader is None else line.config.bank.views)
    ]
    views = zip(*seen) if seen else [()] * len(samples)
    return [
        Clip.of_sample(s, k, scene=clip.scene, settings=clip.settings, reader=reader, source=source, views=v)
        for s, k, clip, v in zip(samples, conditions, recorded, views)
    ]


def _within(line: Line, stack: Stack, prior: HandObjectPipeline) -> tuple[Stack, list[PriorCondition]]:
    """Demonstrations that are no longer than what the prior samples, and conditions made for their scenes.

    Raises:
        BadInput: all are longer.
    """
    c, net = line.config, prior.denoiser.config
    longest = (net.frames + 0.49) / net.fps
    made = [
        condition_of(
            robot_task(c.task, **info["object"]), info["scene"], seed=SCORING + k, size=c.prior.size,
            sentence=condition.text,
        )
        for k, (info, condition) in enumerate(zip(stack.info, stack.conditions))
    ]  # fmt: skip
    fit = [k for k, pair in enumerate(zip(stack.conditions, made)) if max(one.seconds for one in pair) <= longest]
    if not fit:
        raise BadInput(
            f"each of the {len(stack)} demonstrations to judge is longer than the {longest:.2f} s that the prior "
            "samples: train it on more of them"
        )
    return stack[fit], [made[k] for k in fit]


def everywhere(
    line: Line, worlds: Mapping[str, JudgingWorld], policy: Policy, scenes: Scenes | None = None
) -> dict[str, Won]:
    """A policy on some scenes in every world; on the scoring scenes where none are given."""
    scenes = scoring_scenes(line) if scenes is None else scenes
    n = len(next(iter(scenes.values())))
    won = {}
    for name, world in worlds.items():
        backend = world.backend(n, sensors=line.config.policy.simulation.sensors)
        won[name] = run_episodes(policy, backend, world.panel(scenes, seed=SCORING)).success
        backend.close()
    return won


def scoring_scenes(line: Line) -> Scenes:
    """The scenes that a line's policies are judged on."""
    return line.task.sample(np.random.default_rng([SCORING, 0]), line.config.scored)


def _gate(line: Line, worlds: Mapping[str, JudgingWorld], act: Policy) -> dict[str, Won]:
    """A policy on the first of the scoring scenes behind the gate."""
    scenes = {name: value[: line.config.gated] for name, value in scoring_scenes(line).items()}
    sensors = line.config.policy.simulation.sensors
    return {
        name: run_gated(lambda _: act, world.task, world.panel(scenes, seed=SCORING), sensors=sensors).success
        for name, world in worlds.items()
    }


def _bank(line: Line, worlds: Mapping[str, JudgingWorld], file: str) -> dict[str, Won]:
    from dexprior.behavior import BehaviorPrior
    from dexprior.envs.panel import Panel

    bank = BehaviorPrior.load(line.folder["04-behavior"] / file)
    panel = Panel.load(line.folder["04-behavior"] / "panel.json")
    return everywhere(line, worlds, prior_policy(bank, np.arange(len(panel))), panel.scenes)
