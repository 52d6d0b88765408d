"""The ladder: success of whatever comes out of each stage of the line, in every judging world.

A rung is a way to act; what is lost from one rung to the next is lost in the stage between them.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool

from dexprior.data.demonstrating import condition_of
from dexprior.pipeline.stages import run_stage
from dexprior.pipeline.worlds import SCORING, JudgingWorld, judging_worlds
from dexprior.policy.actor import load_actor
from dexprior.policy.rollout import Policy, actor_policy, prior_policy, run_episodes
from dexprior.pose.estimator import estimate, load_estimator
from dexprior.pose.fusion import fuse_hands
from dexprior.stats import Rate
from dexprior.types import HandTrajectory, PriorCondition, VideoSample
from dexprior.worlds.tasks import Scenes, expert_of, make_task

if TYPE_CHECKING:
    from dexprior.pipeline.line import Line

__all__ = ["RUNGS", "climb", "paired_ratio", "table"]

Won = Bool[np.ndarray, " scene"]
RUNGS = {
    "expert": "the scripted expert, who knows where everything is",
    "demonstration": "held-out human demonstrations, retargeted and followed",
    "sample": "the prior's samples under the same conditions",
    "made condition": "its samples under conditions made for the same scenes",
    "pixels": "the hand that the pose estimator reads from the samples' frames",
    "fused": "that hand and the sample's own, fused",
    "bank": "samples of the training scenes, followed in them",
    "policy": "PPO with the KL to the bank",
    "kl 0": "the same warm-up, then PPO without it",
    "imitation": "the warm-up alone",
    "plain": "PPO from scratch",
}
"""Rung -> what acts. The first and the last four act on the scoring scenes, the bank on its own, the others on those of
held-out demonstrations."""
_LOSSES = (
    ("demonstration", "sample"), ("sample", "made condition"), ("sample", "pixels"), ("sample", "fused"),
    ("kl 0", "policy"), ("imitation", "kl 0"), ("plain", "policy"),
)  # fmt: skip
_DRAWS = 2000


def climb(line: Line) -> dict[str, Any]:
    """Judge every rung of a line's run.

    Returns:
        `rungs`: rung -> world -> rate with its interval, and `won`, scene by scene; `seconds` of each rung; `ratios`:
        pairs of rungs on the same scenes, how much of the first's success the second keeps, with intervals.
    """

    def work() -> dict[str, Any]:
        won: dict[str, dict[str, Won]] = {}
        seconds: dict[str, float] = {}
        for rung, judge in _judges(line).items():
            started = time.monotonic()
            won[rung] = judge()
            seconds[rung] = time.monotonic() - started
        return {
            "task": line.config.task,
            "rungs": {
                rung: {
                    world: {**Rate(int(w.sum()), len(w)).as_dict(), "won": w.astype(int).tolist()}
                    for world, w in row.items()
                }
                for rung, row in won.items()
            },
            "ratios": {
                f"{b} / {a}": {world: paired_ratio(won[a][world], won[b][world]) for world in won[a]}
                for a, b in _LOSSES
            },
            "seconds": seconds,
        }

    return run_stage(line.folder["09-ladder"], "ladder", line.config, line.config.seed, work, parents=line.parents)


def table(found: Mapping[str, Any]) -> str:
    """The ladder as lines of text."""
    worlds = list(next(iter(found["rungs"].values())))
    lines = [f"{'rung':<16}" + "".join(f"{world:>14}" for world in worlds)]
    for rung, row in found["rungs"].items():
        lines.append(f"{rung:<16}" + "".join(f"{r['k']:>8} of {r['n']:>2}" for r in row.values()))
    return "\n".join(lines)


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


def _judges(line: Line) -> dict[str, Callable[[], dict[str, Won]]]:
    """Rung -> judges it in every world."""
    from dexprior.pipeline.line import POLICIES, Clip, clips_of_stack, follow

    c = line.config
    worlds = judging_worlds(line.task)
    held = line.held_out()
    recorded = clips_of_stack(held)

    def followed(clips: list[Clip]) -> dict[str, Won]:
        return {
            world: follow(c.task, clips, world, gripper=c.gripper, behavior=c.bank.behavior, seed=SCORING)
            for world in worlds
        }

    samples = line.sample(held.conditions, seed=SCORING)
    tasks = [make_task(c.task, **clip.settings) for clip in recorded]
    made = [
        condition_of(task, clip.scene, seed=SCORING + k, size=c.prior.size, sentence=condition.text)
        for k, (task, clip, condition) in enumerate(zip(tasks, recorded, held.conditions))
    ]
    for_made = line.sample(made, seed=SCORING)
    reader = load_estimator(line.folder["03-estimator"] / "estimator.safetensors")
    seen = [estimate(reader, s.frames, s.camera, s.fps) for s in samples]

    def sampled(
        found: Sequence[VideoSample], asked: Sequence[PriorCondition], hands: Sequence[HandTrajectory] | None = None
    ) -> list[Clip]:
        chosen = [s.hand for s in found] if hands is None else hands
        return [
            Clip.of_sample(s, k, scene=clip.scene, settings=clip.settings, hand=h)
            for s, k, clip, h in zip(found, asked, recorded, chosen)
        ]

    fused = [fuse_hands(h, s.hand) for h, s in zip(seen, samples)]
    rungs: dict[str, Callable[[], dict[str, Won]]] = {
        "expert": functools.partial(_everywhere, line, worlds, _expert),
        "demonstration": lambda: followed(recorded),
        "sample": lambda: followed(sampled(samples, held.conditions)),
        "made condition": lambda: followed(sampled(for_made, made)),
        "pixels": lambda: followed(sampled(samples, held.conditions, seen)),
        "fused": lambda: followed(sampled(samples, held.conditions, fused)),
        "bank": lambda: _bank(line, worlds),
    }
    for rung, folder in zip(("policy", "kl 0", "imitation", "plain"), POLICIES):
        rungs[rung] = functools.partial(_everywhere, line, worlds, functools.partial(_trained, folder))
    return rungs


def _everywhere(
    line: Line, worlds: Mapping[str, JudgingWorld], policy: Callable[..., Any], scenes: Scenes | None = None
) -> dict[str, Won]:
    """A policy on some scenes in every world; on the scoring scenes where none are given."""
    if scenes is None:
        scenes = line.task.sample(np.random.default_rng([SCORING, 0]), line.config.scored)
    n = len(next(iter(scenes.values())))
    won = {}
    for name, world in worlds.items():
        backend = world.backend(n)
        won[name] = run_episodes(policy(line, backend), backend, world.panel(scenes, seed=SCORING)).success
        backend.close()
    return won


def _trained(folder: str, line: Line, backend: Any) -> Policy:
    return actor_policy(load_actor(line.folder[folder] / "actor.safetensors"))


def _expert(line: Line, backend: Any) -> Policy:
    expert, memory = expert_of(line.config.task), np.zeros((backend.n, 4))
    dt = line.task.control_dt

    def act(observation: dict[str, np.ndarray], reading: Any) -> np.ndarray:
        t = float(np.round(reading.t[0] / dt) * dt)
        return expert(reading.truth, backend.worlds.view.rigs, t, memory)

    return act


def _bank(line: Line, worlds: Mapping[str, JudgingWorld]) -> dict[str, Won]:
    from dexprior.behavior import BehaviorPrior
    from dexprior.envs.panel import Panel

    bank = BehaviorPrior.load(line.folder["04-behavior"] / "behavior.safetensors")
    scenes = Panel.load(line.folder["04-behavior"] / "panel.json").scenes
    return _everywhere(line, worlds, lambda _, backend: prior_policy(bank, np.arange(backend.n)), scenes)
