"""Any frame of any clip equals that frame of a decode from the start."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from written_videos import TRIMMED, moving, trim, write

from dexprior.data.clips import encode_clip, probe_clip, read_clip
from dexprior.data.readers import ClipPool, ClipReader, ClipSource
from dexprior.errors import BadInput

av = pytest.importorskip("av")
ROOT = os.environ.get("DEXPRIOR_DATA")


def made(folder: Path, kind: str) -> Path:
    """A clip of 70 frames of some kind (59 where it is trimmed)."""
    name, settings = KINDS[kind]
    if settings.get("codec", "libx264") not in av.codecs_available:
        pytest.skip(f"this FFmpeg has no {settings['codec']}")
    path = write(folder / name, moving(70), **settings)
    return trim(path) if kind.startswith("trimmed") else path


def decode_from_the_start(path) -> np.ndarray:
    with av.open(str(path)) as container:
        return np.stack(
            [
                f.reformat(format="rgb24", interpolation="BILINEAR", threads=1).to_ndarray()
                for f in container.decode(video=0)
            ]
        )


KINDS = {
    "b-frames": ("clip.mp4", {"options": {"g": "250", "bf": "3", "preset": "veryfast"}}),
    "short GOP": ("clip.mp4", {"options": {"g": "7", "bf": "2"}}),
    "open GOP": ("clip.mp4", {"options": {"g": "12", "bf": "3", "x264-params": "open-gop=1"}}),
    "no b-frames": ("clip.mp4", {"options": {"bf": "0", "g": "30"}}),
    "matroska at 30000/1001": ("clip.mkv", {"rate": Fraction(30000, 1001), "options": {"g": "20"}}),
    "mpeg4": ("clip.avi", {"codec": "mpeg4"}),
    "hevc": ("clip.mp4", {"codec": "libx265", "options": {"x265-params": "log-level=none:keyint=24:pools=none"}}),
    "vp9": ("clip.webm", {"codec": "libvpx-vp9", "options": {"g": "16", "cpu-used": "8", "deadline": "realtime"}}),
    "transport stream": ("clip.ts", {"options": {"g": "15"}}),
    "gif": ("clip.gif", {"codec": "gif", "pix_fmt": "rgb8", "rate": 10}),
    "trimmed without coding it again": ("clip.mp4", {"options": {"g": "40", "bf": "2"}}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_frame_equals_that_of_a_sequential_decode(tmp_path, kind):
    path = made(tmp_path, kind)
    truth = decode_from_the_start(path)
    n = 70 - (TRIMMED if kind.startswith("trimmed") else 0)
    with ClipReader(path) as clip:
        assert len(clip) == len(truth) == n
        for number in np.random.default_rng(1).permutation(n):
            np.testing.assert_array_equal(clip.read([number])[0], truth[number], err_msg=f"frame {number}")
        for start in (0, n - 16, 13, 27, 28):
            np.testing.assert_array_equal(clip.read(range(start, start + 16)), truth[start : start + 16])
        mixed = [n - 1, 0, 33, 33, 2, n - 2]
        np.testing.assert_array_equal(clip.read(mixed), truth[mixed])
        np.testing.assert_array_equal(clip.read(range(0, n, 5)), truth[::5])
    for start in (0, 41):
        with ClipReader(path) as clip:
            np.testing.assert_array_equal(clip.read(range(start, start + 16)), truth[start : start + 16])


@pytest.mark.parametrize("kind", ["matroska at 30000/1001", "vp9", *list(KINDS)[-3:]])
def test_the_frames_that_are_shown_count_whatever_the_header_says(tmp_path, kind):
    """A header counts none in some containers, and too many in others; decord follows it, and is not asked then."""
    path = made(tmp_path, kind)
    truth = decode_from_the_start(path)
    info = probe_clip(path)
    assert info.frames == len(truth)
    with av.open(str(path)) as container:
        assert container.streams.video[0].frames != info.frames or kind == "gif"
        times = [frame.time for frame in container.decode(video=0)]
    np.testing.assert_allclose(np.arange(info.frames) / info.fps, np.array(times) - times[0], atol=2e-3)
    for start, stop in ((0, None), (30, 41)):
        frames, fps = read_clip(path, start=start, stop=stop)
        assert fps == info.fps
        assert np.abs(frames.astype(int) - truth[start:stop]).mean() < 2
        assert np.abs(frames.astype(int) - truth[start : start + len(frames)][::-1]).mean() > 5


@pytest.mark.skipif(not ROOT, reason="needs $DEXPRIOR_DATA (hand_object)")
def test_real_clips_are_read_frame_exactly():
    path = Path(ROOT) / "hand_object" / "snackbox_push.mp4"
    whole, _ = read_clip(path, size=(90, 160), reader="pyav")
    with ClipReader(path, size=(90, 160)) as clip:
        for start in (100, 3, 146, 55):
            np.testing.assert_array_equal(clip.read(range(start, start + 16)), whole[start : start + 16])


def test_resizing_happens_once_and_alike(tmp_path):
    path = write(tmp_path / "clip.mp4", moving(30))
    whole, _ = read_clip(path, size=(20, 36), reader="pyav")
    with ClipReader(path, size=(20, 36)) as clip:
        assert whole.shape == (30, 20, 36, 3)
        np.testing.assert_array_equal(clip.read([17, 4]), whole[[17, 4]])


@pytest.mark.parametrize("rotation", [90, 180, -90])
def test_a_rotated_clip_is_read_as_it_is_shown(tmp_path, rotation):
    frames = np.zeros((5, 64, 96, 3), np.uint8)
    frames[:, :20, :30, 0] = 255
    path = write(tmp_path / "clip.mp4", frames, rotation=rotation)
    shown = np.rot90(frames, rotation // 90, axes=(1, 2))
    info = probe_clip(path)
    assert (info.height, info.width, info.rotation) == (*shown.shape[1:3], rotation % 360)
    read, _ = read_clip(path)
    assert read.shape == shown.shape
    assert np.abs(read.astype(int) - shown).mean() < 4
    small, _ = read_clip(path, size=(48, 32))
    assert small.shape == (5, 48, 32, 3)
    with pytest.raises(BadInput, match="use pyav"):
        read_clip(path, reader="decord")


def test_decord_shows_a_rotated_clip_alike(tmp_path):
    decord = pytest.importorskip("decord")
    frames = np.zeros((5, 64, 96, 3), np.uint8)
    frames[:, :20, :30, 0] = 255
    path = write(tmp_path / "clip.mp4", frames, rotation=90)
    theirs = decord.VideoReader(str(path)).get_batch(range(5)).asnumpy()
    assert np.abs(read_clip(path)[0].astype(int) - theirs).mean() < 2


def test_a_variable_rate_is_refused_with_the_place_and_the_cure(tmp_path):
    stamps = np.cumsum([0, *[33] * 10, 120, *[33] * 12])
    path = write(tmp_path / "phone.mkv", moving(24), stamps=stamps)
    with pytest.raises(BadInput, match=r"phone\.mkv has a variable frame rate: frame 10 .* 120\.0 ms.*ffmpeg"):
        ClipReader(path)
    with pytest.raises(BadInput, match="variable frame rate"):
        read_clip(path)


def test_rounded_time_stamps_are_no_variable_rate(tmp_path):
    stamps = np.round(np.arange(24) * 1000 / 30 + np.random.default_rng(0).uniform(-4, 4, 24)).astype(int)
    path = write(tmp_path / "phone.mkv", moving(24), stamps=stamps - stamps[0])
    with ClipReader(path) as clip:
        np.testing.assert_array_equal(clip.read([11, 3]), decode_from_the_start(path)[[11, 3]])


def test_a_rate_that_drifts_is_refused_as_a_whole_and_read_in_parts(tmp_path):
    """From 30 to 20 frames a second: no step is far from the median one, and the last frame is 0.2 s off."""
    stamps = np.concatenate([[0], np.cumsum(np.linspace(33, 50, 59))]).astype(int)
    path = write(tmp_path / "phone.mkv", moving(60), stamps=stamps)
    for refused in (probe_clip, read_clip):
        with pytest.raises(BadInput, match=r"phone\.mkv has a variable frame rate: frame \d+ is shown \d+ ms from"):
            refused(path)
    with ClipReader(path) as clip:
        np.testing.assert_allclose(clip.times, stamps / 1000, atol=1e-9)
        assert clip.rate(0, 5) > 29
        assert clip.rate(55, 60) < 21
    frames, fps = read_clip(path, start=0, stop=5)
    assert len(frames) == 5
    assert fps == pytest.approx(30, abs=0.5)


def test_frames_outside_are_refused(tmp_path):
    path = write(tmp_path / "clip.mp4", moving(10))
    with ClipReader(path) as clip:
        for wanted in ([10], [-1], []):
            with pytest.raises(BadInput, match="has 10 frames"):
                clip.read(wanted)


def test_a_clip_inside_a_file(tmp_path):
    clip = encode_clip(moving(20), 30.0)
    path = tmp_path / "many.bin"
    path.write_bytes(b"x" * 777 + clip + b"y" * 999)
    (tmp_path / "one.mp4").write_bytes(clip)
    source = ClipSource(path, 777, len(clip))
    with ClipReader(source) as part, ClipReader(tmp_path / "one.mp4") as whole:
        np.testing.assert_array_equal(part.read(range(20)), whole.read(range(20)))
    for reader in ("pyav", "decord"):
        if reader == "decord":
            pytest.importorskip("decord")
        np.testing.assert_array_equal(
            read_clip(source, reader=reader)[0], read_clip(tmp_path / "one.mp4", reader=reader)[0]
        )


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    return [write(folder / f"{k}.mp4", moving(20)[k:]) for k in range(5)]


def test_a_pool_keeps_the_last_few_open(clips):
    pool = ClipPool(most=2)
    for _ in range(2):
        for k, clip in enumerate(clips):
            np.testing.assert_array_equal(pool.read(clip, [3])[0], read_clip(clip, reader="pyav")[0][3])
            assert len(pool) == min(k + 1, 2) or len(pool) == 2
    assert pool.get(clips[4]) is pool.get(clips[4])
    pool.close()
    with pytest.raises(BadInput, match="at least one"):
        ClipPool(most=0)


def test_a_replaced_file_is_opened_again(tmp_path):
    path = write(tmp_path / "clip.mp4", moving(20))
    pool = ClipPool()
    pool.read(path, [0])
    write(tmp_path / "other.mp4", 255 - moving(12))
    os.replace(tmp_path / "other.mp4", path)
    assert len(pool.get(path)) == 12


def _read_in_worker(pool: ClipPool, clip: Path, queue) -> None:
    queue.put(pool.read(clip, range(4, 9)))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_open_their_own(clips, method):
    pool = ClipPool(most=2)
    expected = pool.read(clips[0], range(4, 9))
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    workers = [context.Process(target=_read_in_worker, args=(pool, clips[0], queue)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for _ in range(20):
        np.testing.assert_array_equal(pool.read(clips[0], range(4, 9)), expected)  # while they read the same file
    for _ in workers:
        np.testing.assert_array_equal(queue.get(timeout=60), expected)
    for worker in workers:
        worker.join(timeout=60)
        assert worker.exitcode == 0


def test_a_pickled_pool_is_empty(clips):
    pool = ClipPool(most=3, size=(16, 16))
    pool.read(clips[0], [0])
    back = pickle.loads(pickle.dumps(pool))  # noqa: S301
    assert (len(back), back.most, back.size) == (0, 3, (16, 16))
