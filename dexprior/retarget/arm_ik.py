"""Tool trajectory -> joint trajectory of an arm with its end effector, by differential inverse kinematics with mink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dexprior.geometry.rotations import rotation_angle
from dexprior.geometry.timing import contact_intervals
from dexprior.retarget.gripper import ToolTrajectory
from dexprior.retarget.grips import grip_map
from dexprior.robots.identity import model_hash
from dexprior.robots.rigs import rig_model
from dexprior.types import JointTrajectory

__all__ = ["Miss", "missed", "solve_arm"]

_POSITION_TOLERANCE = 0.003  # [m]
_ROTATION_TOLERANCE = 0.1  # [rad]
_ITERATIONS = 8
_PATIENT = 40  # from home, and from where a pose was out of reach
_AT_LIMIT = 0.01  # [rad, m]


def solve_arm(arm: str, end: str, plan: ToolTrajectory) -> JointTrajectory:
    """Joint positions that reach each tool pose, from the arm's home posture, each frame started from the last that was
    reached.

    A frame is feasible when the tool lands within 3 mm and 0.1 rad; joint limits hold in every frame. The end
    effector's joints are where its opening brings them with nothing between its fingertips.

    Args:
        arm, end: names in the catalog.
        plan: poses in the arm's base frame.

    Raises:
        UnknownName, MissingExtra: as `dexprior.robots.rigs.add_rig`.
        BadInput: the arm has no joints, or the end effector closes by no one number.
    """
    import mink

    rig, model = rig_model(arm, end)
    grip = grip_map(end)
    moved = [int(model.joint(name).qposadr[0]) for name in rig.arm_joints]
    closed = [int(model.joint(name).qposadr[0]) for name in rig.end_joints]
    q = model.qpos0.copy()
    q[moved], q[closed] = rig.home, rig.end.rest
    configuration = mink.Configuration(model)
    configuration.update(q)
    tcp = rig.name("tcp")
    task = mink.FrameTask(tcp, "site", position_cost=1.0, orientation_cost=0.2, lm_damping=1e-3)
    posture = mink.PostureTask(model, cost=1e-3)
    posture.set_target(q)
    limits = [mink.ConfigurationLimit(model)]
    dt = 0.05
    rows: list[np.ndarray] = []
    reached: list[Any] = []
    known, patient = q, True
    for pose in plan.tool:
        task.set_target(mink.SE3(wxyz_xyz=np.concatenate([pose[3:], pose[:3]])))
        for _ in range(_PATIENT if patient else _ITERATIONS):
            velocity = mink.solve_ik(configuration, [task, posture], dt, "daqp", limits=limits)
            configuration.integrate_inplace(velocity, dt)
            if np.linalg.norm(task.compute_error(configuration)[:3]) < 2e-4:
                break
        rows.append(configuration.q.copy())
        reached.append(configuration.get_transform_frame_to_world(tcp, "site").wxyz_xyz)
        patient = bool(np.linalg.norm(reached[-1][4:] - pose[:3]) >= _POSITION_TOLERANCE)
        if patient:  # a pose out of reach leaves the arm in a corner from which it may not come back
            configuration.update(known)
        else:
            known = rows[-1]
    poses = np.stack(reached)[:, [4, 5, 6, 0, 1, 2, 3]]
    feasible = np.linalg.norm(poses[:, :3] - plan.tool[:, :3], axis=1) < _POSITION_TOLERANCE
    feasible &= rotation_angle(poses[:, 3:], plan.tool[:, 3:]) < _ROTATION_TOLERANCE
    pressing = np.repeat(plan.force[:, None], len(rig.end.touch), axis=1)
    return JointTrajectory(
        robot=f"{arm}+{end}",
        model_hash=model_hash(model),
        names=(*rig.arm.joints, *rig.end.joints),
        t=plan.t,
        q=np.concatenate([np.stack(rows)[:, moved], grip.posture(plan.opening)], axis=1),
        ee_pose=poses,
        feasible=feasible,
        fingers=rig.end.touch,
        contact=(pressing > 0.0).astype(np.float64),
        force=pressing,
    )


@dataclass(frozen=True, kw_only=True)
class Miss:
    """A stretch of time in which an arm does not reach what it should."""

    start: float
    stop: float
    """First and last such frame [s]."""
    joints: tuple[str, ...]
    """Joints of the arm that are at a limit of theirs in half of these frames or more; none where the place is too far,
    or where the arm is singular."""


def missed(trajectory: JointTrajectory) -> list[Miss]:
    """When an arm's trajectory is not feasible, and which joints are at their limits then.

    Args:
        trajectory: of `solve_arm`.
    """
    rig, model = rig_model(*trajectory.robot.split("+"))
    limits = np.array([model.joint(name).range for name in rig.arm_joints])
    q = trajectory.q[:, : len(limits)]
    at_limit = ((q < limits[:, 0] + _AT_LIMIT) | (q > limits[:, 1] - _AT_LIMIT)) & ~trajectory.feasible[:, None]
    return [
        Miss(
            start=float(trajectory.t[a]), stop=float(trajectory.t[b - 1]),
            joints=tuple(name for name, there in zip(rig.arm.joints, at_limit[a:b].mean(axis=0) >= 0.5) if there),
        )
        for a, b in contact_intervals(~trajectory.feasible)
    ]  # fmt: skip
