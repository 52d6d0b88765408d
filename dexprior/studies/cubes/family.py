"""A wider family of MuJoCo contacts for a cube: soft enough to last as long as the real ones, with the cube's own mass.

At a low impedance d MuJoCo's contact is an explicit spring and damper on a unit of the body's mass m,

    f_n = m (2 / T) (-u_n) + m / (T zeta)^2 depth,      |f_t| <= friction f_n,      f_t -> m impratio (2 / T) (-u_t),

with the time constant T and the damping ratio zeta of `solref`: it does not depend on how heavy the cube feels at the
corner, as MuJoCo's default contact does, and creeps where `impratio` is low. The cube adds what a real one has: a
moment of inertia of its own (the published 0.00081 kg m^2 lies between a solid cube's 0.00068 and a hollow one's
0.00113), a centre of mass beside its middle, and rounded corners. The corners are spheres, which touch a plane as a
cube's do.

Only frames near the table are stepped; free flight is exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dexprior.data.tosses import CUBE_DT, CUBE_MASS, CubeScale, cube_corners, fly
from dexprior.errors import BadInput, UnknownName
from dexprior.geometry.rotations import matrix_from_quat, quat_rotate
from dexprior.studies.cubes.segmentation import CornerImpacts

__all__ = [
    "CUBE_FAMILY",
    "CUBE_PRIOR",
    "Prior",
    "family_from_unit",
    "family_prior",
    "simulate_family",
    "simulate_family_impacts",
]


class Prior(NamedTuple):
    """What is believed about a parameter before any toss."""

    low: float
    high: float
    centre: float
    spread: float
    """Standard deviation: of the logarithm, but for the offsets [m]."""


CUBE_PRIOR: dict[str, Prior] = {
    "friction": Prior(0.02, 1.0, 0.2, 1.0),
    "damping_ratio": Prior(0.05, 2.0, 0.5, 0.9),
    "time_constant": Prior(0.0015, 0.015, 0.003, 0.7),
    "impratio": Prior(0.1, 10.0, 1.0, 1.15),
    "inertia": Prior(0.6, 2.0, 1.2, 0.22),
    "offset_x": Prior(-0.004, 0.004, 0.0, 0.0012),
    "offset_y": Prior(-0.004, 0.004, 0.0, 0.0012),
    "offset_z": Prior(-0.004, 0.004, 0.0, 0.0012),
    "rounding": Prior(1e-4, 0.008, 0.001, 1.1),
}
"""Coulomb coefficient; damping ratio and time constant [s] of the spring and damper; tangential over normal damping;
moment of inertia over the published one; centre of mass from the middle [m, body frame]; radius of the corners [m]."""

CUBE_FAMILY = tuple(CUBE_PRIOR)
"""Columns of the family's parameters."""

_IMPEDANCE = 0.005
_CREEP = 0.2  # impratio * step / time constant at which the explicit tangential damper of a light corner turns unstable
_NEAR = 3e-4  # [m] a frame with both ends this high is free flight: a corner dips by at most 0.1 mm in between
_SETTLED = (1e-3, 0.02)  # [m/s], [rad/s] slower than this for `_REST_FRAMES` frames: not stepped further
_REST_FRAMES = 5
_CLEAR = 5e-4  # [m] a first impact is over once the lowest corner is this high again
_IMPACT_SECONDS = 0.06  # a first impact that has not separated by then is read off there
_IMPACT_PARTS = 8  # per frame; whether the corner is clear is looked at that often

_OFFSET = slice(CUBE_FAMILY.index("offset_x"), CUBE_FAMILY.index("offset_z") + 1)
_ROUNDING = CUBE_FAMILY.index("rounding")


def family_prior() -> Float[np.ndarray, " 9"]:
    """The prior's centre, in the order of `CUBE_FAMILY`."""
    return np.array([p.centre for p in CUBE_PRIOR.values()])


def family_from_unit(
    names: tuple[str, ...], unit: Float[np.ndarray, "candidate searched"]
) -> tuple[Float[np.ndarray, "candidate 9"], Float[np.ndarray, "candidate searched"]]:
    """Parameters at points of the searched ones' box [0, 1], and how many prior deviations they lie from the centre.

    The others keep the prior's centre.

    Raises:
        UnknownName: there is no such parameter.
    """
    phis, away = np.tile(family_prior(), (len(unit), 1)), np.empty_like(unit)
    for column, name in enumerate(names):
        if name not in CUBE_PRIOR:
            raise UnknownName("parameter of the cube", name, CUBE_FAMILY)
        prior = CUBE_PRIOR[name]
        low, high, centre = (prior.low, prior.high, prior.centre) if prior.low < 0 else np.log(prior[:3])
        found = low + unit[:, column] * (high - low)
        away[:, column] = (found - centre) / prior.spread
        phis[:, CUBE_FAMILY.index(name)] = found if prior.low < 0 else np.exp(found)
    return phis, away


def simulate_family(
    initial: Float[np.ndarray, "toss 13"],
    steps: int,
    phi: Float[np.ndarray, "toss 9"],
    scale: CubeScale,
    *,
    substeps: int = 16,
    dt: float = CUBE_DT,
    threads: int = 1,
) -> Float[np.ndarray, "toss step_and_start 13"]:
    """Let the cube of each row play its toss.

    A start with a corner inside the table is one measured with noise: it is raised until it touches, since a stiff
    spring would throw it up instead.

    Args:
        initial: states at frame 0.
        steps: frames to simulate after it.
        phi: parameters of each toss, in the order of `CUBE_FAMILY`; `impratio` is held at what the step can integrate.
        scale: of lengths, gravity and the table.
        substeps: MuJoCo steps per frame; against 32, 16 move the median e_q of measured tosses by 2 %, and 8 diverge.
        dt: between two frames [s].
        threads: of MuJoCo's pool; the result does not depend on it.

    Returns:
        States at frames 0..steps, frame 0 as given.

    Raises:
        BadInput: `phi` has another shape.
    """
    return _simulate(initial, steps, phi, scale, substeps, dt, threads, until_clear=False)[0]


def simulate_family_impacts(
    impacts: CornerImpacts, phis: Float[np.ndarray, "candidate 9"], *, substeps: int = 32, threads: int = 1
) -> Float[np.ndarray, "candidate impact 6"]:
    """Velocity after each first impact, from the measured state before, carried back to the touch.

    Args:
        impacts: the states before.
        phis: parameters, in the order of `CUBE_FAMILY`.
        substeps: MuJoCo steps per frame of 1/148 s.
        threads: of MuJoCo's pool.
    """
    many, n, dt = len(phis), len(impacts), CUBE_DT / _IMPACT_PARTS
    states, ended = _simulate(
        np.tile(impacts.states, (many, 1)),
        int(np.ceil(_IMPACT_SECONDS / dt)),
        np.repeat(phis, n, axis=0),
        impacts.scale,
        max(substeps // _IMPACT_PARTS, 1),
        dt,
        threads,
        until_clear=True,
    )
    post = states[np.arange(many * n), ended, 7:].copy()
    post[:, 2] += impacts.scale.gravity * ended * dt
    return post.reshape(many, n, 6)


def _simulate(
    initial: np.ndarray,
    steps: int,
    phi: np.ndarray,
    scale: CubeScale,
    substeps: int,
    dt: float,
    threads: int,
    *,
    until_clear: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """States, and the frame at which each toss ended: the last one, or the first clear one after an impact."""
    n, step = len(initial), dt / substeps
    phi = np.array(phi, dtype=np.float64)
    if phi.shape != (n, len(CUBE_FAMILY)):
        raise BadInput(f"simulate_family: phi has shape {phi.shape}, expected ({n}, {len(CUBE_FAMILY)})")
    out = np.empty((n, steps + 1, 13))
    out[:, 0] = initial
    ended = np.full(n, steps)
    if n == 0:
        return out, ended
    batch = _batch(phi, scale, step, threads)
    offset, radius = phi[:, _OFFSET], phi[:, _ROUNDING]
    state, slow, over = np.array(initial, dtype=np.float64), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool)
    height = _lowest(state, scale, radius)
    state[:, 2] += np.maximum(-height, 0.0)
    height = np.maximum(height, 0.0)
    for frame in range(steps):
        if until_clear and frame:
            clear = ~over & (height > _CLEAR)
            ended[clear] = frame
            over |= clear
        if over.all():
            out[:, frame:] = state[:, None]
            break
        after = _fly(state, dt, scale.gravity, offset)
        ids = np.flatnonzero(~over & (np.minimum(height, _lowest(after, scale, radius)) < _NEAR))
        if len(ids):
            batch.qpos[ids], batch.qvel[ids] = state[ids, :7], state[ids, 7:]
            batch.step(ids=ids, nstep=substeps)
            after[ids] = np.hstack([batch.qpos[ids], batch.qvel[ids]])
            speed, spin = np.linalg.norm(after[ids, 7:10], axis=1), np.linalg.norm(after[ids, 10:], axis=1)
            slow[ids] = np.where((speed < _SETTLED[0]) & (spin < _SETTLED[1]), slow[ids] + 1, 0)
        after[over] = state[over]
        over |= slow >= _REST_FRAMES
        state, height = after, _lowest(after, scale, radius)
        out[:, frame + 1] = state
    return out, ended


def _batch(phi: np.ndarray, scale: CubeScale, step: float, threads: int):  # type: ignore[no-untyped-def]
    import mujoco
    from mujoco.batch import Batch

    corners = "".join(
        f'<geom type="sphere" size="0.001" pos="{x} {y} {z}" mass="0" priority="1" '
        f'solimp="{_IMPEDANCE} {_IMPEDANCE} 1e-5"/>'
        for x, y, z in cube_corners(scale.half_width - 0.001)
    )
    text = _SCENE.format(
        step=step,
        gravity=scale.gravity,
        mass=CUBE_MASS,
        inertia=scale.inertia,
        table=scale.table_height,
        corners=corners,
    )
    batch = Batch(mujoco.MjModel.from_xml_string(text), nsim=len(phi), nthread=threads)
    column = {name: phi[:, k] for k, name in enumerate(CUBE_FAMILY)}
    cube = slice(1, 9)
    batch.expand("geom_friction")[:, cube, 0] = column["friction"][:, None]
    batch.expand("geom_solref")[:, cube] = np.stack([column["time_constant"], column["damping_ratio"]], -1)[:, None]
    batch.expand("opt.impratio")[:] = np.minimum(column["impratio"], _CREEP * column["time_constant"] / step)
    batch.expand("body_inertia")[:, 1] = scale.inertia * column["inertia"][:, None]
    batch.expand("body_ipos")[:, 1] = phi[:, _OFFSET]
    radius = column["rounding"]
    batch.expand("geom_size")[:, cube, 0] = radius[:, None]
    batch.expand("geom_rbound")[:, cube] = radius[:, None]
    batch.expand("geom_pos")[:, cube] = cube_corners(1.0) * (scale.half_width - radius)[:, None, None]
    return batch


# The compiler takes a centre of mass at the origin as a promise, so the model starts with another one.
_SCENE = """
<mujoco>
  <option gravity="0 0 -{gravity}" cone="elliptic" timestep="{step}" integrator="Euler"/>
  <worldbody>
    <geom type="plane" size="5 5 0.1" pos="0 0 {table}"/>
    <body>
      <freejoint/>
      <inertial pos="1e-4 0 0" mass="{mass}" diaginertia="{inertia} {inertia} {inertia}"/>
      {corners}
    </body>
  </worldbody>
</mujoco>
"""


def _lowest(states: np.ndarray, scale: CubeScale, radius: np.ndarray) -> np.ndarray:
    """Height of the lowest rounded corner above the table [m]."""
    reach = np.abs(matrix_from_quat(states[:, 3:7])[:, 2, :]).sum(-1)
    return states[:, 2] - (scale.half_width - radius) * reach - radius - scale.table_height


def _fly(states: np.ndarray, dt: float, gravity: float, offset: np.ndarray) -> np.ndarray:
    """Free flight about a centre of mass at `offset` in the body frame; states are of the middle."""
    centre = states.copy()
    centre[:, :3] += quat_rotate(states[:, 3:7], offset)
    centre[:, 7:10] += quat_rotate(states[:, 3:7], np.cross(states[:, 10:], offset))
    flown = fly(centre, np.full(len(states), dt), gravity)
    flown[:, :3] -= quat_rotate(flown[:, 3:7], offset)
    flown[:, 7:10] -= quat_rotate(flown[:, 3:7], np.cross(flown[:, 10:], offset))
    return flown
