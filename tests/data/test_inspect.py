"""A contact sheet and a page say what is in a folder, and what cannot be read."""

from __future__ import annotations

import base64
import re

import numpy as np
import pytest
from pictured import pictured_episode, two_handed_episode
from PIL import Image

from dexprior.data.clips import read_clip
from dexprior.data.episodes import append_index, write_episode
from dexprior.data.inspect import contact_sheet, inspect
from dexprior.data.shards import ShardSet, ShardWriter
from dexprior.errors import ArtifactError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("shards")
    with ShardWriter(path, producer="test") as writer:
        for k in range(5):
            writer.write(f"e{k}", pictured_episode(k), seed=k)
    return path


def test_the_page_needs_no_other_file_and_says_what_it_shows(folder, tmp_path):
    found = inspect(folder, tmp_path, most=4)
    assert (found.shown, found.episodes, found.unreadable) == (4, 5, ())
    page = found.page.read_text()
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    assert "take nut &lt;0&gt; &amp; turn it" in page, "text is escaped"
    for word in ("5, of which 4 are shown", "nut, success", "failed", "24 frames at 24 Hz", "1.00 to 1.00 s", "other"):
        assert word in page
    assert page.count("<polyline") == 4 * 6


def test_both_hands_of_a_clip_are_shown(tmp_path):
    write_episode(tmp_path, 0, two_handed_episode(), producer="test")
    append_index(tmp_path, {"number": 0, "kept": True})
    page = inspect(tmp_path, tmp_path / "out").page.read_text()
    assert "right and left hand" in page
    assert page.count("<polyline") == 11
    assert page.count("stroke-dasharray") == 5


def test_the_videos_inside_the_page_can_be_read(folder, tmp_path):
    page = inspect(folder, tmp_path, most=1).page.read_text()
    videos = re.findall(r"data:video/mp4;base64,([^\"]+)", page)
    assert len(videos) == 2
    path = tmp_path / "clip.mp4"
    path.write_bytes(base64.b64decode(videos[0]))
    assert np.abs(read_clip(path)[0].astype(int) - ShardSet(folder).read(0).sample.frames).mean() < 4


def test_the_sheet_shows_every_picture_where_it_belongs(folder, tmp_path):
    sheet = np.asarray(Image.open(inspect(folder, tmp_path, most=3, pictures=4, height=64).sheet))
    assert sheet.shape == (3 * (64 + 14 + 2), 5 * 66, 3)
    shards = ShardSet(folder)
    for row, number in enumerate((0, 1, 3)):
        frames = shards.read(number).sample.frames
        top = row * 80 + 14
        for column, frame in enumerate((0, 8, 15, 23)):
            np.testing.assert_array_equal(sheet[top : top + 64, 66 * column : 66 * column + 64], frames[frame])


def test_episodes_of_several_sizes_share_a_sheet():
    shown = [({**_row(k), "text": "x" * 500}, pictured_episode(k, size=size)) for k, size in enumerate((48, 96))]
    assert contact_sheet(shown, pictures=3, height=40).shape == (2 * 56, 4 * 42, 3)


def _row(k: int) -> dict:
    return {"id": str(k), "success": True, "object": "nut", "frames": 24, "fps": 24.0}


def test_what_cannot_be_read_is_listed_and_the_rest_shown(folder, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in folder.glob("w0*"):
        (copy / path.name).write_bytes(path.read_bytes())
    clip = ShardSet(copy).clip(2)
    with clip.path.open("r+b") as stream:
        stream.seek(clip.offset + 50)
        stream.write(b"damage")
    found = inspect(copy, tmp_path / "out")
    assert found.shown == 4
    assert len(found.unreadable) == 1
    assert found.unreadable[0].startswith("e2: ")
    assert "Cannot be read" in found.page.read_text()


def test_no_episode(tmp_path):
    with pytest.raises(ArtifactError, match="no such file"):
        inspect(tmp_path, tmp_path / "out")
