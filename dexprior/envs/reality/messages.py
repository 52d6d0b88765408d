"""What travels between a reality server and its client; see docs/reality-server.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dexprior.envs.line.base import OBSERVATION_SIZES, Reading
from dexprior.envs.messages import truth_from_plain, truth_to_plain
from dexprior.envs.wire import array_from

__all__ = ["PROTOCOL", "VERSION", "reading_from_plain", "reading_to_plain", "require_step"]

PROTOCOL, VERSION = "dexprior.reality", 1

_READING: dict[str, tuple[int, ...]] = {
    "t": (), "q": (7,), "qd": (7,), "tcp": (7,), "opening": (), "wrench": (6,), "touch": (2,),
    "cloud": OBSERVATION_SIZES["cloud"],
}  # fmt: skip
_FAST = 100.0  # [m/s, rad/s] and [m]: no command of a robot's


def reading_to_plain(reading: Reading, *, tracker: bool) -> dict[str, Any]:
    """The reading of one world; the truth travels only where a tracker sees it."""
    plain: dict[str, Any] = {name: getattr(reading, name)[0] for name in _READING}
    return plain | {"truth": truth_to_plain(reading.truth) if tracker else None}


def reading_from_plain(data: Mapping[str, Any]) -> Reading:
    """Inverse of `reading_to_plain`, with the leading axis of one world.

    Raises:
        BadInput: a field is missing or has another shape.
    """
    fields = {name: array_from(data, name, *shape)[None] for name, shape in _READING.items()}
    return Reading(**fields, truth=truth_from_plain(data.get("truth")))


def require_step(message: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Twist (1, 6) and opening (1,) of a step request.

    Raises:
        BadInput: a field is missing, has another shape, or holds what no robot does.
    """
    return array_from(message, "twist", 6, limit=_FAST)[None], array_from(message, "opening", limit=_FAST)[None]
