"""The hardware path over a Franka's real protocol: the maker's client, and an emulator that others wrote."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from motion_checker import beyond

from dexprior.envs.base import RobotCommand
from dexprior.envs.hardware import HardwareBackend, HardwareOptions, start_gate
from dexprior.envs.hardware.franka import FR3, read_trip
from dexprior.envs.panel import Panel
from dexprior.envs.tasks import TaskEnv
from dexprior.errors import BadInput, ConnectionLost, SafetyStop
from dexprior.worlds.tasks import make_task

pytestmark = pytest.mark.slow
TASK = make_task("insertion").other()


@pytest.fixture(scope="module")
def address():
    emulator = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("emulated_franka.py"))], stdout=subprocess.PIPE, text=True
    )
    assert emulator.stdout is not None
    yield emulator.stdout.readline().strip()
    emulator.kill()
    emulator.wait()


@pytest.fixture
def cell(address, tmp_path):
    options = HardwareOptions(driver="franka", address=address, realtime_kernel=False, keep=str(tmp_path))
    gate = start_gate(options, task=TASK)
    backend = HardwareBackend(gate)
    yield backend, gate
    backend.close()


@pytest.fixture(scope="module")
def panel():
    return Panel.sample("franka", TASK, 1, seed=0)


def command(vx=0.0, vy=0.0, vz=0.0, turn=0.0, opening=0.08):
    return [RobotCommand(arm=np.array([[vx, vy, vz, 0.0, 0.0, turn]]), end=np.full((1, 2), opening / 2))]


def test_a_rollout_keeps_to_the_limits_and_to_its_path(cell, panel, tmp_path):
    backend, _ = cell
    reading = backend.reset(panel)
    assert np.abs(reading.robots[0].q[0] - TASK.layout().rigs[0].home).max() < 0.02
    for _ in range(15):
        backend.step(command())  # the emulator's joints lag behind their targets
    ways = [(0.1, 0.0, 0.05, 0.3), (0.0, 0.15, 0.0, -0.3), (-0.1, -0.15, -0.05, 0.0)]
    for way in ways:
        for _ in range(12):
            reading = backend.step(command(*way, opening=0.05))
    for _ in range(15):
        reading = backend.step(command(opening=0.05))
    rows, why = read_trip(tmp_path / "franka.link")
    assert why == ""
    assert not beyond(rows["sent"], rows["cycles"], FR3)
    assert np.linalg.norm(rows["sent"][:, :3], axis=1).max() > 0.15
    assert rows["success"][-1] == 1.0
    first = int(np.flatnonzero(rows["asked"].any(axis=1))[0])
    # the tool lies on the vertical through the end effector's origin, about which it was turned
    way = (rows["sent"][:, :3] * rows["cycles"][:, None] * 1e-3)[first:].sum(axis=0)
    moved = rows["pose"][-1, 12:15] - rows["pose"][first, 12:15]
    assert np.abs(moved - way).max() < 1e-3
    assert np.linalg.norm(way) > 5e-3
    assert reading.robots[0].end[0].sum() == pytest.approx(0.05, abs=2e-3)


def test_a_stop_is_latched_until_somebody_recovers_it(cell, panel, tmp_path):
    backend, _ = cell
    backend.reset(panel)
    for _ in range(8):
        backend.step(command(vy=0.1))
    backend.emergency_stop("a person said so")
    with pytest.raises(SafetyStop, match="a person said so"):
        backend.step(command(vy=0.1))
    with pytest.raises(SafetyStop, match="look at it, then reset the gate"):
        backend.reset(panel)
    rows, _ = read_trip(tmp_path / "franka.link")
    assert not beyond(rows["sent"], rows["cycles"], FR3)
    backend.recover(by="test")
    backend.reset(panel)
    before = backend.step(command()).robots[0].tcp[0]
    for _ in range(8):
        reading = backend.step(command(vy=0.1))
    assert (reading.robots[0].tcp[0] - before)[1] > 0.01


def test_numbers_that_are_not_finite_stop_the_robot(cell, panel, tmp_path):
    backend, _ = cell
    backend.reset(panel)
    for _ in range(5):
        backend.step(command(vx=0.1))
    with pytest.raises(SafetyStop, match="finite"):
        backend.step(command(vx=np.nan))
    time.sleep(1.0)
    rows, _ = read_trip(tmp_path / "franka.link")
    assert np.abs(rows["qd"][-1]).max() < 0.02
    assert not beyond(rows["sent"], rows["cycles"], FR3)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_it_slows_down_when_its_gate_is_killed_or_frozen(cell, panel, tmp_path, how):
    backend, gate = cell
    backend.reset(panel)
    for _ in range(10):
        backend.step(command(vx=0.1))
    count = len(read_trip(tmp_path / "franka.link")[0]["t"])
    killed = time.monotonic()
    os.kill(gate.pid, how)
    deadline = killed + 30.0
    while time.monotonic() < deadline:
        rows, why = read_trip(tmp_path / "franka.link")
        if not rows["sent"][-1].any() and not rows["asked"][-1].any():
            break
        time.sleep(0.05)
    after = rows["host"] > killed
    speed = np.linalg.norm(rows["sent"][:, :3], axis=1)
    t = rows["t"][after] - rows["t"][after][0]
    slower = np.flatnonzero(np.diff(speed[after]) < -1e-6)
    assert len(slower)
    longest = 0.02 if how == signal.SIGKILL else 2.5 * TASK.control_dt
    assert t[slower[0]] <= longest
    assert speed[-1] == 0.0
    assert speed[after][0] > 0.09
    assert not beyond(rows["sent"], rows["cycles"], FR3)
    assert count
    if how == signal.SIGKILL:
        assert why == "the gate's process is gone"
        with pytest.raises(ConnectionLost):
            backend.step(command(vx=0.1))
    else:
        os.kill(gate.pid, signal.SIGCONT)


def test_a_policy_that_sees_clouds_is_told_that_there_is_no_camera(cell, panel):
    backend, _ = cell
    env = TaskEnv(TASK, backend=backend, panel=panel)
    with pytest.raises(BadInput, match="this cell's camera shows 0 points of the objects, the task has"):
        env.reset(options={"instance": 0})
