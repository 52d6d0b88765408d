"""What lies between a sensor and its reader, or a reader and its servo: latency, jitter, bursts of loss.

    arrival_k = send_k + latency + jitter E_k              E_k exponential of mean 1, cut off at 8
    arrival_k = max(arrival_k, arrival_(k-1))              packets do not overtake each other, unless asked
    lost_k with P(lost | state_k), state: P(good -> bad) = start, P(bad -> good) = stop

Loss: Gilbert 1960, "Capacity of a burst-noise channel", and Elliott 1963. Bursts have a mean length of 1 / stop packets
where a bad state loses all; the long-run loss is start / (start + stop).
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from jaxtyping import Bool, Float, Int

from dexprior.config import Ge, Gt, Le, config
from dexprior.errors import BadInput
from dexprior.families.sensors.sampler import Draws, Rows, Sampler

__all__ = ["Transport", "TransportConfig", "newest"]

_LONGEST = 8.0  # of E_k; beyond lies one packet in 3000


@config
class TransportConfig:
    """One link; the defaults pass everything at once."""

    latency: Annotated[float, Ge(0)] = 0.0
    """Shortest time on the way [s]."""
    jitter: Annotated[float, Ge(0)] = 0.0
    """Mean time beyond that [s]."""
    start: Annotated[float, Ge(0), Le(1)] = 0.0
    """Probability that a burst of loss starts with a packet."""
    stop: Annotated[float, Gt(0), Le(1)] = 0.5
    """Probability that it ends with a packet."""
    lost_good: Annotated[float, Ge(0), Le(1)] = 0.0
    """Probability that a packet is lost outside bursts."""
    lost_bad: Annotated[float, Ge(0), Le(1)] = 1.0
    """Probability that a packet is lost within a burst."""
    overtaking: bool = False
    """Whether packets may arrive in another order than they were sent in."""

    @property
    def longest(self) -> float:
        """Longest time on the way [s]."""
        return self.latency + _LONGEST * self.jitter


class Transport(Sampler):
    """Links of n worlds; `run` takes times of sending (n, time, 1) and gives times of arrival, inf for what is lost.

    Args:
        config: of each link.
        n: links.
        dt: usual time between two packets [s].
        seeds: of each link.
    """

    def __init__(self, config: TransportConfig, n: int, dt: float, seeds: np.ndarray | None = None) -> None:
        self.config = config
        super().__init__(n, 1, dt, seeds)

    def arrivals(
        self, sent: Float[np.ndarray, "m time"], ids: np.ndarray | None = None
    ) -> tuple[Float[np.ndarray, "m time"], Bool[np.ndarray, "m time"]]:
        """When packets arrive [s], inf for those that never do, and which are lost.

        Raises:
            BadInput: times of sending that fall, or of another shape.
        """
        sent = np.asarray(sent, dtype=np.float64)
        if sent.ndim != 2 or (np.diff(sent, axis=1) < 0).any():
            raise BadInput(
                f"Transport: times of sending of shape {sent.shape}; (links, time) that never fall are needed"
            )
        arrival = self.run(sent[..., None], ids)[..., 0]
        return arrival, ~np.isfinite(arrival)

    def _memory(self) -> dict[str, np.ndarray]:
        return {"bad": np.zeros((self.n, 1), dtype=bool), "last": np.full((self.n, 1), -np.inf)}

    def _begin(self, rows: Rows, draws: Draws) -> None:
        rows["last"][:] = -np.inf

    def _read(self, values: Float[np.ndarray, "m time 1"], rows: Rows, draws: Draws) -> Float[np.ndarray, "m time 1"]:
        c = self.config
        waits = np.minimum(-np.log(draws.uniform("transport/jitter", 1)), _LONGEST)
        arrival = values + c.latency + c.jitter * waits
        if not c.overtaking:
            arrival = np.maximum(np.maximum.accumulate(arrival, axis=1), rows["last"][:, None])
            rows["last"] = arrival[:, -1].copy()
        u = draws.uniform("transport/loss", 2)
        bad = np.empty(values.shape, dtype=bool)
        now = rows["bad"]
        for k in range(values.shape[1]):
            now = np.where(now, u[:, k, :1] >= c.stop, u[:, k, :1] < c.start)
            bad[:, k] = now
        rows["bad"] = now
        lost = u[..., 1:] < np.where(bad, c.lost_bad, c.lost_good)
        return np.where(lost, np.inf, arrival)


def newest(arrivals: Float[np.ndarray, "n time"], at: Float[np.ndarray, "n query"]) -> Int[np.ndarray, "n query"]:
    """Index of the newest packet, by when it was sent, that has arrived by some times; -1 where none has.

    Args:
        arrivals: of packets in the order in which they were sent [s]; inf for lost ones.
        at: times at which the receiver looks [s], in any order.
    """
    arrivals, at = np.asarray(arrivals, dtype=np.float64), np.asarray(at, dtype=np.float64)
    if arrivals.ndim != 2 or at.ndim != 2 or len(arrivals) != len(at):
        raise BadInput(
            f"newest: arrivals of shape {arrivals.shape} and times of shape {at.shape}; (n, time), (n, query)"
        )
    packets = arrivals.shape[1]
    times = np.concatenate([arrivals, at], axis=1)
    order = np.argsort(times, axis=1, kind="stable")  # at equal times a packet comes before who looks for it
    best = np.maximum.accumulate(np.where(order < packets, order, -1), axis=1)
    seen = np.empty_like(best)
    np.put_along_axis(seen, order, best, axis=1)
    return seen[:, packets:]
