"""The gate's rules once more, written from their text and with none of the gate's code, and streams to try both on."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dexprior.envs.hardware import Box, Evidence, GateConfig, RobotState, SafetyGate, profile_of
from dexprior.errors import SafetyStop
from dexprior.robots.arm7 import HOME, JOINT_LIMITS, ArmKinematics
from dexprior.robots.rigs import rig_chain
from dexprior.types import Command

__all__ = ["CELL", "EPISODE", "Idle", "Reference", "changed", "drift", "fuzz"]

_PERIOD = 0.04
EPISODE = 75
"""Commands in an episode."""
CELL = GateConfig(
    robot=profile_of(rig_chain("arm7", "parallel")[0]),
    workspace_low=(0.20, -0.40, 0.02),
    workspace_high=(0.75, 0.40, 0.60),
    contact_zones=(
        Box(low=(0.34, -0.20, -0.01), high=(0.56, 0.18, 0.022)),
        Box(low=(0.40, 0.04, -0.01), high=(0.52, 0.14, 0.072)),
    ),
    contact_speed=0.03,
    max_linear_speed=0.9,
    max_angular_speed=3.5,
    max_force=60.0,
    press_force=30.0,
)
"""A cell of the built-in arm that no task changes."""


def changed(**changes: Any) -> GateConfig:
    """That cell with some settings changed."""
    return replace(CELL, **changes)


class Idle:
    """A driver that does nothing."""

    period, real_time = _PERIOD, True

    def send(self, command: Command) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""

    def recover(self) -> None:
        """Nothing."""


@dataclass
class Reference:
    """The rules for one robot; `look` and `send` give the verdict and the rule."""

    c: GateConfig
    kinematics: ArmKinematics = field(default_factory=ArmKinematics)
    stopped: bool = False

    def __post_init__(self) -> None:
        self.sent_to_robot = -1
        self.restart()

    def restart(self) -> None:
        """A person has looked."""
        self.stopped, self.first, self.last, self.start = False, None, None, None
        self.numbers: list[int] = []
        self.refused = self.judged = self.since_state = self.same_clock = self.same_joints = 0
        self.told_to_move, self.clipped = False, 0

    def look(self, state: RobotState, now: float) -> str:
        """The rule by which a state stops the robot; `all` if none."""
        before, self.last = self.last, state
        self.start = now if self.start is None else self.start
        waiting, self.since_state = self.since_state, 0
        self.first = state if self.first is None else self.first
        rule = self._state(state, before, waiting, now)
        self.stopped = rule != "all"
        return rule

    def _state(self, state: RobotState, before: RobotState | None, waiting: int, now: float) -> str:
        c = self.c
        if max(float(np.linalg.norm(state.wrench[:3])), state.peak_force) > c.max_force:
            return "force"
        if state.status == "stopped":
            return "robot"
        if state.t_host - now > 1e-3:
            return "state"
        if before is None:
            return "all"
        if state.seq > self.sent_to_robot and state.seq > self.first.seq:
            return "state"
        elapsed = state.t - before.t
        if elapsed < 0 or elapsed - (state.t_host - before.t_host) > c.max_state_age:
            return "state"
        if waiting:
            self.same_clock = self.same_clock + 1 if state.t == before.t else 0
            still = bool((np.abs(state.q - before.q) <= 1e-10).all())
            self.same_joints = self.same_joints + 1 if self.told_to_move and still else 0
        return "frozen" if self.same_clock > c.max_frozen or self.same_joints > c.max_frozen else "all"

    def send(self, command: Command, now: float) -> tuple[str, str]:
        """Verdict and rule of a command."""
        rule = self._command(command, now)
        self.numbers.append(command.seq)
        self.judged, self.since_state = self.judged + 1, self.since_state + 1
        self.clipped += command.saturated
        verdict = "stop" if rule in ("session", "finite", "saturated") else "pass" if rule == "all" else "refuse"
        self.refused = self.refused + 1 if verdict != "pass" else 0
        if verdict == "refuse" and self.refused > self.c.max_consecutive_refusals:
            verdict, rule = "stop", "refusals"
        if verdict == "stop":
            self.stopped = True
        else:
            self.sent_to_robot += 1
            self.told_to_move = verdict == "pass" and float(np.abs(command.value).max()) > 1e-3
        return verdict, rule

    def _command(self, command: Command, now: float) -> str:
        c, state = self.c, self.last
        if (self.start is not None and now - self.start > c.session_seconds) or self.judged >= c.session_commands:
            return "session"
        if not np.isfinite([*command.value, command.t, 0.0 if command.gripper is None else command.gripper]).all():
            return "finite"
        if (self.clipped + command.saturated) / (6 * EPISODE) > c.max_saturated:
            return "saturated"
        if command.mode != "cartesian_velocity" or command.value.size != 6:
            return "mode"
        if self.numbers and not 1 <= command.seq - max(self.numbers) <= 1 + c.max_sequence_gap:
            return "sequence"
        if abs(now - command.t) > c.max_command_age:
            return "age"
        if state is None or now - state.t_host > c.max_state_age:
            return "state_age"
        if self.since_state >= c.max_unread:
            return "unread"
        v, w = command.value[:3], command.value[3:]
        speed = float(np.linalg.norm(v))
        if speed > c.max_linear_speed * (1 + 1e-9):
            return "linear_speed"
        if float(np.linalg.norm(w)) > c.max_angular_speed * (1 + 1e-9):
            return "angular_speed"
        if command.gripper is not None and not -1e-9 <= command.gripper <= 0.08 + 1e-9:
            return "opening"
        age = max(now - state.t_host, 0.0)
        return self._place(state.tcp[:3], v, speed, age) or self._joints(state.q, command.value) or "all"

    def _place(self, p: np.ndarray, v: np.ndarray, speed: float, age: float) -> str | None:
        c, robot = self.c, self.c.robot
        reach = speed * (age + _PERIOD + robot.watchdog + robot.lag) + speed**2 / (2 * robot.deceleration)
        end = p if speed == 0 else p + v / speed * reach
        zones = [(np.array(z.low), np.array(z.high)) for z in c.contact_zones]
        if speed > c.contact_speed * (1 + 1e-9) and any(_crosses(p, end, low, high) for low, high in zones):
            return "contact_speed"
        low, high = np.array(c.workspace_low), np.array(c.workspace_high)

        def outside(x: np.ndarray) -> np.ndarray:
            return np.clip(np.maximum(low - x, x - high), 0.0, None)

        if (outside(end) - outside(p)).max() <= 1e-9:
            return None
        inside_a_zone = any((a <= end).all() and (end <= b).all() for a, b in zones)
        return None if inside_a_zone else "workspace"

    def _joints(self, q: np.ndarray, twist: np.ndarray) -> str | None:
        _, _, jacobian = self.kinematics.forward(q[None])
        J = jacobian[0]
        then = q + _PERIOD * (J.T @ np.linalg.inv(J @ J.T + 0.02**2 * np.eye(6)) @ twist)
        low, high = JOINT_LIMITS.T
        margin_now, margin = np.minimum(q - low, high - q), np.minimum(then - low, high - then)
        return "joint_limits" if ((margin < self.c.joint_margin) & (margin < margin_now - 1e-9)).any() else None


def _crosses(p: np.ndarray, end: np.ndarray, low: np.ndarray, high: np.ndarray) -> bool:
    """Whether a segment touches a box, by the separating axis theorem (Ericson 2005, section 5.3.3)."""
    half, middle, arm = (high - low) / 2, (p + end) / 2 - (low + high) / 2, (end - p) / 2
    size = np.abs(arm)
    if (np.abs(middle) > half + size).any():
        return False
    cross = np.abs(np.cross(middle, arm))
    return bool((cross <= half[[1, 2, 0]] * size[[2, 0, 1]] + half[[2, 0, 1]] * size[[1, 2, 0]]).all())


def _state(
    t: float, t_host: float, seq: int, q: np.ndarray, p: np.ndarray, force: float, status: Any = "moving"
) -> RobotState:
    return RobotState(
        t=t, t_host=t_host, seq=seq, status=status, q=q, qd=np.zeros(7), tcp=np.array([*p, 0.0, 1.0, 0.0, 0.0]),
        opening=0.04, wrench=np.array([0.0, force, 0.0, 0.0, 0.0, 0.0]), peak_force=0.0, touch=np.zeros(2),
        cloud=np.zeros((1, 3)),
    )  # fmt: skip


def drift(k: int) -> tuple[RobotState, Command]:
    """The k-th state and command of a stream that is in order, on this host's clock."""
    now = time.monotonic()
    q = HOME + 0.05 * np.sin(0.1 * k + np.arange(7))
    state = _state(1000.0 + 1e-4 * k, now, -1, q, np.array([0.45, 0.0, 0.3]), 1.0)
    value = np.array([0.2 * math.sin(k), 0.2 * math.cos(k), 0.05, 0.1, 0.0, 0.2])
    return state, Command(seq=k, t=now, mode="cartesian_velocity", value=value, gripper=0.04)


def fuzz(count: int, seed: int) -> dict[str, Any]:
    """Judge random ticks by the gate and by the reference; how often they differ, the first case, and every outcome."""
    rng = np.random.default_rng(seed)
    config = changed(session_commands=80, session_seconds=2.5, evidence=10)
    now = [100.0]
    gate, reference, driver = SafetyGate(config, episode=EPISODE, clock=lambda: now[0]), Reference(config), Idle()
    outcomes: Counter[str] = Counter()
    different: list[str] = []
    t, seq, q = 1000.0, 0, HOME.copy()
    frozen: dict[str, int] = {}
    for _ in range(count):
        now[0] += 0.04 * rng.uniform(0.5, 1.5)
        odd = rng.random(12)  # each tick is in order, apart from now and then
        frozen = {name: left - 1 for name, left in frozen.items() if left > 0}
        if odd[11] < 0.02:
            frozen["t" if odd[11] < 0.01 else "q"] = int(rng.integers(1, 8))
        t += 0.0 if "t" in frozen else -1.0 if odd[0] < 0.0505 else 2.0 if odd[0] < 0.051 else 0.04
        if "q" not in frozen:
            q = rng.uniform(JOINT_LIMITS[:, 0], JOINT_LIMITS[:, 1]) if odd[1] < 0.6 else HOME + rng.normal(0, 0.1, 7)
        place = (
            rng.uniform([0.1, -0.5, -0.02], [0.85, 0.5, 0.7])
            if odd[2] < 0.5
            else rng.uniform([0.33, -0.22, 0.0], [0.57, 0.2, 0.09])
        )
        late = rng.uniform(0.0, 0.7) if odd[3] < 0.02 else -0.5 if odd[3] < 0.021 else rng.uniform(0.0, 0.02)
        force = rng.uniform(50, 70) if odd[4] < 0.005 else 2.0
        said = reference.sent_to_robot + (3 if odd[5] < 0.0005 else 0)
        state = _state(t, now[0] - late, max(said, -1), q, place, force, "stopped" if odd[5] > 0.9995 else "moving")
        size = rng.choice([0.02, 0.1, 0.4, 1.0])
        value = rng.normal(0, 1, 6) * size * np.array([1, 1, 1, 2, 2, 2])
        if odd[6] < 0.03:
            value = np.zeros(6)
        elif odd[6] < 0.0302:
            value[rng.integers(6)] = rng.choice([math.nan, math.inf])
        elif odd[6] < 0.04:
            value = value[:5]
        seq += 0 if odd[7] < 0.005 else 2 if odd[7] < 0.01 else 1
        command = Command(
            seq=seq, t=now[0] - (rng.uniform(-0.5, 0.5) if odd[8] < 0.02 else 0.01), mode="cartesian_velocity",
            value=value, gripper=None if odd[9] < 0.1 else float(rng.uniform(-0.002, 0.082)),
            saturated=int(rng.integers(1, 7)) if odd[9] > 0.9 else 0,
        )  # fmt: skip
        if odd[10] > 0.02:  # else it is sent without reading
            mine, theirs = reference.look(state, now[0]), _looked(gate, state, driver)
            _compare(outcomes, different, f"state {mine}", f"state {theirs}", state)
        if not reference.stopped and gate.latched is None:
            expected = " ".join(reference.send(command, now[0]))
            _compare(outcomes, different, expected, _sent(gate, command, driver), command)
        if reference.stopped or gate.latched is not None:
            gate.reset(driver, by="the fuzz")
            reference.restart()
            t += 1.0
    return {"different": len(different), "first": different[:1], "outcomes": dict(outcomes.most_common())}


def _compare(outcomes: Counter[str], different: list[str], expected: str, found: str, what: object) -> None:
    outcomes[expected] += 1
    if expected != found:
        different.append(f"expected {expected!r}, got {found!r} for {what}")


def _looked(gate: SafetyGate, state: RobotState, driver: Any) -> str:
    try:
        gate.look(state, driver)
    except SafetyStop:
        return _last(gate).rule
    return "all"


def _sent(gate: SafetyGate, command: Command, driver: Any) -> str:
    with contextlib.suppress(SafetyStop):  # kept as evidence
        gate.send(command, driver)
    return f"{_last(gate).verdict} {_last(gate).rule}"


def _last(gate: SafetyGate) -> Evidence:
    return gate.evidence[-1]
