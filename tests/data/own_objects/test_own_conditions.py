"""Conditions of a stranger's object: what they hold, and each mistake in one sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dexprior.artifacts import load_all, save
from dexprior.data.own_objects import conditions as own
from dexprior.data.own_objects.conditions import own_conditions
from dexprior.data.own_objects.settings import OwnObjectConfig
from dexprior.errors import BadInput, DexpriorError, UnknownName
from dexprior.geometry.rotations import quat_from_yaw
from dexprior.hands.skeleton import FINGER_RADIUS, forward
from dexprior.prior.conditioning import condition_tensors
from dexprior.types import HandTrajectory, PriorCondition

RADII = np.array([0.02, 0.02, 0.025])
ASKED = {"text": "put it on the mark", "at": (0.45, -0.1), "goal": (0.42, 0.1)}


@pytest.fixture(scope="module")
def egg(tmp_path_factory):
    """A file of 600 points with normals about its own origin."""
    k = np.arange(600)
    z, turn = 1 - (2 * k + 1) / 600, np.pi * (3 - np.sqrt(5)) * k
    unit = np.stack([np.sqrt(1 - z**2) * np.cos(turn), np.sqrt(1 - z**2) * np.sin(turn), z], axis=1)
    normals = (unit / RADII) / np.linalg.norm(unit / RADII, axis=1, keepdims=True)
    path = tmp_path_factory.mktemp("egg") / "egg.npz"
    np.savez(path, points=unit * RADII, normals=normals)
    return path


@pytest.fixture(scope="module")
def made(egg):
    return own_conditions(OwnObjectConfig(cloud=str(egg), **ASKED), n=2, seed=3)


@pytest.fixture
def grasped(monkeypatch, made, egg):
    """The same grasp for every later call: a search takes seconds."""
    grasps = {}
    search = own.grasp_cloud

    def once(cloud, kind, *, floor):
        if kind not in grasps:
            grasps[kind] = search(cloud, kind, floor=floor)
        return grasps[kind]

    monkeypatch.setattr(own, "grasp_cloud", once)
    return lambda **other: own_conditions(OwnObjectConfig(**{"cloud": str(egg), **ASKED, **other}))


def _tips(hand):
    return forward(hand.wrist_pose, hand.finger_pose, hand.betas, hand.side)[4::4]


def test_the_hand_holds_the_object_where_it_ends_and_starts_open_beside_it(made):
    first, second = made.conditions
    assert first.pose == pytest.approx([0.45, -0.1, 0.025, 1, 0, 0, 0], abs=1e-3)
    end = np.array([0.42, 0.1, first.pose[2]])
    target, touching = first.target[0], first.target[0].touching
    assert touching.sum() >= 2
    assert touching[0]
    scaled = np.linalg.norm((_tips(target)[touching] - end) / (RADII + FINGER_RADIUS), axis=1)
    np.testing.assert_allclose(scaled, 1.0, atol=0.15)
    np.testing.assert_allclose(target.points[touching], _tips(target)[touching], atol=1e-9)
    np.testing.assert_allclose(target.points[~touching], 0.0)
    assert not first.start[0].touching.any()
    assert 0.05 < np.linalg.norm(first.start[0].wrist_pose[:3] - made.held.wrist_pose[:3]) < 0.2
    assert np.linalg.norm(first.start[0].wrist_pose[:3] - second.start[0].wrist_pose[:3]) > 1e-3
    np.testing.assert_array_equal(first.target[0].wrist_pose, second.target[0].wrist_pose)


def test_it_is_laid_out_as_conditions_of_the_suite_are(made, tmp_path):
    """Numbers of points, a mark at the goal, sixteen points that are followed, a file that comes back."""
    first = made.conditions[0]
    assert first.cloud.shape == (64, 6)
    assert first.moves.sum() == 40
    assert first.goal == pytest.approx([0.42, 0.1, 0, 1, 0, 0, 0], abs=1e-3)
    np.testing.assert_allclose(first.cloud[~first.moves, :2].mean(axis=0), [0.42, 0.1], atol=3e-3)
    assert first.cloud[:, 2].min() > -0.001
    assert (first.seconds, first.target_at) == pytest.approx((3.6, 2.52))
    assert condition_tensors(made.conditions)["points"].shape == (2, 16, 3)
    save(made.conditions, tmp_path / "a.safetensors", producer="test")
    again = load_all(tmp_path / "a.safetensors", PriorCondition)
    np.testing.assert_array_equal(again[0].cloud, first.cloud)


def test_a_turned_goal_turns_the_hand_and_one_in_the_air_has_no_mark(grasped):
    plain = grasped().conditions[0]
    turn = quat_from_yaw(np.array(0.5))
    turned = grasped(goal=(0.42, 0.1, 0.2, *map(float, turn))).conditions[0]
    assert turned.goal is None
    assert turned.moves.all()
    apart = plain.target[0].wrist_pose[:3] - [0.42, 0.1, plain.pose[2]]
    c, s = np.cos(0.5), np.sin(0.5)
    expected = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ apart + [0.42, 0.1, 0.2]
    np.testing.assert_allclose(turned.target[0].wrist_pose[:3], expected, atol=2e-3)
    assert grasped(mark=False).conditions[0].goal is None
    assert grasped(seconds=2.0, target_at=1.5).conditions[0].target_at == 1.5


def test_a_left_hand_is_the_right_one_in_a_mirror(grasped):
    """The object is the same in a mirror, but for its place."""
    right = grasped(at=(0.45, 0.0), goal=(0.45, 0.1)).conditions[0]
    left = grasped(at=(0.45, 0.0), goal=(0.45, -0.1), side="left").conditions[0]
    for a, b in ((right.target[0], left.target[0]), (right.start[0], left.start[0])):
        assert b.side == "left"
        seen = forward(b.wrist_pose, b.finger_pose, b.betas, "left") * [1, -1, 1]
        np.testing.assert_allclose(seen, forward(a.wrist_pose, a.finger_pose, a.betas), atol=1e-9)


def test_a_hand_of_a_file_is_taken_where_it_touches(grasped, made, tmp_path):
    save(made.held, tmp_path / "hand.safetensors", producer="test")
    file = str(tmp_path / "hand.safetensors")
    again = grasped(grasp=file)
    np.testing.assert_allclose(again.conditions[0].target[0].wrist_pose, made.conditions[0].target[0].wrist_pose)
    assert not again.conditions[0].start[0].touching.any()
    with pytest.raises(BadInput, match=r"is of a right hand, side=left is asked for"):
        grasped(grasp=file, side="left")
    with pytest.raises(BadInput, match=r"no posture within 4 mm of its contacts: the \w+ is said .* \d+ mm away"):
        grasped(grasp=file, at=(0.45, -0.05))
    idle = replace(made.held, touching=np.zeros(5, dtype=bool), points=np.zeros((5, 3)))
    save(idle, tmp_path / "idle.safetensors", producer="test")
    with pytest.raises(BadInput, match="no finger touches the object"):
        grasped(grasp=str(tmp_path / "idle.safetensors"))
    joints = forward(made.held.wrist_pose, made.held.finger_pose)[None]
    track = HandTrajectory(
        t=np.zeros(1), side="right", wrist_pose=made.held.wrist_pose[None], finger_pose=made.held.finger_pose[None],
        betas=np.zeros(10), joints=joints, contact=np.zeros((1, 5)), force=np.zeros((1, 5)),
        valid=np.ones(1, dtype=bool), sigma=np.zeros((1, 21)), scale_known=True,
    )  # fmt: skip
    save(track, tmp_path / "track.safetensors", producer="test")
    with pytest.raises(DexpriorError, match=r"expected 'dexprior\.contact_configuration/1'"):
        grasped(grasp=str(tmp_path / "track.safetensors"))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"text": "  "}, "text is empty"),
        ({"text": None}, "text is not given"),
        ({"goal": None}, "goal is not given: goal=x,y,z"),
        ({"cloud": None}, "cloud is not given: cloud=FILE"),
        ({"goal": (3.0, 0.1)}, r"goal = 3,0.1 is out of the hand's reach: the wrist would be at .* it gets to x = -1"),
        ({"goal": (0.4, 0.1, 0.0)}, r"would reach 25 mm into the table .* a z of at least 0.025"),
        ({"goal": (0.4,)}, "goal = 0.4: expected x,y or x,y,z or"),
        ({"goal": (0.4, 0.1, 0.1, 1.0, 1.0, 0.0, 0.0)}, "quaternion qw,qx,qy,qz has length 1.41"),
        ({"goal": (0.4, 0.1, 0.05, 0.0, 1.0, 0.0, 0.0)}, "out of the hand's reach: .* would be in the table"),
        ({"at": (2.0, 0.0)}, "the object at 2,0,0.02.* is out of the hand's reach"),
        ({"at": (0.4,)}, "at = 0.4: expected x,y or x,y,yaw"),
        ({"at": None}, r"lowest point is 25 mm below the table .*at=0.45,-0.1"),
        ({"units": "mm"}, "give units=m"),
        ({"points": 700}, "holds 600 points, 700 are needed"),
    ],
)
def test_each_mistake_is_one_sentence(grasped, setting, message):
    with pytest.raises(BadInput, match=message):
        grasped(**setting)


def test_an_unknown_grasp_or_camera_lists_the_known_ones(grasped):
    with pytest.raises(UnknownName, match="two-finger, three-finger, power"):
        grasped(grasp="claw")
    with pytest.raises(UnknownName, match="front, side"):
        grasped(camera="back")


def test_what_the_camera_does_not_see_is_said(grasped, capsys):
    grasped(goal=(0.45, 0.9))
    assert "its goal at 0.45,0.9" in capsys.readouterr().err
    grasped()
    assert capsys.readouterr().err == ""
