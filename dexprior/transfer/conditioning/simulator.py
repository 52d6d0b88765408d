"""A caller's simulator, held to its shape, with a count of what it was asked and of what it could not answer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput
from dexprior.transfer.conditioning.observations import Observations

__all__ = ["CheckedSimulator", "Simulator"]

Simulator = Callable[[Float[np.ndarray, "n parameter"]], Float[np.ndarray, "n ..."]]
"""Summaries (n, summary) of parameter sets in the order of the family's names, without measurement noise: the same
values always give the same summaries. What comes as (n, ...) is flattened."""


class CheckedSimulator:
    """Predictions of some observations.

    Args:
        simulate: the caller's.
        observations: what it is to predict.
    """

    def __init__(self, simulate: Simulator, observations: Observations) -> None:
        self._simulate, self._observations = simulate, observations
        self.asked = 0
        """Parameter sets so far."""
        self.failed = 0
        """How many of them had a summary that is not finite."""

    def __call__(self, values: Float[np.ndarray, "n parameter"]) -> Float[np.ndarray, "n summary"]:
        """Predictions; rows that are not finite are left as they are.

        Raises:
            BadInput: another shape than one row of summaries each.
        """
        predicted = np.asarray(self._simulate(values), dtype=np.float64)
        wanted = (len(values), self._observations.size)
        if predicted.ndim < 1 or predicted.shape[0] != wanted[0] or predicted.size != wanted[0] * wanted[1]:
            raise BadInput(
                f"the simulator returned an array of shape {predicted.shape} for {wanted[0]} parameter sets, expected "
                f"{wanted}: a row each, with the {wanted[1]} summaries that the traces have"
            )
        predicted = predicted.reshape(wanted)
        self.asked += len(values)
        self.failed += int((~np.isfinite(predicted).all(axis=1)).sum())
        return predicted

    def log_likelihood(self, values: Float[np.ndarray, "n parameter"]) -> Float[np.ndarray, " n"]:
        """Logarithm of the likelihood of parameter sets; -inf where the simulator has no finite answer."""
        return self._observations.log_likelihood(self(values))
