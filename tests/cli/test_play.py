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


def test_a_policy_plays_the_task_that_it_was_trained_for(tmp_path, capsys):
    assert main(["play", "policy=shipped", "n=8", "film=1", "size=32", f"out={tmp_path}"]) == 0
    told, kept = capsys.readouterr(), json.loads((tmp_path / "pick_place.json").read_text())
    assert "policy: the small one of pick_place that comes with dexprior" in told.err
    assert kept["solved"] >= 5  # 108 of 128 when it was made
    assert kept["player"].endswith("policy")
    assert probe_clip(tmp_path / "pick_place.mp4").frames > 100


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
        (["n=100000000"], "play.n = 100000000"),
        (["settings.name=peg"], "task peg.name: unknown key"),
        (["settings.injectors.light=abc"], "injector 'light': strength 'abc' is no number"),
        (["settings.injectors=3"], "injectors = 3: expected strengths by name"),
        (["settings.injectors.light=1", "settings.injector_seed=abc"], "seed 'abc' is no integer"),
        (["settings.arm=stand"], "arm 'stand' has no joints"),
        (["task=nut_bolt", "settings.thread.pitch=0.5"], "the bolt has room for"),
        (["policy=nowhere"], "no policy found (looked at nowhere)"),
        (["policy=shipped", "task=peg"], "the policy shipped was trained for 'pick_place'"),
        (["policy=shipped", "settings.mass=1"], "give no settings= and no player="),
        (["settings.mass=1e-20"], "MuJoCo cannot build its scene"),
    ],
)
def test_wrong_settings_are_named(arguments, message, tmp_path, capsys):
    assert main(["play", *arguments, f"out={tmp_path}"]) == 1
    assert message in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_an_expert_says_which_robot_it_cannot_play(tmp_path, capsys):
    settings = ["task=pick_place", "settings.end_effector=claw4", "n=1", "film=0"]
    assert main(["play", *settings, f"out={tmp_path}"]) == 1
    message = capsys.readouterr().err
    assert "expert of 'pick_place' sends 7 numbers, arm7 with claw4 takes 18" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [("x = 1\nimport no_such_package\n", "line 2: ModuleNotFoundError"), ("def (\n", "line 1: SyntaxError")],
)
def test_a_module_that_fails_is_one_line(text, message, tmp_path, capsys):
    module = tmp_path / "mine.py"
    module.write_text(text)
    assert main(["play", f"module={module}", f"out={tmp_path / 'out'}"]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_folder_that_cannot_be_made_is_found_before_anything_is_played(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("dexprior.envs.tasks.play", lambda *_, **__: pytest.fail("played for nothing"))
    assert main(["play", "n=1", "film=0", f"out={tmp_path / 'file'}"]) == 1
    assert str(tmp_path / "file") in capsys.readouterr().err
