"""One robot in every world: what its actions mean, and what it feels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Float

from dexprior.geometry.rotations import quat_from_matrix
from dexprior.robots.kinematics import ChainKinematics
from dexprior.robots.rigs import Rig
from dexprior.robots.sensors import SOFT_WRENCH
from dexprior.worlds.controller import CartesianVelocityController
from dexprior.worlds.tasks.actions import ArmAction, RobotCommand
from dexprior.worlds.tasks.view import RigState, View

if TYPE_CHECKING:
    import mujoco

__all__ = ["Drive", "Wrist"]


class Wrist:
    """What holds a rig's tool at its wrist, read from sensors."""

    def __init__(self, model: mujoco.MjModel, rig: Rig) -> None:
        self._sensors = np.concatenate(
            [model.sensor(rig.name(f"wrench_{kind}")).adr[0] + np.arange(3) for kind in ("force", "torque")]
        )
        soft = [model.sensor(k) for k in range(model.nsensor) if model.sensor(k).name == rig.name(SOFT_WRENCH)]
        self._soft = soft[0].adr[0] + np.arange(9) if soft else None
        self._site = model.site(rig.name("wrist")).id

    def felt(self, view: View) -> Float[np.ndarray, "n 6"]:
        """Force and torque in the wrist's frame [N, N m], with what holds against a flex (`add_soft_wrench`)."""
        felt = view.sensordata[:, self._sensors]
        if self._soft is None:
            return felt
        force, torque, place = np.split(view.sensordata[:, self._soft], 3, axis=1)
        place = place - view.field("site_xpos")[:, self._site]
        axes = view.field("site_xmat")[:, self._site].reshape(-1, 3, 3)
        about = np.stack([force, torque + np.cross(place, force)], axis=1)
        return felt + (about @ axes).reshape(-1, 6)


class Drive:
    """Controls and reads one rig in every world.

    Args:
        model: of the worlds.
        rig: the robot.
        n: worlds.
    """

    def __init__(self, model: mujoco.MjModel, rig: Rig, n: int) -> None:
        self.rig = rig
        self._arm = np.array([model.joint(name).qposadr[0] for name in rig.arm_joints], dtype=int)
        self._arm_dof = np.array([model.joint(name).dofadr[0] for name in rig.arm_joints], dtype=int)
        self._end = np.array([model.joint(name).qposadr[0] for name in rig.end_joints], dtype=int)
        self._end_dof = np.array([model.joint(name).dofadr[0] for name in rig.end_joints], dtype=int)
        self._arm_ctrl = np.array([model.actuator(name).id for name in rig.arm_joints], dtype=int)
        self._end_ctrl = np.array([model.actuator(name).id for name in rig.end_actuators], dtype=int)
        self._wrist = Wrist(model, rig)
        self._touch = np.array([model.sensor(name).adr[0] for name in rig.touch], dtype=int)
        chain = ChainKinematics(model, rig.arm_joints, rig.name("tcp"))
        self.controller = CartesianVelocityController(n, chain, home=rig.home, limits=rig.arm.limits)
        self.offset = np.zeros((n, 6))

    def joints(self, view: View, kind: Literal["q", "qd"]) -> Float[np.ndarray, "n joint"]:
        """Positions or velocities: arm, then end effector."""
        if kind == "q":
            return view.qpos[:, np.concatenate([self._arm, self._end])]
        return view.qvel[:, np.concatenate([self._arm_dof, self._end_dof])]

    def reset(self, view: View, ids: np.ndarray, zero: Float[np.ndarray, "n joint"] | None) -> None:
        """Bring it home in some worlds; `zero` is by how much the zeros of the arm's encoders are off."""
        view.qpos[np.ix_(ids, self._arm)] = self.rig.home
        view.qpos[np.ix_(ids, self._end)] = self.rig.end.rest
        view.ctrl[np.ix_(ids, self._arm_ctrl)] = self.rig.home
        view.ctrl[np.ix_(ids, self._end_ctrl)] = self.rig.end_start
        start = np.tile(self.rig.home, (len(ids), 1))
        self.controller.reset(ids, start if zero is None else start + zero[ids])

    def put(self, view: View, arm: np.ndarray, end: np.ndarray, zero: np.ndarray | None) -> None:
        """Move it to joint positions in every world, and let the servos hold it there."""
        for columns, controls, at in ((self._arm, self._arm_ctrl, arm), (self._end, self._end_ctrl, end)):
            view.qpos[:, columns] = view.ctrl[:, controls] = at
        self.controller.target[:] = arm if zero is None else arm + zero

    def follow(self, view: View, arm: np.ndarray, end: np.ndarray) -> None:
        """Tell the servos where to be in every world."""
        view.ctrl[:, self._arm_ctrl], view.ctrl[:, self._end_ctrl] = arm, end
        self.controller.target[:] = arm

    def tare(self, view: View, ids: np.ndarray) -> None:
        """Call what the wrist feels now nothing."""
        self.offset[ids] = self._wrist.felt(view)[ids]

    def command(self, view: View, command: RobotCommand, kind: ArmAction, dt: float, zero: np.ndarray | None) -> None:
        """Set the controls of a control period of `dt` seconds; what no actuator reaches is cut."""
        q = view.qpos[:, self._arm]
        if zero is not None:
            q = q + zero  # the controller counts as the encoders do
        if kind == "cartesian" and len(self._arm):
            target = self.controller.step(q, command.arm, dt)
        else:
            target = self.controller.step_joints(q, command.arm, dt)
        view.ctrl[:, self._arm_ctrl] = target
        limits = self.rig.end.control
        view.ctrl[:, self._end_ctrl] = np.clip(command.end, limits.min(axis=1), limits.max(axis=1))

    def tool(
        self, q: Float[np.ndarray, "n joint"], qd: Float[np.ndarray, "n joint"]
    ) -> tuple[Float[np.ndarray, "n 7"], Float[np.ndarray, "n 6"]]:
        """Pose and twist of the tool centre point, by forward kinematics."""
        p, R, J = self.controller.kinematics.forward(q)
        return np.concatenate([p, quat_from_matrix(R)], axis=1), (J @ qd[..., None])[..., 0]

    def state(self, view: View) -> RigState:
        """The robot now."""
        q, qd = view.qpos[:, self._arm].copy(), view.qvel[:, self._arm_dof].copy()
        tcp, twist = self.tool(q, qd)
        return RigState(
            q=q,
            qd=qd,
            tcp=tcp,
            twist=twist,
            end=view.qpos[:, self._end].copy(),
            wrench=self.offset - self._wrist.felt(view),
            touch=view.sensordata[:, self._touch].copy(),
        )
