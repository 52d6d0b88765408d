"""Laplace's approximation by MuJoCo's own system identification: the mode by `mujoco.sysid`, a normal about it.

Cheap beside a population, and blind to what a normal on the line cannot be: bent ridges, several modes, noise that is
itself uncertain. Needs the packages of `dexprior[sysid]`.
"""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import numpy as np

from dexprior.config import Ge, Gt, config
from dexprior.errors import MissingExtra
from dexprior.extras import require
from dexprior.families import ParameterFamily
from dexprior.transfer.conditioning.conditioning import ConditioningConfig, search
from dexprior.transfer.conditioning.observations import Observations
from dexprior.transfer.conditioning.simulator import CheckedSimulator, Simulator
from dexprior.transfer.conditioning.verdicts import Conditioned, VerdictConfig, conclude

__all__ = ["LaplaceConfig", "laplace"]

_PRIOR_DRAWS = 4096  # that the prior's moments on the line are taken from
_REACH = 6.0  # of the line, in standard deviations of a uniform parameter


@config
class LaplaceConfig:
    """How the mode is found."""

    search: ConditioningConfig = ConditioningConfig()
    """Its search for the best fit, from which the mode is refined, is what counts here."""
    verdict: VerdictConfig = VerdictConfig()
    """Verdict on flags and coverage."""
    iterations: Annotated[int, Ge(1)] = 50
    """Iterations of the refinement."""
    step: Annotated[float, Gt(0)] = 1e-3
    """Step of finite differences on the line."""
    draws: Annotated[int, Ge(64)] = 2048
    """Draws of the normal, for the flags and the family."""


def laplace(
    family: ParameterFamily,
    observations: Observations,
    *,
    simulate: Simulator,
    settings: LaplaceConfig | None = None,
    seed: int,
) -> Conditioned:
    """Condition a family by least squares on the line of each parameter; see `condition`.

    Residuals are the whitened misfit of the mean and the whitened distance from the prior, whose moments on the line
    stand for it. Noise that is not declared is taken as known, at its estimate; of a single repeat, at the best fit's
    misfit.

    Raises:
        MissingExtra: `mujoco.sysid` or a package that it needs is absent.
        BadInput: as `condition`.
    """
    require("colorama", purpose="Laplace's approximation by mujoco.sysid")
    sysid: Any = importlib.import_module("mujoco.sysid")
    if not hasattr(sysid, "optimize"):  # it hides what it lacks
        raise MissingExtra("mujoco.sysid lacks one of its packages. Install them with: pip install 'dexprior[sysid]'")
    settings = settings or LaplaceConfig()
    checked = CheckedSimulator(simulate, observations)
    best, _ = search(family, checked, settings.search, seed=seed)
    free = [k for k, p in enumerate(family.parameters) if not p.fixed]
    parameters = [family.parameters[k] for k in free]
    rng = np.random.default_rng([seed, 33])
    before = family.sample(rng, _PRIOR_DRAWS)
    line = np.stack([p.to_line(before[:, k]) for k, p in zip(free, parameters)], axis=1)
    mean, root = line.mean(axis=0), np.linalg.cholesky(np.atleast_2d(np.cov(line.T)))
    std = observations.std
    if std is None:
        std = observations.misfit_std(checked(best[None])[0], len(free))

    def values_at(z: np.ndarray) -> np.ndarray:
        values = np.tile(best, (len(z), 1))
        values[:, free] = np.stack([p.from_line(z[:, k]) for k, p in enumerate(parameters)], axis=1)
        return values

    def residuals(z: np.ndarray) -> np.ndarray:
        misfit = (checked(values_at(z)) - observations.mean) * np.sqrt(observations.repeats) / std
        return np.concatenate([misfit, np.linalg.solve(root, (z - mean).T).T], axis=1)

    def residual(x: np.ndarray, _: object) -> tuple[list[np.ndarray], None, None]:
        rows = residuals(np.atleast_2d(x.T))  # one candidate, or one a column
        return [rows.T if x.ndim == 2 else rows[0]], None, None

    start = np.clip([p.to_line(best[k : k + 1])[0] for k, p in zip(free, parameters)], -0.9 * _REACH, 0.9 * _REACH)
    given = sysid.ParameterDict(
        {p.name: sysid.Parameter(p.name, float(z), -_REACH, _REACH) for p, z in zip(parameters, start)}
    )
    options: dict[str, Any] = {"max_iters": settings.iterations, "eps": settings.step}
    found, _ = sysid.optimize(given, residual, optimizer="mujoco", verbose=False, **options)
    mode = np.asarray(found.as_vector(), dtype=np.float64)
    steps = settings.step * np.eye(len(free))
    both = residuals(np.concatenate([mode + steps, mode - steps]))
    slope = (both[: len(free)] - both[len(free) :]) / (2.0 * settings.step)
    spread = np.linalg.cholesky(np.linalg.inv(slope @ slope.T))
    values = values_at(mode + rng.standard_normal((settings.draws, len(free))) @ spread.T)
    mode_values = values_at(mode[None])
    predicted = checked(np.concatenate([mode_values, best[None]]))
    better = int(np.argmax(observations.log_likelihood(predicted)))
    return conclude(
        family, observations, values, (mode_values[0], best)[better], predicted[better], settings.verdict,
        simulations=checked.asked, notes=("a normal on the line about the mode, with the noise taken as known",),
    )  # fmt: skip
