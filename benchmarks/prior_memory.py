"""Growth of resident memory over a training of the video prior, of a size that teaches nothing.

Prints a JSON line {name, value, unit, steps, warm_gib, last_gib}: growth after the first quarter of the steps.

    python benchmarks/prior_memory.py [steps]       5,000 take some eight CPU-minutes
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from dexprior.data.demonstrating import TaskDemonstrationConfig, generate_demonstrations
from dexprior.data.stacks import load_stack, split_stack
from dexprior.prior.training import PriorConfig, train_prior
from dexprior.prior.validation import ValidationConfig


def main(steps: int = 5000) -> None:
    """Train and print."""
    config = PriorConfig(
        size=32, width=32, layers=1, heads=2, channels=10, batch=6, video_clips=2, video_window=4, steps=steps,
        checkpoint_every=max(steps // 20, 1), ema=0.999, validate=ValidationConfig(every=max(steps // 8, 1), samples=1),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        few = TaskDemonstrationConfig(n=16, size=32, cameras=("front",), depth=(), workers=1)
        generate_demonstrations("pick_place", few, Path(folder) / "demonstrations", seed=0)
        train, held_out = split_stack(load_stack(Path(folder) / "demonstrations", 32), 0.2)
        train_prior(train, config, Path(folder), seed=0, held_out=held_out)
        memory = _logged(Path(folder) / "tensorboard", "machine/memory_gib")
    warm = memory[len(memory) // 4 :]
    third = max(len(warm) // 3, 1)
    first, last = float(np.median(warm[:third])), float(np.median(warm[-third:]))
    row = {"name": "growth of resident memory after warm-up", "value": 100 * (last / first - 1), "unit": "%"}
    print(json.dumps(row | {"steps": steps, "warm_gib": first, "last_gib": last}))


def _logged(folder: Path, name: str) -> list[float]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return [event.value for event in events.Scalars(name)]


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
