"""Measured clips through the command line: estimate, retarget, draw."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dexprior.artifacts import load
from dexprior.cli.main import main
from dexprior.data import catalog
from dexprior.data.clips import read_clip, write_clip
from dexprior.extras import available
from dexprior.hands import skeleton
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


def test_a_hand_is_drawn_beside_the_frames_of_its_own_time(tmp_path, capsys):
    """A tracker's 90 frames a second beside a video of 30: each joins the frame that was shown then."""
    n = 45
    fingers = np.zeros((n, 15, 3))
    fingers[:, :12, 2] = 0.4
    joints = skeleton.forward(np.tile([0, 0, 0, 1.0, 0, 0, 0], (n, 1)), fingers.reshape(n, 45))
    np.savez(tmp_path / "s.npz", joints=joints, t=np.arange(n) / 90, hand="right")
    shades = np.repeat(np.uint8(10 * np.arange(24)), 64 * 64 * 3).reshape(24, 64, 64, 3)
    write_clip(tmp_path / "clip.mp4", shades, 30.0, crf=1)
    words = ["retarget", f"landmarks={tmp_path / 's.npz'}", f"video={tmp_path / 'clip.mp4'}", f"out={tmp_path}"]
    assert main([*words, "start=6", "every=11"]) == 0
    frames, _ = read_clip(tmp_path / "retarget.mp4", reader="pyav")
    seen = frames[:, 100:150, 60:160].mean(axis=(1, 2, 3)) / 10
    np.testing.assert_allclose(seen, 6 + np.round(np.arange(0, n, 11) / 3), atol=0.6)
    capsys.readouterr()
    assert main([*words, "start=12"]) == 1
    assert "is it of another clip?" in capsys.readouterr().err


@pytest.mark.skipif(MUSTARD is None, reason="needs dexmv_mustard.npz below $DEXPRIOR_DATA")
def test_the_recorded_bottle_goes_through_with_its_hand(tmp_path, capsys):
    assert main(["retarget", f"hand={MUSTARD}", f"out={tmp_path}", "every=30"]) == 0
    assert json.loads(capsys.readouterr().out)["feasible"] > 0.9
    frames, _ = read_clip(tmp_path / "retarget.mp4")
    yellow = (frames[..., 0].astype(int) - frames[..., 2] > 90).mean(axis=(1, 2))
    assert yellow.max() > 0.005  # the bottle is drawn
