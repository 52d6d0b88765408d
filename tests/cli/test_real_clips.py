"""Measured clips through the command line: estimate, retarget, draw."""

from __future__ import annotations

import json

import pytest

from dexprior.artifacts import load
from dexprior.cli.main import main
from dexprior.data import catalog
from dexprior.data.clips import read_clip
from dexprior.extras import available
from dexprior.types import HandTrajectory, JointTrajectory

CLIP = catalog.find("hand-clip")
MUSTARD = catalog.find("dexmv-mustard")


@pytest.mark.skipif(CLIP is None, reason="needs the measured hand clip below $DEXPRIOR_DATA")
@pytest.mark.parametrize(
    "robot",
    [
        "builtin-hand",
        "human_hand",
        pytest.param(
            "shadow",
            marks=pytest.mark.skipif(not available("gymnasium_robotics"), reason="needs dexprior[robots]"),
        ),
    ],
)
def test_the_real_clip_becomes_a_robot_hand_beside_it(robot, tmp_path, capsys):
    video = CLIP / "human_hand_video.mp4"
    assert main(["estimate-pose", f"video={video}", "start=100", "stop=124", f"out={tmp_path}"]) == 0
    assert json.loads(capsys.readouterr().out)["valid"] == 24
    hand = load(tmp_path / "hand.safetensors", HandTrajectory)
    assert not hand.scale_known
    words = ["retarget", f"hand={tmp_path / 'hand.safetensors'}", f"video={video}", f"robot={robot}", f"out={tmp_path}"]
    assert main([*words, "start=100", "every=6"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["feasible"] > 0.9
    assert load(tmp_path / "robot.safetensors", JointTrajectory).robot == robot
    frames, _ = read_clip(tmp_path / "retarget.mp4")
    assert len(frames) == 4
    assert frames.std() > 10


@pytest.mark.skipif(MUSTARD is None, reason="needs dexmv_mustard.npz below $DEXPRIOR_DATA")
def test_the_recorded_bottle_goes_through_with_its_hand(tmp_path, capsys):
    assert main(["retarget", f"hand={MUSTARD}", f"out={tmp_path}", "every=30"]) == 0
    assert json.loads(capsys.readouterr().out)["feasible"] > 0.9
    frames, _ = read_clip(tmp_path / "retarget.mp4")
    yellow = (frames[..., 0].astype(int) - frames[..., 2] > 90).mean(axis=(1, 2))
    assert yellow.max() > 0.005  # the bottle is drawn
