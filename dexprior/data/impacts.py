"""Single impacts of a planar body against a fixed flat surface, and the measured record of an ellipse.

World frame: x along the surface, y up. Velocities are [vx vy omega] in m/s, m/s, rad/s (counter-clockwise).
The contact point sits at r = (r_x, -h) from the centre of mass, so that the contact velocity is

    u_n = [0 1 r_x] v      (positive: separating)
    u_t = [1 0 h]   v

Measured: N. Fazeli's ellipse drops, published in DAIRLab/ImpactModeling; see `datasets/ellipse_impacts.md`.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from dexprior.artifacts import write_atomic
from dexprior.errors import BadInput
from dexprior.reading import as_described, numbers, read_npz
from dexprior.types.check import Checker
from dexprior.types.collision import ContactGeometry

__all__ = [
    "CONTEXT",
    "ELLIPSE_MASS",
    "ELLIPSE_SEMI_AXES",
    "PlanarImpacts",
    "check_torque_balance",
    "ellipse_contact",
    "ellipse_inertia",
    "find_ellipse_impacts",
    "kinetic_energy",
    "load_ellipse_impacts",
    "load_impacts",
    "save_impacts",
]

ELLIPSE_SEMI_AXES = (0.035, 0.025)  # [m] of the recorded body
ELLIPSE_MASS = 0.0364  # [kg]

CONTEXT = ("slide", "spin", "place", "cosine", "sine")
"""Columns of `PlanarImpacts.context`: velocity of the mass centre along the surface [m/s], k omega [m/s], position
along the surface in radii of gyration, and cosine and sine of the orientation."""

_FIELDS = {"pre": 6, "post": 6, "n": 3, "d": 3, "flags": 6, "source_row": 0}
_ABSENT = "datasets/ellipse_impacts.md says how to get the published one."
_ARRAYS = ("pre", "post", "normal_row", "tangent_row", "angle", "place", "source_row")
_FASTEST, _SPIN = 100.0, 1e4  # [m/s], [rad/s] what a body on a table may do
_FARTHEST, _HEAVIEST = 100.0, 1e4  # [m]; [kg] and [kg m^2]
_CONSISTENT = 0.6  # relative torque residual; 0.29 for the record as it should be, 2.5 when mirrored wrongly


@dataclass(frozen=True, kw_only=True)
class PlanarImpacts:
    """Velocities of one rigid planar body just before and just after single impacts."""

    schema: ClassVar[str] = "dexprior.planar_impacts/1"

    pre: Float[np.ndarray, "impact 3"]
    """[vx vy omega] before."""
    post: Float[np.ndarray, "impact 3"]
    """[vx vy omega] after."""
    normal_row: Float[np.ndarray, "impact 3"]
    """Contact Jacobian row [0 1 r_x]."""
    tangent_row: Float[np.ndarray, "impact 3"]
    """Contact Jacobian row [1 0 h]."""
    angle: Float[np.ndarray, " impact"]
    """Orientation of the body at the impact [rad]."""
    place: Float[np.ndarray, " impact"]
    """Position of the mass centre along the surface [m]."""
    source_row: Int[np.ndarray, " impact"]
    """Row in the file that the impact comes from; counts from zero for generated ones."""
    mass: float
    """[kg]"""
    inertia: float
    """About the centre of mass [kg m^2]."""
    semi_axes: tuple[float, float] | None
    """Semi-axes of an ellipse [m]; None for another outline, which only the contact rows know."""
    source: str
    """`measured` or `generated`."""

    def __post_init__(self) -> None:
        check = Checker(self)
        for name, most in (("pre", _SPIN), ("post", _SPIN), ("normal_row", _FARTHEST), ("tangent_row", _FARTHEST)):
            check.array(name, "impact", 3, low=-most, high=most)
        for name in ("pre", "post"):
            fastest = np.abs(getattr(self, name)[:, :2]).max(initial=0.0)
            if fastest > _FASTEST:
                raise BadInput(
                    f"PlanarImpacts.{name} holds {fastest:g} m/s, nothing on a table moves at more than {_FASTEST:g}"
                )
        check.array("angle", "impact", low=-_SPIN, high=_SPIN)
        check.array("place", "impact", low=-_FARTHEST, high=_FARTHEST)
        check.array("source_row", "impact", dtype=np.int64)
        check.one_of("source", ("measured", "generated"))
        if not (0 < self.mass <= _HEAVIEST and 0 < self.inertia <= _HEAVIEST):
            raise BadInput(
                f"PlanarImpacts: mass {self.mass} kg and inertia {self.inertia} kg m^2 must be positive, and at most "
                f"{_HEAVIEST:g}"
            )

    def __len__(self) -> int:
        return len(self.pre)

    @property
    def gyration(self) -> float:
        """Radius of gyration k [m]; k omega is comparable to a linear velocity."""
        return float(np.sqrt(self.inertia / self.mass))

    @cached_property
    def geometry(self) -> ContactGeometry:
        """How each contact couples to [vx vy omega]."""
        inverse = np.diag([1.0 / self.mass, 1.0 / self.mass, 1.0 / self.inertia])
        return ContactGeometry(
            jacobian=np.stack([self.normal_row, self.tangent_row], axis=1),
            inverse_inertia=np.broadcast_to(inverse, (len(self), 3, 3)),
            context=self.context,
        )

    @property
    def ellipse(self) -> tuple[float, float]:
        """The semi-axes [m], for what simulates an ellipse.

        Raises:
            BadInput: the body has another outline.
        """
        if self.semi_axes is None:
            raise BadInput("these impacts are not of an ellipse, and only ellipses are simulated here")
        return self.semi_axes

    @property
    def context(self) -> Float[np.ndarray, "impact 5"]:
        """What is known about an impact beyond its contact point; columns as in `CONTEXT`."""
        k = self.gyration
        return np.stack(
            [self.pre[:, 0], k * self.pre[:, 2], self.place / k, np.cos(self.angle), np.sin(self.angle)], axis=1
        )

    def take(self, rows: Int[np.ndarray, " chosen"]) -> PlanarImpacts:
        """The chosen impacts, in the given order."""
        return replace(self, **{name: getattr(self, name)[rows] for name in _ARRAYS})

    def split(self, n_fit: int, seed: int) -> tuple[PlanarImpacts, PlanarImpacts]:
        """`n_fit` random impacts to adapt to, and all others to evaluate on; the same for the same seed.

        Raises:
            BadInput: `n_fit` leaves nothing to fit or nothing to evaluate.
        """
        if not 0 < n_fit < len(self):
            raise BadInput(f"split: n_fit = {n_fit}, but it must lie between 1 and {len(self) - 1}")
        order = np.random.default_rng(seed).permutation(len(self))
        return self.take(np.sort(order[:n_fit])), self.take(np.sort(order[n_fit:]))


# --- the measured record ------------------------------------------------------------------------------------


def find_ellipse_impacts() -> Path | None:
    """`$DEXPRIOR_DATA/impacts/ellipse_impacts.npz` where that file exists, else None."""
    root = os.environ.get("DEXPRIOR_DATA")
    path = Path(root) / "impacts" / "ellipse_impacts.npz" if root else None
    return path if path is not None and path.is_file() else None


def load_ellipse_impacts(path: str | Path) -> PlanarImpacts:
    """Read the measured ellipse impacts: unflagged rows, with x and vx mirrored.

    The published record has x pointing against its own contact rows: as stored, no contact impulse explains
    the change of spin. Negating x and vx repairs it, and the torque balance is checked afterwards.

    Raises:
        BadInput: missing, truncated or foreign file; missing keys, wrong shapes, NaN; torque out of balance.
    """
    path = Path(path)
    raw = _read_arrays(path)
    if not len(raw["pre"]):
        raise BadInput(f"{path} holds no impact")
    clean = (raw["flags"] == 0).all(axis=1)
    if not clean.any():
        raise BadInput(f"{path}: every row is flagged as bad, nothing is left")
    pre, post, normal, tangent = (np.asarray(raw[name][clean], dtype=np.float64) for name in ("pre", "post", "n", "d"))
    mirror = np.array([-1.0, 1.0, 1.0])
    with as_described("the record of ellipse impacts", path):
        impacts = PlanarImpacts(
            pre=pre[:, 3:] * mirror,
            post=post[:, 3:] * mirror,
            normal_row=normal,
            tangent_row=tangent,
            angle=pre[:, 2],
            place=-pre[:, 0],
            source_row=raw["source_row"][clean],
            mass=ELLIPSE_MASS,
            inertia=ellipse_inertia(ELLIPSE_SEMI_AXES, ELLIPSE_MASS),
            semi_axes=ELLIPSE_SEMI_AXES,
            source="measured",
        )
    check_torque_balance(impacts, where=str(path))
    return impacts


def save_impacts(impacts: PlanarImpacts, path: str | Path) -> Path:
    """Write impacts as an `.npz` of plain arrays, to be read by `load_impacts`."""
    arrays = {name: getattr(impacts, name) for name in _ARRAYS}
    axes = () if impacts.semi_axes is None else impacts.semi_axes
    buffer = io.BytesIO()
    np.savez(
        buffer, **arrays, mass=impacts.mass, inertia=impacts.inertia, semi_axes=np.array(axes), source=impacts.source
    )
    return write_atomic(path, buffer.getvalue())


def load_impacts(path: str | Path) -> PlanarImpacts:
    """Read measured impacts: the published ellipse record, or what `save_impacts` wrote.

    Raises:
        BadInput: missing, truncated or foreign file; missing keys, wrong shapes, NaN; torque out of balance.
    """
    path = Path(path)
    found = read_npz(path, absent=_ABSENT)
    if "mass" not in found:
        return load_ellipse_impacts(path)
    missing = sorted({*_ARRAYS, "mass", "inertia", "semi_axes", "source"} - set(found))
    if missing:
        raise BadInput(f"{path} lacks {', '.join(missing)}; it has: {', '.join(sorted(found))}")
    if not found["pre"].size:
        raise BadInput(f"{path} holds no impact")
    axes = numbers(found["semi_axes"], f"{path}: semi_axes").tolist()
    if len(axes) not in (0, 2) or any(not 0 < a <= _FARTHEST for a in axes):
        raise BadInput(f"{path}: semi_axes = {axes}: expected none, or two in m")
    mass, inertia = (numbers(found[name], f"{path}: {name}", 1)[0] for name in ("mass", "inertia"))
    with as_described("a file of impacts", path):
        impacts = PlanarImpacts(
            **{name: found[name] for name in _ARRAYS},
            mass=float(mass),
            inertia=float(inertia),
            semi_axes=(axes[0], axes[1]) if axes else None,
            source=str(found["source"]),
        )
    check_torque_balance(impacts, where=str(path))
    return impacts


def check_torque_balance(impacts: PlanarImpacts, *, where: str = "impacts") -> float:
    """Relative residual of I d(omega) = m (r_x d(vy) + h d(vx)), which holds for any impulse at the contact.

    Raises:
        BadInput: the balance fails, or holds better with vx mirrored.
    """
    change = impacts.post - impacts.pre
    spin = impacts.inertia * change[:, 2]
    lever = impacts.mass * impacts.normal_row[:, 2] * change[:, 1]
    friction = impacts.mass * impacts.tangent_row[:, 2] * change[:, 0]
    size = np.linalg.norm(spin) + np.finfo(float).tiny
    as_is = float(np.linalg.norm(spin - lever - friction) / size)
    mirrored = float(np.linalg.norm(spin - lever + friction) / size)
    if not as_is <= _CONSISTENT and mirrored <= _CONSISTENT:
        raise BadInput(
            f"{where}: the torque balance leaves {as_is:.2f} of the change of spin unexplained, and "
            f"{mirrored:.2f} with vx negated: x is mirrored. Usually the file was mirrored already (the "
            "loader mirrors once), or the published record was used without mirroring."
        )
    if not as_is <= _CONSISTENT:  # NaN too
        raise BadInput(
            f"{where}: the torque balance leaves {as_is:.2f} of the change of spin unexplained (allowed "
            f"{_CONSISTENT}), mirrored or not. Usually the contact rows belong to other impacts, or mass and "
            "inertia to another body."
        )
    return as_is


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    found = read_npz(path, absent=_ABSENT)
    missing = sorted(set(_FIELDS) - set(found))
    if missing:
        raise BadInput(f"{path} lacks {', '.join(missing)}; it has: {', '.join(sorted(found)) or 'nothing'}")
    arrays = {name: found[name] for name in _FIELDS}
    rows = len(arrays["pre"]) if arrays["pre"].ndim else 0
    for name, columns in _FIELDS.items():
        expected = (rows, columns) if columns else (rows,)
        if arrays[name].shape != expected:
            raise BadInput(f"{path}: {name} has shape {arrays[name].shape}, expected {expected}")
        if arrays[name].dtype.kind not in "fiub":
            raise BadInput(f"{path}: {name} is not numeric, but {arrays[name].dtype}")
    return arrays


# --- the ellipse --------------------------------------------------------------------------------------------


def ellipse_inertia(semi_axes: tuple[float, float], mass: float) -> float:
    """Inertia of a solid ellipsoid about the axis out of the plane [kg m^2]."""
    a, b = semi_axes
    return mass * (a * a + b * b) / 5.0


def ellipse_contact(
    angle: Float[np.ndarray, " impact"], semi_axes: tuple[float, float] | Float[np.ndarray, "impact 2"]
) -> tuple[Float[np.ndarray, "impact 3"], Float[np.ndarray, "impact 3"]]:
    """Contact rows [0 1 r_x] and [1 0 h] of an ellipse that touches the ground at its lowest point."""
    a, b = np.moveaxis(np.asarray(semi_axes, dtype=np.float64), -1, 0)
    sin, cos = np.sin(angle), np.cos(angle)
    h = np.sqrt((a * sin) ** 2 + (b * cos) ** 2)
    r_x = -(a * a - b * b) * sin * cos / h
    zero, one = np.zeros_like(h), np.ones_like(h)
    return np.stack([zero, one, r_x], axis=-1), np.stack([one, zero, h], axis=-1)


def kinetic_energy(
    velocity: Float[np.ndarray, "impact 3"],
    mass: float | Float[np.ndarray, " impact"],
    inertia: float | Float[np.ndarray, " impact"],
) -> Float[np.ndarray, " impact"]:
    """Kinetic energy of a planar body [J]."""
    return 0.5 * (mass * (velocity[:, 0] ** 2 + velocity[:, 1] ** 2) + inertia * velocity[:, 2] ** 2)
