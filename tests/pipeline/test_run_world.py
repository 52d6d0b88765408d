"""The held-out panel in both worlds: the same scenes, another contact, and the verdicts of their episodes."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.pipeline.stages import EvaluationConfig, describe_episodes, run_world
from dexprior.worlds.tasks import expert_of, make_task

TASK = make_task("insertion")
CONFIG = EvaluationConfig(instances=3, seed=5)


def _expert():
    """The scripted expert, who looks at the truth."""
    memory = np.zeros((3, 4))
    return lambda _, reading: expert_of("insertion")(reading.truth, (), float(reading.t[0]), memory)


def _still(observation, reading):
    return np.tile([0.0, 0, 0, 0, 0, 0, 1.0], (len(reading.t), 1))


def test_both_worlds_show_the_same_scenes_under_their_own_parameters():
    (sim, panel), (other, there) = (run_world(_expert(), world, CONFIG, task=TASK) for world in ("sim", "other"))
    assert panel.hash == there.hash
    assert (panel.family, there.family) == (TASK.family, TASK.reality)
    assert sim.success.all()
    assert other.success.all()
    assert not np.array_equal(sim.robots[0].wrench, other.robots[0].wrench)
    assert describe_episodes(sim)["success"]["k"] == 3


def test_nobody_acts_and_nothing_is_solved():
    episodes, _ = run_world(_still, "sim", CONFIG, task=TASK)
    assert not episodes.success.any()
    assert not episodes.held.any()


def test_cases_of_a_ledger_are_moved_to_either_world(tmp_path):
    _, panel = run_world(_still, "other", CONFIG, task=TASK)
    cases = panel.take([2, 0]).save(tmp_path / "cases.json")
    config = EvaluationConfig(instances=3, seed=5, cases=str(cases))
    for world, family in (("sim", TASK.family), ("other", TASK.reality)):
        episodes, shown = run_world(_still, world, config, task=TASK)
        assert len(episodes.success) == 2
        assert shown.family == family
        np.testing.assert_array_equal(shown.scenes["nut"], panel.scenes["nut"][[2, 0]])


def test_another_world_is_refused():
    with pytest.raises(BadInput, match="world 'moon'; choices: sim, other"):
        run_world(_still, "moon", CONFIG, task=TASK)
