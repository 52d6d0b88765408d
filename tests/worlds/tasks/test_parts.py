"""Parts: closed surfaces that face outwards, of bodies that are there, where the task says that its object is."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dexprior.errors import BadInput, UnknownName
from dexprior.worlds.tasks import SUITE, PickPlace, Task, TaskWorlds, demonstrated_tasks, human_task, make_task
from dexprior.worlds.tasks.parts import box_surface, ellipsoid_surface, turned_surface

_QUICK = sorted(set(SUITE) - {"nut_bolt", "folding"})


def _volume(surface) -> float:
    """Of what a closed surface encloses; negative where it faces inwards."""
    corners = surface[0][surface[1]]
    return float(np.einsum("ti,ti->t", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum() / 6)


def test_surfaces_enclose_their_volume_from_outside():
    assert _volume(box_surface(0.1, 0.2, 0.3)) == pytest.approx(8 * 0.1 * 0.2 * 0.3)
    ring = turned_surface(((0.1, 0.2), (-0.1, 0.3)))
    assert _volume(ring) == pytest.approx(np.pi * (0.2**2 - 0.1**2) * 0.4, rel=0.01)
    assert _volume(turned_surface(((0.0, 0.2), (0.0, 0.5)))) == pytest.approx(np.pi * 0.2**2 * 0.5, rel=0.01)
    assert _volume(ellipsoid_surface(0.1, 0.2, 0.3)) == pytest.approx(4 / 3 * np.pi * 0.1 * 0.2 * 0.3, rel=0.01)


@pytest.mark.parametrize("name", SUITE)
def test_one_part_of_every_task_moves_and_its_surface_faces_outwards(name):
    task = make_task(name)
    assert [part.moves for part in task.parts].count(True) == 1
    assert task.manipulated is not None
    assert len({part.name for part in task.parts}) == len(task.parts)
    for part in task.parts:
        if part.surface is None:
            assert part.soft
        elif name != "peg" or part.moves:  # of the peg's block only what is seen is there
            assert _volume(part.surface()) > 0


@pytest.mark.parametrize("name", _QUICK)
def test_the_moving_part_is_the_tasks_object_and_fixed_ones_are_in_the_scene(name):
    task = make_task(name)
    worlds = TaskWorlds(task, 2, threads=1)
    rng = np.random.default_rng(0)
    parameters = [task.family.as_dict(row) for row in task.family.sample(rng, 2)]
    worlds.reset(np.arange(2), task.sample(rng, 2), parameters)
    truth = worlds.truth()
    if not task.manipulated.soft:
        body = worlds.model.body(task.manipulated.body).id
        np.testing.assert_allclose(worlds.view.field("xpos")[:, body], truth["object"][:, :3], atol=1e-9)
    for part in task.parts:
        if not part.moves:
            pose = worlds.view.body_pose(part.body)
            np.testing.assert_allclose(np.linalg.norm(pose[:, 3:], axis=1), 1.0)


@pytest.mark.parametrize("name", demonstrated_tasks())
def test_a_person_does_every_variant(name):
    for variant in range(len(SUITE[name].variants)):
        task = human_task(name, variant)
        assert (task.config.arm, getattr(task.config, SUITE[name].hand)) == ("gantry", "human_hand")
        assert task.manipulated.name == human_task(name, 0).manipulated.name  # the name says nothing of the size


def test_tasks_without_parts_or_strategies_are_named():
    class _Bare(PickPlace):
        parts = Task.parts

    with pytest.raises(BadInput, match="'pick_place' names no part that moves"):
        _ = _Bare().manipulated
    with pytest.raises(UnknownName, match="wipe"):
        human_task("wipe", 0)


def test_a_row_holds_what_it_says():
    for name, entry in SUITE.items():
        assert entry.task.name == name
        wanted = {"arm", "timestep", *([entry.hand] if entry.strategies else [])}
        assert {field.name for field in dataclasses.fields(entry.settings)} >= wanted
        assert entry.variants[0] == {} or entry.strategies
