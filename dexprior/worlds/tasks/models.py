"""Parameters of a family in every world of a batch: only the model's fields that the family touches are per world."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dexprior.families import ParameterFamily
from dexprior.worlds.engine import Engine

if TYPE_CHECKING:
    import mujoco

__all__ = ["ParametersOfWorlds"]

Configure = Callable[["mujoco.MjModel", Mapping[str, float]], None]


class ParametersOfWorlds:
    """Writes a family's values into single worlds of an engine.

    A model for each world would do the same, but copies everything, meshes and signed distance fields included, and
    evicts them from the cache.

    Args:
        batch: fields are expanded in it.
        model: the batch's own.
        family: of the values.
        configure: writes those values that the family leaves to the world (`Task.configure`).
    """

    def __init__(self, batch: Engine, model: mujoco.MjModel, family: ParameterFamily, configure: Configure) -> None:
        import mujoco.batch

        self._family, self._configure = family, configure
        self._scratch = copy.copy(model)
        self._data = mujoco.MjData(self._scratch)
        ends = ({p.name: end for p, end in zip(family.parameters, column)} for column in _ends(family))
        before = {name: np.array(_get(model, name)) for name in mujoco.batch.MODEL_FIELDS if _numeric(model, name)}
        touched: set[str] = set()
        for values in ends:
            self._apply(values)
            touched |= {name for name, old in before.items() if not np.array_equal(old, _get(self._scratch, name))}
            for name in touched:
                _set(self._scratch, name, before[name])
        self._base = {name: before[name] for name in sorted(touched)}
        self._rows = {name: batch.expand(name) for name in self._base}

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the model's fields that differ between worlds."""
        return tuple(self._rows)

    def write(self, world: int, values: Mapping[str, float]) -> None:
        """Give one world its values; they take effect with the batch's next call."""
        for name, old in self._base.items():
            _set(self._scratch, name, old)
        self._apply(values)
        for name, rows in self._rows.items():
            rows[world] = _get(self._scratch, name)

    def _apply(self, values: Mapping[str, float]) -> None:
        self._configure(self._scratch, self._family.apply(self._scratch, values, scratch=self._data))


def _ends(family: ParameterFamily) -> tuple[list[float], list[float]]:
    """Values near both ends of every support, none of them at a model's likely default."""
    low, high = np.array([(p.low, p.high) for p in family.parameters]).reshape(-1, 2).T
    return (low + 0.0137 * (high - low)).tolist(), (high - 0.0171 * (high - low)).tolist()


def _numeric(model: mujoco.MjModel, name: str) -> bool:
    value = _get(model, name)
    return isinstance(value, int | float) or (isinstance(value, np.ndarray) and value.dtype.kind in "fiub")


def _get(model: mujoco.MjModel, name: str) -> Any:
    return getattr(model.opt, name[4:]) if name.startswith("opt.") else getattr(model, name, None)


def _set(model: mujoco.MjModel, name: str, value: Any) -> None:
    owner, attribute = (model.opt, name[4:]) if name.startswith("opt.") else (model, name)
    current = getattr(owner, attribute)
    if isinstance(current, np.ndarray):
        current[...] = value
    else:
        setattr(owner, attribute, type(current)(value))
