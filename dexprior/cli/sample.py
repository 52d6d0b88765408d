"""Sample clips from the prior, each with its hand and object motion.

Conditions are drawn from new scenes, or read from a file of `PriorCondition`s. Writes samples.safetensors and one mp4
a sample.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np

from dexprior.cli.show import show, trained
from dexprior.config import Ge, config


@config
class Config:
    """Settings of `dexprior sample`."""

    prior: str | None = None
    """Run folder of the video prior; by default that of train-prior, then the demo's."""
    conditions: str | None = None
    """File of conditions; new scenes are drawn when it is not given."""
    n: Annotated[int, Ge(1)] = 4
    """Scenes to draw."""
    seed: Annotated[int, Ge(0)] = 0
    """Of scenes and samples."""
    out: str = "runs/samples"
    """Folder."""
    motion_steps: Annotated[int, Ge(1)] = 12
    """Euler steps of the motion stream."""
    video_steps: Annotated[int, Ge(1)] = 3
    """Euler steps of the video stream."""


def run(config: Config, words: list[str]) -> int:
    """Sample and write."""
    from dexprior.artifacts import load_all, save
    from dexprior.data.clips import write_clip
    from dexprior.data.demonstrations import scene_condition
    from dexprior.prior.evaluation import contact_law_violations
    from dexprior.prior.sampling import load_prior
    from dexprior.types import PriorCondition
    from dexprior.worlds.insertion import InsertionConfig, sample_scenes

    folder = trained(
        config.prior, ["runs/prior", "runs/demo/02-prior"], "checkpoint", "video prior",
        "dexprior demo` or `dexprior train-prior",
    )  # fmt: skip
    pipeline, info = load_prior(folder)
    size = pipeline.denoiser.config.size
    if config.conditions is not None:
        conditions = load_all(config.conditions, PriorCondition)
    else:
        scenes = sample_scenes(np.random.default_rng(config.seed), config.n)
        conditions = [
            scene_condition(InsertionConfig(), {k: v[i] for k, v in scenes.items()}, seed=config.seed + i, size=size)
            for i in range(config.n)
        ]
    samples = pipeline(
        conditions, seed=config.seed, fps=info["fps"], motion_steps=config.motion_steps,
        video_steps=config.video_steps, provenance={"checkpoint": str(folder)},
    )  # fmt: skip
    out = Path(config.out)
    save(samples, out / "samples.safetensors", producer="sample", seed=config.seed, config=config)
    for k, sample in enumerate(samples):
        write_clip(out / f"{k:03d}.mp4", sample.frames, sample.fps)
    show(
        {
            "samples": len(samples),
            "out": str(out),
            "laws": [contact_law_violations(s, InsertionConfig()) for s in samples],
        }
    )
    return 0
