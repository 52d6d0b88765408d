"""Hands that tendons close and springs open."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from dexprior.robots.tendon_hands import HAND_FINGERS, MAX_TENSION, build_tendon_hand, preshape
from dexprior.worlds.tasks import TaskWorlds, expert_of, make_task
from dexprior.worlds.tasks.experts import run_expert


def _rest(tension: float | dict[str, float]) -> mujoco.MjData:
    """The hand in the air, at rest under a tension of every tendon [N]."""
    spec = build_tendon_hand()
    spec.option.gravity = [0, 0, 0]
    model = spec.compile()
    data = mujoco.MjData(model)
    for finger in HAND_FINGERS:
        data.ctrl[model.actuator(f"tendon_{finger}").id] = tension if isinstance(tension, float) else tension[finger]
    mujoco.mj_step(model, data, nstep=800)
    mujoco.mj_kinematics(model, data)
    return data


def _tip(data: mujoco.MjData, finger: str) -> np.ndarray:
    geom = data.geom(f"pad_{finger}")
    length = data.model.geom(f"pad_{finger}").size[1]
    return geom.xpos + geom.xmat.reshape(3, 3) @ [0, 0, -length]  # a capsule's z axis looks back to its start


def test_each_tendon_closes_its_own_finger_and_springs_open_it():
    slack = _rest(0.0)
    for finger in HAND_FINGERS:
        pulled = _rest({f: 8.0 if f == finger else 0.0 for f in HAND_FINGERS})
        for other in HAND_FINGERS:
            moved = np.linalg.norm(_tip(pulled, other) - _tip(slack, other))
            assert moved > 0.04 if other == finger else moved < 1e-6, (finger, other)


@pytest.mark.parametrize("width", [0.022, 0.032, 0.050])
def test_the_thumb_faces_the_fingers_with_room_for_the_fruit(width):
    """Preshaped, what is held lies between thumb and fingers, about in the middle, with little room to spare."""
    data = _rest(float(preshape(width)))
    thumb, middle, ring = (_tip(data, finger) for finger in ("thumb", "middle", "ring"))
    gap = thumb[0] - (middle[0] + ring[0]) / 2 - 0.016
    assert width + 0.005 < gap < width + 0.025
    assert abs(thumb[0] + (middle[0] + ring[0]) / 2) < 0.010
    assert middle[1] > 0 > ring[1]
    assert thumb[1] == pytest.approx(0.0, abs=1e-6)


def test_the_thumb_stops_where_the_fingers_press_against_it():
    full, half = (_tip(_rest(tension), "thumb") for tension in (MAX_TENSION, MAX_TENSION / 2))
    assert np.linalg.norm(full - half) < 0.003
    assert full[0] > 0.008  # on its own side


@pytest.mark.parametrize("fruit", ["strawberry", "grape", "peach"])
def test_the_expert_lifts_fruit_with_a_thumb(fruit):
    task = make_task("soft_grasp", hand="tendon_hand", fruit=fruit)
    worlds = TaskWorlds(task, 3, threads=1)
    assert worlds.action_size == 6 + 5
    rows = task.family.sample(np.random.default_rng([3, 1]), 3)
    worlds.reset(np.arange(3), task.sample(np.random.default_rng([3, 0]), 3), [task.family.as_dict(r) for r in rows])
    solved, truth = run_expert(worlds, expert_of("soft_grasp"))
    assert solved.sum() >= 2
    assert (truth["force"][task.success(truth)][:, 0] > 0).all()  # the thumb bears
