"""Sample clips from the prior, each with its hand and object motion.

Conditions are those of new scenes of a task that the prior was trained on, or read from a file of `PriorCondition`s.
Writes samples.safetensors, conditions.safetensors beside it, and one mp4 a sample.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from dexprior.cli.show import show, trained
from dexprior.config import Ge, config

if TYPE_CHECKING:
    from dexprior.types import PriorCondition


@config
class Config:
    """Settings of `dexprior sample`."""

    prior: str | None = None
    """Run folder of the video prior; by default that of train-prior, then the demo's."""
    conditions: str | None = None
    """File of conditions; new scenes are drawn when it is not given."""
    task: str | None = None
    """Whose scenes; by default the first of the tasks that the prior was trained on."""
    sentence: str | None = None
    """What is asked for in each scene of a task of the suite; drawn when it is not given."""
    n: Annotated[int, Ge(1)] = 4
    """Scenes to draw."""
    seed: Annotated[int, Ge(0)] = 0
    """Of scenes and samples."""
    out: str = "runs/samples"
    """Folder."""
    motion_steps: Annotated[int, Ge(1)] = 12
    """Euler steps of the motion stream."""
    video_steps: Annotated[int, Ge(1)] = 2
    """Euler steps of the video stream."""


def run(config: Config, words: list[str]) -> int:
    """Sample and write."""
    from dexprior.artifacts import load_all, save
    from dexprior.data.clips import write_clip
    from dexprior.errors import BadInput
    from dexprior.prior.evaluation import Motion, contact_law_violations
    from dexprior.prior.sampling import load_prior
    from dexprior.types import PriorCondition

    folder = trained(
        config.prior, ["runs/prior", "runs/demo/02-prior"], "checkpoint", "video prior",
        "dexprior demo` or `dexprior train-prior",
    )  # fmt: skip
    pipeline, info = load_prior(folder)
    if config.conditions is not None:
        conditions = load_all(config.conditions, PriorCondition)
    else:
        task = config.task or next(iter(info["tasks"]), None)
        if task is None:
            raise BadInput(f"{folder} was trained on no task that dexprior has scenes of: give conditions=FILE")
        conditions = _drawn(config, task, pipeline.denoiser.config)
    samples = pipeline(
        conditions, seed=config.seed, motion_steps=config.motion_steps,
        video_steps=config.video_steps, provenance={"checkpoint": str(folder)},
    )  # fmt: skip
    out = Path(config.out)
    save(conditions, out / "conditions.safetensors", producer="sample", seed=config.seed)
    save(samples, out / "samples.safetensors", producer="sample", seed=config.seed, config=config)
    for k, sample in enumerate(samples):
        write_clip(out / f"{k:03d}.mp4", sample.frames, sample.fps)
    show(
        {
            "samples": len(samples),
            "out": str(out),
            "laws": [contact_law_violations(Motion.of(s), c) for s, c in zip(samples, conditions)],
        }
    )
    return 0


def _drawn(config: Config, task: str, net: Any) -> list[PriorCondition]:
    """Conditions of new scenes."""
    from dexprior.data.demonstrating import condition_of
    from dexprior.worlds.tasks import SUITE, Task, human_task, strategies_of

    rng = np.random.default_rng(config.seed)
    seeds = [config.seed + i for i in range(config.n)]
    every = max(round(1.0 / net.fps / Task.control_dt), 1)
    # ways of doing it whose clips are as long as this prior knows them
    sentences = [text for way in strategies_of(task) if way.seconds * net.fps <= net.frames for text in way.sentences]
    conditions = []
    for seed in seeds:
        made = human_task(task, int(rng.integers(len(SUITE[task].variants))))
        scene = {name: value[0] for name, value in made.sample(rng, 1).items()}
        text = config.sentence or (sentences[int(rng.integers(len(sentences)))] if sentences else None)
        conditions.append(condition_of(made, scene, seed=seed, size=net.size, sentence=text, every=every))
    return conditions
