"""Impacts of an ellipse on a plane in MuJoCo: what the collision network is distilled from, and a stand-in for the
measured record.

Contact parameters phi are friction, damping ratio, time constant (MuJoCo's `solref`) and `impratio`. With a low
impedance (`solimp`) MuJoCo's contact becomes an explicit spring and damper with viscously regularized Coulomb
friction, which holds more of what real impacts do than its default; see docs/decisions/0007-wide-contact-family.md.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from dexprior.data.impacts import ELLIPSE_MASS, ELLIPSE_SEMI_AXES, PlanarImpacts, ellipse_contact, ellipse_inertia

__all__ = [
    "CONTACT_PARAMETERS",
    "SCENE",
    "contact_mobility",
    "contact_solref",
    "generate_impacts",
    "simulate_drops",
    "simulate_impacts",
]

CONTACT_PARAMETERS = ("friction", "damping_ratio", "time_constant", "impratio")
"""Columns of phi: Coulomb coefficient, damping ratio and time constant [s] of MuJoCo's `solref`, and `impratio`, the
ratio of tangential to normal damping."""

_GAP = 1e-9  # [m] at the start, so that rounding does not decide whether the first step has a contact
_CHUNK = 4  # substeps between two looks at the contacts; a body that left needs longer than that to return


def generate_impacts(
    seed: int,
    n: int = 400,
    *,
    phi: tuple[float, float, float, float] = (0.25, 0.2, 0.004, 1.0),
    impedance: float | None = None,
    noise: float = 0.01,
) -> PlanarImpacts:
    """Simulated impacts with the recorded ellipse's shape and approach, for machines without the record.

    MuJoCo plays reality with contact parameters that the learner is not told. It checks that the pipeline
    works, and says nothing about real impacts: some learner's simulator has no gap to this one.

    Args:
        seed: the impacts are a function of it.
        n: how many.
        phi: hidden contact parameters, in the order of `CONTACT_PARAMETERS`.
        impedance: as in `simulate_impacts`.
        noise: measurement noise of the velocity after the impact, relative to its size.
    """
    rng = np.random.default_rng([seed, 20])
    mass, inertia = ELLIPSE_MASS, ellipse_inertia(ELLIPSE_SEMI_AXES, ELLIPSE_MASS)
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    normal, tangent = ellipse_contact(angle, ELLIPSE_SEMI_AXES)
    u_n, u_t = -rng.uniform(2.2, 3.0, n), rng.normal(-0.6, 0.3, n)  # [m/s] as in the record
    omega = rng.normal(0.0, 6.0, n)  # [rad/s]
    pre = np.stack([u_t - tangent[:, 2] * omega, u_n - normal[:, 2] * omega, omega], axis=1)
    post, _ = simulate_impacts(
        pre, angle, np.broadcast_to(phi, (n, 4)), semi_axes=ELLIPSE_SEMI_AXES, mass=mass, inertia=inertia,
        impedance=impedance,
    )  # fmt: skip
    scale = np.array([1.0, 1.0, np.sqrt(mass / inertia)])
    speed = np.linalg.norm(post / scale, axis=1, keepdims=True)
    return PlanarImpacts(
        pre=pre,
        post=post + noise * speed * rng.normal(size=(n, 3)) * scale,
        normal_row=normal,
        tangent_row=tangent,
        angle=angle,
        place=np.zeros(n),
        source_row=np.arange(n),
        mass=mass,
        inertia=inertia,
        semi_axes=ELLIPSE_SEMI_AXES,
        source="generated",
    )


def simulate_impacts(
    pre: Float[np.ndarray, "impact 3"],
    angle: Float[np.ndarray, " impact"],
    phi: Float[np.ndarray, "impact 4"],
    *,
    semi_axes: tuple[float, float] | Float[np.ndarray, "impact 2"],
    mass: float | Float[np.ndarray, " impact"],
    inertia: float | Float[np.ndarray, " impact"],
    impedance: float | Float[np.ndarray, " impact"] | None = None,
    resolution: int = 12,
    timeout: float = 10.0,
    threads: int = 1,
) -> tuple[Float[np.ndarray, "impact 3"], Bool[np.ndarray, " impact"]]:
    """Run MuJoCo from the first touch to separation, without gravity, for many ellipses at once.

    Args:
        pre: [vx vy omega] at the first touch.
        angle: orientation [rad].
        phi: contact parameters, in the order of `CONTACT_PARAMETERS`.
        semi_axes: of the ellipse [m], shared or one per impact.
        mass: [kg], shared or one per impact.
        inertia: [kg m^2], shared or one per impact.
        impedance: of the contact, constant in depth, shared or one per impact; None leaves MuJoCo's default `solimp`.
        resolution: time steps per damping_ratio * time_constant (the contact's natural frequency, inverted).
        timeout: contacts that still hold after that many damping_ratio * time_constant are cut off.
        threads: of MuJoCo's pool; the result does not depend on it.

    Returns:
        post: [vx vy omega] after separation, or at the time-out.
        separated: False where the contact still held at the time-out.
    """
    import mujoco
    from mujoco.batch import Batch

    n = len(pre)
    if n == 0:
        return np.zeros((0, 3)), np.zeros(0, dtype=bool)
    axes = np.broadcast_to(np.asarray(semi_axes, dtype=np.float64), (n, 2))
    batch = Batch(mujoco.MjModel.from_xml_string(SCENE), nsim=n, nthread=threads)
    body, geom = batch.model.body("ellipse").id, batch.model.geom("ellipse").id
    batch.expand("opt.timestep")[:] = phi[:, 1] * phi[:, 2] / resolution
    batch.expand("body_mass")[:, body] = mass
    batch.expand("body_inertia")[:, body] = np.broadcast_to(np.asarray(inertia), (n,))[:, None]
    batch.expand("geom_size")[:, geom, 0] = axes[:, 0]
    batch.expand("geom_size")[:, geom, 1] = axes.min(axis=1)  # out of the plane: never touches
    batch.expand("geom_size")[:, geom, 2] = axes[:, 1]
    batch.expand("geom_rbound")[:, geom] = axes.max(axis=1)
    batch.expand("geom_friction")[:, geom, 0] = phi[:, 0]
    batch.expand("opt.impratio")[:] = phi[:, 3]
    damping, constant = phi[:, 1], phi[:, 2]
    if impedance is not None:
        mobility = contact_mobility(angle, axes, mass, inertia)
        constant, damping = contact_solref(constant, damping, impedance, mobility, mass)
        solimp = batch.expand("geom_solimp")
        solimp[:, geom] = [0.0, 0.0, 1e-5, 0.5, 2.0]
        solimp[:, geom, :2] = np.broadcast_to(np.asarray(impedance), (n,))[:, None]
    batch.expand("geom_solref")[:, geom] = np.stack([constant, damping], axis=1)
    batch.set_const()

    _, tangent = ellipse_contact(angle, axes)
    batch.qpos[:] = np.stack([np.zeros(n), tangent[:, 2] + _GAP, angle], axis=1)
    batch.qvel[:] = pre
    contacts = batch.bind("ncon")
    touched, active = np.zeros(n, dtype=bool), np.ones(n, dtype=bool)
    for _ in range(int(np.ceil(timeout * resolution / _CHUNK))):
        ids = np.flatnonzero(active)
        batch.step(ids=ids, nstep=_CHUNK)
        touching = contacts[ids].reshape(len(ids)) > 0
        active[ids] = touching | ~touched[ids]
        touched[ids] |= touching
        if not active.any():
            break
    return np.array(batch.qvel), ~active


def simulate_drops(
    seed: int,
    n: int,
    *,
    phi: tuple[float, float, float, float] = (0.25, 0.2, 0.004, 1.0),
    rate: float = 250.0,
    seconds: float = 0.5,
    noise: tuple[float, float] = (2e-4, 2e-3),
) -> tuple[Float[np.ndarray, " frame"], Float[np.ndarray, "drop frame 3"]]:
    """What motion capture would see of an ellipse that is dropped: (time [s], [x height angle] in m and rad).

    MuJoCo plays reality, with gravity; the ellipse is that of the measured record.

    Args:
        seed: the drops are a function of it.
        n: how many.
        phi: hidden contact parameters, in the order of `CONTACT_PARAMETERS`.
        rate: frames per second.
        seconds: length of a drop.
        noise: standard deviation of positions [m] and angles [rad].
    """
    import mujoco
    from mujoco.batch import Batch

    rng = np.random.default_rng([seed, 21])
    substeps = 16
    batch = Batch(mujoco.MjModel.from_xml_string(SCENE), nsim=n, nthread=1)
    model, (a, b) = batch.model, ELLIPSE_SEMI_AXES
    body, geom = model.body("ellipse").id, model.geom("ellipse").id
    batch.expand("opt.timestep")[:] = 1.0 / (rate * substeps)
    batch.expand("opt.gravity")[:] = [0.0, 0.0, -9.81]
    batch.expand("opt.impratio")[:] = phi[3]
    batch.expand("body_mass")[:, body] = ELLIPSE_MASS
    batch.expand("body_inertia")[:, body] = ellipse_inertia(ELLIPSE_SEMI_AXES, ELLIPSE_MASS)
    batch.expand("geom_size")[:, geom] = [a, b, b]
    batch.expand("geom_rbound")[:, geom] = a
    batch.expand("geom_friction")[:, geom, 0] = phi[0]
    batch.expand("geom_solref")[:, geom] = [phi[2], phi[1]]
    batch.set_const()
    batch.qpos[:] = np.stack([np.zeros(n), rng.uniform(0.2, 0.35, n), rng.uniform(0.0, 2.0 * np.pi, n)], axis=1)
    batch.qvel[:] = np.stack([rng.normal(-0.5, 0.2, n), np.zeros(n), rng.normal(0.0, 6.0, n)], axis=1)
    frames = [np.array(batch.qpos)]
    for _ in range(int(seconds * rate)):
        batch.step(nstep=substeps)
        frames.append(np.array(batch.qpos))
    pose = np.stack(frames, axis=1)
    pose += rng.normal(size=pose.shape) * [noise[0], noise[0], noise[1]]
    return np.arange(pose.shape[1]) / rate, pose


def contact_mobility(
    angle: Float[np.ndarray, " impact"],
    semi_axes: Float[np.ndarray, "impact 2"],
    mass: float | Float[np.ndarray, " impact"],
    inertia: float | Float[np.ndarray, " impact"],
) -> Float[np.ndarray, " impact"]:
    """A_nn of an ellipse on the ground: normal contact velocity per normal impulse [1/kg]."""
    normal, _ = ellipse_contact(angle, semi_axes)
    return 1.0 / mass + normal[:, 2] ** 2 / inertia


def contact_solref(
    time_constant: Float[np.ndarray, " impact"],
    damping_ratio: Float[np.ndarray, " impact"],
    impedance: float | Float[np.ndarray, " impact"],
    mobility: Float[np.ndarray, " impact"],
    mass: float | Float[np.ndarray, " impact"],
) -> tuple[Float[np.ndarray, " impact"], Float[np.ndarray, " impact"]]:
    """MuJoCo's `solref` (time constant [s], damping ratio) that gives a contact of constant impedance these values.

    MuJoCo regularizes by the body's average inverse inertia, 2 / 3m for these joints, not by the contact's own A_nn:
    spring and damper answer with A_nn / (d A_nn + (1 - d) 2 / 3m) of what is asked, which is 1 only for d = 1.

    Args:
        time_constant: that the contact is to have [s].
        damping_ratio: that it is to have.
        impedance: d, constant in depth.
        mobility: A_nn [1/kg].
        mass: [kg]
    """
    ratio = 1.5 * mass * mobility
    answer = ratio / (impedance * ratio + 1.0 - impedance)
    return time_constant * answer, damping_ratio / answer**0.5


SCENE = """
<mujoco>
  <option gravity="0 0 0" cone="elliptic" integrator="Euler"/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 0.1"/>
    <body name="ellipse">
      <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="y" type="slide" axis="0 0 1"/>
      <joint name="angle" type="hinge" axis="0 -1 0"/>
      <geom name="ellipse" type="ellipsoid" size="1 1 1" mass="0" priority="1"/>
    </body>
  </worldbody>
</mujoco>
"""
