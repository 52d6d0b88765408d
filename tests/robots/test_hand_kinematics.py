"""The batched kinematics are MuJoCo's, and their Jacobians are derivatives."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from dexprior import extras
from dexprior.robots import catalog
from dexprior.robots.hand_kinematics import HandKinematics


@pytest.fixture(params=["builtin-hand", "tendon_hand", "human_hand", "shadow"], scope="module")
def hand(request):
    if request.param == "shadow" and not extras.available("gymnasium_robotics"):
        pytest.skip("needs gymnasium_robotics (the extra 'robots')")
    robot = catalog.end_effector(request.param)
    return robot, robot.model, HandKinematics.of(robot)


def _random(kinematics, n=5):
    return np.random.default_rng(5).uniform(kinematics.lower, kinematics.upper, size=(n, len(kinematics.joints)))


def _last_moved(model, body: int) -> int:
    return body if model.body_jntnum[body] else _last_moved(model, model.body_parentid[body])


def test_points_are_mujocos(hand):
    robot, model, kinematics = hand
    q = _random(kinematics)
    points, _ = kinematics.forward(q)
    data = mujoco.MjData(model)
    for k in range(len(q)):
        for name, value in zip(robot.joints, q[k]):
            data.joint(name).qpos = value
        mujoco.mj_kinematics(model, data)
        wrist = data.site(robot.fingers.wrist)
        sites = [data.site(robot.fingers.tips[f]) for f in robot.fingers.names]
        lasts = [data.body(_last_moved(model, model.site(site.id).bodyid[0])).xpos for site in sites]
        places = [*(site.xpos for site in sites), *lasts]
        expected = (np.array(places) - wrist.xpos) @ wrist.xmat.reshape(3, 3)
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


def test_only_a_wrist_between_hand_and_forearm_moves_no_finger(hand):
    robot, _, kinematics = hand
    still = {robot.joints[k] for k in kinematics.fixed}
    assert still == ({"shadow/robot0:WRJ1", "shadow/robot0:WRJ0"} if robot.name == "shadow" else set())
