"""Fit of the servo's parameters to logs, with a band that says how far predictions go wrong.

The parameters minimise the mean absolute position error of closed-loop simulations, over the logs, by CMA-ES (Hansen,
arXiv 1604.00772). Then each fold of logs is left out in turn and the others are fitted by themselves: how much these
members differ says what the logs determine, and their errors on what they have not seen scale the band (split conformal
prediction with folds; Barber et al. 2021, "Predictive inference with the jackknife+", without its rank correction).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from dexprior.artifacts import make_header, read_object, write_json
from dexprior.config import Ge, Gt, Lt, config
from dexprior.errors import ArtifactError, BadInput
from dexprior.reading import as_described, integer, number, numbers
from dexprior.stats.minimize import minimize_cma
from dexprior.transfer.servo.logs import ServoLog
from dexprior.transfer.servo.model import SERVO_FAMILY, ServoBatch, simulate

__all__ = ["ServoFit", "ServoFitConfig", "fit_servo", "read_fit"]

_SCHEMA = "dexprior.servo-fit/1"
_LOW, _HIGH = np.array([(p.low, p.high) for p in SERVO_FAMILY.parameters]).T
_TOLD = 0.5  # logs determine a parameter if they leave less than this share of its prior standard deviation
_NUDGE = 0.01  # of a support: step of the finite differences, wide enough to average over stick and slip


@config
class ServoFitConfig:
    """How long is searched."""

    population: Annotated[int, Ge(8)] = 32
    """Candidates of a generation."""
    generations: Annotated[int, Ge(1)] = 150
    """Generations of each fit."""
    folds: Annotated[int, Ge(2)] = 4
    """Logs are left out by turns."""
    level: Annotated[float, Gt(0), Lt(1)] = 0.9
    """Level of the band."""
    substeps: Annotated[int, Ge(1)] = 2
    """Simulation steps for each entry of a log."""


@dataclass(frozen=True, kw_only=True)
class ServoFit:
    """What the logs say of the servo."""

    parameters: Float[np.ndarray, " parameter"]
    """Parameters in the order of `SERVO_FAMILY`."""
    std: Float[np.ndarray, " parameter"]
    """Standard deviations of the posterior in Laplace's approximation; see `fit_servo`."""
    members: Float[np.ndarray, "fold parameter"]
    """Fits that each lack a fold of the logs."""
    floor: float
    """Floor of the spread that the band is scaled by [rad]."""
    factor: float
    """Half a band's width over the spread."""
    level: float
    substeps: int

    def predict(self, logs: Sequence[ServoLog]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Positions and half the band's width [rad] of each log, under its commands."""
        batch = ServoBatch.of(logs)
        runs = simulate(np.vstack([self.parameters, self.members]), batch, substeps=self.substeps)
        half = self.factor * _spread(runs[1:], self.floor)
        return [runs[0, k, : len(log)] for k, log in enumerate(logs)], [
            half[k, : len(log)] for k, log in enumerate(logs)
        ]

    def identified(self) -> dict[str, dict[str, Any]]:
        """Each parameter with its 95 % interval, or that the logs do not determine it: never both."""
        rows: dict[str, dict[str, Any]] = {}
        for k, p in enumerate(SERVO_FAMILY.parameters):
            clear = bool(self.std[k] < _TOLD * (p.high - p.low) / np.sqrt(12.0))
            reach = self.parameters[k] + 1.96 * self.std[k] * np.array([-1.0, 1.0])
            interval = np.clip(reach, p.low, p.high).tolist() if clear else None
            rows[p.name] = {
                "value": float(self.parameters[k]), "unit": p.unit, "interval": interval, "identifiable": clear
            }  # fmt: skip
        return rows

    def save(self, path: str | Path) -> Path:
        """Write as JSON."""
        data = {
            "header": make_header(_SCHEMA, producer="transfer"), "names": SERVO_FAMILY.names,
            "parameters": self.parameters.tolist(), "std": self.std.tolist(), "members": self.members.tolist(),
            "floor": self.floor, "factor": self.factor, "level": self.level, "substeps": self.substeps,
            "identified": self.identified(),
        }  # fmt: skip
        return write_json(path, data)


def fit_servo(logs: Sequence[ServoLog], settings: ServoFitConfig, *, seed: int) -> ServoFit:
    """Fit to logs.

    The posterior's covariance is that of Laplace's approximation, (J^T J n' / (n s^2) + 12 / width^2)^-1, with the
    Jacobian J of positions by central differences, the residuals' variance s^2, the supports' widths, and n' of the n
    residuals independent, by their integrated autocorrelation time.

    Args:
        logs: at least as many as folds.
        settings: how long is searched.
        seed: of the search; the same one gives the same fit.

    Raises:
        BadInput: too few logs for the folds.
    """
    if len(logs) < settings.folds:
        raise BadInput(f"{len(logs)} logs cannot be left out in {settings.folds} folds; give more logs or fewer folds")
    batch = ServoBatch.of(logs)
    best = _search(batch, settings, seed=[seed, 0], label="fit servo")
    members, residuals = [], []
    for fold in range(settings.folds):
        # from scratch: started from the fit to all, a member would know what it must not have seen
        kept = ServoBatch.of([log for k, log in enumerate(logs) if k % settings.folds != fold])
        label = f"without fold {fold + 1} of {settings.folds}"
        members.append(_search(kept, settings, seed=[seed, 1, fold], label=label))
    runs = simulate(np.array(members), batch, substeps=settings.substeps)
    for fold in range(settings.folds):
        for k in range(fold, len(logs), settings.folds):
            residuals.append((np.abs(runs[fold, k] - batch.position[k])[batch.valid[k]], k))
    floor = float(np.median(np.concatenate([r for r, _ in residuals])))
    spread = _spread(runs, floor)
    scaled = np.concatenate([r / spread[k][batch.valid[k]] for r, k in residuals])
    return ServoFit(
        parameters=best, std=_laplace(best, batch, settings), members=np.array(members), floor=floor,
        factor=float(np.quantile(scaled, settings.level)), level=settings.level, substeps=settings.substeps,
    )  # fmt: skip


def read_fit(path: str | Path) -> ServoFit:
    """Inverse of `ServoFit.save`.

    Raises:
        ArtifactError: missing, damaged, or of another schema.
    """
    data = read_object(path, "a fit of a servo", schema=_SCHEMA)
    n = len(SERVO_FAMILY.names)
    with as_described("a fit of a servo", path, ArtifactError):
        if tuple(data["names"]) != SERVO_FAMILY.names:
            raise ArtifactError(f"{path} is a fit of {data['names']}, not this version's")
        return ServoFit(
            parameters=numbers(data["parameters"], f"{path}: parameters", n),
            std=numbers(data["std"], f"{path}: std", n), members=numbers(data["members"], f"{path}: members", -1, n),
            floor=number(data["floor"], f"{path}: floor"), factor=number(data["factor"], f"{path}: factor"),
            level=number(data["level"], f"{path}: level", low=0.0, high=1.0),
            substeps=integer(data["substeps"], f"{path}: substeps", low=1),
        )  # fmt: skip


def _errors(
    candidates: Float[np.ndarray, "candidate parameter"], batch: ServoBatch, settings: ServoFitConfig
) -> Float[np.ndarray, "candidate log"]:
    """Mean absolute position errors [rad]."""
    apart = np.abs(simulate(candidates, batch, substeps=settings.substeps) - batch.position)
    return (apart * batch.valid).sum(axis=2) / batch.valid.sum(axis=1)


def _search(
    batch: ServoBatch, settings: ServoFitConfig, *, seed: list[int], label: str
) -> Float[np.ndarray, " parameter"]:
    """CMA-ES over the support, scaled to [-1, 1], from the best of a uniform population."""
    from tqdm import tqdm

    rng = np.random.default_rng(seed)
    first = rng.uniform(-1.0, 1.0, (4 * settings.population, len(_LOW)))
    with tqdm(total=settings.generations, desc=label, unit="generation") as bar:

        def cost(scaled: Float[np.ndarray, "candidate parameter"]) -> Float[np.ndarray, " candidate"]:
            bar.update()
            return _errors(_unscaled(scaled), batch, settings).mean(axis=1)

        costs = _errors(_unscaled(first), batch, settings).mean(axis=1)
        best, _ = minimize_cma(
            cost,
            first[int(costs.argmin())],
            spread=0.3,
            bounds=(-1.0, 1.0),
            population=settings.population,
            evaluations=settings.population * settings.generations,
            seed=int(rng.integers(2**31)),
        )
    return _unscaled(best)


def _unscaled(scaled: Float[np.ndarray, "*n parameter"]) -> Float[np.ndarray, "*n parameter"]:
    return _LOW + (scaled + 1) / 2 * (_HIGH - _LOW)


def _laplace(
    best: Float[np.ndarray, " parameter"], batch: ServoBatch, settings: ServoFitConfig
) -> Float[np.ndarray, " parameter"]:
    """Standard deviations of the posterior."""
    width = _HIGH - _LOW
    steps = np.diag(_NUDGE * width)
    ends = np.clip(np.concatenate([best + steps, best - steps]), _LOW, _HIGH)
    runs = simulate(np.concatenate([ends, best[None]]), batch, substeps=settings.substeps)
    count = len(best)
    apart = (ends[:count] - ends[count:]).diagonal()
    jacobian = (runs[:count] - runs[count:-1]) / apart[:, None, None]
    residual = (runs[-1] - batch.position) * batch.valid
    n = int(batch.valid.sum())
    independent = n / _autocorrelation_time(residual, batch.valid)
    J = jacobian[:, batch.valid]
    information = J @ J.T / max(float((residual**2).sum()) / n, 1e-12) * (independent / n)
    return np.sqrt(np.linalg.inv(information + np.diag(12.0 / width**2)).diagonal())


def _autocorrelation_time(residual: Float[np.ndarray, "log time"], valid: np.ndarray) -> float:
    """Entries that count as one: 1 + 2 sum rho_k up to the first lag at which rho is not positive."""
    total, power = 1.0, float((residual**2).sum())
    for lag in range(1, residual.shape[1]):
        both = valid[:, lag:] & valid[:, :-lag]
        rho = float((residual[:, lag:] * residual[:, :-lag] * both).sum()) / max(power, 1e-30)
        if rho <= 0.0:
            break
        total += 2.0 * rho
    return total


def _spread(runs: Float[np.ndarray, "member log time"], floor: float) -> Float[np.ndarray, "log time"]:
    return np.sqrt(floor**2 + runs.var(axis=0))
