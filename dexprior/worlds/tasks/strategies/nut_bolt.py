"""Ways to turn a nut that is on its bolt until the threads hold."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from dexprior.geometry.rotations import wrap_angle
from dexprior.worlds.human_rig import Contact, HandGrasp, Vector, solve_grasp
from dexprior.worlds.tasks.actions import MAX_JOINT_SPEED
from dexprior.worlds.tasks.base import Scenes
from dexprior.worlds.tasks.nut_bolt import NutBolt
from dexprior.worlds.tasks.strategies.plan import HandPlan, Knob, Strategy, Values, carried, knots_of

__all__ = ["NUT_BOLT"]

_KNOBS = (
    Knob("tempo", 0.95, 1.05),
    Knob("grip", 0.5, 1.0),
    Knob("from_x", -0.07, 0.03),
    Knob("from_y", -0.05, 0.05),
    Knob("from_z", 0.05, 0.09),
    Knob("turned", -0.3, 0.3),
    Knob("off_x", -0.0015, 0.0015),
    Knob("off_y", -0.0015, 0.0015),
    Knob("high", -0.001, 0.003),
)
_DOWN: tuple[Vector, Vector] = ((0.45, 0.0, -0.9), (-0.9, 0.0, -0.45))
_FLAT: tuple[Vector, Vector] = ((0.8, 0.0, -0.6), (-0.6, 0.0, -0.8))
_FLATS = np.pi / 3  # [rad] after which a hexagon looks the same
_PIECES = 6  # straight lines in the curve of one stroke


@functools.cache
def _pinch(half_width: float, half_height: float, bolt: float, way: tuple[Vector, Vector]) -> HandGrasp:
    """Thumb against index and middle finger on two opposite flats."""
    contacts = (
        Contact(finger="thumb", point=(-half_width, 0.0, 0.0), normal=(-1.0, 0.0, 0.0)),
        Contact(finger="index", point=(half_width, 0.007, 0.0), normal=(1.0, 0.0, 0.0)),
        Contact(finger="middle", point=(half_width, -0.007, 0.0), normal=(1.0, 0.0, 0.0)),
    )
    return solve_grasp(contacts, fingers=way[0], palm=way[1], floor=-bolt - half_height, depth=0.012, clear=0.016)


def _turn(
    task: NutBolt,
    scenes: Scenes,
    v: Values,
    *,
    way: tuple[Vector, Vector],
    middle: float,
    strokes: Sequence[float],
    pace: float,
) -> HandPlan:
    """Reach, close, turn clockwise; open, go back by flats and turn again for each further stroke; let go, away.

    Args:
        strokes: angle of each [rad].
        middle: yaw of the hand about which the first stroke lies [rad].
    """
    t = task.config.thread
    grasp = _pinch(t.across_flats / 2, t.nut_height / 2, t.bolt_length, way)
    centre, yaw = task.caught(scenes)
    n = len(yaw)
    miss = np.column_stack([v["off_x"], v["off_y"], v["high"]])
    hand = wrap_angle(yaw - middle - strokes[0] / 2, _FLATS) + middle + strokes[0] / 2
    squeeze = grasp.touch + v["grip"][:, None] * (grasp.squeeze - grasp.touch)
    s, sunk = pace * v["tempo"], np.zeros(n)
    away = np.column_stack([v["from_x"], v["from_y"], v["from_z"]])

    def at(angle: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n 6"]:
        return carried(grasp, centre + miss - np.array([0.0, 0.0, 1.0]) * sunk[:, None], angle)

    above = np.array([0.0, 0.0, 0.03, 0.0, 0.0, 0.0])
    rows = [
        (0.0 * s, carried(grasp, centre + away, hand + v["turned"]), grasp.open),
        (0.42 * s, at(hand) + above, grasp.open),
        (0.25 * s, at(hand), grasp.open),
        (0.06 * s, at(hand), grasp.open),
        (0.26 * s, at(hand), squeeze),
    ]
    even: list[int] = []
    for number, stroke in enumerate(strokes):
        if number:
            back = np.round(strokes[number - 1] / _FLATS) * _FLATS
            rows += [
                (0.16 * s, at(hand), grasp.open),
                (back / (0.9 * MAX_JOINT_SPEED) + 0.0 * s, at(hand + back), grasp.open),
                (0.20 * s, at(hand + back), squeeze),
            ]
            hand = hand + back
        for _ in range(_PIECES):
            even.append(len(rows) - 1)
            hand, sunk = hand - stroke / _PIECES, sunk + stroke / _PIECES / (2 * np.pi) * t.pitch
            rows.append((stroke / _PIECES / (0.9 * MAX_JOINT_SPEED) * max(pace, 1.0) + 0.0 * s, at(hand), squeeze))
    release = len(rows) - 1
    rows += [(0.18 * s, at(hand), grasp.open), (0.25 * s, at(hand) + 2 * above, grasp.open)]
    return knots_of(rows, grasp, release=release, even=tuple(even))


NUT_BOLT = (
    Strategy(
        name="twist",
        sentences=(
            "twist the nut onto the bolt with one long turn from above",
            "pinch the nut from above and screw it down in a single turn",
            "turn the nut tight from above without letting go",
            "give the nut one long twist from above until it holds",
            "screw the nut down from the top in one go",
            "hold the nut from above and turn it all the way at once",
        ),
        held_out=(
            "in one continuous turn from the top, tighten the nut",
            "rotate the nut from above without changing your grip",
        ),
        knobs=_KNOBS,
        plan=functools.partial(_turn, way=_DOWN, middle=0.0, strokes=(2.3,), pace=1.0),
        seconds=3.6,
    ),
    Strategy(
        name="regrip",
        sentences=(
            "screw the nut on with two short turns and a change of grip",
            "turn the nut, let go, take it again and turn it once more",
            "tighten the nut bit by bit with your fingertips",
            "turn the nut a little, open your fingers, grip it anew and turn again",
            "wind the nut on in several short turns",
            "screw it down step by step, letting go in between",
        ),
        held_out=(
            "make two short turns of the nut and take a fresh grip between them",
            "release the nut after a short turn, grasp it once more and go on turning",
        ),
        knobs=_KNOBS,
        plan=functools.partial(_turn, way=_DOWN, middle=0.0, strokes=(1.2, 1.0), pace=0.85),
        seconds=4.0,
    ),
    Strategy(
        name="side",
        sentences=(
            "reach in from the side and crank the nut round on the bolt",
            "take hold of the nut sideways and wind it down",
            "grip the nut from the right side and turn it onto the bolt",
            "with the hand low at the side, turn the nut on the bolt",
            "come in sideways and screw the nut down",
            "hold the nut from its right side and wind it on",
        ),
        held_out=(
            "approach from the side and twist the nut onto the bolt",
            "grasp the nut sideways and tighten it",
        ),
        knobs=_KNOBS,
        plan=functools.partial(_turn, way=_FLAT, middle=0.8, strokes=(2.3,), pace=1.0),
        seconds=3.6,
    ),
)
"""Strategies by the name in the episode's `info`."""
