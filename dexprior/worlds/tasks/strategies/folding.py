"""Ways to fold the cloth with one hand: the hem is pinched in its middle and turned over like a page."""

from __future__ import annotations

import functools

import numpy as np
from jaxtyping import Float

from dexprior.geometry.rotations import matrix_from_quat
from dexprior.robots.human_hand import HINGE_NAMES
from dexprior.worlds.human_rig import Contact, HandGrasp, gantry_from_wrist, solve_grasp, wrist_from_gantry
from dexprior.worlds.tasks.base import Scenes
from dexprior.worlds.tasks.folding import Folding
from dexprior.worlds.tasks.strategies.plan import HandPlan, Knob, Strategy, Values, knots_of

__all__ = ["FOLDING"]

_KNOBS = (
    Knob("tempo", 0.95, 1.05),
    Knob("grip", 0.6, 1.0),
    Knob("from_x", 0.02, 0.08),
    Knob("from_y", -0.04, 0.04),
    Knob("from_z", -0.01, 0.05),
    Knob("off_x", -0.0075, -0.0045),
    Knob("off_y", -0.004, 0.004),
    Knob("slack", 0.58, 0.70),
    Knob("landing", 0.010, 0.018),
)
_HEM = 0.003  # [m] half the cloth's thickness in contact
_FINGERS, _PALM = (-0.7, 0.0, 0.7), (-0.7, 0.0, -0.7)  # directions of hand and palm before it turns
_PIECES = 10  # straight lines in the arc of the hem


@functools.cache
def _pinch() -> HandGrasp:
    """Index and middle finger above the fabric against the thumb below, at the origin."""
    contacts = (
        Contact(finger="thumb", point=(0.0, 0.0, -_HEM), normal=(0.0, 0.0, -1.0)),
        Contact(finger="index", point=(0.0, 0.006, _HEM), normal=(0.0, 0.0, 1.0)),
        Contact(finger="middle", point=(0.0, -0.006, _HEM), normal=(0.0, 0.0, 1.0)),
    )
    return solve_grasp(contacts, fingers=_FINGERS, palm=_PALM, depth=0.012, clear=0.022)


def _gantry(grasp: HandGrasp, hem: Float[np.ndarray, "n 3"], turn: float) -> Float[np.ndarray, "n 6"]:
    """Gantry positions at which the pinch is at the hem, and the hand turned with it about the fold line [m, rad]."""
    own = gantry_from_wrist(grasp.wrist_pose)[3:]
    # the same rotation with the yaw turned round and the pitch over the top: from there the pitch has room to turn
    angles = (own * [1, -1, 1] + 2 * np.pi) % (2 * np.pi) - np.pi
    start = _rotation(angles)
    angles = angles + np.array([0.0, turn, 0.0])
    reach = _rotation(angles) @ start.T @ grasp.wrist_pose[:3]
    return np.concatenate([hem + reach, np.tile(angles, (len(hem), 1))], axis=1)


def _rotation(angles: Float[np.ndarray, 3]) -> Float[np.ndarray, "3 3"]:
    """Rotation of the wrist, from the gantry's yaw, pitch and roll."""
    return matrix_from_quat(wrist_from_gantry(np.concatenate([np.zeros(3), angles]))[3:])


def _fold(task: Folding, scenes: Scenes, v: Values, *, turn: float, pace: float, pause: float = 0.0) -> HandPlan:
    """Reach in from outside, pinch, carry the hem over the fold line in half a circle, let go, draw back.

    Args:
        turn: angle by which the hand turns with the hem [rad]; the rest of the half circle is bent into the fabric.
        pause: for which it waits at the top [s].
    """
    grasp = _pinch()
    at = functools.partial(_gantry, grasp)
    grip, hinge, goal = (points[:, 0] for points in task.fold(scenes))
    n, s = len(grip), pace * v["tempo"]
    grip = grip + np.column_stack([v["off_x"], v["off_y"], np.zeros(n)])
    squeeze = grasp.touch + v["grip"][:, None] * (grasp.squeeze - grasp.touch)
    away = np.column_stack([v["from_x"] + 0.03, v["from_y"], v["from_z"]])
    outwards = (grip - hinge) / np.linalg.norm(grip - hinge, axis=1, keepdims=True)
    reach = np.linalg.norm(goal - hinge, axis=1, keepdims=True)
    rows = [
        (0.0 * s, at(grip + away, 0.0), grasp.open),
        (0.35 * s, at(grip + 0.03 * outwards, 0.0), grasp.open),
        (0.30 * s, at(grip, 0.0), grasp.open),
        (0.06 * s, at(grip, 0.0), grasp.open),
        (0.30 * s, at(grip, 0.0), squeeze),
    ]
    first = len(rows) - 1
    for k in range(1, _PIECES + 1):
        part = k / _PIECES
        swing = np.pi * part
        height = v["slack"][:, None] * reach * np.sin(swing) + v["landing"][:, None] * part
        hem = hinge + reach * np.cos(swing) * outwards + height * [0.0, 0.0, 1.0]
        hem[:, 1] += v["off_y"]
        rows.append((1.6 / _PIECES * s, at(hem, turn * part), squeeze))
        if pause and 2 * k == _PIECES:
            rows.append((pause * s, at(hem, turn * part), squeeze))
    # what lies between the layers stays bent and slides out along the hem, or it would push the hem away
    thumb = np.array([name.startswith("thumb") for name in HINGE_NAMES])
    release = np.where(thumb, grasp.open, grasp.touch)
    back = hem + 0.06 * (np.cos(turn) * outwards + np.array([0.0, 0.0, np.sin(turn)]))
    opens = len(rows)
    rows += [
        (0.10 * s, at(hem, turn), squeeze),
        (0.20 * s, at(hem, turn), release),
        (0.35 * s, at(back, turn), release),
        (0.15 * s, at(back + np.array([0.0, 0.0, 0.04]), turn), grasp.open),
    ]
    even = tuple(range(first, first + _PIECES + bool(pause)))
    return knots_of(rows, grasp, release=opens, even=even)


FOLDING = (
    Strategy(
        name="over",
        sentences=(
            "take the hem from above and fold the cloth over slowly",
            "pinch the edge with your fingers on top and turn it over like a page",
            "fold the cloth in half with care, fingers above the hem",
            "lay the hem over slowly, your fingers on its upper side",
            "grip the hem from above and carry it across without haste",
            "gently double the cloth by turning its edge over from the top",
        ),
        held_out=(
            "with your fingers above the edge, calmly fold the cloth in two",
            "turn the hem over with care, holding it from above",
        ),
        knobs=_KNOBS,
        plan=functools.partial(_fold, turn=2.0, pace=1.0),
        seconds=4.0,
    ),
    Strategy(
        name="hang",
        sentences=(
            "lift the hem, let the cloth hang for a moment, then lay it over",
            "pull the edge up, wait, and put it down on the other side",
            "raise the cloth by its hem, hold it still in the air and fold it",
            "pick the hem up, pause while the cloth hangs, and fold it",
            "hold the edge in the air for a moment before you lay it down",
            "draw the hem up, stop until the cloth stops swinging, then fold it across",
        ),
        held_out=(
            "lift the edge, keep it hanging for a while, then lower it onto the far side",
            "raise the hem and wait a little before folding the cloth",
        ),
        knobs=_KNOBS,
        plan=functools.partial(_fold, turn=2.0, pace=0.92, pause=0.5),
        seconds=4.0,
    ),
    Strategy(
        name="quick",
        sentences=(
            "flip the cloth over quickly from above",
            "grab the hem and throw it over to the other side",
            "fold the cloth as fast as you can",
            "swiftly turn the hem over from the top",
            "whip the edge across to the far side",
            "hurry and fold the cloth in one fast move",
        ),
        held_out=(
            "rapidly throw the hem over the cloth",
            "fold it in a rush, grabbing the edge from above",
        ),
        knobs=_KNOBS,
        plan=functools.partial(_fold, turn=1.7, pace=0.82),
        seconds=3.6,
    ),
)
"""Strategies by the name in the episode's `info`."""
