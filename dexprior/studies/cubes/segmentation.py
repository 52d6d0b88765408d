"""Single impacts, cut from trajectories: flight before, touch, flight after.

An impact of the recorded cube lasts several frames, so that the frames beside it say little about the velocities before
and after. Both are taken from fits of free flight over many frames, and carried along the fitted flight to the moment
of the first touch: the impact is described as if its whole impulse acted then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from dexprior.config import Ge, Gt, config
from dexprior.data.tosses import CUBE_MASS, CubeScale, CubeTosses, corner_positions, fly, lowest_corner
from dexprior.errors import BadInput
from dexprior.geometry.rotations import axis_angle_from_quat, matrix_from_quat, quat_conjugate, quat_multiply
from dexprior.types.check import Checker
from dexprior.types.collision import ContactGeometry

__all__ = ["CornerImpacts", "SegmentationConfig", "first_impacts", "fit_flight", "flight_starts"]

_SWEEPS = 6  # of the fixed-point fit of a spin; each shrinks the error by about the angle turned, halved


@config
class SegmentationConfig:
    """When a corner counts as touching, and which impacts count as single."""

    contact_height: Annotated[float, Gt(0.0)] = 0.0005
    """A lowest corner below this height is in contact [m]; about twice the noise of a corner's height."""
    clear_frames: Annotated[int, Ge(1)] = 3
    """The flight after is fitted from this many frames after the last one in contact."""
    before_frames: Annotated[int, Ge(3)] = 14
    """The flight before is fitted to at most this many frames."""
    after_frames: Annotated[int, Ge(3)] = 12
    """The flight after is fitted to at most this many frames..."""
    least_frames: Annotated[int, Ge(3)] = 3
    """... and at least this many; both flights."""
    second_corner: Annotated[float, Gt(0.0)] = 0.010
    """A second corner this near the table at the touch makes the impact more than a single corner's [m]."""
    longest: Annotated[int, Ge(1)] = 8
    """Contacts of more frames are no impacts, but sliding or rolling."""


@dataclass(frozen=True, kw_only=True)
class CornerImpacts:
    """First impacts of single corners: states before and after, both at the moment of the first touch.

    Velocities are [vx vy vz] in the world and [wx wy wz] in the body frame, as in the states.
    """

    schema: ClassVar[str] = "dexprior.corner_impacts/1"

    pose: Float[np.ndarray, "impact 7"]
    """[x y z qw qx qy qz] at the first touch."""
    pre: Float[np.ndarray, "impact 6"]
    """Velocity before."""
    post: Float[np.ndarray, "impact 6"]
    """Velocity after, carried back along the flight after it to the first touch."""
    arm: Float[np.ndarray, "impact 3"]
    """Arm from the centre to the touching corner, world frame [m]."""
    second: Float[np.ndarray, " impact"]
    """Height of the second lowest corner at the touch [m]."""
    touch: Float[np.ndarray, " impact"]
    """Seconds after frame 0."""
    duration: Int[np.ndarray, " impact"]
    """Frames in contact."""
    toss: Int[np.ndarray, " impact"]
    """Row in the tosses that the impacts come from."""
    scale: CubeScale
    """Scale of those tosses."""
    excluded: Mapping[int, str]
    """Row of each toss without a usable first impact, and why."""

    def __post_init__(self) -> None:
        check = Checker(self)
        check.poses("pose", "impact")
        for name, width in (("pre", 6), ("post", 6), ("arm", 3)):
            check.array(name, "impact", width)
        check.array("second", "impact")
        check.array("touch", "impact")
        check.array("duration", "impact", dtype=np.int64)
        check.array("toss", "impact", dtype=np.int64)
        object.__setattr__(self, "excluded", MappingProxyType(dict(self.excluded)))

    def __len__(self) -> int:
        return len(self.pre)

    @property
    def states(self) -> Float[np.ndarray, "impact 13"]:
        """States just before, at the first touch."""
        return np.hstack([self.pose, self.pre])

    @property
    def velocity_scale(self) -> Float[np.ndarray, " 6"]:
        """[1 1 1 k k k], k the radius of gyration [m]: with them a velocity's norm is that of its kinetic energy."""
        return np.array([1.0] * 3 + [np.sqrt(self.scale.inertia / CUBE_MASS)] * 3)

    @property
    def geometry(self) -> ContactGeometry:
        """Rows: normal (up), tangent along the sliding before, second tangent, 90 degrees to its left from above.

        The contact velocity is u = v + R (omega x r_body): u_n > 0 separates, and u_t > 0 or u_t = 0, u_s = 0 before.
        A corner that does not slide takes the world's x as its tangent.
        """
        R = matrix_from_quat(self.pose[:, 3:])
        arm_body = np.einsum("bji,bj->bi", R, self.arm)
        point = np.concatenate([np.broadcast_to(np.eye(3), (len(self), 3, 3)), -R @ _skew(arm_body)], axis=2)
        sliding = np.einsum("bij,bj->bi", point, self.pre)[:, :2]
        speed = np.linalg.norm(sliding, axis=1, keepdims=True)
        along = np.where(speed > 1e-9, sliding / np.maximum(speed, 1e-9), [1.0, 0.0])
        zero, one = np.zeros(len(self)), np.ones(len(self))
        axes = np.stack(
            [
                np.stack([zero, zero, one], axis=1),
                np.stack([along[:, 0], along[:, 1], zero], axis=1),
                np.stack([-along[:, 1], along[:, 0], zero], axis=1),
            ],
            axis=1,
        )
        inverse = np.diag([1.0 / CUBE_MASS] * 3 + [1.0 / self.scale.inertia] * 3)
        return ContactGeometry(jacobian=axes @ point, inverse_inertia=np.broadcast_to(inverse, (len(self), 6, 6)))

    def take(self, rows: Int[np.ndarray, " chosen"]) -> CornerImpacts:
        """The chosen impacts, in the given order; the tosses left out stay listed."""
        fields = ("pose", "pre", "post", "arm", "second", "touch", "duration", "toss")
        return replace(self, **{name: getattr(self, name)[rows] for name in fields})


def fit_flight(
    states: Float[np.ndarray, "flight frame 13"],
    seconds: Float[np.ndarray, "flight frame"],
    used: Bool[np.ndarray, "flight frame"],
    gravity: float,
) -> Float[np.ndarray, "flight 13"]:
    """State at second 0 of the free flight that fits measured poses best; measured velocities are not used.

    Position: linear least squares with known gravity. Orientation: q(t) = q0 exp(omega t), as the inertia is isotropic,
    by repeated linear least squares of the remaining rotation.

    Raises:
        BadInput: a flight has fewer than two frames in use.
    """
    if len(used) and used.sum(axis=1).min() < 2:
        raise BadInput("fit_flight: a flight needs at least two frames")
    n = len(states)
    weight = used.astype(float)
    count = weight.sum(axis=1)
    centre = (weight * seconds).sum(axis=1) / count
    t = np.where(used, seconds - centre[:, None], 0.0)
    spread = (weight * t**2).sum(axis=1)

    def line(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean = np.einsum("nk,nkc->nc", weight, values) / count[:, None]
        return mean, np.einsum("nk,nkc->nc", weight * t, values) / spread[:, None]

    fall = np.array([0.0, 0.0, -gravity])
    mean, vel = line(states[..., :3] - 0.5 * fall * t[..., None] ** 2)
    nearest = np.where(used, np.abs(t), np.inf).argmin(axis=1)
    state = np.zeros((n, 13))
    state[:, :3], state[:, 7:10] = mean, vel
    state[:, 3:7] = states[np.arange(n), nearest, 3:7]
    state[:, 10:] = states[np.arange(n), nearest, 10:]
    for _ in range(_SWEEPS):
        expected = fly(state[:, None], t, gravity)[..., 3:7]
        rest = axis_angle_from_quat(quat_multiply(quat_conjugate(expected), states[..., 3:7]))
        offset, rate = line(rest)
        state[:, 10:] += rate
        turn = np.concatenate([np.zeros((n, 10)), offset], axis=1)
        turn[:, 3:7] = state[:, 3:7]
        state[:, 3:7] = fly(turn, np.ones(n), 0.0)[:, 3:7]
    return fly(state, -centre, gravity)


def flight_starts(tosses: CubeTosses, scale: CubeScale, settings: SegmentationConfig) -> Float[np.ndarray, "toss 13"]:
    """State at frame 0 from a fit to the whole flight before the first touch: less noisy than measured frame 0.

    A toss with fewer than `least_frames` before its first touch keeps its measured frame 0.
    """
    padded = tosses.padded()
    frame = np.arange(padded.shape[1])
    low = lowest_corner(padded, scale) < settings.contact_height
    first = np.where(low.any(axis=1), low.argmax(axis=1), tosses.lengths)
    enough = first >= settings.least_frames
    used = (frame < first[:, None]) | ~enough[:, None]
    fitted = fit_flight(padded, np.broadcast_to(frame * tosses.dt, used.shape), used, scale.gravity)
    return np.where(enough[:, None], fitted, tosses.initial_states)


def first_impacts(tosses: CubeTosses, scale: CubeScale, settings: SegmentationConfig | None = None) -> CornerImpacts:
    """The first impact of each toss that is a single corner's and has a clean flight before and after.

    Tosses without one are listed in `excluded`, each with its reason.

    Raises:
        BadInput: no toss has a usable first impact.
    """
    settings = settings or SegmentationConfig()
    padded, dt = tosses.padded(), tosses.dt
    frame = np.arange(padded.shape[1])
    inside = frame < tosses.lengths[:, None]
    low = (lowest_corner(padded, scale) < settings.contact_height) & inside
    first = np.where(low.any(axis=1), low.argmax(axis=1), tosses.lengths)
    later = frame >= first[:, None]
    up = later & ~low & inside
    leave = np.where(up.any(axis=1), up.argmax(axis=1), tosses.lengths)  # first frame out of contact again
    again = (frame >= leave[:, None]) & low
    next_touch = np.where(again.any(axis=1), again.argmax(axis=1), tosses.lengths)
    begin = leave - 1 + settings.clear_frames
    end = np.minimum(next_touch, begin + settings.after_frames)
    start = np.maximum(first - settings.before_frames, 0)

    reasons = {
        "touches from the start": first < settings.least_frames,
        "never touches": first >= tosses.lengths,
        f"stays in contact for more than {settings.longest} frames": leave - first > settings.longest,
        f"flies for fewer than {settings.least_frames} frames between {settings.clear_frames} frames after the contact "
        "and the next one": end - begin < settings.least_frames,
    }
    excluded: dict[int, str] = {}
    for reason, rows in reasons.items():
        excluded |= {int(k): reason for k in np.flatnonzero(rows) if int(k) not in excluded}
    rows = np.setdiff1d(np.arange(len(tosses)), list(excluded))

    def flight(begin: np.ndarray, end: np.ndarray, at: np.ndarray) -> np.ndarray:
        used = (frame >= begin[rows, None]) & (frame < end[rows, None])
        return fit_flight(padded[rows], frame * dt - at[:, None], used, scale.gravity)

    guess = first[rows] * dt
    before = flight(start, first, guess)
    offset = _touch_time(before, scale, settings.before_frames * dt)
    before, touch = fly(before, offset, scale.gravity), guess + offset
    after = flight(begin, end, touch)

    corners = corner_positions(before, scale.half_width)
    order = np.argsort(corners[..., 2], axis=1)
    each = np.arange(len(rows))
    second = corners[each, order[:, 1], 2] - scale.table_height
    near = second < settings.second_corner
    reason = f"second corner within {settings.second_corner * 1e3:g} mm"
    excluded |= {int(k): reason for k in rows[near]}
    kept = each[~near]
    if not len(kept):
        raise BadInput(
            f"first_impacts: none of {len(tosses)} tosses has a usable first impact: {sorted(set(excluded.values()))}"
        )
    return CornerImpacts(
        pose=before[kept, :7],
        pre=before[kept, 7:],
        post=after[kept, 7:],
        arm=corners[kept, order[kept, 0]] - before[kept, :3],
        second=second[kept],
        touch=touch[kept],
        duration=(leave - first)[rows[kept]],
        toss=rows[kept],
        scale=scale,
        excluded=dict(sorted(excluded.items())),
    )


def _touch_time(states: np.ndarray, scale: CubeScale, reach: float) -> np.ndarray:
    """Seconds until the lowest corner is at the table (negative: before), by bisection within +- reach."""
    early, late = np.full(len(states), -reach), np.full(len(states), reach)
    for _ in range(40):
        middle = 0.5 * (early + late)
        above = lowest_corner(fly(states, middle, scale.gravity), scale) > 0
        early, late = np.where(above, middle, early), np.where(above, late, middle)
    return 0.5 * (early + late)


def _skew(v: np.ndarray) -> np.ndarray:
    """Matrices with _skew(v) @ w = v x w."""
    x, y, z = np.moveaxis(v, -1, 0)
    zero = np.zeros_like(x)
    return np.stack([np.stack([zero, -z, y], -1), np.stack([z, zero, -x], -1), np.stack([-y, x, zero], -1)], axis=-2)
