"""A trace written and read: ours against the plain MCAP reader and writer, and against CSV.

One channel of 100,000 samples of 6 numbers. The peer in MCAP does the least that gives the same: one JSON message a
sample into a file with an index, and every message decoded into arrays; it checks nothing. CSV is `csv.writer` with
the shortest digits that read back as the same double, and `numpy.loadtxt`. All three must return the same bits. Each
row is the median of interleaved repeats. Prints JSON lines {name, value, unit, peer, peer_value, ratio}.

    python benchmarks/traces.py [SAMPLES] [REPEATS]
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from mcap.reader import make_reader
from mcap.writer import Writer

from dexprior.data.traces import ChannelSpec, TraceWriter, read_trace, write_trace
from dexprior.types import Channel, Trace

WIDTH = 6


def ours_out(trace: Trace, path: Path) -> None:
    """The whole trace at once."""
    write_trace(trace, path)


def appended(trace: Trace, path: Path) -> None:
    """Sample by sample, as a loop does; the file is synced at the end."""
    channel = trace["wrench"]
    with TraceWriter(path, {"wrench": ChannelSpec.of(channel)}) as writer:
        for t, t_host, value in zip(channel.t, channel.t_host, channel.value):
            writer.append("wrench", t, t_host, value)


def ours_in(path: Path) -> np.ndarray:
    """Rows t, t_host, values."""
    channel = read_trace(path)["wrench"]
    return np.column_stack([channel.t, channel.t_host, channel.value])


def mcap_out(trace: Trace, path: Path) -> None:
    """The plain writer."""
    channel = trace["wrench"]
    with path.open("wb") as stream:
        writer = Writer(stream)
        writer.start()
        schema = writer.register_schema("sample", "jsonschema", b'{"type": "object"}')
        topic = writer.register_channel("/wrench", "json", schema)
        for t, t_host, value in zip(channel.t.tolist(), channel.t_host.tolist(), channel.value.tolist()):
            data = json.dumps({"t": t, "t_host": t_host, "value": value}).encode()
            writer.add_message(topic, int(t_host * 1e9), data, int(t * 1e9))
        writer.finish()


def mcap_in(path: Path) -> np.ndarray:
    """The plain reader."""
    with path.open("rb") as stream:
        messages = [json.loads(m.data) for _, _, m in make_reader(stream).iter_messages()]
    return np.array([[m["t"], m["t_host"], *m["value"]] for m in messages])


def csv_out(trace: Trace, path: Path) -> None:
    """The standard library's writer."""
    channel = trace["wrench"]
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["t", "t_host", *(f"v{k}" for k in range(WIDTH))])
        writer.writerows(np.column_stack([channel.t, channel.t_host, channel.value]).tolist())


def csv_in(path: Path) -> np.ndarray:
    """NumPy's reader."""
    return np.loadtxt(path, delimiter=",", skiprows=1)


def main(samples: int = 100_000, repeats: int = 5) -> None:
    """Measure and print."""
    rng = np.random.default_rng(0)
    t = np.arange(samples) * 0.001
    t_host = np.maximum.accumulate(1000 + t + rng.uniform(0.0, 2e-4, samples))
    value = rng.normal(size=(samples, WIDTH))
    channel = Channel(t=t, t_host=t_host, value=value, unit="N, N m", frame="sensor", kind="measured")
    trace = Trace(channels={"wrench": channel}, panel_hash="")
    rows = np.column_stack([t, t_host, value])
    writers: dict[str, tuple[Callable[[Trace, Path], None], str]] = {
        "write_trace": (ours_out, "ours.mcap"),
        "TraceWriter": (appended, "appended.mcap"),
        "mcap": (mcap_out, "plain.mcap"),
        "csv": (csv_out, "rows.csv"),
    }
    readers: dict[str, tuple[Callable[[Path], np.ndarray], str]] = {
        "read_trace": (ours_in, "ours.mcap"),
        "mcap": (mcap_in, "plain.mcap"),
        "numpy": (csv_in, "rows.csv"),
    }
    took: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            for name, (write, file) in writers.items():
                (Path(folder) / file).unlink(missing_ok=True)
                began = time.perf_counter()
                write(trace, Path(folder) / file)
                took.setdefault(f"write {name}", []).append(time.perf_counter() - began)
            for name, (read, file) in readers.items():
                began = time.perf_counter()
                back = read(Path(folder) / file)
                took.setdefault(f"read {name}", []).append(time.perf_counter() - began)
                assert back.tobytes() == rows.tobytes(), name
        size = {file: (Path(folder) / file).stat().st_size for _, file in writers.values()}
    rate = {name: samples / float(np.median(each)) for name, each in took.items()}
    for ours, peers in (("write write_trace", ("mcap", "csv")), ("write TraceWriter", ("mcap", "csv"))):
        for peer in peers:
            _print(ours.split()[1], rate[ours], "samples/s", f"{peer} writer", rate[f"write {peer}"])
    _print("read_trace", rate["read read_trace"], "samples/s", "mcap reader", rate["read mcap"])
    _print("read_trace", rate["read read_trace"], "samples/s", "numpy.loadtxt", rate["read numpy"])
    _print("size", size["ours.mcap"] / samples, "bytes/sample", "plain mcap", size["plain.mcap"] / samples)
    _print("size", size["ours.mcap"] / samples, "bytes/sample", "csv", size["rows.csv"] / samples)


def _print(name: str, value: float, unit: str, peer: str, peer_value: float) -> None:
    row = {"name": name, "value": value, "unit": unit, "peer": peer, "peer_value": peer_value}
    print(json.dumps(row | {"ratio": value / peer_value}), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
