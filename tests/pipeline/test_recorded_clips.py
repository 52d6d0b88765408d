"""A clip of the line is one hand and what it handles; of a clip with two hands somebody has to say which."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dexprior.artifacts import save
from dexprior.cli.main import main
from dexprior.data.stacks import recorded_clip, stack_episodes
from dexprior.errors import BadInput
from dexprior.pipeline.films import with_hand
from dexprior.types import Episode


@pytest.fixture
def both(example_makers) -> Episode:
    """An episode of two hands."""
    one = example_makers(n=5, size=32)[Episode]
    right = one.sample.hand
    left = dataclasses.replace(right, side="left", joints=right.joints + 0.1)
    start, target = ((*h, dataclasses.replace(h[0], side="left")) for h in (one.condition.start, one.condition.target))
    return dataclasses.replace(
        one,
        sample=dataclasses.replace(one.sample, hands=(right, left)),
        condition=dataclasses.replace(one.condition, start=start, target=target),
    )


def test_a_recorded_clip_has_the_hand_of_its_side(both, example_makers):
    one = example_makers(n=3, seed=1, size=32)[Episode]
    stack = stack_episodes([one, both], 32)
    for side in ("right", "left"):
        hand, thing = recorded_clip(stack, 1, side)
        assert hand.side == side
        np.testing.assert_array_equal(hand.joints, both.sample.of_side(side).joints)
        np.testing.assert_array_equal(thing.points, both.sample.object.points)
    assert recorded_clip(stack, 0)[0].side == "right"
    with pytest.raises(BadInput, match="clip 000001 shows a right hand and a left hand: choose one by its side"):
        recorded_clip(stack, 1)


def test_a_report_draws_the_hand_in_each_frame_where_the_camera_then_sees_it(example_makers):
    sample = example_makers(n=4, size=32)[Episode].sample
    camera = sample.camera
    path = np.tile(camera.T_base_cam, (4, 1, 1))
    path[:, 0, 3] += 0.1 * np.arange(4)
    hand = dataclasses.replace(sample.hand, joints=0.1 * sample.hand.joints + [0.5, 0.0, 1.4])
    walks = dataclasses.replace(sample, camera=dataclasses.replace(camera, T_base_cam=path))
    drawn = with_hand(walks, hand)
    for k in range(4):
        still = dataclasses.replace(sample, camera=dataclasses.replace(camera, T_base_cam=path[k]))
        np.testing.assert_array_equal(drawn[k], with_hand(still, hand)[k])
    assert (drawn[3] != with_hand(sample, hand)[3]).any()


def test_retargeting_a_clip_of_two_hands_asks_which(both, tmp_path, capsys):
    save(both.sample, tmp_path / "samples.safetensors", producer="test")
    save(both.sample.of_side("right"), tmp_path / "hand.safetensors", producer="test")
    words = [
        "retarget", "robot=arm7+parallel", f"samples={tmp_path / 'samples.safetensors'}",
        f"hand={tmp_path / 'hand.safetensors'}", f"out={tmp_path}",
    ]  # fmt: skip
    assert main(words) == 1
    assert "the clip shows a right hand and a left hand: choose one by its side" in capsys.readouterr().err
    assert main([*words, "side=left"]) == 1
    assert "cannot fuse a right hand of 5 frames with a left hand" in capsys.readouterr().err
