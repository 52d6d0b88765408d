"""Shape, dtype and range checks shared by the types; axis names must agree within one object."""

from __future__ import annotations

from typing import Any

import numpy as np

from dexprior.errors import BadInput

__all__ = ["Checker"]


class Checker:
    """Checks the arrays of one object and stores the checked copies on it.

    An axis given as an `int` must match; an axis given as a name must have the same length wherever it appears.
    """

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.kind = type(owner).__name__
        self.axes: dict[str, tuple[int, str]] = {}

    def array(
        self,
        name: str,
        *axes: int | str,
        dtype: Any = np.float64,
        low: float | None = None,
        high: float | None = None,
    ) -> np.ndarray:
        """Coerce `owner.name` to a read-only array and check it.

        Raises:
            BadInput: wrong shape, NaN or infinity, or a value outside [low, high].
        """
        value = getattr(self.owner, name)
        try:
            with np.errstate(invalid="ignore"):  # NaN as a whole number is found below
                array = np.array(value, dtype=dtype, copy=True)
        except (TypeError, ValueError) as error:
            raise BadInput(f"{self.kind}.{name}: not a numeric array: {error}") from None
        if not np.issubdtype(array.dtype, np.floating):
            given = np.asarray(value)
            if given.dtype != array.dtype and not (given == array).all():
                raise BadInput(f"{self.kind}.{name} holds {given.dtype} values that {array.dtype} cannot keep")
        self._check_shape(name, array, axes)
        if np.issubdtype(array.dtype, np.floating):
            bad = ~np.isfinite(array)
            if bad.any():
                first = tuple(int(i) for i in np.argwhere(bad)[0])
                raise BadInput(
                    f"{self.kind}.{name} holds {int(bad.sum())} value(s) that are not finite; the first is "
                    f"{array[first]} at index {first}. Frames without a measurement are marked in `valid`."
                )
            if low is not None and array.size and array.min() < low:
                raise BadInput(f"{self.kind}.{name}: smallest value {array.min():g} is below {low:g}")
            if high is not None and array.size and array.max() > high:
                raise BadInput(f"{self.kind}.{name}: largest value {array.max():g} is above {high:g}")
        array.setflags(write=False)
        object.__setattr__(self.owner, name, array)
        return array

    def times(self, name: str, axis: str) -> np.ndarray:
        """Check strictly increasing seconds."""
        t = self.array(name, axis)
        if len(t) > 1 and not (np.diff(t) > 0).all():
            k = int(np.argmax(np.diff(t) <= 0))
            raise BadInput(
                f"{self.kind}.{name} must increase strictly, but goes from {t[k]:.6f} s to {t[k + 1]:.6f} s "
                f"at index {k + 1}"
            )
        return t

    def poses(self, name: str, *axes: int | str) -> np.ndarray:
        """Check poses [x y z qw qx qy qz] with unit quaternions."""
        pose = self.array(name, *axes, 7)
        norm = np.linalg.norm(pose[..., 3:], axis=-1)
        if pose.size and not np.allclose(norm, 1.0, atol=1e-3):
            worst = float(norm.flat[int(np.abs(norm - 1).argmax())])
            raise BadInput(
                f"{self.kind}.{name}: quaternion of norm {worst:.4f}; poses are [x y z qw qx qy qz] with a "
                "unit quaternion, scalar first"
            )
        return pose

    def one_of(self, name: str, choices: tuple[str, ...]) -> None:
        """Check a name against its choices."""
        value = getattr(self.owner, name)
        if value not in choices:
            raise BadInput(f"{self.kind}.{name} = {value!r}; choices: {', '.join(choices)}")

    def _check_shape(self, name: str, array: np.ndarray, axes: tuple[int | str, ...]) -> None:
        shown = "(" + ", ".join(str(a) for a in axes) + ")"
        if array.ndim != len(axes):
            raise BadInput(f"{self.kind}.{name} has shape {array.shape}, expected {shown}")
        for size, axis in zip(array.shape, axes):
            if isinstance(axis, int):
                if size != axis:
                    raise BadInput(f"{self.kind}.{name} has shape {array.shape}, expected {shown}")
                continue
            known = self.axes.setdefault(axis, (size, name))
            if known[0] != size:
                raise BadInput(
                    f"{self.kind}.{name} has shape {array.shape}: axis {axis!r} is {size} here "
                    f"but {known[0]} in {known[1]}"
                )
