"""What a sample is told: sentences as vectors, and the straight path that its motion departs from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dexprior.data.demonstrations import SENTENCES
from dexprior.errors import BadInput
from dexprior.prior.conditioning import ConditionEncoder, condition_tensors, embed_text, straight_path

FPS = 24.0


def test_one_sentence_has_one_vector_of_unit_length():
    for sentence in SENTENCES:
        np.testing.assert_array_equal(embed_text(sentence), embed_text(sentence))
        assert np.linalg.norm(embed_text(sentence)) == pytest.approx(1.0)
    np.testing.assert_array_equal(embed_text("Put the NUT, on the bolt!"), embed_text("put the nut on the bolt"))
    assert not embed_text("").any()


def test_the_vector_is_the_same_in_every_process():
    """Python's own hash of a string changes from process to process; a checkpoint must not."""
    vector = embed_text("put the nut on the bolt")
    assert np.flatnonzero(vector)[:4].tolist() == [2, 3, 6, 17]


def test_close_sentences_land_closer_than_far_ones():
    here = embed_text("put the nut on the bolt")
    near = embed_text("put the orange nut onto the bolt")
    far = embed_text("pour some water into a glass")
    assert here @ near > 0.4
    assert here @ near > here @ far + 0.3


def test_the_path_runs_from_the_start_to_the_target(conditions):
    path = straight_path(condition_tensors(conditions), 48, FPS).numpy()
    for row, condition in zip(path, conditions):
        for frame, hand in ((0, condition.start), (-1, condition.target)):
            np.testing.assert_allclose(row[frame, :3], hand.wrist_pose[:3], atol=1e-6)
            np.testing.assert_allclose(row[frame, 9:54], hand.finger_pose, atol=1e-6)
        points = row[:, 54:].reshape(-1, 16, 3)
        np.testing.assert_allclose(points[0], condition.points, atol=1e-6)
        touched = condition.target.points[condition.target.touching].mean(0)
        np.testing.assert_allclose(points[-1].mean(0), touched, atol=1e-6)
    np.testing.assert_allclose(np.diff(path, n=2, axis=1), 0, atol=1e-6)  # straight, at constant speed


def test_an_untouched_target_leaves_the_object_where_it_lies(conditions):
    open_hand = replace(conditions[0].target, touching=np.zeros(5, dtype=bool), points=np.zeros((5, 3)))
    path = straight_path(condition_tensors([replace(conditions[0], target=open_hand)]), 48, FPS)[0, :, 54:]
    np.testing.assert_allclose(path, path[:1].expand_as(path), atol=1e-6)


def test_behind_the_target_all_rests(conditions):
    early = [replace(c, target_at=0.5) for c in conditions]
    path = straight_path(condition_tensors(early), 48, FPS)
    reached = round(0.5 * FPS)
    torch.testing.assert_close(path[:, reached:], path[:, -1:].expand(-1, 48 - reached, -1))
    assert (path[:, reached - 1] - path[:, -1]).abs().max() > 1e-3


def test_conditions_of_different_clouds_are_named(conditions):
    small = replace(conditions[0], cloud=conditions[0].cloud[:50], moves=conditions[0].moves[:50])
    with pytest.raises(BadInput, match="50 and 64 points in `cloud`"):
        condition_tensors([conditions[0], small])


@pytest.mark.parametrize("name", ["camera", "text"])
def test_the_path_does_not_depend_on_who_watches_or_how_it_is_said(conditions, name):
    given = condition_tensors(conditions)
    other = {**given, name: torch.randn_like(given[name])}
    assert torch.equal(straight_path(given, 6, FPS), straight_path(other, 6, FPS))


def test_moving_the_cloud_alone_moves_no_path(conditions):
    given = condition_tensors(conditions)
    assert torch.equal(straight_path(given, 6, FPS), straight_path({**given, "cloud": given["cloud"] + 0.1}, 6, FPS))


def test_moving_the_object_alone_moves_only_where_it_starts(conditions):
    given = condition_tensors(conditions)
    other = {**given, "points": given["points"] + 0.1}
    moved = straight_path(other, 48, FPS) - straight_path(given, 48, FPS)
    assert not moved[..., :54].any()
    np.testing.assert_allclose(moved[:, 0, 54:], 0.1, atol=1e-6)
    np.testing.assert_allclose(moved[:, -1], 0.0, atol=1e-6)


def test_a_cloud_is_a_set(conditions):
    """The encoder does not see in which order the points come."""
    torch.manual_seed(0)
    encoder = ConditionEncoder(16)
    given = condition_tensors(conditions)
    encoder.fit(given["cloud"])
    order = torch.randperm(given["cloud"].shape[1])
    shuffled = {**given, "cloud": given["cloud"][:, order], "moves": given["moves"][:, order]}
    torch.testing.assert_close(encoder(given), encoder(shuffled), atol=1e-5, rtol=1e-5)


def test_the_encoder_leaves_its_input_alone(conditions):
    given = condition_tensors(conditions)
    before = {k: v.clone() for k, v in given.items()}
    encoder = ConditionEncoder(16)
    encoder.fit(given["cloud"])
    encoder(given)
    assert all(torch.equal(given[k], before[k]) for k in given)
