"""Chains read off a model agree with MuJoCo, for hinges and slides, wherever their anchors are."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.robots.kinematics import ChainKinematics
from dexprior.robots.rigs import add_rig

_CHAIN = """
<mujoco><compiler angle="radian"/><worldbody>
  <body pos=".1 .2 .3" quat=".9 .1 .3 .2">
    <joint name="a" axis="1 2 3" pos=".05 -.02 .03"/><geom size=".1"/>
    <body pos="0 .3 .1" quat=".8 0 .5 .1">
      <joint name="b" type="slide" axis="0 1 1"/><joint name="c" axis="0 0 1" pos="-.1 0 .2"/><geom size=".1"/>
      <site name="tip" pos=".1 .1 .2" quat=".7 .7 .1 0"/>
    </body>
  </body>
</worldbody></mujoco>
"""


def _compare(model: mujoco.MjModel, joints: tuple[str, ...], site: str, q: np.ndarray) -> None:
    data = mujoco.MjData(model)
    chain = ChainKinematics(model, joints, site)
    p, R, J = chain.forward(q)
    for row, columns in zip(q, J):
        np.testing.assert_allclose(np.transpose(chain.jacobian(row.tolist())), columns, atol=1e-12)
    dofs = [model.joint(name).dofadr[0] for name in joints]
    jacobian = np.zeros((6, model.nv))
    for k, row in enumerate(q):
        data.qpos[[model.joint(name).qposadr[0] for name in joints]] = row
        mujoco.mj_forward(model, data)
        np.testing.assert_allclose(p[k], data.site(site).xpos, atol=1e-12)
        np.testing.assert_allclose(R[k], data.site(site).xmat.reshape(3, 3), atol=1e-12)
        mujoco.mj_jacSite(model, data, jacobian[:3], jacobian[3:], model.site(site).id)
        np.testing.assert_allclose(J[k], jacobian[:, dofs], atol=1e-12)


def test_a_chain_with_offset_anchors_and_a_slide():
    model = mujoco.MjModel.from_xml_string(_CHAIN)
    _compare(model, ("a", "b", "c"), "tip", np.random.default_rng(0).uniform(-2, 2, (5, 3)))


@pytest.mark.parametrize("arm", ["arm7", "gantry"])
def test_the_built_in_arms(arm):
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    rig = add_rig(spec, arm, "parallel", position=(0.1, -0.2, 0.3), yaw=0.4)
    low, high = np.clip(rig.arm.limits, -2, 2).T
    _compare(
        spec.compile(), rig.arm_joints, rig.name("tcp"), np.random.default_rng(1).uniform(low, high, (5, len(low)))
    )


@pytest.mark.parametrize("joints", [("a", "c"), ("b", "a", "c"), ("a", "b", "c", "d")])
def test_other_joints_than_the_chain_has_are_named(joints):
    with pytest.raises(BadInput, match=r"has joints \['a', 'b', 'c'\]"):
        ChainKinematics(mujoco.MjModel.from_xml_string(_CHAIN), joints, "tip")


def test_a_ball_joint_is_refused():
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><joint name='ball' type='ball'/><geom size='.1'/><site name='s'/></body></worldbody>"
        "</mujoco>"
    )
    with pytest.raises(BadInput, match="'ball' is neither a hinge nor a slide"):
        ChainKinematics(model, ("ball",), "s")
