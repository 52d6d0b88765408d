"""A Franka's loop against an emulator of its protocol: limits, path, the cycle's cost, and kills; JSON lines.

    python benchmarks/franka.py seconds=600 kills=100

The emulator (franky-sim) runs beside it and is paced by the client, so that seconds are the robot's. `cycles_beyond`:
cycles whose twist, or what changed it, exceeds one of the maker's limits by a checker of its own. `path_mm`: largest
distance, at rest, between where the tool came and the sum of what was sent. `kill_ms`: on the robot's clock, from the
kill of the gate's process to the first twist that is slower.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from dexprior.envs.base import RobotCommand
from dexprior.envs.hardware import HardwareBackend, HardwareOptions, gate_config, start_gate
from dexprior.envs.hardware.franka import FR3, FrankaDriver, read_trip
from dexprior.envs.panel import Panel
from dexprior.types import Command
from dexprior.worlds.tasks import make_task

TESTS = Path(__file__).parents[1] / "tests" / "envs"
sys.path.append(str(TESTS))
from motion_checker import beyond  # noqa: E402  # the tests' checker, which knows nothing of what shapes the motion

TASK = make_task("insertion").other()


def told(name: str, **values: object) -> None:
    print(json.dumps({"benchmark": name, **values}), flush=True)


def drive(address: str, seconds: float) -> None:
    """Random twists between rests, through the driver."""
    options = HardwareOptions(driver="franka", address=address, realtime_kernel=False)
    with tempfile.TemporaryDirectory() as folder:
        driver = FrankaDriver(
            address, gate=gate_config(TASK, options.limits), home=TASK.layout().rigs[0].home, realtime=False,
            keep=Path(folder),
        )  # fmt: skip
        driver.connect()
        link = Path(folder) / "franka.link"
        rng, seq, cycles, wrong, cost, paths = np.random.default_rng(0), 0, 0, 0, [], []
        began, lost, aborted = time.monotonic(), 0, 0
        while cycles < 1000 * seconds:
            driver.prepare(Panel.sample("drive", TASK, 1, seed=0))
            ways = rng.normal(size=(5, 6)) * ([0.08] * 3 + [0.25] * 3)
            ways[:, 2] = np.abs(ways[:, 2]) * 0.5  # away from the table
            ways[:, 3:5] = 0.0  # about the vertical, on which both origins lie
            there, back = np.repeat(ways, 6, axis=0), np.repeat(-ways, 6, axis=0)  # all of it within the record
            for twist in (*np.zeros((22, 6)), *there, *back, *np.zeros((15, 6))):
                command = Command(seq=seq, t=time.monotonic(), mode="cartesian_velocity", value=twist)
                driver.send(command)
                seq += 1
                aborted += driver.read().status == "stopped"
            rows, why = read_trip(link)
            assert not why, why
            first = int(np.flatnonzero(rows["asked"].any(axis=1))[0])
            wrong += len(beyond(rows["sent"], rows["cycles"], FR3))
            place = rows["pose"][:, 12:15]
            paths.append(np.linalg.norm(place[-1] - place[first] - _way(rows, first)))
            cost += rows["cost"][first:].tolist()
            cycles += len(rows["t"]) - first
            lost += int((rows["cycles"][first:] > 1).sum())
        driver.close()
    p50, p999 = np.percentile(cost, [50, 99.9])
    told(
        "drive", robot_s=round(cycles / 1000, 1), wall_s=round(time.monotonic() - began, 1), limits_exceeded=wrong,
        aborted=aborted, lost_cycles=lost, path_mm=round(1e3 * max(paths), 2), rests=len(paths),
        cost_ms={"p50": round(1e3 * p50, 3), "p99.9": round(1e3 * p999, 3)},
    )  # fmt: skip


def _way(rows: dict[str, np.ndarray], first: int) -> np.ndarray:
    """Way of the end effector's origin by what was sent; the emulator's is the tool centre point."""
    return (rows["sent"][first:, :3] * rows["cycles"][first:, None] * 1e-3).sum(axis=0)


def kill(address: str, how: signal.Signals, rng: np.random.Generator) -> float:
    """Milliseconds on the robot's clock until it is slower, after its gate was killed or frozen on the way."""
    with tempfile.TemporaryDirectory() as folder:
        gate = start_gate(
            HardwareOptions(driver="franka", address=address, realtime_kernel=False, keep=folder), task=TASK
        )
        backend = HardwareBackend(gate)
        backend.reset(Panel.sample("kill", TASK, 1, seed=0))
        arm, end = np.array([[0.1, 0.0, 0.0, 0.0, 0.0, 0.0]]), np.full((1, 2), 0.04)
        for _ in range(int(rng.integers(6, 14))):
            backend.step([RobotCommand(arm=arm, end=end)])
        killed = time.monotonic()
        os.kill(gate.pid, how)
        rows, _ = read_trip(Path(folder) / "franka.link")
        while rows["sent"][-1].any() and time.monotonic() < killed + 30.0:
            time.sleep(0.05)
            rows, _ = read_trip(Path(folder) / "franka.link")
        if how == signal.SIGSTOP:
            os.kill(gate.pid, signal.SIGCONT)
        backend.close()
    after = rows["host"] > killed
    slower = np.flatnonzero(np.diff(np.linalg.norm(rows["sent"][after][:, :3], axis=1)) < -1e-9)
    return float(1e3 * (rows["t"][after][slower[0]] - rows["t"][after][0])) if len(slower) else float("inf")


def main() -> None:
    """Drive, then kill."""
    asked = dict(word.split("=") for word in sys.argv[1:])
    emulator = subprocess.Popen([sys.executable, str(TESTS / "emulated_franka.py")], stdout=subprocess.PIPE, text=True)
    assert emulator.stdout is not None
    address = emulator.stdout.readline().strip()
    try:
        drive(address, float(asked.get("seconds", 60)))
        rng = np.random.default_rng(0)
        for how in (signal.SIGKILL, signal.SIGSTOP) if int(asked.get("kills", 5)) else ():
            found = [kill(address, how, rng) for _ in range(int(asked.get("kills", 5)))]
            told("kill", how=how.name, trials=len(found), ms={"median": float(np.median(found)), "largest": max(found)})
    finally:
        emulator.kill()


if __name__ == "__main__":
    main()
