"""Which robots `dexprior retarget` takes, and what it says of others."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from dexprior.artifacts import load_all
from dexprior.cli.main import main
from dexprior.geometry.transforms import IDENTITY_POSE
from dexprior.hands import skeleton
from dexprior.robots import catalog
from dexprior.types import JointTrajectory
from dexprior.types.hand import HAND_JOINTS

CHOICES = "tendon_hand, human_hand, builtin-hand, allegro, leap, shadow, arm7+parallel"


@pytest.mark.parametrize("name", ["panda", "parallel", "claw4", "three_finger", "robotiq_2f85"])
def test_a_machine_without_a_persons_fingers_is_refused_with_the_choices(name, capsys):
    assert main(["retarget", f"robot={name}"]) != 0
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert f"'{name}' has no fingers that follow a human hand's; choices: {CHOICES}" in line


def test_a_name_that_is_none_is_refused_with_the_choices(capsys):
    assert main(["retarget", "robot=shadw"]) != 0
    assert "unknown robot 'shadw'; did you mean 'shadow'?" in capsys.readouterr().err


def test_help_names_the_hands(capsys):
    main(["retarget", "--help"])
    shown = capsys.readouterr().out
    assert all(name in shown for name in (*catalog.hands(), "arm7+parallel"))


@pytest.fixture
def session(tmp_path):
    """A headset's table of a right hand, one frame of which was lost."""
    pose = np.zeros((6, 45))
    joints = skeleton.forward(np.tile(IDENTITY_POSE, (6, 1)), pose)
    columns = [f"{name}_{axis}" for name in HAND_JOINTS for axis in "xyz"]
    rows = [[f"{k / 72}", *map(str, frame.ravel())] for k, frame in enumerate(joints)]
    rows[3][1:] = [""] * 63
    path = tmp_path / "session.csv"
    path.write_text("\n".join([",".join(["t", *columns]), *map(",".join, rows)]) + "\n")
    return path


def test_a_robot_follows_a_landmark_stream(session, tmp_path, capsys):
    words = [f"landmarks={session}", "side=right", "robot=builtin-hand", "every=3", f"out={tmp_path}/out"]
    assert main(["retarget", *words]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["frames"], said["lost"]) == (6, 1)
    (followed,) = load_all(said["trajectory"], JointTrajectory)
    assert followed.feasible.tolist() == [True, True, True, False, True, True]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "does not say which hand it is: give side=left or side=right"),
        (["side=left"], "fingers of this 'left' hand|'builtin-hand' is a right hand, the human's is left"),
        (["side=right", "unit=mm"], "no hand's; give unit=m"),
        (["side=right", "hand=h.safetensors"], "a hand follows it; give no hand="),
        (["side=right", "robot=arm7+parallel"], "a hand follows it; give no hand= and a robot of tendon_hand"),
    ],
)
def test_what_is_wrong_with_a_stream_is_one_line(session, tmp_path, capsys, words, message):
    assert main(["retarget", f"landmarks={session}", f"out={tmp_path}/out", *words]) != 0
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert re.search(message, line)
