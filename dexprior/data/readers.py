"""Random access to the frames of a video: exact frame numbers and times, resize in the decoder, few open files.

PyAV decodes, on one thread: frames before the wanted ones that no other frame refers to are not decoded at all, which
makes a read of 16 frames cheaper than decord's. See docs/decisions/0011-shards-and-clips.md for the measurement.
"""

from __future__ import annotations

import itertools
import os
from collections import OrderedDict
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from jaxtyping import Float64, Int64, UInt8

from dexprior.errors import BadInput

if TYPE_CHECKING:
    import av

__all__ = ["ClipInfo", "ClipPool", "ClipReader", "ClipSource", "Frames", "check_size", "probe_clip"]

Frames = UInt8[np.ndarray, "time height width 3"]

T = TypeVar("T")

_SEEKABLE = ("mov", "matroska", "avi")
"""Containers that index their key frames; any other is decoded from its start."""

_CONVERT = "convert it first, e.g. `ffmpeg -i IN -fps_mode cfr -r 30 OUT`"

_LOOK_AHEAD = 12
"""Decoding so many frames costs no more than a seek to the key frame before."""


@dataclass(frozen=True)
class ClipInfo:
    """What a video file shows."""

    frames: int
    """Number of frames that are shown: a header counts those that an edit list leaves out, or none."""
    fps: float
    """Frames a second at which each frame is shown within half a frame of its time."""
    height: int
    """As shown: after the rotation that the file asks for."""
    width: int
    rotation: int = 0
    """Degrees by which the stored pictures are turned to be shown: 0, 90, 180 or 270."""


@dataclass(frozen=True)
class ClipSource:
    """A video file, or the part of a file that is one."""

    path: Path
    offset: int = 0
    """First byte."""
    length: int | None = None
    """Number of bytes; to the end of the file when None."""
    sha256: str | None = None
    """Checksum of its bytes, where an index knows it."""

    def __str__(self) -> str:
        return str(self.path) if self.length is None else f"{self.path} at byte {self.offset}"

    def url(self) -> str:
        """What FFmpeg opens."""
        if self.length is None:
            return str(self.path)
        return f"subfile,,start,{self.offset},end,{self.offset + self.length},,:{self.path}"

    def read_bytes(self) -> bytes:
        """All of its bytes."""
        with self.path.open("rb") as stream:
            stream.seek(self.offset)
            return stream.read(-1 if self.length is None else self.length)


def as_source(clip: ClipSource | str | Path) -> ClipSource:
    """A path as the source that it is."""
    return clip if isinstance(clip, ClipSource) else ClipSource(Path(clip))


def check_size(size: tuple[int, int] | None) -> None:
    """Refuse an impossible (height, width).

    Raises:
        BadInput: a side below one pixel.
    """
    if size is not None and min(size) < 1:
        raise BadInput(f"size = {size}: expected (height, width) in pixels")


def probe_clip(clip: ClipSource | str | Path) -> ClipInfo:
    """Look through a clip's packets, and at its first picture.

    Raises:
        BadInput: see `ClipReader` and its `rate`.
    """
    with ClipReader(clip) as reader:
        return reader.info


class ClipReader:
    """One open clip. Frames are numbered from 0 in the order in which they are shown.

    A clip has a constant rate when every frame is shown for half to one and a half times as long as the median one; any
    other is refused, because a frame number says nothing about its time. So is, by `rate` and `info`, one whose rate
    drifts, as a phone's in the dark; parts of it may be constant.
    """

    def __init__(self, clip: ClipSource | str | Path, *, size: tuple[int, int] | None = None) -> None:
        """Open a clip.

        Args:
            clip: any video that FFmpeg knows.
            size: (height, width) to scale to, bilinearly; the clip's own when omitted.

        Raises:
            BadInput: no such file, not a video, truncated, or of a variable rate.
        """
        from av.video.reformatter import VideoReformatter

        check_size(size)
        self.source, self.size = as_source(clip), size
        self._container = _open(self.source)
        try:
            self._stream = self._one_thread()
            self._seekable = any(name in self._container.format.name for name in _SEEKABLE)
            self._pts, self._keys = self._scan()
            self._rotation: int | None = None
            self._scaler = VideoReformatter()
            self._decoded: Iterator[tuple[int, av.VideoFrame]] | None = None
            self._next = 0  # the frame that the decoder gives next, while `_decoded` is open
        except BaseException:
            self._container.close()
            raise

    def __len__(self) -> int:
        return len(self._pts)

    def __enter__(self) -> ClipReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the decoder and the file."""
        self._decoded = None
        self._container.close()

    @property
    def info(self) -> ClipInfo:
        """Exact number of frames, rate, and shown size; raises BadInput as `rate`."""
        return ClipInfo(len(self), self.rate(), *self.shown, self.rotation)

    @property
    def shown(self) -> tuple[int, int]:
        """Height and width as shown."""
        return _turned(self.rotation, self._stream.height, self._stream.width)

    @property
    def rotation(self) -> int:
        """Degrees by which the stored pictures are turned to be shown, as the first one says."""
        if self._rotation is None:
            self.read([0])
        assert self._rotation is not None
        return self._rotation

    @property
    def seekable(self) -> bool:
        """Whether the container indexes its key frames."""
        return self._seekable

    @property
    def times(self) -> Float64[np.ndarray, " time"]:
        """When each frame is shown, from the first on [s]."""
        return (self._pts - self._pts[0]) * float(self._stream.time_base or 0)

    def rate(self, start: int = 0, stop: int | None = None) -> float:
        """Frames a second of frames [start, stop): the file's own rate, else what its time stamps show.

        Raises:
            BadInput: a frame is shown more than half a frame from where a constant rate has it, or no rate is known.
        """
        stream, times = self._stream, self.times[start:stop]
        times, k = times - times[0], np.arange(len(times))
        said = stream.average_rate or stream.guessed_rate
        measured = [(len(times) - 1) / float(times[-1])] if len(times) > 1 and times[-1] > 0 else []
        for fps in [*([float(said)] if said else []), *measured]:
            if np.abs(times - k / fps).max() <= 0.5 / fps:
                return fps
        if not measured:
            raise BadInput(f"{self.source} does not say how many frames it shows a second")
        stray = np.abs(times - k / measured[0])
        raise BadInput(
            f"{self.source} has a variable frame rate: frame {start + int(stray.argmax())} is shown "
            f"{1e3 * stray.max():.0f} ms from where {measured[0]:.2f} frames a second have it; {_CONVERT}"
        )

    def read(self, frames: Sequence[int] | Int64[np.ndarray, " time"] | range) -> Frames:
        """The frames of these numbers, in the order given; a number may stand twice.

        Raises:
            BadInput: a number outside the clip, or a frame that cannot be decoded.
        """
        wanted = np.asarray(frames, dtype=np.int64)
        if wanted.ndim != 1 or not len(wanted) or wanted.min() < 0 or wanted.max() >= len(self):
            raise BadInput(f"{self.source} has {len(self)} frames; {_shown(wanted)} cannot be read")
        order = np.unique(wanted)
        out: np.ndarray | None = None
        place = np.searchsorted(order, wanted)
        for k, frame in enumerate(self._pictures(order)):
            picture = self._picture(frame)
            if out is None:
                out = np.empty((len(wanted), *picture.shape), dtype=np.uint8)
            out[place == k] = picture
        assert out is not None
        return out

    # --- decoding ---

    def _scan(self) -> tuple[Int64[np.ndarray, " time"], Int64[np.ndarray, " key"]]:
        """Time stamps of all frames in the order shown, and the numbers of the key frames; reads packets only."""
        import av

        try:
            packets = [p for p in self._container.demux(self._stream) if p.size and not p.is_discard]
        except av.FFmpegError as error:
            raise BadInput(
                f"{self.source} is truncated or damaged ({error.strerror}): it promises {self._stream.frames} "
                "frames; copy it again"
            ) from None
        stamps = [p.pts for p in packets]
        if not stamps or None in stamps:
            raise BadInput(f"{self.source} has {'frames without a time stamp' if stamps else 'no frames'}")
        if len(stamps) < self._stream.frames and not self._stream.index_entries[0].is_discard:
            raise BadInput(
                f"{self.source} promises {self._stream.frames} frames, {len(stamps)} are there: it is truncated; "
                "copy it again"
            )
        pts = np.sort(np.array(stamps, dtype=np.int64))
        self._check_rate(pts)
        keys = np.array([p.pts for p in packets if p.is_keyframe], dtype=np.int64)
        return pts, np.searchsorted(pts, np.sort(keys))

    def _check_rate(self, pts: Int64[np.ndarray, " time"]) -> None:
        steps = np.diff(pts)
        if not len(steps):
            return
        middle = float(np.median(steps))
        if steps.min() < 0.5 * middle or steps.max() > 1.5 * middle:
            ms = 1e3 * float(self._stream.time_base or 0)
            k = int(np.argmax(np.abs(steps - middle)))
            raise BadInput(
                f"{self.source} has a variable frame rate: frame {k} is shown for {ms * steps[k]:.1f} ms, the median "
                f"frame for {ms * middle:.1f} ms; {_CONVERT}"
            )

    def _one_thread(self) -> av.video.stream.VideoStream:
        """The video stream, set to one thread: more cost more CPU for the same frames."""
        stream = self._container.streams.video[0]
        stream.codec_context.thread_count = 1
        return stream

    def _reopen(self) -> None:
        self._container.close()
        self._container = _open(self.source)
        self._stream = self._one_thread()

    def _pictures(self, order: Int64[np.ndarray, " n"]) -> Iterator[av.VideoFrame]:
        """The decoded frames of increasing numbers."""
        for number in order:
            if self._decoded is None or not self._within_reach(int(number)):
                self._seek(int(number))
            yield self._advance(int(number))

    def _within_reach(self, number: int) -> bool:
        if not self._seekable:
            return self._next <= number
        between = np.searchsorted(self._keys, number, side="right") - np.searchsorted(self._keys, self._next)
        return self._next <= number and (number - self._next < _LOOK_AHEAD or bool(between <= 0))

    def _seek(self, number: int) -> None:
        """Go to the last key frame that the decoder can show this frame from."""
        import av

        self._wanted_from = number
        target = int(self._pts[number])
        while True:
            try:
                if self._seekable:
                    self._container.seek(target, stream=self._stream, backward=True, any_frame=False)
                else:
                    self._reopen()
                    target = int(self._pts[0])
                self._decoded = self._decode()
                first = next(self._decoded, None)
            except av.FFmpegError as error:
                raise self._damaged(number, error) from None
            if (first is not None and first[0] <= number) or target <= self._pts[0]:
                self._decoded = self._decoded if first is None else itertools.chain([first], self._decoded)
                self._next = number if first is None else first[0]
                return
            earlier = self._keys[self._pts[self._keys] < target]  # some containers seek behind the target
            target = int(self._pts[earlier[-1]]) - 1 if len(earlier) else int(self._pts[0])

    def _decode(self) -> Iterator[tuple[int, av.VideoFrame]]:
        """Frames from the current position on with their numbers; those before `_wanted_from` may be left out."""
        decoder = self._stream.codec_context
        with _closing(self._container.demux(self._stream)) as packets:
            for packet in packets:
                early = packet.pts is not None and packet.pts < self._pts[self._wanted_from]
                decoder.skip_frame = "NONREF" if early else "DEFAULT"
                for frame in packet.decode():
                    if frame.pts is not None:
                        yield int(np.searchsorted(self._pts, frame.pts)), frame  # type: ignore[misc]

    def _advance(self, number: int) -> av.VideoFrame:
        import av

        assert self._decoded is not None
        self._wanted_from = number
        try:
            for found, frame in self._decoded:
                self._next = found + 1
                if found == number:
                    return frame
                if found > number:
                    break
        except av.FFmpegError as error:
            raise self._damaged(number, error) from None
        raise self._damaged(number, None)

    def _damaged(self, number: int, error: av.FFmpegError | None) -> BadInput:
        self._decoded = None
        reason = "" if error is None else f" ({error.strerror})"
        return BadInput(f"{self.source}: frame {number} cannot be decoded, the file is truncated or damaged{reason}")

    def _picture(self, frame: av.VideoFrame) -> UInt8[np.ndarray, "height width 3"]:
        if self._rotation is None:
            self._rotation = int(frame.rotation) % 360
        height, width = self.size or _turned(self._rotation, frame.height, frame.width)
        height, width = _turned(self._rotation, height, width)
        scaled = self._scaler.reformat(frame, width, height, format="rgb24", interpolation="BILINEAR", threads=1)
        return np.rot90(scaled.to_ndarray(), self._rotation // 90)


class ClipPool:
    """The last few clips that were read, kept open; a forked worker opens its own, a pickled pool comes back empty.

    Memory is bounded by `most` open decoders, however many clips are read.
    """

    def __init__(self, *, most: int = 8, size: tuple[int, int] | None = None) -> None:
        if most < 1:
            raise BadInput(f"most = {most}: a pool keeps at least one clip open")
        self.most, self.size = most, size
        self._open: OrderedDict[ClipSource, tuple[tuple[int, int, int], ClipReader]] = OrderedDict()
        self._process = os.getpid()

    def __len__(self) -> int:
        return len(self._open)

    def __getstate__(self) -> dict[str, Any]:
        return {"most": self.most, "size": self.size}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def get(self, clip: ClipSource | str | Path) -> ClipReader:
        """The open reader of a clip; a file that was replaced is opened again.

        Raises:
            BadInput: see `ClipReader`.
        """
        if self._process != os.getpid():  # the parent's file positions are shared: never touch its readers
            self._open, self._process = OrderedDict(), os.getpid()
        source = as_source(clip)
        try:
            state = source.path.stat()
        except OSError:
            raise BadInput(f"no clip at {source.path}") from None
        stamp = (state.st_ino, state.st_size, state.st_mtime_ns)
        known = self._open.pop(source, None)
        if known is not None and known[0] != stamp:
            known[1].close()
            known = None
        if known is None:
            while len(self._open) >= self.most:
                self._open.popitem(last=False)[1][1].close()
            known = (stamp, ClipReader(source, size=self.size))
        self._open[source] = known
        return known[1]

    def read(self, clip: ClipSource | str | Path, frames: Sequence[int] | range) -> Frames:
        """Frames of a clip; see `ClipReader.read`."""
        return self.get(clip).read(frames)

    def close(self) -> None:
        """Close all."""
        if self._process == os.getpid():
            for _, reader in self._open.values():
                reader.close()
        self._open.clear()


# --- FFmpeg ---


def _open(source: ClipSource) -> av.container.InputContainer:
    import av

    if not source.path.is_file():
        raise BadInput(f"no clip at {source.path}")
    if source.path.stat().st_size <= source.offset:
        raise BadInput(f"{source} is empty")
    try:
        container = av.open(source.url())
    except av.FFmpegError as error:
        raise BadInput(
            f"{source} is not a video, or it is truncated ({error.strerror}); an mp4 keeps its index at the "
            "end, so a copy that was cut off cannot be opened: copy it again"
        ) from None
    if not container.streams.video:
        container.close()
        raise BadInput(f"{source} holds no video stream")
    return container


@contextmanager
def _closing(iterator: Iterator[T]) -> Iterator[Iterator[T]]:
    """Close PyAV's generators: those that are dropped half-way leak 150 bytes each."""
    try:
        yield iterator
    finally:
        cast("Generator[T]", iterator).close()


def _turned(rotation: int, height: int, width: int) -> tuple[int, int]:
    return (width, height) if rotation % 180 else (height, width)


def _shown(wanted: np.ndarray) -> str:
    if wanted.ndim != 1 or not len(wanted):
        return f"an array of shape {wanted.shape}"
    return f"frames {wanted.min()} to {wanted.max()}"
