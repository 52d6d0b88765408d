"""A robot as a backend: every command passes the gate, every state becomes a reading."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from dexprior.envs.base import Reading
from dexprior.envs.hardware.driver import Driver, RobotState
from dexprior.envs.hardware.gate import SafetyGate
from dexprior.envs.panel import Instance
from dexprior.errors import BadInput, ConnectionLost, SafetyStop
from dexprior.types import Command
from dexprior.worlds.insertion import InsertionConfig

__all__ = ["HardwareBackend"]


class HardwareBackend:
    """One robot; see `dexprior.envs.base.Backend`. `Reading.truth` is None where the cell has no tracker.

    Args:
        driver: of the robot; connected here.
        gate: the only way to it.
        world: sizes of the nut and the bolt in the cell.
        keep: folder for the gate's evidence, written whenever it stops the robot.
        clock: monotonic seconds, the gate's clock.

    Raises:
        ConnectionLost: the robot is not there.
    """

    def __init__(
        self,
        driver: Driver,
        gate: SafetyGate,
        *,
        world: InsertionConfig | None = None,
        keep: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.driver, self.gate = driver, gate
        self._world = world or InsertionConfig()
        self._keep, self._clock = keep, clock
        self._seq, self._start = -1, 0.0
        driver.connect()

    @property
    def n(self) -> int:
        """Number of worlds."""
        return 1

    @property
    def world(self) -> InsertionConfig:
        """Sizes of nut and bolt."""
        return self._world

    def reset(self, instances: Sequence[Instance]) -> Reading:
        """Prepare the cell for one instance. Does not end a stop: `recover` does.

        Raises:
            BadInput: not exactly one instance.
            SafetyStop: the gate is latched.
            ConnectionLost: the robot is gone.
        """
        if len(instances) != 1:
            raise BadInput(f"{len(instances)} instances for one robot")
        self.gate.require_unlatched()
        state = self.gate.look(self.driver.prepare(instances[0]), self.driver)
        self._start = state.t
        return self._reading(state)

    def step(self, twist: Float[np.ndarray, "n 6"], opening: Float[np.ndarray, " n"]) -> Reading:
        """Offer one command to the gate, and read the state after its period.

        A refused command is a period of standing still; `gate.evidence` says why.

        Raises:
            BadInput: not one twist and one opening.
            SafetyStop: the gate stopped the robot.
            ConnectionLost: the robot is gone.
        """
        twist, opening = np.asarray(twist, dtype=np.float64), np.asarray(opening, dtype=np.float64)
        if twist.shape != (1, 6) or opening.shape != (1,):
            raise BadInput(f"twist {twist.shape} and opening {opening.shape}, expected (1, 6) and (1,)")
        self._seq += 1
        command = Command(
            seq=self._seq,
            t=self._clock(),
            mode="cartesian_velocity",
            value=twist[0],
            gripper=float(opening[0]),
        )
        try:
            self.gate.send(command, self.driver)
            return self._reading(self.gate.read(self.driver))
        except (ConnectionLost, SafetyStop):
            if self._keep is not None:
                self.gate.save(self._keep)
            raise

    def recover(self, *, by: str) -> None:
        """End a stop, after somebody has looked; then `reset`.

        Args:
            by: who answers for it.
        """
        self.gate.reset(self.driver, by=by)

    def close(self) -> None:
        """Let go of the robot."""
        self.driver.close()

    def _reading(self, state: RobotState) -> Reading:
        return Reading(
            t=np.array([state.t - self._start]),
            q=state.q[None],
            qd=state.qd[None],
            tcp=state.tcp[None],
            opening=np.array([state.opening]),
            wrench=state.wrench[None],
            touch=state.touch[None],
            cloud=state.cloud[None],
            truth=state.truth,
        )
