"""Long videos of people at work -> clips of 2 to 4 seconds in which one hand is seen doing something.

A video is split at its shot boundaries, a hand is looked for in every shot, and the stretches in which it is seen are
cut into clips. What is left out is written down with its reason. The clips train the video prior alone.

IN/NAME.mp4            and, if there is one, IN/NAME.json with text, licence, source
OUT/NAME-000.mp4 ...   the clips; NAME-mov-000.mp4 where another video is called NAME as well
OUT/manifest.jsonl     one line for every stretch of every video: a clip, or why there is none
OUT/metadata.json      the kept clips as VideoX-Fun lists them
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from jaxtyping import Bool, Float

from dexprior.artifacts import write_json
from dexprior.config import Ge, Gt, Le, config, config_hash
from dexprior.data.cache import content_hash
from dexprior.data.clips import write_clip
from dexprior.data.lines import append_lines, read_index_lines
from dexprior.data.readers import ClipReader, Frames
from dexprior.data.validate import Detector, SeenHands
from dexprior.errors import ArtifactError, BadInput
from dexprior.reading import read_json_object, text

__all__ = ["Caption", "WildConfig", "WildSummary", "cut_videos", "find_shots", "hand_stretches"]

Caption = Callable[[Frames], str]
"""Says in one sentence what a clip shows."""

_SUFFIXES = (".mp4", ".mov", ".mkv", ".webm", ".avi", ".m4v")
_CHUNK = 240  # [frame] decoded at a time: memory does not grow with the video
_THUMBNAIL = (36, 64)  # [px] on which shots are told apart


@config
class WildConfig:
    """What makes a clip."""

    shortest: Annotated[float, Gt(0)] = 2.0
    """Seconds; a shorter stretch is left out."""
    longest: Annotated[float, Gt(0)] = 4.0
    """Seconds; a longer stretch gives several clips."""
    rows: Annotated[int, Ge(32)] = 256
    """Height of the clips [px]; a smaller video keeps its own."""
    looked_at: Annotated[int, Ge(64)] = 360
    """Height of the pictures in which the hand is looked for [px]."""
    looks: Annotated[float, Gt(0)] = 10.0
    """Pictures a second in which the hand is looked for."""
    gap: Annotated[float, Ge(0)] = 0.3
    """Seconds for which the hand may be lost within a clip."""
    cut: Annotated[float, Gt(0)] = 20.0
    """Mean difference of two successive pictures from which on they may be two shots [grey levels]."""
    palm: Annotated[float, Gt(0)] = 0.04
    """Smallest palm, over the picture's height."""
    inside: Annotated[float, Ge(0), Le(1)] = 0.8
    """Share of the hand's landmarks that must be inside the picture."""
    path: Annotated[float, Ge(0)] = 0.08
    """Shortest way that the wrist goes, over the picture's height."""
    changed: Annotated[float, Ge(0), Le(1)] = 0.01
    """Share of the pixels around the hand's way that must differ between start and end, where the hand is at neither:
    something was moved."""
    sharp: Annotated[float, Ge(0)] = 15.0
    """Smallest variance of the Laplacian of the middle picture's luminance, at 256 rows."""
    licence: str | None = None
    """Licence of videos without a JSON file of their own; a video whose licence nobody states is left out."""

    def __post_init__(self) -> None:
        if self.longest < 2 * self.shortest:
            raise BadInput(
                f"WildConfig: longest {self.longest} s must be at least twice shortest {self.shortest} s, so that a "
                "long stretch can be divided"
            )


@dataclass(frozen=True)
class WildSummary:
    """What came out."""

    videos: int
    clips: int
    seconds: float
    """Seconds of all clips."""
    rejected: dict[str, int]
    """Reason -> number of stretches or videos."""


def cut_videos(
    folder: str | Path,
    out: str | Path,
    *,
    detect: Detector,
    settings: WildConfig | None = None,
    caption: Caption | None = None,
) -> WildSummary:
    """Cut all videos of a folder; a second call goes on with those that are not in the manifest.

    Args:
        folder: videos, each with a JSON file {text, licence, source} of the same name beside it where there is one.
        out: for clips and manifest.
        detect: finds a hand, e.g. `dexprior.pose.detection.detect_landmarks`.
        settings: what makes a clip.
        caption: called where the JSON file has no text; the file's name in words when omitted.

    Raises:
        BadInput: no video in the folder, or what the detector raises, e.g. that its networks are missing.
        ArtifactError: a clip cannot be written (a full disk), or the manifest is of other settings.
    """
    folder, out, settings = Path(folder), Path(out), settings or WildConfig()
    videos = sorted(p for p in folder.glob("*") if p.suffix.lower() in _SUFFIXES)
    if not videos:
        raise BadInput(f"{folder} holds no video ({', '.join(_SUFFIXES)})")
    out.mkdir(parents=True, exist_ok=True)
    manifest = out / "manifest.jsonl"
    rows = _resume(manifest, config_hash(settings))
    done = {(row["video"], row["sha256"]) for row in rows}
    for video in videos:
        key = (video.name, content_hash(video))
        if key in done:
            continue
        about = {"video": key[0], "sha256": key[1], "settings": config_hash(settings)}
        prefix = _prefix(video, key[1], rows)
        try:
            of_video = [about | row for row in _cut_video(video, prefix, out, detect, settings, caption)]
        except _NotDetected as failure:  # no fault of the video, which would count as done
            raise failure.reason from None
        append_lines(manifest, of_video)  # all of a video's lines at once: it is done, or it is done again
        rows += of_video
    kept = [row for row in rows if row["clip"] is not None]
    write_json(out / "metadata.json", [_videox_fun(row) for row in kept])
    rejected = Counter(row["reason"] for row in rows if row["clip"] is None)
    return WildSummary(len(videos), len(kept), sum(row["seconds"] for row in kept), dict(rejected.most_common()))


def find_shots(thumbnails: Frames, threshold: float) -> list[tuple[int, int]]:
    """Frames [start, stop) of each shot: a cut is a difference that stands out from those around it.

    A picture differs from the one before by the mean absolute difference d_k; k is a cut if d_k is above the
    threshold and above four times the median of d within eleven frames. Fades are not found.
    """
    from scipy.ndimage import median_filter

    if len(thumbnails) < 2:
        return [(0, len(thumbnails))]
    d = np.abs(np.diff(thumbnails.astype(np.int16), axis=0)).mean(axis=(1, 2, 3))
    cuts = np.flatnonzero((d > threshold) & (d > 4 * median_filter(d, size=11))) + 1
    edges = [0, *cuts.tolist(), len(thumbnails)]
    return list(itertools.pairwise(edges))


def hand_stretches(seen: Bool[np.ndarray, " time"], gap: int) -> list[tuple[int, int]]:
    """Stretches [start, stop) in which a hand is seen, losses of at most `gap` frames included."""
    at = np.flatnonzero(seen)
    if not len(at):
        return []
    breaks = np.flatnonzero(np.diff(at) > gap + 1)
    starts = at[np.concatenate([[0], breaks + 1])]
    stops = at[np.concatenate([breaks, [len(at) - 1]])] + 1
    return [(int(a), int(b)) for a, b in zip(starts, stops)]


# --- one video ---


class _NotDetected(Exception):
    """The detector cannot look."""

    def __init__(self, reason: BadInput) -> None:
        self.reason = reason


def _prefix(video: Path, sha256: str, rows: list[dict[str, Any]]) -> str:
    """What the names of a video's clips begin with: its own, with its ending or its hash where another video has that.

    Names that differ by capitals alone are one on some disks.
    """
    taken = {str(row["clip"]).lower().rpartition("-")[0] for row in rows if row["clip"] is not None}
    choices = (video.stem, f"{video.stem}-{video.suffix[1:].lower()}", f"{video.stem}-{sha256[:12]}")
    return next((name for name in choices if name.lower() not in taken), choices[-1])


def _cut_video(
    video: Path, prefix: str, out: Path, detect: Detector, settings: WildConfig, caption: Caption | None
) -> Iterator[dict[str, Any]]:
    try:
        notes = _notes(video, settings)
        with ClipReader(video, size=_THUMBNAIL) as reader:
            height, width = reader.shown
            fps = 1.0 / float(np.median(np.diff(reader.times))) if len(reader) > 1 else reader.rate()
            thumbnails = _read(reader, 0, len(reader))
        if notes["licence"] is None:
            yield _row(notes, (0, len(thumbnails)), fps, "no licence is stated")
            return
        rows = min(height, settings.looked_at)
        scaled = (rows, max(round(width * rows / height / 2) * 2, 2))
        with ClipReader(video, size=scaled) as reader:
            number = 0
            for shot in find_shots(thumbnails, settings.cut):
                for row, window in _of_shot(reader, shot, fps, detect, settings):
                    if window is None:
                        yield {**notes, **row}
                        continue
                    frames = _for_training(video, window, height, width, settings)
                    name = f"{prefix}-{number:03d}.mp4"
                    _save(out / name, frames, row["fps"])
                    number += 1
                    text = notes["text"] or (caption(frames) if caption is not None else _words(video))
                    size = {"height": frames.shape[1], "width": frames.shape[2]}
                    yield {**notes, **row, "clip": name, "text": text, **size}
    except BadInput as error:  # damaged, or of a variable rate: the other videos can be used
        yield _row({"text": None, "licence": None, "source": None}, (0, 0), 1.0, _kind(error), detail=str(error))


def _of_shot(
    reader: ClipReader, shot: tuple[int, int], fps: float, detect: Detector, settings: WildConfig
) -> Iterator[tuple[dict[str, Any], tuple[int, int] | None]]:
    """Rows of one shot, with the window of each clip; None for what is left out."""
    start, stop = shot
    if stop - start < settings.shortest * fps:
        yield _row({}, shot, fps, "the shot is too short"), None
        return
    stride = max(round(fps / settings.looks), 1)
    looked = range(start, stop, stride)
    hands = _detect(reader, looked, detect)
    seen = np.isfinite(hands.image).all(axis=(1, 2))
    if not seen.any():
        yield _row({}, shot, fps, "no hand is seen"), None
    for first, last in hand_stretches(seen, round(settings.gap * fps / stride)):
        stretch = (looked[first], min(looked[last - 1] + stride, stop))
        for window in _windows(stretch, fps, settings):
            part = slice((window[0] - start) // stride, max((window[1] - start) // stride, 1))
            try:
                constant = reader.rate(*window)  # that of a long video may drift from clip to clip
            except BadInput as error:
                yield _row({}, window, fps, _kind(error), detail=str(error)), None
                continue
            reason, measures = _judge(reader, window, hands.image[part], constant, settings)
            row = _row({}, window, constant, reason, hand=_side(hands.right[part]), **measures)
            yield row, window if reason is None else None


def _windows(stretch: tuple[int, int], fps: float, settings: WildConfig) -> list[tuple[int, int]]:
    """As few equal parts as are short enough."""
    length = stretch[1] - stretch[0]
    parts = max(int(np.ceil(length / (settings.longest * fps))), 1)
    edges = np.linspace(*stretch, parts + 1).astype(int)
    return [(int(a), int(b)) for a, b in itertools.pairwise(edges)]


def _judge(
    reader: ClipReader, window: tuple[int, int], image: Float[np.ndarray, "look 21 2"], fps: float, settings: WildConfig
) -> tuple[str | None, dict[str, float]]:
    """The reason to leave a window out, and what was measured."""
    if window[1] - window[0] < settings.shortest * fps:
        return "the hand is seen too briefly", {}
    image = image[np.isfinite(image).all(axis=(1, 2))]
    assert reader.size is not None
    height, width = reader.size
    pixels = image * [width, height]
    palm = float(np.median(np.linalg.norm(pixels[:, 9] - pixels[:, 0], axis=-1))) / height
    inside = float(((image >= 0) & (image <= 1)).all(axis=-1).mean())
    wrist = pixels[:, 0]
    path = float(np.linalg.norm(np.ptp(wrist, axis=0))) / height
    first, middle, last = reader.read([window[0], sum(window) // 2, window[1] - 1])
    measures = {
        "palm": palm,
        "inside": inside,
        "path": path,
        "sharp": _sharpness(middle),
        "changed": _changed(first, last, pixels),
    }
    reasons = {
        "palm": "the hand is too small",
        "inside": "the hand is outside the picture",
        "path": "the hand keeps still",
        "sharp": "the picture is blurred",
        "changed": "nothing is moved where the hand goes",
    }
    measures = {name: round(value, 4) for name, value in measures.items()}
    return next((text for name, text in reasons.items() if measures[name] < getattr(settings, name)), None), measures


def _changed(first: np.ndarray, last: np.ndarray, pixels: Float[np.ndarray, "look 21 2"]) -> float:
    """Share of pixels in the box of the hand's whole way, outside its boxes at both ends, that differ."""
    height, width = first.shape[:2]
    margin = 0.5 * float(np.median(np.linalg.norm(pixels[:, 9] - pixels[:, 0], axis=-1)))

    def box(points: np.ndarray) -> tuple[slice, slice]:
        low, high = points.min(axis=0) - margin, points.max(axis=0) + margin
        (left, top), (right, bottom) = np.clip(low, 0, None).astype(int), np.clip(high, 0, [width, height]).astype(int)
        return slice(top, bottom), slice(left, right)

    region = np.zeros((height, width), dtype=bool)
    region[box(pixels.reshape(-1, 2))] = True
    region[box(pixels[0])] = region[box(pixels[-1])] = False
    if not region.any():
        return 0.0
    difference = np.abs(first.astype(np.int16) - last).max(axis=-1)
    return float((difference[region] > 30).mean())


def _sharpness(frame: np.ndarray) -> float:
    from scipy.ndimage import laplace, zoom

    grey = frame.astype(np.float32).mean(axis=-1)
    return float(laplace(zoom(grey, 256 / grey.shape[0], order=1)).var())


def _detect(reader: ClipReader, looked: range, detect: Detector) -> SeenHands:
    parts = []
    for k in range(0, len(looked), _CHUNK):
        frames = reader.read(looked[k : k + _CHUNK])
        try:
            parts.append(detect(frames))
        except BadInput as error:
            raise _NotDetected(error) from None
    return SeenHands(np.concatenate([p.image for p in parts]), np.concatenate([p.right for p in parts]))


def _read(reader: ClipReader, start: int, stop: int) -> Frames:
    return np.concatenate([reader.read(range(k, min(k + _CHUNK, stop))) for k in range(start, stop, _CHUNK)])


def _for_training(video: Path, window: tuple[int, int], height: int, width: int, settings: WildConfig) -> Frames:
    rows = min(height, settings.rows)
    size = (rows // 2 * 2, round(width * rows / height / 2) * 2)
    with ClipReader(video, size=size) as reader:
        return reader.read(range(*window))


def _save(path: Path, frames: Frames, fps: float) -> None:
    try:
        write_clip(path, frames, fps)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written ({error.strerror}): free some space and start again") from None


# --- rows ---


def _row(notes: dict[str, Any], window: tuple[int, int], fps: float, reason: str | None, **more: Any) -> dict[str, Any]:
    seconds = round((window[1] - window[0]) / fps, 3)
    place = {"start": window[0], "stop": window[1], "seconds": seconds, "fps": fps}
    return {**notes, "clip": None, **place, "reason": reason, **more}


def _notes(video: Path, settings: WildConfig) -> dict[str, Any]:
    path = video.with_suffix(".json")
    found = read_json_object(path) if path.is_file() else {}
    for key in ("text", "licence", "source"):
        text(found.get(key, ""), f"{path}: {key}")
    licence = found.get("licence", settings.licence)
    return {"text": found.get("text"), "licence": licence, "source": found.get("source", video.name)}


def _resume(manifest: Path, settings: str) -> list[dict[str, Any]]:
    if not manifest.is_file():
        return []
    rows = read_index_lines(manifest)
    if any(row.get("settings") != settings for row in rows):
        raise ArtifactError(f"{manifest} was made with other settings: give another folder, or remove it")
    return rows


def _videox_fun(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "file_path": row["clip"],
        "text": row["text"],
        "type": "video",
        "width": row["width"],
        "height": row["height"],
    }


def _kind(error: BadInput) -> str:
    return "the frame rate varies" if "variable frame rate" in str(error) else "it cannot be read"


def _side(right: Float[np.ndarray, " look"]) -> str:
    return "right" if float(np.median(right)) >= 0.5 else "left"


def _words(video: Path) -> str:
    return " ".join(video.stem.replace("-", "_").split("_"))
