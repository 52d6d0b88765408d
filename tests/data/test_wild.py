"""Long videos become clips, and every stretch that does not has a reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from written_videos import write as write_stamped

from dexprior.data.cache import content_hash
from dexprior.data.clips import probe_clip, read_clip, write_clip
from dexprior.data.validate import SeenHands
from dexprior.data.wild import WildConfig, cut_videos, find_shots, hand_stretches
from dexprior.errors import ArtifactError, BadInput

SIZE = (96, 160)
FPS = 20.0
SETTINGS = WildConfig(licence="CC0", looks=10.0, sharp=1.0)
HAND = np.uint8([230, 30, 30])
BOX = np.uint8([30, 60, 230])


def scene(n: int, *, seed: int = 0, hand=True, moves=True, carries=True, size: int = 16) -> np.ndarray:
    """A red square, the hand, that carries a blue one over a backdrop of its own."""
    rng = np.random.default_rng(seed)
    backdrop = np.kron(rng.integers(60, 200, (SIZE[0] // 8, SIZE[1] // 8, 1)), np.ones((8, 8, 3))).astype(np.uint8)
    frames = np.repeat(backdrop[None], n, axis=0)
    for k, frame in enumerate(frames):
        x = 20 + (round(100 * k / max(n - 1, 1)) if moves else 0)
        at = x + size if carries else 60
        frame[40 : 40 + size, at : at + size] = BOX
        if hand:
            frame[40 : 40 + size, x : x + size] = HAND
    return frames


def red_square(frames: np.ndarray) -> SeenHands:
    """A detector of red squares: wrist at the upper left corner, middle knuckle at the lower right."""
    n, height, width, _ = frames.shape
    image = np.full((n, 21, 2), np.nan)
    for k, frame in enumerate(frames.astype(int)):
        rows, columns = np.nonzero((frame[..., 0] > 180) & (frame[..., 1] < 80) & (frame[..., 2] < 80))
        if len(rows) > 20:
            low, high = np.array([columns.min(), rows.min()]), np.array([columns.max(), rows.max()])
            image[k] = np.linspace(low, high, 21) / [width, height]
            image[k, [0, 9]] = low / [width, height], high / [width, height]
    return SeenHands(image, np.where(np.isnan(image[:, 0, 0]), 0.5, 0.9))


def rows(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "manifest.jsonl").read_text().splitlines()]


def test_shots_and_stretches_become_clips(tmp_path):
    video = np.concatenate([scene(60, seed=1), scene(20, seed=2), scene(70, seed=3, hand=False), scene(130, seed=4)])
    write_clip(tmp_path / "in" / "make_tea.mp4", video, FPS)
    summary = cut_videos(tmp_path / "in", tmp_path / "out", detect=red_square, settings=SETTINGS)
    found = [(row["start"], row["stop"], row["clip"], row["reason"]) for row in rows(tmp_path / "out")]
    assert found == [
        (0, 60, "make_tea-000.mp4", None),
        (60, 80, None, "the shot is too short"),
        (80, 150, None, "no hand is seen"),
        (150, 215, "make_tea-001.mp4", None),
        (215, 280, "make_tea-002.mp4", None),
    ]
    assert (summary.videos, summary.clips, summary.seconds) == (1, 3, 9.5)
    assert summary.rejected == {"the shot is too short": 1, "no hand is seen": 1}
    for row in rows(tmp_path / "out"):
        assert row["licence"] == "CC0"
        if row["clip"]:
            frames, fps = read_clip(tmp_path / "out" / row["clip"])
            assert fps == FPS
            assert 2.0 <= len(frames) / fps <= 4.0
            assert (row["hand"], row["text"]) == ("right", "make tea")
            assert np.abs(frames.astype(int) - video[row["start"] : row["stop"]]).mean() < 12
    listed = json.loads((tmp_path / "out" / "metadata.json").read_text())
    assert listed[0] == {
        "file_path": "make_tea-000.mp4", "text": "make tea", "type": "video", "width": 160, "height": 96,
    }  # fmt: skip
    assert len(listed) == 3


def test_a_detector_that_cannot_look_is_no_fault_of_a_video(tmp_path):
    """Its networks are missing: nothing counts as done, and a second call does all of it."""
    write_clip(tmp_path / "in" / "a.mp4", scene(60), FPS)

    def missing(frames):
        raise BadInput("no networks: dexprior data get hand-landmarks")

    with pytest.raises(BadInput, match="no networks"):
        cut_videos(tmp_path / "in", tmp_path / "out", detect=missing, settings=SETTINGS)
    assert cut_videos(tmp_path / "in", tmp_path / "out", detect=red_square, settings=SETTINGS).clips == 1


def test_clips_of_videos_of_one_name_are_told_apart(tmp_path):
    """Names that differ by their ending or their capitals alone, and another video under a name that was there."""
    videos = {"cup.mp4": scene(60, seed=1), "cup.mov": scene(60, seed=2), "CUP.mkv": scene(60, seed=3)}
    for name, video in videos.items():
        write_clip(tmp_path / "in" / "new.mp4", video, FPS).rename(tmp_path / "in" / name)
    cut_videos(tmp_path / "in", tmp_path / "out", detect=red_square, settings=SETTINGS)
    videos["cup-mov.mp4"] = scene(60, seed=4)
    write_clip(tmp_path / "in" / "cup-mov.mp4", videos["cup-mov.mp4"], FPS)
    again = write_clip(tmp_path / "in" / "cup.mp4", scene(60, seed=5), FPS)
    summary = cut_videos(tmp_path / "in", tmp_path / "out", detect=red_square, settings=SETTINGS)
    found = rows(tmp_path / "out")
    names = [row["clip"].lower() for row in found]
    assert summary.clips == len(found) == len(set(names)) == 5
    for row in found:
        frames, _ = read_clip(tmp_path / "out" / row["clip"])
        whole = videos[row["video"]] if row["sha256"] != content_hash(again) else scene(60, seed=5)
        assert np.abs(frames.astype(int) - whole[row["start"] : row["stop"]]).mean() < 12


def test_a_video_whose_rate_drifts_gives_clips_of_the_rate_that_each_has(tmp_path):
    video = np.concatenate([scene(60, seed=k) for k in range(4)])
    steps = 1000 / np.linspace(24, 20, 239)
    stamps = np.concatenate([[0], np.cumsum(steps)]).astype(int)
    (tmp_path / "in").mkdir()
    write_stamped(tmp_path / "in" / "phone.mkv", video, stamps=stamps)
    with pytest.raises(BadInput, match="variable frame rate"):
        probe_clip(tmp_path / "in" / "phone.mkv")
    cut_videos(tmp_path / "in", tmp_path / "out", detect=red_square, settings=SETTINGS)
    found = rows(tmp_path / "out")
    assert len(found) >= 3
    for row in found:
        assert row["fps"] == pytest.approx(1 / np.mean(np.diff(stamps[row["start"] : row["stop"]]) / 1000), rel=0.01)
        assert probe_clip(tmp_path / "out" / row["clip"]).fps == pytest.approx(row["fps"], rel=1e-3)


@pytest.mark.parametrize(
    ("video", "settings", "reason"),
    [
        (scene(60, moves=False), {}, "the hand keeps still"),
        (scene(60, carries=False), {}, "nothing is moved where the hand goes"),
        (scene(60, size=6), {"palm": 0.2}, "the hand is too small"),
        (scene(60), {"sharp": 1e6}, "the picture is blurred"),
        (np.concatenate([scene(30), scene(31, hand=False)]), {"cut": 255.0}, "the hand is seen too briefly"),
    ],
)
def test_each_reason(tmp_path, video, settings, reason):
    write_clip(tmp_path / "in" / "a.mp4", video, FPS)
    settings = WildConfig(**{"licence": "CC0", "sharp": 1.0, **settings})
    summary = cut_videos(tmp_path / "in", tmp_path / "out", detect=red_square, settings=settings)
    assert summary.rejected == {reason: 1}
    assert summary.clips == 0


def test_licence_text_and_source_come_from_the_file_beside_the_video(tmp_path):
    for name in ("a", "b"):
        write_clip(tmp_path / "in" / f"{name}.mp4", scene(50), FPS)
    notes = {"text": "carry the box", "licence": "CC-BY-4.0", "source": "https://example.org/a"}
    (tmp_path / "in" / "a.json").write_text(json.dumps(notes))
    settings = WildConfig(sharp=1.0)
    cut_videos(tmp_path / "in", tmp_path / "out", detect=red_square, settings=settings, caption=lambda f: f"{len(f)}")
    first, second = rows(tmp_path / "out")
    assert {key: first[key] for key in notes} == notes
    assert (second["clip"], second["reason"]) == (None, "no licence is stated")
    cut_videos(tmp_path / "in", tmp_path / "out2", detect=red_square, settings=SETTINGS, caption=lambda f: f"{len(f)}")
    assert [row["text"] for row in rows(tmp_path / "out2")] == ["carry the box", "50"]


def test_a_bad_video_is_named_and_the_others_are_cut(tmp_path):
    folder = tmp_path / "in"
    for name in ("a", "b", "c"):
        write_clip(folder / f"{name}.mp4", scene(50), FPS)
    (folder / "a.mp4").write_bytes((folder / "a.mp4").read_bytes()[:2000])
    (folder / "b.json").write_text("{")
    summary = cut_videos(folder, tmp_path / "out", detect=red_square, settings=SETTINGS)
    assert (summary.clips, summary.rejected) == (1, {"it cannot be read": 2})
    first, second, third = rows(tmp_path / "out")
    assert "truncated" in first["detail"]
    assert "b.json" in second["detail"]
    assert third["clip"] == "c-000.mp4"


def test_going_on_adds_only_what_is_new(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    write_clip(folder / "a.mp4", scene(50), FPS)
    cut_videos(folder, out, detect=red_square, settings=SETTINGS)
    write_clip(folder / "b.mp4", scene(50, seed=5), FPS)
    whole = (out / "manifest.jsonl").read_text()
    (out / "manifest.jsonl").write_text(whole + '{"video": "b.mp4", "cl')
    calls = []
    summary = cut_videos(folder, out, detect=lambda f: calls.append(1) or red_square(f), settings=SETTINGS)
    assert (summary.videos, summary.clips, len(calls)) == (2, 2, 1)
    assert (out / "manifest.jsonl").read_text().startswith(whole)
    with pytest.raises(ArtifactError, match="made with other settings"):
        cut_videos(folder, out, detect=red_square, settings=WildConfig(licence="CC0"))


_FULL = """
import resource, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_wild import SETTINGS, red_square
from dexprior.data.wild import cut_videos
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
cut_videos(Path(sys.argv[1]) / "in", Path(sys.argv[1]) / "out", detect=red_square, settings=SETTINGS)
"""


def test_a_full_disk_is_named(tmp_path):
    write_clip(tmp_path / "in" / "a.mp4", scene(50), FPS)
    here = str(Path(__file__).parent)
    done = subprocess.run([sys.executable, "-c", _FULL, str(tmp_path), here], capture_output=True, check=False)
    assert done.returncode == 1
    assert b"ArtifactError" in done.stderr, done.stderr.decode()[-1500:]
    assert b"a-000.mp4 cannot be written (File too large): free some space" in done.stderr
    assert not list((tmp_path / "out").glob("*"))
    assert cut_videos(tmp_path / "in", tmp_path / "out", detect=red_square, settings=SETTINGS).clips == 1


def test_shots():
    still, other = scene(20, seed=1, moves=False), scene(20, seed=2, moves=False)
    assert find_shots(np.concatenate([still, other, still]), 20.0) == [(0, 20), (20, 40), (40, 60)]
    shaken = np.stack([np.roll(still[0], 7 * (-1) ** k, axis=1) for k in range(40)])
    assert find_shots(shaken, 20.0) == [(0, 40)], "a picture that always changes has no cut"
    assert find_shots(still[:1], 20.0) == [(0, 1)]


def test_stretches():
    seen = np.array([0, 1, 1, 0, 1, 0, 0, 0, 1, 1], dtype=bool)
    assert hand_stretches(seen, 0) == [(1, 3), (4, 5), (8, 10)]
    assert hand_stretches(seen, 1) == [(1, 5), (8, 10)]
    assert hand_stretches(seen, 3) == [(1, 10)]
    assert hand_stretches(~seen & seen, 3) == []


def test_impossible_settings(tmp_path):
    with pytest.raises(BadInput, match="at least twice"):
        WildConfig(shortest=3.0)
    with pytest.raises(BadInput, match="holds no video"):
        cut_videos(tmp_path, tmp_path / "out", detect=red_square)


MODELS = os.environ.get("DEXPRIOR_HAND_LANDMARKS")
DATA = os.environ.get("DEXPRIOR_DATA")


@pytest.mark.slow
@pytest.mark.skipif(not MODELS or not DATA, reason="needs $DEXPRIOR_DATA and $DEXPRIOR_HAND_LANDMARKS (the networks)")
def test_real_clips_of_hands_and_objects(tmp_path):
    from dexprior.pose.detection import detect_landmarks

    def detect(frames):
        return detect_landmarks(frames, MODELS)

    settings = WildConfig(licence="MIT")
    summary = cut_videos(Path(DATA) / "hand_object", tmp_path / "out", detect=detect, settings=settings)
    assert summary.clips >= 8
    assert all(
        probe_clip(tmp_path / "out" / row["clip"]).height == 256 for row in rows(tmp_path / "out") if row["clip"]
    )
    bare = cut_videos(Path(DATA) / "hand_clip", tmp_path / "bare", detect=detect, settings=settings)
    assert bare.clips == 0, "a bare hand that turns in the air moves no object"
