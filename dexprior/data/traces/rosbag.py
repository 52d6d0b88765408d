"""ROS 1 and ROS 2 bags in and out, by the `rosbags` package (Apache-2.0), without ROS.

Read: sensor_msgs/JointState (position, velocity and effort, a channel each), geometry_msgs/PoseStamped, TwistStamped
and WrenchStamped, std_msgs/Float64MultiArray, trajectory_msgs/JointTrajectory (its points, each at the time at which it
is due; those that a later message replaces before are left out). `header.stamp` is `t`, the bag's receive time is
`t_host`; messages without a header, and topics whose stamps are all zero, have the receive time twice. Numbers are put
into the order of the names of a topic's first message. A sample or channel that cannot be used is left out, with a
note. std_msgs/String on a topic `events` becomes events. A topic is commanded if it is a trajectory or its name says
command, cmd, goal, target, setpoint, desired or reference; a layout overrides that.

Written: the message type that suits a channel's unit and width, Float64MultiArray for the rest, with the source's time
as padding before the data (`layout.data_offset` = 1, which ROS' readers skip). What ROS has no place for (unit, kind,
panel hash, info) is one JSON text on the topic `/dexprior/trace`. Clocks are nanoseconds there, from zero up.
"""

from __future__ import annotations

import importlib
import json
import re
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.config import to_plain
from dexprior.data.traces.channels import ChannelLayout, Made, Meaning, laid_out, salvaged, usable
from dexprior.data.traces.events import events_of
from dexprior.data.traces.staging import staged
from dexprior.data.traces.writer import ChannelSpec, plain_info
from dexprior.errors import BadInput
from dexprior.extras import require
from dexprior.reading import as_described, entries, inside, integer, listed, parse_json_object, read_yaml
from dexprior.types import Channel, ChannelKind, Trace

__all__ = ["MESSAGES", "read_rosbag", "write_rosbag"]

_ABOUT = "/dexprior/trace"
_SCHEMA = "dexprior.rosbag/1"
_TEXT = "std_msgs/msg/String"
_ARRAY = "std_msgs/msg/Float64MultiArray"
_STAMPED = "dexprior.stamped"
"""Label of an array whose padding is the source's time."""
_TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"
_COMMANDED = re.compile(r"(^|[_/])(commands?|cmd|goal|target|setpoint|desired|reference)([_/]|$)")
_LARGEST = 2**31 - 1  # [s] that a stamp holds

Part = tuple[str, float | None, list[float], tuple[str, ...]]
"""Field, seconds on the source's clock (None without a stamp), numbers and their names."""


def _stamp(time: Any) -> float:
    return (time.sec * 10**9 + time.nanosec) / 1e9


def _joints(message: Any) -> Iterator[Part]:
    t, names = _stamp(message.header.stamp), tuple(message.name)
    for part in ("position", "velocity", "effort"):
        if len(values := getattr(message, part)):
            yield part, t, values.tolist(), names


def _xyz(vector: Any) -> list[float]:
    return [vector.x, vector.y, vector.z]


def _pose(message: Any) -> Iterator[Part]:
    q = message.pose.orientation
    yield "", _stamp(message.header.stamp), [*_xyz(message.pose.position), q.w, q.x, q.y, q.z], ()


def _twist(message: Any) -> Iterator[Part]:
    yield "", _stamp(message.header.stamp), [*_xyz(message.twist.linear), *_xyz(message.twist.angular)], ()


def _wrench(message: Any) -> Iterator[Part]:
    yield "", _stamp(message.header.stamp), [*_xyz(message.wrench.force), *_xyz(message.wrench.torque)], ()


def _array(message: Any) -> Iterator[Part]:
    skip, dims = message.layout.data_offset, message.layout.dim
    ours = skip == 1 and len(dims) > 0 and dims[0].label == _STAMPED
    yield "", float(message.data[0]) if ours else None, message.data[skip:].tolist(), ()


def _trajectory(message: Any) -> Iterator[Part]:
    start = message.header.stamp
    for point in message.points:
        ns = (start.sec + point.time_from_start.sec) * 10**9 + start.nanosec + point.time_from_start.nanosec
        yield "", ns / 1e9, point.positions.tolist(), tuple(message.joint_names)


MESSAGES: dict[str, tuple[Callable[[Any], Iterator[Part]], dict[str, Meaning]]] = {
    "sensor_msgs/msg/JointState": (
        _joints,
        {
            "position": Meaning("rad", "joint", "measured"),
            "velocity": Meaning("rad/s", "joint", "measured"),
            "effort": Meaning("N m", "joint", "measured"),
        },
    ),
    "geometry_msgs/msg/PoseStamped": (_pose, {"": Meaning("m, 1", "", "measured")}),
    "geometry_msgs/msg/TwistStamped": (_twist, {"": Meaning("m/s, rad/s", "", "measured")}),
    "geometry_msgs/msg/WrenchStamped": (_wrench, {"": Meaning("N, N m", "", "measured")}),
    _ARRAY: (_array, {"": Meaning("1", "-", "measured")}),
    _TRAJECTORY: (_trajectory, {"": Meaning("rad", "joint", "commanded")}),
}
"""Message types that are read: what parts they have, and what those mean; an empty frame is the header's."""


# --- reading ---


@dataclass
class _Samples:
    """What one channel's messages gave."""

    meaning: Meaning
    names: tuple[str, ...]
    t: list[float | None] = field(default_factory=list)
    t_host: list[float] = field(default_factory=list)
    value: list[list[float]] = field(default_factory=list)
    message: list[int] = field(default_factory=list)


def read_rosbag(path: Path, layout: Mapping[str, ChannelLayout]) -> Trace:
    """Read a `.bag`, or the folder of a ROS 2 bag.

    Args:
        path: the bag.
        layout: channels under other names and with other meanings; `source` is a topic, `field` a part of JointState.

    Raises:
        MissingExtra: `rosbags` is not installed.
        BadInput: no bag, damaged, no topic that can be read, or what no channel can hold; names the topic.
    """
    highlevel, stores = _package("highlevel"), _package("typesys")
    if not path.exists():
        raise BadInput(f"{path}: no such bag")
    if path.is_dir():
        _check_metadata(path)
    default = stores.get_typestore(stores.Stores.ROS2_HUMBLE)
    samples: dict[str, _Samples] = {}
    skipped: Counter[tuple[str, str]] = Counter()
    texts: list[tuple[float, str]] = []
    about: dict[str, Any] = {}
    try:
        with highlevel.AnyReader([path], default_typestore=default) as reader:
            for number, (connection, host, raw) in enumerate(reader.messages()):
                topic, kind = connection.topic, connection.msgtype
                if kind == _TEXT and (topic == _ABOUT or topic.rpartition("/")[2] == "events"):
                    text = reader.deserialize(raw, kind).data
                    if topic == _ABOUT:
                        about = parse_json_object(text, f"{path}: topic {_ABOUT}")
                    else:
                        texts.append((host / 1e9, text))
                elif kind in MESSAGES:
                    _take(samples, topic, kind, number, host / 1e9, reader.deserialize(raw, kind))
                else:
                    skipped[topic, kind] += 1
    except _damage() as error:
        said = " ".join(str(error).split())[:300]
        raise BadInput(f"{path} is no ROS bag, or it is damaged: {said}") from None
    notes = [f"topic {topic} is left out: {kind} is no channel" for topic, kind in skipped]
    if unknown := [(t, k) for t, k in skipped if t in {said.source for said in layout.values()}]:
        raise BadInput(
            f"{path}: topic {unknown[0][0]} holds {unknown[0][1]}; types that are read: {', '.join(MESSAGES)}"
        )
    if not samples and not about:
        held = ", ".join(f"{topic} ({kind})" for topic, kind in skipped) or "no message"
        raise BadInput(
            f"{path}: no topic that can be read, it holds {held}; types that are read: {', '.join(MESSAGES)}"
        )
    named = {name: replace(said, source=_source(said), field=None) for name, said in layout.items()}
    made = {name: partial(_channel, name, each, bool(about)) for name, each in samples.items()}
    wanted = made if about else {said.source for said in named.values() if said.source}
    channels, names = usable(made, wanted, notes, path)
    info: dict[str, Any] = {"names": names}
    if texts:
        info["events"] = [[host, host, text] for host, text in texts]
    trace = _ours(path, channels, about) if about else Trace(channels=channels, panel_hash="", info=info)
    if notes:
        trace.info["notes"] = [*trace.info.get("notes", []), *notes]
    return laid_out(trace, named, path)


def _check_metadata(folder: Path) -> None:
    """A ROS 2 bag's YAML, before `rosbags` reads it: bounded, and with files of this folder only."""
    path = folder / "metadata.yaml"
    (about,) = entries(
        read_yaml(path, absent="A ROS 2 bag is a folder with one."), ("rosbag2_bagfile_information",), path
    )
    (files,) = entries(about, ("relative_file_paths",), path)
    for file in listed(files, f"{path}: relative_file_paths", empty=True):
        inside(folder, file, path)


def _name(topic: str, part: str) -> str:
    return ".".join(word for word in (topic.strip("/").replace("/", "."), part) if word)


def _source(said: ChannelLayout) -> str | None:
    return None if said.source is None else _name(said.source, said.field or "")


def _take(samples: dict[str, _Samples], topic: str, kind: str, number: int, host: float, message: Any) -> None:
    read, meanings = MESSAGES[kind]
    began: float | None = None
    for part, t, value, names in read(message):
        name = _name(topic, part)
        names = names if len(names) == len(set(names)) == len(value) else ()
        known = samples[name].names if name in samples else names
        if known != names and set(known) == set(names):  # the names say which number is which, not the order
            value, names = [value[names.index(joint)] for joint in known], known
        elif known != names:
            name = _name(topic, f"{part}.{'+'.join(names)}")  # another publisher on the same topic: other joints
        if name not in samples:
            unit, frame, sense = meanings[part]
            if not frame:
                frame = message.header.frame_id or "-"
            commanded: ChannelKind = "commanded" if _COMMANDED.search(topic) else sense
            samples[name] = _Samples(Meaning(unit, frame, commanded), names)
        made = samples[name]
        due = host
        if kind == _TRAJECTORY and t is not None:
            began = t if began is None else began
            due = host + t - began
            while made.t and made.message[-1] != number and (made.t[-1] >= t or made.t_host[-1] > due):  # type: ignore[operator]
                for column in (made.t, made.t_host, made.value, made.message):
                    column.pop()
        made.t.append(t)
        made.t_host.append(due)
        made.value.append(value)
        made.message.append(number)


def _channel(name: str, samples: _Samples, stamped: bool, notes: list[str]) -> Made:
    widths = [len(value) for value in samples.value]
    if len(set(widths)) > 1:
        k = next(k for k, width in enumerate(widths) if width != widths[0])
        raise BadInput(f"channel {name!r}: message {k} holds {widths[k]} numbers, the first {widths[0]}")
    t_host, value = np.array(samples.t_host), np.array(samples.value, dtype=np.float64)
    if None in samples.t or not (stamped or any(samples.t)):
        t = t_host
        notes.append(f"channel {name!r}: no time stamps, t is the time at which the bag received it")
    else:
        t = np.array(samples.t, dtype=np.float64)
    return salvaged(name, t, t_host, value, samples.meaning, samples.names, notes)


def _ours(path: Path, found: Mapping[str, Channel], about: Mapping[str, Any]) -> Trace:
    """Names, meanings and info of a bag that `write_rosbag` wrote."""
    with as_described("a bag of ours", f"{path}: topic {_ABOUT}"):
        return _described(path, found, about)


def _described(path: Path, found: Mapping[str, Channel], about: Mapping[str, Any]) -> Trace:
    if about.get("schema") != _SCHEMA:
        raise BadInput(f"{path}: topic {_ABOUT} holds {about.get('schema')!r}, this version reads {_SCHEMA!r}")
    channels = {}
    for name, said in about["channels"].items():
        meaning = {key: said[key] for key in ("unit", "frame", "kind")}
        if said["source"] in found:
            channels[name] = replace(found[said["source"]], **meaning)
        else:
            empty = np.empty(0)
            width = integer(said["width"], f"{path}: width of {name!r}", high=10_000)
            channels[name] = Channel(t=empty, t_host=empty, value=np.empty((0, width)), **meaning)
    return Trace(channels=channels, panel_hash=about["panel_hash"], info=dict(about["info"]))


# --- writing ---


def write_rosbag(trace: Trace, out: Path) -> list[str]:
    """Write a ROS 1 bag where `out` ends in `.bag`, else the folder of a ROS 2 bag (SQLite); returns what is lost.

    Raises:
        MissingExtra: `rosbags` is not installed.
        BadInput: the bag exists, times below zero or samples less than a nanosecond apart, or a channel's name that
            is no topic.
    """
    first = out.suffix == ".bag"
    stores = _package("typesys")
    store = stores.get_typestore(stores.Stores.ROS1_NOETIC if first else stores.Stores.ROS2_HUMBLE)
    plans = {name: _Plan(name, channel, trace, _Maker(store, first)) for name, channel in trace.channels.items()}
    topics = Counter([_ABOUT, "/events", *((plan.topic, plan.part) for plan in plans.values())])
    if twice := [name for name, plan in plans.items() if topics[plan.topic, plan.part] > 1 or topics[plan.topic]]:
        raise BadInput(f"channels {', '.join(twice)}: topic {plans[twice[0]].topic} is taken; call them otherwise")
    with staged(out) as partial:  # a ROS 2 bag's storage is named after its folder
        writer = _package("rosbag1").Writer(partial) if first else _package("rosbag2").Writer(partial, version=9)
        with writer:

            def send(connection: Any, host: int, message: Any) -> None:
                pack = store.serialize_ros1 if first else store.serialize_cdr
                writer.write(connection, host, pack(message, connection.msgtype))

            note = writer.add_connection(_ABOUT, _TEXT, typestore=store)
            links = {n: writer.add_connection(plan.topic, plan.type, typestore=store) for n, plan in plans.items()}
            events = events_of(trace.info)
            spoken = writer.add_connection("/events", _TEXT, typestore=store) if events else None
            rows: list[tuple[int, Any, Any]] = [
                (host, links[n], m) for n, plan in plans.items() for host, m in plan.messages()
            ]
            text = store.types[_TEXT]
            rows += [(_nanoseconds("event", np.array([e.t_host]))[0], spoken, text(data=e.name)) for e in events]
            rows.sort(key=lambda row: row[0])
            about = {
                "schema": _SCHEMA,
                "panel_hash": trace.panel_hash,
                "info": plain_info(trace.info),
                "channels": {
                    n: {**to_plain(ChannelSpec.of(trace[n])), "source": plan.source} for n, plan in plans.items()
                },
            }
            send(note, rows[0][0] if rows else 0, text(data=json.dumps(about)))
            for host, connection, message in rows:
                send(connection, host, message)
    return ["clocks are whole nanoseconds", f"unit, frame, kind, panel_hash and info stand in one text on {_ABOUT}"]


class _Maker:
    """Builds messages of a type store."""

    def __init__(self, store: Any, first: bool) -> None:
        self.store, self.first = store, first

    def __call__(self, kind: str, **fields: Any) -> Any:
        return self.store.types[kind](**fields)

    def header(self, ns: int, frame: str) -> Any:
        time = self("builtin_interfaces/msg/Time", sec=ns // 10**9, nanosec=ns % 10**9)
        return self("std_msgs/msg/Header", stamp=time, frame_id=frame, **({"seq": 0} if self.first else {}))

    def vector(self, xyz: list[float]) -> Any:
        return self("geometry_msgs/msg/Vector3", **dict(zip("xyz", xyz)))


class _Plan:
    """How one channel becomes messages."""

    def __init__(self, name: str, channel: Channel, trace: Trace, make: _Maker) -> None:
        self.topic = "/" + name.replace(".", "/")
        if not re.fullmatch(r"(/[A-Za-z_][A-Za-z0-9_]*)+", self.topic):
            raise BadInput(f"channel {name!r} cannot be a topic: letters, digits and _, parts separated by a dot")
        self.name, self.channel, self.make = name, channel, make
        width = channel.value.shape[1]
        self.names = trace.names(name) or tuple(f"joint{k}" for k in range(width))
        part = {"rad": "position", "rad/s": "velocity", "N m": "effort"}.get(channel.unit, "")
        kinds = {("m, 1", 7): "PoseStamped", ("m/s, rad/s", 6): "TwistStamped", ("N, N m", 6): "WrenchStamped"}
        if channel.kind == "commanded" and channel.unit == "rad":
            self.type, part = _TRAJECTORY, ""
        elif part and channel.frame == "joint":
            self.type = "sensor_msgs/msg/JointState"
        elif (channel.unit, width) in kinds:
            self.type, part = f"geometry_msgs/msg/{kinds[channel.unit, width]}", ""
        else:
            self.type, part = _ARRAY, ""
        self.part = part
        self.source = _name(self.topic, part)

    def messages(self) -> Iterator[tuple[int, Any]]:
        """Receive time [ns] and message of every sample."""
        stamps = _nanoseconds(self.name, self.channel.t)
        if (np.diff(stamps) <= 0).any():
            k = int(np.argmax(np.diff(stamps) <= 0))
            raise BadInput(f"channel {self.name!r}: samples {k} and {k + 1} are less than a nanosecond apart")
        hosts = _nanoseconds(self.name, self.channel.t_host)
        for t, ns, host, value in zip(self.channel.t.tolist(), stamps, hosts, self.channel.value.tolist()):
            yield host, self._message(t, ns, value)

    def _message(self, t: float, ns: int, value: list[float]) -> Any:
        make = self.make
        if self.type == _ARRAY:
            size = len(value)
            dim = make("std_msgs/msg/MultiArrayDimension", label=_STAMPED, size=size, stride=size)
            layout = make("std_msgs/msg/MultiArrayLayout", dim=[dim], data_offset=1)
            return make(self.type, layout=layout, data=np.array([t, *value]))
        header, none = make.header(ns, self.channel.frame), np.empty(0)
        if self.type == _TRAJECTORY:
            start = make("builtin_interfaces/msg/Duration", sec=0, nanosec=0)
            point = make(
                "trajectory_msgs/msg/JointTrajectoryPoint", positions=np.array(value), velocities=none,
                accelerations=none, effort=none, time_from_start=start,
            )  # fmt: skip
            return make(self.type, header=header, joint_names=list(self.names), points=[point])
        if self.part:
            parts = {p: np.array(value) if p == self.part else none for p in ("position", "velocity", "effort")}
            return make(self.type, header=header, name=list(self.names), **parts)
        ends = [make.vector(value[:3]), make.vector(value[3:6])]
        if "Wrench" in self.type:
            return make(
                self.type, header=header, wrench=make("geometry_msgs/msg/Wrench", force=ends[0], torque=ends[1])
            )
        if "Twist" in self.type:
            return make(
                self.type, header=header, twist=make("geometry_msgs/msg/Twist", linear=ends[0], angular=ends[1])
            )
        place = make("geometry_msgs/msg/Point", **dict(zip("xyz", value)))
        turn = make("geometry_msgs/msg/Quaternion", **dict(zip("wxyz", value[3:])))
        pose = make("geometry_msgs/msg/Pose", position=place, orientation=turn)
        return make(self.type, header=header, pose=pose)


def _nanoseconds(name: str, seconds: np.ndarray) -> list[int]:
    if len(seconds) and (seconds.min() < 0 or seconds.max() > _LARGEST):
        raise BadInput(
            f"{name!r}: times from {seconds.min():.3f} to {seconds.max():.3f} s; ROS has them from 0 to {_LARGEST}: "
            "shift the clocks"
        )
    return np.rint(seconds * 1e9).astype(np.int64).tolist()


def _package(name: str) -> Any:
    require("rosbags")
    return importlib.import_module(f"rosbags.{name}")


def _damage() -> tuple[type[Exception], ...]:
    """What rosbags raises on files that are no bags, or whose bytes are wrong."""
    sqlite = importlib.import_module("rosbags.rosbag2.storage_sqlite3").apsw.Error
    return (
        _package("highlevel").AnyReaderError, _package("typesys").TypesysError, _package("rosbag1").ReaderError,
        _package("rosbag2").ReaderError, sqlite, OSError, EOFError, struct.error, zlib.error, ValueError, KeyError,
        IndexError, AssertionError, RuntimeError, TypeError, AttributeError, OverflowError, MemoryError,
    )  # fmt: skip
