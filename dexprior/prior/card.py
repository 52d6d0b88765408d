"""What a checkpoint says of itself: a card as the Hugging Face hub shows it, and a file by which diffusers loads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["PIPELINE", "model_card", "sources_of"]

PIPELINE = '''"""Lets diffusers load this checkpoint where the package dexprior is installed:

DiffusionPipeline.from_pretrained(FOLDER, custom_pipeline=FOLDER, trust_remote_code=True)
"""

from dexprior.prior.sampling import HandObjectPipeline  # noqa: F401
'''
"""The file `pipeline.py` of a checkpoint."""
_GENERATED = "demonstrations that dexprior generated"
_SHOWN = {
    "joints_error_mm": "21 joints, whole clip [mm]", "object_error_mm": "object, whole clip [mm]",
    "goal_error_mm": "object at the end [mm]", "contact_f1": "contact F1",
}  # fmt: skip
_NOT_STATED = "not stated"


def sources_of(info: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Where clips come from: data sets, or our own generator, with their licences and the number of clips.

    Args:
        info: what is known of each clip, as in `Stack.info`.
    """
    found = Counter(
        (str(row["data_set"]), str(row.get("licence") or _NOT_STATED)) if row.get("data_set") else (_GENERATED, "none")
        for row in info
    )
    return [{"source": source, "licence": licence, "clips": n} for (source, licence), n in found.items()]


def model_card(info: Mapping[str, Any], evaluation: Mapping[str, Any] | None = None) -> str:
    """The card of a checkpoint.

    Args:
        info: what its dexprior.json says.
        evaluation: of `evaluate_prior`, where there is one.
    """
    header, sources = info.get("header", {}), info.get("sources", [])
    free = bool(sources) and all(row["source"] == _GENERATED for row in sources)
    data = "\n".join(
        f"- {row['clips']} clips of {row['source']}"
        + ("." if row["source"] == _GENERATED else f"; their licence: {row['licence']}.")
        for row in sources
    )
    tasks = ", ".join(info.get("tasks", [])) or "not recorded"
    settings = " ".join(info.get("settings", []))
    versions = ", ".join(f"{name} {version}" for name, version in header.get("versions", {}).items())
    return f"""---
library_name: diffusers
pipeline_tag: robotics
license: {"apache-2.0" if free else "other"}
tags: [dexprior, video-diffusion, hand-object-interaction]
---

# A video prior of dexprior

A diffusion model over clips of hands and objects: motion and pixels are denoised together, from a point cloud, hand
contacts at the start and at the target, and a sentence.

## Trained on

Tasks: {tasks}. Frames a second: {info.get("fps", "not recorded")}.

{data or "- What it was trained on was not recorded."}

{_licence(sources, free)}

## How

- Steps: {info.get("steps", "not recorded")}; seed: {header.get("seed", "not recorded")}.
- Settings of `dexprior train-prior` that are not the default: {f"`{settings}`" if settings else "none recorded"}.
- Weights: {"a moving average of those that training went through" if info.get("averaged") else "the last"}.
- Versions: {versions or "not recorded"}.

## Measured

{_table(evaluation)}

## Sampling

```python
from dexprior.prior.sampling import HandObjectPipeline

prior = HandObjectPipeline.from_pretrained("FOLDER")
samples = prior(conditions, seed=0)  # a list of dexprior.types.PriorCondition
```

`DiffusionPipeline.from_pretrained("FOLDER", custom_pipeline="FOLDER", trust_remote_code=True)` of diffusers is the
same, by `pipeline.py`, which takes everything from the installed package. `dexprior sample prior=FOLDER` draws clips of
new scenes. What it cannot do: longer clips, hands and objects that are other than those it has seen.
"""


def _licence(sources: Sequence[Mapping[str, Any]], free: bool) -> str:
    if free:
        return "No recording of a person went into it. Weights: Apache-2.0, as dexprior."
    if not sources:
        return "Whether the weights may be passed on depends on the data."
    return "Whether the weights may be passed on, and what for, depends on these licences."


def _table(evaluation: Mapping[str, Any] | None) -> str:
    if evaluation is None:
        return "No evaluation is recorded; `dexprior evaluate-prior checkpoint=FOLDER` makes one."
    who = [name for name in ("prior", "nearest", "copy", "constant") if name in evaluation]
    lines = [f"| | {' | '.join(who)} |", f"|---|{'---|' * len(who)}"]
    for key, title in _SHOWN.items():
        cells = [evaluation[name].get(key) for name in who]
        shown = ["-" if v is None else f"{v['mean']:.3g} [{v['low']:.3g}, {v['high']:.3g}]" for v in cells]
        lines.append(f"| {title} | {' | '.join(shown)} |")
    n = evaluation.get("clips", {}).get("held_out")
    held = "clips" if n is None else f"{n} clips"
    table = "\n".join(lines)
    return f"""{table}

On {held} that were held out, with 95 % intervals, beside predictors that learn little: the training clip with the
nearest condition, the condition's start and target joined by a straight line, and the mean training clip."""
