"""One clip reader behind two libraries: they agree, and say what is wrong with a file."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from dexprior.data.clips import probe_clip, read_clip, write_clip
from dexprior.errors import BadInput

READERS = ["decord", "pyav"]
ROOT = os.environ.get("DEXPRIOR_DATA")


@pytest.fixture(scope="module")
def frames():
    """A square that moves two pixels a frame over a gradient; odd sizes on purpose."""
    video = np.zeros((24, 63, 95, 3), dtype=np.uint8)
    video[..., 2] = np.linspace(0, 200, 95).astype(np.uint8)
    for k, frame in enumerate(video):
        frame[20:36, 2 * k : 2 * k + 16, 0] = 255
    return video


@pytest.fixture(scope="module")
def clip(tmp_path_factory, frames):
    return write_clip(tmp_path_factory.mktemp("clip") / "square.mp4", frames, 30.0)


@pytest.mark.parametrize("reader", READERS)
def test_what_was_written_is_read(clip, frames, reader):
    if reader == "decord":
        pytest.importorskip("decord")
    back, fps = read_clip(clip, reader=reader)
    assert fps == pytest.approx(30.0)
    assert back.shape == (24, 64, 96, 3), "padded to even sizes"
    assert np.abs(back[:, :63, :95].astype(int) - frames).mean() < 6  # chroma is stored at half resolution


def test_readers_agree(clip):
    pytest.importorskip("decord")
    a, _ = read_clip(clip, reader="decord")
    b, _ = read_clip(clip, reader="pyav")
    assert a.shape == b.shape
    assert np.abs(a.astype(int) - b).mean() < 2


@pytest.mark.parametrize("reader", READERS)
def test_a_range_is_that_range(clip, reader):
    if reader == "decord":
        pytest.importorskip("decord")
    whole, _ = read_clip(clip, reader=reader)
    part, _ = read_clip(clip, reader=reader, start=7, stop=11)
    np.testing.assert_array_equal(part, whole[7:11])


def test_size_is_height_then_width(clip):
    assert read_clip(clip, size=(32, 48))[0].shape == (24, 32, 48, 3)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kept", [0.3, 0.7])
def test_a_truncated_clip_is_refused(clip, tmp_path, reader, kept):
    if reader == "decord":
        pytest.importorskip("decord")
    content = clip.read_bytes()
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(BadInput, match="truncated"):
        read_clip(cut, reader=reader)


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "is empty"), (b"fps: 30\n" * 99, "not a video"), (None, "no clip at")]
)
def test_other_files_are_named(tmp_path, content, message):
    path = tmp_path / "notes.mp4"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInput, match=message):
        read_clip(path)


def test_a_range_beyond_the_end(clip):
    with pytest.raises(BadInput, match="no frame in"):
        read_clip(clip, start=24)
    with pytest.raises(BadInput, match="start < stop"):
        read_clip(clip, start=5, stop=5)


def test_writing_nothing_leaves_no_file(tmp_path):
    with pytest.raises(BadInput, match="expected uint8"):
        write_clip(tmp_path / "empty.mp4", np.zeros((0, 4, 4, 3), np.uint8), 30)
    with pytest.raises(BadInput, match="fps"):
        write_clip(tmp_path / "empty.mp4", np.zeros((2, 4, 4, 3), np.uint8), 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not ROOT, reason="needs $DEXPRIOR_DATA (hand_clip)")
def test_the_real_clip_says_what_it_holds():
    path = Path(ROOT) / "hand_clip" / "human_hand_video.mp4"
    info = probe_clip(path)
    assert (info.frames, info.fps, info.height, info.width) == (621, 30.0, 720, 1280)
    counts = {reader: len(read_clip(path, reader=reader, size=(36, 64))[0]) for reader in READERS}
    assert counts == {"decord": 621, "pyav": 621}
