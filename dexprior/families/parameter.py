"""One uncertain number of a simulator: its support, its marginal, its scale, and where it goes."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput, UnknownName

__all__ = ["Parameter", "Transform"]

Distribution = Literal["uniform", "log_uniform", "normal"]
Transform = Literal["identity", "log", "logit"]
_ELEMENTS = ("geom", "body", "joint", "actuator", "pair", "option", "world")
_EDGE = 1e-12  # share of a support next to its ends that counts as the end: the line has no infinite coordinates


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One uncertain number.

    `target` says where it goes: `ELEMENT/GLOB/FIELD[/INDEX]`, e.g. `geom/nut*/friction/0` or `body/nut/mass`;
    `option/-/impratio` for global options; `world/-/NAME` for a value that the world itself applies (delays, noise).
    """

    name: str
    unit: str
    low: float
    high: float
    distribution: Distribution = "uniform"
    mean: float | None = None
    std: float | None = None
    target: str
    operation: Literal["set", "scale"] = "set"
    provenance: Literal["measured", "fitted", "assumed"] = "assumed"
    identifiable: bool | None = None
    """None until an identification has been tried; False where it said little more than what was believed before."""
    transform: Transform | None = None
    """Scale on which it is reasoned about, see `scale`; None takes `log` for `log_uniform`, else `identity`."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise BadInput(f"parameter {self.name!r}: support [{self.low}, {self.high}] is empty or not finite")
        if self.distribution == "log_uniform" and self.low <= 0:
            raise BadInput(f"parameter {self.name!r}: log_uniform needs a positive support, got low = {self.low}")
        if self.distribution == "normal" and (self.mean is None or not self.std or self.std <= 0):
            raise BadInput(f"parameter {self.name!r}: normal needs a mean and a positive std")
        if self.distribution not in ("uniform", "log_uniform", "normal"):
            raise UnknownName("distribution", self.distribution, ("uniform", "log_uniform", "normal"))
        if self.transform is not None and self.transform not in get_args(Transform):
            raise UnknownName(f"transform of parameter {self.name!r}", self.transform, get_args(Transform))
        if self.scale == "log" and self.low <= 0:
            raise BadInput(f"parameter {self.name!r}: transform 'log' needs a positive support, got low = {self.low}")
        if self.target.split("/")[0] not in _ELEMENTS or self.target.count("/") not in (2, 3):
            raise BadInput(
                f"parameter {self.name!r}: target {self.target!r} is not ELEMENT/GLOB/FIELD[/INDEX] with ELEMENT "
                f"one of {', '.join(_ELEMENTS)}"
            )

    @property
    def fixed(self) -> bool:
        """Whether it is certain: its support is one value."""
        return self.low == self.high

    @property
    def scale(self) -> Transform:
        """The transform, with its default filled in."""
        return self.transform or ("log" if self.distribution == "log_uniform" else "identity")

    def ppf(self, u: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Quantiles: turns uniform numbers into draws."""
        if self.low == self.high:
            return np.full_like(u, self.low)
        if self.distribution == "log_uniform":
            return np.exp(np.log(self.low) + u * (np.log(self.high) - np.log(self.low)))
        if self.distribution == "normal":
            return self._truncated().ppf(u)
        return self.low + u * (self.high - self.low)

    def log_prob(self, x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Log density; -inf outside the support, 0 at a fixed value."""
        x = np.asarray(x, dtype=np.float64)
        inside = (x >= self.low) & (x <= self.high)
        if self.low == self.high:
            return np.where(inside, 0.0, -np.inf)
        if self.distribution == "log_uniform":
            with np.errstate(divide="ignore", invalid="ignore"):
                density = -np.log(x) - np.log(np.log(self.high) - np.log(self.low))
        elif self.distribution == "normal":
            density = self._truncated().logpdf(x)
        else:
            density = np.full_like(x, -np.log(self.high - self.low))
        return np.where(inside, density, -np.inf)

    def cdf(self, x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Inverse of `ppf`, for a parameter that is not fixed."""
        if self.distribution == "log_uniform":
            return np.log(x / self.low) / np.log(self.high / self.low)
        if self.distribution == "normal":
            return self._truncated().cdf(x)
        return (x - self.low) / (self.high - self.low)

    def share(self, x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """How far into its support a value lies, from 0 to 1: by its logarithm for `log`, else by itself."""
        if self.scale == "log":
            return np.log(x / self.low) / np.log(self.high / self.low)
        return (x - self.low) / (self.high - self.low)

    def at_share(self, share: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Inverse of `share`."""
        if self.scale == "log":
            value = self.low * np.exp(share * np.log(self.high / self.low))
        else:
            value = self.low + share * (self.high - self.low)
        return np.clip(value, self.low, self.high)

    def to_line(self, x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The support without ends: quantiles of a standard normal at the share, its log odds for `logit`.

        A parameter that is uniform on its scale is a standard normal variable there (a logistic one for `logit`).
        """
        from scipy.special import logit, ndtri

        share = np.clip(self.share(np.asarray(x, dtype=np.float64)), _EDGE, 1.0 - _EDGE)
        return logit(share) if self.scale == "logit" else ndtri(share)

    def from_line(self, z: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Inverse of `to_line`."""
        from scipy.special import expit, ndtr

        return self.at_share(expit(z) if self.scale == "logit" else ndtr(z))

    def log_slope(self, x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """ln dz/dx of `to_line`: what a density on the line gains when it is one of x."""
        z = self.to_line(x)
        if self.scale == "logit":
            line = np.logaddexp(0.0, z) + np.logaddexp(0.0, -z)  # 1 / (s (1 - s))
        else:
            line = 0.5 * z * z + 0.5 * np.log(2.0 * np.pi)
        if self.scale == "log":
            return line - np.log(x) - np.log(np.log(self.high / self.low))
        return line - np.log(self.high - self.low)

    def to_json(self) -> dict[str, Any]:
        """Plain data, all of it but a transform that was left to its default."""
        data = asdict(self)
        if self.transform is None:
            del data["transform"]
        return data

    def _truncated(self) -> Any:
        from scipy.stats import truncnorm

        assert self.mean is not None  # checked at construction
        assert self.std is not None
        a, b = (self.low - self.mean) / self.std, (self.high - self.mean) / self.std
        return truncnorm(a, b, loc=self.mean, scale=self.std)
