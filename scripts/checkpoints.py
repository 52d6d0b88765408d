"""Trained sets for the tasks of the line, each with a card and checksums.

    python scripts/checkpoints.py               sets below runs/checkpoints: what `make checkpoints` does
    python scripts/checkpoints.py --preset tiny --tasks pick_place --out checkpoints    the one that ships

Runs stay in RUNS/TASK, so that what is killed goes on, and what is finished is not done again. A threaded nut and a
cloth cost tens of times as much (`dexprior demo --help`): name them by --tasks where hours are to be had.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dexprior.cli.compose import compose
from dexprior.cli.demo import Config
from dexprior.pipeline.checkpoints import make_checkpoints
from dexprior.pipeline.line import Line
from dexprior.worlds.tasks import demonstrated_tasks

SETTINGS = {
    "peg": ("prior.holdout=0.2", "bank.scenes=192", "policy.warmup=14", "policy.iterations=30"),
    "soft_grasp": ("settings.timestep=0.004",),
}
"""What a task takes beside the demo's settings, as docs/measurements/line.md measured it."""
TASKS = ("pick_place", "peg", "insertion", "soft_grasp")


def main() -> None:
    """Read the arguments and make the sets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=demonstrated_tasks(), help="which tasks")
    parser.add_argument("--preset", default="full", help="sizes: a preset of the demo, full or tiny")
    parser.add_argument("--runs", type=Path, default=Path("runs/checkpoint-runs"), help="folder of the runs")
    parser.add_argument("--out", type=Path, default=Path("runs/checkpoints"), help="folder of the sets")
    parser.add_argument("words", nargs="*", help="further settings of the demo, as key=value")
    chosen = parser.parse_args()
    for task in chosen.tasks:
        own = [
            f"task={task}",
            f"out={chosen.runs / task}",
            *(SETTINGS.get(task, ()) if chosen.preset == "full" else ()),
        ]
        line = Line(compose("demo", Config, [f"preset={chosen.preset}", *own, *chosen.words]))
        print(make_checkpoints(line, chosen.out / task))


if __name__ == "__main__":
    main()
