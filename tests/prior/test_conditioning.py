"""What a sample is told: sentences as vectors, and the straight path that its motion departs from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dexprior.errors import BadInput, UnknownName
from dexprior.prior.conditioning import (
    CONDITIONS,
    ConditionEncoder,
    condition_tensors,
    straight_path,
    told,
    window_of,
    without_hidden,
)
from dexprior.prior.text import embed_text
from dexprior.types import SIDES
from dexprior.worlds.tasks import strategies_of

FPS = 24.0


def test_one_sentence_has_one_vector_of_unit_length():
    for sentence in (text for way in strategies_of("insertion") for text in way.sentences):
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
        for frame, hand in ((0, condition.start[0]), (-1, condition.target[0])):
            np.testing.assert_allclose(row[frame, :3], hand.wrist_pose[:3], atol=1e-6)
            np.testing.assert_allclose(row[frame, 9:54], hand.finger_pose, atol=1e-6)
        points = row[:, 54:].reshape(-1, 16, 3)
        np.testing.assert_allclose(points[0], condition.points, atol=1e-6)
        touched = condition.target[0].points[condition.target[0].touching].mean(0)
        np.testing.assert_allclose(points[-1].mean(0), touched, atol=1e-6)
    np.testing.assert_allclose(np.diff(path, n=2, axis=1), 0, atol=1e-6)  # straight, at constant speed


def test_an_untouched_target_leaves_the_object_where_it_lies(conditions):
    open_hand = replace(conditions[0].target[0], touching=np.zeros(5, dtype=bool), points=np.zeros((5, 3)))
    path = straight_path(condition_tensors([replace(conditions[0], target=(open_hand,))]), 48, FPS)[0, :, 54:]
    np.testing.assert_allclose(path, path[:1].expand_as(path), atol=1e-6)


def test_behind_the_target_all_rests(conditions):
    early = [replace(c, target_at=0.5) for c in conditions]
    path = straight_path(condition_tensors(early), 48, FPS)
    reached = round(0.5 * FPS)
    torch.testing.assert_close(path[:, reached:], path[:, -1:].expand(-1, 48 - reached, -1))
    assert (path[:, reached - 1] - path[:, -1]).abs().max() > 1e-3


def test_hands_have_their_places_and_the_path_runs_for_each(handed):
    given = condition_tensors(handed, sides=SIDES)
    assert given["shows"].tolist() == [[True, False], [False, True], [True, True], [True, True]]
    assert not given["start"][0, 1].any()
    path = straight_path(given, 48, FPS)
    one = straight_path(condition_tensors(handed[:1]), 48, FPS)
    assert path.shape[-1] == one.shape[-1] + 54
    assert torch.equal(path[:1, :, : one.shape[-1]], one)
    for k, condition in enumerate(handed):
        for hand, frame in ((condition.start[-1], 0), (condition.target[-1], -1)):
            place = 0 if hand.side == "right" else one.shape[-1]
            np.testing.assert_allclose(path[k, frame, place : place + 3], hand.wrist_pose[:3], atol=1e-6)
    tips = np.concatenate([hand.points[hand.touching] for hand in handed[2].target])
    np.testing.assert_allclose(path[2, -1, 54:102].reshape(16, 3).mean(0), tips.mean(0), atol=1e-6)
    with pytest.raises(
        BadInput, match="condition 1 asks for a left hand; only the right hand is known here, not the left"
    ):
        condition_tensors(handed[:2])


def test_what_stands_for_a_hand_that_is_not_there_says_nothing(handed):
    torch.manual_seed(0)
    encoder = ConditionEncoder(8, hands=2).eval()
    given = condition_tensors(handed, sides=SIDES)
    other = {**given, "start": given["start"].clone()}
    other["start"][0, 1], other["start"][1, 0] = 3.0, 3.0
    assert torch.equal(encoder(given), encoder(other))
    assert encoder(given).shape == (4, 8, 8)
    assert len(list(ConditionEncoder(8).parameters())) == len(list(encoder.parameters())) - 5


def test_conditions_of_different_clouds_are_named(conditions):
    small = replace(conditions[0], cloud=conditions[0].cloud[:50], moves=conditions[0].moves[:50])
    with pytest.raises(BadInput, match="50 and 64 points in `cloud`"):
        condition_tensors([conditions[0], small])


@pytest.mark.parametrize("name", ["camera", "text"])
def test_the_path_does_not_depend_on_who_watches_or_how_it_is_said(conditions, name):
    given = condition_tensors(conditions)
    other = {**given, name: torch.randn_like(given[name])}
    assert torch.equal(straight_path(given, 6, FPS), straight_path(other, 6, FPS))


def _walking(condition, frames):
    path = np.tile(condition.camera.T_base_cam, (frames, 1, 1))
    path[:, 0, 3] += 0.01 * np.arange(frames)
    return replace(condition, camera=replace(condition.camera, T_base_cam=path))


def test_cameras_that_move_have_a_row_a_frame(conditions):
    still = condition_tensors(conditions)["camera"]
    assert still.shape == (4, 16)
    walks = _walking(conditions[1], 6)
    mixed = condition_tensors([conditions[0], walks], 8)["camera"]
    assert mixed.shape == (2, 8, 16)
    torch.testing.assert_close(mixed[0], still[:1].expand(8, -1), rtol=0, atol=0)
    x = torch.tensor([*(0.01 * np.arange(6)), 0.05, 0.05])  # at the end of its path it rests
    torch.testing.assert_close(mixed[1, :, 7], still[1, 7] + x.float())
    assert condition_tensors([conditions[0], walks])["camera"].shape == (2, 6, 16)


def test_the_window_of_a_clip_has_the_cameras_poses_in_it(conditions):
    given = condition_tensors([_walking(c, 9) for c in conditions])
    part = window_of(given, torch.tensor([0, 5, 2, 1]), 4)
    for row, whole, start in zip(part["camera"], given["camera"], (0, 5, 2, 1)):
        torch.testing.assert_close(row, whole[start : start + 4], rtol=0, atol=0)
    assert torch.equal(part["start"], given["start"])
    still = condition_tensors(conditions)
    assert window_of(still, torch.tensor([0, 5, 2, 1]), 4) is still


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
    encoder = ConditionEncoder(16).eval()
    given = condition_tensors(conditions)
    encoder.fit(given)
    order = torch.randperm(given["cloud"].shape[1])
    shuffled = {**given, "cloud": given["cloud"][:, order], "moves": given["moves"][:, order]}
    torch.testing.assert_close(encoder(given), encoder(shuffled), atol=1e-5, rtol=1e-5)


def test_the_encoder_leaves_its_input_alone(conditions):
    given = condition_tensors(conditions)
    before = {k: v.clone() for k, v in given.items()}
    encoder = ConditionEncoder(16)
    encoder.fit(given)
    encoder(given)
    assert all(torch.equal(given[k], before[k]) for k in given)


def test_what_can_be_hidden_is_named(conditions):
    given = condition_tensors(conditions, hidden=["text", "start"])
    assert given["told"].shape == (4, len(CONDITIONS))
    assert [name for name in CONDITIONS if not told(given, name).any()] == ["start", "text"]
    assert told(given, "cloud").all()
    with pytest.raises(UnknownName, match=r"condition 'goal'\. Known: start, target, fingers, time, cloud, text"):
        condition_tensors(conditions, hidden=["goal"])


def _shown(given):
    hands, points = torch.arange(54.0)[None] / 50, torch.arange(48.0).view(16, 3) / 50
    return without_hidden(given, hands, points, 3.0)


def test_conditions_that_tell_everything_stay_as_they_are(conditions):
    given = condition_tensors(conditions)
    shown = _shown(given)
    assert shown.keys() == given.keys()
    for name, value in given.items():
        assert torch.equal(shown[name], value), name


def test_a_hidden_end_is_the_other_end_and_two_are_everybody_s(conditions):
    for hidden, k, other in ((["start", "target", "fingers"], 0, 50), (["start"], 1, None), (["target"], 2, None)):
        given = condition_tensors(conditions, hidden=hidden)
        shown = _shown(given)
        start, target = shown["start"][k, 0], shown["target"][k, 0]
        assert torch.equal(start[:9], target[:9])
        if other is not None:
            torch.testing.assert_close(start[:54], torch.arange(54.0) / other)
        elif hidden == ["start"]:
            assert torch.equal(shown["target"], given["target"])
            assert torch.equal(start[:54], given["target"][k, 0, :54])
        else:
            assert torch.equal(shown["start"], given["start"])
            assert torch.equal(target[9:54], given["target"][k, 0, 9:54])  # its fingers are told
            assert not target[54:74].any()
    timeless = _shown(condition_tensors(conditions, hidden=["time"]))
    assert (timeless["seconds"] == 3.0).all()
    assert (timeless["target_at"] == 3.0).all()
