"""One value that says everything about two rates, in one line or as JSON; and a family of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool

from dexprior.errors import BadInput
from dexprior.stats.boschloo import boschloo
from dexprior.stats.correction import holm
from dexprior.stats.intervals import Rate, newcombe
from dexprior.stats.posterior import probability_better, probability_better_paired
from dexprior.stats.power import detectable, detectable_paired
from dexprior.stats.tests import PairedRates

__all__ = ["Comparison", "Family", "compare_pairs", "compare_rates"]

POWER = 0.8
"""Power with which the detectable differences are stated."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two rates, what they differ by, and what this many trials could have shown.

    Paired: Tango's interval, exact McNemar test, Dirichlet posterior. Unpaired: Newcombe's interval, Boschloo's test,
    Beta posteriors. Differences are first minus second. Without trials on a side nothing is testable: every result is
    None.
    """

    first: Rate
    second: Rate
    names: tuple[str, str] = ("first", "second")
    pairs: PairedRates | None = None
    """Outcomes of the same instances under both."""
    panel: str | None = None
    """Hash of the instances, where they have one."""
    level: float = 0.95
    """Level of the intervals; the test is read at 1 - level."""

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise BadInput(f"level = {self.level}: must lie between 0 and 1")
        if self.names[0] == self.names[1]:
            raise BadInput(f"both sides are called {self.names[0]!r}")
        if self.pairs is not None:
            won = (self.pairs.both + self.pairs.only_first, self.pairs.both + self.pairs.only_second)
            if (self.first, self.second) != (Rate(won[0], self.pairs.n), Rate(won[1], self.pairs.n)):
                raise BadInput(f"{self.pairs} and the rates {self.first}, {self.second} do not add up")

    @property
    def testable(self) -> bool:
        """Whether both sides were tried at all."""
        return self.first.n > 0 and self.second.n > 0

    @property
    def difference(self) -> float | None:
        """First rate minus second."""
        return self.first.k / self.first.n - self.second.k / self.second.n if self.testable else None

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        """Interval of the difference."""
        if not self.testable:
            return None
        if self.pairs is not None:
            return self.pairs.interval(self.level)
        return newcombe(self.first.k, self.first.n, self.second.k, self.second.n, self.level)

    @cached_property
    def p_value(self) -> float | None:
        """Two-sided, of no difference."""
        if not self.testable:
            return None
        if self.pairs is not None:
            return self.pairs.p_value()
        return boschloo(self.first.k, self.first.n, self.second.k, self.second.n)

    @cached_property
    def probability_better(self) -> float | None:
        """Posterior probability that the first rate is higher, flat before the trials."""
        if not self.testable:
            return None
        if self.pairs is not None:
            return probability_better_paired(self.pairs.only_first, self.pairs.only_second)
        return probability_better(self.first.k, self.first.n, self.second.k, self.second.n)

    @cached_property
    def detectable(self) -> tuple[float | None, float | None]:
        """Least difference for the better, for the worse, that this test finds with a power of 0.8; None: none.

        The second rate (paired: the share of pairs that go the other way) is taken as observed.
        """
        if not self.testable:
            return None, None
        alpha = 1.0 - self.level
        if self.pairs is not None:
            n = self.pairs.n
            against = (self.pairs.only_second / n, self.pairs.only_first / n)
            up, down = (detectable_paired(n, share, alpha=alpha, power=POWER) for share in against)
        else:
            sizes, baseline = (self.first.n, self.second.n), self.second.k / self.second.n
            up = detectable(*sizes, baseline, direction="better", alpha=alpha, power=POWER)
            down = detectable(*sizes, baseline, direction="worse", alpha=alpha, power=POWER)
        return up, None if down is None else -down

    def __str__(self) -> str:
        sides = " vs ".join(f"{name} {rate}" for name, rate in zip(self.names, (self.first, self.second)))
        panel = "" if self.panel is None else f", panel {self.panel}"
        if self.difference is None or self.interval is None or self.probability_better is None:
            return f"{sides}: not testable{panel}"
        kind = "unpaired" if self.pairs is None else f"{self.pairs.n} pairs"
        test = "Boschloo" if self.pairs is None else "McNemar"
        low, high = self.interval
        found = " or ".join(f"{d:+.0%}" for d in self.detectable if d is not None) or "no difference"
        return (
            f"{sides}, {kind}: {self.difference:+.0%} [{low:+.0%}, {high:+.0%}], {test} p = {self.p_value:.2g}, "
            f"P(better) {_probability(self.probability_better)}, {POWER:.0%} power from {found}{panel}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON; `text` is the line."""
        up, down = self.detectable
        return {
            "names": list(self.names),
            "rates": [self.first.as_dict(), self.second.as_dict()],
            "pairs": None if self.pairs is None else asdict(self.pairs),
            "n": self.first.n + self.second.n if self.pairs is None else self.pairs.n,
            "difference": self.difference,
            "interval": None if self.interval is None else list(self.interval),
            "interval_method": "newcombe" if self.pairs is None else "tango",
            "level": self.level,
            "p_boschloo" if self.pairs is None else "p_mcnemar": self.p_value,
            "p_better": self.probability_better,
            "detectable": {"better": up, "worse": down, "power": POWER},
            "panel": self.panel,
            "text": str(self),
        }


def _probability(p: float) -> str:
    return "< 0.001" if p < 0.001 else "> 0.999" if p > 0.999 else f"= {p:.3f}"


def compare_rates(
    first: Rate,
    second: Rate,
    *,
    names: tuple[str, str] = ("first", "second"),
    panel: str | None = None,
    level: float = 0.95,
) -> Comparison:
    """Two rates of independent trials."""
    return Comparison(first=first, second=second, names=names, panel=panel, level=level)


def compare_pairs(
    first: Bool[np.ndarray, " n"],
    second: Bool[np.ndarray, " n"],
    *,
    names: tuple[str, str] = ("first", "second"),
    panel: str | None = None,
    level: float = 0.95,
) -> Comparison:
    """Two rates on the same instances, in the same order.

    Raises:
        BadInput: the numbers of outcomes differ.
    """
    pairs = PairedRates.of(first, second)
    return Comparison(
        first=Rate(pairs.both + pairs.only_first, pairs.n),
        second=Rate(pairs.both + pairs.only_second, pairs.n),
        names=names,
        pairs=pairs,
        panel=panel,
        level=level,
    )


@dataclass(frozen=True)
class Family:
    """Comparisons that are read together: their p values are corrected for how many they are."""

    members: Mapping[str, Comparison]

    def adjusted(self) -> dict[str, float | None]:
        """Holm's p value of each; None where nothing was testable, which does not count as a test."""
        tested = {name: c.p_value for name, c in self.members.items() if c.p_value is not None}
        corrected = dict(zip(tested, holm(list(tested.values())).tolist()))
        return {name: corrected.get(name) for name in self.members}

    def __str__(self) -> str:
        adjusted = self.adjusted()
        lines = []
        for name, comparison in self.members.items():
            p = adjusted[name]
            lines.append(f"{name}: {comparison}" + ("" if p is None else f", Holm p = {p:.2g}"))
        return "\n".join(lines)

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """Each comparison with its corrected `p_holm`; plain data for JSON."""
        return {
            name: c.as_dict() | {"p_holm": p} for (name, c), p in zip(self.members.items(), self.adjusted().values())
        }
