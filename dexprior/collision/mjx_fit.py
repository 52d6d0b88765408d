"""The gradient baseline: all of MuJoCo's contact parameters, by derivatives through MJX.

MJX is MuJoCo in JAX; forward-mode derivatives go through its solver's loops, which reverse mode cannot. Each measured
impact is stepped from the first touch to separation, as `simulate_impacts` does in MuJoCo.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float
from scipy.special import logit

from dexprior.collision.baselines import MUJOCO_PARAMETERS, mujoco_from_unit
from dexprior.collision.parameters import ContactRanges
from dexprior.config import Ge, Gt, config
from dexprior.data.impacts import PlanarImpacts, ellipse_contact
from dexprior.data.simulated_impacts import SCENE, contact_mobility, contact_solref
from dexprior.extras import require

__all__ = ["MjxConfig", "tune_mujoco_mjx"]

_RESOLUTION = 12  # time steps per damping_ratio * time_constant
_GAP = 1e-9  # [m] at the start, so that rounding does not decide whether the first step has a contact


@config
class MjxConfig:
    """Least squares from several starts, with derivatives through the simulator."""

    starts: Annotated[int, Ge(1)] = 4
    """Random starts; the middle of the ranges is the first."""
    evaluations: Annotated[int, Ge(1)] = 30
    """Evaluations of the simulator and its derivatives, per start."""
    timeout: Annotated[float, Gt(0)] = 10.0
    """Contacts that still hold after that many damping_ratio * time_constant are cut off."""
    robust: Annotated[float, Gt(0)] = 0.2
    """Relative error from which on an impact counts linearly and not quadratically."""


def tune_mujoco_mjx(
    impacts: PlanarImpacts,
    ranges: ContactRanges,
    config: MjxConfig,
    *,
    impedance: tuple[float, float],
    seed: int,
) -> Float[np.ndarray, " tuned"]:
    """`MUJOCO_PARAMETERS` by gradients through MJX on a few measured impacts: smallest robust relative error.

    The first call with a given number of impacts compiles, for about 40 s on one core; later ones take seconds.

    Args:
        impacts: to fit.
        ranges: where the parameters may lie.
        config: of the search.
        impedance: where the impedance may lie.
        seed: of the starts.

    Raises:
        MissingExtra: `mujoco-mjx` is not installed.
    """
    from scipy.optimize import least_squares

    simulate = _simulator(impacts.semi_axes, impacts.mass, impacts.inertia, int(np.ceil(config.timeout * _RESOLUTION)))
    _, half = ranges.simulated_scale
    low, high = logit(impedance)
    scale = np.array([1.0, 1.0, impacts.gyration])
    size = np.linalg.norm(impacts.post * scale, axis=1)[:, None]

    def residual(unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        phi = mujoco_from_unit(ranges, impedance, unit[None])[0]
        per_unit = np.append(half * phi[:-1], (high - low) / 2 * phi[-1] * (1.0 - phi[-1]))
        post, slope = simulate(phi, impacts.pre, impacts.angle)
        error = (post - impacts.post) * scale / size
        gradient = slope * (scale / size)[..., None] * per_unit
        return error.ravel(), gradient.reshape(-1, len(phi))

    rng = np.random.default_rng([seed, 5])
    count = len(MUJOCO_PARAMETERS)
    starts = np.concatenate([np.zeros((1, count)), rng.uniform(-0.9, 0.9, (config.starts - 1, count))])
    found = []
    for start in starts:
        latest = _Latest(residual)
        found.append(
            least_squares(
                latest.value,
                start,
                jac=latest.slope,
                bounds=(-1.0, 1.0),
                loss="soft_l1",
                f_scale=config.robust,
                max_nfev=config.evaluations,
            )
        )
    best = min(found, key=lambda result: result.cost)
    return mujoco_from_unit(ranges, impedance, best.x[None])[0]


class _Latest:
    """Value and slope come from one evaluation; SciPy asks for them one after the other."""

    def __init__(self, evaluate: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]) -> None:
        self._evaluate, self._at = evaluate, np.array([np.nan])

    def value(self, x: np.ndarray) -> np.ndarray:
        self._update(x)
        return self._result[0]

    def slope(self, x: np.ndarray) -> np.ndarray:
        self._update(x)
        return self._result[1]

    def _update(self, x: np.ndarray) -> None:
        if not np.array_equal(x, self._at):
            self._at, self._result = x.copy(), self._evaluate(x)


@lru_cache(maxsize=4)
def _simulator(
    semi_axes: tuple[float, float], mass: float, inertia: float, steps: int
) -> Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Velocities after impacts and their derivatives by `MUJOCO_PARAMETERS`."""
    mjx: Any = require("mujoco.mjx", purpose="Fitting by gradients through MJX")
    import jax
    import jax.numpy as jnp
    import mujoco

    model = mujoco.MjModel.from_xml_string(SCENE)
    body, geom = model.body("ellipse").id, model.geom("ellipse").id
    model.body_mass[body], model.body_inertia[body] = mass, inertia
    model.geom_size[geom] = [semi_axes[0], min(semi_axes), semi_axes[1]]
    model.geom_rbound[geom] = max(semi_axes)
    mujoco.mj_setConst(model, mujoco.MjData(model))
    a, b = semi_axes

    with jax.enable_x64(True):
        world, start = mjx.put_model(model), mjx.make_data(model)

    def velocity_after(phi: Any, pre: Any, qpos: Any, mobility: Any) -> Any:
        friction, damping, time_constant, impratio, impedance = phi
        solref = contact_solref(time_constant, damping, impedance, mobility, mass)
        mine = world.replace(
            geom_solref=world.geom_solref.at[geom].set(jnp.stack(solref)),
            geom_solimp=world.geom_solimp.at[geom, :3].set(jnp.stack([impedance, impedance, 1e-5])),
            geom_friction=world.geom_friction.at[geom, 0].set(friction),
        ).tree_replace({"opt.timestep": damping * time_constant / _RESOLUTION, "opt.impratio": impratio})

        def step(carry: Any, _: None) -> Any:
            data, touched, left, out = carry
            data = mjx.step(mine, data)
            angle = data.qpos[2]
            gap = data.qpos[1] - jnp.sqrt((a * jnp.sin(angle)) ** 2 + (b * jnp.cos(angle)) ** 2)
            touched = touched | (gap < 0.0)
            out = jnp.where(left, out, data.qvel)
            return (data, touched, left | (touched & (gap > 0.0)), out), None

        data = start.replace(qpos=qpos, qvel=pre)
        (_, _, _, out), _ = jax.lax.scan(step, (data, False, False, pre), None, length=steps)
        return out, out

    both = jax.jit(jax.vmap(jax.jacfwd(velocity_after, has_aux=True), (None, 0, 0, 0)))

    def simulate(phi: np.ndarray, pre: np.ndarray, angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        _, tangent = ellipse_contact(angle, semi_axes)
        qpos = np.stack([np.zeros(len(pre)), tangent[:, 2] + _GAP, angle], axis=1)
        mobility = contact_mobility(angle, np.broadcast_to(semi_axes, (len(pre), 2)), mass, inertia)
        with jax.enable_x64(True):
            slope, post = both(*(jnp.asarray(x) for x in (phi, pre, qpos, mobility)))
        return np.asarray(post), np.asarray(slope)

    return simulate
