"""A MANO file, betas included, goes through smplx into conditioning and retargeting."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.data.objects import chosen_points, rigid_object
from dexprior.extras import available
from dexprior.hands.mano import ManoHand, contact_configuration, write_synthetic_mano
from dexprior.hands.skeleton import forward
from dexprior.prior.conditioning import condition_tensors
from dexprior.prior.denoiser import JointDenoiser
from dexprior.prior.sampling import HandObjectPipeline
from dexprior.retarget.gripper import GripperConfig, retarget_to_gripper
from dexprior.retarget.grips import Follower
from dexprior.retarget.hand_kinematic import retarget_hand
from dexprior.robots import catalog
from dexprior.types import PriorCondition
from dexprior.worlds.tasks.scene import camera

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
    faces = np.concatenate([np.eye(3), -np.eye(3)])
    part = np.concatenate([pose[:3] + 0.012 * faces, faces], axis=1)
    beside = part + np.array([0.0, 0.1, 0.0, 0.0, 0.0, 0.0])
    cloud = np.concatenate([part, beside])
    condition = PriorCondition(
        cloud=cloud,
        moves=np.arange(len(cloud)) < len(part),
        points=chosen_points(part[:, :3]),
        pose=pose,
        target_at=(FRAMES - 1) / 24.0,
        seconds=FRAMES / 24.0,
        start=(contact_configuration(hand, 0),),
        target=(contact_configuration(hand, -1),),
        camera=camera("front", 48),
        text="put the nut on the bolt",
    )
    assert not condition.start[0].touching.any()
    assert condition.target[0].touching[:3].all()
    np.testing.assert_allclose(condition_tensors([condition])["start"][0, 0, -10:], BETAS, atol=1e-6)
    denoiser = JointDenoiser(frames=24, width=32, layers=1, heads=2, channels=10).eval()
    pipeline = HandObjectPipeline.fresh(denoiser)
    pipeline.set_progress_bar_config(disable=True)
    sample = pipeline([condition], motion_steps=2, video_steps=1, overlap=0)[0]
    np.testing.assert_array_equal(sample.hand.betas, BETAS)
    reach = np.linalg.norm(sample.hand.wrist_pose[0, :3] - hand.wrist_pose[0, :3])
    assert reach < 1e-6  # the condition's start is the first frame


def test_it_is_retargeted_to_a_hand_and_to_the_gripper(hand):
    result = retarget_hand(hand, catalog.end_effector("builtin-hand"))
    assert len(result.trajectory) == FRAMES
    assert np.isfinite(result.trajectory.q).all()
    pose = np.tile([0.45, 0, 0.012, 1.0, 0, 0, 0], (FRAMES, 1))
    thing = rigid_object("nut", hand.t, pose, local=np.eye(3) * 0.01)
    tool = retarget_to_gripper(hand, thing, Follower.of("arm7", "parallel"), GripperConfig())
    assert tool.force.max() >= GripperConfig().least_force
    assert np.isfinite(tool.tool).all()
