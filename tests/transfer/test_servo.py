"""Friction of a servo: logs are checked, a known servo is recovered, and its band is honest about unseen logs."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dexprior.cli.main import main
from dexprior.errors import ArtifactError, BadInput
from dexprior.transfer.servo import (
    SERVO_FAMILY,
    ServoBatch,
    ServoFitConfig,
    fit_servo,
    published_friction,
    read_fit,
    read_servo_log,
    read_servo_logs,
    score_servo,
    simulate,
)

DATA = Path(os.environ.get("DEXPRIOR_DATA", "")) / "servo_bam"
TRUTH = {
    "torque_constant": 0.36, "resistance": 2.8, "armature": 0.0018, "offset": 0.02, "base": 0.004, "load_motor": 0.25,
    "load_external": 0.06, "stribeck": 0.5, "stribeck_speed": 1.5, "viscous": 0.008, "gain": 1.05, "delay": 0.006,
    "heating": 0.004, "sag": 0.1,
}  # fmt: skip
QUICK = ServoFitConfig(population=16, generations=25, folds=2, substeps=1)


def values(**changed) -> np.ndarray:
    return np.array([(TRUTH | changed)[name] for name in SERVO_FAMILY.names])


def entries(goal, enabled=None, dt: float = 0.005) -> dict:
    """A log's JSON with these goals and nothing yet of what happened."""
    n = len(goal)
    enabled = np.ones(n, bool) if enabled is None else enabled
    rows = [
        {
            "timestamp": k * dt, "position": 0.0, "goal_position": float(goal[k]), "speed": 0.0,
            "torque_enable": bool(enabled[k]), "input_volts": 7.3, "temp": 31.0, "load": 65535,
        }
        for k in range(n)
    ]  # fmt: skip
    return {"mass": 0.49, "length": 0.1, "kp": 400, "vin": 7.4, "dt": dt, "entries": rows}


def write(path: Path, data: dict) -> Path:
    path.write_bytes(gzip.compress(json.dumps(data).encode(), mtime=0))
    return path


def bench(folder: Path, count: int, seed: int) -> list:
    """Logs of the servo `TRUTH`, with encoder noise."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    t = np.arange(240) * 0.005
    for k in range(count):
        goal = rng.uniform(0.5, 1.6) * np.sin(2 * np.pi * rng.uniform(0.4, 1.5) * t)
        data = entries(goal) | {"kp": int(rng.choice([100, 200, 400, 800]))}
        log = read_servo_log(write(folder / f"{k}.json.gz", data))
        run = simulate(values()[None], ServoBatch.of([log]))[0, 0] + rng.normal(0, 0.001, len(log))
        for row, position in zip(data["entries"], run):
            row["position"] = float(position)
        write(folder / f"{k}.json.gz", data)
    return read_servo_logs(folder)


def test_a_servo_without_friction_swings_like_a_pendulum():
    """Small swings of a free pendulum keep the period 2 pi sqrt(J / (m g l)) and their height."""
    free = values(base=0, load_motor=0, load_external=0, viscous=0, offset=0)
    n = 2000
    log = replace(_log(np.zeros(n), np.zeros(n, bool)), position=np.full(n, 0.05))
    run = simulate(free[None], ServoBatch.of([log]), substeps=8)[0, 0]
    period = 2 * np.pi * np.sqrt((0.49 * 0.01 + 0.0018) / (0.49 * 9.81 * 0.1))
    crossings = np.flatnonzero((run[:-1] > 0) & (run[1:] <= 0)) * 0.005
    assert np.diff(crossings).mean() == pytest.approx(period, rel=0.01)
    assert np.abs(run[-400:]).max() == pytest.approx(0.05, rel=0.05)


def test_dry_friction_holds_what_gravity_cannot_move():
    weight = 0.49 * 9.81 * 0.1
    n = 400
    for angle, moves in ((0.5, False), (1.2, True)):
        log = replace(_log(np.zeros(n), np.zeros(n, bool)), position=np.full(n, angle))
        still = values(base=weight * np.sin(0.8), load_motor=0, load_external=0, stribeck=0, offset=0)
        run = simulate(still[None], ServoBatch.of([log]))[0, 0]
        assert (np.abs(run - angle).max() > 1e-9) == moves


def test_delay_shifts_the_answer_and_what_is_off_is_not_driven():
    n = 400
    goal = np.where(np.arange(n) < 100, 0.0, 1.0)
    runs = {d: simulate(values(delay=d)[None], ServoBatch.of([_log(goal)]), substeps=1)[0, 0] for d in (0.0, 0.05)}
    np.testing.assert_allclose(runs[0.05][10:], runs[0.0][:-10], atol=2e-3)
    off = simulate(values()[None], ServoBatch.of([_log(goal, np.zeros(n, bool))]))[0, 0]
    assert np.abs(off).max() < 0.03  # it hangs a little askew
    assert runs[0.0].max() > 0.3


def test_candidates_and_logs_do_not_depend_on_each_other():
    a, b = _log(np.ones(300)), _log(0.5 * np.ones(200))
    together = simulate(np.stack([values(), values(base=0.02)]), ServoBatch.of([a, b]))
    np.testing.assert_array_equal(together[1, 1, :200], simulate(values(base=0.02)[None], ServoBatch.of([b]))[0, 0])


def test_a_known_servo_is_recovered_and_new_logs_lie_in_its_band(tmp_path):
    train, test = bench(tmp_path / "train", 4, 0), bench(tmp_path / "test", 3, 1)
    fit = fit_servo(train, QUICK, seed=0)
    result = score_servo(fit, test)
    crude = np.mean([np.abs(log.position).mean() for log in test])
    assert result["error"] < 0.15 * crude
    assert result["coverage"] > 0.7
    again = fit_servo(train, QUICK, seed=0)
    np.testing.assert_array_equal(again.parameters, fit.parameters)
    read = read_fit(fit.save(tmp_path / "fit.json"))
    np.testing.assert_array_equal(read.members, fit.members)
    assert score_servo(read, test) == result
    # the friction of heat cannot be told from these logs, which are all equally warm
    told = fit.identified()
    assert not told["heating"]["identifiable"]
    assert told["heating"]["interval"] is None
    low, high = told["armature"]["interval"]
    assert low < TRUTH["armature"] < high


def test_the_verb_writes_result_and_fit(tmp_path, capsys):
    bench(tmp_path / "train", 2, 0)
    bench(tmp_path / "test", 1, 1)
    m1 = {"kt": 0.36, "R": 2.8, "armature": 0.0018, "q_offset": 0.02, "friction_base": 0.02, "friction_viscous": 0.005}
    (tmp_path / "m1.json").write_text(json.dumps(m1))
    quick = ["servo.population=8", "servo.generations=2", "servo.folds=2", "servo.substeps=1"]
    arguments = [f"train={tmp_path / 'train'}", f"test={tmp_path / 'test'}", f"out={tmp_path / 'result.json'}"]
    assert main(["ledger", "fit-servo", *arguments, f"published={tmp_path / 'm1.json'}", *quick]) == 0
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["ratio"] == pytest.approx(result["error"] / result["published"])
    assert set(result["parameters"]) == set(SERVO_FAMILY.names)
    assert json.loads(capsys.readouterr().out) == result
    assert read_fit(tmp_path / "result-fit.json").members.shape == (2, len(SERVO_FAMILY.names))


@pytest.mark.skipif(not DATA.is_dir(), reason="needs $DEXPRIOR_DATA (servo_bam)")
def test_the_published_model_scores_what_is_published():
    logs = read_servo_logs(DATA / "processed")
    batch = ServoBatch.of(logs, nominal=True)
    m1 = published_friction(json.loads((DATA / "params" / "xl330" / "m1.json").read_text()))
    run = simulate(m1[None], batch, substeps=1)[0]
    errors = [np.abs(run[k, : len(log)] - log.position).mean() for k, log in enumerate(logs)]
    assert np.mean(errors) == pytest.approx(0.0925, abs=1e-4)
    assert [round(min(errors), 3), round(max(errors), 3)] == [0.026, 0.192]
    raw = read_servo_logs(DATA / "raw")  # resampled here
    for ours, theirs in zip(raw, logs):
        n = min(len(ours), len(theirs))
        assert np.abs(ours.position[:n] - theirs.position[:n]).mean() < 0.015  # theirs starts some ms later


def _log(goal, enabled=None):
    n = len(goal)
    from dexprior.transfer.servo import ServoLog

    return ServoLog(
        name="made", dt=0.005, mass=0.49, length=0.1, kp=400.0, supply=7.4, position=np.zeros(n), velocity=np.zeros(n),
        goal=np.asarray(goal, float), enabled=np.ones(n, bool) if enabled is None else enabled,
        volts=np.full(n, 7.3), temperature=np.full(n, 31.0),
    )  # fmt: skip


def _broken(change) -> bytes:
    data = entries(np.zeros(50))
    change(data)
    return gzip.compress(json.dumps(data).encode(), mtime=0)


def _set(key, value, row=7):
    return lambda data: data["entries"][row].__setitem__(key, value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"{}", mtime=0)[:-5], "truncated"),
        (b"not gzipped", "truncated or damaged"),
        (gzip.compress(b"[1]", mtime=0), "expected a JSON object"),
        (_broken(lambda d: d.pop("kp")), "no kp"),
        (_broken(lambda d: d.update(mass=-1)), "mass = -1.0 must be positive"),
        (_broken(lambda d: d.update(length="long")), "length = 'long': expected a number"),
        (_broken(lambda d: d.update(entries=[])), "fewer than ten entries"),
        (_broken(lambda d: d["entries"][7].pop("speed")), "entry 7 has no speed"),
        (_broken(_set("position", "north")), "found 'north'"),
        (_broken(_set("position", float("nan"))), "position is not finite at entry 7"),
        (_broken(_set("position", 170.0)), "not radians"),
        (_broken(_set("timestamp", 0.001)), "time runs backwards"),
        (_broken(lambda d: [r.update(timestamp=r["timestamp"] + 1) for r in d["entries"][20:]]), "a pause of 1.005 s"),
        (_broken(lambda d: d.update(dt=0.01)), "says dt = 0.01"),
    ],
)
def test_a_log_that_cannot_be_used_is_named(tmp_path, content, message):
    path = tmp_path / "log.json.gz"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=message) as caught:
        read_servo_log(path)
    assert "log.json.gz" in str(caught.value)


def test_folders_and_settings_that_do_not_fit_are_named(tmp_path, capsys):
    with pytest.raises(BadInput, match="holds no log"):
        read_servo_logs(tmp_path)
    with pytest.raises(BadInput, match="2 logs cannot be left out in 4 folds"):
        fit_servo([_log(np.zeros(20))] * 2, ServoFitConfig(), seed=0)
    with pytest.raises(BadInput, match=r"time steps of \[0.005, 0.01\]"):
        ServoBatch.of([_log(np.zeros(20)), replace(_log(np.zeros(20)), dt=0.01)])
    with pytest.raises(BadInput, match=r"lacks \['R'"):
        published_friction({"kt": 1.0})
    (tmp_path / "fit.json").write_text("{}")
    with pytest.raises(ArtifactError, match="not a fit of a servo"):
        read_fit(tmp_path / "fit.json")
    assert main(["ledger", "fit-servo", f"train={tmp_path}"]) == 1
    assert "give train=DIR test=DIR" in capsys.readouterr().err
    assert main(["ledger", "polish"]) == 1
    assert "fit-servo" in capsys.readouterr().err


def test_a_published_model_that_cannot_be_read_is_found_before_the_fit(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("dexprior.transfer.servo.read_servo_logs", lambda folder: [])
    monkeypatch.setattr("dexprior.transfer.servo.fit_servo", lambda *_, **__: pytest.fail("fitted for nothing"))
    words = ["train=a", "test=b", f"out={tmp_path / 'r.json'}", f"published={tmp_path / 'm1.json'}"]
    assert main(["ledger", "fit-servo", *words]) == 1
    assert f"{tmp_path / 'm1.json'}: no such file" in capsys.readouterr().err
