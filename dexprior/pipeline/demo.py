"""The demo: every stage of the line in order, resumable, ending on one page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dexprior.artifacts import write_json
from dexprior.pipeline.line import Line
from dexprior.pipeline.report import write_report
from dexprior.pipeline.settings import LineConfig
from dexprior.progress import say

__all__ = ["run_demo"]


def run_demo(config: LineConfig, *, say: Callable[[str], None] = say) -> Path:
    """Run every stage that is not finished, then write the report; returns its path.

    Killed at any point, it goes on from the last checkpoint of the stage that was under way.

    Args:
        config: all settings.
        say: where progress lines go; standard error by default.
    """
    line = Line(config)
    results = line.run(say=say)
    write_json(Path(config.out) / "results.json", {name: _short(result) for name, result in results.items()})
    report = write_report(line, results)
    say(f"report: {report}")
    return report


def _short(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name != "curve"}
