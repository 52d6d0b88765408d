"""Policies of any task of the suite: trained without a prior, evaluated in both worlds and through a socket."""

from __future__ import annotations

import pytest

from dexprior.cli.evaluate import Config
from dexprior.cli.evaluate import run as evaluate
from dexprior.envs import BackendConfig
from dexprior.errors import BadInput
from dexprior.pipeline.stages import EvaluationConfig, run_world, stage_evaluation, stage_policy, trained_task
from dexprior.policy.actor import ActorConfig
from dexprior.policy.ppo import PpoConfig
from dexprior.worlds.tasks import make_task

TINY = PpoConfig(worlds=2, iterations=1, epochs=1, actor=ActorConfig(width=8, point_width=4))
FEW = EvaluationConfig(instances=2)
TASKS = {
    "pick_place": make_task("pick_place", half_size=0.018),
    "cube_in_hand": make_task("cube_in_hand"),  # no arm to move, and many fingers
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run folder of each task."""
    folders = {}
    for name, task in TASKS.items():
        folders[name] = tmp_path_factory.mktemp(name)
        stage_policy(TINY, None, folders[name], seed=0, use_prior=False, task=task)
    return folders


def test_a_policy_s_file_knows_its_task(trained):
    for name, task in TASKS.items():
        assert trained_task({"policy": trained[name]}) == task
    with pytest.raises(BadInput, match=r"policies of different tasks cannot be compared: .*half_size"):
        trained_task(trained)


@pytest.mark.parametrize("name", TASKS)
def test_it_is_evaluated_in_both_worlds(trained, tmp_path, name):
    found = stage_evaluation(FEW, {"policy": trained[name]}, tmp_path, seed=0)
    assert set(found["policies"]["policy"]) == {"sim", "other"}
    for world in found["policies"]["policy"].values():
        assert world["success"]["n"] == 2
        assert 0 <= world["lost"] <= 2
        assert 0.0 <= world["saturated"] <= 1.0


def test_it_is_evaluated_behind_a_socket_in_the_other_world_only(trained, tmp_path):
    config = EvaluationConfig(instances=2, backend=BackendConfig(kind="reality"))
    found = stage_evaluation(config, {"policy": trained["pick_place"]}, tmp_path / "there", seed=0)
    here = stage_evaluation(FEW, {"policy": trained["pick_place"]}, tmp_path / "here", seed=0)
    assert set(found["policies"]["policy"]) == {"other"}
    assert found["policies"]["policy"]["other"] == here["policies"]["policy"]["other"]
    with pytest.raises(BadInput, match="world 'sim'; choices: other"):
        run_world(lambda *_: None, "sim", config)


def test_hardware_that_cannot_be_driven_is_named(trained):
    config = EvaluationConfig(instances=2, backend=BackendConfig(kind="hardware"))
    with pytest.raises(BadInput, match="hardware is one arm with a parallel gripper"):
        run_world(lambda *_: None, "other", config, task=TASKS["cube_in_hand"])


def test_what_does_not_fit_is_said(trained, tmp_path):
    with pytest.raises(BadInput, match="'pick_place' without a behavioral prior: give behavior=FOLDER"):
        stage_policy(TINY, None, tmp_path, seed=0, use_prior=True, task=TASKS["pick_place"])
    with pytest.raises(BadInput, match="evaluate task=peg: the policy was trained for 'pick_place'"):
        evaluate(Config(task="peg", policy=str(trained["pick_place"]), out=str(tmp_path)), [])
