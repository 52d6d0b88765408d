"""The laws of contact: demonstrations keep them, and a sample that breaks one is counted and ranked last."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dexprior.data.contacts import contact_schedule
from dexprior.prior.evaluation import contact_law_violations, evaluate_samples, rank_samples
from dexprior.types import HandTrajectory, ObjectTrajectory, VideoSample
from dexprior.worlds.insertion import InsertionConfig

WORLD = InsertionConfig()


@pytest.fixture(scope="module")
def clips(tiny_stack):
    """The demonstrations as samples."""
    return [_clip(tiny_stack, k) for k in range(len(tiny_stack))]


def _clip(stack, k) -> VideoSample:
    n = stack.frames.shape[1]
    t, valid = np.arange(n) / stack.fps, np.ones(n, dtype=bool)
    hand = HandTrajectory(
        t=t, side="right", wrist_pose=stack.wrist_pose[k], finger_pose=stack.finger_pose[k], betas=np.zeros(10),
        joints=stack.joints[k], contact=stack.contact[k], force=stack.force[k], valid=valid,
        sigma=np.zeros((n, 21)), scale_known=True,
    )  # fmt: skip
    nut = ObjectTrajectory(object="nut", t=t, pose=stack.object_pose[k], valid=valid)
    return VideoSample(
        frames=stack.frames[k], fps=stack.fps, camera=stack.conditions[k].camera, hand=hand, object=nut,
        contact=contact_schedule(hand, nut), provenance={"source": "demonstration"},
    )  # fmt: skip


def _without_hand(clip: VideoSample) -> VideoSample:
    """The object still travels, and the hand waits a hand's breadth above where it started."""
    joints = np.broadcast_to(clip.hand.joints[:1] + np.array([0.0, 0.0, 0.2]), clip.hand.joints.shape)
    return replace(clip, hand=replace(clip.hand, joints=joints, contact=np.zeros_like(clip.hand.contact)))


def test_demonstrations_keep_the_laws(clips):
    laws = [contact_law_violations(clip, WORLD) for clip in clips]
    assert np.mean([v["moves_alone"] for v in laws]) < 0.02
    assert np.mean([v["touches_air"] for v in laws]) < 0.02


def test_an_object_that_moves_alone_is_counted_while_it_moves(clips):
    clip = clips[0]
    speed = np.linalg.norm(np.gradient(clip.object.pose[:, :3], clip.object.t, axis=0), axis=1)
    found = contact_law_violations(_without_hand(clip), WORLD)
    assert found == {"moves_alone": pytest.approx((speed > 0.08).mean()), "touches_air": 0.0}
    assert found["moves_alone"] > 0.2


def test_a_finger_that_touches_air_is_counted(clips):
    hand = replace(_without_hand(clips[0]).hand, contact=np.ones_like(clips[0].hand.contact))
    assert contact_law_violations(replace(clips[0], hand=hand), WORLD)["touches_air"] == 1.0


def test_ranking_puts_lawbreakers_last(clips):
    order = rank_samples([_without_hand(clips[0]), clips[1], clips[2]], WORLD)
    assert order[-1] == 0
    assert sorted(order) == [0, 1, 2]


def test_demonstrations_match_themselves(tiny_stack, clips):
    result = evaluate_samples(clips, tiny_stack, WORLD)
    assert result["n"] == len(clips)
    assert result["pixel_error"] == 0.0
    for name in ("goal_error_mm", "target_wrist_error_mm", "start_wrist_error_mm", "contact_onset_error_ms"):
        assert result[name]["mean"] == result[name]["high"] == 0.0, name


def test_errors_have_the_right_size_and_unit(tiny_stack, clips):
    late = []
    for clip in clips:
        pose, wrist = clip.object.pose.copy(), clip.hand.wrist_pose.copy()
        pose[-1, 0] += 0.010
        wrist[-1, 1] += 0.020
        contact = np.roll(clip.hand.contact, 2, axis=0)
        contact[:2] = 0
        hand = replace(clip.hand, wrist_pose=wrist, contact=contact)
        late.append(replace(clip, hand=hand, object=replace(clip.object, pose=pose)))
    result = evaluate_samples(late, tiny_stack, WORLD)
    assert result["goal_error_mm"]["mean"] == pytest.approx(10)
    assert result["target_wrist_error_mm"]["mean"] == pytest.approx(20)
    assert result["contact_onset_error_ms"]["mean"] == pytest.approx(2000 / 24)
