"""Every stage of the line for one task, in order, ending on OUT/report.html, with what succeeds after each stage.

dexprior demo task=peg out=runs/peg     another task with human demonstrations

These are pick_place, peg, insertion, nut_bolt, soft_grasp and folding. A control step with a soft fruit costs some five
times one with a peg, with a cloth twenty times (settings.engine=particles: five), with a threaded nut forty times: give
them fewer scenes (policy.worlds, scored, evaluation.repeats), or hours.

preset=smoke does the same in a minute or two, at a size where nothing is learned well. A killed demo goes on where it
stopped, and redoes no finished stage.
"""

from __future__ import annotations

from dexprior.pipeline.settings import LineConfig

Config = LineConfig
HELP: dict[str, tuple[str, ...]] = {
    "": (
        "task",
        "settings",
        "out",
        "seed",
        "jobs",
        "threads",
        "demonstrations.n",
        "prior.steps",
        "bank.scenes",
        "policy.iterations",
        "scored",
        "evaluation.instances",
    ),
}
"""What `--help` shows, of the verb and of its words; what ends in a dot, `--help all` shows."""


def run(config: LineConfig, words: list[str]) -> int:
    """Run and name the report."""
    from dexprior.pipeline.demo import run_demo

    print(run_demo(config))
    return 0
