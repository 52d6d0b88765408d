"""What is believed of the success that each gap costs, what trials would tell, and what they told.

The closable gap is T = sum of c_k over the six gaps: success that the policy gains when what collection k brings is in
its training. What costs success otherwise is u, "unknown", so that sim - real = T + u. Before the trials the c_k are
independent, each a mixture of two normal distributions:

    c_k ~ p_k N(m_k, s_k^2) + (1 - p_k) N(0, q^2)

with p_k the diagnosis's probability, m_k and s_k what an active gap is thought to cost, and q what an inactive one may.
A pair is two runs of one instance, without and with; of n pairs `gain` are solved only with, `loss` only without:

    L(c) = int a^gain b^loss (1 - d)^(n - gain - loss) dd,   a = (d + c) / 2, b = (d - c) / 2,  d flat in (|c|, 1)

where d is the share of pairs that disagree. Densities stand on a grid: nothing but the grid is approximated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float

from dexprior.artifacts import read_object
from dexprior.errors import BadInput, UnknownName
from dexprior.families import GAPS
from dexprior.reading import as_described, mapping, number

__all__ = ["UNKNOWN", "Belief", "Contribution", "Noise", "PairCounts", "check_probabilities", "read_probabilities"]

UNKNOWN = "unknown"
_NAMES = tuple(GAPS)
_STEP = 0.01
_C = np.linspace(-1.0, 1.0, round(2 / _STEP) + 1)
_T = np.linspace(-2.0, 2.0, round(4 / _STEP) + 1)
_REST = np.arange(len(_T))[None] - np.arange(len(_C))[:, None] + len(_C) - 1  # index of T - c in [-3, 3]
_DISAGREE = (np.arange(64) + 0.5) / 64
_NOTHING = 1e-9  # mass of a grid point below which it is left out of sums over readings
_READINGS = 41  # values at least that a mean of n pairs may have


@dataclass(frozen=True)
class Contribution:
    """What a gap costs where it is active [difference of success rates]."""

    mean: float
    std: float

    def __post_init__(self) -> None:
        if not (-1.0 <= self.mean <= 1.0 and 2 * _STEP <= self.std <= 1.0):
            raise BadInput(f"{self}: the mean must lie within -1..1, the standard deviation within {2 * _STEP}..1")


@dataclass(frozen=True)
class PairCounts:
    """Pairs that were run: how many were solved only with, and only without."""

    gain: int
    loss: int
    n: int

    def __post_init__(self) -> None:
        if min(self.gain, self.loss) < 0 or self.gain + self.loss > self.n:
            raise BadInput(f"{self}: counts may not be negative, nor exceed the pairs")

    def __add__(self, other: PairCounts) -> PairCounts:
        return PairCounts(self.gain + other.gain, self.loss + other.loss, self.n + other.n)


@dataclass(frozen=True)
class Noise:
    """How much the difference of one pair scatters: Bernoulli outcomes at two rates, correlated by the instance."""

    base: float
    """Success rate without."""
    pairing: float
    """Correlation of the two outcomes of a pair."""

    def __post_init__(self) -> None:
        if not (0.0 <= self.base <= 1.0 and 0.0 <= self.pairing < 1.0):
            raise BadInput(f"{self}: the rate must lie within 0..1, the correlation within 0..1, below 1")

    def variance(self, c: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Variance of one pair's difference, where collection gains c; rates are kept 0.02 off their ends."""
        p, q = np.clip(self.base, 0.02, 0.98), np.clip(self.base + c, 0.02, 0.98)
        vp, vq = p * (1 - p), q * (1 - q)
        return vp + vq - 2 * self.pairing * np.sqrt(vp * vq)


@dataclass(frozen=True)
class Belief:
    """A posterior of the contributions; new counts make a new one."""

    prior: Float[np.ndarray, "gap c"]
    """Prior of each gap's contribution, in the order of GAPS, as masses on the grid."""
    evidence: Float[np.ndarray, " total"]
    """Likelihood of a measured sim - real, given T."""
    unknown_variance: float = 0.0
    """Variance of what is no gap's, where the evidence holds a measured sim - real."""
    counts: Mapping[str, PairCounts] = field(default_factory=dict)

    @classmethod
    def from_diagnosis(
        cls,
        probabilities: Mapping[str, float],
        contributions: Mapping[str, Contribution],
        *,
        quiet: float = 0.02,
        trust: float = 0.7,
        measured: tuple[float, float] | None = None,
    ) -> Belief:
        """The belief before the first trial.

        Args:
            probabilities: of every gap and of "unknown"; they sum to one.
            contributions: of every gap, and of "unknown" if `measured` is given.
            quiet: standard deviation of what an inactive gap costs.
            trust: how often the diagnosis is thought to be to the point; with the rest nothing is known:
                p' = trust p + (1 - trust) / 7.
            measured: sim - real and its standard deviation, where the policy was tried in both worlds.

        Raises:
            BadInput: probabilities that are none or do not sum to one; a gap without a contribution.
            UnknownName: a gap that there is not.
        """
        check_probabilities(probabilities)
        needed = (*_NAMES, *(() if measured is None else (UNKNOWN,)))
        for name in contributions:
            _check_name(name)
        missing = [name for name in needed if name not in contributions]
        if missing:
            raise BadInput(f"no contribution is given for {', '.join(missing)}")
        if not (_STEP <= quiet <= 1.0 and 0.0 <= trust <= 1.0):
            raise BadInput(f"quiet = {quiet}, trust = {trust}: within {_STEP}..1 and 0..1")
        share = {n: trust * probabilities.get(n, 0.0) + (1 - trust) / (len(_NAMES) + 1) for n in (*_NAMES, UNKNOWN)}
        prior = np.stack([_mixture(_C, share[n], contributions[n], quiet) for n in _NAMES])
        evidence, scatter = np.ones(len(_T)), 0.0
        if measured is not None:
            value, std = measured
            if not (-1.0 <= value <= 1.0 and 0.0 < std <= 1.0):
                raise BadInput(f"measured = {measured}: a gap within -1..1 and a standard deviation above 0 are needed")
            unknown = _mixture(_C, share[UNKNOWN], contributions[UNKNOWN], quiet)
            scatter = float(unknown @ (_C - unknown @ _C) ** 2)
            z = (value - _T[:, None] - _C) / std
            evidence = np.exp(-0.5 * z**2) @ unknown
        return cls(prior / prior.sum(axis=1, keepdims=True), evidence, scatter)

    def updated(self, counts: Mapping[str, PairCounts]) -> Belief:
        """This belief with more pairs, by gap.

        Raises:
            UnknownName: a gap that there is not.
        """
        for name in counts:
            _check_name(name, trials=True)
        joined = {n: self.counts.get(n, PairCounts(0, 0, 0)) + counts.get(n, PairCounts(0, 0, 0)) for n in _NAMES}
        return replace(self, counts={n: c for n, c in joined.items() if c.n})

    @cached_property
    def factors(self) -> Float[np.ndarray, "gap c"]:
        """Masses of the contributions given their own pairs, without what the measured gap adds."""
        rows = []
        for name, prior in zip(_NAMES, self.prior):
            mass = prior * _likelihood(self.counts[name]) if name in self.counts else prior
            rows.append(mass / mass.sum())
        return np.stack(rows)

    @cached_property
    def total(self) -> Float[np.ndarray, " total"]:
        """Masses of T."""
        mass = _sum_of(self.factors, (len(_T) - 1) // 2) * self.evidence
        return mass / mass.sum()

    @property
    def mean(self) -> float:
        """Mean of T."""
        return float(self.total @ _T)

    @property
    def variance(self) -> float:
        """Variance of T."""
        return float(self.total @ (_T - self.mean) ** 2)

    def variance_of_sum(self) -> float:
        """Variance of T without the measured gap: a sum over gaps."""
        return float(sum(mass @ (_C - mass @ _C) ** 2 for mass in self.factors))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Interval of T, with equal tails."""
        return _quantiles(_T, self.total, level)

    def width(self, level: float = 0.95) -> float:
        """Width of that interval."""
        low, high = self.interval(level)
        return high - low

    def contribution(self, gap: str, level: float = 0.95) -> dict[str, float]:
        """Mean and interval of one gap's contribution."""
        _check_name(gap, trials=True)
        mass = self._joint(gap).sum(axis=1)
        low, high = _quantiles(_C, mass, level)
        return {"mean": float(mass @ _C), "low": low, "high": high}

    def information(self, gap: str, noise: Noise, pairs: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Mutual information between T and the mean difference of so many more pairs of a gap's protocol [nat].

        I(y; T) = sum p(y, T) log p(y, T) / (p(y) p(T)), Lindley 1956, with y | c normal of variance v(c) / n. The sum
        over (y, T) runs over grids: what nested Monte Carlo (Rainforth et al. 2018) would estimate, without its bias.
        Among normal distributions it is -log(1 - corr(y, T)^2) / 2.
        """
        _check_name(gap, trials=True)
        joint = self._joint(gap)
        joint = np.add.reduceat(joint, np.arange(0, len(_T), 2), axis=1)
        cost, total = (joint.sum(axis=k) > _NOTHING for k in (1, 0))
        joint = joint[np.ix_(cost, total)]
        joint /= joint.sum()
        found = np.empty(len(pairs))
        for i, n in enumerate(pairs):
            both = _readings(_C[cost], noise, n) @ joint
            alone = both.sum(axis=1, keepdims=True) * both.sum(axis=0, keepdims=True)
            some = both > 1e-300
            found[i] = np.sum(both[some] * np.log(both[some] / alone[some]))
        return np.maximum(found, 0.0)

    def expected_variances(self, gap: str, noise: Noise, pairs: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Variance of a gap's contribution that is expected to be left after so many more of its pairs."""
        _check_name(gap, trials=True)
        mass, left = self.factors[_NAMES.index(gap)], np.empty(len(pairs))
        c = _C[mass > _NOTHING]
        mass = mass[mass > _NOTHING] / mass[mass > _NOTHING].sum()
        for i, n in enumerate(pairs):
            if n == 0:
                left[i] = mass @ (c - mass @ c) ** 2
                continue
            both = _readings(c, noise, n) * mass
            seen = np.maximum(both.sum(axis=1), 1e-300)
            left[i] = mass @ c**2 - np.sum((both @ c) ** 2 / seen)
        return np.maximum(left, 0.0)

    def _joint(self, gap: str) -> Float[np.ndarray, "c total"]:
        """Masses of a contribution together with T."""
        k = _NAMES.index(gap)
        rest = _sum_of(np.delete(self.factors, k, axis=0), len(_T) // 2 + len(_C) // 2)
        joint = self.factors[k][:, None] * rest[_REST] * self.evidence
        return joint / joint.sum()


def check_probabilities(probabilities: Mapping[str, float]) -> None:
    """Refuse what is no distribution over the six gaps and "unknown".

    Raises:
        BadInput: a value that is no probability, or a sum that is not one.
        UnknownName: a gap that there is not.
    """
    for name, value in probabilities.items():
        _check_name(name)
        if not (np.isfinite(value) and 0.0 <= value <= 1.0):
            raise BadInput(f"probability of {name!r} = {value}: must lie within 0..1")
    total = float(sum(probabilities.values()))
    if abs(total - 1.0) > 1e-3:
        raise BadInput(f"the probabilities of {', '.join(probabilities) or 'no gap'} sum to {total:g}: must be 1")


def read_probabilities(path: str | Path) -> dict[str, float]:
    """Read a diagnosis: a JSON mapping from gaps to probabilities, alone or under `probabilities`.

    Raises:
        ArtifactError: no such file, or no JSON object.
        BadInput: no mapping to numbers, or as `check_probabilities`, also for an unknown gap.
    """
    data = read_object(path, "a diagnosis")
    with as_described("a diagnosis", path):
        data = mapping(data.get("probabilities", data), f"{path}: probabilities")
        found = {name: number(value, f"{path}: {name}") for name, value in data.items()}
        check_probabilities(found)
    return found


def _check_name(name: str, *, trials: bool = False) -> None:
    if name not in _NAMES and (trials or name != UNKNOWN):
        raise UnknownName("gap", name, _NAMES if trials else (*_NAMES, UNKNOWN))


def _mixture(x: np.ndarray, share: float, active: Contribution, quiet: float) -> np.ndarray:
    def normal(mean: float, std: float) -> np.ndarray:
        mass = np.exp(-0.5 * ((x - mean) / std) ** 2)
        return mass / mass.sum()

    return share * normal(active.mean, active.std) + (1 - share) * normal(0.0, quiet)


def _likelihood(counts: PairCounts) -> Float[np.ndarray, " c"]:
    """L(c) up to a factor; the disagreement is integrated out."""
    size = np.abs(_C)[:, None]
    d = size + (1.0 - size) * _DISAGREE
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.zeros_like(d)
        for k, p in (
            (counts.gain, (d + _C[:, None]) / 2),
            (counts.loss, (d - _C[:, None]) / 2),
            (counts.n - counts.gain - counts.loss, 1.0 - d),
        ):
            log += k * np.log(np.maximum(p, 1e-300)) if k else 0.0
    return np.exp(log - log.max()).mean(axis=1)


def _sum_of(masses: Float[np.ndarray, "n c"], reach: int) -> Float[np.ndarray, " total"]:
    """Masses of a sum of independent contributions, from -reach to reach steps."""
    length = len(masses) * (len(_C) - 1) + 1
    size = 1 << (length - 1).bit_length()
    whole = np.fft.irfft(np.prod(np.fft.rfft(masses, size, axis=1), axis=0), size)[:length]
    middle = (length - 1) // 2
    return np.maximum(whole[middle - reach : middle + reach + 1], 0.0)


def _readings(c: Float[np.ndarray, " c"], noise: Noise, n: float) -> Float[np.ndarray, "y c"]:
    """p(y | c) of the mean y of n pairs, on a grid over what y may be."""
    std = np.sqrt(noise.variance(c) / n)
    low, high = np.min(c - 5 * std), np.max(c + 5 * std)
    points = max(_READINGS, int((high - low) / (0.8 * std.min())) + 1)
    kernel = np.exp(-0.5 * ((np.linspace(low, high, points)[:, None] - c) / std) ** 2)
    return kernel / np.maximum(kernel.sum(axis=0), 1e-300)


def _quantiles(x: np.ndarray, mass: np.ndarray, level: float) -> tuple[float, float]:
    tail = (1.0 - level) / 2.0
    at = np.cumsum(mass) - 0.5 * mass
    low, high = np.interp([tail, 1.0 - tail], at, x)
    return float(low), float(high)
