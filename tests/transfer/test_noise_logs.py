"""Logs of sensors at rest: what is read, what is refused, and the command that fits them."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from dexprior.cli.main import main
from dexprior.config import validate
from dexprior.errors import BadInput
from dexprior.families import ParameterFamily, SensorModels
from dexprior.families.sensors import ForceTorque, ForceTorqueConfig, Imu, ImuConfig
from dexprior.transfer.noise import COLUMNS, find_logs, fit_noise, kind_of, read_still_log

_DT = 0.01


def _write(path: Path, kind: str, *, samples: int = 3000, **changes: object) -> Path:
    """A log; `changes` replace columns, or take them out where None."""
    if kind == "imu":
        values = Imu(ImuConfig(), 1, _DT).run(np.tile([0, 0, 0, 0, 0, 9.81], (1, samples, 1)))[0]
    else:
        values = ForceTorque(ForceTorqueConfig(step=(0.0,) * 6), 1, _DT).run(np.zeros((1, samples, 6)))[0]
    t = np.arange(samples) * _DT + np.random.default_rng(0).normal(scale=1e-4, size=samples)
    table = {"t": t, **dict(zip(COLUMNS[kind], values.T))} | changes
    table = {name: column for name, column in table.items() if column is not None}
    rows = zip(*(np.asarray(column).tolist() for column in table.values()))
    text = ",".join(table) + "\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def test_a_log_is_read_with_its_kind(tmp_path):
    path = _write(tmp_path / "wrist.csv.gz", "force_torque", extra=np.zeros(3000))
    assert kind_of(path) == "force_torque"
    log = read_still_log(path, "force_torque")
    assert log.values.shape == (3000, 6)
    assert log.t[0] == 0
    assert log.units[:4] == ("N", "N", "N", "N m")
    assert kind_of(_write(tmp_path / "imu.csv", "imu")) == "imu"
    assert [kind for kind, _ in find_logs(tmp_path)] == ["imu", "force_torque"]


_T = np.arange(3000) * _DT


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("force_torque", {"fz": None}, "no column fz"),
        ("imu", {"t": None}, "no column t"),
        ("imu", {"gx": np.where(np.arange(3000) == 7, np.nan, 0.0)}, "gx is not finite at record 8"),
        ("force_torque", {"fx": np.full(3000, 2.1e6)}, "raw counts"),
        ("imu", {"gy": np.full(3000, 40.0)}, "gy reaches 40"),
        ("imu", {"az": np.full(3000, 1.0), "ax": np.zeros(3000), "ay": np.zeros(3000)}, "units of g"),
        ("imu", {"az": np.full(3000, 4.0)}, "gravity is 9.81"),
        ("force_torque", {"t": _T * 1e3}, "no seconds"),
        ("force_torque", {"t": _T * 1e6}, "no seconds"),
        ("force_torque", {"t": _T + np.where(np.arange(3000) > 1500, 3.0, 0.0)}, r"jumps by 3\.010 s at record 1502"),
        ("force_torque", {"t": _T - np.where(np.arange(3000) > 1500, 3.0, 0.0)}, "jumps back"),
    ],
)
def test_what_is_no_log_of_a_sensor_at_rest_is_refused(tmp_path, kind, changes, message):
    path = _write(tmp_path / "log.csv", kind, **changes)
    with pytest.raises(BadInput, match=message):
        read_still_log(path, kind)


def test_short_empty_and_foreign_logs_are_refused(tmp_path):
    with pytest.raises(BadInput, match="40 samples"):
        read_still_log(_write(tmp_path / "short.csv", "imu", samples=40), "imu")
    (tmp_path / "odd.csv").write_text("time,volts\n0,1\n1,2\n")
    with pytest.raises(BadInput, match="of no known log"):
        fit_noise(tmp_path / "odd.csv")
    (tmp_path / "none").mkdir()
    with pytest.raises(BadInput, match="holds no log"):
        fit_noise(tmp_path / "none")
    with pytest.raises(BadInput, match="no log at"):
        fit_noise(tmp_path / "missing.csv")


def test_the_command_writes_result_family_and_models(tmp_path, capsys):
    (tmp_path / "logs").mkdir()
    _write(tmp_path / "logs/wrist.csv", "force_torque", samples=4000)
    keep = np.ones(2000, dtype=bool)
    keep[np.random.default_rng(1).integers(10, 1990, 30)] = False
    _write(tmp_path / "logs/bad.csv", "imu", ax=np.full(3000, np.nan))
    assert main(["ledger", "fit-noise", str(tmp_path / "logs"), f"out={tmp_path / 'out/noise.json'}"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["logs"] == ["wrist"]
    result = json.loads((tmp_path / "out/noise.json").read_text())
    assert "ax is not finite" in result["refused"]["bad.csv"]
    white = result["logs"]["wrist"]["channels"]["fx"]["white"]
    assert white["interval"][0] < 0.005 < white["interval"][1]
    for channel in result["logs"]["wrist"]["channels"].values():
        for fit in channel.values():
            assert (fit["interval"] is None) == (not fit["identifiable"])
    family = ParameterFamily.read(tmp_path / "out/noise-family.json")
    assert family.names == ("wrench_noise",)
    assert family.parameters[0].mean == pytest.approx(0.05, rel=0.1)
    assert family.parameters[0].provenance == "fitted"
    models = validate(SensorModels, json.loads((tmp_path / "out/noise-sensors.json").read_text()))
    assert models.force_torque is not None
    assert models.force_torque.white[0] == pytest.approx(0.005, rel=0.1)
    assert models.observation is not None


def test_the_command_says_what_it_needs(tmp_path, capsys):
    assert main(["ledger", "fit-noise"]) != 0
    assert "fit-noise LOG out=RESULT.json" in capsys.readouterr().err
    assert main(["ledger", "fit-noise", str(tmp_path), "out=folder"]) != 0


def test_missing_packets_leave_the_longest_stretch(tmp_path):
    kept = np.delete(np.arange(4000), [100, 101, 3000])
    source = _write(tmp_path / "whole.csv", "force_torque", samples=4000)
    lines = source.read_text().splitlines()
    (tmp_path / "cut.csv").write_text("\n".join([lines[0], *(lines[k + 1] for k in kept)]) + "\n")
    log = fit_noise(tmp_path / "cut.csv").logs[0]
    assert "2898 of 3997 samples" in log.notes[0]
    stop = next(p for p in log.links["log"] if p.name == "stop")
    assert stop.value == pytest.approx(2 / 3)


@pytest.mark.skipif("DEXPRIOR_DATA" not in os.environ, reason="needs measured data: set DEXPRIOR_DATA")
def test_real_encoders_have_4096_steps_and_resampled_logs_hide_theirs():
    data = Path(os.environ["DEXPRIOR_DATA"])
    raw = fit_noise(sorted((data / "servo_bam/raw").iterdir())[0]).logs[0]
    step = raw.channels["position"][0]
    assert step.value == pytest.approx(2 * np.pi / 4096, rel=1e-6)
    even = fit_noise(sorted((data / "servo_bam/processed").iterdir())[0]).logs[0]
    assert not any(p.identifiable for fits in (*even.links.values(), *even.channels.values()) for p in fits)
