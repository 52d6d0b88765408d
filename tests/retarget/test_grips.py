"""End effectors that close by one number: what brings their fingertips to a width, and makes them press."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dexprior.errors import BadInput, UnknownName
from dexprior.retarget.grips import grip_map
from dexprior.robots import catalog
from dexprior.robots.tendon_hands import THREE_FINGER
from dexprior.worlds.tasks import TaskWorlds, make_task

HANDS = ("three_finger", "tendon_hand")


@pytest.mark.parametrize("force", [3.0, 8.0])
def test_a_gripper_told_a_width_and_a_force_presses_with_it(force):
    grip = grip_map("parallel")
    task = make_task("peg")  # starts between the pads
    worlds = TaskWorlds(task, 1, threads=1)
    rng = np.random.default_rng(0)
    worlds.reset(np.arange(1), task.sample(rng, 1), [task.family.as_dict(task.family.medians())])
    number = grip.numbers(np.array([2 * task.config.half_width])) - grip.give * force
    for _ in range(25):
        worlds.step(np.concatenate([np.zeros((1, 6)), number[None]], axis=1))
    assert worlds.state()[0].touch.mean() == pytest.approx(force, rel=0.1)
    assert grip.numbers(np.array([0.0, grip.widest])).tolist() == [-1.0, 1.0]


def squeezed(end: str, fruit: str, force: float) -> np.ndarray:
    """Force on each fingertip of a hand around a fruit that is told its width and a force [N]."""
    grip, task = grip_map(end), make_task("soft_grasp", hand=end, fruit=fruit, timestep=0.004)
    worlds = TaskWorlds(task, 1, threads=1)
    scene = {"fruit": np.array([[0.45, 0.0]]), "yaw": np.zeros(1)}
    worlds.reset(np.arange(1), scene, [task.family.as_dict(task.family.medians())])
    width, goal = task.fruit.size[0], np.array([0.45, 0.0, task.fruit.size[2] / 2 + 0.002])
    around = float(grip.numbers(np.array(width + 0.02)))
    closed = float(grip.numbers(np.array(width))) - grip.give * force
    for k in range(55):
        down = np.clip(8.0 * (goal - worlds.state()[0].tcp[:, :3]), -1.0, 1.0)
        number = np.full((1, grip.size), around if k < 30 else closed)
        worlds.step(np.concatenate([down, np.zeros((1, 3)), number], axis=1))
    return worlds.state()[0].touch[0]


@pytest.mark.parametrize("fruit", ["strawberry", "peach"])
def test_a_hand_told_a_width_and_a_force_presses_about_as_hard_whatever_the_width(fruit):
    few, more = (squeezed("three_finger", fruit, force).mean() for force in (0.5, 2.0))
    assert 0.5 * 0.5 < few < 1.5 * 0.5
    assert 0.5 * 2.0 < more < 1.5 * 2.0
    assert more / few == pytest.approx(4.0, rel=0.15)
    assert squeezed("three_finger", fruit, 0.0).mean() < 0.05


@pytest.mark.parametrize("end", HANDS)
def test_a_hand_s_opening_grows_with_its_number(end):
    grip = grip_map(end)
    assert (np.diff(grip.opening) > 0.0).all()
    assert (np.diff(grip.number) > 0.0).all()
    assert grip.number[-1] == 1.0
    assert 0.0 <= grip.opening[0] < 0.01 < 0.05 < grip.widest
    assert grip.give > 0.0
    assert 0.0 < grip.depth < 0.025
    assert grip.numbers(np.array([-1.0, 1.0])).tolist() == [grip.number[0], 1.0]


def test_tendons_of_other_strengths_close_by_one_number_too(monkeypatch):
    uneven = replace(THREE_FINGER, name="uneven", control=THREE_FINGER.control * [[0.8], [1.0], [1.2]])
    monkeypatch.setitem(catalog._MACHINES, "uneven", uneven)
    even, uneven = grip_map("three_finger"), grip_map("uneven")
    np.testing.assert_allclose(np.interp(0.05, uneven.opening, uneven.number), even.numbers(np.array(0.05)), atol=0.05)
    assert uneven.give == pytest.approx(even.give, rel=0.2)
    apart = np.ptp(uneven.joints[:, ::2], axis=1)
    assert apart.max() > 0.05, "a finger that pulls harder is ahead of the others"


def test_other_end_effectors_have_no_such_map():
    with pytest.raises(
        BadInput, match=r"'human_hand'.* 21 number.*follow a person's by themselves: .*robot=human_hand"
    ):
        grip_map("human_hand")
    with pytest.raises(BadInput, match=r"'claw4'.* 12 number\(s\).*tendon_hand\)$"):
        grip_map("claw4")
    with pytest.raises(UnknownName, match="parallel"):
        grip_map("parallax")
