"""Ways to carry the cube to its mark."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from dexprior.geometry.rotations import wrap_angle, yaw_of
from dexprior.worlds.human_rig import Contact, HandGrasp, Vector, solve_grasp
from dexprior.worlds.tasks.base import Scenes, Truth
from dexprior.worlds.tasks.pick_place import PickPlace
from dexprior.worlds.tasks.strategies.plan import HandPlan, Knob, Strategy, Values, carried, knots_of, offset

__all__ = ["PICK_PLACE"]

_KNOBS = (
    Knob("tempo", 0.9, 1.15),
    Knob("grip", 0.5, 1.0),
    Knob("rise", 0.05, 0.10),
    Knob("from_x", -0.08, 0.04),
    Knob("from_y", -0.06, 0.06),
    Knob("from_z", 0.07, 0.13),
    Knob("turned", -0.5, 0.5),
    Knob("off_x", -0.002, 0.002),
    Knob("off_y", -0.002, 0.002),
    Knob("release", 0.000, 0.003),
)
_ABOVE: tuple[Vector, Vector] = ((0.7, 0.0, -0.7), (-0.7, 0.0, -0.7))
_FLAT: tuple[Vector, Vector] = ((0.8, 0.0, -0.6), (-0.6, 0.0, -0.8))
_BEHIND = 0.035  # [m] from the cube's face to where a push begins
_PUSH = 0.05  # [m] how far the cube is pushed
_LIFTED = 5  # knot of a transfer at which the cube is high
_RELEASE = 8  # knot of a transfer at which the fingers open
_PUSHES = 4  # knots of a push before the transfer that follows it
_HASTE = 0.68  # what follows a push must fit into the clip


@functools.cache
def _pinch(half: float, way: tuple[Vector, Vector]) -> HandGrasp:
    """Thumb against index and middle finger, on two opposite faces a little above the cube's middle."""
    up, apart = 0.15 * half, min(0.009, 0.6 * half)
    contacts = (
        Contact(finger="thumb", point=(-half, 0.0, up), normal=(-1.0, 0.0, 0.0)),
        Contact(finger="index", point=(half, apart, up), normal=(1.0, 0.0, 0.0)),
        Contact(finger="middle", point=(half, -apart, up), normal=(1.0, 0.0, 0.0)),
    )
    return solve_grasp(contacts, fingers=way[0], palm=way[1], floor=-half, depth=0.010, clear=0.020)


def _yaw(cube: Float[np.ndarray, " n"], middle: float) -> Float[np.ndarray, " n"]:
    """The face of the cube that is nearest to a direction."""
    return wrap_angle(cube - middle, np.pi / 2) + middle


def _carry(
    task: PickPlace, scenes: Scenes, v: Values, way: tuple[Vector, Vector], middle: float, pace: float
) -> HandPlan:
    grasp, half = _pinch(task.config.half_size, way), task.config.half_size
    cube = (
        scenes["cube"] + offset(0.0, 0.0, half) + np.column_stack([v["off_x"], v["off_y"], np.zeros_like(v["off_x"])])
    )
    yaw = _yaw(scenes["yaw"], middle)
    rows = _transfer(grasp, cube, yaw, scenes["goal"] + offset(0.0, 0.0, half), v, pace)
    return knots_of(rows, grasp, release=_RELEASE)


def _transfer(
    grasp: HandGrasp,
    cube: Float[np.ndarray, "n 3"],
    yaw: Float[np.ndarray, " n"],
    goal: Float[np.ndarray, "n 3"],
    v: Values,
    pace: float,
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Reach, close, lift, carry, lower, let go, away."""
    s = pace * v["tempo"]
    away = np.column_stack([v["from_x"], v["from_y"], v["from_z"]])
    up = np.column_stack([np.zeros((len(s), 2)), v["rise"]])
    squeeze = grasp.touch + v["grip"][:, None] * (grasp.squeeze - grasp.touch)
    start, at = carried(grasp, cube + away, yaw + v["turned"]), carried(grasp, cube, yaw)
    over, down = carried(grasp, goal + up, yaw), goal + np.column_stack([np.zeros((len(s), 2)), v["release"]])
    there = carried(grasp, down, yaw)
    return [
        (0.0 * s, start, grasp.open),
        (0.45 * s, carried(grasp, cube + offset(0.0, 0.0, 0.045), yaw), grasp.open),
        (0.30 * s, at, grasp.open),
        (0.10 * s, at, grasp.open),
        (0.32 * s, at, squeeze),
        (0.40 * s, carried(grasp, cube + up, yaw), squeeze),
        (0.60 * s, over, squeeze),
        (0.40 * s, there, squeeze),
        (0.12 * s, there, squeeze),
        (0.25 * s, there, grasp.open),
        (0.30 * s, carried(grasp, goal + offset(0.0, 0.0, 0.06), yaw), grasp.open),
    ]


def _one_way(way: tuple[Vector, Vector], middle: float, pace: float) -> Callable[[PickPlace, Scenes, Values], HandPlan]:
    return functools.partial(_carry, way=way, middle=middle, pace=pace)


def _push_first(task: PickPlace, scenes: Scenes, v: Values) -> HandPlan:
    """Fingertips behind the cube, then forward; what follows is planned when the push is over."""
    half, n = task.config.half_size, len(scenes["yaw"])
    grasp = _pinch(half, _ABOVE)
    # the fingertips are together at the grasp's far side; they push towards the far (+y) side of the table
    yaw = np.full(n, np.pi / 2)
    closed = 0.4 * grasp.open + 0.6 * grasp.squeeze
    cube = scenes["cube"] + offset(0.0, 0.0, half)
    reach = 2 * half + 0.016  # from the far fingertips' outer side to the grasp's centre, about
    behind, ahead = (cube + offset(0.0, d, 0.35 * half) for d in (-reach - _BEHIND, -reach + _PUSH))
    s = v["tempo"]
    start = carried(grasp, behind + np.column_stack([v["from_x"], 0.5 * v["from_y"], v["from_z"]]), yaw + v["turned"])
    pushed = cube + offset(0.0, _PUSH, 0.0)
    rest = _transfer(grasp, pushed, _yaw(scenes["yaw"], 0.0), scenes["goal"] + offset(0.0, 0.0, half), v, _HASTE)
    return knots_of(
        [
            (0.0 * s, start, closed),
            (0.40 * s, carried(grasp, behind, yaw), closed),
            (0.55 * s, carried(grasp, ahead, yaw), closed),
            (0.05 * s, carried(grasp, ahead, yaw), closed),
            (0.20 * s, carried(grasp, ahead + offset(0.0, -0.03, 0.05), yaw), grasp.open),
            *rest[1:],
        ],
        grasp,
        release=_PUSHES + _RELEASE,
    )


def _after_push(task: PickPlace, plan: HandPlan, truth: Truth, arm: Float[np.ndarray, "n 6"], v: Values) -> HandPlan:
    cube, half = truth["object"], task.config.half_size
    grasp = _pinch(half, _ABOVE)
    yaw = _yaw(yaw_of(cube[:, 3:]), 0.0)
    rest = _transfer(grasp, cube[:, :3], yaw, truth["goal"] + offset(0.0, 0.0, half), v, _HASTE)
    whole = plan.arm.copy()
    whole[:, _PUSHES + 1 :] = knots_of(rest, grasp, release=_RELEASE).arm[:, 1:]
    return dataclasses.replace(plan, arm=whole)


def _aimed(task: PickPlace, plan: HandPlan, truth: Truth, arm: Float[np.ndarray, "n 6"], v: Values) -> HandPlan:
    """Once it is lifted: fingers that closed have shifted the cube in the hand, which then goes where that brings the
    cube to its mark."""
    assert plan.release is not None
    carried_to = truth["object"][:, :2] + plan.arm[:, plan.release, :2] - arm[:, :2]
    whole = plan.arm.copy()
    whole[:, plan.release - 2 :, :2] -= (carried_to - truth["goal"][:, :2])[:, None]
    return dataclasses.replace(plan, arm=whole)


PICK_PLACE = (
    Strategy(
        name="careful",
        sentences=(
            "gently lift the block from above and set it down on the mark",
            "take the block from the top with care and bring it to the mark",
            "slowly pinch the block from above and put it on the green spot",
            "take your time, hold the block from above and lower it onto the mark",
            "carefully pick the block up from the top and lay it down on the mark",
            "lift the block calmly from above and ease it onto the green spot",
        ),
        held_out=(
            "without haste, grip the block from above and lower it gently onto the mark",
            "carry the block to the mark slowly and with care, fingers from the top",
        ),
        knobs=_KNOBS,
        plan=_one_way(_ABOVE, 0.0, 1.05),
        seconds=4.0,
        looks=((_LIFTED, _aimed),),
    ),
    Strategy(
        name="quick",
        sentences=(
            "quickly grab the block from above and drop it off at the mark",
            "snatch the block from the top and rush it to the mark",
            "move the block to the green spot as fast as you can",
            "hurry the block to the mark in one fast move",
            "swiftly take the block from above and toss it down on the mark",
            "rush, grab the block from the top and get it to the green spot",
        ),
        held_out=(
            "rapidly bring the block over to the mark without waiting",
            "in a rush, snatch the block from above and put it on the green spot",
        ),
        knobs=_KNOBS,
        plan=_one_way(_ABOVE, 0.0, 0.72),
        seconds=2.8,
        looks=((_LIFTED, _aimed),),
    ),
    Strategy(
        name="side",
        sentences=(
            "pinch the block from the right side and carry it to the mark",
            "reach in low from the side, take the block and put it on the mark",
            "grasp the block sideways and place it on the green spot",
            "take hold of the block from the right and set it on the mark",
            "with the hand low at the side, carry the block to the green spot",
            "come in sideways, pinch the block and bring it to the mark",
        ),
        held_out=(
            "grip the block from its right side and move it to the mark",
            "approach the block sideways and lay it on the green spot",
        ),
        knobs=_KNOBS,
        plan=_one_way(_FLAT, 0.8, 0.95),
        seconds=3.6,
        looks=((_LIFTED, _aimed),),
    ),
    Strategy(
        name="push",
        sentences=(
            "push the block towards the mark first, then pinch it and put it there",
            "shove the block forward, then pick it up and set it on the mark",
            "nudge the block ahead with the fingertips before you carry it to the green spot",
            "slide the block forward over the table before you lift it onto the mark",
            "give the block a push first, then grasp it and carry it to the mark",
            "with closed fingers shove the block ahead, then take it to the green spot",
        ),
        held_out=(
            "first nudge the block forward, after that pick it up and place it on the mark",
            "push the block along the table before grasping it and setting it on the green spot",
        ),
        knobs=_KNOBS,
        plan=_push_first,
        seconds=4.0,
        looks=((_PUSHES, _after_push), (_PUSHES + _LIFTED, _aimed)),
    ),
)
"""Strategies by the name in the episode's `info`."""
