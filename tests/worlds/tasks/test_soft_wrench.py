"""The wrist feels what soft things weigh and do, though the engine's force sensors leave flexes out."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.geometry.rotations import quat_rotate
from dexprior.worlds.tasks import TaskWorlds, episode, expert_of, make_task

_STOPS, _SEEN = 2.3, 2.7  # [s] when the lift stops, and when all is still; the shake comes after
_TARE = 0.015  # [N] that an empty hand reads at rest


@pytest.mark.parametrize("fruit", ["strawberry", "peach"])
def test_a_fruit_that_hangs_in_the_fingers_is_felt_with_its_weight_where_it_hangs(fruit):
    task = make_task("soft_grasp", fruit=fruit, timestep=0.004)
    worlds = TaskWorlds(task, 2, threads=1)
    rng = np.random.default_rng(4)
    parameters = [task.family.as_dict(row) for row in task.family.sample(rng, 2)]
    worlds.reset(np.arange(2), task.sample(rng, 2), parameters)
    expert = expert_of("soft_grasp")

    def play(truth, rigs, t, memory):
        action = expert(truth, rigs, t, memory)
        if t >= _STOPS:
            action[:, :6] = 0.0
        return action

    *_, last = episode(worlds, play, seconds=_SEEN)
    rig = worlds.view.rigs[0]
    assert (last.truth["object"][:, 2] > 0.04).all()
    force, torque = (quat_rotate(rig.tcp[:, 3:], value) for value in np.split(rig.wrench, 2, axis=1))
    np.testing.assert_allclose(force[:, 2], -last.truth["weight"], atol=_TARE)
    np.testing.assert_allclose(force[:, :2], 0.0, atol=_TARE)
    wrist = worlds.view.field("site_xpos")[:, worlds.model.site(worlds.rigs[0].name("wrist")).id]
    about = np.cross(last.truth["object"][:, :3] - wrist, force)
    np.testing.assert_allclose(torque, about, atol=0.1 * _TARE)
