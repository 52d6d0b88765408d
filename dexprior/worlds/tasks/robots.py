"""All robots of every world: their controllers, and what sensors and links make of commands and readings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float

from dexprior.families import SensorModels
from dexprior.worlds.controller import CartesianVelocityController
from dexprior.worlds.tasks.actions import ActionSpec, RobotCommand
from dexprior.worlds.tasks.drives import Drive
from dexprior.worlds.tasks.sensing import SensorsOfWorlds
from dexprior.worlds.tasks.transmission import turns
from dexprior.worlds.tasks.view import RigState, View

__all__ = ["RobotsOfWorlds"]


class RobotsOfWorlds:
    """Commands the robots and reads them; ideally, until sensors are fitted.

    Args:
        view: of the worlds.
        actions: the robots, and what they are told.
    """

    def __init__(self, view: View, actions: ActionSpec) -> None:
        self._view, self._actions, self._rigs = view, actions, actions.rigs
        self._drives = [Drive(view.model, rig, view.n) for rig in self._rigs]
        self._sensors: SensorsOfWorlds | None = None

    @property
    def controllers(self) -> tuple[CartesianVelocityController, ...]:
        """Controllers of every robot's arm."""
        return tuple(drive.controller for drive in self._drives)

    @property
    def target(self) -> Float[np.ndarray, "n joint"]:
        """What the joints of the first robot's arm are told [rad, m]."""
        return self._drives[0].controller.target

    def fit(self, models: SensorModels) -> None:
        """Put sensors and links on every robot."""
        import mujoco

        model = self._view.model
        joints = [name for rig in self._rigs for name in (*rig.arm_joints, *rig.end_joints)]
        servoed = np.full(len(joints), -1)
        for column in (model.actuator(n).id for r in self._rigs for n in (*r.arm_joints, *r.end_actuators)):
            driven = model.joint(model.actuator_trnid[column, 0]).name if turns(model, column) else ""
            if driven in joints:
                servoed[joints.index(driven)] = column
        hinge = mujoco.mjtJoint.mjJNT_HINGE
        self._sensors = SensorsOfWorlds(
            models, self._view, hinges=np.array([model.joint(name).type[0] == hinge for name in joints]),
            servoed=servoed, robots=len(self._rigs), elements=sum(len(rig.touch) for rig in self._rigs),
            control_dt=self._actions.dt,
        )  # fmt: skip

    def reset(self, ids: np.ndarray, seeds: Sequence[int] | np.ndarray) -> None:
        """Bring them home in some worlds, with sensors of these seeds; before objects are placed."""
        if self._sensors is not None:
            self._sensors.reset(ids, seeds)
        for drive, zero in self._zeros():
            drive.reset(self._view, ids, zero)

    def tare(self, ids: np.ndarray) -> None:
        """Call what the wrists of some worlds feel now nothing."""
        for drive in self._drives:
            drive.tare(self._view, ids)

    def begin(self, ids: np.ndarray) -> None:
        """An episode starts in some worlds, from where their joints are."""
        if self._sensors is not None:
            self._sensors.begin(ids, self._joints("q")[ids])

    def put(self, arm: Float[np.ndarray, "n joint"], end: Float[np.ndarray, "n end"]) -> None:
        """Move the first robot of every world to joint positions; its servos hold it there [rad, m]."""
        drive, zero = self._zeros()[0]
        drive.put(self._view, arm, end, zero)

    def follow(self, arm: Float[np.ndarray, "n joint"], end: Float[np.ndarray, "n actuator"]) -> None:
        """Tell the servos of the first robot of every world where to be [rad, m]."""
        self._drives[0].follow(self._view, arm, end)

    def command(self, commands: Sequence[RobotCommand]) -> None:
        """Set the controls of a control period: by what has arrived of the commands sent, where there is a link."""
        if self._sensors is None:
            self._set(commands)
            return
        view = self._view
        packet = np.concatenate([part for command in commands for part in (command.arm, command.end)], axis=1)
        packet, silent = self._sensors.send(packet)
        kept = view.ctrl[silent].copy(), [drive.controller.target[silent].copy() for drive in self._drives]
        self._set(self._unpacked(packet, commands))
        self._sensors.offset_commands()
        view.ctrl[silent] = kept[0]
        for drive, target in zip(self._drives, kept[1]):
            drive.controller.target[silent] = target
        self._sensors.advance()

    def state(self) -> tuple[RigState, ...]:
        """Every robot now."""
        return tuple(drive.state(self._view) for drive in self._drives)

    def sensed(self, rigs: tuple[RigState, ...]) -> tuple[RigState, ...]:
        """Every robot as its sensors have it at this control period; its state without models of them."""
        if self._sensors is None:
            return rigs
        q, qd, wrench, touch = self._sensors.read(
            self._joints("q"), self._joints("qd"), np.concatenate([r.wrench for r in rigs], axis=1),
            np.concatenate([r.touch for r in rigs], axis=1),
        )  # fmt: skip
        seen, joint, tip = [], 0, 0
        for k, (drive, rig) in enumerate(zip(self._drives, rigs)):
            middle, last = joint + rig.q.shape[1], joint + rig.q.shape[1] + rig.end.shape[1]
            tcp, twist = drive.tool(q[:, joint:middle], qd[:, joint:middle])
            now = RigState(
                q=q[:, joint:middle], qd=qd[:, joint:middle], tcp=tcp, twist=twist, end=q[:, middle:last],
                wrench=wrench[:, 6 * k : 6 * k + 6], touch=touch[:, tip : tip + rig.touch.shape[1]],
            )  # fmt: skip
            seen.append(now)
            joint, tip = last, tip + rig.touch.shape[1]
        return tuple(seen)

    def received(self, streams: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What has arrived by now of observations (n, ...) that leave the robots in this control period."""
        return dict(streams) if self._sensors is None else self._sensors.receive(streams)

    def snapshot(self) -> dict[str, np.ndarray]:
        """What controllers and tares remember; what sensors do lies in the view's memory."""
        parts: dict[str, np.ndarray] = {}
        for k, drive in enumerate(self._drives):
            parts |= {f"{k}/target": drive.controller.target.copy(), f"{k}/tare": drive.offset.copy()}
        return parts

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Inverse of `snapshot`."""
        for k, drive in enumerate(self._drives):
            drive.controller.target[:] = snapshot[f"{k}/target"]
            drive.offset[:] = snapshot[f"{k}/tare"]

    def _joints(self, kind: Literal["q", "qd"]) -> Float[np.ndarray, "n joint"]:
        """Positions or velocities of all robots' joints: arm, then end effector."""
        return np.concatenate([drive.joints(self._view, kind) for drive in self._drives], axis=1)

    def _zeros(self) -> list[tuple[Drive, Float[np.ndarray, "n joint"] | None]]:
        """Every drive with the errors of its arm's zeros."""
        found, first = [], 0
        for drive, rig in zip(self._drives, self._rigs):
            arm = len(rig.arm_joints)
            found.append((drive, None if self._sensors is None else self._sensors.zeros(first, arm)))
            first += arm + len(rig.end_joints)
        return found

    def _set(self, commands: Sequence[RobotCommand]) -> None:
        kind, dt = self._actions.arm_action, self._actions.dt
        for (drive, zero), command in zip(self._zeros(), commands):
            drive.command(self._view, command, kind, dt, zero)

    @staticmethod
    def _unpacked(packet: np.ndarray, like: Sequence[RobotCommand]) -> list[RobotCommand]:
        found, start = [], 0
        for command in like:
            middle = start + command.arm.shape[1]
            stop = middle + command.end.shape[1]
            found.append(RobotCommand(packet[:, start:middle], packet[:, middle:stop]))
            start = stop
        return found
