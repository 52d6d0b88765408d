"""The worlds that judge a task, and the seeds of the scenes that things are chosen and judged on."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.pipeline.worlds import SCORING, TUNING, judging_worlds
from dexprior.worlds.tasks import SUITE, make_task


@pytest.mark.parametrize("name", ["pick_place", "peg"])
def test_judging_worlds_lie_outside_of_what_policies_are_trained_in(name):
    task = make_task(name, **SUITE[name].robot)
    worlds = judging_worlds(task)
    assert list(worlds) == ["training", "other", "others", "laws"]
    scenes = task.sample(np.random.default_rng(0), 200)
    inside = {p.name: (p.low, p.high) for p in task.family.parameters}
    for world in ("other", "others", "laws"):
        panel = worlds[world].panel(scenes, seed=0)
        for k, parameter in enumerate(panel.family.names):
            low, high = inside[parameter]
            values = panel.parameters[:, k]
            assert ((values <= low) | (values >= high)).all(), (world, parameter)
    assert len(np.unique(worlds["others"].panel(scenes, seed=0).parameters[:, 0])) > 100
    assert worlds["laws"].phenomena is not None
    assert worlds["training"].phenomena is None


def test_a_world_s_parameters_depend_on_its_seed_and_not_on_the_scenes():
    task = make_task("pick_place")
    world = judging_worlds(task)["others"]
    few, more = (task.sample(np.random.default_rng(k), 8) for k in range(2))
    one, other = world.panel(few, seed=3), world.panel(more, seed=3)
    assert np.array_equal(one.parameters, other.parameters)
    assert np.array_equal(one.seeds, other.seeds)
    assert not np.array_equal(one.parameters, world.panel(few, seed=4).parameters)


def test_tuning_and_scoring_never_show_the_same_scenes():
    task = make_task("pick_place")
    tuned, scored = (task.sample(np.random.default_rng([seed, 0]), 64)["cube"] for seed in (TUNING, SCORING))
    assert not (tuned[:, None] == scored[None]).all(axis=2).any()
