"""Does a policy without the KL drift from what works elsewhere, and does the KL hold it?

All arms of a seed go on from one warm-up, in a training world that is wrong in a way that pays, for long; along the way
each is judged in that world and in fixed worlds elsewhere, on scenes that nothing was trained on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from dexprior.artifacts import write_json
from dexprior.behavior import BehaviorPrior
from dexprior.config import Ge, config
from dexprior.envs.factory import SimulationOptions
from dexprior.envs.panel import Panel
from dexprior.errors import ArtifactError
from dexprior.families import SensorModels, SightConfig
from dexprior.pipeline.stages import parents_of, run_stage
from dexprior.pipeline.worlds import SCORING
from dexprior.policy.actor import save_actor
from dexprior.policy.kl import KlConfig
from dexprior.policy.optimising import Judge
from dexprior.policy.ppo import PpoConfig, train_ppo, warm_up_of
from dexprior.policy.rollout import actor_policy
from dexprior.progress import say
from dexprior.studies.kl.seeds import over_seeds
from dexprior.studies.kl.worlds import elsewhere, looked, wrong_family
from dexprior.studies.parts import Part, run_parts
from dexprior.worlds.tasks import robot_task

__all__ = ["ARMS", "MechanismConfig", "study_mechanism"]

Arm = Literal["annealed", "none", "fixed", "adaptive", "small"]
ARMS: dict[Arm, KlConfig] = {
    "annealed": KlConfig(start=0.1, end=0.01, patience=0), "none": KlConfig(start=0.0, patience=0),
    "fixed": KlConfig(schedule="fixed", start=0.1, patience=0),
    "adaptive": KlConfig(schedule="adaptive", start=0.1, target=2.0, patience=0),
    "small": KlConfig(schedule="fixed", start=0.01, patience=0),
}  # fmt: skip
"""Weight of the KL in each arm."""


@config
class MechanismConfig:
    """A long training in a wrong world."""

    task: str = "peg"
    """Task of the suite: peg, pick_place or soft_grasp, or another one with `wrong`."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the task, where they differ from its row in the suite."""
    behavior: str = "runs/demo/04-behavior"
    """Folder of the bank, of that task."""
    wrong: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Parameters of the training family and ranges that are wrong in a way that pays; those known of the task by
    default."""
    arms: tuple[Arm, ...] = ("annealed", "none", "fixed")
    """Weights of the KL that are compared over all seeds..."""
    once: tuple[Arm, ...] = ("adaptive", "small")
    """...and those that are tried with the first seed alone."""
    seeds: Annotated[int, Ge(1)] = 5
    """Seeds of the training, from 0."""
    every: Annotated[int, Ge(1)] = 8
    """Iterations between two looks."""
    vectors: Annotated[int, Ge(1)] = 4
    """Fixed worlds elsewhere."""
    scenes: Annotated[int, Ge(1)] = 32
    """Scenes in each of them, and in the training world."""
    policy: PpoConfig = PpoConfig(
        worlds=48, iterations=120, warmup=10,
        simulation=SimulationOptions(sensors=SensorModels(sight=SightConfig(labels=False))),
    )  # fmt: skip
    """PPO; the KL's weight is the arm's."""


def study_mechanism(
    config: MechanismConfig, folder: Path, *, jobs: int = 1, say: Callable[[str], None] = say
) -> dict[str, Any]:
    """Train and judge what was not done yet; writes `mechanism.json` and `mechanism.html` into the folder.

    Args:
        config: all settings.
        folder: each part has a folder of its own in it.
        jobs: parts that run side by side.
        say: where progress lines go.

    Returns:
        `arms`: arm -> seed -> rows of its curve; `held`: differences of each arm from the one without the KL over
        seeds, at the end, in each place; `drift`: by how much each arm's best look elsewhere exceeds its last.

    Raises:
        ArtifactError: no bank, or a folder of another configuration.
        BadInput, UnknownName: a bank of another task, or nothing wrong is known of it.
    """
    task = robot_task(config.task, **config.settings)
    wrong_family(task, config.wrong or None)
    _bank(config)
    parts: dict[str, Part] = {}
    for seed in range(config.seeds):
        for arm in (None, *config.arms, *(config.once if seed == 0 else ())):
            needs = () if arm is None else (f"warm-up-{seed}",)
            parts[f"{arm or 'warm-up'}-{seed}"] = functools.partial(_part, config, folder, arm, seed), needs
    found = _gathered(config, run_parts(parts, folder, jobs=jobs, say=say))
    write_json(folder / "mechanism.json", found)
    from dexprior.studies.kl.page import mechanism_page

    mechanism_page(config, found, folder / "mechanism.html")
    return found


def _bank(config: MechanismConfig) -> tuple[BehaviorPrior, Panel]:
    folder = Path(config.behavior)
    bank, panel = BehaviorPrior.load(folder / "behavior.safetensors"), Panel.load(folder / "panel.json")
    if panel.task != config.task:
        raise ArtifactError(f"{folder} holds a bank of {panel.task!r}, the study is of {config.task!r}")
    return bank, panel


def _part(config: MechanismConfig, folder: Path, arm: Arm | None, seed: int) -> dict[str, Any]:
    """One arm of one seed, or the warm-up that all of its arms go on from."""
    task = robot_task(config.task, **config.settings)
    family, (bank, panel) = wrong_family(task, config.wrong or None), _bank(config)
    there = Panel.sample("training", task, config.scenes, seed=SCORING, family=family)
    places = {"elsewhere": elsewhere(task, vectors=config.vectors, scenes=config.scenes), "training": (task, there)}
    policy = warm_up_of(config.policy) if arm is None else replace(config.policy, kl=ARMS[arm])
    mine = folder / f"{arm or 'warm-up'}-{seed}"
    warm = None if arm is None else folder / f"warm-up-{seed}" / "state.safetensors"

    def work() -> dict[str, Any]:
        actor, curve = train_ppo(
            task, panel.moved_to("wrong", family, seed=seed), bank, policy, mine, seed=seed, warm=warm,
            judge=Judge(config.every, lambda a: looked(actor_policy(a), places, policy.simulation.sensors)),
        )  # fmt: skip
        save_actor(actor, mine / "actor.safetensors", seed=seed, extra={"arm": arm})
        return {"curve": curve}

    parents = parents_of(Path(config.behavior) / "behavior.safetensors", *([] if warm is None else [warm]))
    kept = (config.task, config.settings, config.wrong, policy, config.every, config.vectors, config.scenes)
    return run_stage(mine, "mechanism", kept, seed, work, parents=parents)


def _gathered(config: MechanismConfig, results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    arms = {
        arm: {seed: results[f"{arm}-{seed}"]["curve"] for seed in range(config.seeds if arm in config.arms else 1)}
        for arm in (*config.arms, *config.once)
    }
    looks = {
        arm: {seed: [row for row in curve if "elsewhere" in row] for seed, curve in seeds.items()}
        for arm, seeds in arms.items()
    }
    held = {}
    if "none" in looks:
        for arm in looks:
            shared = [seed for seed in looks[arm] if seed in looks["none"]] if arm != "none" else []
            if shared:
                held[arm] = {
                    place: over_seeds(*([looks[a][seed][-1][place] for seed in shared] for a in (arm, "none")))
                    for place in ("elsewhere", "training")
                }
    drift = {
        arm: over_seeds([_best(rows) - rows[-1]["elsewhere"] for rows in seeds.values()])
        for arm, seeds in looks.items()
    }
    return {"task": config.task, "arms": arms, "held": held, "drift": drift}


def _best(rows: list[dict[str, float]]) -> float:
    """Best of smoothed looks: a single one swings."""
    values = np.array([row["elsewhere"] for row in rows])
    return float(max(values[max(k - 2, 0) : k + 1].mean() for k in range(len(values))))
