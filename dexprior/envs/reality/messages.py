"""What travels between a reality server and its client; see docs/reality-server.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dexprior.envs.base import OBSERVATION_SIZES, Reading, Truth
from dexprior.envs.panel import Instance
from dexprior.envs.wire import array_from
from dexprior.errors import BadInput

__all__ = [
    "PROTOCOL",
    "VERSION",
    "instance_from_plain",
    "instance_to_plain",
    "reading_from_plain",
    "reading_to_plain",
    "require_step",
]

PROTOCOL, VERSION = "dexprior.reality", 1

_READING: dict[str, tuple[int, ...]] = {
    "t": (), "q": (7,), "qd": (7,), "tcp": (7,), "opening": (), "wrench": (6,), "touch": (2,),
    "cloud": OBSERVATION_SIZES["cloud"],
}  # fmt: skip
_TRUTH: dict[str, tuple[int, ...]] = {"nut": (7,), "bolt": (3,), "slip": (), "held": ()}


def reading_to_plain(reading: Reading, *, tracker: bool) -> dict[str, Any]:
    """The reading of one world; the truth travels only where a tracker sees it."""
    plain: dict[str, Any] = {name: getattr(reading, name)[0] for name in _READING}
    seen = reading.truth if tracker else None
    plain["truth"] = None if seen is None else {name: getattr(seen, name)[0] for name in _TRUTH}
    return plain


def reading_from_plain(data: Mapping[str, Any]) -> Reading:
    """Inverse of `reading_to_plain`, with the leading axis of one world.

    Raises:
        BadInput: a field is missing or has another shape.
    """
    fields = {name: array_from(data, name, *shape)[None] for name, shape in _READING.items()}
    seen = data.get("truth")
    if seen is None:
        return Reading(**fields, truth=None)
    if not isinstance(seen, Mapping):
        raise BadInput(f"field 'truth' must be an object or null, got {seen!r:.80}")
    truth = {name: array_from(seen, name, *shape)[None] for name, shape in _TRUTH.items()}
    truth["held"] = truth["held"].astype(bool)
    return Reading(**fields, truth=Truth(**truth))


def instance_to_plain(instance: Instance) -> dict[str, Any]:
    """Where things are, and the seed of the sensor noise. What the world is like is the server's to know."""
    return {
        "nut": list(instance.nut),
        "bolt": list(instance.bolt),
        "nut_yaw": instance.nut_yaw,
        "seed": instance.seed,
    }


def instance_from_plain(data: Mapping[str, Any], parameters: Mapping[str, float]) -> Instance:
    """The instance in a request, in a world with these parameters.

    Raises:
        BadInput: a field is missing or has another shape.
    """
    seed = data.get("seed")
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**63:
        raise BadInput(f"field 'seed' must be a whole number from 0 to 2**63 - 1, got {seed!r}")
    nut, bolt = (tuple(map(float, array_from(data, name, 3))) for name in ("nut", "bolt"))
    return Instance(
        nut=nut,  # type: ignore[arg-type]  # three, as checked
        bolt=bolt,  # type: ignore[arg-type]
        nut_yaw=float(array_from(data, "nut_yaw")),
        parameters=dict(parameters),
        seed=seed,
    )


def require_step(message: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Twist (1, 6) and opening (1,) of a step request.

    Raises:
        BadInput: a field is missing or has another shape.
    """
    return array_from(message, "twist", 6)[None], array_from(message, "opening")[None]
