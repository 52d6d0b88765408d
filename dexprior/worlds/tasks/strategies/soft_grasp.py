"""Ways to lift a soft fruit, hold it while the table shakes, and not bruise it."""

from __future__ import annotations

import functools
from typing import Literal

import numpy as np

from dexprior.worlds.human_rig import Contact, HandGrasp, solve_grasp
from dexprior.worlds.tasks.base import Scenes
from dexprior.worlds.tasks.soft_grasp import SoftGrasp
from dexprior.worlds.tasks.strategies.plan import HandPlan, Knob, Strategy, Values, carried, knots_of, offset

__all__ = ["SOFT_GRASP"]

_KNOBS = (
    Knob("tempo", 0.9, 1.1),
    Knob("grip", 0.55, 0.95),
    Knob("height", 0.10, 0.14),
    Knob("from_x", -0.07, 0.04),
    Knob("from_y", -0.05, 0.05),
    Knob("from_z", 0.06, 0.10),
    Knob("turned", -0.4, 0.4),
    Knob("yaw", -0.4, 0.4),
    Knob("off_x", -0.002, 0.002),
    Knob("off_y", -0.002, 0.002),
)
Fingers = Literal["three", "four"]
_DEPTH, _DEPTH_BY_MASS = 0.0026, 0.045  # [m], [m/kg] of a full squeeze: a heavier fruit is held harder
# angle around the fruit, from the far side [rad]
_AROUND: dict[Fingers, dict[str, float]] = {
    "three": {"index": 0.55, "middle": -0.55},
    "four": {"index": 0.95, "middle": 0.0, "ring": -0.95},
}


@functools.cache
def _grasp(size: tuple[float, float, float], mass: float, fingers: Fingers) -> HandGrasp:
    """Thumb against the others, a little below the fruit's equator."""
    low = -0.1
    radius = size[0] / 2 * np.sqrt(1.0 - low**2)
    contacts = [Contact(finger="thumb", point=(-radius, 0.0, low * size[2] / 2), normal=(-1.0, 0.0, 0.0))]
    for finger, angle in _AROUND[fingers].items():
        c, s = float(np.cos(angle)), float(np.sin(angle))
        contacts.append(Contact(finger=finger, point=(radius * c, radius * s, low * size[2] / 2), normal=(c, s, 0.0)))
    return solve_grasp(tuple(contacts), floor=-size[2] / 2, depth=_DEPTH + _DEPTH_BY_MASS * mass, clear=0.020)


def _lift(task: SoftGrasp, scenes: Scenes, v: Values, *, fingers: Fingers, pace: float) -> HandPlan:
    """Reach, close, lift, hold."""
    size = task.fruit.size
    grasp, n = _grasp(size, task.fruit.mass, fingers), len(scenes["yaw"])
    zero = np.zeros(n)
    fruit = np.column_stack([scenes["fruit"] + np.column_stack([v["off_x"], v["off_y"]]), zero + size[2] / 2])
    away = np.column_stack([v["from_x"], v["from_y"], v["from_z"]])
    up = np.column_stack([zero, zero, v["height"]])
    squeeze = grasp.touch + v["grip"][:, None] * (grasp.squeeze - grasp.touch)
    s, at = pace * v["tempo"], carried(grasp, fruit, v["yaw"])
    high = carried(grasp, fruit + up, v["yaw"])
    return knots_of(
        [
            (0.0 * s, carried(grasp, fruit + away, v["yaw"] + v["turned"]), grasp.open),
            (0.55 * s, carried(grasp, fruit + offset(0.0, 0.0, 0.035), v["yaw"]), grasp.open),
            (0.35 * s, at, grasp.open),
            (0.10 * s, at, grasp.open),
            (0.45 * s, at, squeeze),
            (0.75 * s, high, squeeze),
            (0.50 * s, high, squeeze),
        ],
        grasp,
        release=None,
    )


SOFT_GRASP = (
    Strategy(
        name="three_fingers",
        sentences=(
            "pick up the fruit gently with thumb and two fingers and hold it",
            "lift the fruit in a three-finger pinch without bruising it",
            "take the fruit between thumb, index and middle finger and hold it up",
            "hold the fruit up with the thumb and two fingertips",
            "pinch the fruit gently between three fingers and raise it",
            "lift the fruit softly with thumb, index and middle finger",
        ),
        held_out=(
            "use just three fingers to pick the fruit up and keep it there",
            "raise the fruit in a gentle pinch of thumb and two fingers",
        ),
        knobs=_KNOBS,
        plan=functools.partial(_lift, fingers="three", pace=0.95),
        seconds=4.0,
    ),
    Strategy(
        name="whole_hand",
        sentences=(
            "grasp the fruit with the whole hand and hold it",
            "close the hand around the fruit and lift it without crushing it",
            "take the fruit in a full grip and hold it up",
            "wrap the hand around the fruit and hold it up",
            "lift the fruit with all your fingers around it",
            "hold the fruit in the full hand and raise it",
        ),
        held_out=(
            "grip the fruit with the entire hand and keep it in the air",
            "enclose the fruit with all fingers and lift it",
        ),
        knobs=_KNOBS,
        plan=functools.partial(_lift, fingers="four", pace=0.95),
        seconds=4.0,
    ),
    Strategy(
        name="quick",
        sentences=(
            "quickly pluck the fruit from the table and hold it",
            "snatch the fruit with a few fingers but do not bruise it",
            "grab the fruit as fast as you can and hold it up",
            "rush to pick the fruit up and hold it",
            "swiftly lift the fruit off the table in one fast move",
            "hurry, take the fruit and keep it up",
        ),
        held_out=(
            "rapidly grab the fruit and hold it in the air",
            "in a rush, snatch the fruit up from the table",
        ),
        knobs=_KNOBS,
        plan=functools.partial(_lift, fingers="three", pace=0.6),
        seconds=4.0,
    ),
)
"""Strategies by the name in the episode's `info`."""
