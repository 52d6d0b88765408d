"""The network's answer to one impact, in scalars: what a step of one world costs is Python's overhead, not arithmetic.

`impulse` is plain Python over NumPy's matrix products; `compiled()` is the same source through numba, where the extra
`compiled` is installed. Both equal the batched form in `surrogate.py` to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from dexprior.extras import require

__all__ = ["MIN_EFFECT", "compiled", "impulse"]

MIN_EFFECT = 0.2  # 1 + r A_tn/A_nn is kept above it: below lies jamming, where one impulse has no meaning


def impulse(
    slide: float,
    coupling: float,
    log_tangent: float,
    log_speed: float,
    simulated: np.ndarray,
    middle: np.ndarray,
    half: np.ndarray,
    first: np.ndarray,
    hidden: np.ndarray,
    biases: np.ndarray,
    last: np.ndarray,
    last_bias: np.ndarray,
) -> tuple[float, float]:
    """Dimensionless impulse (normal, tangential) of one impact, before the energy bound; see `surrogate.py`.

    Args:
        slide: u_t/|u_n|.
        coupling: A_tn/A_nn.
        log_tangent: log(A_tt/A_nn).
        log_speed: log|u_n|.
        simulated: (4,), what the simulator would be given at this speed.
        middle, half: (4,), of the logarithmic ranges of `simulated`.
        first: (8, width), half the weights of the first layer.
        hidden: (depth - 1, width, width), half the weights of the others.
        biases: (depth, width), half the biases.
        last: (width, 2).
        last_bias: (2,).
    """
    slip = slide / (1.0 + abs(slide))
    x = np.empty((2, 8))
    x[0, 0], x[0, 1], x[0, 2], x[0, 3] = slip, coupling, log_tangent, log_speed
    x[0, 4:] = (np.log(simulated) - middle) / half
    x[1] = x[0]
    x[1, 0], x[1, 1] = -slip, -coupling
    z = x @ first + biases[0]
    h = z * (1.0 + np.tanh(z))
    for k in range(hidden.shape[0]):
        z = h @ hidden[k] + biases[k + 1]
        h = z * (1.0 + np.tanh(z))
    heads = h @ last + last_bias
    bounce = 0.5 * (heads[0, 0] + heads[1, 0])
    restitution = 0.5 * (bounce + abs(bounce)) + math.log1p(math.exp(-abs(bounce)))
    ratio = simulated[0] * math.tanh(0.5 * (heads[0, 1] - heads[1, 1]))
    normal = (1.0 + restitution) / max(1.0 + ratio * coupling, MIN_EFFECT)
    return normal, ratio * normal


@cache
def compiled() -> Callable[..., Any]:
    """`impulse` through numba.

    Raises:
        MissingExtra: numba is not installed.
    """
    return require("numba").njit(cache=False, fastmath=False)(impulse)
