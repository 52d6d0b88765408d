"""The line for one task of the suite, and the ladder: what succeeds after each of its stages, in every judging world.

dexprior ladder task=pick_place out=runs/pick_place
dexprior ladder task=peg out=runs/peg scored=64

Stages that are done are not done again: a second call with the same settings prints the table.
"""

from __future__ import annotations

from dexprior.pipeline.line import LineConfig

Config = LineConfig


def run(config: LineConfig, words: list[str]) -> int:
    """Do what is missing, and print the table."""
    from dexprior.pipeline.ladder import table
    from dexprior.pipeline.line import Line

    print(table(Line(config).run()))
    return 0
