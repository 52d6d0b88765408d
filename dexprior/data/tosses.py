"""Whole tosses of a cube onto a table: measured ones, and a simulated stand-in.

World frame: z up, the table near z = 0. A state is 13 numbers, in MuJoCo's order for a free body:

    [x y z  qw qx qy qz  vx vy vz  wx wy wz]      m, unit quaternion body -> world, m/s in the world, rad/s in the body

Measured: the cube of ContactNets (Pfrommer, Halm and Posa 2020), published in DAIRLab/dair_pll; see
`datasets/cube_tosses.md`. Lengths in the record are about 2 % short, so that neither the half width nor gravity has its
nominal value: `fit_scale` learns both, and the height of the table, from the tosses that it is given.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from dexprior.errors import BadInput
from dexprior.geometry.rotations import (
    axis_angle_from_quat,
    matrix_from_quat,
    quat_conjugate,
    quat_from_axis_angle,
    quat_multiply,
    quat_rotate,
)
from dexprior.reading import as_described, read_npz
from dexprior.types.check import Checker

__all__ = [
    "CUBE_DT",
    "CUBE_HALF_WIDTH",
    "CUBE_INERTIA",
    "CUBE_MASS",
    "CUBE_PARAMETERS",
    "CubeScale",
    "CubeTosses",
    "check_consistency",
    "corner_positions",
    "cube_corners",
    "find_cube_tosses",
    "fit_scale",
    "fly",
    "generate_tosses",
    "load_cube_tosses",
    "lowest_corner",
    "simulate_tosses",
    "split_groups",
    "undo_velocity_lag",
]

CUBE_DT = 1.0 / 148.0  # [s] between two frames
CUBE_HALF_WIDTH = 0.0524  # [m] of the real cube; the record's own lengths differ, see `fit_scale`
CUBE_MASS = 0.37  # [kg]
CUBE_INERTIA = 0.00081  # [kg m^2] about any axis

CUBE_PARAMETERS = (
    "friction",
    "damping_ratio",
    "time_constant",
    "impratio",
    "torsional",
    "rolling",
    "impedance_start",
    "impedance_end",
    "impedance_width",
)
"""Columns of MuJoCo's contact parameters: Coulomb coefficient; damping ratio and time constant [s] of `solref`;
`impratio`; torsional and rolling friction [m]; the first three of `solimp` (dimensionless twice, then [m])."""

_GRAVITY = 9.81  # [m/s^2] where lengths are right
_FIELDS = {"pos": 3, "quat": 4, "vel": 3, "omega": 3}
_MOST = {"pos": 100.0, "quat": 2.0, "vel": 100.0, "omega": 1e4}  # [m], [], [m/s], [rad/s] of what is tossed by hand
_CONSISTENT = 0.15  # relative residual of finite differences; 0.02 for the record, above 0.5 for any mix-up of frames
_CLEAR = 0.004  # [m] a corner this far above the table cannot touch it, whatever the scale
_REST_SPEED = 0.03  # [m/s] corners slower than this in the last frames: the toss ended at rest
_REST_FRAMES = 5
_SETTLED = (1e-3, 0.02)  # [m/s], [rad/s] a simulated cube this slow for `_REST_FRAMES` frames is not stepped further


@dataclass(frozen=True, kw_only=True)
class CubeScale:
    """What the record's lengths are like, learned from some of its tosses."""

    half_width: float
    """Half the cube's width, in the record's lengths [m]."""
    gravity: float
    """Gravity in the record's lengths [m/s^2]."""
    table_height: float
    """z of the table's surface [m]."""

    def __post_init__(self) -> None:
        if not (self.half_width > 0 and self.gravity > 0 and np.isfinite(self.table_height)):
            raise BadInput(
                f"CubeScale: half width {self.half_width} m and gravity {self.gravity} m/s^2 must be positive, and the "
                f"table height {self.table_height} m finite"
            )

    @property
    def length(self) -> float:
        """Record's metres per real metre."""
        return self.half_width / CUBE_HALF_WIDTH

    @property
    def inertia(self) -> float:
        """Moment of inertia in the record's lengths, so that the radius of gyration is scaled too [kg m^2]."""
        return CUBE_INERTIA * self.length**2


@dataclass(frozen=True, kw_only=True)
class CubeTosses:
    """Trajectories of one cube, of different lengths, one after the other."""

    schema: ClassVar[str] = "dexprior.cube_tosses/1"

    start: Int[np.ndarray, " toss_and_end"]
    """First row of each toss, and the number of rows at the end."""
    pos: Float[np.ndarray, "row 3"]
    """Centre, world frame [m]."""
    quat: Float[np.ndarray, "row 4"]
    """Body -> world, scalar first."""
    vel: Float[np.ndarray, "row 3"]
    """World frame [m/s]."""
    omega: Float[np.ndarray, "row 3"]
    """Body frame [rad/s]."""
    duplicate_group: Int[np.ndarray, " toss"]
    """Tosses with the same number are the same recording."""
    source: str
    """`measured` or `generated`."""
    dt: float = CUBE_DT
    """Between two frames [s]."""

    def __post_init__(self) -> None:
        check = Checker(self)
        check.array("start", "toss_and_end", dtype=np.int64)
        for name, width in _FIELDS.items():
            check.array(name, "row", width, low=-_MOST[name], high=_MOST[name])
        check.array("duplicate_group", "toss", dtype=np.int64)
        check.one_of("source", ("measured", "generated"))
        start, rows = self.start, len(self.pos)
        if len(start) != len(self.duplicate_group) + 1:
            raise BadInput(
                f"CubeTosses: start has {len(start)} entries, but {len(self.duplicate_group)} tosses need one each and "
                "the number of rows"
            )
        if not len(start) or start[0] != 0 or start[-1] != rows or not (np.diff(start) > 0).all():
            raise BadInput(
                f"CubeTosses.start must increase strictly from 0 to the {rows} rows, but goes from {start[0]} to "
                f"{start[-1]}" + ("" if (np.diff(start) > 0).all() else " and not always upwards")
            )
        norm = np.linalg.norm(self.quat, axis=1)
        if rows and np.abs(norm - 1).max() > 1e-3:
            raise BadInput(f"CubeTosses.quat: a quaternion has norm {norm[np.abs(norm - 1).argmax()]:.4f}, expected 1")
        if not self.dt > 0:
            raise BadInput(f"CubeTosses: dt = {self.dt} s must be positive")

    def __len__(self) -> int:
        return len(self.duplicate_group)

    @property
    def lengths(self) -> Int[np.ndarray, " toss"]:
        """Frames of each toss."""
        return np.diff(self.start)

    @property
    def states(self) -> Float[np.ndarray, "row 13"]:
        """All rows as states."""
        return np.hstack([self.pos, self.quat, self.vel, self.omega])

    @property
    def initial_states(self) -> Float[np.ndarray, "toss 13"]:
        """Measured frame 0 of each toss."""
        return self.states[self.start[:-1]]

    def padded(self) -> Float[np.ndarray, "toss frame 13"]:
        """States of all tosses, the shorter ones continued with their last frame."""
        frame = np.minimum(np.arange(self.lengths.max()), self.lengths[:, None] - 1)
        return self.states[self.start[:-1, None] + frame]

    @property
    def frame_weights(self) -> Float[np.ndarray, "toss frame"]:
        """Weights of the frames of `padded`, to average over those after frame 0; zero where a toss is only
        continued."""
        last = self.lengths[:, None] - 1
        frame = np.arange(self.lengths.max())
        return ((frame >= 1) & (frame <= last)) / last

    def take(self, rows: Int[np.ndarray, " chosen"]) -> CubeTosses:
        """The chosen tosses, in the given order."""
        rows = np.asarray(rows, dtype=np.int64)
        kept = [np.arange(self.start[k], self.start[k + 1]) for k in rows]
        frames = np.concatenate(kept) if kept else np.zeros(0, dtype=np.int64)
        return replace(
            self,
            start=np.concatenate([[0], np.cumsum(self.lengths[rows])]),
            duplicate_group=self.duplicate_group[rows],
            **{name: getattr(self, name)[frames] for name in _FIELDS},
        )

    def sample(self, n: int, seed: int) -> CubeTosses:
        """`n` random tosses of different duplicate groups; the first n of one fixed order for each seed.

        Raises:
            BadInput: there are fewer groups than `n`, or `n` is below 1.
        """
        groups, first = np.unique(self.duplicate_group, return_index=True)
        if not 1 <= n <= len(groups):
            raise BadInput(f"sample: n = {n}, but it must lie between 1 and the {len(groups)} different recordings")
        return self.take(np.sort(first[np.random.default_rng([seed, 31]).permutation(len(groups))[:n]]))


# --- the measured record ------------------------------------------------------------------------------------


def find_cube_tosses() -> Path | None:
    """`$DEXPRIOR_DATA/impacts/cube_tosses.npz` where that file exists, else None."""
    root = os.environ.get("DEXPRIOR_DATA")
    path = Path(root) / "impacts" / "cube_tosses.npz" if root else None
    return path if path is not None and path.is_file() else None


def load_cube_tosses(path: str | Path) -> CubeTosses:
    """Read the measured cube tosses, and check their frames by finite differences.

    Raises:
        BadInput: missing, truncated, pickled or foreign file; missing keys, wrong shapes, NaN; offsets that do not
            increase; positions, orientations and velocities that contradict each other.
    """
    path = Path(path)
    raw = _read_arrays(path)
    with as_described("a file of cube tosses", path):
        tosses = CubeTosses(
            start=raw["start"],
            pos=raw["pos"],
            quat=raw["quat"],
            vel=raw["vel"],
            omega=raw["omega"],
            duplicate_group=raw["duplicate_group"],
            source="measured",
        )
    check_consistency(tosses, where=str(path))
    return tosses


def check_consistency(tosses: CubeTosses, *, where: str = "tosses") -> tuple[float, float]:
    """Median relative residuals of finite differences: (velocity against position, omega against orientation).

    Raises:
        BadInput: one is too large; the message names the mix-up of frames or orders that would explain it.
    """
    rows = np.delete(np.arange(len(tosses.pos)), tosses.start[1:] - 1)  # pairs (k, k + 1) within one toss
    quat, mean = tosses.quat, lambda x: 0.5 * (x[rows] + x[rows + 1])
    moved = (tosses.pos[rows + 1] - tosses.pos[rows]) / tosses.dt
    linear = _residual(moved, mean(tosses.vel))
    angular = _residual(_body_rate(quat, rows, tosses.dt), mean(tosses.omega))
    if not angular <= _CONSISTENT:  # NaN too
        scalar_last = np.roll(quat, 1, axis=1)
        inverse = quat_conjugate(quat)
        explanations = {
            "quat is scalar last; it must be scalar first": _residual(
                _body_rate(scalar_last, rows, tosses.dt), mean(tosses.omega)
            ),
            "omega is in the world frame; it must be in the body frame": _residual(
                _body_rate(quat, rows, tosses.dt), mean(quat_rotate(inverse, tosses.omega))
            ),
            "quat is world -> body; it must be body -> world": _residual(
                _body_rate(inverse, rows, tosses.dt), mean(tosses.omega)
            ),
            "quat is scalar last, and omega in the world frame": _residual(
                _body_rate(scalar_last, rows, tosses.dt),
                mean(quat_rotate(quat_conjugate(scalar_last), tosses.omega)),
            ),
        }
        _complain(where, "omega", "the change of quat", angular, explanations)
    if not linear <= _CONSISTENT:
        explanations = {
            "vel is in the body frame; it must be in the world frame": _residual(
                moved, mean(quat_rotate(quat, tosses.vel))
            ),
            "vel is per frame; it must be per second": _residual(moved, mean(tosses.vel) / tosses.dt),
        }
        _complain(where, "vel", "the change of pos", linear, explanations)
    return linear, angular


def split_groups(tosses: CubeTosses, held_out: float, seed: int) -> tuple[CubeTosses, CubeTosses]:
    """Tosses to learn from, and tosses to evaluate on: no recording is in both; the same for the same seed.

    Args:
        tosses: all of them.
        held_out: share of the duplicate groups to evaluate on, in (0, 1).
        seed: of the random choice.

    Raises:
        BadInput: `held_out` leaves one side empty.
    """
    groups = np.unique(tosses.duplicate_group)
    n = round(held_out * len(groups))
    if not 0 < n < len(groups):
        raise BadInput(f"split_groups: held_out = {held_out} of {len(groups)} groups leaves one side empty")
    chosen = np.random.default_rng([seed, 30]).permutation(groups)[:n]
    outside = np.isin(tosses.duplicate_group, chosen)
    return tosses.take(np.flatnonzero(~outside)), tosses.take(np.flatnonzero(outside))


def _body_rate(quat: np.ndarray, rows: np.ndarray, dt: float) -> np.ndarray:
    return axis_angle_from_quat(quat_multiply(quat_conjugate(quat[rows]), quat[rows + 1])) / dt


def _residual(found: np.ndarray, given: np.ndarray) -> float:
    """Median of ||found - given|| / ||found|| over the rows that move."""
    size = np.linalg.norm(found, axis=1)
    moving = size > 0.2 * np.sqrt((size**2).mean()) if len(size) else np.zeros(0, dtype=bool)
    if not moving.any():
        return 0.0
    return float(np.median(np.linalg.norm(found - given, axis=1)[moving] / size[moving]))


def _complain(where: str, name: str, other: str, residual: float, explanations: dict[str, float]) -> None:
    best = min(explanations, key=lambda k: explanations[k])
    reason = (
        f"Usually {best} (that would leave {explanations[best]:.2f})."
        if explanations[best] <= _CONSISTENT
        else f"No usual mix-up explains it ({name} in another frame, order or unit): wrong rate, rows or units."
    )
    raise BadInput(f"{where}: {name} and {other} disagree by {residual:.2f} (allowed {_CONSISTENT}). {reason}")


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    found = read_npz(path, absent="datasets/cube_tosses.md says how to get it.")
    wanted = ("start", *_FIELDS, "duplicate_group")
    missing = sorted(set(wanted) - set(found))
    if missing:
        raise BadInput(f"{path} lacks {', '.join(missing)}; it has: {', '.join(sorted(found)) or 'nothing'}")
    return {name: found[name] for name in wanted}


# --- geometry, flight and scale -----------------------------------------------------------------------------


def cube_corners(half_width: float) -> Float[np.ndarray, "8 3"]:
    """Corners in the body frame [m]."""
    return half_width * np.stack(np.meshgrid(*3 * [[-1.0, 1.0]], indexing="ij"), axis=-1).reshape(8, 3)


def corner_positions(states: Float[np.ndarray, "*batch 13"], half_width: float) -> Float[np.ndarray, "*batch 8 3"]:
    """Corners in the world frame [m]."""
    turned = np.einsum("...ij,cj->...ci", matrix_from_quat(states[..., 3:7]), cube_corners(half_width))
    return states[..., None, :3] + turned


def lowest_corner(states: Float[np.ndarray, "*batch 13"], scale: CubeScale) -> Float[np.ndarray, " *batch"]:
    """Height of the lowest corner above the table [m]: z - half width * sum |R_zi| - table height."""
    reach = np.abs(matrix_from_quat(states[..., 3:7])[..., 2, :]).sum(-1)
    return states[..., 2] - scale.half_width * reach - scale.table_height


def fly(
    states: Float[np.ndarray, "*batch 13"], seconds: Float[np.ndarray, " *batch"], gravity: float
) -> Float[np.ndarray, "*batch 13"]:
    """Free flight for some time (negative: back): a parabola, and a constant spin, as the inertia is isotropic."""
    t = np.asarray(seconds, dtype=np.float64)[..., None]
    fall = np.array([0.0, 0.0, -gravity])
    pos, quat, vel, omega = states[..., :3], states[..., 3:7], states[..., 7:10], states[..., 10:]
    moved = pos + vel * t + 0.5 * fall * t**2
    turned = quat_multiply(quat, quat_from_axis_angle(omega * t))
    shape = moved.shape[:-1]
    return np.concatenate([moved, turned, vel + fall * t, np.broadcast_to(omega, (*shape, 3))], axis=-1)


def undo_velocity_lag(
    states: Float[np.ndarray, "*batch 13"], scale: CubeScale, *, clearance: float = 5e-4, dt: float = CUBE_DT
) -> Float[np.ndarray, "*batch 13"]:
    """States with the velocity of their own frame: the recorded ones are backward differences, half a frame old.

    In the air the missing half frame of fall is g dt / 2 downwards. States with a corner below `clearance` [m] are left
    as they are, since their acceleration is not known.
    """
    fresh = np.array(states, dtype=np.float64)
    fresh[..., 9] -= 0.5 * scale.gravity * dt * (lowest_corner(fresh, scale) > clearance)
    return fresh


def fit_scale(tosses: CubeTosses) -> CubeScale:
    """Gravity, half width and table height in the record's own lengths, from these tosses alone.

    Free flight before the first touch falls with g' = s * 9.81 m/s^2, which gives the length scale s and the half
    width s * 0.0524 m; a cube at rest has its centre one half width above the table, which gives the table's height.

    Raises:
        BadInput: no toss flies long enough, or none ends at rest.
    """
    nominal = CubeScale(half_width=CUBE_HALF_WIDTH, gravity=_GRAVITY, table_height=0.0)
    height = lowest_corner(tosses.states, nominal)
    curvature, weight, rest = [], [], []
    for first, end in zip(tosses.start[:-1], tosses.start[1:]):
        low = height[first:end] < _CLEAR
        n = int(low.argmax()) if low.any() else end - first
        if n >= 8:
            t = np.arange(n) * tosses.dt
            curvature.append(-2.0 * np.polyfit(t, tosses.pos[first : first + n, 2], 2)[0])
            weight.append(float(n) ** 5)  # the variance of a fitted curvature falls with the fifth power
        tail = slice(max(first, end - _REST_FRAMES), end)
        speed = np.linalg.norm(tosses.vel[tail], axis=1) + CUBE_HALF_WIDTH * np.linalg.norm(tosses.omega[tail], axis=1)
        if speed.max() < _REST_SPEED:
            rest.append(tosses.pos[tail, 2].mean())
    if not curvature:
        raise BadInput("fit_scale: no toss flies for 8 frames before it touches; gravity cannot be learned")
    if not rest:
        raise BadInput("fit_scale: no toss ends at rest; the height of the table cannot be learned")
    gravity = float(np.average(curvature, weights=weight))
    half_width = CUBE_HALF_WIDTH * gravity / _GRAVITY
    return CubeScale(half_width=half_width, gravity=gravity, table_height=float(np.median(rest)) - half_width)


# --- simulation ---------------------------------------------------------------------------------------------


def simulate_tosses(
    initial: Float[np.ndarray, "toss 13"],
    steps: int,
    phi: Float[np.ndarray, "toss 9"],
    scale: CubeScale,
    *,
    cone: str = "elliptic",
    substeps: int = 8,
    dt: float = CUBE_DT,
    threads: int = 1,
) -> Float[np.ndarray, "toss step_and_start 13"]:
    """Let MuJoCo play many tosses at once.

    Flight before the first touch is integrated exactly; MuJoCo takes over at the last frame above the table. Its
    semi-implicit step falls g * step / 2 too fast, so it starts with that much extra upward velocity, after which its
    parabolas are exact. A cube that has come to rest is not stepped further.

    Args:
        initial: states at frame 0.
        steps: frames to simulate after it.
        phi: contact parameters of each toss, in the order of `CUBE_PARAMETERS`.
        scale: of lengths, gravity and the table.
        cone: of the friction, `elliptic` or `pyramidal`.
        substeps: MuJoCo steps per frame; MuJoCo keeps time constants above two of them.
        dt: between two frames [s].
        threads: of MuJoCo's pool; the result does not depend on it.

    Returns:
        States at frames 0..steps.

    Raises:
        BadInput: unknown cone, or `phi` with another number of columns.
    """
    import mujoco
    from mujoco.batch import Batch

    phi = np.asarray(phi, dtype=np.float64)
    n = len(initial)
    if cone not in ("elliptic", "pyramidal"):
        raise BadInput(f"simulate_tosses: cone = {cone!r}; choices: elliptic, pyramidal")
    if phi.shape != (n, len(CUBE_PARAMETERS)):
        raise BadInput(f"simulate_tosses: phi has shape {phi.shape}, expected ({n}, {len(CUBE_PARAMETERS)})")
    condim = 6 if (phi[:, 5] > 0).any() else 4 if (phi[:, 4] > 0).any() else 3
    out = fly(np.asarray(initial)[:, None], np.arange(steps + 1) * dt * np.ones((n, 1)), scale.gravity)
    low = lowest_corner(out, scale) <= 0.0
    takeover = np.where(low.any(axis=1), np.maximum(low.argmax(axis=1) - 1, 0), steps)
    if n == 0 or (takeover == steps).all():
        return out

    step = dt / substeps
    text = _SCENE.format(
        cone=cone,
        step=step,
        gravity=scale.gravity,
        half=scale.half_width,
        mass=CUBE_MASS,
        inertia=scale.inertia,
        table=scale.table_height,
        condim=condim,
    )
    batch = Batch(mujoco.MjModel.from_xml_string(text), nsim=n, nthread=threads)
    geom = batch.model.geom("cube").id
    batch.expand("geom_friction")[:, geom] = phi[:, [0, 4, 5]]
    batch.expand("geom_solref")[:, geom] = phi[:, [2, 1]]
    batch.expand("geom_solimp")[:, geom, :3] = phi[:, 6:9]
    batch.expand("opt.impratio")[:] = phi[:, 3]
    entry = out[np.arange(n), takeover]
    batch.qpos[:] = entry[:, :7]
    batch.qvel[:] = entry[:, 7:]
    batch.qvel[:, 2] += 0.5 * scale.gravity * step
    slow = np.zeros(n, dtype=np.int64)
    for frame in range(int(takeover.min()), steps):
        moving = (takeover <= frame) & (slow < _REST_FRAMES)
        ids = np.flatnonzero(moving)
        if len(ids):
            batch.step(ids=ids, nstep=substeps)
            speed, spin = (np.linalg.norm(batch.qvel[ids, part], axis=1) for part in (slice(0, 3), slice(3, 6)))
            still = (speed < _SETTLED[0]) & (spin < _SETTLED[1])
            slow[ids] = np.where(still, slow[ids] + 1, 0)
        reached = takeover <= frame
        out[reached, frame + 1, :7] = batch.qpos[reached]
        out[reached, frame + 1, 7:] = batch.qvel[reached]
    return out


_SCENE = """
<mujoco>
  <option gravity="0 0 -{gravity}" cone="{cone}" timestep="{step}" integrator="Euler"/>
  <worldbody>
    <geom name="table" type="plane" size="5 5 0.1" pos="0 0 {table}" condim="{condim}"/>
    <body name="cube">
      <freejoint/>
      <inertial pos="0 0 0" mass="{mass}" diaginertia="{inertia} {inertia} {inertia}"/>
      <geom name="cube" type="box" size="{half} {half} {half}" mass="0" condim="{condim}" priority="1"/>
    </body>
  </worldbody>
</mujoco>
"""


def generate_tosses(
    seed: int,
    n: int = 60,
    *,
    phi: tuple[float, ...] = (0.16, 0.35, 0.006, 4.0, 0.0, 0.0, 0.9, 0.95, 0.001),
    scale: CubeScale = CubeScale(half_width=0.0509, gravity=9.53, table_height=-0.0004),
    frames: int = 110,
    noise: float = 1.0,
    substeps: int = 8,
) -> CubeTosses:
    """Simulated tosses with heights, speeds and spins like the recorded ones, for machines without the record.

    MuJoCo plays reality with contact parameters and a scale that the learner is not told. It checks that the pipeline
    works, and says nothing about real tosses: the learner's simulator has no gap to this one.

    Args:
        seed: the tosses are a function of it.
        n: how many; the last tenth repeats the first, as a record with duplicates does.
        phi: hidden contact parameters, in the order of `CUBE_PARAMETERS`.
        scale: hidden lengths, gravity and table.
        frames: per toss; some tosses are cut up to five frames shorter.
        noise: 1 for 0.1 mm and 1 mrad in poses, 5 mm/s and 0.05 rad/s in velocities; 0 for none.
        substeps: MuJoCo steps per frame.
    """
    rng = np.random.default_rng([seed, 32])
    own = n - n // 10
    start = np.zeros((own, 13))
    start[:, :2] = rng.normal(0.0, 0.05, (own, 2))
    start[:, 2] = rng.uniform(0.11, 0.18, own)
    quat = rng.normal(size=(own, 4))
    start[:, 3:7] = quat / np.linalg.norm(quat, axis=1, keepdims=True)
    heading, speed = rng.uniform(0, 2 * np.pi, own), rng.uniform(0.3, 1.5, own)
    start[:, 7] = speed * np.cos(heading)
    start[:, 8] = speed * np.sin(heading)
    start[:, 9] = rng.normal(0.0, 0.3, own)
    start[:, 10:] = rng.normal(0.0, 5.0, (own, 3))
    states = simulate_tosses(start, frames - 1, np.tile(phi, (own, 1)), scale, substeps=substeps)
    states[..., :3] += noise * 1e-4 * rng.normal(size=(own, frames, 3))
    jitter = quat_from_axis_angle(noise * 1e-3 * rng.normal(size=(own, frames, 3)))
    states[..., 3:7] = quat_multiply(states[..., 3:7], jitter)
    states[..., 7:10] += noise * 5e-3 * rng.normal(size=(own, frames, 3))
    states[..., 10:] += noise * 0.05 * rng.normal(size=(own, frames, 3))
    group = np.concatenate([np.arange(own), np.arange(n - own)])
    length = (frames - rng.integers(0, 6, own))[group]
    rows = np.concatenate([states[g, :k] for g, k in zip(group, length)])
    return CubeTosses(
        start=np.concatenate([[0], np.cumsum(length)]),
        pos=rows[:, :3],
        quat=rows[:, 3:7],
        vel=rows[:, 7:10],
        omega=rows[:, 10:],
        duplicate_group=group,
        source="generated",
    )
