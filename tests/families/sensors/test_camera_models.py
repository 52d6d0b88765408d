"""Rows at different times, and a lens that reflects."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.families.sensors import (
    DepthConfig,
    FlareConfig,
    RollingShutterConfig,
    lens_flare,
    rolling_shutter,
    row_times,
    sense_depth,
    sheared,
)


def _bar(position: float, rows: int = 40, columns: int = 80) -> np.ndarray:
    """A soft vertical bar."""
    row = np.exp(-(((np.arange(columns) - position) / 3.0) ** 2))
    return np.tile(row[None, :, None], (rows, 1, 3))


def _leaning(frame: np.ndarray) -> float:
    """Columns by which the bar's centre moves from row to row."""
    weight = frame[..., 0] / frame[..., 0].sum(axis=1, keepdims=True)
    return float(np.polyfit(np.arange(frame.shape[0]), weight @ np.arange(frame.shape[1]), 1)[0])


@pytest.mark.parametrize("downwards", [True, False])
def test_readout_and_speed_show_as_a_slant(downwards):
    config, speed = RollingShutterConfig(readout=0.02, downwards=downwards), 600.0
    times = np.linspace(0.1, 0.125, 26)
    frames = np.stack([_bar(20 + speed * (t - 0.1)) for t in times])
    stacked = rolling_shutter(config, frames, times, 0.1)
    warped = sheared(config, _bar(20), np.array([speed, 0.0]))
    expected = speed * 0.02 / 40 * (1 if downwards else -1)
    assert _leaning(stacked) == pytest.approx(expected, rel=0.02)
    assert _leaning(warped) == pytest.approx(expected, rel=0.02)
    assert np.abs(stacked - warped).max() < 0.03  # linear interpolation, in time and in space
    many = rolling_shutter(config, np.stack([frames, frames[::-1]]), times, 0.1)
    assert np.array_equal(many[0], stacked)


def test_a_shutter_at_once_and_a_still_picture_change_nothing():
    frames = np.random.default_rng(0).uniform(size=(3, 10, 12, 3))
    assert np.array_equal(rolling_shutter(RollingShutterConfig(readout=0.0), frames, np.arange(3.0), 1.0), frames[1])
    assert sheared(RollingShutterConfig(), frames[0], np.zeros(2)) == pytest.approx(frames[0])
    assert row_times(RollingShutterConfig(readout=0.5), 5) == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])


def test_frames_must_span_the_readout():
    frames = np.zeros((2, 10, 12, 3))
    with pytest.raises(BadInput, match="snapshots are known"):
        rolling_shutter(RollingShutterConfig(readout=0.1), frames, np.array([0.0, 0.05]), 0.0)
    with pytest.raises(BadInput, match="rising times"):
        rolling_shutter(RollingShutterConfig(), frames, np.array([0.1, 0.0]), 0.0)
    with pytest.raises(BadInput, match="motion"):
        sheared(RollingShutterConfig(), frames[0], np.zeros(3))


@pytest.mark.parametrize("place", [-0.5, 0.6, -1.2])
def test_a_ghost_lies_on_the_line_through_the_centre(place):
    frame = np.zeros((1, 101, 101, 3))
    frame[0, 27:34, 67:74] = 1.0  # its centre is 20 above and 20 right of the middle
    config = FlareConfig(places=(place,), strengths=(0.3,), veil=0.0)
    ghost = lens_flare(config, frame)[0, ..., 0] - frame[0, ..., 0]
    row, column = np.indices(ghost.shape)
    centre = np.array([(ghost * row).sum(), (ghost * column).sum()]) / ghost.sum()
    assert centre - 50 == pytest.approx(np.array([-20, 20]) * place, rel=0.05)
    assert ghost.max() == pytest.approx(0.3, rel=0.01)


def test_the_veil_spreads_light_and_dark_pictures_have_no_ghosts():
    frame = np.zeros((1, 64, 64, 3))
    frame[0, 30:34, 30:34] = 1.0
    veiled = lens_flare(FlareConfig(strengths=(0, 0, 0), veil=0.2, spread=0.1), frame)
    assert veiled.sum() == pytest.approx(frame.sum(), rel=0.01)
    assert veiled[0, 32, 32, 0] == pytest.approx(0.8, abs=0.02)
    dim = np.full((2, 16, 16, 3), 0.5)
    assert lens_flare(FlareConfig(veil=0.0), dim) == pytest.approx(dim)


def test_bad_pictures_are_refused():
    with pytest.raises(BadInput, match="from 0 to 1"):
        lens_flare(FlareConfig(), np.full((1, 8, 8, 3), 255.0))
    with pytest.raises(BadInput, match="one strength"):
        FlareConfig(places=(1.0,), strengths=(0.1, 0.2))
    with pytest.raises(BadInput, match="without NaN"):
        sense_depth(DepthConfig(), np.full((1, 4, 4), np.nan), np.array([0]), 0)
    with pytest.raises(BadInput, match="mirror of shape"):
        sense_depth(DepthConfig(), np.ones((1, 4, 4)), np.array([0]), 0, mirror=np.zeros((4, 4), dtype=bool))
