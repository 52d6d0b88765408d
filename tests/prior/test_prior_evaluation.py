"""The laws of contact: demonstrations keep them, and a sample that breaks one is counted and ranked last."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dexprior.data.contacts import contact_schedule
from dexprior.data.stacks import split_stack
from dexprior.prior.evaluation import (
    GAPS,
    Motion,
    contact_law_violations,
    evaluate_prior,
    evaluate_samples,
    predicted_motions,
    rank_samples,
    spread_of,
    swapped,
)
from dexprior.types import HandTrajectory, ObjectTrajectory, VideoSample


@pytest.fixture(scope="module")
def clips(tiny_stack):
    """The demonstrations as samples."""
    return [_clip(tiny_stack, k) for k in range(len(tiny_stack))]


def _clip(stack, k) -> VideoSample:
    n = stack.frames.shape[1]
    t, valid = np.arange(n) / stack.fps, np.ones(n, dtype=bool)
    hand = HandTrajectory(
        t=t, side="right", wrist_pose=stack.wrist_pose[k, :, 0], finger_pose=stack.finger_pose[k, :, 0],
        betas=np.zeros(10), joints=stack.joints[k, :, 0], contact=stack.contact[k, :, 0], force=stack.force[k, :, 0],
        valid=valid, sigma=np.zeros((n, 21)), scale_known=True,
    )  # fmt: skip
    nut = ObjectTrajectory(object="nut", t=t, points=stack.points[k], valid=valid)
    return VideoSample(
        frames=stack.frames[k], fps=stack.fps, camera=stack.conditions[k].camera, hands=(hand,), object=nut,
        contact=contact_schedule([hand], nut), provenance={"source": "demonstration"},
    )  # fmt: skip


def _without_hand(clip: VideoSample) -> VideoSample:
    """The object still travels, and the hand waits far above where it started."""
    joints = np.broadcast_to(clip.hand.joints[:1] + np.array([0.0, 0.0, 0.6]), clip.hand.joints.shape)
    return replace(clip, hands=(replace(clip.hand, joints=joints, contact=np.zeros_like(clip.hand.contact)),))


def _laws(clip: VideoSample, stack, k=0, **kwargs) -> dict[str, float]:
    return contact_law_violations(Motion.of(clip), stack.conditions[k], **kwargs)


def test_demonstrations_keep_the_laws(clips, tiny_stack):
    laws = [_laws(clip, tiny_stack, k) for k, clip in enumerate(clips)]
    assert np.mean([v["moves_alone"] for v in laws]) < 0.02
    assert np.mean([v["touches_air"] for v in laws]) < 0.02
    assert np.mean([v["sinks_in"] for v in laws]) < 0.02


def test_a_wider_meaning_of_near_breaks_fewer_laws(clips, tiny_stack):
    for name in ("moves_alone", "touches_air"):
        shares = [np.mean([_laws(c, tiny_stack, k, near=gap)[name] for k, c in enumerate(clips)]) for gap in GAPS]
        assert shares == sorted(shares, reverse=True)
    assert _laws(clips[0], tiny_stack, near=-1.0)["touches_air"] > 0.2  # nobody is as near as that


def test_an_object_that_moves_alone_is_counted_while_it_moves(clips, tiny_stack):
    clip = clips[0]
    speed = np.linalg.norm(np.gradient(clip.object.points, 1 / clip.fps, axis=0), axis=-1).mean(axis=1)
    found = _laws(_without_hand(clip), tiny_stack)
    assert found == {"moves_alone": pytest.approx((speed > 0.08).mean()), "touches_air": 0.0, "sinks_in": 0.0}
    assert found["moves_alone"] > 0.2


def test_a_finger_that_touches_air_is_counted(clips, tiny_stack):
    hand = replace(_without_hand(clips[0]).hand, contact=np.ones_like(clips[0].hand.contact))
    assert _laws(replace(clips[0], hands=(hand,)), tiny_stack)["touches_air"] == 1.0


def test_a_hand_that_sinks_into_what_is_rigid_is_counted(clips, tiny_stack):
    """All fingers in the wall of a nut that lies still, in the first half of the frames."""
    clip, condition = _without_hand(clips[0]), tiny_stack.conditions[0]
    points, joints = np.broadcast_to(clip.object.points[:1], clip.object.points.shape), clip.hand.joints.copy()
    half, wall = len(joints) // 2, condition.cloud[condition.moves][0]
    joints[:half, 1:] = wall[:3] - 0.004 * wall[3:]
    sunk = replace(
        clip, hands=(replace(clip.hand, joints=joints),), object=replace(clip.object, points=points)
    )  # fmt: skip
    assert _laws(sunk, tiny_stack)["sinks_in"] == half / len(joints)
    assert contact_law_violations(Motion.of(sunk), replace(condition, pose=None))["sinks_in"] == 0.0


def test_what_deforms_is_near_where_its_matter_went(clips, tiny_stack):
    """The nut as if it were soft: its surface follows the nearest matter, which for a rigid one is nearly the same."""
    soft = replace(tiny_stack.conditions[0], pose=None)
    assert contact_law_violations(Motion.of(clips[0]), soft, near=0.02)["touches_air"] < 0.05


def test_ranking_puts_lawbreakers_last(clips, tiny_stack):
    order = rank_samples([_without_hand(clips[0]), clips[1], clips[2]], tiny_stack.conditions[:3])
    assert order[-1] == 0
    assert sorted(order) == [0, 1, 2]


def test_demonstrations_match_themselves(tiny_stack, clips):
    result = evaluate_samples([Motion.of(clip) for clip in clips], tiny_stack)
    assert result["n"] == len(clips)
    assert result["contact_agreement"]["mean"] == 1.0
    names = ("goal_error_mm", "target_wrist_error_mm", "start_wrist_error_mm", "contact_onset_error_ms", "pixel_error")
    for name in (*names, "joints_error_mm", "object_error_mm"):
        assert result[name]["mean"] == result[name]["high"] == 0.0, name


def test_errors_have_the_right_size_and_unit(tiny_stack, clips):
    late = []
    for clip, condition in zip(clips, tiny_stack.conditions):
        at = round(condition.target_at * clip.fps)
        points, wrist = clip.object.points.copy(), clip.hand.wrist_pose.copy()
        points[-1, :, 0] += 0.010
        wrist[at, 1] += 0.020
        contact = np.roll(clip.hand.contact, 2, axis=0)
        contact[:2] = 0
        hand = replace(clip.hand, wrist_pose=wrist, contact=contact)
        late.append(Motion.of(replace(clip, hands=(hand,), object=replace(clip.object, points=points))))
    result = evaluate_samples(late, tiny_stack)
    assert result["goal_error_mm"]["mean"] == pytest.approx(10)
    assert result["target_wrist_error_mm"]["mean"] == pytest.approx(20)
    assert result["wrist_error_mm"]["mean"] == pytest.approx(np.mean([20 / len(clip.hand) for clip in clips]))
    assert result["contact_onset_error_ms"]["mean"] == pytest.approx(2000 / tiny_stack.fps)


def test_what_was_not_measured_is_not_compared(tiny_stack, clips):
    blind = replace(
        tiny_stack,
        hand_known=np.zeros_like(tiny_stack.hand_known),
        touch_known=np.zeros_like(tiny_stack.touch_known),
    )
    result = evaluate_samples([Motion.of(clip) for clip in clips], blind)
    for name in ("wrist_error_mm", "target_wrist_error_mm", "contact_onset_error_ms", "contact_agreement"):
        assert result[name] is None
    assert result["object_error_mm"]["mean"] == 0.0


def test_predictors_stand_beside_the_prior(tiny_stack, clips):
    train, held_out = split_stack(tiny_stack, 0.3)
    samples = [clips[tiny_stack.ids.index(name)] for name in held_out.ids]
    result = evaluate_prior(samples, held_out, train)
    assert result["clips"] == {"train": len(train), "held_out": len(held_out), "left_out": tiny_stack.left_out}
    assert result["prior"]["joints_error_mm"]["mean"] == result["demonstrations"]["joints_error_mm"]["mean"] == 0.0
    # the copy of the condition is right where the condition says it, and nowhere else
    assert result["copy"]["start_wrist_error_mm"]["mean"] < 1e-3
    assert result["copy"]["target_wrist_error_mm"]["mean"] < 1e-3
    assert result["copy"]["wrist_error_mm"]["mean"] > 5.0
    assert result["constant"]["start_wrist_error_mm"]["mean"] > 5.0
    # a clip of the training set breaks no more laws than demonstrations do, but it is another one
    own = evaluate_prior([samples[0]], held_out[:1], held_out[:1])["nearest"]
    assert own["joints_error_mm"]["mean"] == 0.0
    assert result["nearest"]["goal_error_mm"]["mean"] > 1.0


def test_aligned_joints_forgive_place_turn_and_size_alone(clips, tiny_stack):
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    moved = [replace(Motion.of(c), joints=1.1 * Motion.of(c).joints @ turn.T + 0.05) for c in clips]
    bent = [replace(m, joints=m.joints * np.array([1.0, 1.0, -1.0])) for m in moved]  # a hand of the other side
    found, other = (evaluate_samples(motions, tiny_stack) for motions in (moved, bent))
    assert found["joints_error_mm"]["mean"] > 50
    assert found["aligned_joints_error_mm"]["high"] < 1e-6
    assert other["aligned_joints_error_mm"]["low"] > 1.0


def test_contact_f1_counts_what_touches(clips, tiny_stack):
    never = [replace(Motion.of(c), contact=np.zeros_like(Motion.of(c).contact)) for c in clips]
    always = [replace(Motion.of(c), contact=np.ones_like(Motion.of(c).contact)) for c in clips]
    assert evaluate_samples([Motion.of(c) for c in clips], tiny_stack)["contact_f1"]["mean"] == 1.0
    assert evaluate_samples(never, tiny_stack)["contact_f1"]["mean"] == 0.0
    share = np.mean([(c := clip.hand.contact > 0.5).mean() * 2 / (1 + c.mean()) for clip in clips])
    assert evaluate_samples(always, tiny_stack)["contact_f1"]["mean"] == pytest.approx(share)


def test_the_energy_score_is_that_of_its_formula(clips, tiny_stack):
    """Of two samples that miss by a and b to opposite sides: their mean miss, less half of what they are apart."""

    def shifted(x):
        return [replace(Motion.of(c), joints=Motion.of(c).joints + np.array([x, 0.0, 0.0])) for c in clips]

    found = spread_of([shifted(0.010), shifted(-0.004)], tiny_stack)
    assert found["diversity_mm"]["mean"] == pytest.approx(14.0)
    assert found["energy_mm"]["mean"] == pytest.approx(7.0 - 7.0)
    assert found["best_mm"]["mean"] == pytest.approx(4.0)
    alike = spread_of([shifted(0.010), shifted(0.010)], tiny_stack)
    assert alike["energy_mm"]["mean"] == pytest.approx(10.0)


def test_a_swapped_part_is_another_s_and_the_rest_its_own(tiny_stack):
    conditions = tiny_stack.conditions[:3]
    made = swapped(conditions, "cloud", [1, 2, 0])
    for own, other, k in zip(conditions, made, (1, 2, 0)):
        np.testing.assert_array_equal(other.cloud, conditions[k].cloud)
        np.testing.assert_array_equal(other.goal, conditions[k].goal)
        assert other.start[0] is own.start[0]
        assert other.target[0] is own.target[0]


def test_predicted_motions_are_those_of_the_predictors(tiny_stack):
    train, held_out = split_stack(tiny_stack, 0.3)
    found = predicted_motions(held_out, train)
    assert list(found) == ["constant", "copy", "nearest"]
    assert {motion.shape for motion in found.values()} == {(len(held_out), held_out.frames.shape[1], 112)}
    np.testing.assert_allclose(found["constant"][0], found["constant"][-1])
    starts = [c.start[0].wrist_pose[:3] for c in held_out.conditions]
    np.testing.assert_allclose(found["copy"][:, 0, :3], starts, atol=1e-6)
