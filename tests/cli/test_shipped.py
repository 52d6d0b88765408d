"""What ships with the package is taken where nothing was trained: from a sentence to a robot, with no run before."""

from __future__ import annotations

import json

import pytest

from dexprior.cli.main import main
from dexprior.cli.places import shipped


def test_clips_are_sampled_read_and_retargeted_with_what_ships(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["sample", "n=1", "motion_steps=2", "video_steps=1", "views=[side]"]) == 0
    assert "video prior: the small one of pick_place that comes with dexprior" in capsys.readouterr().err
    assert main(["estimate-pose", "samples=runs/samples/samples.safetensors", "estimator=shipped"]) == 0
    assert "pose estimator: the small one" in capsys.readouterr().err
    words = ["retarget", "samples=runs/samples/samples.safetensors", "robot=arm7+parallel", "every=16"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["idle"] == []
    assert (tmp_path / "runs" / "samples" / "000.mp4").is_file()
    assert (tmp_path / "runs" / "retarget" / "retarget.mp4").is_file()


def test_a_run_comes_before_what_ships(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "prior").mkdir(parents=True)
    assert main(["sample", "n=1"]) == 1
    assert "runs/prior holds no prior checkpoint" in capsys.readouterr().err


@pytest.mark.parametrize("part", ["prior", "estimator", "policy"])
def test_each_part_is_a_folder_as_a_run_leaves_it(part):
    inside = {"prior": "checkpoint", "estimator": "estimator.safetensors", "policy": "actor.safetensors"}
    assert (shipped(part) / inside[part]).exists()
