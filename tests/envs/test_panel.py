"""Panels: one seed, one list of tasks, whatever the family; and nobody changes a task unnoticed."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from dexprior.envs.line.panel import Panel
from dexprior.errors import BadInput, UnknownName
from dexprior.worlds.insertion import HUMAN_WORLD, OTHER_FAMILY, TRAINING_FAMILY


@pytest.fixture(scope="module")
def panel() -> Panel:
    return Panel.sample("training", TRAINING_FAMILY, 5, seed=3)


def scenes(panel: Panel) -> list:
    return [(i.nut, i.bolt, i.nut_yaw, i.seed) for i in panel]


def test_one_seed_poses_the_same_tasks_to_both_worlds(panel):
    other = Panel.sample("other", OTHER_FAMILY, 5, seed=3)
    assert scenes(other) == scenes(panel)
    assert other.hash == panel.hash
    assert dict(other.instances[0].parameters) == HUMAN_WORLD
    assert dict(panel.instances[0].parameters) != HUMAN_WORLD


def test_another_seed_poses_other_tasks(panel):
    other = Panel.sample("training", TRAINING_FAMILY, 5, seed=4)
    assert other.hash != panel.hash
    assert not set(scenes(other)) & set(scenes(panel))


def test_sampling_repeats(panel):
    assert Panel.sample("training", TRAINING_FAMILY, 5, seed=3) == panel


def test_instances_differ_and_lie_in_the_family(panel):
    assert len(set(scenes(panel))) == 5
    assert len({i.seed for i in panel}) == 5
    for instance in panel:
        row = np.array([instance.parameters[name] for name in TRAINING_FAMILY.names])
        assert np.isfinite(TRAINING_FAMILY.log_prob(row[None])).all()


def test_json_and_back(panel, tmp_path):
    text = panel.save(tmp_path / "panel.json").read_text()
    back = Panel.from_json(json.loads(text))
    assert back == panel
    assert back.hash == panel.hash == json.loads(text)["hash"]


@pytest.mark.parametrize(
    "tamper",
    [
        lambda d: d["instances"][1]["nut"].__setitem__(0, 0.41),
        lambda d: d["instances"][0].__setitem__("seed", 1),
        lambda d: d["instances"].pop(),
        lambda d: d["instances"].reverse(),
        lambda d: d.__setitem__("hash", "0" * 12),
    ],
    ids=["moved", "seed", "dropped", "reordered", "hash"],
)
def test_a_changed_task_is_noticed(tamper, panel):
    data = json.loads(json.dumps(panel.to_json()))
    tamper(data)
    with pytest.raises(BadInput, match=r"panel 'training': stored hash .* but its instances hash to"):
        Panel.from_json(data)


@pytest.mark.parametrize("missing", ["name", "family", "instances"])
def test_a_missing_key_is_named(missing, panel):
    data = copy.deepcopy(panel.to_json())
    del data[missing]
    with pytest.raises(BadInput, match=f"not a panel: it holds no '{missing}'"):
        Panel.from_json(data)


@pytest.mark.parametrize("data", [[], {"instances": 3}, {"instances": [3]}])
def test_something_else_is_no_panel(data):
    with pytest.raises(BadInput, match=r"not a panel|instances = 3"):
        Panel.from_json(data)


def test_subsets(panel):
    part = panel.subset([3, 0])
    assert part.instances == (panel.instances[3], panel.instances[0])
    assert part.hash != panel.hash
    assert panel.subset(list(range(5))) == panel


@pytest.mark.parametrize("i", [5, -1])
def test_instances_that_are_not_there(i, panel):
    with pytest.raises(UnknownName, match=f"unknown instance {i}\\. Known: 0..4"):
        panel.subset([i])


def test_an_empty_panel_tests_nothing():
    with pytest.raises(BadInput, match="0 instances; at least one is needed"):
        Panel.sample("none", TRAINING_FAMILY, 0, seed=0)


def test_no_seed_makes_the_training_panel_the_evaluation_panel():
    for seed in (0, 1, 1000):
        training = Panel.sample("a", TRAINING_FAMILY, 4, seed=seed, purpose="training")
        evaluation = [Panel.sample("b", TRAINING_FAMILY, 4, seed=s).hash for s in (0, 1, 1000)]
        assert training.hash not in evaluation
