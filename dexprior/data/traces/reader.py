"""Traces out of MCAP files, as far as they are whole."""

from __future__ import annotations

import struct
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import lz4.frame
import numpy as np
import zstandard
from jaxtyping import Float
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel as ChannelRecord
from mcap.records import Chunk, Metadata, Schema
from mcap.writer import MCAP0_MAGIC
from zstandard import ZstdError

from dexprior.config import config, validate
from dexprior.data.traces import layout
from dexprior.data.traces.clocks import check_clocks
from dexprior.data.traces.events import TraceEvent, events_of
from dexprior.data.traces.writer import ChannelSpec
from dexprior.errors import ArtifactError, BadInput, ConfigError
from dexprior.reading import (
    listed,
    most_unpacked,
    number,
    numbers,
    parse_json,
    parse_json_object,
    read_bytes,
    to_number,
)
from dexprior.types import Channel, Trace

__all__ = ["read_trace"]

_WIDEST = 100_000  # numbers of a sample: a depth picture is none
_DEEPEST = 16
_LARGEST = 1 << 33  # [bytes]
_BLOCK = 10_000  # messages that are parsed at a time
_HEAD = struct.Struct("<BQ")  # opcode and length of a record
_MESSAGE = struct.Struct("<HIQQ")  # channel, sequence, log time, publish time

_DAMAGE = (McapError, ZstdError, struct.error, ValueError, EOFError, RuntimeError, MemoryError)
"""What packages raise on bytes that are wrong; a checksum that is wrong is a ValueError."""


def read_trace(path: str | Path, *, check: bool = True) -> Trace:
    """Read what `write_trace` or `TraceWriter` wrote.

    A file without its end (the writer was killed, the disk was full) is read as far as its records are whole;
    `Trace.info["notes"]` then says where it ends and what may be missing, and beside it what is odd about the clocks.

    Args:
        path: the MCAP file.
        check: refuse clocks that jump, drift or go back; without it they are taken as they stand, to be looked at.

    Raises:
        ArtifactError: no such file, no MCAP file, not a trace of ours, of another version, damaged before its end, or
            nothing of it is whole.
        BadInput: samples of the wrong width, values that are not finite, units that contradict each other, or clocks
            that cannot be believed; names the channel and the sample.
    """
    path = Path(path)
    if not path.is_file():
        raise ArtifactError(f"{path}: " + ("a folder, expected one file" if path.is_dir() else "no such file"))
    try:
        data = read_bytes(path, max_bytes=_LARGEST)
    except BadInput as error:
        raise ArtifactError(str(error)) from None
    if data[: len(MCAP0_MAGIC)] != MCAP0_MAGIC:
        raise ArtifactError(f"{path} is no MCAP file: it begins with {data[:8]!r}")
    content = _Content()
    try:
        _records(data, len(MCAP0_MAGIC), content)
    except _DAMAGE as error:
        raise ArtifactError(f"{path} is damaged after byte {content.whole} of {len(data)}: {error!r}") from None
    about = _about(path, content)
    notes = list(about.info.pop("notes", []))
    notes += _loss(content, about, len(data))
    channels = {name: _channel(path, name, spec, content) for name, spec in about.channels.items()}
    if not any(len(channel.t) for channel in channels.values()) and not content.ended:
        raise ArtifactError(f"{path} breaks off before its first sample: nothing of it can be used")
    try:
        notes += check_clocks(channels) if check else []
        events = _events(path, content)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    info = about.info
    if events:
        info["events"] = [list(event) for event in events]
    if notes:
        info["notes"] = notes
    return Trace(channels=channels, panel_hash=about.panel_hash, info=info)


@dataclass
class _Content:
    """What the records hold."""

    schemas: dict[int, str] = field(default_factory=dict)
    channels: dict[int, ChannelRecord] = field(default_factory=dict)
    messages: dict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    metadata: dict[str, dict[str, str]] = field(default_factory=dict)
    whole: int = 0
    """Bytes up to the end of the last whole record."""
    ended: bool = False
    """Whether all samples are there."""


@config
class _Channels:
    channels: dict[str, ChannelSpec]


@dataclass(frozen=True)
class _About:
    panel_hash: str
    info: dict[str, Any]
    channels: dict[str, ChannelSpec]
    flush_s: float


def _frames(data: bytes | memoryview, start: int) -> Iterator[tuple[int, int, int]]:
    """(opcode, start, stop) of the body of every record that is whole."""
    at, end = start, len(data)
    while at + _HEAD.size <= end:
        opcode, length = _HEAD.unpack_from(data, at)
        if at + _HEAD.size + length > end:
            return
        at += _HEAD.size + length
        yield opcode, at - length, at


def _records(data: bytes, start: int, content: _Content) -> None:
    content.whole = start
    for opcode, first, last in _frames(data, start):
        if opcode == 0:
            break  # no record has this opcode: a file whose last blocks were never written ends in zeros
        if opcode == Opcode.CHUNK:
            try:
                inner = _unpacked(data[first:last])
            except _DAMAGE:
                if data[last:].strip(b"\0"):
                    raise
                break  # the last chunk of a file without its end: half of it was never written
            _samples(inner, content)
        elif opcode == Opcode.METADATA:
            record = Metadata.read(ReadDataStream(BytesIO(data[first:last])))
            content.metadata[record.name] = record.metadata
        elif opcode in (Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE):
            _record(opcode, data, first, last, content)
        elif opcode == Opcode.DATA_END:
            (stored,) = struct.unpack_from("<I", data, first)
            if stored and stored != zlib.crc32(memoryview(data)[: first - _HEAD.size]):
                raise ValueError("the checksum of all before it is another")
            content.whole = last
            content.ended = True  # what follows is an index, and repeats what was read
            return
        content.whole = last
    if data.endswith(MCAP0_MAGIC) and len(data) > content.whole + len(MCAP0_MAGIC):
        raise ValueError("a record that is longer than the file, which has its end")
    if data[content.whole : content.whole + 1] == b"\0" and data[content.whole :].strip(b"\0"):
        raise ValueError("a record of type 0, which there is not")


def _unpacked(data: bytes) -> bytes:
    """A chunk's records, checked."""
    chunk = Chunk.read(ReadDataStream(BytesIO(data)))
    size = chunk.uncompressed_size
    if size > most_unpacked(len(data)):
        raise ValueError(f"a chunk of {len(data)} bytes that says it unpacks to {size}")
    if chunk.compression == "zstd":  # one byte more than it says, so that more than that is noticed and not unpacked
        inner = zstandard.ZstdDecompressor().stream_reader(chunk.data).read(size + 1)
    elif chunk.compression == "lz4":
        inner = lz4.frame.LZ4FrameDecompressor().decompress(chunk.data, max_length=size + 1)
    elif chunk.compression == "":
        inner = chunk.data
    else:
        raise ValueError(f"a chunk packed by {chunk.compression[:20]!r}")
    if len(inner) != size:
        raise ValueError(f"a chunk of {len(inner)} bytes instead of {size}")
    if chunk.uncompressed_crc and zlib.crc32(inner) != chunk.uncompressed_crc:
        raise ValueError("a chunk with another checksum")
    return inner


def _samples(data: bytes, content: _Content) -> None:
    last = 0
    for opcode, first, last in _frames(data, 0):
        _record(opcode, data, first, last, content)
    if last != len(data):
        raise ValueError("a chunk that ends within a record")


def _record(opcode: int, data: bytes, first: int, last: int, content: _Content) -> None:
    if opcode == Opcode.MESSAGE:
        content.messages[_MESSAGE.unpack_from(data, first)[0]].append(data[first + _MESSAGE.size : last])
    elif opcode == Opcode.SCHEMA:
        schema = Schema.read(ReadDataStream(BytesIO(data[first:last])))
        content.schemas[schema.id] = schema.name
    elif opcode == Opcode.CHANNEL:
        channel = ChannelRecord.read(ReadDataStream(BytesIO(data[first:last])))
        content.channels[channel.id] = channel


def _about(path: Path, content: _Content) -> _About:
    found = content.metadata.get(layout.METADATA)
    if found is None:
        topics = ", ".join(sorted(c.topic for c in content.channels.values()))
        raise ArtifactError(
            f"{path} holds no {layout.METADATA!r} record: it is an MCAP file of another program (topics: "
            f"{topics or 'none'}). A ROS 2 bag is imported by its folder: dexprior data import format=rosbag"
        )
    if (schema := found.get("schema", "")) != layout.SCHEMA:
        again = (
            "write it again with this version" if schema.startswith("dexprior.mcap/") else "it is another kind of file"
        )
        raise ArtifactError(f"{path} holds {schema!r}, this version reads {layout.SCHEMA!r}: {again}")
    try:
        plain = parse_json_object(found["channels"], f"{path}: channels")
        declared = validate(_Channels, {"channels": plain}, where=f"{path}: channels").channels
        info = parse_json_object(found["info"], f"{path}: info")
        listed(info.get("notes", []), f"{path}: info: notes", empty=True)
        flush_s = number(to_number(found["flush_s"]), f"{path}: flush_s", low=0.0)
    except (KeyError, ValueError, ConfigError) as error:
        raise ArtifactError(f"{path}: its {layout.METADATA!r} record is damaged: {error}") from None
    if wide := [name for name, spec in declared.items() if spec.width > _WIDEST]:
        raise ArtifactError(f"{path}: channel {wide[0]!r} is declared with {declared[wide[0]].width} numbers")
    return _About(found.get("panel_hash", ""), info, declared, flush_s)


def _loss(content: _Content, about: _About, size: int) -> list[str]:
    if content.ended:
        return []
    counts = {layout.channel_of(record.topic): len(content.messages[id]) for id, record in content.channels.items()}
    read = ", ".join(f"{counts.get(name, 0)} of {name}" for name in about.channels)
    lost = size - content.whole
    return [
        f"the file breaks off: the {lost} bytes after byte {content.whole} are no whole record and are left out, "
        f"samples of the last {about.flush_s:g} s before the writer stopped may be missing; read: {read}"
    ]


def _topic(path: Path, content: _Content, topic: str, schema: str) -> ChannelRecord | None:
    found = [record for record in content.channels.values() if record.topic == topic]
    if len(found) > 1:
        raise BadInput(f"{path}: topic {topic!r} is there {len(found)} times; a trace has one of a name")
    if found and (other := content.schemas.get(found[0].schema_id)) != schema:
        raise BadInput(f"{path}: topic {topic!r} has the schema {other!r}, expected {schema!r}")
    return found[0] if found else None


def _blocks(content: _Content, record: ChannelRecord | None) -> Iterator[list[Any]]:
    """Messages as JSON: a parse a message takes three times as long, one parse of all takes far more memory."""
    messages = content.messages[record.id] if record is not None else []
    for k in range(0, len(messages), _BLOCK):
        block = messages[k : k + _BLOCK]
        rows = parse_json(b"[" + b",".join(block) + b"]", "messages", max_depth=_DEEPEST, nan=True)
        if len(rows) != len(block):
            raise BadInput(f"{len(block)} messages hold {len(rows)} values")
        yield rows


def _events(path: Path, content: _Content) -> tuple[TraceEvent, ...]:
    record = _topic(path, content, layout.topic_of(layout.EVENTS), layout.EVENT_SCHEMA[0])
    try:
        rows = [[row.get(k) for k in TraceEvent._fields] for rows in _blocks(content, record) for row in rows]
    except (AttributeError, ValueError) as error:
        raise BadInput(f"a message of {layout.EVENTS!r} that is no event: {error!r}") from None
    return events_of({"events": rows})


def _channel(path: Path, name: str, spec: ChannelSpec, content: _Content) -> Channel:
    where = f"{path}: channel {name!r}"
    record = _topic(path, content, layout.topic_of(name), layout.SAMPLE_SCHEMA[0])
    if record is not None and record.metadata != {"unit": spec.unit, "frame": spec.frame, "kind": spec.kind}:
        raise BadInput(
            f"{where} is declared with unit {spec.unit!r}, frame {spec.frame!r} and kind {spec.kind!r}, its topic says "
            f"{record.metadata}"
        )
    parts = [(np.empty((2, 0)), np.empty((0, spec.width)))]
    try:
        for rows in _blocks(content, record):
            first = sum(len(value) for _, value in parts)
            clocks = numbers([[row[clock] for row in rows] for clock in ("t", "t_host")], where, finite=False)
            parts.append((clocks, _values(where, first, [row["value"] for row in rows], spec.width)))
    except BadInput as error:
        said = str(error) if where in str(error) else f"{where}: a message that is no sample: {error}"
        raise BadInput(said) from None
    except (KeyError, TypeError) as error:
        raise BadInput(f"{where}: a message that is no sample of t, t_host and value: {error!r}") from None
    t, t_host = np.concatenate([clocks for clocks, _ in parts], axis=1)
    value = np.concatenate([value for _, value in parts])
    try:
        return Channel(t=t, t_host=t_host, value=value, unit=spec.unit, frame=spec.frame, kind=spec.kind)
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None


def _values(where: str, first: int, values: list[Any], width: int) -> Float[np.ndarray, "time n"]:
    """Rows of numbers; `first` is the number of the first sample."""
    for k, value in enumerate(values):
        if not isinstance(value, list) or len(value) != width:
            raise BadInput(f"{where}: sample {first + k} holds {str(value)[:60]}, expected {width} numbers")
    return numbers(values, f"{where}: values", len(values), width, finite=False)
