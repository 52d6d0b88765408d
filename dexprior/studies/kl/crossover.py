"""Does a prior carry the contact that its demonstrations had?

Two lines whose demonstrations differ in one hidden constant alone. Can the constant be read from the priors' samples,
as it can from the demonstrations? And is the policy near each prior better in the world of its own constant than in the
other's? The interaction, matched minus mismatched, is what imitation alone does not explain.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from dexprior.artifacts import write_json
from dexprior.config import Ge, Lt, config
from dexprior.data.stacks import Stack, load_stack, recorded_clip, split_stack
from dexprior.envs.panel import Panel
from dexprior.errors import BadInput, UnknownName
from dexprior.pipeline.following import sample_prior
from dexprior.pipeline.line import Line
from dexprior.pipeline.settings import LineConfig
from dexprior.pipeline.stages import run_stage, stage_policy
from dexprior.pipeline.worlds import SCORING
from dexprior.policy.actor import load_actor
from dexprior.policy.rollout import actor_policy
from dexprior.prior.sampling import load_prior
from dexprior.progress import say
from dexprior.studies.kl.seeds import over_seeds
from dexprior.studies.kl.worlds import score
from dexprior.studies.parts import Part, run_parts
from dexprior.types import HandTrajectory, ObjectTrajectory
from dexprior.worlds.tasks import human_task

__all__ = ["CONSTANTS", "CrossoverConfig", "read_constant", "study_crossover"]

CONSTANTS: dict[str, tuple[str, float, float]] = {
    "peg": ("pad_friction", 0.25, 0.9), "soft_grasp": ("stiffness", 0.35, 2.0),
}  # fmt: skip
"""Task -> the parameter of the people's worlds in which two sets of demonstrations differ, and its two values."""


@config
class CrossoverConfig:
    """Two lines, and policies near each of their priors."""

    line: LineConfig = LineConfig(task="peg")
    """Settings of both lines; the constant is set in its demonstrations."""
    constant: str | None = None
    """Parameter in which they differ; that of `CONSTANTS` by default..."""
    values: tuple[float, float] | None = None
    """...and its two values."""
    seeds: Annotated[int, Ge(1)] = 5
    """Seeds of the policies, from 0."""
    scored: Annotated[int, Ge(2)] = 64
    """Scenes that each policy is scored on in each of the two worlds."""
    read: Annotated[int, Ge(8)] = 96
    """Held-out clips of each set that the constant is read from."""
    holdout: Annotated[float, Ge(0), Lt(1)] = 0.3
    """Share of the demonstrations that the priors do not learn from."""


def study_crossover(
    settings: CrossoverConfig, folder: Path, *, jobs: int = 1, say: Callable[[str], None] = say
) -> dict[str, Any]:
    """Make both lines, read the constant, train and score; writes `crossover.json` into the folder.

    Args:
        settings: all settings.
        folder: gets a line for each value, and a folder for each part.
        jobs: parts that run side by side.
        say: where progress lines go.

    Returns:
        `auc`: how well the constant is read from held-out `demonstrations` and from `samples` of the same conditions;
        `rates`: prior -> world -> success of each seed; `interaction`: matched minus mismatched over seeds.

    Raises:
        UnknownName: nothing is known to differ in that task, or a constant that its worlds do not have.
        BadInput: the two values are one.
    """
    constant, values = _differing(settings)
    parts: dict[str, Part] = {}
    for k in range(2):
        before: tuple[str, ...] = ()
        for stage in ("01-demonstrations", "02-prior", "04-behavior"):
            name = f"line-{k}/{stage}"
            parts[name] = functools.partial(_stage, settings, folder, k, stage), before
            before = (name,)
        for seed in range(settings.seeds):
            parts[f"policy-{k}-{seed}"] = functools.partial(_policy, settings, folder, k, seed), before
    needs = tuple(f"line-{k}/02-prior" for k in range(2))
    parts["reading"] = functools.partial(_reading, settings, folder), needs
    results = run_parts(parts, folder, jobs=jobs, say=say)
    rates = {
        k: {j: [results[f"policy-{k}-{s}"][str(j)] for s in range(settings.seeds)] for j in range(2)} for k in (0, 1)
    }
    matched = 0.5 * (np.array(rates[0][0]) + np.array(rates[1][1]))
    mismatched = 0.5 * (np.array(rates[0][1]) + np.array(rates[1][0]))
    found = {
        "task": settings.line.task, "constant": constant, "values": list(values), "auc": results["reading"],
        "rates": {f"{values[k]:g}": {f"{values[j]:g}": rates[k][j] for j in range(2)} for k in range(2)},
        "interaction": over_seeds(matched.tolist(), mismatched.tolist()),
    }  # fmt: skip
    write_json(folder / "crossover.json", found)
    return found


def _differing(settings: CrossoverConfig) -> tuple[str, tuple[float, float]]:
    task = settings.line.task
    if settings.constant is None or settings.values is None:
        if task not in CONSTANTS:
            raise UnknownName("task with a hidden constant (or give constant= and values=)", task, CONSTANTS)
        name, low, high = CONSTANTS[task]
    else:
        name, (low, high) = settings.constant, settings.values
    known = human_task(task, 0).reality.names
    if name not in known:
        raise UnknownName(f"parameter of the worlds in which {task!r} is demonstrated", name, known)
    if low == high:
        raise BadInput(f"crossover.values = [{low:g}, {high:g}]: the two lines must differ")
    return name, (low, high)


def _line(settings: CrossoverConfig, folder: Path, k: int) -> Line:
    """The line of one value."""
    constant, values = _differing(settings)
    c = settings.line
    demonstrations = replace(c.demonstrations, constants={**c.demonstrations.constants, constant: values[k]})
    prior = replace(c.prior, holdout=settings.holdout)
    return Line(replace(c, out=str(folder / f"line-{k}"), demonstrations=demonstrations, prior=prior))


def _stage(settings: CrossoverConfig, folder: Path, k: int, stage: str) -> dict[str, Any]:
    return _line(settings, folder, k).do(stage)


def _policy(settings: CrossoverConfig, folder: Path, k: int, seed: int) -> dict[str, Any]:
    """A policy near the prior of one value, scored in the worlds of both."""
    line, mine = _line(settings, folder, k), folder / f"policy-{k}-{seed}"
    constant, values = _differing(settings)

    def work() -> dict[str, Any]:
        stage_policy(
            line.config.policy, line.folder["04-behavior"], mine / "training", seed=seed, use_prior=True, task=line.task
        )
        policy = actor_policy(load_actor(mine / "training" / "actor.safetensors"))
        other = line.task.other()
        panel = Panel.sample("crossover", other, settings.scored, seed=SCORING, family=other.reality)
        column = other.reality.names.index(constant)
        rates = {}
        for j, value in enumerate(values):
            parameters = panel.parameters.copy()
            parameters[:, column] = value
            won, _ = score(
                policy, other, replace(panel, parameters=parameters), sensors=line.config.policy.simulation.sensors
            )
            rates[str(j)] = float(won.mean())
        return rates

    return run_stage(
        mine, "crossover", (settings.scored, line.config.policy), seed, work, parents=line.made("04-behavior")
    )


def _reading(settings: CrossoverConfig, folder: Path) -> dict[str, float]:
    """How well the constant is read from clips that the priors have not seen, and from samples of their conditions."""

    def work() -> dict[str, float]:
        features: dict[str, list[np.ndarray]] = {"demonstrations": [], "samples": []}
        for k in range(2):
            line = _line(settings, folder, k)
            stack = load_stack(line.folder["01-demonstrations"], line.config.prior.size)
            held = split_stack(stack, settings.holdout)[1][: settings.read]
            prior, _ = load_prior(line.folder["02-prior"] / "checkpoint")
            samples = sample_prior(prior, held.conditions, line.config.bank, seed=SCORING)
            features["demonstrations"].append(_of_recordings(held))
            features["samples"].append(np.array([_features(s.hands[0], s.object) for s in samples]))
        return {name: read_constant(*rows) for name, rows in features.items()}

    parents = tuple(p for k in range(2) for p in _line(settings, folder, k).made("02-prior"))
    return run_stage(folder / "reading", "reading", (settings.read, settings.holdout), 0, work, parents=parents)


def _of_recordings(stack: Stack) -> Float[np.ndarray, "clip number"]:
    return np.array([_features(*recorded_clip(stack, k)) for k in range(len(stack))])


_MOMENTS = 12


def _features(hand: HandTrajectory, thing: ObjectTrajectory) -> Float[np.ndarray, " number"]:
    """What contact shows itself in, of a clip: forces of the fingers, the distance of thumb and index, the object's
    height and speed, at evenly spaced moments."""
    rows = np.linspace(0, len(hand) - 1, _MOMENTS).round().astype(int)
    middle = thing.points.mean(axis=1)
    speed = np.linalg.norm(np.diff(middle, axis=0, prepend=middle[:1]), axis=1)
    pinch = np.linalg.norm(hand.joints[:, 4] - hand.joints[:, 8], axis=1)
    parts = [hand.force[rows].sum(axis=1), pinch[rows], middle[rows, 2], speed[rows], hand.contact.mean(axis=0)]
    return np.concatenate([*parts, [hand.force.sum(axis=1).max(), speed.max()]])


def read_constant(
    low: Float[np.ndarray, "clip number"], high: Float[np.ndarray, "clip number"], *, folds: int = 5, seed: int = 0
) -> float:
    """Area under the curve of a ridge-regularised linear discriminant between two sets of clips, over held-out folds:
    .5 where nothing can be told, 1 where all can.

    Raises:
        BadInput: fewer clips than folds in a set.
    """
    if min(len(low), len(high)) < folds:
        raise BadInput(f"{min(len(low), len(high))} clips in a set: {folds} folds need as many at least")
    rng = np.random.default_rng(seed)
    scores: list[tuple[np.ndarray, np.ndarray]] = []
    places = [rng.permutation(len(rows)) % folds for rows in (low, high)]
    for fold in range(folds):
        train = [rows[place != fold] for rows, place in zip((low, high), places)]
        test = [rows[place == fold] for rows, place in zip((low, high), places)]
        both = np.concatenate(train)
        shift, spread = both.mean(axis=0), np.maximum(both.std(axis=0), 1e-9)
        centred = np.concatenate([(rows - rows.mean(axis=0)) / spread for rows in train])
        within = centred.T @ centred / len(centred) + _RIDGE * np.eye(both.shape[1])
        direction = np.linalg.solve(within, (train[1].mean(axis=0) - train[0].mean(axis=0)) / spread)
        scores.append(tuple((rows - shift) / spread @ direction for rows in test))  # type: ignore[arg-type]
    return float(np.mean([_auc(*pair) for pair in scores]))


_RIDGE = 0.1


def _auc(low: Sequence[float] | np.ndarray, high: Sequence[float] | np.ndarray) -> float:
    """Share of pairs in which the second's score is the larger; ties count half."""
    apart = np.asarray(high)[:, None] - np.asarray(low)
    return float((apart > 0).mean() + 0.5 * (apart == 0).mean())
