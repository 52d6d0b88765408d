"""Rollouts of many parameter sets are those of single models to which the family was applied."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from dexprior.errors import BadInput, UnknownName
from dexprior.families import Parameter, ParameterFamily, actuation
from dexprior.worlds.rollouts import ModelRollouts

SCENE = """
<mujoco>
  <option timestep="0.01" integrator="implicitfast"/>
  <worldbody>
    <geom name="table" type="plane" size="2 2 .1"/>
    <body name="block" pos="0 0 .05">
      <joint name="x" type="slide" axis="1 0 0"/><joint name="z" type="slide" axis="0 0 1"/>
      <geom name="block" type="box" size=".05 .05 .05" mass="1"/>
    </body>
  </worldbody>
  <actuator><position name="push" joint="x" kp="80" kv="5"/></actuator>
  <sensor><jointpos name="at" joint="x"/><jointvel name="speed" joint="x"/></sensor>
</mujoco>
"""


def parameter(name: str, low: float, high: float, target: str, **changes) -> Parameter:
    return Parameter(**{"name": name, "unit": "1", "low": low, "high": high, "target": target} | changes)


FAMILY = ParameterFamily(
    "block",
    (
        parameter("mass", 0.5, 2.0, "body/block/mass", operation="scale", distribution="log_uniform"),
        parameter("friction", 0.2, 0.8, "geom/*/friction/0"),
        parameter("gain", 0.5, 2.0, "actuator/push/gainprm/0", operation="scale"),
        parameter("impratio", 1.0, 10.0, "option/-/impratio"),
        parameter("fixed", 0.3, 0.3, "joint/x/damping/0"),
        *actuation()[:1],
    ),
)
CONTROLS = 0.2 * np.sin(np.arange(60) * 0.1)[:, None]


def rollouts(family: ParameterFamily = FAMILY, **changes) -> ModelRollouts:
    model = mujoco.MjModel.from_xml_string(SCENE)
    return ModelRollouts(model, family, CONTROLS, **{"sensors": ("at", "speed"), "every": 5, "worlds": 8} | changes)


def test_every_world_is_the_model_with_its_values():
    values = FAMILY.sample(np.random.default_rng(0), 11)  # more than there are worlds
    found = rollouts()(values)
    assert found.shape == (11, 24)
    for row, want in ((0, values[0]), (10, values[10])):
        model = mujoco.MjModel.from_xml_string(SCENE)
        delay = FAMILY.apply(model, FAMILY.as_dict(want))["actuator_delay"]
        data, seen = mujoco.MjData(model), []
        for k in range(len(CONTROLS)):
            data.ctrl[0] = np.interp(k - delay / 0.01, np.arange(len(CONTROLS)), CONTROLS[:, 0])
            mujoco.mj_step(model, data)
            seen.append(data.sensordata.copy())
        np.testing.assert_allclose(found[row], np.array(seen)[4::5].T.ravel(), atol=1e-12)


def test_answers_do_not_depend_on_neighbours_or_what_came_before():
    values = FAMILY.sample(np.random.default_rng(1), 8)
    run = rollouts()
    first = run(values)
    np.testing.assert_array_equal(run(values[[6, 2]]), first[[6, 2]])
    np.testing.assert_array_equal(rollouts(worlds=3)(values), first)
    assert run(values[:0]).shape == (0, 24)


def test_a_world_that_diverges_has_no_readings_from_there_on():
    wild = ParameterFamily("wild", (parameter("kick", -1e9, -1.0, "joint/x/damping/0"),))
    found = rollouts(wild)(np.array([[-1e9], [-1.0]]))
    assert np.isnan(found[0]).any()
    assert np.isfinite(found[1]).all()


def test_a_start_of_ones_own():
    start = np.array([0.3, 0.0])
    found = rollouts(qpos=start)(FAMILY.sample(np.random.default_rng(0), 1))
    assert found[0, 0] > 0.1
    assert abs(rollouts()(FAMILY.sample(np.random.default_rng(0), 1))[0, 0]) < 0.05


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rollouts(every=61), r"controls of shape \(60, 1\), read every 61 steps: expected \(step, 1\)"),
        (lambda: rollouts(FAMILY.extended(*actuation()[1:])), "'backlash' goes to 'world/-/backlash'; .* only a delay"),
        (lambda: rollouts()(np.zeros((2, 3))), r"values of shape \(2, 3\), expected \(n, 6\)"),
        (
            lambda: rollouts(FAMILY.extended(parameter("again", 0.5, 2.0, "geom/block/friction/0", operation="scale"))),
            "what family 'block.1' does to 'geom_friction' is not in proportion",
        ),
    ],
)
def test_what_cannot_be_rolled_out_is_said(make, message):
    with pytest.raises(BadInput, match=message):
        make()


def test_sensors_are_known():
    with pytest.raises(UnknownName, match=r"unknown sensor 'force'. Known: at, speed"):
        rollouts(sensors=("force",))
