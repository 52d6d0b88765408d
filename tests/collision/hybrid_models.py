"""Collision models that are simple enough to know the answer, and two bodies that are struck alike."""

from __future__ import annotations

from dataclasses import dataclass, field

import mujoco
import numpy as np

from dexprior.collision import HybridStepper, RestitutionFriction


@dataclass
class Counted:
    """A model that counts its calls and questions."""

    inner: object = field(default_factory=RestitutionFriction)
    calls: int = 0
    questions: int = 0

    @property
    def parameters(self):
        return self.inner.parameters

    @property
    def rows(self):
        return self.inner.rows

    def predict(self, pre, geometry, phi):
        self.calls += 1
        self.questions += len(pre)
        return self.inner.predict(pre, geometry, phi)


class Sticking:
    """Restitution along the normal, no sliding left along both tangents. phi = (e,)."""

    parameters = ("restitution",)
    rows = 3

    def predict(self, pre, geometry, phi):
        u = np.einsum("bcd,bd->bc", geometry.jacobian, pre)
        change = -u * np.stack([1.0 + phi[:, 0], np.ones(len(u)), np.ones(len(u))], axis=1)
        impulse = np.linalg.solve(geometry.delassus, change[..., None])
        post = pre + (geometry.inverse_inertia @ geometry.jacobian.transpose(0, 2, 1) @ impulse)[..., 0]
        return post, np.zeros_like(post)


@dataclass(frozen=True)
class Uncertain:
    """Restitution and friction with a standard deviation of the contact impulse, relative to its normal part."""

    spread: float
    inner: RestitutionFriction = field(default_factory=RestitutionFriction)

    @property
    def parameters(self):
        return self.inner.parameters

    @property
    def rows(self):
        return self.inner.rows

    def predict(self, pre, geometry, phi):
        post, _ = self.inner.predict(pre, geometry, phi)
        approach = np.einsum("bd,bd->b", geometry.jacobian[:, 0], pre)
        unit = -approach / geometry.delassus[:, 0, 0]
        response = geometry.inverse_inertia @ geometry.jacobian.transpose(0, 2, 1)
        return post, self.spread * np.sqrt((response**2).sum(axis=2)) * unit[:, None]


_STRUCK = """
<mujoco>
  <option timestep="0.001" gravity="0 0 0"/>
  <default><geom condim="{condim}"/></default>
  <worldbody>
    <body name="stopped"><joint name="stopped" type="slide" axis="1 0 0" range="-1 0" limited="true"/>
      <geom name="stopped" size="0.02" mass="0.1"/></body>
    <body name="second" pos="0 1 0">{joint}<geom name="second" size="0.02" mass="0.1"/></body>
    {beside}
    <body name="a" pos="-0.041 0 0"><freejoint name="a"/><geom name="a" size="0.02" mass="0.1"/></body>
    <body name="b" pos="-0.041 1 0"><freejoint name="b"/><geom name="b" size="0.02" mass="0.1"/></body>
  </worldbody>
  <equality>{equality}</equality>
  <sensor><jointlimitfrc name="stop" joint="stopped"/></sensor>
</mujoco>
"""


def strike_two(
    *, joint: str, equality: str, beside: str = "", condim: int = 3
) -> tuple[mujoco.MjModel, mujoco.MjData, HybridStepper]:
    """A slider at its stop and a second body, each struck by a ball of its mass at 1 m/s with a restitution of a half;
    as they are when both impacts were answered.

    Args:
        joint: of the second body.
        equality: what holds it.
        beside: another body.
        condim: of all contacts.
    """
    model = mujoco.MjModel.from_xml_string(_STRUCK.format(joint=joint, equality=equality, beside=beside, condim=condim))
    data = mujoco.MjData(model)
    data.joint("stopped").qpos[0] = 1e-9
    for name in ("a", "b"):
        data.joint(name).qvel[0] = 1.0
    pairs = [("a", "stopped"), ("b", "second")]
    stepper = HybridStepper(model, data, pairs, RestitutionFriction(), np.array([0.5, 0.0]))
    while stepper.counts["impacts"] < 2 and data.time < 0.1:
        stepper.step()
    assert stepper.counts["impacts"] == 2
    return model, data, stepper
