"""Planar impacts from a motion-capture recording: a CSV of one rigid body's pose, and a YAML that says what is in it.

    pose(t) -> clearance of the lowest point -> contacts (of one or several frames) -> free flight fitted on both sides
            -> velocity at the touch, velocity when it leaves, contact point at the touch

World frame as in `impacts.py`: x along the surface, height up, angle counter-clockwise.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from dexprior.config import Ge, Gt, config, validate
from dexprior.data.impacts import PlanarImpacts, check_torque_balance
from dexprior.errors import BadInput, UnknownName
from dexprior.reading import Table, read_csv, read_yaml

__all__ = ["Body", "Columns", "MotionLayout", "Segmentation", "import_impacts", "read_layout"]

_LENGTHS = {"m": 1.0, "cm": 0.01, "mm": 0.001}
_ANGLES = {"rad": 1.0, "deg": np.pi / 180.0}
_LARGEST = 1e12  # of any number in a recording: nanoseconds of a clock, or millimetres
_UNEVEN = 0.2  # share of the median time step by which a step may differ
_IN_PLANE = 0.95  # cosine of half the angle by which a planar body may lean out of the plane
_WRONG_GRAVITY = 0.25  # share of g by which the free fall may differ


@config
class Columns:
    """Names in the CSV's header."""

    x: str = "x"
    """Position along the surface."""
    height: str = "height"
    """Position away from the surface."""
    angle: str | None = "angle"
    """Orientation in the plane, counter-clockwise; or give a quaternion."""
    quaternion: tuple[str, str, str, str] | None = None
    """Scalar first, body to world, whose world has x along the surface and z up; used where angle is null."""
    time: str | None = None
    """Time in seconds; where it is null, the rate counts."""
    trial: str | None = None
    """Tells the trials of one file apart; null: one trial."""


@config
class Body:
    """The rigid body, uniform, about the recorded point, which is its mass centre."""

    shape: Literal["ellipse", "polygon"] = "ellipse"
    """Outline in the plane."""
    semi_axes: tuple[float, float] | None = None
    """Semi-axes of an ellipse [m], along its own x and y at angle zero."""
    vertices: tuple[tuple[float, float], ...] | None = None
    """Corners of a convex polygon about the mass centre [m]."""
    mass: Annotated[float, Gt(0)] = 1.0
    """[kg]"""
    inertia: Annotated[float, Gt(0)] | None = None
    """About the mass centre [kg m^2]."""


@config
class Segmentation:
    """What counts as one impact."""

    touch: Annotated[float, Gt(0)] = 1e-3
    """Clearance below which the body touches [m]: about the noise of the recording."""
    longest: Annotated[float, Gt(0)] = 0.05
    """A contact that lasts longer is a push or a rest [s]."""
    window: Annotated[int, Ge(3)] = 12
    """Frames of free flight that are fitted on each side, at most."""
    least: Annotated[int, Ge(3)] = 4
    """Frames of free flight below which a side cannot be fitted."""
    second_point: Annotated[float, Ge(0)] = 2e-3
    """A second corner that is this close to the surface at the touch makes the impact one of two points [m]."""
    residual: Annotated[float, Gt(0)] = 3e-3
    """Largest distance of a frame from the fitted flight [m]: more is a contact that nobody saw, or a lost marker."""


@config
class MotionLayout:
    """The YAML beside the recording."""

    columns: Columns = Columns()
    """Names in the header."""
    length: Literal["m", "cm", "mm"] = "m"
    """Unit of positions."""
    angle: Literal["rad", "deg"] = "rad"
    """Unit of the angle column."""
    rate: Annotated[float, Gt(0)] | None = None
    """Frames per second, where there is no time column."""
    ground: float = 0.0
    """Height of the surface, in the unit of positions."""
    gravity: Annotated[float, Gt(0)] = 9.81
    """Along the height, downwards [m/s^2]; in a tilted plane, its component."""
    body: Body = Body()
    """What was recorded."""
    segmentation: Segmentation = Segmentation()
    """What counts as one impact."""


@dataclass(frozen=True)
class _Trial:
    name: str
    time: np.ndarray
    pose: np.ndarray  # (frame, 3): x, height above the ground, angle


@dataclass(frozen=True)
class _Flight:
    """x and angle linear, height a parabola of known curvature, about time `origin`."""

    origin: float
    at: np.ndarray
    velocity: np.ndarray
    gravity: float

    def pose(self, t: float) -> np.ndarray:
        dt = t - self.origin
        return self.at + self.velocity * dt - np.array([0.0, 0.5 * self.gravity * dt * dt, 0.0])

    def velocity_at(self, t: float) -> np.ndarray:
        return self.velocity - np.array([0.0, self.gravity * (t - self.origin), 0.0])


def read_layout(path: str | Path) -> MotionLayout:
    """Read and check the YAML beside a recording.

    Raises:
        BadInput: missing, or not YAML.
        ConfigError: an unknown key, a wrong type, or a value out of range.
    """
    path = Path(path)
    plain = read_yaml(path, absent="docs/tutorials/your-own-collisions.md shows a layout")
    if not isinstance(plain, dict):
        raise BadInput(f"{path} holds {type(plain).__name__}, expected keys and values")
    layout = validate(MotionLayout, plain, where=str(path))
    body = layout.body
    outline = {"ellipse": body.semi_axes, "polygon": body.vertices}[body.shape]
    if outline is None or body.inertia is None:
        wanted = "semi_axes" if body.shape == "ellipse" else "vertices"
        raise BadInput(f"{path}: body.{wanted} and body.inertia are needed for a body of shape {body.shape!r}")
    if layout.columns.time is None and layout.rate is None:
        raise BadInput(f"{path}: give columns.time or rate, so that velocities have a unit")
    if layout.columns.angle is None and layout.columns.quaternion is None:
        raise BadInput(f"{path}: give columns.angle or columns.quaternion")
    return layout


def import_impacts(recording: str | Path, layout: MotionLayout) -> tuple[PlanarImpacts, dict[str, int]]:
    """Single impacts of a recording, and how many contacts were left out for which reason.

    Velocities come from least-squares fits of free flight to the frames before the touch and after the body left, so
    that an impact may last several frames; the one before is taken at the touch, the one after when the body leaves.

    Raises:
        BadInput: an unreadable file, an absent column, NaN, an uneven clock, a height that does not fall at g, no
            usable impact, or a torque balance that fails.
    """
    path = Path(recording)
    trials = _read(path, layout)
    _check_fall(path, trials, layout)
    reasons: Counter[str] = Counter()
    rows: list[tuple[Any, ...]] = []
    for trial in trials:
        rows += _impacts_of(trial, layout, reasons)
    if not rows:
        left_out = ", ".join(f"{k}: {n}" for k, n in reasons.items()) or "nothing touched the ground"
        raise BadInput(f"{path}: no usable impact in {len(trials)} trial(s) ({left_out})")
    pre, post, lever, angle, place = (np.stack(column) for column in zip(*rows))
    zero, one = np.zeros(len(rows)), np.ones(len(rows))
    body = layout.body
    assert body.inertia is not None
    impacts = PlanarImpacts(
        pre=pre,
        post=post,
        normal_row=np.stack([zero, one, lever[:, 0]], axis=1),
        tangent_row=np.stack([one, zero, -lever[:, 1]], axis=1),
        angle=angle,
        place=place,
        source_row=np.arange(len(rows)),
        mass=body.mass,
        inertia=body.inertia,
        semi_axes=body.semi_axes,
        source="measured",
    )
    check_torque_balance(impacts, where=str(path))
    return impacts, {"impacts": len(rows), **reasons}


# --- reading ---


def _read(path: Path, layout: MotionLayout) -> list[_Trial]:
    table = read_csv(path)
    if not table.rows:
        raise BadInput(f"{path} holds no rows below its header")
    names, header = layout.columns, table.columns
    angles = names.quaternion if names.angle is None else (names.angle,)
    assert angles is not None
    numbers = {
        name: _column(table, name) for name in (names.x, names.height, *angles, *([names.time] if names.time else []))
    }
    if names.trial is not None and names.trial not in header:
        raise UnknownName(f"column of {path}", names.trial, header)
    labels = table.column(names.trial) if names.trial else ["1"] * len(table.rows)
    scale = _LENGTHS[layout.length]
    position = np.stack([numbers[names.x], numbers[names.height] - layout.ground], axis=1) * scale
    if names.angle is not None:
        angle = numbers[names.angle] * _ANGLES[layout.angle]
    else:
        angle = _planar_angle(path, np.stack([numbers[name] for name in angles], axis=1))
    trials = []
    for name in dict.fromkeys(labels):
        rows = np.array([label == name for label in labels])
        count = int(rows.sum())
        time = numbers[names.time][rows] if names.time else np.arange(count) / layout.rate  # type: ignore[operator]
        _check_clock(path, name, time)
        pose = np.column_stack([position[rows], np.unwrap(angle[rows])])
        trials.append(_Trial(name, time, pose))
    return trials


def _column(table: Table, name: str) -> np.ndarray:
    if name not in table.columns:
        raise UnknownName(f"column of {table.where}", name, table.columns)
    values = table.numbers(name)
    if (bad := ~(np.abs(values) <= _LARGEST)).any():
        k = int(bad.argmax())
        cell = table.column(name)[k]
        raise BadInput(f"{table.where}, line {table.lines[k]}: {name} is {cell!r}; cut lost frames out, or fill them")
    return values


def _planar_angle(path: Path, quaternion: Float[np.ndarray, "frame 4"]) -> Float[np.ndarray, " frame"]:
    norm = np.linalg.norm(quaternion, axis=1)
    if np.abs(norm - 1.0).max() > 0.05:
        raise BadInput(f"{path}: the quaternion columns have norms from {norm.min():.2f} to {norm.max():.2f}, not 1")
    w, _, y, _ = (quaternion / norm[:, None]).T
    if np.hypot(w, y).min() < _IN_PLANE:
        raise BadInput(
            f"{path}: the body turns out of the plane by up to {np.degrees(2 * np.arccos(np.hypot(w, y).min())):.0f} "
            "degrees; is the quaternion scalar first (w, x, y, z), with x along the surface and z up?"
        )
    return -2.0 * np.arctan2(y, w)  # about the world's y axis, which points into the plane of x and height


def _check_clock(path: Path, name: str, time: np.ndarray) -> None:
    if len(time) < 3:
        raise BadInput(f"{path}, trial {name}: {len(time)} frame(s) are too few")
    steps = np.diff(time)
    middle = np.median(steps)
    if middle <= 0 or np.abs(steps - middle).max() > max(_UNEVEN * middle, 1e-9):
        worst = int(np.abs(steps - middle).argmax())
        raise BadInput(
            f"{path}, trial {name}: the clock is uneven: frame {worst + 1} comes {steps[worst]:.4g} s after the one "
            f"before it, the median is {middle:.4g} s. Usually frames were lost, or two trials share a name."
        )


def _check_fall(path: Path, trials: list[_Trial], layout: MotionLayout) -> None:
    """The height must fall at g in free flight: the units, the axis and the rate are checked by it."""
    found = []
    for trial in trials:
        gap = _clearance(trial.pose, layout.body)
        for run in _runs(gap > layout.segmentation.touch):
            if len(run) >= 2 * layout.segmentation.least:
                t = trial.time[run] - trial.time[run[0]]
                found.append(-2.0 * np.polyfit(t, trial.pose[run, 1], 2)[0])
    if not found:
        raise BadInput(
            f"{path}: the body never flies for {2 * layout.segmentation.least} frames; is `ground` right, and are the "
            f"positions in {layout.length}?"
        )
    g = float(np.median(found))
    if abs(g - layout.gravity) > _WRONG_GRAVITY * layout.gravity:
        raise BadInput(
            f"{path}: in free flight the height falls at {g:.3g} m/s^2, expected {layout.gravity:.3g}. Usually the "
            f"unit of length ({layout.length}), the rate or the height column is wrong, or the height points down."
        )


# --- segmentation ---


def _impacts_of(trial: _Trial, layout: MotionLayout, reasons: Counter[str]) -> list[tuple[Any, ...]]:
    settings, body = layout.segmentation, layout.body
    touching = _clearance(trial.pose, body) <= settings.touch
    flights = [run for run in _runs(~touching) if len(run) >= 2]  # a single frame off the ground is still the impact
    found = []
    for before, after in itertools.pairwise(flights):
        first, last = before[-1] + 1, after[0] - 1
        if trial.time[last] - trial.time[first] > settings.longest:
            reasons["too long"] += 1
            continue
        if min(len(before), len(after)) < settings.least:
            reasons["too little flight"] += 1
            continue
        incoming = _fit_flight(trial, before[-settings.window :], layout.gravity)
        outgoing = _fit_flight(trial, after[: settings.window], layout.gravity)
        if max(incoming[1], outgoing[1]) > settings.residual:
            reasons["no free flight"] += 1
            continue
        touch = _meeting(incoming[0], body, trial.time[before[-1]] - 1e-3, trial.time[first])
        leave = _meeting(outgoing[0], body, trial.time[after[0]] + 1e-3, trial.time[last])
        if touch is None or leave is None:
            reasons["fits do not meet the ground"] += 1
            continue
        pose = incoming[0].pose(touch)
        if _second_point(pose, body) < settings.second_point:
            reasons["two corners at once"] += 1
            continue
        lever = _lowest_point(pose[2], body)
        pre, post = incoming[0].velocity_at(touch), outgoing[0].velocity_at(leave)
        found.append((pre, post, lever, pose[2], pose[0]))
    return found


def _fit_flight(trial: _Trial, rows: np.ndarray, gravity: float) -> tuple[_Flight, float]:
    """Least squares, and the largest distance of a frame from it [m]."""
    origin = float(trial.time[rows].mean())
    t = trial.time[rows] - origin
    pose = trial.pose[rows].copy()
    pose[:, 1] += 0.5 * gravity * t * t
    design = np.stack([np.ones_like(t), t], axis=1)
    (at, velocity), *_ = np.linalg.lstsq(design, pose, rcond=None)
    missed = pose - design @ np.stack([at, velocity])
    return _Flight(origin, at, velocity, gravity), float(np.linalg.norm(missed[:, :2], axis=1).max())


def _meeting(flight: _Flight, body: Body, free: float, touching: float) -> float | None:
    """When a fitted flight meets the ground, between a free and a touching frame; None where it does not.

    The touching frame itself may lie above the ground by the noise: the search goes on for two frames.
    """

    def gap(t: float) -> float:
        return float(_clearance(flight.pose(t)[None], body)[0])

    beyond = touching + 2.0 * (touching - free)
    if gap(free) <= 0.0 or gap(beyond) >= 0.0:
        return None
    return float(brentq(gap, min(free, beyond), max(free, beyond)))


def _runs(mask: np.ndarray) -> list[np.ndarray]:
    """Indices of each stretch of true values."""
    ids = np.flatnonzero(mask)
    return np.split(ids, np.flatnonzero(np.diff(ids) > 1) + 1) if len(ids) else []


# --- outlines ---


def _clearance(pose: Float[np.ndarray, "frame 3"], body: Body) -> Float[np.ndarray, " frame"]:
    """Height of the lowest point above the ground [m]."""
    return pose[:, 1] + _lowest_points(pose[:, 2], body)[:, 1]


def _lowest_point(angle: float, body: Body) -> Float[np.ndarray, " 2"]:
    return _lowest_points(np.array([angle]), body)[0]


def _lowest_points(angle: Float[np.ndarray, " frame"], body: Body) -> Float[np.ndarray, "frame 2"]:
    """Lowest point about the mass centre, in the world's axes [m]."""
    if body.semi_axes is not None and body.shape == "ellipse":
        a, b = body.semi_axes
        sin, cos = np.sin(angle), np.cos(angle)
        h = np.sqrt((a * sin) ** 2 + (b * cos) ** 2)
        return np.stack([-(a * a - b * b) * sin * cos / h, -h], axis=1)
    corners = _corners(angle, body)
    lowest = corners[..., 1].argmin(axis=1)
    return corners[np.arange(len(corners)), lowest]


def _second_point(pose: Float[np.ndarray, " 3"], body: Body) -> float:
    """Clearance of the second-lowest corner; infinite for a smooth outline."""
    if body.shape == "ellipse":
        return np.inf
    heights = np.sort(_corners(pose[2:], body)[0, :, 1])
    return float(pose[1] + heights[1])


def _corners(angle: Float[np.ndarray, " frame"], body: Body) -> Float[np.ndarray, "frame corner 2"]:
    assert body.vertices is not None
    corners = np.array(body.vertices)
    sin, cos = np.sin(angle)[:, None], np.cos(angle)[:, None]
    return np.stack([cos * corners[:, 0] - sin * corners[:, 1], sin * corners[:, 0] + cos * corners[:, 1]], axis=-1)
