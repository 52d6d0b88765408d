"""Scenes that the prior's tests share; none of them needs rendering."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dexprior.data.demonstrating import condition_of
from dexprior.worlds.tasks import make_task


@pytest.fixture(scope="session")
def handed(conditions):
    """The same, asking for a right hand, a left one, both, and both: a left hand is beside where the right one was."""

    def at(hands, sides):
        (hand,) = hands
        beside = hand.wrist_pose + np.array([0.0, 0.12, 0.0, 0, 0, 0, 0])
        moved = np.where(hand.touching[:, None], hand.points + np.array([0.0, 0.12, 0.0]), 0.0)
        left = replace(hand, side="left", wrist_pose=beside, points=moved)
        return [{"right": hand, "left": left}[side] for side in sides]

    asked = [("right",), ("left",), ("right", "left"), ("right", "left")]
    return [
        replace(c, start=at(c.start, sides), target=at(c.target, sides)) for c, sides in zip(conditions, asked)
    ]  # fmt: skip


@pytest.fixture(scope="session")
def conditions():
    """Conditions of four scenes of the insertion, for 48 frames of 32 px in two seconds."""
    task = make_task("insertion")
    scenes = task.sample(np.random.default_rng(0), 4)
    made = [condition_of(task, {k: v[i] for k, v in scenes.items()}, seed=i, size=32) for i in range(4)]
    return [replace(condition, seconds=2.0, target_at=47 / 24) for condition in made]
