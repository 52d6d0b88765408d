"""Formats of others by name: traces in, traces out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dexprior.data.traces.channels import ChannelLayout, Made, usable
from dexprior.data.traces.clocks import check_clocks
from dexprior.data.traces.lerobot import lerobot_episodes, read_lerobot, write_lerobot
from dexprior.data.traces.robomimic import read_robomimic, robomimic_episodes, write_robomimic
from dexprior.data.traces.rosbag import read_rosbag, write_rosbag
from dexprior.data.traces.tables import read_csv, write_csv
from dexprior.errors import BadInput, UnknownName
from dexprior.reading import as_described
from dexprior.types import Trace

__all__ = ["FORMATS", "TraceFormat", "export_traces", "import_trace", "trace_format", "trace_paths"]


@dataclass(frozen=True, kw_only=True)
class TraceFormat:
    """How one format is read and written."""

    name: str
    title: str
    episodes: Callable[[Path], list[str]]
    """Names of the recordings in a file or folder."""
    read: Callable[[Path, str, Mapping[str, ChannelLayout]], Trace]
    """One recording by name."""
    write: Callable[[Sequence[Trace], Path, float | None], list[str]]
    """All traces at once, with rows a second where the format has one rate; returns what is lost, in sentences."""


def _alone(path: Path) -> list[str]:
    if not path.exists():
        raise BadInput(f"{path}: no such file or folder")
    return [path.stem]


def _one(format: str, write: Callable[[Trace, Path], list[str]]) -> Callable[..., list[str]]:
    def written(traces: Sequence[Trace], out: Path, fps: float | None) -> list[str]:
        if len(traces) != 1:
            raise BadInput(f"format {format!r} holds one trace, got {len(traces)}: export them one by one")
        if fps is not None:
            raise BadInput(f"format {format!r} keeps every channel's own rate: leave fps={fps:g} out")
        return write(traces[0], out)

    return written


FORMATS: dict[str, TraceFormat] = {
    "csv": TraceFormat(
        name="csv",
        title="a folder with a CSV a channel, or one table",
        episodes=_alone,
        read=lambda path, name, layout: read_csv(path, layout),
        write=_one("csv", write_csv),
    ),
    "lerobot": TraceFormat(
        name="lerobot",
        title="LeRobotDataset v3.0 (v2.1 is read as well)",
        episodes=lerobot_episodes,
        read=read_lerobot,
        write=write_lerobot,
    ),
    "robomimic": TraceFormat(
        name="robomimic",
        title="robomimic's HDF5",
        episodes=robomimic_episodes,
        read=read_robomimic,
        write=write_robomimic,
    ),
    "rosbag": TraceFormat(
        name="rosbag",
        title="ROS 1 bag (.bag) or ROS 2 bag (a folder)",
        episodes=_alone,
        read=lambda path, name, layout: read_rosbag(path, layout),
        write=_one("rosbag", write_rosbag),
    ),
}
"""What `import_trace` and `export_traces` know."""


def trace_paths(path: str | Path) -> list[Path]:
    """An MCAP file, or those of a folder by name.

    Raises:
        BadInput: nothing there.
    """
    path = Path(path)
    found = sorted(path.glob("*.mcap")) if path.is_dir() else [path]
    if not found or not path.exists():
        raise BadInput(f"{path}: " + ("a folder without a file NAME.mcap" if path.is_dir() else "no such file"))
    return found


def trace_format(name: str) -> TraceFormat:
    """A format by name.

    Raises:
        UnknownName: lists the names.
    """
    if name not in FORMATS:
        raise UnknownName("format of traces", name, FORMATS)
    return FORMATS[name]


def import_trace(
    path: str | Path,
    format: str,
    *,
    episode: str | None = None,
    layout: Mapping[str, ChannelLayout] | None = None,
) -> Trace:
    """Read one trace of another format and look at its clocks.

    Args:
        path: file or folder.
        format: a name of `FORMATS`.
        episode: which one, where there are several.
        layout: names and meanings of channels that the format cannot say.

    Raises:
        UnknownName: no such format or episode.
        BadInput: damaged, several episodes and none named, or no channel whose clocks can be believed, or not that of
            one that the layout names; see the format's reader.
    """
    path, chosen = Path(path), trace_format(format)
    names = chosen.episodes(path)
    if not names:
        raise BadInput(f"{path} holds no episode")
    if episode is None and len(names) > 1:
        raise BadInput(f"{path} holds {len(names)} episodes; name one of {', '.join(names[:10])}")
    name = names[0] if episode is None else episode
    if name not in names:
        raise UnknownName("episode", name, names)
    with as_described(f"a recording of the format {format!r}", path):
        trace = chosen.read(path, name, layout or {})
    notes: list[str] = []

    def checked(channel: str, notes: list[str]) -> Made:
        notes += check_clocks({channel: trace[channel]})
        return trace[channel], ()

    made = {channel: partial(checked, channel) for channel in trace.channels}
    channels, _ = usable(made, layout or {}, notes, f"{path}, {name}")
    known = trace.info.get("notes", [])
    fresh = [note for note in notes if note not in known]
    return trace if not fresh else Trace(
        channels=channels, panel_hash=trace.panel_hash, info=trace.info | {"notes": [*known, *fresh]}
    )  # fmt: skip


def export_traces(traces: Sequence[Trace], format: str, out: str | Path, *, fps: float | None = None) -> list[str]:
    """Write traces in another format; returns what it cannot hold, in sentences.

    Args:
        traces: several for LeRobot and robomimic, one for the others.
        format: a name of `FORMATS`.
        out: file or folder that does not exist.
        fps: rows a second, for formats with one rate; see `dexprior.data.traces.grid`.

    Raises:
        UnknownName: no such format.
        BadInput: `out` exists, or traces that the format cannot hold.
    """
    if not traces:
        raise BadInput("no trace to export")
    return trace_format(format).write(traces, Path(out), fps)
