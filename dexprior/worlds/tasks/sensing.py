"""What a robot knows of many worlds: readings instead of truth, and packets that come late or not at all.

    truth -> encoder, force-torque, tactile -> readings -> link -> what a policy observes
    action -> link -> controller -> encoder's bias -> servo

- Encoders sit on hinges; slides and tendons have none here. The tool's pose and twist follow from what they read, by
  forward kinematics. Velocities are true ones plus the change of the reading's error over the control period, as of a
  driver that differentiates positions. The controller counts from the same zero: an arm that starts at rest does not
  jump, but thinks that it is elsewhere, and position-servoed hinges are brought to where readings match commands.
- The force-torque sensor reads the tared wrench, and warms up from the tare on.
- An observation (`proprio`, `wrench`, `touch`, `cloud`) is one packet a control period, an action another. A receiver
  uses the newest that has arrived, and keeps it while nothing newer does; the first observation is there at once, and
  until the first action arrives servos keep their targets. Times on the way count in whole control periods, rounded up.
  Delays below one are `actuator_delay`'s.

Points of the cloud come from an object's surface and from no camera: `cloud_noise` blurs them, `sense_depth` does not.
Everything that is remembered lies in the view's memory, and so in snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from dexprior.families.sensors import (
    Encoder,
    ForceTorque,
    Sampler,
    SensorModels,
    Tactile,
    Transport,
    TransportConfig,
)

if TYPE_CHECKING:
    from dexprior.worlds.tasks.view import View

__all__ = ["SensorsOfWorlds"]

_SLACK = 1e-9  # [s] an arrival this much later than a control period begins is in time: sums of floats


class SensorsOfWorlds:
    """The sensors and links of every robot in every world.

    Args:
        models: which are on.
        view: of the worlds; its memory holds the state.
        hinges: which joints turn, arm and end effector of one robot after the other.
        servoed: for each joint the column of the position servo that drives it, or -1.
        robots: how many.
        elements: touch sensors of all robots.
        control_dt: control period [s].
    """

    def __init__(
        self,
        models: SensorModels,
        view: View,
        *,
        hinges: Bool[np.ndarray, " joint"],
        servoed: np.ndarray,
        robots: int,
        elements: int,
        control_dt: float,
    ) -> None:
        self._view, self._dt, self._hinges, self._servoed = view, control_dt, hinges, servoed
        n, m = view.n, models
        self._encoder = None if m.encoder is None else Encoder(m.encoder, n, len(hinges), control_dt)
        self._wrist = None if m.force_torque is None else ForceTorque(m.force_torque, n, control_dt, sensors=robots)
        self._tips = None if m.tactile is None or not elements else Tactile(m.tactile, n, elements, control_dt)
        self._observed = None if m.observation is None else _Link(m.observation, view, "observation", control_dt)
        self._commanded = None if m.command is None else _Link(m.command, view, "command", control_dt)
        samplers: Mapping[str, Sampler | None] = {
            "encoder": self._encoder, "wrist": self._wrist, "tips": self._tips,
            "observation": None if self._observed is None else self._observed.transport,
            "command": None if self._commanded is None else self._commanded.transport,
        }  # fmt: skip
        self._samplers = {name: sampler for name, sampler in samplers.items() if sampler is not None}
        for name, sampler in self._samplers.items():
            for part, value in sampler.state.items():
                view.memory[f"sensing/{name}/{part}"] = (
                    value  # the samplers' own arrays, so that `restore` reaches them
                )

    def reset(self, ids: np.ndarray, seeds: Sequence[int] | np.ndarray) -> None:
        """Switch the sensors of some worlds on; before they are placed, as biases shift the controllers' zero."""
        for sampler in self._samplers.values():
            sampler.reset(ids, np.asarray(seeds))
        if self._encoder is not None:
            self._encoder.state["bias"][np.ix_(ids, ~self._hinges)] = 0.0
        for link in (self._observed, self._commanded):
            if link is not None:
                link.reset(ids)
        self._due("readings")[ids] = True
        self._due("packet")[ids] = True

    def begin(self, ids: np.ndarray, joints: Float[np.ndarray, "m joint"]) -> None:
        """Dead bands of encoders begin around the joints of an instance's start."""
        if self._encoder is not None:
            self._encoder.engage(ids, joints)

    def advance(self) -> None:
        """A control period is over: there is something new to read everywhere."""
        self._due("readings")[:] = True
        self._due("packet")[:] = True

    def zeros(self, first: int, count: int) -> Float[np.ndarray, "n joint"] | None:
        """How much the zeros of some joints are off, in every world [rad]; None without encoders."""
        return None if self._encoder is None else self._encoder.bias[:, first : first + count]

    def send(
        self, action: Float[np.ndarray, "n action"]
    ) -> tuple[Float[np.ndarray, "n action"], Bool[np.ndarray, " n"]]:
        """The action that each controller has by now, and where it has had none yet."""
        if self._commanded is None:
            return action, np.zeros(self._view.n, dtype=bool)
        return self._commanded.send(np.arange(self._view.n), {"action": action})["action"], self._commanded.silent

    def offset_commands(self) -> None:
        """Let servos follow their encoders' zeros: in place, on controls that were just commanded."""
        if self._encoder is not None:
            driven = np.flatnonzero(self._servoed >= 0)
            self._view.ctrl[:, self._servoed[driven]] -= self._encoder.bias[:, driven]

    def read(
        self, q: Float[np.ndarray, "n joint"], qd: Float[np.ndarray, "n joint"],
        wrench: Float[np.ndarray, "n 6*robots"], touch: Float[np.ndarray, "n element"],
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
        """Readings of joints, their velocities, wrists and fingertips; once a control period, however often asked."""
        due = self._due("readings")
        ids = np.flatnonzero(due)
        if self._encoder is not None and len(ids):
            error, change = self._kept("error", q), self._kept("change", q)
            first = self._encoder.state["tick"][ids, None] == 0
            seen = self._encoder.step(q[ids], ids)
            now = np.where(self._hinges, seen - q[ids], 0.0)
            change[ids] = np.where(first, 0.0, (now - error[ids]) / self._dt)
            error[ids] = now
        for name, sampler, truth in (("wrench", self._wrist, wrench), ("touch", self._tips, touch)):
            if sampler is not None and len(ids):
                self._kept(name, truth)[ids] = sampler.step(truth[ids], ids)
        due[:] = False
        if self._encoder is not None:
            q, qd = q + self._kept("error", q), qd + self._kept("change", q)
        wrench = wrench if self._wrist is None else self._kept("wrench", wrench).copy()
        touch = touch if self._tips is None else self._kept("touch", touch).copy()
        return q, qd, wrench, touch

    def receive(self, streams: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What has arrived of observations by now."""
        if self._observed is None:
            return dict(streams)
        due = self._due("packet")
        shown = self._observed.send(np.flatnonzero(due), streams, at_once=True)
        due[:] = False
        return shown

    def _due(self, name: str) -> Bool[np.ndarray, " n"]:
        return self._view.memory.setdefault(f"sensing/due/{name}", np.ones(self._view.n, dtype=bool))

    def _kept(self, name: str, like: np.ndarray) -> np.ndarray:
        key = f"sensing/kept/{name}"
        if key not in self._view.memory:
            self._view.memory[key] = np.zeros(like.shape)
        return self._view.memory[key]


class _Link:
    """Packets on their way in every world, one a control period."""

    def __init__(self, config: TransportConfig, view: View, name: str, dt: float) -> None:
        self.transport = Transport(config, view.n, dt)
        self._view, self._name, self._dt = view, name, dt
        self._length = int(np.ceil(config.longest / dt - _SLACK)) + 1
        self._arrivals = view.memory.setdefault(f"sensing/{name}/arrivals", np.full((view.n, self._length), np.inf))
        self.silent = view.memory.setdefault(f"sensing/{name}/silent", np.ones(view.n, dtype=bool))

    def reset(self, ids: np.ndarray) -> None:
        self._arrivals[ids], self.silent[ids] = np.inf, True

    def send(
        self, ids: np.ndarray, packet: Mapping[str, np.ndarray], *, at_once: bool = False
    ) -> dict[str, np.ndarray]:
        """Send from some worlds; what each receiver has then. A first packet arrives `at_once` where asked."""
        now = self.transport.state["tick"][ids] * self._dt
        if len(ids):
            arrival, _ = self.transport.arrivals(now[:, None], ids)
            self._arrivals[ids, 1:] = self._arrivals[ids, :-1].copy()
            self._arrivals[ids, 0] = np.where(self.silent[ids] & at_once, now, arrival[:, 0])
        there = self._arrivals[ids] <= now[:, None] + _SLACK
        newest, any_there = there.argmax(axis=1), there.any(axis=1)
        shown = {}
        for name, value in packet.items():
            queue, held = self._memory(name, value)
            if len(ids):
                queue[ids, 1:] = queue[ids, :-1].copy()
                queue[ids, 0] = value[ids]
                fresh = ids[any_there]
                held[fresh] = queue[fresh, newest[any_there]]
            shown[name] = held.copy()
        self.silent[ids[any_there]] = False
        return shown

    def _memory(self, name: str, like: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        keys = f"sensing/{self._name}/queue/{name}", f"sensing/{self._name}/held/{name}"
        if keys[0] not in self._view.memory:
            self._view.memory[keys[0]] = np.zeros((len(like), self._length, *like.shape[1:]), dtype=like.dtype)
            self._view.memory[keys[1]] = np.zeros_like(like)
        return self._view.memory[keys[0]], self._view.memory[keys[1]]
