"""What several protocols send: a scene to set up, and what a tracker sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dexprior.envs.line.base import Truth
from dexprior.envs.line.panel import Instance
from dexprior.envs.wire import array_from, whole_from
from dexprior.errors import BadInput

__all__ = ["scene_from_plain", "scene_to_plain", "truth_from_plain", "truth_to_plain"]

_TRUTH: dict[str, tuple[int, ...]] = {"nut": (7,), "bolt": (3,), "slip": (), "held": ()}
_FAR = 10.0  # [m] beyond which nothing is placed
_TURNS = 100.0  # [rad]


def truth_to_plain(truth: Truth | None) -> dict[str, Any] | None:
    """The truth about one world; None where nothing sees it."""
    return None if truth is None else {name: getattr(truth, name)[0] for name in _TRUTH}


def truth_from_plain(data: Any) -> Truth | None:
    """Inverse of `truth_to_plain`, with the leading axis of one world.

    Raises:
        BadInput: neither null nor an object, or a field is missing or has another shape.
    """
    if data is None:
        return None
    if not isinstance(data, Mapping):
        raise BadInput(f"field 'truth' must be an object or null, got {data!r:.80}")
    fields = {name: array_from(data, name, *shape)[None] for name, shape in _TRUTH.items()}
    return Truth(**(fields | {"held": fields["held"].astype(bool)}))


def scene_to_plain(instance: Instance) -> dict[str, Any]:
    """Where things are, and the seed of the sensor noise. What the world is like is the server's to know."""
    return {
        "nut": list(instance.nut),
        "bolt": list(instance.bolt),
        "nut_yaw": instance.nut_yaw,
        "seed": instance.seed,
    }


def scene_from_plain(data: Mapping[str, Any], parameters: Mapping[str, float]) -> Instance:
    """The instance in a request, in a world with these parameters.

    Raises:
        BadInput: a field is missing, has another shape, or lies out of range.
    """
    nut, bolt = (tuple(map(float, array_from(data, name, 3, limit=_FAR))) for name in ("nut", "bolt"))
    return Instance(
        nut=nut,  # type: ignore[arg-type]  # three, as checked
        bolt=bolt,  # type: ignore[arg-type]
        nut_yaw=float(array_from(data, "nut_yaw", limit=_TURNS)),
        parameters=dict(parameters),
        seed=whole_from(data, "seed", 0, 2**63 - 1),
    )
