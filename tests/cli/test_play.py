"""`dexprior play`."""

from __future__ import annotations

import json

import pytest

from dexprior.cli.main import main
from dexprior.data.readers import probe_clip


def test_it_counts_and_films(tmp_path, capsys):
    settings = ["task=peg", "settings.clearance=0.0005", "settings.start=held", "n=2", "film=1", "size=32"]
    assert main(["play", *settings, f"out={tmp_path}"]) == 0
    shown = json.loads(capsys.readouterr().out)
    kept = json.loads((tmp_path / "peg.json").read_text())
    assert shown == kept
    assert kept["settings"] == {"clearance": 0.0005, "start": "held"}
    assert kept["solved"] == 2
    assert probe_clip(tmp_path / "peg.mp4").frames == 76  # 3 s and the start


def test_nested_settings_reach_the_task(tmp_path):
    arguments = ["task=pick_place", "player=still", "settings={half_size: 0.03}", "n=1", "film=0", f"out={tmp_path}"]
    assert main(["play", *arguments]) == 0
    assert json.loads((tmp_path / "pick_place.json").read_text())["solved"] == 0
    assert not (tmp_path / "pick_place.mp4").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["task=juggling"], "pick_place"),
        (["settings.clearence=1"], "Did you mean 'clearance'"),
        (["setings.clearance=1"], "Known here: task, module, settings"),
        (["player=human"], "expert"),
        (["module=nowhere.py"], "no such Python file"),
        (["film=2", "n=2", "size=33"], "33 px"),
    ],
)
def test_wrong_settings_are_named(arguments, message, tmp_path, capsys):
    assert main(["play", *arguments, f"out={tmp_path}"]) == 1
    assert message in capsys.readouterr().err
    assert not any(tmp_path.iterdir())
