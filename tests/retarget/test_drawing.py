"""Pictures: panels have the sizes they promise, and the robot is where the human is."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dexprior.errors import BadInput, NoGraphics, UnknownName
from dexprior.geometry.transforms import IDENTITY_POSE
from dexprior.hands import skeleton
from dexprior.hands.mano import contact_configuration
from dexprior.retarget import drawing
from dexprior.retarget.arm_ik import solve_arm
from dexprior.retarget.gripper import ToolTrajectory
from dexprior.retarget.hand_kinematic import retarget_hand
from dexprior.robots import catalog
from dexprior.robots.rigs import home_pose
from dexprior.types import HandTrajectory

N = 3
ROBOT = catalog.end_effector("builtin-hand")


@pytest.fixture(scope="module")
def hand():
    half = 0.5**0.5
    wrist = np.tile([0.0, 0.0, 0.3, half, 0.0, half, 0.0], (N, 1))  # fingers up: MANO's -x is the base's +z
    wrist[:, 1] = [-0.05, 0.0, 0.05]
    return HandTrajectory(
        t=np.arange(N) / 30,
        side="right",
        wrist_pose=wrist,
        finger_pose=np.zeros((N, 45)),
        betas=np.zeros(10),
        joints=skeleton.forward(wrist, np.zeros((N, 45))),
        contact=np.zeros((N, 5)),
        force=np.zeros((N, 5)),
        valid=np.ones(N, bool),
        sigma=np.zeros((N, 21)),
        scale_known=True,
    )


@pytest.fixture(scope="module")
def moved(hand):
    return retarget_hand(hand, ROBOT).trajectory


@pytest.fixture(scope="module")
def gl(hand, moved):
    try:
        drawing.draw_robot(moved, drawing.view_of(hand.joints), size=(8, 8))
    except NoGraphics as error:
        pytest.skip(f"needs off-screen rendering: {error}")


def _inked(frame):
    """Centre (row, column) of what is not paper."""
    return np.argwhere(np.abs(frame.astype(int) - 244).max(axis=-1) > 12).mean(axis=0)


def test_skeleton_and_robot_are_seen_alike(gl, hand, moved):
    view = drawing.view_of(hand.joints)
    bones = drawing.draw_skeleton(hand.joints, view, size=(128, 128))
    robot = drawing.draw_robot(moved, view, size=(128, 128))
    for k in range(N):
        rows, columns = np.abs(_inked(bones[k]) - _inked(robot[k]))
        assert rows < 20, "the robot has a wrist below the landmarks"
        assert columns < 5
    assert _inked(robot[2])[1] > _inked(robot[0])[1] + 10, "+y is to the right for a viewer on the +x axis"


def test_panels_stand_beside_each_other(gl, hand, moved):
    clip = np.full((N, 90, 160, 3), 128, dtype=np.uint8)
    image = np.full((N, 21, 2), 0.5)
    image[1] = np.nan
    frames = drawing.draw_retargeting(
        hand.joints,
        moved,
        clip=clip,
        image=image,
        object=np.tile(IDENTITY_POSE, (N, 1)),
        object_shape="box",
        floor=-0.1,
        height=72,
        every=2,
    )
    assert frames.shape == (2, 72 + 18, 128 + 72 + 72, 3)
    assert frames.dtype == np.uint8


def test_an_arm_is_seen_whole_and_moves(gl):
    n = 4
    tool = np.tile(home_pose("arm7", "parallel"), (n, 1))
    tool[:, 1] += np.linspace(-0.3, 0.3, n)
    t = np.arange(n) * 0.1
    plan = ToolTrajectory(t=t, tool=tool, opening=np.full(n, 0.04), force=np.zeros(n), clip=t)
    frames = drawing.draw_robot(solve_arm("arm7", "parallel", plan), size=(96, 96))
    inked = (np.abs(frames.astype(int) - 244).max(axis=-1) > 12).any(axis=0)
    assert inked.sum() > 400
    rows, columns = np.argwhere(inked).T
    assert 1 < min(rows.min(), columns.min()) < max(rows.max(), columns.max()) < 94
    assert np.abs(_inked(frames[-1]) - _inked(frames[0])).max() > 4


def test_landmarks_are_drawn_where_they_are():
    frames = np.zeros((2, 60, 80, 3), dtype=np.uint8)
    image = np.full((2, 21, 2), [0.25, 0.75])
    image[1] = np.nan
    drawn = drawing.draw_landmarks(frames, image)
    assert np.abs(np.argwhere(drawn[0].any(axis=-1)).mean(axis=0) - [45, 20]).max() < 1.5
    assert not drawn[1].any(), "a frame without a hand stays as it is"


def test_another_robots_trajectory_is_refused(hand, moved):
    other = dataclasses.replace(moved, model_hash="0" * 16)
    with pytest.raises(BadInput, match="retarget again"):
        drawing.draw_robot(other, drawing.view_of(hand.joints))


def test_unknown_shape(hand, moved):
    with pytest.raises(UnknownName, match="box, ellipsoid"):
        drawing.draw_robot(moved, drawing.view_of(hand.joints), object=hand.wrist_pose, object_shape="torus")


def test_lengths_must_agree(hand, moved):
    with pytest.raises(BadInput, match="2 of the clip"):
        drawing.draw_retargeting(hand.joints, moved, clip=np.zeros((2, 8, 8, 3), np.uint8))


def test_no_graphics_says_what_to_set(monkeypatch, hand, moved):
    import mujoco

    def broken(*_):
        raise RuntimeError("no display")

    monkeypatch.setattr(mujoco, "Renderer", broken)
    with pytest.raises(NoGraphics, match="MUJOCO_GL=egl"):
        drawing.draw_robot(moved, drawing.view_of(hand.joints))


def test_a_grasp_is_drawn_over_the_object_s_points(hand):
    held = contact_configuration(hand, 0)
    cloud = np.array([[0.0, -0.05, 0.3], [0.03, -0.05, 0.35]])
    picture = drawing.draw_grasp(held, cloud, size=100)
    assert picture.shape == (100, 200, 3)
    bare = drawing.draw_grasp(held, cloud + 10.0, size=100)  # everything is in the picture: the hand is a dot then
    for half in (picture[:, :100], picture[:, 100:]):
        assert (half == drawing._CLOUD).all(axis=-1).any()
        assert (half == drawing._COLOURS[1]).all(axis=-1).sum() > 10
    assert (bare == drawing._COLOURS[1]).all(axis=-1).sum() < (picture == drawing._COLOURS[1]).all(axis=-1).sum()
