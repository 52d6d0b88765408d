"""Every stage on the embedded default, in order, ending on OUT/report.html.

preset=smoke does the same in under 90 seconds at a size where nothing is learned well. A killed demo goes on where it
stopped, and redoes no finished stage.
"""

from __future__ import annotations

from dexprior.pipeline.demo import DemoConfig

Config = DemoConfig


def run(config: DemoConfig, words: list[str]) -> int:
    """Run and name the report."""
    from dexprior.pipeline.demo import run_demo

    print(run_demo(config))
    return 0
