"""Logs of an arm: two forms are read, and whatever is wrong with one is named."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from dexprior.cli.main import main
from dexprior.data.traces import ChannelSpec, TraceWriter, write_trace
from dexprior.errors import BadInput
from dexprior.transfer.arm import ArmLog, read_arm_log, read_arm_logs
from dexprior.types import Channel, Trace

JOINTS = ("shoulder", "elbow")
N = 400


def motion(lag: float = 0.1, n: int = N) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Time [s], command and measurement [rad] of two joints."""
    t = np.arange(n) * 0.02
    turn = np.array([1.3, 0.7])
    return t, 0.3 * np.sin(turn * t[:, None]), 0.3 * np.sin(turn * (t[:, None] - lag))


def write_folder(folder: Path, t, command, measured, joints=JOINTS, zipped: bool = True) -> Path:
    folder.mkdir(parents=True)
    (folder / "joint_list.txt").write_text("\n".join(joints) + "\n")
    for name, kind, value in (("control", "CONTROL", command), ("state_motor", "STATE_MOTOR", measured)):
        lines = ["type,timestamp,positions"]
        lines += [f'{kind},{time * 1e6},"{json.dumps([float(v) for v in row])}"' for time, row in zip(t, value)]
        write_lines(folder / f"{name}.csv", lines, zipped)
    write_lines(folder / "event.csv", ["type,timestamp,event", "EVENT,0,MOTION_START"], zipped)
    return folder


def write_lines(path: Path, lines: list[str], zipped: bool = False) -> Path:
    text = "\n".join(lines) + "\n"
    if zipped:
        path = path.with_name(f"{path.name}.gz")
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def table(t, command, measured, joints=JOINTS, t_measured=None) -> list[str]:
    columns = ["t", *(f"{j}_command" for j in joints), *(f"{j}_measured" for j in joints)]
    values = np.column_stack([t, command, measured])
    if t_measured is not None:
        columns, values = [*columns, "t_measured"], np.column_stack([values, t_measured])
    return [",".join(columns), *(",".join(repr(float(v)) for v in row) for row in values)]


def test_both_forms_say_the_same(tmp_path):
    t, command, measured = motion()
    folder = read_arm_log(write_folder(tmp_path / "wave", t + 7.0, command, measured))
    plain = read_arm_log(write_folder(tmp_path / "plain", t, command, measured, zipped=False))
    file = read_arm_log(write_lines(tmp_path / "wave.csv", table(t + 7.0, command, measured), zipped=True))
    for log in (folder, plain, file):
        assert log.joints == JOINTS
        np.testing.assert_allclose(log.t_command, t, atol=1e-9)
        np.testing.assert_array_equal(log.command, command)
        np.testing.assert_array_equal(log.measured, measured)
        assert log.notes == ()
    assert folder.name == file.name == "wave"
    assert folder.events == ((pytest.approx(-7.0), "MOTION_START"),)
    assert folder.dt == pytest.approx(0.02)
    trace = folder.trace()
    assert trace["command"].kind == "commanded"
    assert trace["measured"].unit == "rad"


def test_each_signal_keeps_its_own_clock(tmp_path):
    t, command, measured = motion()
    log = read_arm_log(write_lines(tmp_path / "a.csv", table(t, command, measured, t_measured=t + 0.013)))
    np.testing.assert_allclose(log.t_measured - log.t_command, 0.013, atol=1e-12)
    even, sent, seen = log.even()
    assert even[0] == pytest.approx(0.013)
    np.testing.assert_allclose(sent[:, 0], 0.3 * np.sin(1.3 * even), atol=1e-4)
    np.testing.assert_allclose(seen[:, 0], 0.3 * np.sin(1.3 * (even - 0.113)), atol=1e-4)


def _with(row: int | slice, column: int, value: float):
    def change(t, command, measured):
        measured[row, column] = value
        return t, command, measured

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_with(slice(50, 100), 1, np.nan), r"measured of elbow is not finite at record 51 \(50 in all\)"),
        (lambda t, c, m: (t, c, np.rad2deg(m) * 2), "measured of shoulder reaches 34.* no radians"),
        (lambda t, c, m: (np.where(t > 4, t + 3, t), c, m), r"clock jumps by 3.020 s at record 202"),
        (lambda t, c, m: (np.where(t > 4, t - 0.1, t), c, m), r"jumps back or stands still at record 202"),
        (lambda t, c, m: (t + 0.01 * t**2, c, m), "clock drifts: a step takes 20"),
        (lambda t, c, m: (t[:40], c[:40], m[:40]), "40 whole records; at least 100"),
        (lambda t, c, m: (t, c[:, :1], m), "record 1 has 1 positions, joint_list.txt names 2 joints"),
        (lambda t, c, m: (t * 1e-6, c, m), "no microseconds"),
        (lambda t, c, m: (t * 1e-3, c, m), r"20 apart, which are no microseconds \(milliseconds\?"),
    ],
)
def test_folders_that_cannot_be_used_are_named(tmp_path, change, message):
    folder = write_folder(tmp_path / "wave", *change(*motion()))
    with pytest.raises(BadInput, match=message) as caught:
        read_arm_log(folder)
    assert "wave" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [line.replace("t,", "when,", 1) for line in lines[:1]] + lines[1:], "no column 't'"),
        (
            lambda lines: [lines[0].replace("_measured", ""), *lines[1:]],
            "commanded, but not measured, and left out: shoulder, elbow: no joint is both",
        ),
        (lambda lines: [lines[0].replace("_command", "_goal"), *lines[1:]], "no column JOINT_command"),
        (lambda lines: lines[:1], "holds no records"),
        (lambda lines: [*lines[:50], "what,is,this,line,here", *lines[50:]], "record 50 of 401 is broken: 'what,is"),
        (
            lambda lines: [*lines[:50], *(line.rpartition(",")[0] + "," for line in lines[50:100]), *lines[100:]],
            "not finite at record 50",
        ),
    ],
)
def test_files_that_cannot_be_used_are_named(tmp_path, change, message):
    path = write_lines(tmp_path / "wave.csv", change(table(*motion())))
    with pytest.raises(BadInput, match=message) as caught:
        read_arm_log(path)
    assert "wave.csv" in str(caught.value)


def test_single_records_that_are_broken_are_left_out_and_counted(tmp_path):
    """A value that is not finite, and one stamp that comes too early, cost their records and nothing else."""
    t, command, measured = motion()
    stamps, broken = t.copy(), measured.copy()
    stamps[200] -= 0.025  # after that of record 199, by 5 ms too early
    broken[50, 1] = np.nan
    log = read_arm_log(write_lines(tmp_path / "wave.csv", table(stamps, command, broken)))
    np.testing.assert_array_equal(log.t_command, np.delete(t, 200))
    np.testing.assert_array_equal(log.measured, np.delete(measured, [50, 200], axis=0))
    assert len(log.notes) == 2
    assert "1 of 400 records of command" in log.notes[0]
    assert "2 of 400 records of measured" in log.notes[1]


def test_a_joint_that_was_never_measured_is_left_out_by_name(tmp_path):
    t, command, measured = motion()
    measured[:, 1] = np.nan
    log = read_arm_log(write_lines(tmp_path / "wave.csv", table(t, command, measured)))
    assert log.joints == ("shoulder",)
    np.testing.assert_array_equal(log.measured, measured[:, :1])
    assert "never finite, and left out: elbow" in log.notes
    lines = table(t, command, measured[:, :1], joints=JOINTS)
    lines[0] = "t,shoulder_command,elbow_command,shoulder_measured"
    log = read_arm_log(write_lines(tmp_path / "short.csv", lines))
    assert log.joints == ("shoulder",)
    assert "commanded, but not measured, and left out: elbow" in log.notes


def test_degrees_are_read_where_that_is_said(tmp_path):
    t, command, measured = motion()
    degrees = [np.rad2deg(v) for v in (command, measured)]
    paths = [write_folder(tmp_path / "folder", t, *degrees), write_lines(tmp_path / "a.csv", table(t, *degrees))]
    for path in paths:
        log = read_arm_log(path, "deg")
        np.testing.assert_allclose(log.measured, measured, atol=1e-12)
        np.testing.assert_allclose(log.command, command, atol=1e-12)
    channels = {n: channel(t, v, k, "deg") for n, v, k in zip("cm", degrees, ("commanded", "measured"))}
    said = ArmLog.from_trace(Trace(channels=channels, panel_hash=""), "a")  # the trace says it by itself
    np.testing.assert_allclose(said.measured, measured, atol=1e-12)


def test_a_table_in_lerobots_columns_is_a_log(tmp_path):
    t, command, measured = motion()
    for columns in (
        ("timestamp,frame_index,action.a.pos,action.b.pos,observation.state.b.pos,observation.state.a.pos"),
        ("time_ms,frame_index,action.a,action.b,observation.b,observation.a"),
    ):
        stamps = t * 1e3 if columns.startswith("time_ms") else t + 1.7e9
        values = np.column_stack([stamps, np.arange(N), command, measured[:, ::-1]])
        lines = [columns, *(",".join(repr(float(v)) for v in row) for row in values)]
        log = read_arm_log(write_lines(tmp_path / f"{columns[:4]}{columns[10]}.csv", lines))
        assert (log.joints, log.notes) == (("a", "b"), ())
        np.testing.assert_allclose(log.t_command, t, atol=1e-6)
        np.testing.assert_array_equal(log.command, command)
        np.testing.assert_array_equal(log.measured, measured)


def test_logs_of_one_name_are_told_apart(tmp_path):
    t, command, measured = motion()
    write_lines(tmp_path / "run.csv", table(t, command, measured))
    write_folder(tmp_path / "run", t, command, measured)
    write_lines(tmp_path / "other.csv", table(t, command, measured))
    logs, _ = read_arm_logs(tmp_path)
    assert [log.name for log in logs] == ["other", "run", "run.csv"]


def test_missing_and_empty_files_are_named(tmp_path):
    for name in ("control", "state_motor"):
        folder = write_folder(tmp_path / f"without_{name}", *motion())
        (folder / f"{name}.csv.gz").unlink()
        with pytest.raises(BadInput, match=rf"no {name}\.csv"):
            read_arm_log(folder)
        (folder / f"{name}.csv.gz").write_bytes(b"")
        with pytest.raises(BadInput, match="is empty"):
            read_arm_log(folder)
        (folder / f"{name}.csv.gz").write_bytes(b"no gzip at all")
        with pytest.raises(BadInput, match="nothing of it can be read"):
            read_arm_log(folder)
    (folder / "joint_list.txt").unlink()
    with pytest.raises(BadInput, match=r"no joint_list\.txt"):
        read_arm_log(folder)
    with pytest.raises(BadInput, match="no log at"):
        read_arm_log(tmp_path / "nothing")


def test_clocks_that_part_are_named(tmp_path):
    t, command, measured = motion(n=2000)
    with pytest.raises(BadInput, match=r"part by 0\.400 s until the end"):
        read_arm_log(write_lines(tmp_path / "a.csv", table(t, command, measured, t_measured=t * 1.01)))


def test_what_is_odd_but_usable_is_noted(tmp_path):
    t, command, measured = motion()
    slow = read_arm_log(write_folder(tmp_path / "slow", t + 0.004 * t**2, command, measured))
    assert [note for note in slow.notes if "measured clock drifts, or its loop does: a step takes 20" in note]
    folder = write_folder(tmp_path / "short", t, command, measured)
    other = write_folder(tmp_path / "other", t[50:350], command[50:350], measured[50:350])
    (other / "control.csv.gz").replace(folder / "control.csv.gz")
    short = read_arm_log(folder)
    assert short.notes == ("command and measurement overlap from 1.000 s for 5.980 s; only that is used",)
    assert short.even()[0][[0, -1]] == pytest.approx([1.0, 6.98])


def test_fast_logs_are_thinned_and_keep_their_lag(tmp_path):
    t = np.arange(5000) * 0.001
    sent, seen = (np.sin(3 * (t - late))[:, None] * [1, 1] for late in (0.0, 0.1))
    even, command, measured = read_arm_log(write_lines(tmp_path / "a.csv", table(t, sent, seen))).even()
    assert np.diff(even) == pytest.approx(0.01)
    np.testing.assert_allclose(command[:, 0], np.sin(3 * even), atol=1e-5)
    np.testing.assert_allclose(measured[:, 0], np.sin(3 * (even - 0.1)), atol=1e-5)


def test_a_truncated_gzip_is_used_as_far_as_it_goes(tmp_path):
    t, command, measured = motion()
    folder = write_folder(tmp_path / "wave", t, command, measured)
    path = folder / "state_motor.csv.gz"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(0.7 * len(whole))])
    log = read_arm_log(folder)
    kept = len(log.measured)
    assert 0.4 * N < kept < N
    np.testing.assert_array_equal(log.measured, measured[:kept])
    assert len(log.command) == N
    assert log.seconds == pytest.approx(t[kept - 1])
    assert "gzip stream is damaged" in log.notes[0]
    assert f"the {kept} records before" in log.notes[0]


@pytest.mark.parametrize("form", ["folder", "file"])
def test_a_log_cut_in_a_record_is_used_up_to_it(tmp_path, form):
    t, command, measured = motion()
    if form == "folder":
        path = write_folder(tmp_path / "wave", t, command, measured, zipped=False) / "control.csv"
    else:
        path = write_lines(tmp_path / "wave.csv", table(t, command, measured))
    text = path.read_text().rstrip("\n").rpartition(",")[0]  # inside the last record
    for end, said in (("", f"cut in record {N}, which has no line end"), ("\n", f"cut in the middle of record {N}")):
        path.write_text(text + end)
        log = read_arm_log(path if form == "file" else path.parent)
        np.testing.assert_array_equal(log.command, command[: N - 1])
        assert log.notes == (f"{path.name}: {said}; the {N - 1} before it are used",)


def test_a_last_record_without_its_line_end_is_not_trusted(tmp_path):
    """It may be cut inside its last number, which nothing shows."""
    t, command, measured = motion()
    path = write_lines(tmp_path / "wave.csv", table(t, command, measured))
    path.write_text(path.read_text()[:-5])
    log = read_arm_log(path)
    np.testing.assert_array_equal(log.measured, measured[: N - 1])
    assert "which has no line end" in log.notes[0]


def test_a_folder_reads_what_can_be_read_and_says_what_can_not(tmp_path):
    with pytest.raises(BadInput, match="is no folder"):
        read_arm_logs(tmp_path / "nothing")
    with pytest.raises(BadInput, match="holds no log"):
        read_arm_logs(tmp_path)
    t, command, measured = motion()
    bad = measured.copy()
    bad[3:60, 0] = np.inf
    write_lines(tmp_path / "bad.csv", table(t, command, bad))
    with pytest.raises(BadInput, match=r"no log can be used.*shoulder is not finite"):
        read_arm_logs(tmp_path)
    write_folder(tmp_path / "good", t, command, measured)
    (tmp_path / "LICENSE").write_text("any")
    logs, refused = read_arm_logs(tmp_path)
    assert [log.name for log in logs] == ["good"]
    assert list(refused) == ["bad"]
    assert "shoulder is not finite at record 4" in refused["bad"]


# --- traces ---


def test_a_trace_of_an_arm_is_a_log_and_comes_back(tmp_path):
    t, command, measured = motion()
    log = read_arm_log(write_folder(tmp_path / "wave", t, command, measured))
    back = ArmLog.from_trace(log.trace(), "wave")
    assert (back.name, back.joints, back.events) == (log.name, log.joints, log.events)
    for part in ("t_command", "command", "t_measured", "measured"):
        np.testing.assert_array_equal(getattr(back, part), getattr(log, part))
    write_trace(log.trace(), tmp_path / "again.mcap")
    read = read_arm_log(tmp_path / "again.mcap")
    assert (read.name, read.joints, read.events) == ("again", log.joints, log.events)
    np.testing.assert_array_equal(read.measured, log.measured)


def channel(t, value, kind="measured", unit="rad", offset=0.0) -> Channel:
    return Channel(t=t, t_host=t + offset, value=value, unit=unit, frame="joint", kind=kind)


def test_names_of_joints_and_one_clock_of_two(tmp_path):
    """Sources with clocks of their own meet on the host's; sources with one clock keep it."""
    t, command, measured = motion()
    sent, seen = channel(t, command, "commanded", offset=1000.0), channel(t + 5.0, measured, offset=995.02)
    trace = Trace(
        channels={"goal": sent, "speed": channel(t, measured, unit="rad/s"), "q": seen}, panel_hash="",
        info={"names": {"goal": list(JOINTS)}, "events": [[1.0, 1001.0, "contact"]]},
    )  # fmt: skip
    log = ArmLog.from_trace(trace, "a")
    assert log.joints == JOINTS
    np.testing.assert_allclose(log.t_measured[0] - log.t_command[0], 0.02, atol=1e-9)
    assert log.events == ((pytest.approx(1.0), "contact"),)
    assert any("clocks of their own" in note for note in log.notes)
    late = dataclasses.replace(seen, t=seen.t - 4.98, t_host=seen.t - 4.98 + 1000.0)
    one = ArmLog.from_trace(Trace(channels={"goal": sent, "q": late}, panel_hash=""), "a")
    assert one.joints == ("joint0", "joint1")
    assert one.notes == ()
    np.testing.assert_allclose(one.t_measured[0] - one.t_command[0], 0.02, atol=1e-9)


def test_joints_of_a_trace_are_paired_by_name(tmp_path):
    """In another order, with one joint more on each side, or with names that nobody shares."""
    t = np.arange(N) * 0.02
    wave = {joint: 0.2 * np.sin((1 + 0.3 * k) * t) for k, joint in enumerate("abcd")}

    def log(sent, seen, names=None) -> ArmLog:
        values = {"goal": (sent, "commanded"), "q": (seen, "measured")}
        channels = {n: channel(t, np.stack([wave[j] for j in js], axis=1), kind) for n, (js, kind) in values.items()}
        names = {"goal": list(sent), "q": list(seen)} if names is None else names
        return ArmLog.from_trace(Trace(channels=channels, panel_hash="", info={"names": names}), "a")

    for sent, seen, left in (("abc", "cab", 0), ("abc", "dcba", 1), ("dab", "bac", 2)):
        found = log(sent, seen)
        assert found.joints == tuple(j for j in sent if j in seen)
        for k, joint in enumerate(found.joints):
            np.testing.assert_array_equal(found.command[:, k], wave[joint])
            np.testing.assert_array_equal(found.measured[:, k], wave[joint])
        assert len(found.notes) == left
    with pytest.raises(BadInput, match=r"no joint is both commanded \(a, b\) and measured \(c, d\): `names` in"):
        log("ab", "cd")
    (note,) = log("ab", "ab", {"q": ["a", "b"]}).notes
    assert "the numbers of 'goal' have no names and are taken in the order a, b" in note
    with pytest.raises(BadInput, match="the command has 2 joints, the measurement 3, and not both have names"):
        log("ab", "abc", {"q": ["a", "b", "c"]})


@pytest.mark.parametrize(
    ("change", "info", "message"),
    [
        (
            {"command": None},
            {},
            r"0 commanded channels in rad, one is needed, or one called 'command'; it has measured",
        ),
        ({"q": ("measured", "rad", 2), "measured": None, "r": ("measured", "rad", 2)}, {}, "2 measured channels"),
        ({"command": ("commanded", "1", 2)}, {}, r"'command' is in '1'; joints are read in rad, deg"),
        ({"measured": ("measured", "rad", 1)}, {}, "the command has 2 joints, the measurement 1"),
        ({}, {"joints": ["a"]}, "1 joint names for 2 joints"),
        ({}, {"joints": ["a", "a"]}, "or one twice: a, a"),
    ],
)
def test_a_trace_that_is_no_arm_is_named(change, info, message):
    t = np.arange(N) * 0.02
    made = {"command": ("commanded", "rad", 2), "measured": ("measured", "rad", 2)} | change
    channels = {name: channel(t, np.zeros((N, s[2])), s[0], s[1]) for name, s in made.items() if s is not None}
    with pytest.raises(BadInput, match=message):
        ArmLog.from_trace(Trace(channels=channels, panel_hash="", info=info), "wave")


def test_traces_lie_among_other_logs_and_bad_ones_are_named(tmp_path):
    t, command, measured = motion()
    write_folder(tmp_path / "folder", t, command, measured)
    write_lines(tmp_path / "table.csv", table(t, command, measured))
    trace = Trace(
        channels={"command": channel(t, command, "commanded"), "measured": channel(t, measured)}, panel_hash="",
        info={"joints": list(JOINTS)},
    )  # fmt: skip
    whole = write_trace(trace, tmp_path / "whole.mcap").read_bytes()
    (tmp_path / "flipped.mcap").write_bytes(whole[:3000] + bytes([whole[3000] ^ 1]) + whole[3001:])
    (tmp_path / "empty.mcap").write_bytes(b"")
    short = {name: dataclasses.replace(c, t=c.t[:50], t_host=c.t[:50], value=c.value[:50]) for name, c in
             trace.channels.items()}  # fmt: skip
    write_trace(Trace(channels=short, panel_hash=""), tmp_path / "short.mcap")
    logs, refused = read_arm_logs(tmp_path)
    assert [log.name for log in logs] == ["folder", "table", "whole"]
    assert set(refused) == {"empty", "flipped", "short"}
    assert "damaged" in refused["flipped"]
    assert "no MCAP file" in refused["empty"]
    assert "50 samples of command" in refused["short"]


def test_a_trace_of_a_killed_recorder_is_measured_as_far_as_it_goes(tmp_path):
    t, command, measured = motion()
    kinds = {"command": "commanded", "measured": "measured"}
    specs = {name: ChannelSpec(width=2, unit="rad", frame="joint", kind=kind) for name, kind in kinds.items()}
    path = tmp_path / "a.mcap"
    with TraceWriter(path, specs, info={"joints": list(JOINTS)}, flush_s=0.0) as writer:
        for k in range(N):
            writer.append("command", t[k], t[k], command[k])
            writer.append("measured", t[k], t[k], measured[k])
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 4 // 10])
    log = read_arm_log(path)
    assert 100 <= len(log.t_command) < N
    np.testing.assert_array_equal(log.command, command[: len(log.t_command)])
    assert any("breaks off" in note for note in log.notes)


def test_the_report_of_traces_is_that_of_the_same_csv(tmp_path, capsys):
    t, command, measured = motion(lag=0.08, n=1500)
    noisy = measured + np.random.default_rng(0).normal(0.0, 1e-3, measured.shape)
    pair = {"command": channel(t, command, "commanded"), "measured": channel(t, noisy)}
    write_trace(Trace(channels=pair, panel_hash="", info={"joints": list(JOINTS)}), tmp_path / "mcap" / "wave.mcap")
    (tmp_path / "csv").mkdir()
    write_lines(tmp_path / "csv" / "wave.csv", table(t, command, noisy))
    found = {}
    for form in ("mcap", "csv"):
        assert main(["ledger", "report", str(tmp_path / form), f"out={tmp_path / form}-report", "arm.draws=100"]) == 0
        assert (tmp_path / f"{form}-report" / "report.html").is_file()
        found[form] = json.loads((tmp_path / f"{form}-report" / "report.json").read_text())
    assert found["mcap"]["motions"] == found["csv"]["motions"]
    for joint in JOINTS:
        lag = found["mcap"]["joints"][joint]["lag_s"]
        assert lag["lowest"] - 5e-4 <= 0.08 <= lag["highest"] + 5e-4


def _servo_log(path: Path, *, lag: float = 0.05, off: int | None = None, n: int = 1201) -> Path:
    """A servo on a bench that follows its goal late, by a fixed time."""
    t = 0.005 * np.arange(n)
    goal, seen = np.sin(3.0 * t + t**2), np.sin(3.0 * (t - lag) + (t - lag) ** 2)
    rows = [
        {"timestamp": t[k], "position": seen[k], "goal_position": goal[k], "speed": 0.0, "input_volts": 7.3,
         "temp": 30.0, "torque_enable": off is None or k < off, "load": 0} for k in range(n)
    ]  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {"mass": 0.5, "length": 0.1, "kp": 100, "vin": 7.4, "dt": 0.005, "entries": rows}
    path.write_bytes(gzip.compress(json.dumps(data).encode()))
    return path


def test_a_servo_on_a_bench_is_a_log_of_one_joint(tmp_path):
    log = read_arm_log(_servo_log(tmp_path / "sine.json.gz"))
    assert (log.name, log.joints, log.notes) == ("sine", ("servo",), ())
    assert len(log.measured) == len(log.command) == 1201
    assert log.seconds == pytest.approx(6.0)
    found = read_arm_log(_servo_log(tmp_path / "drop.json.gz", off=801))
    assert found.notes == ("the motor is switched off at 4.005 s",)
    assert len(found.measured) == 801
    with pytest.raises(BadInput, match="driven in its first 50 entries; at least 100"):
        read_arm_log(_servo_log(tmp_path / "off.json.gz", off=50))


def test_a_folder_of_folders_of_logs_names_them(tmp_path):
    _servo_log(tmp_path / "raw" / "a.json.gz")
    _servo_log(tmp_path / "processed" / "a.json.gz")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match=r"holds no log: .*; there are some in processed, raw$"):
        read_arm_logs(tmp_path)


def test_the_report_of_a_bench_finds_the_lag(tmp_path, capsys):
    for k in range(2):
        _servo_log(tmp_path / "logs" / f"{k}.json.gz")
    (tmp_path / "logs" / "cut.json.gz").write_bytes((tmp_path / "logs" / "0.json.gz").read_bytes()[:500])
    assert main(["ledger", "report", str(tmp_path / "logs"), f"out={tmp_path / 'page'}"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["lag_s"]["servo"]["median"] == pytest.approx(0.05, abs=1e-3)
    assert list(shown["left_out"]) == ["cut"]
