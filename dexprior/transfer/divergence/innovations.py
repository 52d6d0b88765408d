"""What a group's own past does not foretell.

Members of a family differ in a few ways: one has a little more friction, another is a little later. How a group has
deviated so far therefore says how it will go on to, and what remains is noise. With d(t) the deviation from the
family's median in standard deviations of the noise,

    d(t) = F(t) z + e(t),    z ~ N(0, 1),    e ~ N(0, 1),    innovation(t) = d(t) - F(t) E[z | d(s), s < t],

F holds the principal components of the reference groups that rise above noise alone, and the expectation is the Kalman
filter's for a state that does not change (Kalman 1960). A change within an episode is in the innovations at once, when
the deviation itself is still inside of what the family reaches.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

__all__ = ["Innovations"]

_ABOVE = 1.5  # times the largest eigenvalue of noise alone, from which a component is one of the family


class Innovations:
    """One-step errors of prediction, with components of some groups, for others.

    Args:
        deviation: of the means of the groups that the components are taken from.
        noise: standard deviation of a group's mean about its world's.
    """

    def __init__(self, deviation: Float[np.ndarray, "group time n"], noise: Float[np.ndarray, " n"]) -> None:
        self._noise = noise
        groups, times, size = deviation.shape
        flat = (deviation / noise).reshape(groups, -1)
        _, singular, right = np.linalg.svd(flat, full_matrices=False)
        variance = singular**2 / groups
        edge = (1.0 + np.sqrt(flat.shape[1] / groups)) ** 2  # Marchenko and Pastur 1967
        kept = min(int((variance > _ABOVE * edge).sum()), groups // 4)
        factors = right[:kept] * np.sqrt(variance[:kept])[:, None]
        self._factors = factors.reshape(kept, times, size).transpose(1, 2, 0)
        told = np.cumsum(np.einsum("tnj,tnk->tjk", self._factors, self._factors), axis=0)
        self._uncertain = np.linalg.inv(np.eye(kept) + np.concatenate([np.zeros_like(told[:1]), told[:-1]]))

    @property
    def components(self) -> int:
        """How many ways the family was seen to differ in."""
        return self._factors.shape[-1]

    def of(self, deviation: Float[np.ndarray, "group time n"]) -> Float[np.ndarray, "group time n"]:
        """Innovations [standard deviations of the noise]; each depends on its own group up to its moment alone."""
        scaled = deviation / self._noise
        shown = np.cumsum(np.einsum("tnk,gtn->gtk", self._factors, scaled), axis=1)
        before = np.concatenate([np.zeros_like(shown[:, :1]), shown[:, :-1]], axis=1)
        expected = np.einsum("tjk,gtk->gtj", self._uncertain, before)
        return scaled - np.einsum("tnk,gtk->gtn", self._factors, expected)
