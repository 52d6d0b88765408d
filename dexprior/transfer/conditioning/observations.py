"""What real repeats of one motion measured, how far repeats scatter, and how likely a prediction makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput
from dexprior.types.trace import Trace

__all__ = ["Observations"]

_FLOOR = 1e-18  # of a group's sum of squares, relative to that of its values: a perfect fit is not infinitely likely
_REFERENCE = 20_000  # draws of the test statistic where noise is estimated
_REFERENCE_SEED = 20_001


@dataclass(frozen=True, kw_only=True)
class Observations:
    """Summaries of repeats: y_rj = s_j(phi) + e_rj with independent normal errors, those of a group of one size.

    Sizes that are not declared are integrated out under Jeffreys' prior 1 / sigma, which leaves the likelihood

        prod_g (sum_r sum_(j in g) (y_rj - s_j)^2)^(-R d_g / 2)

    for R repeats and d_g summaries of a group (Gelman et al., "Bayesian Data Analysis", sec. 3.2).
    """

    values: Float[np.ndarray, "repeat summary"]
    names: tuple[str, ...] = ()
    """Names of the summaries; numbers by default."""
    groups: tuple[str, ...] = ()
    """Group of each summary, by what its noise has in common; each its own by default."""
    noise: Float[np.ndarray, " summary"] | None = None
    """Standard deviations, where they are known; None takes them from repeats, or from the misfit of a single one."""

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        if values.ndim != 2 or 0 in values.shape:
            raise BadInput(f"observations of shape {values.shape}, expected (repeat, summary), one or more of each")
        d = values.shape[1]
        names = self.names or tuple(f"summary {j}" for j in range(d))
        groups = self.groups or names
        if len(names) != d or len(groups) != d:
            raise BadInput(f"observations: {len(names)} names and {len(groups)} groups for {d} summaries")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "groups", groups)
        if not np.isfinite(values).all():
            repeat, summary = np.argwhere(~np.isfinite(values))[0]
            raise BadInput(f"observations: {names[summary]!r} of repeat {repeat} is {values[repeat, summary]}")
        values.setflags(write=False)
        object.__setattr__(self, "values", values)
        if self.noise is not None:
            noise = np.array(self.noise, dtype=np.float64)
            if noise.shape != (d,) or not (np.isfinite(noise) & (noise > 0)).all():
                raise BadInput(f"observations: noise {noise.tolist()} must be {d} positive standard deviations")
            object.__setattr__(self, "noise", noise)
            return
        for g, name in enumerate(self._group_names):
            size, within = int(self._members[g].sum()), float(self._within[g])
            if self.repeats > 1 and within <= _FLOOR * float(self._power[g]):
                raise BadInput(
                    f"observations: the {self.repeats} repeats of {name!r} are equal, and say nothing of their noise; "
                    "declare it with noise="
                )
            if self.repeats == 1 and size < 2:
                raise BadInput(
                    f"observations: one repeat of {name!r} alone cannot tell its noise; record more repeats, "
                    "declare it with noise=, or group it with other summaries"
                )

    @classmethod
    def of_traces(
        cls,
        traces: Sequence[Trace],
        channels: Sequence[str],
        t: Float[np.ndarray, " time"],
        *,
        noise: Float[np.ndarray, " summary"] | None = None,
    ) -> Observations:
        """Measured channels of repeats at common times; entries of one column of a channel share their noise.

        Summaries are ordered by channel, then column, then time. Between readings the signal is interpolated.

        Args:
            traces: one a repeat, of one panel.
            channels: names of measured channels.
            t: seconds on the traces' own clocks.
            noise: see the class.

        Raises:
            BadInput: no trace or channel, traces of different panels, a privileged channel, channels that do not reach
                over `t` or differ in width.
            UnknownName: no such channel.
        """
        t = np.asarray(t, dtype=np.float64)
        if not traces or not channels or t.ndim != 1 or not len(t):
            raise BadInput(
                f"observations of {len(traces)} traces, {len(channels)} channels and times of shape {t.shape}"
            )
        panels = {trace.panel_hash for trace in traces}
        if len(panels) > 1:
            raise BadInput(f"traces of different panels are no repeats: {', '.join(sorted(panels))}")
        rows = []
        for r, trace in enumerate(traces):
            columns = []
            for name in channels:
                channel = trace[name]
                if channel.kind == "privileged":
                    raise BadInput(f"channel {name!r} is privileged: no identification may read it")
                if t.min() < channel.t[0] or t.max() > channel.t[-1]:
                    raise BadInput(
                        f"channel {name!r} of repeat {r} covers {channel.t[0]:g} to {channel.t[-1]:g} s, not "
                        f"{t.min():g} to {t.max():g} s"
                    )
                columns.append(np.stack([np.interp(t, channel.t, column) for column in channel.value.T]))
            rows.append(columns)
        widths = [[len(block) for block in row] for row in rows]
        if any(width != widths[0] for width in widths):
            raise BadInput(f"repeats have channels of different widths: {widths}")
        groups = [f"{name}[{k}]" for name, width in zip(channels, widths[0]) for k in range(width)]
        return cls(
            values=np.stack([np.concatenate(row).ravel() for row in rows]),
            names=tuple(f"{group} at {at:g} s" for group in groups for at in t),
            groups=tuple(group for group in groups for _ in t),
            noise=noise,
        )

    @property
    def repeats(self) -> int:
        """R"""
        return len(self.values)

    @property
    def size(self) -> int:
        """d: summaries."""
        return self.values.shape[1]

    @cached_property
    def mean(self) -> Float[np.ndarray, " summary"]:
        """Over repeats."""
        return self.values.mean(axis=0)

    @cached_property
    def std(self) -> Float[np.ndarray, " summary"] | None:
        """Noise of a repeat, declared or estimated; None of a single repeat without a declaration."""
        if self.noise is not None:
            return self.noise
        if self.repeats == 1:
            return None
        sizes = self._members.sum(axis=1)
        return np.sqrt(self._within / ((self.repeats - 1) * sizes))[self._group_of]

    def log_likelihood(self, predicted: Float[np.ndarray, "n summary"]) -> Float[np.ndarray, " n"]:
        """Logarithm of each prediction's likelihood, but for a constant; -inf where one is not finite."""
        with np.errstate(invalid="ignore", over="ignore"):
            apart = (self.mean - predicted) ** 2
            if self.noise is not None:
                found = -0.5 * self.repeats * (apart / self.noise**2).sum(axis=1)
            else:
                total = self._within + self.repeats * apart @ self._members.T + _FLOOR * self._power
                found = -0.5 * self.repeats * (np.log(total) @ self._members.sum(axis=1))
        return np.where(np.isfinite(predicted).all(axis=1), found, -np.inf)

    def misfit_std(self, predicted: Float[np.ndarray, " summary"], fitted: int) -> Float[np.ndarray, " summary"]:
        """Noise that the misfit to a prediction suggests, with `fitted` parameters counted off."""
        squares = ((self.values - predicted) ** 2).sum(axis=0) @ self._members.T
        left = max(1.0 - fitted / self.values.size, 1.0 / self.values.size)
        sizes = self._members.sum(axis=1) * self.repeats * left
        return np.sqrt(np.maximum(squares / sizes, _FLOOR * self._power))[self._group_of]

    def misfit(self, predicted: Float[np.ndarray, " summary"]) -> float:
        """R sum_j ((mean_j - s_j) / std_j)^2 of a prediction: minus twice its log likelihood at this noise, but for a
        constant."""
        assert self.std is not None
        return float(self.repeats * (((self.mean - predicted) / self.std) ** 2).sum())

    def lack_of_fit(self, predicted: Float[np.ndarray, " summary"], fitted: int) -> float | None:
        """p value of the best prediction: how often repeats lie as far from the mean of their own family.

        Its `misfit` is referred to a chi-square of d - `fitted` degrees of freedom
        where noise is declared, else to draws of what it is with estimated noise, scaled by (d - fitted) / d. None for
        a single repeat without declared noise: misfit and noise are then the same thing.
        """
        from scipy.stats import chi2

        if self.std is None:
            return None
        statistic = self.misfit(predicted)
        free = max(self.size - fitted, 1)
        if self.noise is not None:
            return float(chi2.sf(statistic, free))
        rng = np.random.default_rng(_REFERENCE_SEED)
        sizes = self._members.sum(axis=1)
        above = rng.chisquare(sizes, (_REFERENCE, len(sizes)))
        within = rng.chisquare((self.repeats - 1) * sizes, (_REFERENCE, len(sizes))) / ((self.repeats - 1) * sizes)
        drawn = (above / within).sum(axis=1) * free / self.size
        return float((1 + (drawn >= statistic).sum()) / (1 + _REFERENCE))

    @cached_property
    def _group_names(self) -> list[str]:
        return list(dict.fromkeys(self.groups))

    @cached_property
    def _group_of(self) -> np.ndarray:
        return np.array([self._group_names.index(name) for name in self.groups])

    @cached_property
    def _members(self) -> Float[np.ndarray, "group summary"]:
        return (self._group_of == np.arange(len(self._group_names))[:, None]).astype(np.float64)

    @cached_property
    def _within(self) -> Float[np.ndarray, " group"]:
        """Sums of squares about the mean of the repeats."""
        return self._members @ ((self.values - self.mean) ** 2).sum(axis=0)

    @cached_property
    def _power(self) -> Float[np.ndarray, " group"]:
        """Sums of squares of the values, and never zero."""
        return self._members @ (self.values**2).sum(axis=0) + np.finfo(float).tiny
