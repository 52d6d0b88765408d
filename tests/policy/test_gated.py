"""Behind the gate of any task's robot a scene ends as it does without, and nothing that is asked for is a stop."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.envs.hardware.robot import LoopbackRobot
from dexprior.envs.messages import instance_to_plain
from dexprior.envs.panel import Panel
from dexprior.errors import BadInput
from dexprior.policy.gated import run_gated
from dexprior.policy.rollout import expert_policy, run_episodes
from dexprior.worlds.tasks import make_task

TASKS = {"pick_place": make_task("pick_place"), "peg": make_task("peg", start="standing")}


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_an_expert_succeeds_behind_the_gate_in_worlds_of_the_training_family(name):
    from dexprior.envs.sim import SimBackend

    task = TASKS[name]
    panel = Panel.sample("gate", task, 2, seed=5)
    free = run_episodes(expert_policy(task), SimBackend(task, 2, threads=1), panel)
    gated = run_gated(lambda _: expert_policy(task), task, panel)
    assert free.success.all()
    assert gated.success.all()
    assert (gated.stops, gated.refused) == ({}, {})


def test_a_policy_that_asks_for_too_much_is_stopped_and_counted():
    """Two numbers of three times what an action may be, in turns, so that they lead nowhere."""
    task, signs = TASKS["pick_place"], iter(np.tile([3.0, -3.0], 1000))

    def policy(_):
        return lambda observation, reading: np.array([[0, 0, 0, 0, 0, next(signs), 0]])

    gated = run_gated(policy, task, Panel.sample("gate", task, 2, seed=5))
    assert gated.stops == {"saturated": 2}
    assert not gated.success.any()
    assert gated.refused == {}


def test_the_robot_stands_in_the_cell_of_the_instance():
    """It takes the parameters that the panel gives the instance, and knows no other."""
    task = TASKS["pick_place"]
    panel = Panel.sample("gate", task, 3, seed=5)
    robot = LoopbackRobot(task, task.family, cells=panel)
    for k in (2, 0):
        robot.answer(0, {"type": "prepare"} | instance_to_plain(panel.take([k])))
        assert robot._backend.worlds.view.parameters[0] == panel.family.as_dict(panel.parameters[k])
    with pytest.raises(BadInput, match="no cell for the seed"):
        robot.answer(0, {"type": "prepare"} | instance_to_plain(Panel.sample("gate", task, 1, seed=6)))
