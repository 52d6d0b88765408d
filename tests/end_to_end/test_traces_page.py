"""The page about traces: its program runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

from dexprior.data.traces import read_channel_layout

PAGE = Path(__file__).resolve().parents[2] / "docs" / "traces.md"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


def test_the_program_records_and_reads(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(block("python"), names)
    trace = names["trace"]
    assert trace["force"].value.shape == (100, 3)
    assert trace.info == {"events": [[0.5, 1000.5, "contact"]]}


def test_the_layout_is_one(tmp_path):
    (tmp_path / "layout.yaml").write_text(block("yaml"))
    layout = read_channel_layout(tmp_path / "layout.yaml")
    assert layout["joints"].field == "position"
    assert layout["goal"].kind == "commanded"
