"""What a prior that is being trained does with clips that it never sees: losses, samples, and a picture of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from dexprior.artifacts import write_json
from dexprior.config import Ge, config
from dexprior.data.stacks import Stack
from dexprior.prior.denoiser import JointDenoiser
from dexprior.prior.evaluation import Motion, evaluate_samples
from dexprior.prior.sampling import HandObjectPipeline
from dexprior.types import VideoSample

__all__ = ["ValidationConfig", "validate"]

_METRICS = {"joints_error_mm": "joints_error_mm", "goal_error_mm": "object_end_mm", "contact_f1": "contact_f1"}
"""What `evaluate_samples` calls it -> what a log does."""
_SCALE = 2  # pixels of the picture to one of the clip


@config
class ValidationConfig:
    """What is looked at while the prior is trained."""

    every: Annotated[int, Ge(0)] = 0
    """Steps between two looks at held-out clips, whose losses, errors and samples go to the log and to the run's
    folder `validation`; 0 for none. What is trained is the same to the last bit with and without."""
    samples: Annotated[int, Ge(1)] = 4
    """Held-out clips whose conditions are sampled for."""


def validate(
    model: JointDenoiser,
    held: Stack,
    losses: Callable[[JointDenoiser], dict[str, float]],
    folder: Path,
    *,
    step: int,
    samples: int,
) -> tuple[dict[str, float], Path]:
    """Judge a prior on held-out clips; what it draws at random is always the same.

    Args:
        model: ready for evaluation.
        held: clips that are held out.
        losses: of the model on them, by term.
        folder: STEP.json gets the numbers, STEP.gif the clips.
        step: after which it is judged.
        samples: how many conditions are sampled for: those of the first clips.

    Returns:
        Losses by term; of the samples the mean distance of the joints and of the object at the end [mm], and the F1 of
        contact; and the moving picture: samples above, the clips that they are held against below.
    """
    few = held[:samples]
    pipeline = HandObjectPipeline.fresh(model)
    pipeline.set_progress_bar_config(disable=True)
    made = pipeline(few.conditions, seed=0)
    found = evaluate_samples([Motion.of(sample) for sample in made], few)
    metrics = {name: found[key]["mean"] for key, name in _METRICS.items() if found[key] is not None}
    numbers = {name: round(value, 6) for name, value in {**losses(model), **metrics}.items()}
    write_json(folder / f"{step:06d}.json", {"step": step, **numbers})
    return numbers, _film(made, few, folder / f"{step:06d}.gif")


def _film(made: list[VideoSample], real: Stack, path: Path) -> Path:
    """Samples in a row, with the recorded clips below; what has ended stands still."""
    clips = [[sample.frames for sample in made], [real.seen(k) for k in range(len(real))]]
    time = max(len(clip) for row in clips for clip in row)

    def at(clip: UInt8[np.ndarray, "time size size 3"], k: int) -> UInt8[np.ndarray, "size size 3"]:
        return clip[min(k, len(clip) - 1)].repeat(_SCALE, axis=0).repeat(_SCALE, axis=1)

    shown = [
        Image.fromarray(np.concatenate([np.concatenate([at(clip, k) for clip in row], axis=1) for row in clips]))
        for k in range(time)
    ]
    shown[0].save(path, save_all=True, append_images=shown[1:], duration=round(1000 / real.fps), loop=0)
    return path
