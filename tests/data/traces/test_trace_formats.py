"""Formats of others: out and back, and what foreign recordings give."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil

import h5py
import numpy as np
import pytest

from dexprior.data.lerobot import LeRobotFolder
from dexprior.data.traces import (
    ChannelLayout,
    export_traces,
    import_trace,
    read_channel_layout,
    rows_at,
    summarize,
    trace_paths,
    write_trace,
)
from dexprior.errors import BadInput, ConfigError, DexpriorError, UnknownName
from dexprior.types import Channel, Trace


@pytest.mark.parametrize(("format", "out"), [("csv", "a"), ("lerobot", "a"), ("robomimic", "a.hdf5")])
def test_a_trace_goes_out_and_comes_back_exactly(format, out, trace, same, tmp_path):
    export_traces([trace], format, tmp_path / out)
    same(trace, import_trace(tmp_path / out, format))
    with pytest.raises(BadInput, match="exists"):
        export_traces([trace], format, tmp_path / out)


@pytest.mark.parametrize("format", ["lerobot", "robomimic"])
def test_several_traces_are_episodes_of_one_set(format, trace, same, tmp_path):
    other = dataclasses.replace(trace, panel_hash="other")
    export_traces([trace, other], format, tmp_path / "set.hdf5")
    with pytest.raises(BadInput, match="2 episodes; name one of"):
        import_trace(tmp_path / "set.hdf5", format)
    with pytest.raises(UnknownName, match="'nope'"):
        import_trace(tmp_path / "set.hdf5", format, episode="nope")
    names = {"lerobot": "episode-000001", "robomimic": "set.hdf5/demo_1"}
    same(other, import_trace(tmp_path / "set.hdf5", format, episode=names[format]))


@pytest.mark.parametrize("format", ["csv", "rosbag"])
def test_formats_of_one_trace_say_so(format, trace, tmp_path):
    with pytest.raises(BadInput, match="holds one trace, got 2"):
        export_traces([trace, trace], format, tmp_path / "a")
    with pytest.raises(BadInput, match="own rate"):
        export_traces([trace], format, tmp_path / "a", fps=10.0)


def test_unknown_formats_and_nothing_to_export_are_named(trace, tmp_path):
    with pytest.raises(UnknownName, match=r"'xls'.*Known: csv, lerobot, robomimic, rosbag"):
        import_trace(tmp_path, "xls")
    with pytest.raises(BadInput, match="no trace"):
        export_traces([], "csv", tmp_path / "a")
    for format in ("csv", "lerobot", "robomimic", "rosbag"):
        with pytest.raises(BadInput, match="missing"):
            import_trace(tmp_path / "missing", format)


# --- rows of one rate ---


def test_a_row_holds_what_the_host_last_had(trace):
    fps, t, rows = rows_at(trace)
    assert fps == 100.0  # of the commanded channel
    assert t[0] == pytest.approx(101.003)  # from when all are known
    for name, channel in trace.channels.items():
        for k in (0, 17, len(t) - 1):
            had = channel.value[channel.t_host <= t[k] + 1e-9][-1]
            np.testing.assert_array_equal(rows[name][k], had)


def test_rows_need_a_rate_and_an_overlap(trace):
    with pytest.raises(BadInput, match="fps = -1"):
        rows_at(trace, -1.0)
    late = dataclasses.replace(trace["touch"], t_host=trace["touch"].t_host + 500)
    with pytest.raises(BadInput, match=r"do not overlap.*touch 601"):
        rows_at(Trace(channels=trace.channels | {"touch": late}, panel_hash=""))


# --- CSV ---


def test_a_motion_is_one_table_that_the_arm_report_reads(trace, tmp_path):
    sent = trace["command"]
    seen = dataclasses.replace(sent, t=sent.t + 0.001, t_host=sent.t + 0.001, value=sent.value + 0.1, kind="measured")
    motion = Trace(channels={"command": sent, "measured": seen}, panel_hash="p", info={"joints": ["a", "b"]})
    lost = export_traces([motion], "csv", tmp_path / "m.csv")
    assert "t_host" in lost[0]
    head = (tmp_path / "m.csv").read_text().splitlines()[0]
    assert head == "t,a_command,b_command,a_measured,b_measured,t_measured"
    back = import_trace(tmp_path / "m.csv", "csv")
    assert back.info == {"joints": ["a", "b"]}
    for name in ("command", "measured"):
        np.testing.assert_array_equal(back[name].value, motion[name].value)
        np.testing.assert_array_equal(back[name].t, motion[name].t)
        assert back[name].unit == "rad"
    with pytest.raises(BadInput, match="command and measured, this trace has tool_pose"):
        export_traces([trace], "csv", tmp_path / "n.csv")
    short = dataclasses.replace(seen, t=seen.t[:-1], t_host=seen.t_host[:-1], value=seen.value[:-1])
    with pytest.raises(BadInput, match=r"command has 100 samples, measured 99"):
        export_traces([Trace(channels={"command": sent, "measured": short}, panel_hash="")], "csv", tmp_path / "n.csv")


def test_a_table_of_anyone_becomes_channels(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("t,t_host,force.x,force.y,grip\n0,5,1,2,0.1\n1,6,,,0.2\n2,7,3,4,0.3\n3,8,9,9")
    layout = {"opening": ChannelLayout(source="grip"), "force": ChannelLayout(frame="tcp")}
    trace = import_trace(path, "csv", layout=layout)
    np.testing.assert_array_equal(trace["force"].value, [[1, 2], [3, 4]])  # no sample where the cells are empty
    np.testing.assert_array_equal(trace["force"].t_host, [5, 7])
    assert (trace["force"].unit, trace["force"].frame) == ("N", "tcp")
    assert (trace["opening"].unit, len(trace["opening"].t)) == ("m", 3)
    assert trace.info["names"] == {"force": ["x", "y"]}
    assert "last line is cut ('3,8,9,9')" in trace.info["notes"][0]


def test_one_bad_part_of_a_table_is_left_out_and_said(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("time_ms,force.x,force.y,touch\n0,1,2,nan\n10,nan,3,inf\n20,5,6,inf\n15,7,8,nan\n30,9,9,nan\n")
    trace = import_trace(path, "csv")
    np.testing.assert_array_equal(trace["force"].t, [0.0, 0.02, 0.03])
    np.testing.assert_array_equal(trace["force"].value, [[1, 2], [5, 6], [9, 9]])
    assert set(trace.channels) == {"force"}
    said = " ".join(trace.info["notes"])
    assert "'force': 1 sample(s) of 5 are not finite" in said
    assert "'force': 1 sample(s) of 4 whose stamp is not after the one before" in said
    assert "'touch': values that are not finite in every sample: left out" in said
    with pytest.raises(BadInput, match="'touch'"):  # the layout wants it
        import_trace(path, "csv", layout={"touch": ChannelLayout(unit="N")})


def test_a_motion_goes_out_paired_by_name(tmp_path):
    t = np.arange(4) * 0.1
    sent = Channel(t=t, t_host=t, value=np.array([[1.0, 2.0, 9.0]] * 4), unit="rad", frame="joint", kind="commanded")
    seen = dataclasses.replace(sent, value=sent.value[:, :2], kind="measured")
    names = {"command": ["a", "b", "c"], "measured": ["b", "a"]}
    trace = Trace(channels={"command": sent, "measured": seen}, panel_hash="", info={"names": names})
    lost = export_traces([trace], "csv", tmp_path / "m.csv")
    assert any("commanded, but not measured, and left out: c" in said for said in lost)
    head, row = (tmp_path / "m.csv").read_text().splitlines()[:2]
    assert dict(zip(head.split(","), row.split(","))) == {
        "t": "0.0", "a_command": "1.0", "b_command": "2.0", "a_measured": "2.0", "b_measured": "1.0",
        "t_measured": "0.0",
    }  # fmt: skip


def test_a_layout_gives_names_units_and_the_order_of_quaternions(tmp_path):
    """What is in degrees becomes radians; names go with a channel that gets another name."""
    path = tmp_path / "a.csv"
    path.write_text("timestamp,action.a,action.b,pose.x,pose.y,pose.z,pose.w\n0,180,90,.1,.2,.3,.9\n")
    degrees = ChannelLayout(source="action", unit="deg", frame="joint", kind="commanded")
    trace = import_trace(path, "csv", layout={"goal": degrees, "pose": ChannelLayout(unit="1", quaternion="xyzw")})
    np.testing.assert_allclose(trace["goal"].value, [[np.pi, np.pi / 2]])
    assert (trace["goal"].unit, trace.names("goal")) == ("rad", ("a", "b"))
    np.testing.assert_array_equal(trace["pose"].value, [[0.9, 0.1, 0.2, 0.3]])
    named = {"goal": dataclasses.replace(degrees, names=("p", "q")), "pose": ChannelLayout(unit="1")}
    assert import_trace(path, "csv", layout=named).names("goal") == ("p", "q")
    with pytest.raises(BadInput, match="'goal' holds 2 numbers; the layout gives 1 names"):
        import_trace(path, "csv", layout=named | {"goal": dataclasses.replace(degrees, names=("p",))})
    with pytest.raises(BadInput, match="'goal' holds 2 numbers: no quaternion"):
        import_trace(path, "csv", layout=named | {"goal": dataclasses.replace(degrees, quaternion="xyzw")})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no rows"),
        ("t,force\n", "holds no rows, only t,force"),
        ("when,force\n0,1\n", "no column 't'"),
        ("t,t_host\n0,1\n", "no column CHANNEL"),
        ("t,force,force\n0,1,2\n", "a column twice"),
        ("t,force\n0,1\n1\n2,3\n", "row 2 has 1 cells for 2 columns: '1'"),
        ("t,force\n0,1\n1,one\n", "no number.*one"),
        ("t,force.x,force.y\n0,nan,2\n1,nan,3\n2,1,inf\n", "'force'.*not finite in every sample"),
        ("t,t_host,force\n0,5,1\n1,4,2\n", "host's clock goes back"),
        ("t,bend\n0,1\n1,2\n", "'bend': nothing says its unit"),
        ("t,a_command,b_measured\n0,1,1\n", "no joint has both JOINT_command and JOINT_measured"),
    ],
)
def test_tables_that_are_refused(text, message, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=f"(?s)a.csv.*{message}|{message}"):
        import_trace(path, "csv")


def test_a_damaged_folder_of_tables_is_named(trace, tmp_path):
    export_traces([trace], "csv", tmp_path / "a")
    (tmp_path / "a" / "touch.csv").write_text("t,t_host,v0\n0,0,1\n")
    with pytest.raises(BadInput, match=r"touch.csv has the columns t, t_host, v0, expected t, t_host, v0, v1, v2, v3"):
        import_trace(tmp_path / "a", "csv")
    (tmp_path / "a" / "touch.csv").unlink()
    with pytest.raises(BadInput, match=r"touch.csv: no such file"):
        import_trace(tmp_path / "a", "csv")
    (tmp_path / "a" / "trace.json").write_text('{"schema": "other/1", "channels": {}, "info": {}, "panel_hash": ""}')
    with pytest.raises(BadInput, match="'other/1', this version reads"):
        import_trace(tmp_path / "a", "csv")
    (tmp_path / "a" / "trace.json").write_text("{")
    with pytest.raises(BadInput, match="not valid JSON"):
        import_trace(tmp_path / "a", "csv")


# --- LeRobot and robomimic ---


def test_lerobots_rows_are_there_for_others_and_lose_what_the_note_says(trace, tmp_path):
    (lost,) = export_traces([trace], "lerobot", tmp_path / "a", fps=50.0)
    assert "single precision" in lost
    data = LeRobotFolder(tmp_path / "a")
    assert data.features["observation.wrench"]["info"] == {"unit": "N, N m", "frame": "sensor", "kind": "measured"}
    shutil.rmtree(tmp_path / "a" / "meta" / "dexprior")
    layout = {"force": ChannelLayout(source="observation.touch", frame="fingers")}
    back = import_trace(tmp_path / "a", "lerobot", layout=layout)
    _, _, rows = rows_at(trace, 50.0)
    np.testing.assert_array_equal(back["action"].value, rows["command"].astype(np.float32))
    np.testing.assert_allclose(np.diff(back["action"].t), 0.02, atol=1e-12)
    assert (back["action"].unit, back["action"].kind) == ("rad", "commanded")
    assert back["privileged.slip"].kind == "privileged"
    assert (back["force"].unit, back["force"].frame) == ("N", "fingers")
    again = export_traces([back], "lerobot", tmp_path / "b")
    assert again
    assert set(LeRobotFolder(tmp_path / "b").features) - {"observation.force"} <= set(data.features)


def test_names_of_lerobots_numbers_go_with_a_channel_that_is_renamed(trace, tmp_path):
    """As a list, or in groups, as older sets have them."""
    export_traces([trace], "lerobot", tmp_path / "a", fps=50.0)
    shutil.rmtree(tmp_path / "a" / "meta" / "dexprior")
    path = tmp_path / "a" / "meta" / "info.json"
    info = json.loads(path.read_text())
    assert info["features"]["action"]["names"] == ["shoulder", "elbow"]
    info["features"]["observation.measured"]["names"] = {"motors": ["elbow", "shoulder"]}
    path.write_text(json.dumps(info))
    layout = {"goal": ChannelLayout(source="action"), "q": ChannelLayout(source="observation.measured")}
    back = import_trace(tmp_path / "a", "lerobot", layout=layout)
    assert (back.names("goal"), back.names("q")) == (("shoulder", "elbow"), ("elbow", "shoulder"))


def test_lerobot_episodes_of_other_channels_are_refused(trace, tmp_path):
    fewer = dataclasses.replace(trace, channels={"command": trace["command"], "touch": trace["touch"]})
    with pytest.raises(BadInput, match=r"trace 1 has the features action, observation.touch"):
        export_traces([trace, fewer], "lerobot", tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_anyones_robomimic_is_read_at_its_rate(trace, tmp_path):
    export_traces([trace], "robomimic", tmp_path / "a.hdf5", fps=20.0)
    with h5py.File(tmp_path / "a.hdf5", "a") as file:
        del file["data/demo_0/trace"]
    back = import_trace(tmp_path / "a.hdf5", "robomimic", layout={"goal": ChannelLayout(source="action", unit="rad")})
    _, _, rows = rows_at(trace, 20.0)
    np.testing.assert_array_equal(back["goal"].value, rows["command"])
    np.testing.assert_allclose(np.diff(back["goal"].t), 0.05)
    assert (back["goal"].unit, back["goal"].kind) == ("rad", "commanded")
    np.testing.assert_array_equal(back["obs.touch"].value, rows["touch"])


def test_robomimic_needs_actions_and_whole_files(trace, tmp_path):
    with pytest.raises(BadInput, match="no commanded channel"):
        export_traces([Trace(channels={"touch": trace["touch"]}, panel_hash="")], "robomimic", tmp_path / "a.hdf5")
    export_traces([trace], "robomimic", tmp_path / "b.hdf5")
    data = (tmp_path / "b.hdf5").read_bytes()
    (tmp_path / "b.hdf5").write_bytes(data[: len(data) // 2])
    with pytest.raises(BadInput, match="truncated file"):
        import_trace(tmp_path / "b.hdf5", "robomimic")


# --- layouts, folders, tables on a screen ---


def test_layouts_are_checked(tmp_path):
    path = tmp_path / "layout.yaml"
    path.write_text("force: {unit: N, source: /ft, kind: measured}\n")
    assert read_channel_layout(path) == {"force": ChannelLayout(unit="N", source="/ft", kind="measured")}
    path.write_text("force: {units: N}\n")
    with pytest.raises(ConfigError, match="units"):
        read_channel_layout(path)
    path.write_text("force: {kind: guessed}\n")
    with pytest.raises(ConfigError, match="guessed"):
        read_channel_layout(path)
    path.write_text("force: [\n")
    with pytest.raises(BadInput, match="not YAML"):
        read_channel_layout(path)
    with pytest.raises(BadInput, match="no such file"):
        read_channel_layout(tmp_path / "none.yaml")


def test_a_layout_that_names_nothing_is_refused(trace, tmp_path):
    export_traces([trace], "csv", tmp_path / "a")
    with pytest.raises(BadInput, match="no 'speeed' for channel 'x'; it has: tool_pose"):
        import_trace(tmp_path / "a", "csv", layout={"x": ChannelLayout(source="speeed")})


def test_files_of_a_folder_come_by_name(trace, tmp_path):
    with pytest.raises(BadInput, match="a folder without"):
        trace_paths(tmp_path)
    for name in ("b", "a"):
        write_trace(trace, tmp_path / f"{name}.mcap")
    assert [p.stem for p in trace_paths(tmp_path)] == ["a", "b"]
    with pytest.raises(BadInput, match="no such file"):
        trace_paths(tmp_path / "c.mcap")


def test_a_summary_names_rates_gaps_events_and_what_is_wrong(trace):
    touch = trace["touch"]
    torn = dataclasses.replace(
        touch, t=np.r_[touch.t[:20], touch.t[20:] + 3], t_host=np.r_[touch.t_host[:20], touch.t_host[20:] + 3]
    )
    text = summarize(Trace(channels={"touch": torn}, panel_hash="", info=trace.info))
    assert "40.0 Hz" in text
    assert "gap(s), the longest of 3.025 s from t = 1.475 s" in text
    assert "event at 1.000 s: contact" in text
    jump = dataclasses.replace(touch, t_host=np.r_[touch.t_host[:20], touch.t_host[20:] + 3])
    assert "refused: channel 'touch': the clocks jump" in summarize(Trace(channels={"touch": jump}, panel_hash=""))
    empty = Channel(t=[], t_host=[], value=np.empty((0, 2)), unit="N", frame="-", kind="measured")
    assert "0  " in summarize(Trace(channels={"none": empty}, panel_hash=""))


def test_json_of_the_csv_folder_is_plain(trace, tmp_path):
    export_traces([trace], "csv", tmp_path / "a")
    about = json.loads((tmp_path / "a" / "trace.json").read_text())
    assert about["channels"]["touch"] == {"width": 4, "unit": "N", "frame": "pads", "kind": "measured"}


# --- what breaks ---


def files(path):
    return [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())


@pytest.mark.parametrize("out", ["csv:a", "lerobot:a", "robomimic:a.hdf5", "rosbag:a.bag", "rosbag:a"])
def test_cut_files_and_flipped_bytes_read_or_say_why(out, trace, tmp_path):
    """No other exception than ours, whatever a disk did."""
    format, name = out.split(":")
    if format == "rosbag":
        pytest.importorskip("rosbags")
    rng, path = np.random.default_rng(0), tmp_path / name
    export_traces([Trace(channels={n: trace[n] for n in ("command", "touch")}, panel_hash="")], format, path)
    for file in files(path):
        data = file.read_bytes()
        cuts = [data[: len(data) * part // 100] for part in range(0, 100, 10)]
        flips = [data[:k] + bytes([data[k] ^ 0x84]) + data[k + 1 :] for k in rng.integers(0, len(data), 10)]
        for damaged in [*cuts, *flips]:
            file.write_bytes(damaged)
            with contextlib.suppress(DexpriorError):
                import_trace(path, format)
        file.write_bytes(data)
    import_trace(path, format)


def test_a_csv_that_was_cut_between_two_lines_says_so(trace, tmp_path):
    export_traces([trace], "csv", tmp_path / "a")
    for name, left in (("touch", 30), ("events", 1)):
        path = tmp_path / "a" / f"{name}.csv"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[: left + 1]))
    back = import_trace(tmp_path / "a", "csv")
    assert back.info["notes"] == [
        "touch.csv: 30 rows of 40 that were written",
        "events.csv: 1 rows of 2 that were written",
    ]
    assert len(back["touch"].t) == 30
    (tmp_path / "a" / "events.csv").unlink()
    with pytest.raises(BadInput, match=r"events\.csv: no such file"):
        import_trace(tmp_path / "a", "csv")


def test_flipped_bits_of_a_demonstration_are_found(trace, tmp_path):
    path = tmp_path / "a.hdf5"
    export_traces([trace], "robomimic", path)
    data = path.read_bytes()
    at = data.index(trace["wrench"].value[100:110].tobytes())
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(BadInput, match="damaged"):
        import_trace(path, "robomimic")


@pytest.mark.parametrize(
    ("format", "names", "message"),
    [
        ("csv", ["a\0b"], "cannot be a file's"),
        ("csv", ["events"], "cannot be a file's"),
        ("csv", ["Force", "force"], "Force, force: one file on a disk"),
        ("lerobot", ["arm/q", "arm.q"], "are one feature, 'observation.arm.q'"),
        ("robomimic", ["a/t"], "cannot be a data set's"),
        ("rosbag", ["arm/q", "arm.q"], "topic /arm/q is taken"),
        ("rosbag", ["dexprior.trace"], "topic /dexprior/trace is taken"),
    ],
)
def test_names_that_a_format_cannot_hold_are_refused_and_nothing_stays(format, names, message, trace, tmp_path):
    if format == "rosbag":
        pytest.importorskip("rosbags")
    channels = {"command": trace["command"], **dict.fromkeys(names, trace["touch"])}
    with pytest.raises(BadInput, match=message):
        export_traces([Trace(channels=channels, panel_hash="")], format, tmp_path / "a")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("out", ["csv:a", "rosbag:a.bag", "rosbag:a"])
def test_one_sample_and_none_go_out_and_come_back(out, same, tmp_path):
    format, name = out.split(":")
    if format == "rosbag":
        pytest.importorskip("rosbags")
    one = Channel(t=[1.0], t_host=[2.0], value=np.ones((1, 3)), unit="N", frame="-", kind="measured")
    none = dataclasses.replace(one, t=np.empty(0), t_host=np.empty(0), value=np.empty((0, 3)))
    for k, channels in enumerate(({"x": one, "y": none}, {"y": none})):
        few = Trace(channels=channels, panel_hash="p")
        export_traces([few], format, tmp_path / f"{k}{name}")
        same(few, import_trace(tmp_path / f"{k}{name}", format))
