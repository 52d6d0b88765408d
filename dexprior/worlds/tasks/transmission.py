"""What lies between a command and a joint: a delay and a dead band, for many worlds at once.

    command u -> queue (u(t - delay)) -> play operator (backlash) -> servo

The play operator (Krasnosel'skii and Pokrovskii 1989, "Systems with Hysteresis") keeps what it transmits until the
command leaves a band of width b around it: y_k = min(max(y_{k-1}, u_k - b/2), u_k + b/2). It acts on position servos of
hinges; slides and tendons have no gears here. The delay acts on every actuator of the robots, and is rounded to
simulation steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from dexprior.errors import BadInput
from dexprior.families import ACTUATOR_DELAY, BACKLASH, SERVO_DAMPING, SERVO_STIFFNESS, ParameterFamily

if TYPE_CHECKING:
    import mujoco

    from dexprior.worlds.tasks.view import View

__all__ = ["Transmission", "set_servos", "turns"]


class Transmission:
    """Delays and dead bands of the robots' actuators in every world.

    Args:
        model: compiled.
        actuators: of the robots, by name.
        family: of the values; only what it names is applied.
        substeps: simulation steps in a control period.
    """

    def __init__(
        self, model: mujoco.MjModel, actuators: Sequence[str], family: ParameterFamily, *, substeps: int
    ) -> None:
        known = {p.name: p for p in family.parameters if p.target == f"world/-/{p.name}"}
        delay, backlash = known.get(ACTUATOR_DELAY), known.get(BACKLASH)
        self.active = delay is not None or backlash is not None
        """Whether the family says anything about it."""
        for parameter in (delay, backlash):
            if parameter is not None and parameter.low < 0:
                raise BadInput(f"family {family.name!r}: {parameter.name} reaches {parameter.low}; it must be >= 0")
        self._timestep, self._substeps = model.opt.timestep, substeps
        self._columns = np.array([model.actuator(name).id for name in actuators], dtype=int)
        self._geared = np.array([turns(model, column) for column in self._columns])
        longest = 0.0 if delay is None else delay.high
        self._length = int(np.ceil(round(longest / self._timestep) / substeps)) + 1

    def reset(self, view: View, ids: np.ndarray, values: Sequence[Mapping[str, float]]) -> None:
        """Start from the present controls, as if they had been commanded for long, with the teeth in mid-band."""
        now = view.ctrl[np.ix_(ids, self._columns)]
        queue, played, *_ = self._memory(view)
        queue[ids], played[ids] = now[:, None], now
        self.set(view, ids, values)

    def set(self, view: View, ids: np.ndarray, values: Sequence[Mapping[str, float]]) -> None:
        """Give some worlds other values, at most the longest delay of the family."""
        *_, late, band = self._memory(view)
        longest = (self._length - 1) * self._substeps
        late[ids] = [min(round(row.get(ACTUATOR_DELAY, 0.0) / self._timestep), longest) for row in values]
        band[ids] = [row.get(BACKLASH, 0.0) for row in values]

    def blocks(self, view: View) -> list[tuple[int, Float[np.ndarray, "n actuator"]]]:
        """Take the controls that were just commanded; what to step with: pieces of the period, and their controls.

        A world with a delay of m periods and r steps sees the command of m + 1 periods ago for r steps, and then that
        of m periods ago. The pieces are cut wherever one of the worlds changes over.
        """
        queue, played, late, band = self._memory(view)
        queue[:, 1:] = queue[:, :-1].copy()
        queue[:, 0] = view.ctrl[:, self._columns]
        periods, rest = np.divmod(late.astype(int), self._substeps)
        cuts = np.unique(np.concatenate([[0, self._substeps], rest]))
        worlds = np.arange(view.n)
        pieces = []
        for start, stop in itertools.pairwise(cuts):
            seen = queue[worlds, np.minimum(periods + (start < rest), self._length - 1)]
            half = np.where(self._geared, band[:, None] / 2, 0.0)
            played[:] = np.clip(played, seen - half, seen + half)
            controls = view.ctrl.copy()
            controls[:, self._columns] = played
            pieces.append((int(stop - start), controls))
        return pieces

    def _memory(
        self, view: View
    ) -> tuple[
        Float[np.ndarray, "n period actuator"],
        Float[np.ndarray, "n actuator"],
        Int[np.ndarray, " n"],
        Float[np.ndarray, " n"],
    ]:
        n, m = view.n, len(self._columns)
        return (
            view.remember("transmission/queue", np.zeros((n, self._length, m))),
            view.remember("transmission/played", np.zeros((n, m))),
            view.remember("transmission/late", np.zeros(n)),
            view.remember("transmission/band", np.zeros(n)),
        )


def set_servos(model: mujoco.MjModel, actuators: Sequence[str], values: Mapping[str, float]) -> None:
    """Scale gain and damping of the position servos among some actuators: force = kp (u - q) - kv dq/dt."""
    import mujoco

    if SERVO_STIFFNESS not in values and SERVO_DAMPING not in values:
        return
    ids = np.array([model.actuator(name).id for name in actuators], dtype=int)
    ids = ids[model.actuator_biastype[ids] == mujoco.mjtBias.mjBIAS_AFFINE]
    model.actuator_gainprm[ids, 0] *= values.get(SERVO_STIFFNESS, 1.0)
    model.actuator_biasprm[ids, 1] *= values.get(SERVO_STIFFNESS, 1.0)
    model.actuator_biasprm[ids, 2] *= values.get(SERVO_DAMPING, 1.0)


def turns(model: mujoco.MjModel, actuator: int) -> bool:
    """Whether an actuator is a position servo of a hinge."""
    import mujoco

    joint = model.actuator_trnid[actuator, 0]
    return bool(
        model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_JOINT
        and model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_AFFINE
        and model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE
    )
