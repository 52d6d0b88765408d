"""The safety gate measured: policies that die while the robot moves, whole episodes, the cost of a tick, and a fuzz.

    python benchmarks/gate.py --kills 100            SIGKILL, SIGSTOP and a cut link, a hundred a speed
    python benchmarks/gate.py --contact 100          the same at the table, on the way to it and pressing on it
    python benchmarks/gate.py --episodes 50 [ACTOR]  the scripted expert, and a policy, behind the gate and without it
    python benchmarks/gate.py --paired 64 pick_place runs/line/06-policy
                                                     a task's expert, a bank (04-behavior) or an actor, with and without
    python benchmarks/gate.py --ticks 20000          CPU time of one judged command and one judged state
    python benchmarks/gate.py --fuzz 1000000         against the reference of tests/envs/gate_reference.py

JSON lines. A kill is a trial: a policy in a process of its own drives towards the table; after the k-th command that
the gate passed (k random, every third time the last one that it passes), and a delay of up to a period, it dies. The
robot runs in real time; its largest force in the second afterwards is read by an observer of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is imported

import numpy as np

from dexprior.envs import make_backend, wire
from dexprior.envs.base import FirstLook, ObservationSpec
from dexprior.envs.hardware import GateConfig, HardwareOptions, SafetyGate, gate_config, start_gate
from dexprior.envs.hardware.loopback import PROTOCOL as ROBOT
from dexprior.envs.hardware.loopback import VERSION as ROBOT_VERSION
from dexprior.envs.hardware.options import PROTOCOL, VERSION
from dexprior.envs.messages import instance_to_plain
from dexprior.envs.panel import Panel
from dexprior.envs.processes import ServerProcess
from dexprior.envs.session import Session
from dexprior.errors import BadInput, ConnectionLost, SafetyStop
from dexprior.types import Command
from dexprior.worlds.tasks import make_task

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "envs"))  # the reference and the scripted expert

DOWN = ((0.0, 0.0, -1.0), (0.6, 0.0, -0.8), (-0.6, 0.0, -0.8), (0.0, 0.6, -0.8), (0.0, -0.6, -0.8))
KINDS = ("SIGKILL", "SIGSTOP", "cut")
TASK = make_task("insertion")
SCENE = replace(
    Panel.sample("cell", TASK, 1, seed=0),
    scenes={"nut": np.array([[0.42, -0.14, 0.0]]), "bolt": np.array([[0.46, 0.1, 0.0]]), "yaw": np.zeros(1)},
)
PERIOD = 0.04
PRESS = 8.0  # [N] below which a policy in contact goes on at the contact speed
RECENT = 0.2  # [s] whose largest force is the one before a kill: pads bounce on a rigid table
TOUCH = 3.0  # [N] on the table; the arm's own inertia stays below it at the contact speed
TOUCHING = 0.0115  # [m] height of the tool with the pads on the table
AFTER = 1.0  # [s] that is watched after a kill


# --- a policy that will die ---------------------------------------------------------------------------------


def drive(host: str, port: int, velocity: tuple[float, ...], contact: bool) -> None:
    """Drive at a velocity while the gate passes it, saying so on stdout; in contact, go down gently and press on."""
    session = Session((host, port), (PROTOCOL, VERSION), timeout=5.0, peer="gate")
    gate = GateConfig(**_gate(session))
    envelope = gate.envelope(PERIOD)
    state = session.request({"type": "prepare", "succeeded": None} | instance_to_plain(SCENE))
    seq = 0
    while True:
        asked = velocity
        if contact:
            place = tuple(state["tcp"][:3])
            fast = envelope.fastest(place, (0.0, 0.0, -0.4), 0.05)
            pressed = float(np.linalg.norm(state["wrench"][:3])) > PRESS and place[2] < TOUCHING
            asked = (0.0, 0.0, 0.0 if pressed else -max(min(fast, 0.4) - 1e-6, gate.contact_speed))
        command = Command(
            seq=seq, t=time.monotonic(), mode="cartesian_velocity", value=np.array([*asked, 0, 0, 0]), gripper=0.0
        )
        try:
            said = session.request({"type": "command", "command": wire.command_to_plain(command)})["evidence"]
            print(said["verdict"], seq, said["rule"], flush=True)
            state = session.request({"type": "read"})
        except (SafetyStop, BadInput, ConnectionLost) as error:
            print("stopped", seq, str(error).replace("\n", " "), flush=True)
            break
        seq += 1
    time.sleep(60)


def _gate(session: Session) -> dict[str, Any]:
    from dexprior.config import to_plain, validate

    found = validate(GateConfig, session.told("gate", dict))
    return {name: getattr(found, name) for name in to_plain(found)}


class Link:
    """A cable between a policy and the gate that can be cut: nothing passes any more, and nobody is told."""

    def __init__(self, to: tuple[str, int]) -> None:
        self._listener, self._to, self._cut = wire.listen(), to, threading.Event()
        self.address = self._listener.getsockname()[:2]
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._run, daemon=True).start()

    def cut(self) -> None:
        """Let nothing pass from now on."""
        self._cut.set()

    def close(self) -> None:
        """Close what is left of it."""
        for end in self._ends:
            with contextlib.suppress(OSError):  # the other side has closed it
                end.shutdown(socket.SHUT_RDWR)  # a thread waits for it: closing alone would wait for that
        for end in (self._listener, *self._ends):
            end.close()

    def _run(self) -> None:
        near, _ = self._listener.accept()
        far = socket.create_connection(self._to)
        self._ends = [near, far]
        for end in self._ends:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for a, b in ((near, far), (far, near)):
            threading.Thread(target=self._pump, args=(a, b), daemon=True).start()

    def _pump(self, a: socket.socket, b: socket.socket) -> None:
        with contextlib.suppress(OSError):  # reset by a dead policy, or closed by `close`
            while part := a.recv(1 << 16):
                if self._cut.is_set():
                    return
                b.sendall(part)
        if not self._cut.is_set():
            with contextlib.suppress(OSError):
                b.shutdown(socket.SHUT_WR)


class Cell:
    """A robot in real time, its gate, and an observer of the robot."""

    def __init__(self) -> None:
        self.robot = ServerProcess("dexprior.envs.hardware.robot", ["--with-parent", "--real-time"])
        self.gate = start_gate(HardwareOptions(real_time=True, port=self.robot.address[1]))
        self._eye = wire.connect(self.robot.address, timeout=5.0, peer="robot")
        wire.greet(self._eye, ROBOT, ROBOT_VERSION)

    def look(self) -> dict[str, Any]:
        """What the robot says now."""
        return self._eye.request({"type": "read"})

    def recover(self) -> None:
        """End a stop, once whoever drove is gone."""
        said = ""
        for _ in range(200):
            session = Session(self.gate.address, (PROTOCOL, VERSION), timeout=5.0, peer="gate")
            try:
                session.request({"type": "recover", "by": "the benchmark"})
                return
            except BadInput as error:  # the gate has not seen the end of the policy yet
                said = str(error)
                time.sleep(0.02)
            finally:
                session.close()
        raise SystemExit(f"the gate did not let go of a policy that ended: {said}")

    def close(self) -> None:
        """End it all."""
        self._eye.close()
        self.gate.close()
        self.robot.close()


def kill_trial(
    cell: Cell, kind: str, velocity: tuple[float, ...], rng: np.random.Generator, *, after: int | None, contact: bool
) -> dict[str, Any]:
    """One policy's end: after its `after`-th passed command, or near the table in contact; None: after the last one."""
    link = Link(cell.gate.address)
    text = json.dumps([*link.address, list(velocity), contact])
    policy = subprocess.Popen([sys.executable, __file__, "--drive", text], stdout=subprocess.PIPE, text=True)
    assert policy.stdout is not None
    passed, rule = -1, ""
    ticks = int(rng.integers(0, 12))  # near the table, after which a policy in contact dies
    touched, felt = False, [(0.0, 0.0)]  # when, and the largest force since the look before [N]

    def look() -> dict[str, Any]:
        state = cell.look()
        felt.append((time.monotonic(), max(state["peak_force"], float(np.linalg.norm(state["wrench"][:3])))))
        return state

    cell.look()
    for line in policy.stdout:
        verdict, number, rule, *_ = line.split()
        if verdict != "pass":
            break
        passed = int(number)
        state = look()
        touched |= state["tcp"][2] < TOUCHING and state["peak_force"] > TOUCH
        ticks -= contact and state["tcp"][2] < TOUCHING
        if (passed == after and not contact) or (contact and ticks < 0):
            break
    time.sleep(float(rng.uniform(0.0, PERIOD)))
    state = look()
    touched |= state["tcp"][2] < TOUCHING and state["peak_force"] > TOUCH
    before = max(force for t, force in felt if t > time.monotonic() - RECENT)
    if kind == "SIGKILL":
        policy.send_signal(signal.SIGKILL)
    elif kind == "SIGSTOP":
        policy.send_signal(signal.SIGSTOP)
    else:
        link.cut()
    end, largest, t0 = time.monotonic() + AFTER, 0.0, time.monotonic()
    still = None
    while time.monotonic() < end:
        state = cell.look()
        largest = max(largest, state["peak_force"])
        if still is None and np.abs(state["qd"]).max() < 0.02:
            still = time.monotonic() - t0
        time.sleep(0.004)
    policy.kill()
    policy.wait()
    link.close()
    cell.recover()
    return {
        "passed": passed, "rule": rule, "touched": touched, "before": before, "largest": largest, "z": state["tcp"][2],
        "still": still, "speed_left": float(np.abs(state["qd"]).max()),
    }  # fmt: skip


def kills(count: int, seed: int) -> None:
    """Print one line a speed and kind of end."""
    rng, cell = np.random.default_rng(seed), Cell()
    for speed in (0.3, 0.9):
        last = {}
        for direction in DOWN:
            velocity = tuple(speed * d for d in direction)
            last[direction] = kill_trial(cell, "SIGKILL", velocity, rng, after=None, contact=False)["passed"]
        found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
        for k in range(count):
            direction, kind = DOWN[k % len(DOWN)], KINDS[(k // len(DOWN)) % len(KINDS)]
            after = last[direction] if k % 3 == 0 else int(rng.integers(0, last[direction] + 1))
            velocity = tuple(speed * d for d in direction)
            found[kind].append(kill_trial(cell, kind, velocity, rng, after=after, contact=False))
        for kind, rows in found.items():
            force = [r["largest"] for r in rows]
            print(json.dumps({
                "name": f"killed at {speed} m/s", "kind": kind, "trials": len(rows),
                "below_60_N": sum(f < 60 for f in force), "largest_N": round(max(force, default=0.0), 1),
                "standing_after_s": round(max((r["still"] or AFTER) for r in rows), 3) if rows else None,
                "lowest_z_m": round(min((r["z"] for r in rows), default=0.0), 4),
                "last_passed": sum(r["passed"] >= 0 for r in rows),
            }), flush=True)  # fmt: skip
    cell.close()


def at_the_table(count: int, seed: int) -> None:
    """Print one line a kind of end, for policies that press on the table and for those just above it."""
    rng, cell = np.random.default_rng(seed), Cell()
    pressed: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for k in range(count):
        kind = KINDS[k % len(KINDS)]
        pressed[kind].append(kill_trial(cell, kind, (0.0, 0.0, -0.05), rng, after=None, contact=True))
    for kind, found_there in pressed.items():
        for touching in (True, False):
            rows = [r for r in found_there if r["touched"] == touching]
            if rows:
                more = [r["largest"] - r["before"] for r in rows]
                before = [r["before"] for r in rows]
                print(json.dumps({
                    "name": "killed while pressing" if touching else "killed just above the table", "kind": kind,
                    "trials": len(rows), "within_10_N": sum(m <= 10 for m in more),
                    "below_60_N": sum(r["largest"] < 60 for r in rows), "largest_rise_N": round(max(more), 1),
                    "median_rise_N": round(float(np.median(more)), 1),
                    "force_before_N": [round(min(before), 1), round(max(before), 1)],
                    "largest_N": round(max(r["largest"] for r in rows), 1),
                }), flush=True)  # fmt: skip
    cell.close()


# --- episodes -----------------------------------------------------------------------------------------------


def episodes(count: int, actor: str | None, seed: int) -> None:
    """Print one line a policy: successes, refusals, stops, slowed commands, largest force."""
    from scripted import ScriptedInsertion

    panel = Panel.sample("gate", TASK, count, seed=seed)
    act = None
    if actor is not None:
        from dexprior.policy.actor import load_actor
        from dexprior.policy.rollout import actor_policy

        act = actor_policy(load_actor(actor))
    for name in ("scripted expert", "policy"):
        if name == "policy" and act is None:
            continue
        for behind in ("hardware", "reality"):
            found = _run(behind, panel, act if name == "policy" else None, ScriptedInsertion)
            where = {"name": name, "behind": "gate" if behind == "hardware" else "no gate"}
            print(json.dumps(where | found), flush=True)


def _run(kind: str, panel: Panel, act: Any, expert: Any) -> dict[str, Any]:
    backend: Any = make_backend(kind)  # type: ignore[arg-type]
    solved, stops, force, verdicts = 0, [], [], Counter()
    for k in range(len(panel)):
        scripted, see, largest, done = expert(backend.actions), ObservationSpec.of(backend), 0.0, False
        try:
            reading, look = backend.reset(panel.take([k])), FirstLook()
            for _ in range(TASK.steps if act is not None else 2 * TASK.steps):
                asked = (
                    None
                    if act is None
                    else backend.actions.commands(act(see.observe(reading, look.see(reading)), reading))
                )
                reading = backend.step(scripted(reading) if asked is None else asked)
                largest = max(largest, float(np.linalg.norm(reading.robots[0].wrench[0, :3])))
                done = bool(TASK.success(reading.truth)[0])
                if done and act is None:
                    break
        except SafetyStop as stop:
            stops.append(str(stop))
            done = False
            backend.recover(by="the benchmark")
        solved += done
        force.append(largest)
        if kind == "hardware":
            verdicts.update(e.verdict for e in backend.evidence(2 * TASK.steps + 2) if e.seq is not None)
    result = {
        "episodes": len(panel), "success": solved, "stops": len(stops), "why": sorted(set(stops))[:3],
        "force_N": {str(p): round(float(np.percentile(force, p)), 1) for p in (50, 95, 100)},
    }  # fmt: skip
    if kind == "hardware":
        result |= {"refused_seen": verdicts["refuse"], "slowed": backend.slowed}
    backend.close()
    return result


# --- ticks and fuzz -----------------------------------------------------------------------------------------


def ticks(count: int) -> None:
    """Print CPU milliseconds of one judged state and command, with a driver that does nothing."""
    from gate_reference import Idle, drift

    gate, driver, spent = SafetyGate(gate_config(TASK, {"session_commands": 10**9})), Idle(), []
    for k in range(count):
        state, command = drift(k)
        start = time.thread_time()
        gate.look(state, driver)
        gate.send(command, driver)
        spent.append(time.thread_time() - start)
    passed = sum(e.verdict == "pass" for e in gate.evidence)
    milliseconds = 1e3 * np.array(spent)
    print(json.dumps({
        "name": "one tick: look and send", "ticks": count, "unit": "ms CPU",
        "passed_of_kept": [passed, len(gate.evidence)],
        **{f"p{p}": round(float(np.percentile(milliseconds, p)), 4) for p in (50, 95, 99)},
        "load": os.getloadavg()[0],
    }))  # fmt: skip


def fuzz(count: int, seed: int) -> None:
    """Print how many random ticks the gate and its reference judged differently, and by which rules."""
    from gate_reference import fuzz as run

    start = time.monotonic()
    found = run(count, seed)
    print(
        json.dumps(
            {"name": "fuzz", "ticks": count, "seed": seed, "seconds": round(time.monotonic() - start, 1)} | found
        )
    )


def paired(count: int, name: str, folder: str | None) -> None:
    """Print one line a world: successes of the same scenes in simulation and behind the gate, and what it did."""
    from dexprior.behavior import BehaviorPrior
    from dexprior.pipeline.ladder import GATED, paired_ratio
    from dexprior.pipeline.worlds import SCORING, judging_worlds
    from dexprior.policy.actor import load_actor
    from dexprior.policy.gated import run_gated
    from dexprior.policy.rollout import actor_policy, expert_policy, prior_policy, run_episodes
    from dexprior.worlds.tasks.suite import SUITE

    task = make_task(name, **SUITE[name].robot)
    scenes = task.sample(np.random.default_rng([SCORING, 0]), count)
    if folder is not None and (Path(folder) / "behavior.safetensors").exists():
        bank = BehaviorPrior.load(Path(folder) / "behavior.safetensors")
        scenes = Panel.load(Path(folder) / "panel.json").take(np.arange(count)).scenes
    actor = (
        None
        if folder is None or not (Path(folder) / "actor.safetensors").exists()
        else load_actor(Path(folder) / "actor.safetensors")
    )

    def act(ids: np.ndarray) -> Any:
        if folder is None:
            return expert_policy(task)
        return prior_policy(bank, ids) if actor is None else actor_policy(actor)

    for world in (judging_worlds(task)[w] for w in GATED):
        panel, backend = world.panel(scenes, seed=SCORING), world.backend(count)
        free = run_episodes(act(np.arange(count)), backend, panel).success
        started = time.monotonic()
        gated = run_gated(act, world.task, panel)
        print(json.dumps({
            "task": name, "who": folder or "expert", "world": world.name, "scenes": count, "free": int(free.sum()),
            "gate": int(gated.success.sum()), "both": int((free & gated.success).sum()),
            "ratio": paired_ratio(free, gated.success), "stops": gated.stops, "refused": gated.refused,
            "slowed": int(gated.slowed.sum()), "seconds": round(time.monotonic() - started),
        }), flush=True)  # fmt: skip


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, metavar="N")
    parser.add_argument("--contact", type=int, metavar="N")
    parser.add_argument("--episodes", type=int, metavar="N")
    parser.add_argument("actor", nargs="?", help="actor.safetensors of a policy; with --paired: a task")
    parser.add_argument("folder", nargs="?", help="with --paired: of a line's stage; the expert without one")
    parser.add_argument("--paired", type=int, metavar="N")
    parser.add_argument("--ticks", type=int, metavar="N")
    parser.add_argument("--fuzz", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drive", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.drive:
        host, port, velocity, contact = json.loads(chosen.drive)
        drive(host, port, tuple(velocity), contact)
    if chosen.kills:
        kills(chosen.kills, chosen.seed)
    if chosen.contact:
        at_the_table(chosen.contact, chosen.seed)
    if chosen.episodes:
        episodes(chosen.episodes, chosen.actor, chosen.seed)
    if chosen.paired:
        paired(chosen.paired, chosen.actor, chosen.folder)
    if chosen.ticks:
        ticks(chosen.ticks)
    if chosen.fuzz:
        fuzz(chosen.fuzz, chosen.seed)


if __name__ == "__main__":
    main()
