"""What a joint density is, and what all of them need: the line of each parameter, moments, checks."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput
from dexprior.families.parameter import Parameter

__all__ = [
    "INDEPENDENT",
    "LOG_2PI",
    "Density",
    "DensityKind",
    "Independent",
    "checked_array",
    "from_line",
    "log_slope",
    "moments",
    "refuse_fixed",
    "to_line",
]

DensityKind = Literal["independent", "copula", "particles", "flow"]
LOG_2PI = float(np.log(2.0 * np.pi))


class Density(ABC):
    """A joint density of the parameters that it names; equal if its JSON is."""

    kind: ClassVar[DensityKind]
    names: tuple[str, ...]

    @abstractmethod
    def check(self, parameters: Sequence[Parameter]) -> None:
        """Refuse parameters that it cannot be a density of, in the order of `names`.

        Raises:
            BadInput: a fixed parameter, or what the kind says.
        """

    @abstractmethod
    def sample(
        self, parameters: Sequence[Parameter], rng: np.random.Generator, n: int
    ) -> Float[np.ndarray, "n parameter"]:
        """Draws of the named parameters."""

    @abstractmethod
    def log_prob(
        self, parameters: Sequence[Parameter], values: Float[np.ndarray, "n parameter"]
    ) -> Float[np.ndarray, " n"]:
        """Log density of values inside the support."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Plain data; `density_from_json` is the inverse."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Density) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_json()))


@dataclass(frozen=True, eq=False)
class Independent(Density):
    """No parameter says anything of another."""

    kind: ClassVar[DensityKind] = "independent"
    names: tuple[str, ...] = field(default=(), init=False)

    def check(self, parameters: Sequence[Parameter]) -> None:
        """Any will do."""

    def sample(
        self, parameters: Sequence[Parameter], rng: np.random.Generator, n: int
    ) -> Float[np.ndarray, "n parameter"]:
        """No column."""
        return np.empty((n, 0))

    def log_prob(
        self, parameters: Sequence[Parameter], values: Float[np.ndarray, "n parameter"]
    ) -> Float[np.ndarray, " n"]:
        """Nothing to add."""
        return np.zeros(len(values))

    def to_json(self) -> dict[str, Any]:
        """Its kind."""
        return {"kind": self.kind}


INDEPENDENT = Independent()


def moments(
    z: Float[np.ndarray, "particle d"], weights: Float[np.ndarray, " particle"]
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, "d d"]]:
    """Mean and covariance of weighted points; the weights sum to one."""
    mean = weights @ z
    return mean, (z - mean).T @ ((z - mean) * weights[:, None])


def to_line(parameters: Sequence[Parameter], values: np.ndarray) -> np.ndarray:
    """Columns of values on the line of each parameter."""
    return np.stack([p.to_line(values[:, k]) for k, p in enumerate(parameters)], axis=1)


def from_line(parameters: Sequence[Parameter], z: np.ndarray) -> np.ndarray:
    """Inverse of `to_line`."""
    return np.stack([p.from_line(z[:, k]) for k, p in enumerate(parameters)], axis=1)


def log_slope(parameters: Sequence[Parameter], values: np.ndarray) -> np.ndarray:
    """Log of the volume that `to_line` makes of a unit of value."""
    return np.sum([p.log_slope(values[:, k]) for k, p in enumerate(parameters)], axis=0)


def refuse_fixed(density: Density, parameters: Sequence[Parameter]) -> None:
    """Refuse a parameter that is certain.

    Raises:
        BadInput: names it.
    """
    for p in parameters:
        if p.fixed:
            raise BadInput(f"{density.kind}: {p.name!r} is fixed to {p.low:g} and cannot depend on others")


def checked_array(owner: Any, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """Check a field's shape (None: any size) and finiteness, and keep a read-only copy of it.

    Raises:
        BadInput: no names, or a field that is no array of finite numbers of that shape.
    """
    what = f"{owner.kind} of {', '.join(owner.names)}"
    if not owner.names or len(set(owner.names)) != len(owner.names):
        raise BadInput(f"{owner.kind}: names {owner.names} must be one or more, each once")
    try:
        array = np.array(getattr(owner, name), dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput(f"{what}: {name} is no array of numbers") from None
    if array.ndim != len(shape) or any(want not in (None, got) for want, got in zip(shape, array.shape)):
        raise BadInput(f"{what}: {name} has shape {array.shape}, expected {shape}".replace("None", "n"))
    if not np.isfinite(array).all():
        raise BadInput(f"{what}: {name} holds {int((~np.isfinite(array)).sum())} value(s) that are not finite")
    array.setflags(write=False)
    object.__setattr__(owner, name, array)
    return array
