"""The batched kinematics are MuJoCo's, and their Jacobians are derivatives."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from dexprior import extras
from dexprior.hands import catalog
from dexprior.hands.kinematics import HandKinematics


@pytest.fixture(params=["builtin-hand", "shadow"], scope="module")
def hand(request):
    if request.param == "shadow" and not extras.available("gymnasium_robotics"):
        pytest.skip("needs gymnasium_robotics (the extra 'robots')")
    robot = catalog.load(request.param)
    model = robot.compile()
    return robot, model, HandKinematics.of(robot, model)


def _random(kinematics, n=5):
    return np.random.default_rng(5).uniform(kinematics.lower, kinematics.upper, size=(n, len(kinematics.joints)))


def test_points_are_mujocos(hand):
    robot, model, kinematics = hand
    q = _random(kinematics)
    points, _ = kinematics.forward(q)
    data = mujoco.MjData(model)
    for k in range(len(q)):
        for name, value in zip(robot.joints, q[k]):
            data.joint(name).qpos = value
        mujoco.mj_kinematics(model, data)
        tool = data.site(robot.tool)
        places = [data.site(robot.tips[f]).xpos for f in robot.fingers]
        places += [data.body(robot.distals[f]).xpos for f in robot.fingers]
        expected = (np.array(places) - tool.xpos) @ tool.xmat.reshape(3, 3)
        np.testing.assert_allclose(points[k], expected, atol=1e-9)


def test_jacobians_are_derivatives(hand):
    _, _, kinematics = hand
    q = _random(kinematics, 2)
    _, jacobian = kinematics.forward(q)
    step = 1e-6
    for column in range(q.shape[1]):
        shift = step * np.eye(q.shape[1])[column]
        difference = (kinematics.forward(q + shift)[0] - kinematics.forward(q - shift)[0]) / (2 * step)
        np.testing.assert_allclose(jacobian[..., column], difference, atol=1e-7)


def test_knuckles_are_where_fingers_begin(hand):
    robot, _, kinematics = hand
    flat, _ = kinematics.forward(np.zeros((1, len(robot.joints))))
    length = np.linalg.norm(flat[0, list(kinematics.tips)] - kinematics.bases, axis=1)
    assert ((length > 0.05) & (length < 0.12)).all()
