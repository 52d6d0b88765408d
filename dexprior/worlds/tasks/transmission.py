"""What lies between a command and a joint: a delay and a dead band, for many worlds at once.

    command u -> queue (u(t - delay)) -> play operator (backlash) -> servo

The play operator (Krasnosel'skii and Pokrovskii 1989, "Systems with Hysteresis") keeps what it transmits until the
command leaves a band of width b around it: y_k = min(max(y_{k-1}, u_k - b/2), u_k + b/2). It acts on position servos of
hinges; slides and tendons have no gears here. The delay acts on every actuator of the robots, and is rounded to
simulation steps. A joint may have a delay or a backlash of its own (`families.actuation`).
"""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from dexprior.errors import BadInput, UnknownName
from dexprior.families import (
    ACTUATOR_DELAY,
    SERVO_DAMPING,
    SERVO_STIFFNESS,
    Parameter,
    ParameterFamily,
    joint_of,
)

if TYPE_CHECKING:
    import mujoco

    from dexprior.worlds.tasks.view import View

__all__ = ["Transmission", "driven_by", "set_servos", "turns"]


class Transmission:
    """Delays and dead bands of the robots' actuators in every world.

    Args:
        model: compiled.
        actuators: of the robots, by name.
        family: of the values; only what it names is applied.
        substeps: simulation steps in a control period.

    Raises:
        BadInput: a delay or backlash below zero.
        UnknownName: one of a joint that no robot has.
    """

    def __init__(
        self, model: mujoco.MjModel, actuators: Sequence[str], family: ParameterFamily, *, substeps: int
    ) -> None:
        parameters = [p for p in family.parameters if joint_of(p) is not None]
        self.active = bool(parameters)
        """Whether the family says anything about it."""
        for parameter in parameters:
            if parameter.low < 0:
                raise BadInput(f"family {family.name!r}: {parameter.name} reaches {parameter.low}; it must be >= 0")
        self._timestep, self._substeps = model.opt.timestep, substeps
        self._columns = np.array([model.actuator(name).id for name in actuators], dtype=int)
        self._geared = np.array([turns(model, column) for column in self._columns])
        ordered = sorted(parameters, key=lambda p: joint_of(p) != "-")  # a joint's own comes last, and stays
        self._sources = [(p.name, p.target.endswith(ACTUATOR_DELAY), driven_by(model, actuators, p)) for p in ordered]
        longest = max((p.high for p in parameters if p.target.endswith(ACTUATOR_DELAY)), default=0.0)
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
        late[ids] = band[ids] = 0.0
        for name, delays, where in self._sources:
            of_worlds = [row.get(name, 0.0) for row in values]
            if delays:
                late[np.ix_(ids, where)] = np.array([[min(round(x / self._timestep), longest)] for x in of_worlds])
            else:
                band[np.ix_(ids, where)] = np.array(of_worlds)[:, None]

    def blocks(self, view: View) -> list[tuple[int, Float[np.ndarray, "n actuator"]]]:
        """Take the controls that were just commanded; what to step with: pieces of the period, and their controls.

        A world with a delay of m periods and r steps sees the command of m + 1 periods ago for r steps, and then that
        of m periods ago. The pieces are cut wherever an actuator of one of the worlds changes over.
        """
        queue, played, late, band = self._memory(view)
        queue[:, 1:] = queue[:, :-1].copy()
        queue[:, 0] = view.ctrl[:, self._columns]
        periods, rest = np.divmod(late.astype(int), self._substeps)
        cuts = np.unique(np.concatenate([[0, self._substeps], rest.ravel()]))
        worlds, actuators = np.ogrid[: view.n, : len(self._columns)]
        pieces = []
        for start, stop in itertools.pairwise(cuts):
            seen = queue[worlds, np.minimum(periods + (start < rest), self._length - 1), actuators]
            half = np.where(self._geared, band / 2, 0.0)
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
        Float[np.ndarray, "n actuator"],
        Float[np.ndarray, "n actuator"],
    ]:
        n, m = view.n, len(self._columns)
        return (
            view.remember("transmission/queue", np.zeros((n, self._length, m))),
            view.remember("transmission/played", np.zeros((n, m))),
            view.remember("transmission/late", np.zeros((n, m))),
            view.remember("transmission/band", np.zeros((n, m))),
        )


def driven_by(model: mujoco.MjModel, actuators: Sequence[str], parameter: Parameter) -> Int[np.ndarray, " actuator"]:
    """Which of some actuators a delay or a backlash acts on: all, or those whose own or joint's name fits.

    Raises:
        UnknownName: none; the message lists the joints.
    """
    joint = joint_of(parameter)
    if joint == "-":
        return np.arange(len(actuators))
    names = [(name.rpartition("/")[2], _joint_name(model, name)) for name in actuators]
    found = [k for k, each in enumerate(names) if any(fnmatch.fnmatchcase(name, str(joint)) for name in each)]
    if not found:
        raise UnknownName(
            f"joint for parameter {parameter.name!r}", str(joint), list(dict.fromkeys(n for n, _ in names))
        )
    return np.array(found)


def _joint_name(model: mujoco.MjModel, actuator: str) -> str:
    import mujoco

    driven = model.actuator(actuator)
    if driven.trntype[0] != mujoco.mjtTrn.mjTRN_JOINT:
        return ""
    return str(model.joint(driven.trnid[0]).name).rpartition("/")[2]


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
