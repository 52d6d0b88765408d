"""Windows of clips of which only the pixels are known."""

from __future__ import annotations

import json

import numpy as np
import pytest
from written_videos import TRIMMED, trim

from dexprior.data.clips import write_clip
from dexprior.data.plain_clips import PlainClips
from dexprior.errors import BadInput


def _folder(path, clips: dict[str, tuple[np.ndarray, float]]):
    rows = [{"file_path": name, "text": "a hand", "type": "video"} for name in clips]
    for name, (frames, fps) in clips.items():
        write_clip(path / name, frames, fps, crf=1)
    (path / "metadata.json").write_text(json.dumps([*rows, {"file_path": "picture.png", "type": "image"}]))
    return path


def _counting(n: int, *, height: int = 32, width: int = 64) -> np.ndarray:
    """Frame k is grey of 5 k in the middle square, black at both sides."""
    frames = np.zeros((n, height, width, 3), dtype=np.uint8)
    frames[:, :, (width - height) // 2 : (width + height) // 2] = 5 * np.arange(n)[:, None, None, None]
    return frames


def test_windows_are_the_middle_square_at_the_wanted_rate(tmp_path):
    clips = PlainClips(_folder(tmp_path, {"a.mp4": (_counting(40), 30.0)}), size=16, fps=12.0, window=8)
    drawn = clips.draw(np.random.default_rng(0), 20)
    assert drawn.shape == (20, 8, 16, 16, 3)
    shade = drawn[..., 4:12, 4:12, :].mean(axis=(2, 3, 4)) / 5
    steps = np.diff(shade, axis=1)
    assert np.abs(steps - 2.5).max() < 0.8  # 30 / 12, by the nearest frame
    assert np.abs(steps.mean() - 18 / 7) < 0.05  # frames 0, 3, 5, 8, 10, 13, 15, 18
    assert shade[:, 0].min() < 4
    assert shade[:, -1].max() > 35
    assert drawn[..., 0, :].mean() > 50  # nothing of the black sides


def test_windows_end_where_a_trimmed_clip_does(tmp_path):
    """The header counts the frames that an edit list leaves out."""
    folder = _folder(tmp_path, {"a.mp4": (np.repeat(_counting(35), 2, axis=0), 30.0)})
    trim(folder / "a.mp4")
    clips = PlainClips(folder, size=16, fps=15.0, window=20)
    drawn = clips.draw(np.random.default_rng(0), 60)
    shade = drawn[..., 4:12, 4:12, :].mean(axis=(2, 3, 4)) / 5
    assert shade[:, 0].min() == pytest.approx(TRIMMED // 2, abs=1)
    assert shade[:, -1].max() == pytest.approx(34, abs=1)


def test_draws_depend_on_the_generator_and_short_clips_are_left_out(tmp_path):
    clips = {"long.mp4": (_counting(30), 10.0), "short.mp4": (_counting(7), 10.0)}
    plain = PlainClips(_folder(tmp_path, clips), size=16, fps=10.0, window=8)
    assert len(plain) == 1
    one, two = (plain.draw(np.random.default_rng([1, 2]), 3) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    other = PlainClips(tmp_path, size=16, fps=5.0, window=8)
    assert other.fingerprint != plain.fingerprint == PlainClips(tmp_path, size=16, fps=10.0, window=8).fingerprint


def test_what_is_wrong_is_named(tmp_path):
    with pytest.raises(BadInput, match="data import videos=FOLDER"):
        PlainClips(tmp_path, size=16, fps=10.0, window=8)
    for text in ("not json", "{}", "[]", '[{"type": "video"}]'):
        (tmp_path / "metadata.json").write_text(text)
        with pytest.raises(BadInput, match=r"metadata\.json"):
            PlainClips(tmp_path, size=16, fps=10.0, window=8)
    _folder(tmp_path, {"a.mp4": (_counting(10), 10.0)})
    with pytest.raises(BadInput, match="none of 1 clips has 11 frames"):
        PlainClips(tmp_path, size=16, fps=10.0, window=11)
    (tmp_path / "a.mp4").write_bytes(b"damaged")
    with pytest.raises(BadInput, match=r"a\.mp4"):
        PlainClips(tmp_path, size=16, fps=10.0, window=8)
