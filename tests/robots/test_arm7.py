"""The built-in arm's batched kinematics are MuJoCo's, and its model is what is said of it."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from dexprior.robots.arm7 import (
    ARM_JOINTS,
    GRIPPER_JOINTS,
    HOME,
    JOINT_LIMITS,
    MAX_OPENING,
    ArmKinematics,
)
from dexprior.robots.rigs import rig_model

OWN = "robot/"


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    return rig_model("arm7", "parallel")[1]


@pytest.fixture(scope="module")
def postures() -> np.ndarray:
    low, high = JOINT_LIMITS.T
    return np.random.default_rng(0).uniform(low, high, (40, 7))


def test_kinematics_and_jacobian_are_mujocos(model, postures):
    position, rotation, jacobian = ArmKinematics().forward(postures)
    data = mujoco.MjData(model)
    site = model.site(OWN + "tcp").id
    dofs = [model.joint(OWN + name).dofadr[0] for name in ARM_JOINTS]
    for k, q in enumerate(postures):
        data.qpos[[model.joint(OWN + name).qposadr[0] for name in ARM_JOINTS]] = q
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        linear, angular = np.zeros((2, 3, model.nv))
        mujoco.mj_jacSite(model, data, linear, angular, site)
        np.testing.assert_allclose(position[k], data.site_xpos[site], atol=1e-12)
        np.testing.assert_allclose(rotation[k].ravel(), data.site_xmat[site], atol=1e-12)
        np.testing.assert_allclose(jacobian[k], np.concatenate([linear, angular])[:, dofs], atol=1e-12)


def test_jacobian_is_the_derivative(postures):
    kinematics, h = ArmKinematics(), 1e-6
    _, rotation, jacobian = kinematics.forward(postures)
    for j in range(7):
        step = h * np.eye(7)[j]
        p1, R1, _ = kinematics.forward(postures + step)
        p0, R0, _ = kinematics.forward(postures - step)
        np.testing.assert_allclose((p1 - p0) / (2 * h), jacobian[:, :3, j], atol=1e-8)
        W = (R1 - R0) / (2 * h) @ rotation.transpose(0, 2, 1)  # the skew matrix of the angular velocity
        spin = np.stack([W[:, 2, 1], W[:, 0, 2], W[:, 1, 0]], axis=1)
        np.testing.assert_allclose(spin, jacobian[:, 3:, j], atol=1e-8)


def test_home_points_down_over_the_table():
    position, rotation, _ = ArmKinematics().forward(HOME[None])
    np.testing.assert_allclose(rotation[0, :, 2], [0, 0, -1], atol=1e-12)
    assert 0.4 < position[0, 0] < 0.6
    assert position[0, 1] == pytest.approx(0, abs=1e-12)
    assert ((JOINT_LIMITS[:, 0] < HOME) & (JOINT_LIMITS[:, 1] > HOME)).all()


def test_the_model_has_the_published_limits_and_everything_is_named(model):
    for name, limits in zip(ARM_JOINTS, JOINT_LIMITS):
        np.testing.assert_allclose(model.joint(OWN + name).range, limits)
    for name in GRIPPER_JOINTS:
        np.testing.assert_allclose(model.joint(OWN + name).range, [0, MAX_OPENING / 2])
    assert [model.actuator(k).name for k in range(model.nu)] == [OWN + name for name in (*ARM_JOINTS, *GRIPPER_JOINTS)]
    for kind, count in (("geom", model.ngeom), ("body", model.nbody), ("joint", model.njnt), ("site", model.nsite)):
        assert all(getattr(model, kind)(k).name for k in range(count)), kind
