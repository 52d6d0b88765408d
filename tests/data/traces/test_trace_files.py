"""MCAP files of traces: what goes in comes out, a kill loses little, and what is wrong is named."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from mcap.opcode import Opcode
from mcap.reader import make_reader
from mcap.writer import CompressionType, Writer

from dexprior.data.traces import ChannelSpec, TraceWriter, read_trace, write_trace
from dexprior.data.traces.layout import METADATA, SAMPLE_SCHEMA, SCHEMA
from dexprior.errors import ArtifactError, BadInput, UnknownName
from dexprior.types import Channel, Trace

ROOT = Path(__file__).parents[3]
FORCE = ChannelSpec(width=3, unit="N", frame="sensor", kind="measured")


def test_a_trace_comes_back_to_the_last_bit(trace, same, tmp_path):
    same(trace, read_trace(write_trace(trace, tmp_path / "a.mcap")))


@pytest.mark.parametrize("value", [1e-320, 1e300, 0.1 + 0.2, -0.0, 1 / 3, 5e-324])
def test_every_double_survives(value, tmp_path):
    t = np.array([value, np.nextafter(value, np.inf)])
    one = Channel(t=t, t_host=np.abs(t), value=t[:, None], unit="1", frame="-", kind="measured")
    back = read_trace(write_trace(Trace(channels={"x": one}, panel_hash=""), tmp_path / "a.mcap"), check=False)["x"]
    for part in ("t", "t_host", "value"):
        assert getattr(back, part).tobytes() == getattr(one, part).tobytes()


def test_the_same_trace_is_the_same_file(trace, tmp_path):
    a, b = (write_trace(trace, tmp_path / name).read_bytes() for name in ("a.mcap", "b.mcap"))
    assert a == b


def test_info_becomes_plain_and_what_is_not_is_refused(trace, tmp_path):
    info = {"n": np.int64(3), "a": np.arange(2), "pair": (1, 2)}
    back = read_trace(write_trace(dataclasses.replace(trace, info=info), tmp_path / "a.mcap"))
    assert back.info == {"n": 3, "a": [0, 1], "pair": [1, 2]}
    with pytest.raises(BadInput, match="no plain data"):
        write_trace(dataclasses.replace(trace, info={"x": object()}), tmp_path / "b.mcap")
    with pytest.raises(BadInput, match=r"event 0 is \[1, 'contact'\]"):
        write_trace(dataclasses.replace(trace, info={"events": [[1, "contact"]]}), tmp_path / "b.mcap")
    assert not (tmp_path / "b.mcap").exists()


def test_a_plain_mcap_reader_sees_samples_events_units_and_clocks(trace, tmp_path):
    """Nothing of ours is used to read."""
    path = write_trace(trace, tmp_path / "a.mcap")
    with path.open("rb") as stream:
        reader = make_reader(stream, validate_crcs=True)
        summary = reader.get_summary()
        assert summary is not None
        topics = {c.topic: c for c in summary.channels.values()}
        assert topics["/wrench"].metadata == {"unit": "N, N m", "frame": "sensor", "kind": "measured"}
        assert {c.message_encoding for c in topics.values()} == {"json"}
        assert {s.encoding for s in summary.schemas.values()} == {"jsonschema"}
        for schema in summary.schemas.values():
            assert json.loads(schema.data)["type"] == "object"
        rows = [(m.log_time, m.publish_time, json.loads(m.data)) for _, _, m in reader.iter_messages(["/touch"])]
        events = [json.loads(m.data)["name"] for _, _, m in reader.iter_messages(["/events"])]
        order = [m.log_time for _, _, m in reader.iter_messages()]
        assert next(iter(reader.iter_metadata())).name == METADATA
    np.testing.assert_array_equal([row["value"] for _, _, row in rows], trace["touch"].value)
    assert rows[3][0] == round(trace["touch"].t_host[3] * 1e9)
    assert rows[3][1] == round(trace["touch"].t[3] * 1e9)
    assert events == ["contact", 'slip, "first" of 2']
    assert order == sorted(order)


def test_a_writer_appends_samples_blocks_and_events(tmp_path):
    path = tmp_path / "new" / "a.mcap"
    touch = dataclasses.replace(FORCE, width=1, frame="pads")
    with TraceWriter(path, {"force": FORCE, "touch": touch, "never": FORCE}, panel_hash="p", info={"a": 1}) as writer:
        writer.append("force", 0.0, 5.0, [1.0, 2.0, 3.0])
        writer.event(-0.5, 4.5, "start")
        writer.append("touch", [0.1, 0.2], [5.1, 5.1], [[7.0], [8.0]])
        writer.append("force", [], [], np.empty((0, 3)))
        writer.append("force", 0.3, 5.3, [4.0, 5.0, 6.0])
        writer.close({"a": 2, "success": False})
    back = read_trace(path)
    np.testing.assert_array_equal(back["force"].value, [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(back["touch"].t_host, [5.1, 5.1])
    assert back["never"].value.shape == (0, 3)
    assert back.info == {"a": 2, "success": False, "events": [[-0.5, 4.5, "start"]]}
    assert back.panel_hash == "p"


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (("force", 1.0, 1.0, [1.0, 2.0]), r"'force'.*value \(1, 2\) of a channel of 3 numbers"),
        (("force", [1.0, 2.0], [1.0], np.zeros((2, 3))), r"t \(2,\), t_host \(1,\)"),
        (("force", 1.0, 1.0, [1.0, np.nan, 2.0]), "not finite at t = 1"),
        (("force", np.inf, 1.0, [1.0, 2.0, 3.0]), "not finite"),
        (("force", 0.5, 1.0, [1.0, 2.0, 3.0]), r"increase strictly; 0\.5.* after 0\.5"),
        (("force", [1.0, 1.0], [1.0, 1.0], np.zeros((2, 3))), "increase strictly"),
        (("force", 1.0, 0.2, [1.0, 2.0, 3.0]), r"t_host goes back: 0\.2.* after 0\.5"),
        (("wrench", 1.0, 1.0, [1.0]), "unknown channel 'wrench'.*Known: force"),
    ],
)
def test_a_writer_refuses_what_a_reader_would(sample, message, tmp_path):
    with TraceWriter(tmp_path / "a.mcap", {"force": FORCE}) as writer:
        writer.append("force", 0.5, 0.5, [0.0, 0.0, 0.0])
        with pytest.raises((BadInput, UnknownName), match=message):
            writer.append(*sample)
    assert len(read_trace(tmp_path / "a.mcap")["force"].t) == 1


def test_a_writer_refuses_bad_declarations_and_leaves_no_file(tmp_path):
    for channels, message in (({}, "at least one"), ({"events": FORCE}, "'events'"), ({"/x": FORCE}, "'/x'")):
        with pytest.raises(BadInput, match=message):
            TraceWriter(tmp_path / "a.mcap", channels)
    assert not (tmp_path / "a.mcap").exists()
    (tmp_path / "b.mcap").write_bytes(b"")
    with pytest.raises(BadInput, match="never overwritten"):
        TraceWriter(tmp_path / "b.mcap", {"force": FORCE})
    with pytest.raises(BadInput, match="width = 0"):
        ChannelSpec(width=0, unit="N", frame="-", kind="measured")
    with pytest.raises(BadInput, match="choices: commanded"):
        ChannelSpec(width=1, unit="N", frame="-", kind="guessed")  # type: ignore[arg-type]
    with TraceWriter(tmp_path / "c.mcap", {"force": FORCE}) as writer, pytest.raises(BadInput, match="`event`"):
        writer.close({"events": []})


WRITE_FOR_EVER = """
import sys, time
from dexprior.data.traces import ChannelSpec, TraceWriter
spec = ChannelSpec(width=2, unit="N", frame="-", kind="measured")
with TraceWriter(sys.argv[1], {"fast": spec, "slow": spec}, flush_s=0.05) as writer:
    began, k = time.monotonic(), 0
    while True:
        t = time.monotonic() - began
        writer.append("fast", t, t, [float(k), -float(k)])
        if k % 10 == 0:
            writer.append("slow", t, t, [float(k), 0.0])
        k += 1
        if k == 300:
            print("going", flush=True)
        time.sleep(0.001)
"""


def test_a_killed_writer_leaves_all_but_the_last_moment(tmp_path):
    """SIGKILL in mid-write: whole samples in order from the first on, and a note that says what may be missing."""
    path = tmp_path / "a.mcap"
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE_FOR_EVER, str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "going\n"
    time.sleep(0.2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    back = read_trace(path)
    fast, slow = back["fast"], back["slow"]
    assert len(fast.t) >= 300
    np.testing.assert_array_equal(fast.value[:, 0], np.arange(len(fast.t)))
    np.testing.assert_array_equal(slow.value[:, 0], 10 * np.arange(len(slow.t)))
    note = back.info["notes"][0]  # a gap may follow, where the machine paused
    assert "the file breaks off" in note
    assert "the last 0.05 s" in note
    assert f"{len(fast.t)} of fast, {len(slow.t)} of slow" in note


@pytest.fixture
def long(trace, tmp_path):
    """A file of several chunks, without an end that was synced: (path, its bytes)."""
    path = tmp_path / "long.mcap"
    with TraceWriter(path, {"force": FORCE}, flush_s=0.0) as writer:
        for k in range(8):
            writer.append("force", k + 0.0, k + 0.0, [k, 0.0, 0.0])
    return path, path.read_bytes()


def attempt(path: Path) -> tuple[Trace | None, str]:
    try:
        return read_trace(path), ""
    except ArtifactError as error:
        return None, str(error)


def test_a_file_cut_anywhere_is_read_as_far_as_it_is_whole(long):
    path, data = long
    counts, whole = [], data.rindex(struct.pack("<BQ", Opcode.DATA_END, 4)) + 13
    for end in range(len(data) - 1, 8, -7):
        path.write_bytes(data[:end])
        back, error = attempt(path)
        if back is None:
            assert "holds no 'dexprior.trace' record" in error or "before its first sample" in error
            counts.append(0)
            continue
        n = len(back["force"].t)
        np.testing.assert_array_equal(back["force"].value[:, 0], np.arange(n))
        assert ("the file breaks off" in back.info.get("notes", [""])[0]) == (end < whole)
        counts.append(n)
    assert counts == sorted(counts, reverse=True)
    assert set(range(1, 9)) <= set(counts)


def test_a_file_that_ends_in_zeros_is_cut_there(long):
    path, data = long
    chunks = [at.start() for at in re.finditer(b"zstd", data)]
    for end in (chunks[4] + 30, chunks[5] - 9 - 36):  # within the fifth chunk, and somewhere after it
        path.write_bytes(data[:end] + bytes(500))
        back = read_trace(path)
        assert "breaks off" in back.info["notes"][0]
        assert 4 <= len(back["force"].t) <= 5
    path.write_bytes(data[: chunks[4] + 30] + bytes(500) + b"x")
    with pytest.raises(ArtifactError, match="damaged"):
        read_trace(path)


def test_damage_in_the_middle_is_refused(long):
    """Every byte up to the index is covered by a checksum."""
    path, data = long
    rng = np.random.default_rng(0)
    end = data.rindex(struct.pack("<BQ", Opcode.DATA_END, 4))
    for at in rng.integers(8, end, 100):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        back, error = attempt(path)
        assert back is None, at
        assert str(path) in error
    at = end + 100
    path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
    assert len(read_trace(path)["force"].t) == 8  # an index, which reading in order does not need


def foreign(path: Path, rows, *, metadata=None, channel=None, schema=SAMPLE_SCHEMA[0]) -> Path:
    """An MCAP file by the plain writer that claims to be ours."""
    about = {
        "schema": SCHEMA, "panel_hash": "", "info": "{}", "flush_s": "0.5",
        "channels": json.dumps({"force": {"width": 2, "unit": "N", "frame": "-", "kind": "measured"}}),
    } | (metadata or {})  # fmt: skip
    with path.open("wb") as stream:
        writer = Writer(stream, compression=CompressionType.NONE)
        writer.start()
        writer.add_metadata(METADATA, {k: v for k, v in about.items() if v is not None})
        made = writer.register_schema(schema, "jsonschema", b"{}")
        said = {"unit": "N", "frame": "-", "kind": "measured"} | (channel or {})
        number = writer.register_channel("/force", "json", made, said)
        for row in rows:
            writer.add_message(number, 0, row if isinstance(row, bytes) else json.dumps(row).encode(), 0)
        writer.finish()
    return path


GOOD = [{"t": k, "t_host": k, "value": [k, 0]} for k in range(3)]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([*GOOD, {"t": 3, "t_host": 3, "value": [1]}], {}, r"'force': sample 3 holds \[1\], expected 2 numbers"),
        ([*GOOD, {"t": 3, "t_host": 3, "value": 1}], {}, "expected 2 numbers"),
        ([*GOOD, {"t": 3, "t_host": 3, "value": [1, None]}], {}, "'force'.*found None"),
        ([*GOOD, b'{"t": 3, "t_host": 3, "value": [1, NaN]}'], {}, "'force'.*not finite"),
        ([*GOOD, {"t": 3, "t_host": 3, "value": ["a", "b"]}], {}, "'force'"),
        ([*GOOD, {"t": 3, "value": [1, 1]}], {}, "no sample of t, t_host and value: KeyError.*t_host"),
        ([*GOOD, b"{"], {}, "no sample"),
        ([*GOOD, GOOD[0]], {}, "'force'.*must increase strictly"),
        ([*GOOD, {"t": 3, "t_host": 1, "value": [1, 1]}], {}, "host's clock goes back from 2.* at sample 3"),
        ([*GOOD, {"t": 3, "t_host": 9, "value": [1, 1]}], {}, r"jump against each other by \+6\.000 s at sample 3"),
        (GOOD, {"channel": {"unit": "lbf"}}, "declared with unit 'N'.*'lbf'"),
        (GOOD, {"channel": {"frame": "tcp"}}, "frame '-'.*'tcp'"),
        (GOOD, {"metadata": {"schema": "dexprior.mcap/9"}}, "'dexprior.mcap/9', this version reads 'dexprior.mcap/1'"),
        (GOOD, {"metadata": {"schema": "other/1"}}, "another kind of file"),
        (GOOD, {"metadata": {"channels": "{"}}, "record is damaged"),
        (GOOD, {"metadata": {"channels": '{"force": {"width": 2}}'}}, "channels.force.unit"),
        (GOOD, {"metadata": {"info": "[]"}}, "info holds"),
        (GOOD, {"metadata": {"flush_s": None}}, "flush_s"),
    ],
)
def test_what_is_wrong_inside_is_named(rows, options, message, tmp_path):
    path = foreign(tmp_path / "a.mcap", rows, **options)
    with pytest.raises((BadInput, ArtifactError), match=f"(?s)a.mcap.*{message}"):
        read_trace(path)


def test_clocks_that_are_refused_can_still_be_looked_at(tmp_path):
    path = foreign(tmp_path / "a.mcap", [*GOOD, {"t": 3, "t_host": 9, "value": [1, 1]}])
    assert len(read_trace(path, check=False)["force"].t) == 4


def test_a_declared_channel_of_which_nothing_came_is_empty(tmp_path):
    channels = {n: {"width": 2, "unit": "N", "frame": "-", "kind": "measured"} for n in ("force", "other")}
    back = read_trace(foreign(tmp_path / "a.mcap", GOOD, metadata={"channels": json.dumps(channels)}))
    assert back["other"].value.shape == (0, 2)
    with pytest.raises(UnknownName, match="Known: force, other"):
        back["pose"]


def test_files_that_are_no_traces_are_named(tmp_path):
    path = tmp_path / "a.mcap"
    with pytest.raises(ArtifactError, match="no such file"):
        read_trace(path)
    path.write_bytes(b"")
    with pytest.raises(ArtifactError, match="no MCAP file"):
        read_trace(path)
    path.write_bytes(b"PK\x03\x04" + bytes(50))
    with pytest.raises(ArtifactError, match="no MCAP file"):
        read_trace(path)
    with path.open("wb") as stream:
        writer = Writer(stream)
        writer.start()
        schema = writer.register_schema("x", "jsonschema", b"{}")
        writer.add_message(writer.register_channel("/camera", "json", schema), 0, b"{}", 0)
        writer.finish()
    with pytest.raises(ArtifactError, match=r"another program \(topics: /camera\)"):
        read_trace(path)


def test_a_length_that_is_a_lie_takes_no_memory(long):
    path, data = long
    at = data.index(b"zstd") - 4 - 28 - 9  # the chunk's opcode
    assert data[at] == 6
    path.write_bytes(data[: at + 1] + struct.pack("<Q", 2**62) + data[at + 9 :])
    with pytest.raises(ArtifactError, match="longer than the file"):
        read_trace(path)


def test_loading_the_package_loads_neither_torch_nor_what_is_optional():
    heavy = ("torch", "mujoco", "rosbags", "h5py", "pyarrow")
    code = f"import sys, dexprior.data.traces; print(*[m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_file_cut_at_every_hundredth_reads_or_says_why(trace, tmp_path):
    path = write_trace(trace, tmp_path / "a.mcap")
    data = path.read_bytes()
    for part in range(100):
        path.write_bytes(data[: len(data) * part // 100])
        back, error = attempt(path)
        assert str(path) in error if back is None else back.panel_hash == "abc", part


def test_names_of_any_script_and_events_of_several_lines_survive(same, tmp_path):
    t = np.arange(3) * 0.1
    one = Channel(t=t, t_host=t, value=np.ones((3, 1)), unit="Ω·m", frame="тест", kind="measured")
    events = [[0.1, 0.1, 'größe 力\n"x",\r\n y'], [0.1, 0.1, ""]]
    odd = Trace(channels={"kraft_größe": one, "力": one}, panel_hash="ü", info={"events": events})
    same(odd, read_trace(write_trace(odd, tmp_path / "größe.mcap")))


def test_recordings_are_never_overwritten_nor_written_after_their_end(trace, tmp_path):
    """A second writer on one path, of either sort, is refused; the first one goes on."""
    path = tmp_path / "a.mcap"
    with TraceWriter(path, {"force": FORCE}) as writer:
        writer.append("force", 0.0, 0.0, [1.0, 2.0, 3.0])
        with pytest.raises(BadInput, match="never overwritten"):
            TraceWriter(path, {"force": FORCE})
        with pytest.raises(BadInput, match="never overwritten"):
            write_trace(trace, path)
        writer.append("force", 1.0, 1.0, [1.0, 2.0, 3.0])
    for late in (
        lambda: writer.append("force", 2.0, 2.0, [1.0, 2.0, 3.0]),
        lambda: writer.event(2.0, 2.0, "x"),
        writer.flush,
    ):
        with pytest.raises(BadInput, match="is closed"):
            late()
    assert len(read_trace(path)["force"].t) == 2
    with pytest.raises(BadInput, match="folder is a file"):
        write_trace(trace, path / "b.mcap")
    with pytest.raises(BadInput, match="never overwritten"):
        write_trace(trace, tmp_path)
    with pytest.raises(ArtifactError, match="a folder, expected one file"):
        read_trace(tmp_path)


def test_a_writer_names_settings_and_samples_that_are_none(tmp_path):
    for flush_s in (-1.0, np.nan):
        with pytest.raises(BadInput, match="flush_s"):
            TraceWriter(tmp_path / "a.mcap", {"force": FORCE}, flush_s=flush_s)
    with TraceWriter(tmp_path / "a.mcap", {"force": FORCE}) as writer:
        for value in (["a", "b", "c"], [[1.0, 2.0, 3.0], [1.0]]):
            with pytest.raises(BadInput, match="'force': a sample that is no numbers"):
                writer.append("force", 0.0, 0.0, value)


def test_a_topic_twice_or_of_another_schema_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"'/force' has the schema 'x', expected 'dexprior.sample'"):
        read_trace(foreign(tmp_path / "a.mcap", GOOD, schema="x"))
    path = tmp_path / "b.mcap"
    channels = json.dumps({"force": {"width": 2, "unit": "N", "frame": "-", "kind": "measured"}})
    about = {"schema": SCHEMA, "panel_hash": "", "info": "{}", "flush_s": "0.5", "channels": channels}
    with path.open("wb") as stream:
        writer = Writer(stream)
        writer.start()
        writer.add_metadata(METADATA, about)
        made = writer.register_schema(SAMPLE_SCHEMA[0], "jsonschema", b"{}")
        for _ in range(2):
            number = writer.register_channel("/force", "json", made, {"unit": "N", "frame": "-", "kind": "measured"})
            writer.add_message(number, 0, json.dumps(GOOD[0]).encode(), 0)
        writer.finish()
    with pytest.raises(BadInput, match="'/force' is there 2 times"):
        read_trace(path)


def test_more_samples_than_are_parsed_at_a_time_stay_in_order(same, tmp_path):
    rng, n = np.random.default_rng(0), 25_000
    t = np.arange(n) * 0.001
    slow = Channel(t=t[::10], t_host=t[::10], value=rng.normal(size=(n // 10, 2)), unit="N", frame="-", kind="measured")
    fast = Channel(t=t, t_host=t, value=rng.normal(size=(n, 1)), unit="m", frame="-", kind="measured")
    both = Trace(channels={"fast": fast, "slow": slow}, panel_hash="")
    same(both, read_trace(write_trace(both, tmp_path / "a.mcap")))
    about = json.dumps({"force": {"width": 2, "unit": "N", "frame": "-", "kind": "measured"}})
    rows = [{"t": k, "t_host": k, "value": [k, 0]} for k in range(10_003)] + [{"t": 1e6, "t_host": 1e6, "value": [1]}]
    with pytest.raises(BadInput, match="sample 10003 holds"):
        read_trace(foreign(tmp_path / "b.mcap", rows, metadata={"channels": about}))
