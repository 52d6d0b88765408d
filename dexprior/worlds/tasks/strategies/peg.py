"""Ways to pick up the peg that stands beside the block, and to put it into the hole."""

from __future__ import annotations

import functools

import numpy as np
from jaxtyping import Float

from dexprior.geometry.rotations import wrap_angle, yaw_of
from dexprior.worlds.human_rig import Contact, HandGrasp, Vector, solve_grasp
from dexprior.worlds.tasks.base import Scenes, Truth
from dexprior.worlds.tasks.peg import Peg
from dexprior.worlds.tasks.strategies.plan import HandPlan, Knob, Strategy, Values, carried, knots_of, offset, steadied

__all__ = ["PEG"]

_KNOBS = (
    Knob("tempo", 0.92, 1.08),
    Knob("grip", 0.6, 1.0),
    Knob("rise", 0.012, 0.025),
    Knob("from_x", -0.07, 0.03),
    Knob("from_y", -0.05, 0.05),
    Knob("from_z", 0.06, 0.10),
    Knob("turned", -0.4, 0.4),
    Knob("off_x", -0.002, 0.002),
    Knob("off_y", -0.002, 0.002),
    Knob("press", 0.000, 0.004),
)
_STEEP: tuple[Vector, Vector] = ((0.7, 0.0, -0.7), (-0.7, 0.0, -0.7))
_FLAT: tuple[Vector, Vector] = ((0.8, 0.0, -0.6), (-0.6, 0.0, -0.8))
_SQUARE = np.pi / 2  # [rad] after which peg and hole look the same
_LIFTED, _PRESSED = 5, 8  # knots between which the hand watches peg and hole


@functools.cache
def _pinch(width: float, length: float, way: tuple[Vector, Vector]) -> HandGrasp:
    """Thumb against index and middle finger above the peg's middle."""
    up = 0.3 * length
    contacts = (
        Contact(finger="thumb", point=(-width, 0.0, up), normal=(-1.0, 0.0, 0.0)),
        Contact(finger="index", point=(width, 0.006, up), normal=(1.0, 0.0, 0.0)),
        Contact(finger="middle", point=(width, -0.006, up), normal=(1.0, 0.0, 0.0)),
    )
    return solve_grasp(contacts, fingers=way[0], palm=way[1], floor=-length, depth=0.012, clear=0.020)


def _insert(
    task: Peg, scenes: Scenes, v: Values, *, way: tuple[Vector, Vector], middle: float, pace: float
) -> HandPlan:
    """Reach, close, lift, carry over the hole, wait a moment, lower, let go, away."""
    c = task.config
    grasp, n = _pinch(c.half_width, c.half_length, way), len(scenes["yaw"])
    zero = np.zeros(n)
    miss = np.column_stack([v["off_x"], v["off_y"], zero])
    peg = np.column_stack([scenes["peg"], zero + c.half_length]) + miss
    yaw = wrap_angle(scenes["peg_yaw"] - middle, _SQUARE) + middle
    there = yaw + wrap_angle(scenes["yaw"] - scenes["peg_yaw"], _SQUARE)
    away = np.column_stack([v["from_x"], v["from_y"], v["from_z"]])
    over = scenes["hole"] + miss + np.column_stack([zero, zero, c.hole_depth + c.half_length + v["rise"]])
    seated = np.column_stack([over[:, :2], c.hole_depth - c.success_depth + c.half_length - 0.002 - v["press"]])
    squeeze = grasp.touch + v["grip"][:, None] * (grasp.squeeze - grasp.touch)
    s, at = pace * v["tempo"], carried(grasp, peg, yaw)
    high = np.column_stack([peg[:, :2], over[:, 2]])
    down = carried(grasp, seated, there)
    return knots_of(
        [
            (0.0 * s, carried(grasp, peg + away, yaw + v["turned"]), grasp.open),
            (0.42 * s, carried(grasp, peg + offset(0.0, 0.0, 0.035), yaw), grasp.open),
            (0.28 * s, at, grasp.open),
            (0.08 * s, at, grasp.open),
            (0.30 * s, at, squeeze),
            (0.38 * s, carried(grasp, high, yaw), squeeze),
            (0.50 * s, carried(grasp, over, there), squeeze),
            (0.45 * s, carried(grasp, over, there), squeeze),
            (0.55 * s, down, squeeze),
            (0.10 * s, down, squeeze),
            (0.22 * s, down, grasp.open),
            (0.25 * s, down + np.array([0.0, 0.0, 0.05, 0.0, 0.0, 0.0]), grasp.open),
        ],
        grasp,
        release=9,
    )


def _watch(task: Peg, plan: HandPlan, truth: Truth, t: float) -> Float[np.ndarray, "n 6"]:
    """Bring the peg's end over the hole and its axis upright while it is carried and lowered."""
    peg, hole = truth["object"], truth["hole"]
    over = (plan.times[:, _LIFTED + 1] <= t)[:, None]  # only then does it aim at the hole
    error = np.where(over, hole[:, :2] - truth["end"][:, :2], 0.0)
    yaw = np.where(over[:, 0], wrap_angle(yaw_of(hole[:, 3:]) - yaw_of(peg[:, 3:]), _SQUARE), 0.0)
    busy = (plan.times[:, _LIFTED] <= t) & (t < plan.times[:, _PRESSED]) & truth["held"]
    return np.where(busy[:, None], steadied(plan.at(t)[0], peg, truth["end"], error, yaw), 0.0)


PEG = (
    Strategy(
        name="careful",
        sentences=(
            "take the peg from above and lower it carefully into the hole",
            "pick up the peg, line it up with the hole and slide it in gently",
            "slowly insert the peg into the block from above",
            "gently carry the peg over the hole and let it down with care",
            "take your time, hold the peg from above and ease it in",
            "lift the peg and lower it slowly into the block",
        ),
        held_out=(
            "without haste, guide the peg from above into its hole",
            "carefully lower the peg until it sits in the block",
        ),
        knobs=_KNOBS,
        plan=functools.partial(_insert, way=_STEEP, middle=0.0, pace=1.04),
        servo=_watch,
        seconds=4.0,
    ),
    Strategy(
        name="quick",
        sentences=(
            "grab the peg from above and plug it in quickly",
            "snatch the peg and stick it into the block without delay",
            "insert the peg into the hole as fast as you can",
            "rush the peg into the hole",
            "swiftly take the peg and push it in",
            "hurry to get the peg into the block in one fast move",
        ),
        held_out=(
            "rapidly plug the peg into the hole without waiting",
            "grab the peg in a rush and put it in the block",
        ),
        knobs=_KNOBS,
        plan=functools.partial(_insert, way=_STEEP, middle=0.0, pace=0.78),
        servo=_watch,
        seconds=3.0,
    ),
    Strategy(
        name="side",
        sentences=(
            "hold the peg from the right side and put it into the hole",
            "reach in from the side, take the peg and insert it",
            "grip the peg sideways and slide it into the block",
            "take hold of the peg from the right and slide it in",
            "with the hand low at the side, put the peg into the block",
            "come in sideways, pinch the peg and insert it",
        ),
        held_out=(
            "grasp the peg from its right side and bring it into the hole",
            "approach the peg sideways and put it into the block",
        ),
        knobs=_KNOBS,
        plan=functools.partial(_insert, way=_FLAT, middle=0.8, pace=1.0),
        servo=_watch,
        seconds=4.0,
    ),
)
"""Strategies by the name in the episode's `info`."""
