"""Many worlds: the single stepper's results, one question to the model for all of them, any number of threads."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from hybrid_models import Counted, Uncertain

from dexprior.collision import HybridStepper, RestitutionFriction
from dexprior.collision.hybrid import HybridBatch, HybridStep
from dexprior.errors import BadInput

WORLD = """
<mujoco>
  <option timestep="0.001" cone="elliptic"/>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 0.1" friction="{friction}"/>
    <body name="ball" pos="0 0 0.05"><freejoint/><geom name="ball" type="sphere" size="0.03" mass="0.05"/></body>
    <body name="box" pos="0.1 0 0.05"><freejoint/>
      <geom name="box" type="box" size="0.05 0.05 0.05" mass="0.2"/></body>
  </worldbody>
</mujoco>
"""
PAIRS = [("ball", "box"), ("ball", "floor")]
PHI = np.array([0.6, 0.3])


def model(friction=0.5):
    return mujoco.MjModel.from_xml_string(WORLD.format(friction=friction))


def throw(data, i):
    """World i's own start; in most worlds the ball meets the box at the same moment."""
    data.qvel[0] = 1.5 + 0.05 * (i % 3)
    data.qvel[1] = 0.05 * i
    data.qvel[2] = -0.2


def run_batch(n, threads=1, steps=150, collision_model=RestitutionFriction()):  # noqa: B008  # it has no state
    batch = HybridBatch(model(), n, PAIRS, collision_model, PHI, threads=threads)
    for i, data in enumerate(batch.data):
        throw(data, i)
    batch.step(steps)
    batch.close()
    return batch


def test_each_world_goes_as_with_a_stepper_of_its_own():
    n = 7
    batch = run_batch(n)
    alone, counts = [], dict.fromkeys(batch.counts, 0)
    for i in range(n):
        data = mujoco.MjData(model())
        throw(data, i)
        stepper = HybridStepper(model(), data, PAIRS, RestitutionFriction(), PHI)
        stepper.step(150)
        alone.append(data.qpos.copy())
        counts = {name: counts[name] + stepper.counts[name] for name in counts}
    np.testing.assert_allclose(batch.qpos, alone, rtol=0, atol=1e-10)
    assert batch.counts == counts
    assert counts["impacts"] >= n
    assert batch.qvel.shape == (n, 12)


def test_the_number_of_threads_does_not_matter():
    one, four = run_batch(9, threads=1), run_batch(9, threads=4)
    np.testing.assert_array_equal(one.qpos, four.qpos)
    assert one.counts == four.counts


def test_the_model_is_asked_once_for_all_worlds():
    counted = Counted()
    run_batch(12, collision_model=counted)
    assert counted.questions >= 24
    assert counted.calls <= counted.questions / 4


def test_worlds_may_differ_in_model_and_parameters():
    models, phi = [model(0.1), model(0.9)], np.array([[[0.0, 0.3]] * 2, [[0.9, 0.3]] * 2])
    batch = HybridBatch(models, 2, PAIRS, RestitutionFriction(), phi)
    for data in batch.data:
        throw(data, 0)
    batch.step(200)
    for i in range(2):
        data = mujoco.MjData(models[i])
        throw(data, 0)
        HybridStepper(models[i], data, PAIRS, RestitutionFriction(), phi[i]).step(200)
        np.testing.assert_allclose(batch.qpos[i], data.qpos, rtol=0, atol=1e-10)
    assert abs(batch.qpos[0] - batch.qpos[1]).max() > 0.01


def test_drawn_answers_depend_on_seed_and_world_alone():
    def draw(seed, n):
        batch = HybridBatch(model(), n, PAIRS, Uncertain(0.1), PHI, sample=True, seed=seed)
        for data in batch.data:
            throw(data, 0)
        batch.step(60)
        return batch.qvel

    first = draw(0, 3)
    np.testing.assert_allclose(draw(0, 2), first[:2], rtol=0, atol=1e-10)
    assert abs(first[0] - first[1]).max() > 1e-3
    assert abs(draw(1, 1)[0] - first[0]).max() > 1e-3


def test_a_world_that_is_set_afresh_starts_afresh():
    batch = run_batch(3, steps=60)
    first = batch.qpos
    for i, data in enumerate(batch.data):
        mujoco.mj_resetData(batch.steppers[i].model, data)
        throw(data, i)
    batch.reset()
    batch.step(60)
    np.testing.assert_array_equal(batch.qpos, first)


def test_numbers_that_do_not_fit_are_refused():
    with pytest.raises(BadInput, match="1 models for n = 2"):
        HybridBatch([model()], 2, PAIRS, RestitutionFriction(), PHI)
    with pytest.raises(BadInput, match=r"phi has shape \(3, 2, 2\), but there are 2 worlds"):
        HybridBatch(model(), 2, PAIRS, RestitutionFriction(), np.zeros((3, 2, 2)))


def test_one_callable_in_place_of_mj_step_follows_from_world_to_world():
    step = HybridStep(PAIRS, RestitutionFriction(), PHI)
    for expected in (1, 2):
        m = model()
        data = mujoco.MjData(m)
        throw(data, 0)
        for _ in range(10):
            step(m, data, nstep=5)
            if step.counts["impacts"] == expected:
                break
        assert step.counts["impacts"] == expected


def test_some_worlds_go_on_while_the_others_wait():
    batch, whole = (HybridBatch(model(), 3, PAIRS, RestitutionFriction(), PHI) for _ in range(2))
    for each in (batch, whole):
        for i, data in enumerate(each.data):
            throw(data, i)
    before = batch.qpos[1].copy()
    batch.step(120, worlds=[0, 2])
    np.testing.assert_array_equal(batch.qpos[1], before)
    batch.step(120, worlds=[1])
    whole.step(120)
    np.testing.assert_allclose(batch.qpos, whole.qpos, rtol=0, atol=1e-10)


def test_a_world_takes_another_model_and_its_counts_go_on():
    batch = run_batch(2)
    counts = batch.counts
    batch.replace(1, model(0.9))
    assert batch.counts == counts
    assert batch.data[1].time == 0.0
    assert batch.steppers[1].model.geom("floor").friction[0] == 0.9
    assert batch.steppers[0].model.geom("floor").friction[0] == 0.5
