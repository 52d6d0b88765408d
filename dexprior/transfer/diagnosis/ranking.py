"""Which parameters of a family success hangs on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from dexprior.errors import BadInput
from dexprior.families import Gap, ParameterFamily, gap_of
from dexprior.stats.correction import holm
from dexprior.stats.intervals import newcombe
from dexprior.stats.tests import fisher

__all__ = ["Effect", "rank_parameters"]

_FEWEST = 30  # trials


@dataclass(frozen=True)
class Effect:
    """Effect of one parameter on success."""

    parameter: str
    gap: Gap
    difference: float
    """Success rate in the upper third of its values less that in the lower one."""
    interval: tuple[float, float]
    """Newcombe's, 95 %."""
    p_adjusted: float
    """Fisher's exact test, Holm over the parameters."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def rank_parameters(
    family: ParameterFamily,
    values: Float[np.ndarray, "n parameter"],
    success: Bool[np.ndarray, " n"],
    *,
    gap: Gap | None = "contact",
) -> list[Effect]:
    """Parameters by how much success depends on them, the largest difference first.

    Args:
        family: whose parameters the values are; those that it fixes are left out.
        values: of each trial.
        success: of each trial.
        gap: only parameters of this gap; None for all.

    Raises:
        BadInput: fewer than 30 trials, or as many values as there are not.
    """
    values, success = np.asarray(values, dtype=np.float64), np.asarray(success, dtype=bool)
    if values.shape != (len(success), len(family.parameters)):
        raise BadInput(
            f"values of shape {values.shape} for {len(success)} trials of {len(family.parameters)} parameters"
        )  # fmt: skip
    if len(success) < _FEWEST:
        raise BadInput(f"{len(success)} trials: at least {_FEWEST} are needed to compare thirds of them")
    found = []
    for k, parameter in enumerate(family.parameters):
        if np.ptp(values[:, k]) == 0 or (gap is not None and gap_of(parameter) != gap):
            continue
        low, high = np.quantile(values[:, k], [1 / 3, 2 / 3])
        lower, upper = success[values[:, k] <= low], success[values[:, k] >= high]
        counts = int(upper.sum()), len(upper), int(lower.sum()), len(lower)
        difference = counts[0] / counts[1] - counts[2] / counts[3]
        found.append((parameter, difference, newcombe(*counts), fisher(*counts)))
    adjusted = holm([p for *_, p in found])
    effects = [
        Effect(p.name, gap_of(p), float(d), (float(i[0]), float(i[1])), float(a))
        for (p, d, i, _), a in zip(found, adjusted)
    ]
    return sorted(effects, key=lambda e: (-abs(e.difference), e.parameter))
