"""Parts of a study, each in a folder of its own: side by side, and none done twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dexprior.artifacts import RunFolder
from dexprior.pipeline.steps import Step, cores_each, run_steps
from dexprior.progress import say

__all__ = ["Part", "run_parts"]

Part = tuple[Callable[[], dict[str, Any]], tuple[str, ...]]
"""What is done, which can be sent to another process, and the names of the parts that come before it."""


def run_parts(
    parts: Mapping[str, Part], folder: Path, *, jobs: int, say: Callable[[str], None] = say
) -> dict[str, dict[str, Any]]:
    """Do the parts that are not done yet; returns what all of them found, by name.

    Args:
        parts: in an order in which each comes after what it needs; a part records its end in `folder / name`.
        folder: of the study.
        jobs: parts that run side by side, each in a process of its own; 1 takes this process.
        say: where progress lines go.
    """
    steps = {
        name: Step(work=work, needs=needs, finished=RunFolder.finished(folder / name))
        for name, (work, needs) in parts.items()
    }
    said = {name for name, step in steps.items() if step.finished}
    return run_steps(
        steps, jobs=jobs, threads=None if jobs == 1 else cores_each(jobs),
        began=lambda name: None if name in said else say(name),
        ended=lambda name: None if name in said else say(f"{name}: done"),
    )  # fmt: skip
