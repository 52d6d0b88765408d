"""A MANO file, betas included, goes through smplx into conditioning and retargeting."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.data.clouds import NUT_POINTS, condition_cloud
from dexprior.data.objects import chosen_points, rigid_object
from dexprior.extras import available
from dexprior.hands import catalog
from dexprior.hands.mano import ManoHand, contact_configuration, write_synthetic_mano
from dexprior.hands.skeleton import forward
from dexprior.prior.conditioning import condition_tensors
from dexprior.prior.denoiser import JointDenoiser
from dexprior.prior.sampling import HandObjectPipeline
from dexprior.retarget.hand_kinematic import retarget_hand
from dexprior.retarget.network import RetargetConfig, Retargeter, tool_trajectory
from dexprior.types import PriorCondition
from dexprior.worlds.insertion import InsertionConfig, video_camera

pytestmark = pytest.mark.skipif(not available("smplx"), reason="needs smplx: pip install 'dexprior[mano]'")

BETAS = np.array([1.5, -0.8, 0.3, 0, 0, 0, 0, 0, 0, 0.2])
FRAMES = 24


@pytest.fixture(scope="module")
def hand(tmp_path_factory):
    mano = ManoHand(write_synthetic_mano(tmp_path_factory.mktemp("mano") / "right.npz"), "right")
    t = np.arange(FRAMES) / 24.0
    u = np.linspace(0, 1, FRAMES)
    wrist = np.tile([0.45, -0.1, 0.12, 1.0, 0, 0, 0], (FRAMES, 1))
    wrist[:, 1] += 0.1 * u
    fingers = np.zeros((FRAMES, 45))
    fingers[:, 2::3] = 0.6 * u[:, None]
    contact = np.zeros((FRAMES, 5))
    contact[FRAMES // 2 :, :3] = 1.0
    return mano.trajectory(t, wrist, fingers, BETAS, contact=contact)


def test_betas_change_the_joints_as_the_shape_space_says(hand):
    plain = forward(hand.wrist_pose, hand.finger_pose)
    shaped = forward(hand.wrist_pose, hand.finger_pose, BETAS)
    moved = np.linalg.norm(hand.joints - plain, axis=-1).max()
    assert moved > 0.004
    assert np.linalg.norm(hand.joints - shaped, axis=-1).max() < 3e-4  # the two coefficients multiply in the skeleton


def test_it_conditions_the_prior(hand):
    pose = np.array([0.45, 0, 0.012, 1, 0, 0, 0])
    cloud = condition_cloud(InsertionConfig(), pose, np.array([0.46, 0.1, 0]))
    condition = PriorCondition(
        cloud=cloud,
        moves=np.arange(len(cloud)) < NUT_POINTS,
        points=chosen_points(cloud[:NUT_POINTS, :3]),
        pose=pose,
        target_at=(FRAMES - 1) / 24.0,
        seconds=FRAMES / 24.0,
        start=contact_configuration(hand, 0),
        target=contact_configuration(hand, -1),
        camera=video_camera(48),
        text="put the nut on the bolt",
    )
    assert not condition.start.touching.any()
    assert condition.target.touching[:3].all()
    np.testing.assert_allclose(condition_tensors([condition])["start"][0, -10:], BETAS, atol=1e-6)
    denoiser = JointDenoiser(frames=24, width=32, layers=1, heads=2, channels=10).eval()
    pipeline = HandObjectPipeline.fresh(denoiser)
    pipeline.set_progress_bar_config(disable=True)
    sample = pipeline([condition], motion_steps=2, video_steps=1, overlap=0)[0]
    np.testing.assert_array_equal(sample.hand.betas, BETAS)
    reach = np.linalg.norm(sample.hand.wrist_pose[0, :3] - hand.wrist_pose[0, :3])
    assert reach < 1e-6  # the condition's start is the first frame


def test_it_is_retargeted_to_a_hand_and_to_the_gripper(hand):
    result = retarget_hand(hand, catalog.load("builtin-hand"))
    assert len(result.trajectory) == FRAMES
    assert np.isfinite(result.trajectory.q).all()
    nut = rigid_object("nut", hand.t, np.tile([0.45, 0, 0.012, 1.0, 0, 0, 0], (FRAMES, 1)))
    tool, opening = tool_trajectory(Retargeter(RetargetConfig()).eval(), hand, nut)
    assert tool.shape == (FRAMES, 7)
    assert np.isfinite(opening).all()
