"""Parameter families p(Phi): named distributions over what a simulator assumes, instead of single best guesses.

A family samples, gives densities, is conditioned on traces, and applies its values to a MuJoCo model or spec. It is
plain JSON on disk.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput, UnknownName
from dexprior.families.densities import INDEPENDENT, Density, density_from_json
from dexprior.families.parameter import Parameter
from dexprior.reading import as_described, listed, number, read_json_object, shown, text

__all__ = ["ParameterFamily", "drawn_outside", "fixed_outside"]

Traces = TypeVar("Traces")
Conditioned = TypeVar("Conditioned")


@dataclass(frozen=True)
class ParameterFamily:
    """p(Phi): marginals, and how some of the parameters hang together."""

    name: str
    parameters: tuple[Parameter, ...]
    density: Density = INDEPENDENT
    """Joint density of the parameters that it names; the others are independent, with their own marginals."""

    def __post_init__(self) -> None:
        names = [p.name for p in self.parameters]
        if len(set(names)) != len(names):
            raise BadInput(f"family {self.name!r} names a parameter twice: {', '.join(names)}")
        self.density.check(self._joint)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of `sample`."""
        return tuple(p.name for p in self.parameters)

    def sample(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "n parameter"]:
        """n draws that do not hang together, in the order of `names`."""
        u = rng.random((n, len(self.parameters)))
        values = np.stack([p.ppf(u[:, k]) for k, p in enumerate(self.parameters)], axis=1)
        if self.density.names:
            values[:, self._columns] = self.density.sample(self._joint, rng, n)
        return values

    def medians(self) -> Float[np.ndarray, " parameter"]:
        """Median of each marginal, in the order of `names`."""
        return np.array([p.ppf(np.array([0.5]))[0] for p in self.parameters])

    def log_prob(self, values: Float[np.ndarray, "n parameter"]) -> Float[np.ndarray, " n"]:
        """Log density of each row; -inf outside the support."""
        values = self._check(values)
        alone = np.array([p.log_prob(values[:, k]) for k, p in enumerate(self.parameters)]).reshape(-1, len(values))
        if not self.density.names:
            return np.sum(alone, axis=0)
        inside = np.isfinite(alone[self._columns]).all(axis=0)
        found = np.full(len(values), -np.inf)
        found[inside] = np.delete(alone, self._columns, axis=0).sum(axis=0)[inside]
        found[inside] += self.density.log_prob(self._joint, values[np.ix_(inside, self._columns)])
        return found

    def condition(self, traces: Traces, by: Callable[[ParameterFamily, Traces], Conditioned]) -> Conditioned:
        """What traces make of this family by a method, e.g. one of `dexprior.transfer.conditioning`."""
        return by(self, traces)

    def as_dict(self, row: Float[np.ndarray, " parameter"]) -> dict[str, float]:
        """One row by name."""
        return dict(zip(self.names, (float(v) for v in self._check(np.asarray(row)[None])[0])))

    def apply(self, target: Any, values: Mapping[str, float], *, scratch: Any = None) -> dict[str, float]:
        """Write values into a `mujoco.MjModel` (or `MjSpec`), in place.

        Args:
            target: model or spec.
            values: of some of the parameters, by name.
            scratch: a `mujoco.MjData` of the model, which is overwritten; making one takes longer than all the rest.

        Returns the values whose target is `world`: those belong to the world's own settings.

        Raises:
            UnknownName: a value that is not a parameter, or a target that matches no element.
        """
        left: dict[str, float] = {}
        by_name = {p.name: p for p in self.parameters}
        for name, value in values.items():
            if name not in by_name:
                raise UnknownName("parameter", name, self.names)
            if by_name[name].target.startswith("world/"):
                left[name] = float(value)
            else:
                _write(target, by_name[name], float(value))
        if hasattr(target, "ngeom") and any(by_name[name].target.startswith("body/") for name in values):
            import mujoco

            data = mujoco.MjData(target) if scratch is None else scratch
            mujoco.mj_resetData(target, data)
            mujoco.mj_setConst(target, data)  # what MuJoCo derives from masses, e.g. dof_invweight0
        return left

    def extended(self, *parameters: Parameter, name: str | None = None) -> ParameterFamily:
        """This family and further parameters; the new columns come last.

        Raises:
            BadInput: a parameter that it has already.
        """
        return replace(self, name=name or f"{self.name}+{len(parameters)}", parameters=(*self.parameters, *parameters))

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        plain: dict[str, Any] = {"name": self.name, "parameters": [p.to_json() for p in self.parameters]}
        return plain | ({"density": self.density.to_json()} if self.density.names else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ParameterFamily:
        """Inverse of `to_json`.

        Raises:
            BadInput: a missing or unknown key, one of another type, or a density that does not fit the parameters.
            UnknownName: no such density.
        """
        try:
            density = density_from_json(data["density"]) if "density" in data else INDEPENDENT
            name, rows = text(data["name"], "name"), listed(data["parameters"], "parameters", empty=True)
            return cls(name, tuple(_parameter(row) for row in rows), density)
        except (KeyError, TypeError, AttributeError) as error:
            raise BadInput(f"not a parameter family: {error}") from None

    @classmethod
    def read(cls, path: str | Path) -> ParameterFamily:
        """Read a family from a JSON file.

        Raises:
            BadInput: a missing or damaged file, or another one; named.
        """
        with as_described("a parameter family", path):
            return cls.from_json(read_json_object(path))

    @property
    def _columns(self) -> list[int]:
        """Columns of the parameters that the joint density names."""
        return [self.names.index(name) for name in self.density.names]

    @property
    def _joint(self) -> tuple[Parameter, ...]:
        unknown = [name for name in self.density.names if name not in self.names]
        if unknown:
            raise UnknownName(f"parameter of {self.name!r} in its density", unknown[0], self.names)
        return tuple(self.parameters[k] for k in self._columns)

    def _check(self, values: np.ndarray) -> np.ndarray:
        values = np.asarray(values, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != len(self.parameters):
            raise BadInput(
                f"family {self.name!r}: values of shape {values.shape}, expected (n, {len(self.parameters)})"
            )
        return values


def _parameter(row: Any) -> Parameter:
    """A parameter from plain data, with the types that it declares."""
    for name in ("name", "unit", "target"):
        text(row[name], f"parameter {shown(row['name'])}: {name}")
    for name in ("low", "high", "mean", "std"):
        if name in ("low", "high") or row.get(name) is not None:
            number(row[name], f"parameter {row['name']!r}: {name}")
    return Parameter(**row)


def fixed_outside(
    name: str, family: ParameterFamily, values: Mapping[str, float], *extra: Parameter
) -> ParameterFamily:
    """Another world: every parameter of a family fixed to a value outside its support.

    Args:
        name: of the new family.
        family: what the simulator assumes.
        values: one for each of its parameters.
        extra: fixed parameters that the family does not vary.

    Raises:
        UnknownName: a value for no parameter.
        BadInput: a parameter without a value, or a value that the family covers.
    """
    unknown = set(values) - set(family.names)
    if unknown:
        raise UnknownName(f"parameter of {family.name!r}", sorted(unknown)[0], family.names)
    fixed = []
    for p in family.parameters:
        if p.name not in values:
            raise BadInput(f"the other world of {family.name!r} has no value for {p.name!r}")
        value = values[p.name]
        if p.low <= value <= p.high:
            raise BadInput(f"{p.name!r} = {value} lies inside the support [{p.low}, {p.high}] of {family.name!r}")
        fixed.append(replace(p, low=value, high=value, distribution="uniform", mean=None, std=None))
    return ParameterFamily(name, (*fixed, *extra))


def drawn_outside(name: str, family: ParameterFamily, fixed: ParameterFamily) -> ParameterFamily:
    """Other worlds: every parameter of a family drawn from beyond the end of its support nearest to a fixed value.

    The range reaches from that end to half as far again as the fixed value, at most to zero where the support is
    positive; parameters that only `fixed` has stay as they are there.

    Args:
        name: of the new family.
        family: what the simulator assumes.
        fixed: one other world of it; see `fixed_outside`.
    """
    known = {p.name: p for p in family.parameters}
    drawn = []
    for p in fixed.parameters:
        if p.name not in known:
            drawn.append(p)
            continue
        end = known[p.name].low if p.low < known[p.name].low else known[p.name].high
        beyond = p.low + 0.5 * (p.low - end)
        if end > 0.0:
            beyond = max(beyond, 0.25 * p.low)
        low, high = sorted((end, beyond))
        drawn.append(replace(p, low=low, high=high))
    return ParameterFamily(name, tuple(drawn))


def _write(target: Any, parameter: Parameter, value: float) -> None:
    element, glob, field, *index = parameter.target.split("/")
    if element == "option":
        owner = target.opt if hasattr(target, "opt") else target.option
        _require_field(owner, element, field, parameter)
        setattr(owner, field, value * getattr(owner, field) if parameter.operation == "scale" else value)
        return
    for item in _matching(target, element, glob, parameter):
        _require_field(item, element, field, parameter)
        if (element, field) == ("body", "mass") and hasattr(item, "explicitinertial") and not item.explicitinertial:
            _write_mass_of_geoms(target, item, parameter, value)
            continue
        current = getattr(item, field)
        before = np.array(current, dtype=np.float64)
        after = before.copy()
        where = int(index[0]) if index else Ellipsis
        if index and not int(index[0]) < before.size:
            raise BadInput(f"parameter {parameter.name!r}: {parameter.target!r} counts past {before.size} value(s)")
        after[where] = after[where] * value if parameter.operation == "scale" else value
        if isinstance(current, np.ndarray):
            current[...] = after
        else:
            setattr(item, field, after if after.ndim else float(after))
        if (element, field) == ("body", "mass"):  # the same shape with another density
            item.inertia[...] = np.asarray(item.inertia) * (after.ravel()[0] / before.ravel()[0])


def _write_mass_of_geoms(spec: Any, body: Any, parameter: Parameter, value: float) -> None:
    """A body of a spec whose mass comes from its geoms: the same shapes with another density."""
    factor = value if parameter.operation == "scale" else value / spec.copy().compile().body(body.name).mass[0]
    for geom in body.geoms:
        geom.mass *= factor  # NaN where the density counts
        geom.density *= factor


def _require_field(item: Any, element: str, field: str, parameter: Parameter) -> None:
    if not hasattr(item, field):
        known = [n for n in dir(item) if not n.startswith("_") and not callable(getattr(item, n))]
        raise UnknownName(f"field of {element} for parameter {parameter.name!r}", field, known)


def _matching(target: Any, element: str, glob: str, parameter: Parameter) -> list[Any]:
    if hasattr(target, "ngeom"):  # MjModel
        count = getattr(target, {"joint": "njnt", "actuator": "nu", "pair": "npair"}.get(element, f"n{element}"))
        items = [getattr(target, element)(i) for i in range(count)]
    else:  # MjSpec
        items = list(getattr(target, {"body": "bodies"}.get(element, f"{element}s")))
    found = [item for item in items if fnmatch.fnmatchcase(item.name, glob)]
    if not found:
        raise UnknownName(f"{element} for parameter {parameter.name!r}", glob, [i.name for i in items if i.name])
    return found
