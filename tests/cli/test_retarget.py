"""Which robots `dexprior retarget` takes, and what it says of others."""

from __future__ import annotations

import csv
import dataclasses
import json
import re

import numpy as np
import pytest

from dexprior.artifacts import load_all, save
from dexprior.cli.main import main
from dexprior.geometry.transforms import IDENTITY_POSE
from dexprior.hands import skeleton
from dexprior.robots import catalog
from dexprior.types import JointTrajectory, ObjectTrajectory, PriorCondition, VideoSample
from dexprior.types.hand import HAND_JOINTS

CHOICES = "tendon_hand, human_hand, builtin-hand, allegro, leap, shadow"


@pytest.mark.parametrize("name", ["panda", "parallel", "claw4", "three_finger", "robotiq_2f85"])
def test_a_machine_without_a_persons_fingers_is_refused_with_the_choices(name, capsys):
    assert main(["retarget", f"robot={name}"]) != 0
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert f"'{name}' has no fingers that follow a human hand's; choices: {CHOICES}, or an arm with" in line


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
        (["side=right", "hand=h.safetensors"], "a hand follows it; give no hand=, no samples="),
        (["side=right", "robot=arm7+parallel"], "give no hand=, no samples=, and a robot of tendon_hand"),
    ],
)
def test_what_is_wrong_with_a_stream_is_one_line(session, tmp_path, capsys, words, message):
    assert main(["retarget", f"landmarks={session}", f"out={tmp_path}/out", *words]) != 0
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert re.search(message, line)


N, DT = 26, 0.1


@pytest.fixture
def pinch(example_makers):
    """A clip with its condition: thumb and index finger hold a thing of 4 cm from 1.2 to 2 s, and lift it."""

    def make(x: float = 0.45) -> tuple[VideoSample, PriorCondition]:
        examples = example_makers(n=N, size=16)
        t = DT * np.arange(N)
        held = (t > 1.15) & (t < 2.05)
        place = np.column_stack([np.full(N, x), np.zeros(N), 0.02 + np.interp(t, [1.4, 2.0], [0.0, 0.08])])
        joints = np.repeat(place[:, None], 21, axis=1)
        joints[:, :5, 1] -= 0.03
        joints[:, 5:, 1] += 0.03
        contact = np.zeros((N, 5))
        contact[held, :2] = 1.0
        sample = examples[VideoSample]
        hand = dataclasses.replace(sample.hand, t=t, joints=joints, contact=contact, force=3.0 * contact)
        pose = np.concatenate([place, np.tile([1.0, 0.0, 0.0, 0.0], (N, 1))], axis=1)
        thing = ObjectTrajectory(object="thing", t=t, points=place[:, None], valid=np.ones(N, dtype=bool), pose=pose)
        cloud = np.zeros((6, 6))
        cloud[:, 3:] = np.concatenate([np.eye(3), -np.eye(3)])
        cloud[:, :3] = place[0] + 0.02 * cloud[:, 3:]
        condition = examples[PriorCondition]
        shown = dataclasses.replace(sample, hands=(hand,), object=thing)
        return shown, dataclasses.replace(condition, cloud=cloud, moves=np.ones(6, dtype=bool))

    return make


def kept(clips, folder) -> str:
    """As `dexprior sample` leaves them: the samples' path."""
    save([c for _, c in clips], folder / "conditions.safetensors", producer="test")
    return str(save([s for s, _ in clips], folder / "samples.safetensors", producer="test"))


@pytest.mark.parametrize("robot", ["arm7+parallel", "gantry+three_finger"])
def test_an_arm_follows_a_sample_s_own_hand(robot, pinch, tmp_path, capsys):
    samples = kept([pinch(), pinch(x=0.40)], tmp_path)
    assert main(["retarget", f"samples={samples}", f"robot={robot}", "every=30", f"out={tmp_path}/out"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["feasible"], said["misses"], said["idle"], len(said["clips"])) == ([1.0, 1.0], [], [], 2)
    trajectory = load_all(said["trajectory"], JointTrajectory)[0]
    pressing = trajectory.t[trajectory.contact.all(axis=1)]
    assert pressing[0] == pytest.approx(1.2, abs=0.16)
    assert pressing[-1] - pressing[0] == pytest.approx(0.9, abs=0.16)
    with open(said["tables"][0]) as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "t", *trajectory.names, "opening", *(f"contact/{f}" for f in trajectory.fingers),
        *(f"force/{f}" for f in trajectory.fingers), "feasible",
    ]  # fmt: skip
    for k, finger in enumerate(trajectory.fingers):
        np.testing.assert_allclose([float(r[f"force/{finger}"]) for r in rows], trajectory.force[:, k], rtol=1e-5)


def test_what_an_arm_cannot_reach_is_told_by_clip_and_time(pinch, tmp_path, capsys):
    samples = kept([pinch(), pinch(x=1.2)], tmp_path)
    assert main(["retarget", f"samples={samples}", "robot=arm7+parallel", "every=90", f"out={tmp_path}/out"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["feasible"][0] == 1.0
    assert said["feasible"][1] < 0.6
    assert {miss["clip"] for miss in said["misses"]} == {1}
    assert said["misses"][0]["start"] < 1.2 < said["misses"][-1]["stop"]


@pytest.mark.parametrize(
    ("robot", "message"),
    [
        ("arm8+parallel", "unknown arm 'arm8'; did you mean 'arm7'"),
        ("arm7+paralel", "unknown end effector 'paralel'; did you mean 'parallel'"),
        ("arm7+claw4", "end effector 'claw4': no map from an opening and a force"),
        ("stand+parallel", "arm 'stand' has no joints"),
        ("gantry+parallel", "an arm goes to the clips' objects; give samples=FILE"),
    ],
)
def test_an_arm_that_cannot_follow_is_one_line(robot, message, tmp_path, capsys):
    assert main(["retarget", f"robot={robot}", f"out={tmp_path}"]) != 0
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line


def test_a_hand_follows_a_sample_s_own_hand_or_the_one_that_was_read(pinch, tmp_path, capsys):
    sample, condition = pinch()
    joints = skeleton.forward(np.tile(IDENTITY_POSE, (N, 1)), np.zeros((N, 45)))
    sample = dataclasses.replace(sample, hands=(dataclasses.replace(sample.hand, joints=joints),))
    samples = kept([(sample, condition)], tmp_path)
    words = ["retarget", f"samples={samples}", "robot=builtin-hand", "every=30", f"out={tmp_path}/out"]
    assert main(words) == 0
    (own,) = load_all(json.loads(capsys.readouterr().out)["trajectory"], JointTrajectory)
    assert own.fingers == ("thumb", "index", "middle", "ring", "little")
    np.testing.assert_array_equal(own.contact, sample.hand.contact)
    np.testing.assert_array_equal(own.force, sample.hand.force)
    read = save(dataclasses.replace(sample.hand, force=0 * sample.hand.force), tmp_path / "hand", producer="test")
    assert main([*words, f"hand={read}"]) == 0
    (other,) = load_all(json.loads(capsys.readouterr().out)["trajectory"], JointTrajectory)
    assert not other.force.any()
