"""The example of docs/collection-plan.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

from dexprior.transfer.collection import read_protocols

PAGE = Path(__file__).parents[2] / "docs" / "collection-plan.md"


def block(language: str) -> str:
    found = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(found) == 1
    return found[0]


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(compile(block("python"), str(PAGE), "exec"), names)
    assert capsys.readouterr().out.strip().endswith("closed")
    assert names["reading"].after.contribution("contact")["low"] > 0.15
    assert names["plan"].hours <= 60


def test_the_yaml_overrides_what_it_says(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(block("yaml"))
    assert read_protocols(path)["on_site"].collection_hours == 14
