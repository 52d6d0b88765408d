"""What the simulator's family cannot say about real impacts: a Gaussian process on the contact impulse.

Measured impulse = network(phi) + r(z) + noise, with phi found together with r, after Kennedy and O'Hagan,
"Bayesian calibration of computer models" (2001): phi is not bent to explain what is the family's bias, and
r stays near zero where nothing was measured. Impulses are dimensionless, in units of |u_n|/A_nn.

The covariance of each component is b^2 + sum_k l_k^2 z_k z'_k + a^2 exp(-|z - z'|^2 / 2 per length scale).
From few impacts its hyperparameters keep their prior values; from `evidence_from` on they maximize the marginal
likelihood times that prior, under noise with Student's t distribution: a few impacts scatter far more than the others
(double contacts, misread frames), and would otherwise pull the mean of all their neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_solve, solve_triangular

from dexprior.config import Ge, Gt, config
from dexprior.types.collision import ContactGeometry

__all__ = ["ImpulseResidual", "ResidualConfig", "residual_inputs"]

_FLOOR = 0.1  # scale of an input that hardly varies among the samples; all inputs are of order one by construction
_FLOOR_WEIGHT = 3.0  # in samples
_MIN_SPEED = 1e-9  # [m/s]
_COMPONENTS = 2  # normal, tangential


@config
class ResidualConfig:
    """Prior of the residual, in units of the impulse |u_n|/A_nn that stops the contact point."""

    amplitude: Annotated[float, Gt(0)] = 0.08
    """Standard deviation of the smooth part."""
    linear: Annotated[float, Gt(0)] = 0.005
    """Standard deviation of the slope, per standard deviation of an input."""
    bias: Annotated[float, Gt(0)] = 0.005
    """Standard deviation of a constant offset."""
    length_scale: Annotated[float, Gt(0)] = 2.0
    """Length scale of the smooth part, in standard deviations of an input."""
    noise: Annotated[float, Gt(0)] = 0.06
    """Standard deviation of measurement and scatter."""
    evidence_from: Annotated[int, Ge(3)] = 30
    """Measured impacts from which the above are fitted, by their marginal likelihood."""
    prior_width: Annotated[float, Gt(0)] = 0.7
    """Standard deviation of the log of each of the above when they are fitted."""
    iterations: Annotated[int, Ge(1)] = 60
    """Iterations of L-BFGS on the marginal likelihood."""
    tails: Annotated[float, Gt(2)] = 4.0
    """Degrees of freedom of the noise, where the above are fitted."""
    reweightings: Annotated[int, Ge(0)] = 3
    """How often the noise of each impact is estimated anew, and the above are fitted again; 0: normal noise."""


@dataclass(frozen=True, kw_only=True)
class ImpulseResidual:
    """A fitted residual: mean and standard deviation of what the network misses."""

    center: Float[np.ndarray, " input"]
    scale: Float[np.ndarray, " input"]
    inputs: Float[np.ndarray, "sample input"]
    """Standardized inputs of the measured impacts."""
    bias: Float[np.ndarray, " 2"]
    """Hyperparameters, one a component of the impulse."""
    slopes: Float[np.ndarray, "2 input"]
    amplitude: Float[np.ndarray, " 2"]
    length_scales: Float[np.ndarray, "2 input"]
    noise: Float[np.ndarray, " 2"]
    unreliable: Float[np.ndarray, "2 sample"]
    """Factor on the noise variance of each measured impact; one where its noise is normal."""
    weights: Float[np.ndarray, "2 sample"]
    """K^-1 (measured - network)."""
    cholesky: Float[np.ndarray, "2 sample sample"]
    """Lower factor of K."""

    @classmethod
    def prior(cls, inputs: Float[np.ndarray, "sample input"], config: ResidualConfig) -> ImpulseResidual:
        """Standardized to the samples, with the hyperparameters' prior values, and zero mean."""
        n, count = inputs.shape
        center = inputs.mean(axis=0)
        scale = np.sqrt((inputs.var(axis=0) * n + _FLOOR**2 * _FLOOR_WEIGHT) / (n + _FLOOR_WEIGHT))
        both = np.ones(_COMPONENTS)
        model = cls(
            center=center,
            scale=scale,
            inputs=(inputs - center) / scale,
            bias=config.bias * both,
            slopes=np.full((_COMPONENTS, count), config.linear),
            amplitude=config.amplitude * both,
            length_scales=np.full((_COMPONENTS, count), config.length_scale),
            noise=config.noise * both,
            unreliable=np.ones((_COMPONENTS, n)),
            weights=np.zeros((_COMPONENTS, n)),
            cholesky=np.zeros((_COMPONENTS, n, n)),
        )
        return model.conditioned(np.zeros((n, _COMPONENTS)))

    def conditioned(self, missed: Float[np.ndarray, "sample 2"]) -> ImpulseResidual:
        """The same hyperparameters, given what the network missed at the samples."""
        factors = [
            np.linalg.cholesky(self._covariance(self.inputs, k) + np.diag(self.noise[k] ** 2 * self.unreliable[k]))
            for k in range(_COMPONENTS)
        ]
        weights = [cho_solve((factors[k], True), missed[:, k]) for k in range(_COMPONENTS)]
        return replace(self, cholesky=np.stack(factors), weights=np.stack(weights))

    def rescaled(self, factor: Float[np.ndarray, " 2"], missed: Float[np.ndarray, "sample 2"]) -> ImpulseResidual:
        """All standard deviations times `factor`, which leaves the mean as it is."""
        return replace(
            self,
            bias=self.bias * factor,
            slopes=self.slopes * factor[:, None],
            amplitude=self.amplitude * factor,
            noise=self.noise * factor,
        ).conditioned(missed)

    def precision(self, k: int) -> Float[np.ndarray, "sample sample"]:
        """K^-1 of one component."""
        return cho_solve((self.cholesky[k], True), np.eye(len(self.inputs)))

    def predict(
        self, inputs: Float[np.ndarray, "batch input"]
    ) -> tuple[Float[np.ndarray, "batch 2"], Float[np.ndarray, "batch 2"]]:
        """Mean and standard deviation (noise included) of measured minus network impulse."""
        z = (inputs - self.center) / self.scale
        mean, std = np.empty((len(z), _COMPONENTS)), np.empty((len(z), _COMPONENTS))
        for k in range(_COMPONENTS):
            cross = self._covariance(z, k)
            mean[:, k] = cross @ self.weights[k]
            explained = solve_triangular(self.cholesky[k], cross.T, lower=True, check_finite=False)
            own = self.bias[k] ** 2 + (z * self.slopes[k]) ** 2 @ np.ones(z.shape[1]) + self.amplitude[k] ** 2
            std[:, k] = np.sqrt(np.maximum(own - (explained**2).sum(axis=0), 0.0) + self.noise[k] ** 2)
        return mean, std

    def left_out(self, missed: Float[np.ndarray, "sample 2"]) -> Float[np.ndarray, "sample 2"]:
        """Error of each sample, predicted from the others (Rasmussen and Williams, equation 5.12), over the standard
        deviation that is predicted for an impact of which nothing is known: as if it were as reliable as any."""
        found = np.empty_like(missed)
        for k in range(_COMPONENTS):
            inverse = self.precision(k)
            own = np.diag(inverse)
            variance = 1.0 / own + self.noise[k] ** 2 * (1.0 - self.unreliable[k])
            found[:, k] = (inverse @ missed[:, k]) / own / np.sqrt(variance)
        return found

    def fitted(self, missed: Float[np.ndarray, "sample 2"], config: ResidualConfig) -> ImpulseResidual:
        """The process with hyperparameters of the largest marginal likelihood times their prior.

        Student's t is a normal distribution whose variance is drawn anew for each sample. Expectation maximization
        takes turns: hyperparameters given those variances, variances given what the process leaves of each sample.
        """
        model = self._of_largest_evidence(missed, self, config)
        for _ in range(config.reweightings):
            surprise = np.stack([model._surprise(missed[:, k], k) for k in range(_COMPONENTS)])
            model = replace(model, unreliable=(config.tails + surprise) / (config.tails + 1.0))
            model = model._of_largest_evidence(missed, self, config)
        return model

    def _surprise(self, missed: Float[np.ndarray, " sample"], k: int) -> Float[np.ndarray, " sample"]:
        """Expected square of each sample's noise, over the variance of the noise."""
        shared = self._covariance(self.inputs, k)
        left = missed - shared @ self.weights[k]
        explained = solve_triangular(self.cholesky[k], shared, lower=True, check_finite=False)
        uncertain = np.maximum(np.diag(shared) - (explained**2).sum(axis=0), 0.0)
        return (left**2 + uncertain) / self.noise[k] ** 2

    def _of_largest_evidence(
        self, missed: Float[np.ndarray, "sample 2"], prior: ImpulseResidual, config: ResidualConfig
    ) -> ImpulseResidual:
        """Hyperparameters fitted from these ones on, conditioned."""
        found = [self._maximize_evidence(missed[:, k], k, prior, config) for k in range(_COMPONENTS)]
        bias, slopes, amplitude, length_scales, noise = (np.stack(column) for column in zip(*found))
        model = replace(self, bias=bias, slopes=slopes, amplitude=amplitude, length_scales=length_scales, noise=noise)
        return model.conditioned(missed)

    def _log_hyperparameters(self, k: int) -> Float[np.ndarray, " hyperparameter"]:
        return np.log(np.r_[self.bias[k], self.slopes[k], self.amplitude[k], self.length_scales[k], self.noise[k]])

    def _covariance(self, z: Float[np.ndarray, "batch input"], k: int) -> Float[np.ndarray, "batch sample"]:
        a, b = z / self.length_scales[k], self.inputs / self.length_scales[k]
        squared = (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2.0 * (a @ b.T)
        linear = (z * self.slopes[k] ** 2) @ self.inputs.T
        return self.bias[k] ** 2 + linear + self.amplitude[k] ** 2 * np.exp(-0.5 * np.maximum(squared, 0.0))

    def _maximize_evidence(
        self, y: np.ndarray, k: int, prior: ImpulseResidual, config: ResidualConfig
    ) -> tuple[Any, ...]:
        import torch
        from scipy.optimize import minimize

        count = self.inputs.shape[1]
        start, middle = self._log_hyperparameters(k), prior._log_hyperparameters(k)
        z, target = torch.tensor(self.inputs), torch.tensor(y[:, None])
        differences = (z[:, None] - z[None]).square().reshape(-1, count)
        most_likely, unreliable = torch.tensor(middle), torch.diag(torch.tensor(self.unreliable[k]))

        def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
            free = torch.tensor(x, requires_grad=True)
            variance = torch.exp(2.0 * free)
            bias, slopes, amplitude = variance[0], variance[1 : 1 + count], variance[1 + count]
            lengths, noise = variance[2 + count : 2 + 2 * count], variance[-1]
            squared = (differences @ (1.0 / lengths)).reshape(len(z), len(z))
            covariance = bias + (z * slopes) @ z.T + amplitude * torch.exp(-0.5 * squared) + (noise + 1e-9) * unreliable
            factor = torch.linalg.cholesky(covariance)
            fit = 0.5 * (target * torch.cholesky_solve(target, factor)).sum() + factor.diagonal().log().sum()
            total = fit + 0.5 * ((free - most_likely) / config.prior_width).square().sum()
            (gradient,) = torch.autograd.grad(total, [free])
            return total.item(), gradient.numpy()

        bounds = [(m - 4.0 * config.prior_width, m + 4.0 * config.prior_width) for m in middle]
        found = minimize(
            loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": config.iterations}
        )
        values = np.exp(found.x)
        return values[0], values[1 : 1 + count], values[1 + count], values[2 + count : 2 + 2 * count], values[-1]

    # --- on disk ---

    def arrays(self, prefix: str) -> dict[str, np.ndarray]:
        """The arrays by name, as they are saved."""
        return {f"{prefix}/{name}": getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], prefix: str) -> ImpulseResidual | None:
        """Inverse of `arrays`; None where they are absent."""
        if f"{prefix}/weights" not in arrays:
            return None
        return cls(**{name: arrays[f"{prefix}/{name}"] for name in cls.__dataclass_fields__})


def residual_inputs(
    approach: Float[np.ndarray, "batch 2"], geometry: ContactGeometry, *, context: bool
) -> Float[np.ndarray, "batch input"]:
    """What the residual is a function of: A_tn/A_nn, log(A_tt/A_nn), u_t/|u_n|, log|u_n|, and the context.

    The first two columns of a context are velocities, and are divided by |u_n|; the others are taken as they are.
    """
    delassus = geometry.delassus
    speed = np.maximum(-approach[:, 0], _MIN_SPEED)
    a_nn = delassus[:, 0, 0]
    columns = [delassus[:, 0, 1] / a_nn, np.log(delassus[:, 1, 1] / a_nn), approach[:, 1] / speed, np.log(speed)]
    if context:
        assert geometry.context is not None
        velocities = geometry.context[:, :2] / speed[:, None]
        columns += [*velocities.T, *geometry.context[:, 2:].T]
    return np.stack(columns, axis=1)
