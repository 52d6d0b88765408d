"""What a prior is worth, measured by what a robot carries out of its samples, and by what each condition does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from jaxtyping import UInt8

from dexprior.config import Ge, config
from dexprior.data.stacks import Stack, fingerprint, load_stack, split_stack
from dexprior.errors import BadInput
from dexprior.pipeline.following import Clip, clips_of_stack, follow, gripper_settings
from dexprior.pipeline.settings import BankConfig
from dexprior.pipeline.stages import parents_of, run_stage
from dexprior.prior.conditioning import check_hidden
from dexprior.prior.evaluation import Motion, evaluate_prior, evaluate_samples, predicted_motions, spread_of, swapped
from dexprior.prior.sampling import HandObjectPipeline, load_prior, sample_many, sample_of
from dexprior.prior.ways import WayReader, way_of
from dexprior.stats import Rate
from dexprior.types import PriorCondition, VideoSample
from dexprior.worlds.tasks import demonstrated_tasks, strategies_of
from dexprior.worlds.tasks.strategies import Strategy

__all__ = ["PriorEvaluationConfig", "stage_prior_evaluation", "table"]

_WORLDS = ("training", "other")
_OWN = {"cloud": "object", "start": "joints", "target": "joints", "text": "joints"}
"""Condition -> whose error tells what it does."""
_SEED = 1_000_003  # between the seeds of two draws


@config
class PriorEvaluationConfig:
    """How much of a prior is looked at."""

    clips: Annotated[int, Ge(2)] = 64
    """Held-out clips, at most."""
    draws: Annotated[int, Ge(2)] = 4
    """Samples of each of their conditions, for diversity and the energy score."""
    masked: tuple[str, ...] = ("start", "target", "fingers", "time")
    """What the prior is not told where the sentence is to choose the way. A start of the asked way would say much of
    it, and so would the length of its clip."""
    guidance: Annotated[float, Ge(0)] = 2.0
    """How much more than the prior such samples follow the sentence: its weight in guidance."""
    motion_steps: Annotated[int, Ge(1)] = 12
    """Euler steps of the motion stream; the video, which train-prior judges, is left out."""
    replayed: bool = True
    """Whether robots carry samples out, which takes most of the time."""

    def __post_init__(self) -> None:
        check_hidden(self.masked)
        if "text" in self.masked:
            raise BadInput(
                f"evaluation.masked = {list(self.masked)}: without text there is no sentence that could choose a way"
            )


def stage_prior_evaluation(
    config: PriorEvaluationConfig,
    checkpoint: Path,
    data: Path,
    folder: Path,
    *,
    seed: int,
    judged: Path | None = None,
) -> dict[str, Any]:
    """Judge a prior on held-out demonstrations.

    Args:
        config: how much is looked at.
        checkpoint: of the prior.
        data: folder of the demonstrations that it was trained on; what it held out is judged, the rest is what
            predictors, and the classifier of ways, learn from.
        folder: of the result.
        seed: of the samples.
        judged: folder of other demonstrations, to judge instead.

    Returns:
        `replay`: who -> world -> rate of what a robot carries out, of `sample`, `proposed` (under starts and targets of
        the prior's own, where its checkpoint has a proposal), the `sentence` alone (all but `masked` is told),
        `demonstrations`, and the predictors of `evaluate_prior`; None where the clips do not say their scenes.
        `errors`: as `evaluate_prior`. `spread`: as `spread_of`. `effects`: condition -> its metric's error with
        the right one, and with another clip's, and their ratio. `ways`: see `_ways`; None where the clips show no two
        ways of a task. Of a prior that was never trained without `masked` and the sentence, neither `sentence` nor
        `ways` is known.

    Raises:
        BadInput: the prior samples none of the clips.
    """

    def work() -> dict[str, Any]:
        prior, info = load_prior(checkpoint)
        net = prior.denoiser
        stack = load_stack(data, net.config.size).of_sides(net.sides)
        train, held = split_stack(stack, float(info.get("holdout", 0.1)))
        if judged is not None:
            held = load_stack(judged, net.config.size).of_sides(net.sides)
        fit = np.flatnonzero(held.length <= net.config.frames)[: config.clips]
        if not len(fit):
            raise BadInput(f"each of the {len(held)} clips is longer than the {net.config.frames} frames of the prior")
        held = held[fit]
        samples = _sampled(prior, held.conditions, config, seed)
        free = {*config.masked, "text"} <= set(net.config.hides)
        alone = _sampled(prior, held.conditions, config, seed, hidden=config.masked) if free else None
        draws = [samples, *(_sampled(prior, held.conditions, config, seed + _SEED * k) for k in range(1, config.draws))]
        made = {"sample": samples} | ({} if alone is None else {"sentence": alone})
        if prior.proposal is not None:
            made["proposed"] = _sampled(prior, prior.propose(held.conditions, seed=seed), config, seed)
        return {
            "prior": {"text": net.config.text, "tasks": info.get("tasks", []), "judged": len(held)},
            "replay": _replay(train, held, made, seed) if config.replayed else None,
            "errors": _without_pixels(evaluate_prior(samples, _unseen(held), _unseen(train))),
            "spread": spread_of([[Motion.of(sample) for sample in draw] for draw in draws], held),
            "effects": _effects(prior, held, samples, alone, config, seed),
            "ways": _ways(prior, train, held, config, seed) if free else None,
        }

    given = (fingerprint(data), *(() if judged is None else (fingerprint(judged),)))
    weights = sorted((checkpoint / "denoiser").glob("*.safetensors"))
    parents = parents_of(*weights, checkpoint / "dexprior.json")
    return run_stage(folder, "prior-evaluation", config, seed, work, parents=(*given, *parents))


def table(found: dict[str, Any]) -> str:
    """The result as lines of text, what a robot carries out first."""
    lines = []
    if found["replay"]:
        lines.append(f"{'carried out':<16}" + "".join(f"{world:>14}" for world in _WORLDS))
        for who, row in found["replay"].items():
            lines.append(f"{who:<16}" + "".join(f"{row[world]['k']:>8} of {row[world]['n']:>2}" for world in _WORLDS))
    told = {key: value for key, value in found["errors"].items() if key != "clips"}
    lines.append(f"{'mean error':<28}" + "".join(f"{who:>16}" for who in told))
    for name in _SHOWN:
        row = ["-" if value[name] is None else f"{value[name]['mean']:.2f}" for value in told.values()]
        lines.append(f"{name:<28}" + "".join(f"{one:>16}" for one in row))
    spread = found["spread"]
    lines += [f"{name} {spread[name]['mean']:.2f}" for name in ("diversity_mm", "energy_mm", "best_mm") if spread[name]]
    for name, one in found["effects"].items():
        apart = f"{one['swapped_mm']:.1f} mm instead of {one['right_mm']:.1f}, {one['ratio']:.2f} x"
        lines.append(f"another {name}: {one['of']} {apart}")
    if found["ways"]:
        lines.append(f"way read from demonstrations: {_share(found['ways']['classifier'])}")
        lines += [f"way read from samples, {name}: {_share(one)}" for name, one in found["ways"]["read"].items()]
        lines.append(f"chance: {found['ways']['chance']:.3f}")
    return "\n".join(lines)


_SHOWN = (
    "joints_error_mm", "aligned_joints_error_mm", "object_error_mm", "goal_error_mm", "contact_f1",
    "contact_onset_error_ms", "sinks_in",
)  # fmt: skip


def _share(rate: dict[str, Any]) -> str:
    low, high = rate["interval"]
    return f"{rate['k']} of {rate['n']}, {rate['rate']:.3f} [{low:.3f}, {high:.3f}]"


def _sampled(
    prior: HandObjectPipeline,
    conditions: Sequence[PriorCondition],
    config: PriorEvaluationConfig,
    seed: int,
    hidden: Sequence[str] = (),
) -> list[VideoSample]:
    """Samples without their video; where something is hidden, and the sentence is not, that guides them."""
    guidance = {"text": config.guidance} if hidden and "text" not in hidden and config.guidance else {}
    return sample_many(
        prior, conditions, seed=seed, motion_steps=config.motion_steps, video_steps=0, hidden=hidden, guidance=guidance
    )


def _unseen(stack: Stack) -> Stack:
    """The same clips in black, as samples without video are."""
    return replace(stack, frames=np.zeros_like(stack.frames))


def _without_pixels(errors: dict[str, Any]) -> dict[str, Any]:
    return {who: {key: value for key, value in row.items() if key != "pixel_error"} for who, row in errors.items()}


# --- what a robot carries out ---


def _replay(
    train: Stack, held: Stack, samples: dict[str, list[VideoSample]], seed: int
) -> dict[str, dict[str, dict[str, Any]]] | None:
    """Who -> world -> success of robots that follow these samples, demonstrations, and predicted motions."""
    if not all({"task", "scene", "object"} <= set(info) and info["task"] in demonstrated_tasks() for info in held.info):
        return None
    recorded = clips_of_stack(held)
    black: UInt8[np.ndarray, "time 8 8 3"] = np.zeros((held.frames.shape[1], 8, 8, 3), dtype=np.uint8)
    predicted = {
        who: [
            sample_of(c, motion[:n], black[:n], held.fps, 8, held.sides, {"source": who})
            for c, motion, n in zip(held.conditions, motions, held.length)
        ]
        for who, motions in predicted_motions(held, train).items()
    }
    clips = {
        who: [
            Clip.of_sample(sample, c, scene=one.scene, settings=one.settings)
            for sample, c, one in zip(made, held.conditions, recorded)
        ]
        for who, made in (samples | predicted).items()
    }
    found = {who: _followed(held, made, seed) for who, made in (clips | {"demonstrations": recorded}).items()}
    return {
        who: {world: Rate(int(row.sum()), len(row)).as_dict() for world, row in won.items()}
        for who, won in found.items()
    }


def _followed(held: Stack, clips: Sequence[Clip], seed: int) -> dict[str, np.ndarray]:
    """Whether a robot that follows each clip succeeds, by world; each task in its own worlds."""
    won = {world: np.zeros(len(clips), dtype=bool) for world in _WORLDS}
    tasks = np.array([info["task"] for info in held.info])
    for task in np.unique(tasks):
        ids = np.flatnonzero(tasks == task)
        row = follow(
            str(task), [clips[int(k)] for k in ids], _WORLDS, gripper=gripper_settings(str(task)),
            behavior=BankConfig().behavior, seed=seed,
        )  # fmt: skip
        for world in _WORLDS:
            won[world][ids] = row[world]
    return won


# --- what each condition does ---


def _effects(
    prior: HandObjectPipeline,
    held: Stack,
    samples: Sequence[VideoSample],
    alone: Sequence[VideoSample] | None,
    config: PriorEvaluationConfig,
    seed: int,
) -> dict[str, dict[str, Any]]:
    """Each condition's own error with the right one, and with another clip's; the sentence also where it is alone.

    Another clip's is that of the next one with hands of the same sides, of the sentence that of the next one of another
    way. Clips that find none are left out.
    """
    ways = [way_of(held, k) or held.conditions[k].text for k in range(len(held))]
    sides = [tuple(hand.side for hand in c.start) for c in held.conditions]

    def error(made: Sequence[VideoSample], of: str, kept: np.ndarray) -> float:
        found = evaluate_samples([Motion.of(made[k]) for k in kept], _unseen(held[kept]))[f"{of}_error_mm"]
        return float("nan") if found is None else float(found["mean"])

    effects = {}
    cases: list[tuple[str, str, Sequence[VideoSample], tuple[str, ...]]] = [(one, one, samples, ()) for one in _OWN]
    if alone is not None:
        cases.append(("text alone", "text", alone, config.masked))
    for case, name, right, hidden in cases:
        order = [
            next(
                (
                    j for j in ((k + i) % len(held) for i in range(1, len(held)))
                    if sides[j] == sides[k] and (name != "text" or ways[j] != ways[k])
                ),
                k,
            )
            for k in range(len(held))
        ]  # fmt: skip
        kept = np.flatnonzero(np.array(order) != np.arange(len(held)))
        if not len(kept):
            continue
        asked = swapped(held.conditions, name, order)
        wrong = _sampled(prior, asked, config, seed, hidden=hidden)
        before, after = (error(made, _OWN[name], kept) for made in (right, wrong))
        effects[case] = {
            "of": _OWN[name], "right_mm": before, "swapped_mm": after, "ratio": after / max(before, 1e-9),
            "n": len(kept),
        }  # fmt: skip
    return effects


# --- what the sentence chooses ---


def _ways(
    prior: HandObjectPipeline, train: Stack, held: Stack, config: PriorEvaluationConfig, seed: int
) -> dict[str, Any] | None:
    """How often the way that a sentence asks for is the one that is read from the sample.

    Returns:
        `classifier`: its share of held-out demonstrations; `read`: share of samples, of every way in every scene, for
        sentences of `trained` ones and `held_out` ones with all of `masked` hidden, for `no sentence` beside these, and
        of the clips' own ways for a `start` that is told and a `start and sentence`; `sentences`: the share of each
        sentence; `chance`: one over the ways.
    """
    shown = {info["task"] for info in (*train.info, *held.info) if info.get("strategy")}
    tasks = [task for task in demonstrated_tasks() if task in shown]
    if not tasks or len({way_of(train, k) for k in range(len(train))} - {""}) < 2:
        return None
    reader = WayReader.fit(train)
    own = [way_of(held, k) for k in range(len(held))]
    longest = {
        task: max(round(way.seconds * held.fps) for way in _known_ways(task, reader)) / held.fps for task in tasks
    }

    def asked(k: int, way: Strategy, sentences: Sequence[str], number: int) -> PriorCondition:
        task = held.info[k]["task"]
        return replace(held.conditions[k], text=sentences[number % len(sentences)], seconds=longest[task])

    pairs = [(k, way) for k in range(len(held)) if own[k] for way in _known_ways(held.info[k]["task"], reader)]
    wanted = [f"{held.info[k]['task']}/{way.name}" for k, way in pairs]
    with_start = tuple(name for name in config.masked if name != "start")
    cases = {
        "trained": ([asked(k, way, way.sentences, k) for k, way in pairs], wanted, config.masked),
        "held out": ([asked(k, way, way.held_out, k) for k, way in pairs if way.held_out],
                     [name for name, (_, way) in zip(wanted, pairs) if way.held_out], config.masked),
        "no sentence": ([asked(k, way, way.sentences, k) for k, way in pairs], wanted, (*config.masked, "text")),
    }  # fmt: skip
    if "start" in config.masked:
        mine = [(k, way) for (k, way), name in zip(pairs, wanted) if name == own[k]]
        told = [asked(k, way, way.sentences, k) for k, way in mine]
        names = [own[k] for k, _ in mine]
        cases |= {
            "start and sentence": (told, names, with_start), "start": (told, names, (*with_start, "text")),
        }  # fmt: skip
    rates, sentences = {}, {}
    for case, (conditions, names, hidden) in cases.items():
        if not conditions:
            continue
        read = reader.of_samples(_sampled(prior, conditions, config, seed, hidden=hidden))
        right = np.array([a == b for a, b in zip(read, names)])
        rates[case] = Rate(int(right.sum()), len(right)).as_dict()
        if case in ("trained", "held out"):
            for text in dict.fromkeys(c.text for c in conditions):
                mine_too = np.array([c.text == text for c in conditions])
                sentences[text] = float(right[mine_too].mean())
    known = [k for k, name in enumerate(own) if name in reader.ways]
    agree = sum(a == own[k] for a, k in zip(reader.of_clips(held[known]), known)) if known else 0
    return {
        "classifier": Rate(int(agree), len(known)).as_dict(),
        "read": rates,
        "sentences": sentences,
        "chance": 1.0 / len(reader.ways),
    }


def _known_ways(task: str, reader: WayReader) -> list[Strategy]:
    """The ways of a task that the reader can tell."""
    return [way for way in strategies_of(task) if f"{task}/{way.name}" in reader.ways]
