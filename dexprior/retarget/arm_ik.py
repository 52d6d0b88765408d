"""Tool trajectory -> joint trajectory of the built-in arm, by differential inverse kinematics with mink."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from dexprior.geometry.rotations import rotation_angle
from dexprior.robots.arm7 import ARM_JOINTS, GRIPPER_JOINTS, HOME, MAX_OPENING, add_arm
from dexprior.robots.identity import model_hash
from dexprior.types import JointTrajectory

if TYPE_CHECKING:
    import mujoco

__all__ = ["ARM_WITH_GRIPPER", "solve_arm"]

ARM_WITH_GRIPPER = "arm7+parallel"
"""What such trajectories say they are of: arm and end effector, as the catalog names them."""

_POSITION_TOLERANCE = 0.003  # [m]
_ROTATION_TOLERANCE = 0.1  # [rad]
_ITERATIONS = 8


@cache
def _arm() -> tuple[mujoco.MjModel, str]:
    import mujoco

    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    add_arm(spec)
    model = spec.compile()
    return model, model_hash(model)


def solve_arm(
    t: Float[np.ndarray, " time"], tool: Float[np.ndarray, "time 7"], opening: Float[np.ndarray, " time"]
) -> JointTrajectory:
    """Joint positions that reach each tool pose, each frame started from the last that was reached.

    A frame is feasible when the tool lands within 3 mm and 0.1 rad; joint limits hold in every frame.
    The gripper's joints carry half the commanded opening each, clipped to what they can reach.

    Args:
        t: seconds.
        tool: wanted poses of the tool centre point, base frame.
        opening: commanded openings [m].
    """
    import mink

    model, identity = _arm()
    configuration = mink.Configuration(model)
    q = np.zeros(model.nq)
    arm = np.array([model.joint(name).qposadr[0] for name in ARM_JOINTS])
    pads = np.array([model.joint(name).qposadr[0] for name in GRIPPER_JOINTS])
    q[arm] = HOME
    configuration.update(q)
    task = mink.FrameTask("tcp", "site", position_cost=1.0, orientation_cost=0.2, lm_damping=1e-3)
    posture = mink.PostureTask(model, cost=1e-3)
    posture.set_target(q)
    limits = [mink.ConfigurationLimit(model)]
    dt = 0.05
    rows: list[np.ndarray] = []
    reached: list[Any] = []
    known, patient = q, True
    for pose in tool:
        target = mink.SE3(wxyz_xyz=np.concatenate([pose[3:], pose[:3]]))
        task.set_target(target)
        for _ in range(40 if patient else _ITERATIONS):
            velocity = mink.solve_ik(configuration, [task, posture], dt, "daqp", limits=limits)
            configuration.integrate_inplace(velocity, dt)
            if np.linalg.norm(task.compute_error(configuration)[:3]) < 2e-4:
                break
        rows.append(configuration.q.copy())
        reached.append(configuration.get_transform_frame_to_world("tcp", "site").wxyz_xyz)
        patient = bool(np.linalg.norm(reached[-1][4:] - pose[:3]) >= _POSITION_TOLERANCE)
        if patient:  # a pose out of reach leaves the arm in a corner from which it may not come back
            configuration.update(known)
        else:
            known = rows[-1]
    q_all = np.stack(rows)
    q_all[:, pads] = np.clip(opening, 0.0, MAX_OPENING)[:, None] / 2
    poses = np.stack(reached)[:, [4, 5, 6, 0, 1, 2, 3]]
    feasible = np.linalg.norm(poses[:, :3] - tool[:, :3], axis=1) < _POSITION_TOLERANCE
    feasible &= rotation_angle(poses[:, 3:], tool[:, 3:]) < _ROTATION_TOLERANCE
    return JointTrajectory(
        robot=ARM_WITH_GRIPPER,
        model_hash=identity,
        names=(*ARM_JOINTS, *GRIPPER_JOINTS),
        t=t,
        q=np.concatenate([q_all[:, arm], q_all[:, pads]], axis=1),
        ee_pose=poses,
        feasible=feasible,
    )
