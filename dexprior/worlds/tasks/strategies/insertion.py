"""Ways to take the ring-shaped nut from the table and to put it over the bolt; the hand holds it to the end."""

from __future__ import annotations

import functools

import numpy as np
from jaxtyping import Float

from dexprior.geometry.rotations import wrap_angle
from dexprior.worlds.human_rig import Contact, HandGrasp, Vector, solve_grasp
from dexprior.worlds.tasks.base import Scenes, Truth
from dexprior.worlds.tasks.insertion import Insertion
from dexprior.worlds.tasks.strategies.plan import (
    HandPlan,
    Knob,
    Strategy,
    Values,
    carried,
    knots_of,
    offset,
    steadied,
)

__all__ = ["INSERTION"]

_KNOBS = (
    Knob("tempo", 0.92, 1.08),
    Knob("grip", 0.7, 1.0),
    Knob("rise", 0.012, 0.030),
    Knob("from_x", -0.07, 0.03),
    Knob("from_y", -0.06, 0.04),
    Knob("from_z", 0.06, 0.11),
    Knob("turned", -0.4, 0.4),
    Knob("off_x", -0.0015, 0.0015),
    Knob("off_y", -0.0015, 0.0015),
)
_ABOVE: tuple[Vector, Vector] = ((0.7, 0.0, -0.7), (-0.7, 0.0, -0.7))
_FLAT: tuple[Vector, Vector] = ((0.8, 0.0, -0.6), (-0.6, 0.0, -0.8))
_FLATS = np.pi / 4  # [rad] after which the nut's eight sides look the same
_LIFTED, _LOWERED = 5, 8  # knots between which the hand watches nut and bolt


@functools.cache
def _pinch(radius: float, height: float, way: tuple[Vector, Vector]) -> HandGrasp:
    """Thumb against index and middle finger on three of the eight sides, a little above the middle."""
    up, side = 0.15 * height, float(np.sqrt(0.5))
    contacts = (
        Contact(finger="thumb", point=(-radius, 0.0, up), normal=(-1.0, 0.0, 0.0)),
        Contact(finger="index", point=(radius * side, radius * side, up), normal=(side, side, 0.0)),
        Contact(finger="middle", point=(radius * side, -radius * side, up), normal=(side, -side, 0.0)),
    )
    return solve_grasp(contacts, fingers=way[0], palm=way[1], floor=-height / 2, depth=0.012, clear=0.018)


def _put_over(
    task: Insertion, scenes: Scenes, v: Values, *, way: tuple[Vector, Vector], middle: float, pace: float
) -> HandPlan:
    """Reach, close, lift, carry over the bolt, wait a moment, lower, hold."""
    c = task.config
    grasp, n = _pinch(c.outer_radius, c.height, way), len(scenes["yaw"])
    zero = np.zeros(n)
    miss = np.column_stack([v["off_x"], v["off_y"], zero])
    nut = scenes["nut"] * [1.0, 1.0, 0.0] + offset(0.0, 0.0, c.height / 2) + miss
    yaw = wrap_angle(scenes["yaw"] - middle, _FLATS) + middle
    away = np.column_stack([v["from_x"], v["from_y"], v["from_z"]])
    seated = scenes["bolt"] + miss + offset(0.0, 0.0, c.height / 2 + 0.003)
    over = seated + np.column_stack([zero, zero, c.bolt_height + v["rise"]])
    squeeze = grasp.touch + v["grip"][:, None] * (grasp.squeeze - grasp.touch)
    s, at = pace * v["tempo"], carried(grasp, nut, yaw)
    high, down = np.column_stack([nut[:, :2], over[:, 2]]), carried(grasp, seated, yaw)
    return knots_of(
        [
            (0.0 * s, carried(grasp, nut + away, yaw + v["turned"]), grasp.open),
            (0.45 * s, carried(grasp, nut + offset(0.0, 0.0, 0.04), yaw), grasp.open),
            (0.30 * s, at, grasp.open),
            (0.08 * s, at, grasp.open),
            (0.30 * s, at, squeeze),
            (0.42 * s, carried(grasp, high, yaw), squeeze),
            (0.55 * s, carried(grasp, over, yaw), squeeze),
            (0.30 * s, carried(grasp, over, yaw), squeeze),
            (0.50 * s, down, squeeze),
            (0.20 * s, down, squeeze),
        ],
        grasp,
        release=None,
    )


def _watch(task: Insertion, plan: HandPlan, truth: Truth, t: float) -> Float[np.ndarray, "n 6"]:
    """Bring the nut over the bolt and its axis upright while it is carried and lowered."""
    nut = truth["object"]
    over = (plan.times[:, _LIFTED + 1] <= t)[:, None]  # only then does it aim at the bolt
    error = np.where(over, truth["bolt"][:, :2] - nut[:, :2], 0.0)
    busy = (plan.times[:, _LIFTED] <= t) & (t < plan.times[:, _LOWERED]) & truth["held"]
    return np.where(busy[:, None], steadied(plan.at(t)[0], nut, nut[:, :3], error, np.zeros(len(nut))), 0.0)


INSERTION = (
    Strategy(
        name="careful",
        sentences=(
            "pick up the nut and slide it carefully over the bolt",
            "take the nut from above and lower it gently onto the upright bolt",
            "slowly put the orange nut on the bolt",
            "gently set the nut over the bolt from above, taking your time",
            "lower the nut onto the bolt with care",
            "lift the nut and ease it slowly down the bolt",
        ),
        held_out=(
            "without haste, guide the nut from above onto the bolt",
            "carefully lift the nut and lay it gently over the bolt",
        ),
        knobs=_KNOBS,
        plan=functools.partial(_put_over, way=_ABOVE, middle=0.0, pace=1.0),
        servo=_watch,
        seconds=3.6,
    ),
    Strategy(
        name="quick",
        sentences=(
            "quickly grab the nut and drop it over the bolt",
            "snatch the nut from the table and stick it onto the bolt",
            "put the nut on the bolt as fast as you can",
            "rush the nut onto the bolt",
            "swiftly take the nut and throw it over the bolt",
            "hurry to get the nut over the bolt in one fast move",
        ),
        held_out=(
            "rapidly put the nut over the bolt without waiting",
            "grab the nut in a rush and stick it on the bolt",
        ),
        knobs=_KNOBS,
        plan=functools.partial(_put_over, way=_ABOVE, middle=0.0, pace=0.76),
        servo=_watch,
        seconds=2.8,
    ),
    Strategy(
        name="side",
        sentences=(
            "reach in from the right side, take the nut and put it over the bolt",
            "grasp the nut sideways and insert the bolt into it",
            "pinch the nut from the side and place it onto the bolt",
            "take hold of the nut from the right and set it on the bolt",
            "with the hand low at the side, pick the nut up and put it over the bolt",
            "come in sideways, pinch the nut and place it on the bolt",
        ),
        held_out=(
            "grip the nut from its right side and bring it onto the bolt",
            "approach the nut sideways and lay it over the bolt",
        ),
        knobs=_KNOBS,
        plan=functools.partial(_put_over, way=_FLAT, middle=0.8, pace=0.96),
        servo=_watch,
        seconds=3.6,
    ),
)
"""Strategies by the name in the episode's `info`."""
