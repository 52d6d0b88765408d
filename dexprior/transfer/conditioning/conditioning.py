"""The default way from traces to a conditioned family: CMA-ES for the best fit, tempered SMC for the posterior."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from dexprior.config import Ge, config
from dexprior.errors import BadInput
from dexprior.families import ParameterFamily
from dexprior.stats.minimize import minimize_cma
from dexprior.transfer.conditioning.observations import Observations
from dexprior.transfer.conditioning.sampler import SamplerConfig, sample_posterior
from dexprior.transfer.conditioning.simulator import CheckedSimulator, Simulator
from dexprior.transfer.conditioning.verdicts import Conditioned, VerdictConfig, conclude

__all__ = ["ConditioningConfig", "condition", "search"]

_SPREAD = 0.2  # first standard deviation of the search, in shares of the supports
_LOST = 5.0  # log likelihood by which the search may beat every particle before that is noted
_HOPELESS = 1e30  # cost of what cannot be simulated


@config
class ConditioningConfig:
    """How the posterior is found and judged."""

    sampler: SamplerConfig = SamplerConfig()
    """Sampler of the posterior."""
    verdict: VerdictConfig = VerdictConfig()
    """Verdict on flags and coverage."""
    population: Annotated[int, Ge(4)] = 16
    """Population of the search for the best fit."""
    evaluations: Annotated[int, Ge(0)] = 1000
    """Simulations of that search; 0 takes the best particle."""


def condition(
    family: ParameterFamily,
    observations: Observations,
    *,
    simulate: Simulator,
    settings: ConditioningConfig | None = None,
    seed: int,
) -> Conditioned:
    """Condition a family on traces of one motion.

    `family.condition(observations, partial(condition, simulate=..., seed=0))` says the same.

    Args:
        family: the prior.
        observations: summaries of real repeats.
        simulate: what the family's members would have measured.
        settings: the defaults if None.
        seed: the same one gives the same posterior.

    Raises:
        BadInput: a simulator of another shape, or one that fails for most of the family; a family without a free
            parameter, or that no draw of explains anything.
    """
    settings = settings or ConditioningConfig()
    checked = CheckedSimulator(simulate, observations)
    best, likelihood = search(family, checked, settings, seed=seed)
    samples = sample_posterior(family, checked.log_likelihood, settings.sampler, seed=seed)
    notes = []
    top = int(np.argmax(samples.log_likelihood))
    if samples.log_likelihood[top] >= likelihood:
        best = samples.values[top]
    elif likelihood - samples.log_likelihood[top] > _LOST + len(family.parameters):
        notes.append(
            f"the best fit is exp({likelihood - samples.log_likelihood[top]:.0f}) times as likely as every draw of the "
            "posterior: it may be another mode; take more particles"
        )
    if checked.failed:
        notes.append(f"{checked.failed} of {checked.asked} simulations were not finite and count as impossible")
    return conclude(
        family, observations, samples.values, best, checked(best[None])[0], settings.verdict,
        simulations=checked.asked, notes=tuple(notes),
    )  # fmt: skip


def search(
    family: ParameterFamily, checked: CheckedSimulator, settings: ConditioningConfig, *, seed: int
) -> tuple[np.ndarray, float]:
    """The largest likelihood within the supports, and where: CMA-ES from the best of some draws of the family.

    Raises:
        BadInput: the simulator fails for most of the draws.
    """
    rng = np.random.default_rng([seed, 32])
    first = family.sample(rng, max(4 * settings.population, 64))
    likely = checked.log_likelihood(first)
    lost = int((~np.isfinite(likely)).sum())
    if 2 * lost > len(first):
        raise BadInput(
            f"the simulator's summaries are not finite for {lost} of {len(first)} draws of family {family.name!r}; its "
            "supports reach where it diverges"
        )
    best, highest = first[int(np.argmax(likely))], float(likely.max())
    free = [k for k, p in enumerate(family.parameters) if not p.fixed]
    if not free or not settings.evaluations:
        return best, highest

    def values_at(shares: np.ndarray) -> np.ndarray:
        values = np.tile(best, (len(shares), 1))
        for column, k in enumerate(free):
            values[:, k] = family.parameters[k].at_share(shares[:, column])
        return values

    def cost(shares: np.ndarray) -> np.ndarray:
        return np.nan_to_num(-checked.log_likelihood(values_at(shares)), posinf=_HOPELESS)

    start = np.array([float(family.parameters[k].share(best[k : k + 1])[0]) for k in free])
    padded = np.append(start, 0.5) if len(free) == 1 else start  # CMA-ES needs two dimensions
    found, lowest = minimize_cma(
        lambda x: cost(x[:, : len(free)]), np.clip(padded, 0.0, 1.0), spread=_SPREAD, bounds=(0.0, 1.0),
        population=settings.population, evaluations=settings.evaluations, seed=int(rng.integers(2**31 - 1)),
    )  # fmt: skip
    if -lowest > highest:
        return values_at(found[None, : len(free)])[0], -lowest
    return best, highest
