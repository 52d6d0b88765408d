"""The way that a motion shows: read from the motion, not from how long its clip is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.prior.ways import WayReader, way_of


@pytest.fixture(scope="module")
def two_ways(tiny_stack):
    """Demonstrations of one way, every second of which goes its way in half the time, and then rests."""
    time = tiny_stack.valid.shape[1]
    rows, quick = np.minimum(2 * np.arange(time), time - 1), np.arange(len(tiny_stack)) % 2 == 1
    arrays = {}
    for name in ("wrist_pose", "finger_pose", "joints", "contact", "points"):
        array = getattr(tiny_stack, name).copy()
        array[quick] = array[quick][:, rows]
        arrays[name] = array
    info = [{**row, "strategy": "quick" if k else "careful"} for row, k in zip(tiny_stack.info, quick)]
    return replace(tiny_stack, info=tuple(info), **arrays)


def test_ways_are_read_in_clips_that_were_not_fitted(two_ways):
    reader = WayReader.fit(two_ways[:6])
    assert reader.ways == ("pick_place/careful", "pick_place/quick")
    others = two_ways[6:]
    assert reader.of_clips(others) == [way_of(others, k) for k in range(len(others))]


def test_how_long_a_clip_is_tells_nothing(two_ways):
    """A clip that ends when its hand has come to rest is read as one that goes on."""
    reader, valid = WayReader.fit(two_ways[:6]), two_ways.valid.copy()
    valid[1::2, valid.shape[1] // 2 + 1 :] = False
    assert reader.of_clips(replace(two_ways, valid=valid)) == reader.of_clips(two_ways)


def test_what_no_demonstration_moves_says_nothing(two_ways):
    """A finger that all hold still is not heard louder in a motion that does not."""
    reader = WayReader.fit(two_ways[:6])
    shaken = two_ways.finger_pose + 1e-3 * np.random.default_rng(0).normal(size=two_ways.finger_pose.shape)
    assert reader.of_clips(replace(two_ways, finger_pose=shaken)) == reader.of_clips(two_ways)


def test_one_way_alone_is_refused(tiny_stack):
    with pytest.raises(BadInput, match="demonstrations of 1 ways of doing something: there is nothing to tell apart"):
        WayReader.fit(tiny_stack)
    assert way_of(replace(tiny_stack, info=tuple({} for _ in tiny_stack.info)), 0) == ""
