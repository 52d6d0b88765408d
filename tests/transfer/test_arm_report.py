"""A folder of logs becomes a page, the same numbers as JSON, and a parameter family."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from dexprior.cli.main import main
from dexprior.errors import BadInput
from dexprior.families import ParameterFamily
from dexprior.transfer.arm import ArmReportConfig, measure_arm, next_steps, play, write_arm_report
from dexprior.transfer.arm.report import clock_drifts

DATA = Path(os.environ.get("DEXPRIOR_DATA", "")) / "so101"
DT, LAG, WIDTH, SCATTER = 0.02, 0.087, 0.03, 0.002
SETTINGS = ArmReportConfig(draws=100)


def write(path: Path, t, command, measured, joints=("shoulder", "elbow")) -> None:
    columns = ["t", *(f"{j}_command" for j in joints), *(f"{j}_measured" for j in joints)]
    rows = np.column_stack([t, command, measured])
    path.write_text("\n".join([",".join(columns), *(",".join(f"{v:.6f}" for v in row) for row in rows)]) + "\n")


def arm(t: np.ndarray, command: np.ndarray, seed: int, lag: float = LAG) -> np.ndarray:
    """An arm whose shoulder lags, and whose elbow also has backlash."""
    rng = np.random.default_rng(seed)
    moved = np.stack([command[:, 0], play(command[:, 1], np.array([WIDTH]))[0]], axis=1)
    late = np.stack([np.interp(t - lag, t, column) for column in moved.T], axis=1)
    return np.round((0.98 * late + rng.normal(0, SCATTER, late.shape)) / 0.0015) * 0.0015


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    """Two motions that can be used, and one in degrees."""
    folder = tmp_path_factory.mktemp("logs")
    t = np.arange(2500) * DT
    repeats = 0.25 * np.sin(2 * np.pi * t[:, None] / np.array([4.1, 3.3]))
    write(folder / "repeats.csv", t, repeats, arm(t, repeats, 0))
    rng = np.random.default_rng(1)
    kernel = np.hanning(40)
    wander = np.stack([np.convolve(rng.normal(size=2539), kernel, "valid") for _ in range(2)], axis=1)[:2500] * 0.05
    measured = arm(t, wander, 2)
    measured[(t > 30) & (t < 31), 1] += 0.1  # somebody pushes the elbow
    write(folder / "wander.csv", t, wander, measured)
    write(folder / "degrees.csv", t, repeats, np.rad2deg(arm(t, repeats, 3)))
    return folder


@pytest.fixture(scope="module")
def ledger(logs):
    return measure_arm(logs, SETTINGS, seed=0)


def test_what_is_known_of_the_arm_is_found(ledger):
    shoulder, elbow = ledger.pooled("shoulder"), ledger.pooled("elbow")
    assert shoulder["lag_s"]["lowest"] <= LAG <= shoulder["lag_s"]["highest"]
    assert shoulder["lag_s"]["median"] == pytest.approx(LAG, abs=0.002)
    assert shoulder["backlash_rad"]["median"] == pytest.approx(0, abs=0.003)
    assert elbow["backlash_rad"]["median"] == pytest.approx(WIDTH, abs=0.004)
    assert elbow["noise_floor_rad"] == pytest.approx(np.hypot(SCATTER, 0.0015 / 12**0.5), rel=0.2)
    assert shoulder["rms_residual_rad"] < 0.2 * shoulder["rms_error_rad"]


def test_the_joint_that_is_pushed_departs_first(ledger):
    by_name = {m.log.name: m for m in ledger.motions}
    assert by_name["wander"].earliest.joint == "elbow"
    assert by_name["wander"].earliest.t == pytest.approx(30, abs=0.1)
    assert by_name["repeats"].earliest is None
    assert by_name["repeats"].joints[0].departure.seen_until == pytest.approx(49.98)


def test_a_motion_in_degrees_is_left_out_by_name(ledger):
    assert list(ledger.refused) == ["degrees"]
    assert "degrees" in ledger.refused["degrees"]


def test_degrees_of_small_motions_show_in_the_gain(tmp_path):
    t = np.arange(1500) * DT
    command = 0.02 * np.sin(t[:, None] * np.array([1.0, 1.5]))
    write(tmp_path / "small.csv", t, command, np.rad2deg(np.roll(command, 4, axis=0)))
    with pytest.raises(BadInput, match=r"shoulder is measured at 57.* times the command; one of them is in degrees"):
        measure_arm(tmp_path, SETTINGS)


def test_degrees_are_radians_where_that_is_said(tmp_path, capsys):
    t = np.arange(600) * DT
    command = 0.3 * np.sin(t[:, None] * np.array([1.3, 2.1]))
    write(tmp_path / "logs.csv", t, np.rad2deg(command), np.rad2deg(np.roll(command, 4, axis=0)))
    folder = tmp_path / "logs"
    folder.mkdir()
    (tmp_path / "logs.csv").rename(folder / "run.csv")
    words = ["ledger", "report", str(folder), f"out={tmp_path / 'out'}", "arm.draws=50"]
    assert main(words) == 1
    assert "give units=deg" in capsys.readouterr().err
    assert main([*words, "units=deg"]) == 0
    assert json.loads(capsys.readouterr().out)["lag_s"]["shoulder"]["median"] == pytest.approx(0.08, abs=0.002)


def test_a_clock_that_drifts_a_little_is_seen_in_the_lags(tmp_path):
    """Too little to part the ends by a tenth of a second, and enough to change every joint's lag."""
    t = np.arange(4000) * DT
    command = 0.2 * np.sin(t[:, None] * np.array([1.0, 1.7]) + 0.1 * np.sin(0.3 * t[:, None]))
    late = t - 0.08 - 0.001 * t  # 80 ms in 80 s
    measured = np.stack([np.interp(late, t, column) for column in command.T], axis=1)
    write(tmp_path / "drift.csv", t, command, measured)
    ledger = measure_arm(tmp_path, SETTINGS)
    (found,) = clock_drifts(ledger)
    change = float(re.search(r"changes by \+(\d+) ms", found).group(1))
    assert change == pytest.approx(40, abs=6)
    assert any("Check the clocks" in step for step in next_steps(ledger))


def test_logs_that_are_too_short_and_settings_that_contradict_are_named(tmp_path):
    t = np.arange(120) * DT
    command = 0.2 * np.sin(t[:, None] * np.array([3.0, 4.0]))
    write(tmp_path / "short.csv", t, command, command)
    with pytest.raises(BadInput, match=r"short: 2.38 s long; lags up to 0.5 s need 3.6 s"):
        measure_arm(tmp_path, SETTINGS)
    with pytest.raises(BadInput, match="must be the smaller"):
        measure_arm(tmp_path, ArmReportConfig(earliest=0.6))
    with pytest.raises(BadInput, match="level"):
        measure_arm(tmp_path, ArmReportConfig(level=95.0))


def test_the_page_holds_everything_and_fetches_nothing(ledger, tmp_path):
    page = write_arm_report(ledger, tmp_path)
    text = page.read_text()
    assert not re.search(r"https?://|url\(|@import|<link|<script", text.replace("data:", ""))
    assert text.count("data:image/png;base64,") == 2
    for shown in ("Lag behind the command", "Backlash", "Noise floor", "First departure", "not seen before 49.98 s"):
        assert shown in text
    assert text.rindex("data:image/png;base64,") < text.index("<table")  # curves come before tables
    assert "Left out: degrees" in text
    assert "actuator_delay" in text
    data = json.loads((tmp_path / "report.json").read_text())
    lag = data["motions"]["wander"]["joints"]["shoulder"]["lag_s"]
    low, high = lag["interval"]
    assert f"{1e3 * lag['value']:.1f} [{1e3 * low:.1f}, {1e3 * high:.1f}]" in text  # one number in both files
    assert data["left_out"].keys() == {"degrees"}
    assert data["next_steps"] == next_steps(ledger)
    assert "NaN" not in (tmp_path / "report.json").read_text()


def test_the_family_holds_delay_and_backlash_as_measured(ledger, tmp_path):
    write_arm_report(ledger, tmp_path)
    family = ParameterFamily.read(tmp_path / "family.json")
    delay, shoulder, elbow = family.parameters  # one delay for both, and a backlash of each
    assert family.names == ("actuator_delay", "backlash.shoulder", "backlash.elbow")
    assert {p.provenance for p in family.parameters} == {"measured"}
    assert delay.low <= LAG <= delay.high
    assert shoulder.high < WIDTH / 4
    assert elbow.low <= WIDTH <= elbow.high
    assert (shoulder.target, elbow.target) == ("world/shoulder/backlash", "world/elbow/backlash")
    drawn = family.sample(np.random.default_rng(0), 200)
    assert (drawn >= 0).all()


@pytest.fixture(scope="module")
def impossible(tmp_path_factory):
    """An arm that moves 70 ms before it is told, one that echoes its command, and one that repeats itself exactly."""
    folder = tmp_path_factory.mktemp("impossible")
    t = np.arange(1500) * DT
    command = 0.25 * np.sin(2 * np.pi * t[:, None] / np.array([4.1, 3.3]) + 0.2 * np.sin(0.37 * t[:, None]))
    late = np.stack([np.interp(t - 0.07, t, column) for column in command.T], axis=1)
    write(folder / "swapped.csv", t, late, command)
    write(folder / "echo.csv", t, command, command)
    repeats = 0.25 * np.sin(2 * np.pi * t[:, None] / np.array([4.0, 3.0]))
    noise = np.random.default_rng(0).normal(0, 0.004, repeats.shape)
    write(folder / "alike.csv", t, repeats, np.roll(repeats, 4, axis=0) + noise)
    return folder


def test_what_cannot_be_is_said_and_not_written_as_measured(impossible, tmp_path):
    ledger = measure_arm(impossible, SETTINGS)
    (delay, *_) = ledger.family().parameters  # of the one motion that can be
    assert delay.low <= 0.08 <= delay.high
    assert delay.low > 0.07
    steps = next_steps(ledger)
    early = next(step for step in steps if "it moves before it is told" in step)
    assert "swapped: shoulder by 70 ms, elbow by 70 ms" in early
    assert "its measurement is its command (echo: shoulder, elbow)" in " ".join(steps)
    assert not any("0.0 times its own noise floor" in step for step in steps)
    for name in ("swapped", "echo"):
        alone = tmp_path / name
        alone.mkdir()
        (alone / "run.csv").write_text((impossible / f"{name}.csv").read_text())
        one = measure_arm(alone, SETTINGS)
        assert one.family().parameters == ()
        assert next_steps(one)[0].startswith("This cannot be")
        assert "impossible" in write_arm_report(one, alone / "out").read_text()


def test_a_residual_within_the_noise_floor_asks_for_no_better_model(impossible, tmp_path):
    (tmp_path / "run.csv").write_text((impossible / "alike.csv").read_text())
    steps = next_steps(measure_arm(tmp_path, SETTINGS))
    assert any("within its own noise floor" in step for step in steps)
    assert not any("times its own noise floor" in step for step in steps)


def test_what_is_not_identifiable_says_why(tmp_path):
    """A joint that is later than the search does not need to move more."""
    t = np.arange(2000) * DT
    command = 0.2 * np.sin(t[:, None] * np.array([0.5, 0.6]) + np.sin(0.31 * t[:, None]))
    measured = np.stack([np.interp(t - 0.8, t, command[:, 0]), np.zeros(len(t))], axis=1)
    write(tmp_path / "slow.csv", t, command, measured)
    steps = " ".join(next_steps(measure_arm(tmp_path, SETTINGS)))
    assert "Not identifiable: shoulder. The lag reaches the end of the search, +0.50 s." in steps
    assert "Not identifiable: elbow. Record a motion that moves them" in steps


def test_names_of_the_simulators_joints_are_written_where_they_are_given(ledger):
    named = dataclasses.replace(ledger, settings=dataclasses.replace(SETTINGS, joints={"elbow": "joint4"}))
    targets = [p.target for p in named.family().parameters]
    assert targets == ["world/-/actuator_delay", "world/shoulder/backlash", "world/joint4/backlash"]


def test_the_same_logs_give_the_same_numbers(logs, ledger):
    again = measure_arm(logs, SETTINGS, seed=0).to_json()
    assert again["motions"] == ledger.to_json()["motions"]
    other = measure_arm(logs, SETTINGS, seed=1).to_json()
    for name, motion in other["motions"].items():
        for joint, record in motion["joints"].items():
            assert record["lag_s"]["value"] == again["motions"][name]["joints"][joint]["lag_s"]["value"]


def test_the_command_line_takes_a_folder(logs, tmp_path, capsys):
    assert main(["ledger", "report", str(logs), f"out={tmp_path}", "arm.draws=50"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["motions"] == ["repeats", "wander"]
    assert Path(shown["page"]).is_file()
    assert main(["ledger", "report"]) == 1
    assert "ledger report LOGDIR out=DIR" in capsys.readouterr().err
    assert main(["ledger", "report", str(tmp_path / "nothing")]) == 1
    assert "is no folder of logs" in capsys.readouterr().err


@pytest.mark.skipif(not DATA.is_dir(), reason="needs $DEXPRIOR_DATA (so101): logs of a real arm")
def test_a_real_arm_is_late_by_a_tenth_of_a_second():
    """The bounds are wider than those of its data card: lags mostly 80 to 120 ms, 9.83 s a repeat."""
    ledger = measure_arm(DATA, ArmReportConfig(draws=50))
    assert len(ledger.motions) == 9
    assert not ledger.refused
    for joint in ledger.joints:
        lag = ledger.pooled(joint)["lag_s"]
        assert 0.07 < lag["median"] < 0.13
        assert (lag["interval"] is None) == (lag["motions"] < 6)  # fewer have no 95 % interval of their median
        low, high = lag["interval"] or (lag["lowest"], lag["highest"])
        assert low <= lag["median"] <= high
    repeats = next(m for m in ledger.motions if m.log.name == "repetitive_motion")
    rotation = repeats.joints[0]
    assert rotation.floor.repeats == pytest.approx(20, abs=1)
    assert rotation.floor.period == pytest.approx(9.83, abs=0.01)
    assert rotation.floor.scale.value < rotation.left < rotation.raw
    jaw = repeats.joints[-1]
    assert jaw.lag.lag is None
    assert "not commanded" in jaw.lag.reason
