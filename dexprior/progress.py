"""Long work shows where it is: lines, a bar with rate and estimate, losses in a tracker, and a history to keep."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from dexprior.extras import require

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
    """Bar, tracker and history of one training run; a resumed run goes on where the history ends.

    Args:
        folder: what the tracker writes goes below it.
        name: what the bar says.
        total: steps of the whole run.
        history: rows of an earlier part of the run, extended in place.
        quiet: neither bar nor tracker, e.g. for all but one of several processes.
        to: the tracker: tensorboard, or wandb (the extra `wandb`).

    Raises:
        MissingExtra: the tracker is not installed.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        total: int,
        history: list[dict[str, float]],
        *,
        quiet: bool = False,
        to: Literal["tensorboard", "wandb"] = "tensorboard",
    ) -> None:
        from tqdm import tqdm

        self.history = history
        done = int(history[-1]["step"]) if history else 0
        self._tracker = None if quiet else (_TensorBoard(folder, done) if to == "tensorboard" else _Wandb(folder, name))
        self._bar: Any = tqdm(total=total, initial=done, desc=name, unit="step", disable=quiet)
        self._shown = 0

    def __enter__(self) -> TrainingLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()
        if self._tracker is not None:
            self._tracker.close()

    def add(self, step: int, row: dict[str, float], *, show: tuple[str, ...] = ()) -> None:
        """Record the numbers of the work up to `step`; `show` names those that the bar carries (all by default)."""
        advanced = step - (int(self.history[-1]["step"]) if self.history else 0)
        self.history.append({"step": step, **row})
        self.note(step, row)
        self._bar.update(advanced)
        self._shown += 1
        if self._shown % 20 == 0 or advanced > 1:
            self._bar.set_postfix({k: f"{row[k]:.3f}" for k in (show or row)}, refresh=False)

    def note(self, step: int, row: dict[str, float], *, under: str = "") -> None:
        """Tell the tracker numbers that are no part of the history, such as what the machine did meanwhile.

        Args:
            step: that they belong to.
            row: the numbers.
            under: a heading for their names.
        """
        if self._tracker is not None and row:
            self._tracker.numbers(step, {f"{under}/{name}" if under else name: value for name, value in row.items()})

    def picture(self, step: int, name: str, path: Path) -> None:
        """Show the tracker a moving picture, a GIF."""
        if self._tracker is not None:
            self._tracker.picture(step, name, path)


class _TensorBoard:
    """Events below the run's folder."""

    def __init__(self, folder: Path, done: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=done)

    def numbers(self, step: int, row: dict[str, float]) -> None:
        for name, value in row.items():
            self._writer.add_scalar(name, value, step)

    def picture(self, step: int, name: str, path: Path) -> None:
        """As it is: the writer's own `add_video` would want another package to make a GIF of the same pixels."""
        from PIL import Image
        from tensorboard.compat.proto.summary_pb2 import Summary

        with Image.open(path) as picture:
            width, height = picture.size
        image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=path.read_bytes())
        summary = Summary(value=[Summary.Value(tag=name, image=image)])
        self._writer.file_writer.add_summary(summary, step)

    def close(self) -> None:
        self._writer.close()


class _Wandb:
    """A run of Weights & Biases, whose identifier stays in the folder so that a resumed training goes on with it.

    Where it goes, and whether it goes anywhere, the variables of wandb say: WANDB_MODE=offline keeps it in the folder.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._wandb = require("wandb")
        folder.mkdir(parents=True, exist_ok=True)
        note = folder / "wandb-run.txt"
        if not note.exists():
            note.write_text(uuid.uuid4().hex[:12] + "\n")
        self._run = self._wandb.init(
            project="dexprior", name=f"{name}: {folder.name}", id=note.read_text().strip(), dir=str(folder),
            resume="allow",
        )  # fmt: skip

    def numbers(self, step: int, row: dict[str, float]) -> None:
        self._run.log(row, step=step)

    def picture(self, step: int, name: str, path: Path) -> None:
        self._run.log({name: self._wandb.Video(str(path), format="gif")}, step=step)

    def close(self) -> None:
        self._run.finish()
