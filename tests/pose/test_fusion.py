"""Two opinions about one hand are weighted by how sure each is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.geometry.rotations import quat_from_axis_angle, rotation_angle
from dexprior.hands.skeleton import forward
from dexprior.pose.fusion import fuse_hands
from dexprior.types import HandTrajectory

N = 4


def _hand(x: float, turn: float, sigma: float, **changes) -> HandTrajectory:
    wrist = np.tile([x, 0.0, 0.1, 1.0, 0, 0, 0], (N, 1))
    wrist[:, 3:] = quat_from_axis_angle(np.array([0.0, 0.0, turn]))
    fingers = np.full((N, 45), turn / 4)
    values = {
        "t": np.arange(N) / 24, "side": "right", "wrist_pose": wrist, "finger_pose": fingers, "betas": np.zeros(10),
        "joints": forward(wrist, fingers), "contact": np.full((N, 5), min(max(x, 0.0), 1.0)),
        "force": np.full((N, 5), abs(x)), "valid": np.ones(N, dtype=bool), "sigma": np.full((N, 21), sigma),
        "scale_known": True,
    }  # fmt: skip
    return HandTrajectory(**(values | changes))


def test_equally_sure_meet_in_the_middle():
    fused = fuse_hands(_hand(0.4, 0.0, 0.01), _hand(0.6, 1.0, 0.01))
    np.testing.assert_allclose(fused.wrist_pose[:, 0], 0.5)
    half = quat_from_axis_angle(np.array([0.0, 0.0, 0.5]))
    assert rotation_angle(fused.wrist_pose[:, 3:], half).max() < 1e-6
    np.testing.assert_allclose(fused.finger_pose, 0.125)
    np.testing.assert_allclose(fused.contact, 0.5)
    np.testing.assert_allclose(fused.sigma, 0.01 / np.sqrt(2), rtol=1e-3)


@pytest.mark.parametrize("sure_first", [True, False])
def test_the_one_who_is_certain_wins(sure_first):
    sure, vague = _hand(0.4, 0.2, 0.001), _hand(0.8, 1.0, 0.5)
    fused = fuse_hands(sure, vague) if sure_first else fuse_hands(vague, sure)
    np.testing.assert_allclose(fused.joints, sure.joints, atol=1e-4)
    assert (fused.sigma <= sure.sigma.mean() + 1e-4).all()


def test_weights_are_inverse_variances():
    """1 and 2 units of sigma: weights 4/5 and 1/5."""
    fused = fuse_hands(_hand(0.0, 0.0, 0.01), _hand(1.0, 0.0, 0.02))
    np.testing.assert_allclose(fused.wrist_pose[:, 0], 0.2, rtol=1e-3)


def test_who_is_asked_first_does_not_matter():
    a, b = _hand(0.4, 0.3, 0.01), _hand(0.5, -0.6, 0.03)
    ab, ba = fuse_hands(a, b), fuse_hands(b, a)
    np.testing.assert_allclose(ab.joints, ba.joints, atol=1e-12)
    np.testing.assert_allclose(ab.sigma, ba.sigma)


def test_agreeing_with_oneself_changes_nothing():
    a = _hand(0.4, 0.3, 0.01)
    np.testing.assert_allclose(fuse_hands(a, a).joints, a.joints, atol=1e-12)


def test_two_exact_opinions_do_not_divide_by_zero():
    fused = fuse_hands(_hand(0.4, 0.0, 0.0), _hand(0.6, 0.0, 0.0))
    np.testing.assert_allclose(fused.wrist_pose[:, 0], 0.5)


def test_the_joints_are_those_of_the_fused_pose():
    fused = fuse_hands(_hand(0.4, 0.3, 0.01), _hand(0.5, -0.6, 0.03))
    np.testing.assert_allclose(fused.joints, forward(fused.wrist_pose, fused.finger_pose))


def test_a_frame_is_valid_only_if_both_saw_it():
    a, b = _hand(0.4, 0.0, 0.01), _hand(0.4, 0.0, 0.01)
    a = replace(a, valid=np.array([True, False, True, False]))
    b = replace(b, valid=np.array([True, True, False, False]), scale_known=False)
    fused = fuse_hands(a, b)
    np.testing.assert_array_equal(fused.valid, [True, False, False, False])
    assert not fused.scale_known


def test_hands_that_do_not_belong_together_are_refused():
    a = _hand(0.4, 0.0, 0.01)
    short = HandTrajectory(
        **{
            name: value[:-1] if isinstance(value, np.ndarray) and name != "betas" else value
            for name, value in vars(a).items()
        }
    )
    for other in (short, replace(a, t=a.t + 0.5), replace(a, side="left")):
        with pytest.raises(BadInput, match="cannot fuse a right hand of 4 frames"):
            fuse_hands(a, other)
