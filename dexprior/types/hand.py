"""The human hand over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, TypeVar

import numpy as np
from jaxtyping import Bool, Float

from dexprior.errors import BadInput
from dexprior.types.check import Checker

__all__ = ["FINGERS", "HAND_JOINTS", "MANO_JOINTS", "SIDES", "HandTrajectory", "Side", "by_side", "of_side"]

Side = Literal["left", "right"]

SIDES: tuple[Side, Side] = ("right", "left")
"""Order of the hands of a clip."""

FINGERS = ("thumb", "index", "middle", "ring", "little")
"""Order of every per-finger array."""

HAND_JOINTS = (
    "wrist",
    *(f"thumb_{j}" for j in ("cmc", "mcp", "ip", "tip")),
    *(f"{f}_{j}" for f in FINGERS[1:] for j in ("mcp", "pip", "dip", "tip")),
)
"""The 21 joints, in MediaPipe's landmark order."""

MANO_JOINTS = (
    "wrist",
    *(f"{f}{i}" for f in ("index", "middle", "little", "ring", "thumb") for i in (1, 2, 3)),
)
"""MANO's 16 joints in MANO's order (Romero et al. 2017); `finger_pose` follows its last fifteen."""


@dataclass(frozen=True, kw_only=True)
class HandTrajectory:
    """A human hand over time (not the robot's hand: see `JointTrajectory`).

    Raises:
        BadInput: a shape, a range, a quaternion's norm or a time stamp is wrong, or a value is not finite.
    """

    schema: ClassVar[str] = "dexprior.hand_trajectory/1"

    t: Float[np.ndarray, " time"]
    """Monotonic seconds, strictly increasing."""
    side: Side
    """Which hand."""
    wrist_pose: Float[np.ndarray, "time 7"]
    """Pose of MANO's wrist frame in the base frame [m, unit quaternion]."""
    finger_pose: Float[np.ndarray, "time 45"]
    """Axis-angle of MANO's 15 finger joints in MANO's order [rad]; a flat hand is zero."""
    betas: Float[np.ndarray, 10]
    """MANO shape coefficients."""
    joints: Float[np.ndarray, "time 21 3"]
    """Joint positions in the base frame, MediaPipe order [m]."""
    contact: Float[np.ndarray, "time 5"]
    """Probability that each finger touches the object."""
    force: Float[np.ndarray, "time 5"]
    """Normal force of each fingertip on the object [N]."""
    valid: Bool[np.ndarray, " time"]
    """Whether the frame was measured (an invalid frame repeats the last measured values)."""
    sigma: Float[np.ndarray, "time 21 *axis"]
    """Standard deviation of each joint's position [m]: one, or one along each axis of the base frame."""
    scale_known: bool
    """Whether lengths are metric; a monocular landmark file leaves the scale open."""

    def __post_init__(self) -> None:
        check = Checker(self)
        check.times("t", "time")
        check.one_of("side", ("left", "right"))
        check.poses("wrist_pose", "time")
        check.array("finger_pose", "time", 45)
        check.array("betas", 10)
        check.array("joints", "time", 21, 3)
        check.array("contact", "time", 5, low=0.0, high=1.0)
        check.array("force", "time", 5, low=0.0)
        check.array("valid", "time", dtype=bool)
        check.array("sigma", "time", 21, *([3] if np.shape(self.sigma)[2:] == (3,) else []), low=0.0)

    def __len__(self) -> int:
        return len(self.t)

    @property
    def spread(self) -> Float[np.ndarray, "time 21 3"]:
        """Standard deviation of each joint's position along each axis of the base frame [m]."""
        sigma = self.sigma if self.sigma.ndim == 3 else self.sigma[..., None]
        return np.broadcast_to(sigma, self.joints.shape)


class _Sided(Protocol):
    @property
    def side(self) -> Side: ...


S = TypeVar("S", bound=_Sided)


def by_side(hands: Iterable[S], what: str) -> tuple[S, ...]:
    """One hand or two in the order of `SIDES`.

    Raises:
        BadInput: none, or two of one side; `what` names them.
    """
    found = sorted(hands, key=lambda hand: SIDES.index(hand.side))
    if not found:
        raise BadInput(f"{what} holds no hand")
    if len({hand.side for hand in found}) < len(found):
        raise BadInput(f"{what} holds {' and '.join(hand.side for hand in found)}: at most one hand of each side")
    return tuple(found)


def of_side(hands: Sequence[S], side: Side | None, what: str) -> S:
    """The hand of a side, or the only one.

    Raises:
        BadInput: no hand of this side, or two hands and no side; `what` names their clip.
    """
    chosen = [hand for hand in hands if side in (None, hand.side)]
    if len(chosen) == 1:
        return chosen[0]
    shown = " and ".join(f"a {hand.side} hand" for hand in hands)
    raise BadInput(f"{what} shows {shown}: " + ("choose one by its side" if chosen else f"no {side} one"))
