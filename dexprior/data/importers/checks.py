"""What can be found wrong with a foreign recording before it is used."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from dexprior.errors import BadInput
from dexprior.hands.side import flexion
from dexprior.types import HandTrajectory, Side

__all__ = [
    "check_hand",
    "check_scale",
    "check_side",
    "last_measured",
    "measured",
]

_PALM = (0.06, 0.13)  # [m] wrist to the middle finger's knuckle, from children to large men
_BACKWARDS = -0.012  # [m] mean height of the fingertips over the palm below which a hand is the other one
_ARENA = 20.0  # [m] no table-top recording is wider


def check_hand(hand: HandTrajectory) -> None:
    """Whether a hand has a hand's size and bends its fingers as its side does.

    Raises:
        BadInput: millimetres for metres, an impossible size, or a left hand that is labelled right.
    """
    joints = hand.joints[hand.valid]
    if len(joints) == 0:
        raise BadInput(f"the {hand.side} hand was measured in no frame")
    if hand.scale_known:
        palm = float(np.median(np.linalg.norm(joints[:, 9] - joints[:, 0], axis=-1)))
        if not _PALM[0] <= palm <= _PALM[1]:
            hint = ": joints are in millimetres, divide them by 1000" if 60 <= palm <= 130 else ""
            raise BadInput(
                f"the {hand.side} hand's palm is {palm:.3g} m long, hands have {_PALM[0]:g} to {_PALM[1]:g} m{hint}"
            )
        check_scale(joints.reshape(-1, 3), f"joints of the {hand.side} hand")
    check_side(joints, hand.side)


def check_side(joints: Float[np.ndarray, "time 21 3"], side: Side) -> None:
    """Fingers bend to the palm, which tells a left hand from a right one (a flat hand says nothing).

    Raises:
        BadInput: the fingers bend to the back of the hand.
    """
    height = flexion(joints, side)
    if height < _BACKWARDS:
        other = "left" if side == "right" else "right"
        raise BadInput(
            f"the fingers of the {side} hand bend {-1000 * height:.0f} mm to its back on average: it is a {other} "
            "hand that is labelled wrongly, or an axis is mirrored"
        )


def check_scale(points: Float[np.ndarray, "n 3"], what: str) -> None:
    """Whether positions can be metres.

    Raises:
        BadInput: they reach further than any table-top recording.
    """
    if len(points) and (reach := float(np.abs(points).max())) > _ARENA:
        raise BadInput(f"{what} reach {reach:.0f} m: they are in millimetres, or not metric; divide them by 1000")


def measured(*arrays: np.ndarray) -> Bool[np.ndarray, " time"]:
    """Frames in which every number of every array is finite."""
    finite = [np.isfinite(a).reshape(len(a), -1).all(axis=1) for a in arrays]
    return np.logical_and.reduce(finite)


def last_measured(valid: Bool[np.ndarray, " time"], what: str) -> np.ndarray:
    """The last valid frame before each one (the first one for the frames before any).

    Raises:
        BadInput: no frame is valid.
    """
    if not valid.any():
        raise BadInput(f"{what}: no frame was measured")
    index = np.maximum.accumulate(np.where(valid, np.arange(len(valid)), -1))
    return np.where(index < 0, int(valid.argmax()), index)
