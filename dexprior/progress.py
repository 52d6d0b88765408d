"""Long work shows where it is: lines, a bar with rate and estimate, losses in TensorBoard, and a history to keep."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["TrainingLog", "place_in_parts", "say"]


def say(text: str) -> None:
    """Write a progress line to standard error."""
    print(text, file=sys.stderr, flush=True)


def place_in_parts(step: int, parts: Sequence[int]) -> tuple[int, int]:
    """Place of a step of a training and its continuations: its number within its part, and that part's steps.

    Args:
        step: counted from the beginning of the first part.
        parts: steps of each part.

    Raises:
        ValueError: a step behind the last part.
    """
    before = 0
    for steps in parts:
        if step < before + steps:
            return step - before, steps
        before += steps
    raise ValueError(f"step {step} of {before}")


class TrainingLog:
    """Bar, TensorBoard and history of one training run; a resumed run goes on where the history ends.

    Args:
        folder: TensorBoard's events go below it.
        name: what the bar says.
        total: steps of the whole run.
        history: rows of an earlier part of the run, extended in place.
        quiet: neither bar nor TensorBoard, e.g. for all but one of several processes.
    """

    def __init__(
        self, folder: Path, name: str, total: int, history: list[dict[str, float]], *, quiet: bool = False
    ) -> None:
        from torch.utils.tensorboard import SummaryWriter
        from tqdm import tqdm

        self.history = history
        done = int(history[-1]["step"]) if history else 0
        self._writer = None if quiet else SummaryWriter(str(folder / "tensorboard"), purge_step=done)
        self._bar: Any = tqdm(total=total, initial=done, desc=name, unit="step", disable=quiet)
        self._shown = 0

    def __enter__(self) -> TrainingLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()
        if self._writer is not None:
            self._writer.close()

    def add(self, step: int, row: dict[str, float], *, show: tuple[str, ...] = ()) -> None:
        """Record the numbers of the work up to `step`; `show` names those that the bar carries (all by default)."""
        advanced = step - (int(self.history[-1]["step"]) if self.history else 0)
        self.history.append({"step": step, **row})
        if self._writer is not None:
            for name, value in row.items():
                self._writer.add_scalar(name, value, step)
        self._bar.update(advanced)
        self._shown += 1
        if self._shown % 20 == 0 or advanced > 1:
            self._bar.set_postfix({k: f"{row[k]:.3f}" for k in (show or row)}, refresh=False)
