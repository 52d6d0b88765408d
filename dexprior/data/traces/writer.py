"""Traces into MCAP files: sample by sample while a robot runs, or a whole `Trace` at once."""

from __future__ import annotations

import heapq
import io
import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from jaxtyping import Float
from mcap.writer import Writer

from dexprior.artifacts import write_atomic
from dexprior.config import config, to_plain
from dexprior.data.traces import layout
from dexprior.data.traces.clocks import check_clocks
from dexprior.data.traces.events import events_of
from dexprior.data.traces.staging import check_free
from dexprior.errors import BadInput, UnknownName
from dexprior.types import Channel, ChannelKind, Trace

__all__ = ["ChannelSpec", "TraceWriter", "plain_info", "write_trace"]

_PRODUCER = "dexprior"
_BLOCK = 10_000  # samples that are text at a time


@config
class ChannelSpec:
    """What is known of a channel before its first sample."""

    width: int
    """Numbers in a sample."""
    unit: str
    """SI unit, `1` for pure numbers."""
    frame: str
    """Frame of the value, `-` where none applies."""
    kind: ChannelKind

    def __post_init__(self) -> None:
        if self.width < 1:
            raise BadInput(f"ChannelSpec.width = {self.width}: a sample holds at least one number")
        Channel(t=[], t_host=[], value=np.empty((0, 1)), unit=self.unit, frame=self.frame, kind=self.kind)  # type: ignore[arg-type]

    @classmethod
    def of(cls, channel: Channel) -> ChannelSpec:
        """What a channel declares."""
        return cls(width=channel.value.shape[1], unit=channel.unit, frame=channel.frame, kind=channel.kind)


class TraceWriter:
    """Appends samples of several channels, each at its own rate, to one MCAP file that a kill leaves readable.

    Samples go to the operating system in chunks, by the first `append` or `event` that comes `flush_s` after the last
    chunk: a killed process loses no more than that. Nothing is synced to the disk before `close`: a power cut may lose
    more. An existing file is never written to.

        force = ChannelSpec(width=3, unit="N", frame="sensor", kind="measured")
        with TraceWriter("run.mcap", {"force": force}) as writer:
            writer.append("force", t, t_host, value)
            writer.event(t, t_host, "contact")
    """

    def __init__(
        self,
        path: str | Path,
        channels: Mapping[str, ChannelSpec],
        *,
        panel_hash: str = "",
        info: Mapping[str, Any] | None = None,
        flush_s: float = 0.5,
    ) -> None:
        """Declare the channels and write the file's head.

        Args:
            path: file that does not exist yet; folders are made.
            channels: what will be appended, by name.
            panel_hash: of the `Trace`.
            info: of the `Trace`: plain data; what is known at the end only goes to `close`.
            flush_s: the longest that samples wait [s]; 0 writes a chunk an append.

        Raises:
            BadInput: the file exists, or no channel, a name that is empty or `events`, or info that is no plain data.
        """
        self.path = Path(path)
        if not flush_s >= 0:
            raise BadInput(f"TraceWriter.flush_s = {flush_s}: expected seconds, 0 or more")
        check_free(self.path)
        self._file = self.path.open("xb")
        try:
            self._stream = _Stream(self._file, channels, panel_hash, dict(info or {}), flush_s)
        except BaseException:
            self._file.close()
            self.path.unlink()
            raise
        self._flush_s, self._flushed = flush_s, time.monotonic()
        self._last: dict[str, tuple[float, float]] = {}
        self._stream.writer.flush()

    def append(
        self,
        name: str,
        t: float | Float[np.ndarray, " time"],
        t_host: float | Float[np.ndarray, " time"],
        value: Float[np.ndarray, " n"] | Float[np.ndarray, "time n"],
    ) -> None:
        """Append one sample, or several.

        Args:
            name: a declared channel.
            t: [s] on the source's clock, after the channel's last one.
            t_host: [s] on the host's clock, not before the channel's last one.
            value: of the declared width.

        Raises:
            UnknownName: the channel was not declared.
            BadInput: the writer is closed, another width or number of samples, values that are not finite, a clock
                that does not go on.
        """
        self._check_open()
        if name not in self._stream.specs:
            raise UnknownName("channel", name, sorted(self._stream.specs))
        spec = self._stream.specs[name]
        try:
            times, host, rows = (np.atleast_1d(np.asarray(a, dtype=np.float64)) for a in (t, t_host, value))
        except (TypeError, ValueError) as error:
            raise BadInput(f"channel {name!r}: a sample that is no numbers: {error}") from None
        rows = rows[None] if rows.ndim == 1 else rows
        if rows.shape != (len(times), spec.width) or host.shape != times.shape or times.ndim != 1:
            raise BadInput(
                f"channel {name!r}: t {times.shape}, t_host {host.shape} and value {rows.shape} of a channel of "
                f"{spec.width} numbers"
            )
        if not len(times):
            return
        if not all(np.isfinite(a).all() for a in (times, host, rows)):
            raise BadInput(f"channel {name!r}: a sample that is not finite at t = {times[0]:.6f} s; leave it out")
        before = self._last.get(name, (-math.inf, -math.inf))
        if times[0] <= before[0] or (np.diff(times) <= 0).any():
            raise BadInput(f"channel {name!r}: t must increase strictly; {times[0]:.6f} s after {before[0]:.6f} s")
        if host[0] < before[1] or (np.diff(host) < 0).any():
            raise BadInput(f"channel {name!r}: t_host goes back: {host[0]:.6f} s after {before[1]:.6f} s")
        self._last[name] = (float(times[-1]), float(host[-1]))
        self._stream.samples(name, times, host, rows)
        self._flush_when_due()

    def event(self, t: float, t_host: float, name: str) -> None:
        """Append an event.

        Raises:
            BadInput: the writer is closed, a time that is not finite, or a name that is no text.
        """
        self._check_open()
        self._stream.event(*events_of({"events": [[t, t_host, name]]})[0])
        self._flush_when_due()

    def flush(self) -> None:
        """Hand what was appended to the operating system now.

        Raises:
            BadInput: the writer is closed.
        """
        self._check_open()
        self._stream.writer.flush()
        self._flushed = time.monotonic()

    def close(self, info: Mapping[str, Any] | None = None) -> None:
        """Write the index and sync the file.

        Args:
            info: replaces what the constructor was given, where more is known at the end (success, say).

        Raises:
            BadInput: info that is no plain data, or that holds events.
        """
        if self._file.closed:
            return
        if info is not None and "events" in info:
            raise BadInput("TraceWriter.close: events are appended by `event`, they are not given with the info")
        self._stream.finish(None if info is None else dict(info))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._file.closed:
            raise BadInput(f"{self.path} is closed: nothing can be appended")

    def _flush_when_due(self) -> None:
        if time.monotonic() - self._flushed >= self._flush_s:
            self.flush()


def write_trace(trace: Trace, path: str | Path) -> Path:
    """Write a whole trace as one MCAP file, atomically; channels are interleaved by the host's clock.

    Raises:
        BadInput: the file exists, clocks that `read_trace` would refuse, an event that is none, or info that is no
            plain data.
    """
    check_free(Path(path))
    check_clocks(trace.channels)
    buffer = io.BytesIO()
    specs = {name: ChannelSpec.of(channel) for name, channel in trace.channels.items()}
    stream = _Stream(buffer, specs, trace.panel_hash, dict(trace.info), 0.0)
    stream.trace(trace)
    stream.finish(None)
    return write_atomic(path, buffer.getvalue())


class _Stream:
    """The file's records; knows the layout and nothing about when they reach a disk."""

    def __init__(
        self,
        stream: Any,
        channels: Mapping[str, ChannelSpec],
        panel_hash: str,
        info: dict[str, Any],
        flush_s: float,
    ) -> None:
        if not channels:
            raise BadInput("a trace needs at least one channel")
        for name in channels:
            if not name or name == layout.EVENTS or name.startswith("/"):
                raise BadInput(f"no channel can be called {name!r}: the name is a topic, and `events` is taken")
        self.specs = dict(channels)
        self.about = {
            "schema": layout.SCHEMA,
            "panel_hash": panel_hash,
            "channels": json.dumps({name: to_plain(spec) for name, spec in channels.items()}),
            "flush_s": repr(float(flush_s)),
        }
        head = self._metadata(info)
        self.writer = Writer(stream, enable_data_crcs=True)
        self.writer.start(library=_PRODUCER)
        self.writer.add_metadata(layout.METADATA, head)
        sample = self.writer.register_schema(layout.SAMPLE_SCHEMA[0], "jsonschema", layout.SAMPLE_SCHEMA[1])
        event = self.writer.register_schema(layout.EVENT_SCHEMA[0], "jsonschema", layout.EVENT_SCHEMA[1])
        self.ids = {
            name: self.writer.register_channel(
                layout.topic_of(name), "json", sample, {"unit": s.unit, "frame": s.frame, "kind": s.kind}
            )
            for name, s in channels.items()
        }
        self.event_id = self.writer.register_channel(layout.topic_of(layout.EVENTS), "json", event)
        for at, moment in enumerate(events_of(info)):
            self.event(*moment, sequence=at)

    def samples(
        self,
        name: str,
        t: Float[np.ndarray, " time"],
        t_host: Float[np.ndarray, " time"],
        value: Float[np.ndarray, "time n"],
    ) -> None:
        """Append samples of one channel."""
        for message in self._messages(name, t, t_host, value):
            self.writer.add_message(*message)

    def trace(self, trace: Trace) -> None:
        """Append all samples of a trace in the order in which the host saw them."""
        channels = [self._messages(name, c.t, c.t_host, c.value) for name, c in trace.channels.items()]
        for message in heapq.merge(*channels, key=itemgetter(1)):
            self.writer.add_message(*message)

    def event(self, t: float, t_host: float, name: str, sequence: int = 0) -> None:
        """Append an event."""
        data = json.dumps({"t": t, "t_host": t_host, "name": name}).encode()
        logged, published = layout.nanoseconds(np.array([t_host, t]))
        self.writer.add_message(self.event_id, logged, data, published, sequence)

    def finish(self, info: dict[str, Any] | None) -> None:
        """Write what is known at the end, and the index."""
        if info is not None:
            self.writer.add_metadata(layout.METADATA, self._metadata(info))
        self.writer.finish()

    def _messages(
        self,
        name: str,
        t: Float[np.ndarray, " time"],
        t_host: Float[np.ndarray, " time"],
        value: Float[np.ndarray, "time n"],
    ) -> Iterator[tuple[int, int, bytes, int]]:
        channel = self.ids[name]
        for k in range(0, len(t), _BLOCK):  # lists of a million floats take more memory than the file
            part = slice(k, k + _BLOCK)
            log, published = layout.nanoseconds(t_host[part]), layout.nanoseconds(t[part])
            for a, b, v, at, pub in zip(t[part].tolist(), t_host[part].tolist(), value[part].tolist(), log, published):
                # repr of a list of finite floats is JSON, and a third of json.dumps' time
                yield channel, at, b'{"t":%a,"t_host":%a,"value":%a}' % (a, b, v), pub

    def _metadata(self, info: dict[str, Any]) -> dict[str, str]:
        plain = {k: v for k, v in plain_info(info).items() if k != "events"}
        return self.about | {"info": json.dumps(plain)}


def plain_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """A trace's info as JSON has it: tuples and arrays become lists.

    Raises:
        BadInput: something that JSON cannot hold.
    """
    try:
        return json.loads(json.dumps(to_plain(dict(info)), allow_nan=False, default=_plain))
    except (TypeError, ValueError) as error:
        raise BadInput(f"Trace.info is no plain data: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} {value!r}")
