"""The catalog of robots: every entry builds what it promises."""

from __future__ import annotations

import importlib.util

import mujoco
import numpy as np
import pytest

from dexprior import extras
from dexprior.errors import BadInput, MissingExtra, UnknownName
from dexprior.hands import catalog
from dexprior.types import FINGERS

HANDS = catalog.names("hand")


@pytest.fixture(params=HANDS)
def robot(request):
    if request.param == "shadow" and not extras.available("gymnasium_robotics"):
        pytest.skip("needs gymnasium_robotics (the extra 'robots')")
    return catalog.load(request.param)


def _tips(robot, model, joints):
    """Fingertips in the wrist frame with some joints set [rad]."""
    data = mujoco.MjData(model)
    for name, value in joints.items():
        data.joint(name).qpos = value
    mujoco.mj_forward(model, data)
    R = data.site(robot.tool).xmat.reshape(3, 3)
    return {f: R.T @ (data.site(s).xpos - data.site(robot.tool).xpos) for f, s in robot.tips.items()}


def test_names_are_those_of_the_model(robot):
    model = robot.compile()
    found = [mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, j) for j in range(model.njnt)]
    assert tuple(found) == robot.joints
    assert model.jnt_limited.all()
    assert all(model.body(b).id > 0 for b in (robot.base, *robot.distals.values()))
    assert robot.fingers == FINGERS


def test_wrist_frame_is_manos(robot):
    """Fingers along -x, thumb towards +z, and a finger that bends goes to the palm's side, -y."""
    model = robot.compile()
    flat = _tips(robot, model, {})
    for finger in FINGERS[1:]:
        assert flat[finger][0] < -0.12
    assert flat["thumb"][2] > flat["index"][2] > flat["middle"][2] > flat["ring"][2] > flat["little"][2]
    bend = {j: model.joint(j).range[1] for j in robot.joints if j.endswith(("_pip", "J1"))}
    bent = _tips(robot, model, {j: v for j, v in bend.items() if not j.endswith(("THJ1", "WRJ1"))})
    for finger in FINGERS[1:]:
        assert bent[finger][1] < flat[finger][1] - 0.02


def test_hash_is_stable_and_sees_a_change(robot):
    model = robot.compile()
    assert catalog.model_hash(model) == catalog.model_hash(robot.compile())
    model.geom_rgba[:] = 0.5
    assert catalog.model_hash(model) == catalog.model_hash(robot.compile()), "colour does not move a robot"
    model.jnt_range[3, 1] += 1e-6
    assert catalog.model_hash(model) != catalog.model_hash(robot.compile())


def test_it_stands_still_in_a_physics_step(robot):
    model = robot.compile()
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 50)
    assert np.isfinite(data.qpos).all()
    assert np.abs(data.qvel).max() < 20


def test_builtin_hand_feels_with_its_fingertips():
    model = catalog.load("builtin-hand").compile()
    data = mujoco.MjData(model)
    data.ctrl[:] = [model.joint(j).range[1] if "abduction" not in j else 0 for j in _names(model)]
    for _ in range(600):
        mujoco.mj_step(model, data)
    assert data.sensordata.max() > 0.1, "a closed fist touches itself"
    assert np.isfinite(data.qpos).all()


def _names(model):
    return [mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, j) for j in range(model.njnt)]


def test_unknown_robot_lists_the_choices():
    with pytest.raises(UnknownName, match=r"unknown robot 'shadw'; did you mean 'shadow'\? Known: builtin-hand"):
        catalog.load("shadw")


def test_absent_package_names_the_extra(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n == "gymnasium_robotics" else find(n))
    with pytest.raises(MissingExtra, match=r"pip install 'dexprior\[robots\]'"):
        catalog.load("shadow").build()


def test_two_robots_cannot_share_a_name():
    import dataclasses

    with pytest.raises(BadInput, match="registered already"):
        catalog.register(dataclasses.replace(catalog.load("builtin-hand"), licence="another"))
    with pytest.raises(UnknownName, match="joint of 'builtin-hand'"):
        dataclasses.replace(catalog.load("builtin-hand"), fixed={"elbow": 0.0})
