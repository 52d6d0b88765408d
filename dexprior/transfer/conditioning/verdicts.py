"""What a posterior may say: which parameters the traces tell, and whether the family covers the traces at all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float

from dexprior.config import Gt, Le, Lt, config
from dexprior.families import ParameterFamily, fit_density
from dexprior.families.densities import DensityKind
from dexprior.transfer.conditioning.observations import Observations

__all__ = ["Conditioned", "Side", "VerdictConfig", "conclude"]

Side = Literal["lower", "upper"]

_PRIOR_DRAWS = 4096  # that the prior's spread is taken from
_SEED = 20_002
_PRESSED = 0.085  # see `_pressed`
_NEAR = 0.02  # share of a support: the best fit of traces that nothing explains sits at an end if it is as near
_SHOWN = 3  # summaries that a verdict names


@config
class VerdictConfig:
    """When a parameter counts as told, and a family as wrong."""

    margin: Annotated[float, Gt(0), Le(1)] = 0.5
    """A parameter is told if its posterior's standard deviation is less than this share of its prior's."""
    alpha: Annotated[float, Gt(0), Lt(1)] = 0.01
    """p value of the best fit below which no member of the family explains the traces."""
    density: DensityKind = "particles"
    """Density of the conditioned family."""


@dataclass(frozen=True, kw_only=True)
class Conditioned:
    """A family after traces."""

    family: ParameterFamily
    """What is believed now. What the traces tell is fitted, with a joint density; what they do not keeps its prior."""
    joint: ParameterFamily
    """The whole posterior, with what is told of combinations alone; for predictions, not for intervals."""
    values: Float[np.ndarray, "particle parameter"]
    """Its draws."""
    best: Float[np.ndarray, " parameter"]
    """Parameters of the largest likelihood that was found."""
    spread: Float[np.ndarray, " parameter"]
    """Standard deviation of the posterior over that of the prior, on each parameter's scale; NaN where it is fixed."""
    p_value: float | None
    """Probability of a worse fit than the best one, see `Observations.lack_of_fit`; None where a single repeat cannot
    say."""
    verdicts: tuple[str, ...]
    """Why the family does not cover the traces; empty where nothing speaks against it."""
    notes: tuple[str, ...]
    """What was lost on the way."""
    simulations: int
    pressed: tuple[tuple[str, Side], ...] = ()
    """Parameters whose posterior is pressed against an end of their support, and which: the truth may lie beyond."""

    @property
    def does_not_cover(self) -> bool:
        """Whether anything speaks against the family. Nothing does where it could not be tested, see `p_value`."""
        return bool(self.verdicts)

    def intervals(self, level: float = 0.95) -> dict[str, dict[str, Any]]:
        """Each parameter's median with its interval, or that the traces do not tell it: never both."""
        ends = np.quantile(self.values, [(1.0 - level) / 2.0, 0.5, (1.0 + level) / 2.0], axis=0)
        rows: dict[str, dict[str, Any]] = {}
        for k, p in enumerate(self.family.parameters):
            told = bool(p.identifiable) and not p.fixed
            rows[p.name] = {
                "unit": p.unit, "identifiable": told, "value": float(ends[1, k]) if told else None,
                "interval": [float(ends[0, k]), float(ends[2, k])] if told else None,
            }  # fmt: skip
        return rows

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "family": self.family.to_json(), "intervals": self.intervals(), "p_value": self.p_value,
            "best": dict(zip(self.family.names, self.best.tolist())), "verdicts": list(self.verdicts),
            "notes": list(self.notes), "simulations": self.simulations,
        }  # fmt: skip


def conclude(
    prior: ParameterFamily,
    observations: Observations,
    values: Float[np.ndarray, "particle parameter"],
    best: Float[np.ndarray, " parameter"],
    predicted: Float[np.ndarray, " summary"],
    settings: VerdictConfig,
    *,
    simulations: int,
    notes: tuple[str, ...] = (),
) -> Conditioned:
    """Flags, verdicts and the new family, from draws of a posterior.

    Args:
        prior: before the traces.
        observations: the traces.
        values: draws of equal weight.
        best: of the largest likelihood.
        predicted: by it.
        settings: margins.
        simulations: that were run.
        notes: of whoever drew the values.
    """
    free = [k for k, p in enumerate(prior.parameters) if not p.fixed]
    parameters = prior.parameters
    before = prior.sample(np.random.default_rng(_SEED), _PRIOR_DRAWS)
    share = np.full(values.shape, np.nan)
    spread = np.full(len(parameters), np.nan)
    for k in free:
        share[:, k] = parameters[k].share(values[:, k])
        spread[k] = share[:, k].std() / parameters[k].share(before[:, k]).std()
    told = [k for k in free if spread[k] < settings.margin]
    p_value = observations.lack_of_fit(predicted, len(told))
    if p_value is None:
        notes = (
            *notes,
            "one repeat: its noise was taken from the misfit, so that whether the family covers it cannot be tested",
        )
    fitted = []
    for k, p in enumerate(parameters):
        if k not in told:
            fitted.append(p if p.fixed else replace(p, identifiable=bool(p.identifiable)))
            continue
        fitted.append(
            replace(
                p, provenance="fitted", identifiable=True, transform=p.scale, distribution="normal",
                mean=float(values[:, k].mean()), std=float(values[:, k].std()),
            )
        )  # fmt: skip
    kept = [k for k in free if k in told or parameters[k].name in prior.density.names]
    missed = p_value is not None and p_value < settings.alpha
    pressed = _pressed_ends(prior, share, told, best, missed=missed)
    return Conditioned(
        family=_with_density(f"{prior.name}|traces", fitted, kept, values, settings.density),
        joint=_with_density(f"{prior.name}|traces-joint", fitted, free, values, "particles"),
        values=values, best=best, spread=spread, p_value=p_value,
        verdicts=_verdicts(prior, observations, pressed, predicted, p_value if missed else None),
        notes=notes + _combinations(prior, before, values, [k for k in free if k not in told], settings.margin),
        simulations=simulations, pressed=pressed,
    )  # fmt: skip


def _with_density(
    name: str, parameters: list[Any], columns: list[int], values: np.ndarray, kind: DensityKind
) -> ParameterFamily:
    chosen = [parameters[k] for k in columns]
    density = fit_density(kind, chosen, values[:, columns], np.ones(len(values)))
    return ParameterFamily(name, tuple(parameters), density)


def _pressed_ends(
    prior: ParameterFamily,
    share: Float[np.ndarray, "particle parameter"],
    told: list[int],
    best: Float[np.ndarray, " parameter"],
    *,
    missed: bool,
) -> tuple[tuple[str, Side], ...]:
    """Parameters that are pressed against an end, with the end; `missed` where no member explains the traces."""
    found: list[tuple[str, Side]] = []
    for k in told:
        p = prior.parameters[k]
        at = float(p.share(best[k : k + 1])[0])
        if _pressed(share[:, k]) or (missed and at < _NEAR):
            found.append((p.name, "lower"))
        if _pressed(1.0 - share[:, k]) or (missed and 1.0 - at < _NEAR):
            found.append((p.name, "upper"))
    return tuple(found)


def _verdicts(
    prior: ParameterFamily,
    observations: Observations,
    pressed: tuple[tuple[str, Side], ...],
    predicted: Float[np.ndarray, " summary"],
    p_value: float | None,
) -> tuple[str, ...]:
    """What speaks against the family; `p_value` is given where the best fit misses the traces."""
    found = []
    for name, side in pressed:
        p = prior.parameters[prior.names.index(name)]
        end = p.low if side == "lower" else p.high
        found.append(f"{name!r} is pressed against the {side} end {end:g} {p.unit} of its support")
    if p_value is not None:
        assert observations.std is not None  # or there would be no p value
        off = np.abs(observations.mean - predicted) / observations.std * np.sqrt(observations.repeats)
        worst = ", ".join(repr(observations.names[j]) for j in np.argsort(-off)[:_SHOWN])
        why = "" if found else "; no parameter sits at an end: what differs is none of its parameters"
        found.append(f"no member explains the traces (p = {p_value:.2g}); farthest off are {worst}{why}")
    return tuple(f"the family does not cover: {text}" for text in found)


def _pressed(away: Float[np.ndarray, " particle"]) -> bool:
    """Whether draws lie at an end as if the truth were beyond it, by their distances from it.

    The 5 % quantile over the median is .074 where the density falls exponentially from the end, as the tail of a
    posterior whose middle is far outside does, .093 where its middle is the end itself, .1 where it is flat, and more
    where it is inside.
    """
    low, middle = np.quantile(away, [0.05, 0.5])
    return bool(low < _PRESSED * middle)


def _combinations(
    prior: ParameterFamily, before: np.ndarray, values: np.ndarray, columns: list[int], margin: float
) -> tuple[str, ...]:
    """What is told of parameters together that is told of none of them alone."""
    if len(columns) < 2:
        return ()
    from scipy.linalg import eigh

    parameters = [prior.parameters[k] for k in columns]
    now, then = (np.cov([p.to_line(x[:, k]) for k, p in zip(columns, parameters)]) for x in (values, before))
    width, direction = eigh(now, then)
    notes = []
    for w, v in zip(width, direction.T):
        if np.sqrt(w) >= margin:
            continue
        v = v / np.abs(v).max()
        part = [f"{x:+.2f} {p.name}" for x, p in zip(v, parameters) if abs(x) > 0.1]
        notes.append(f"told together, not alone: {' '.join(part)} (to {np.sqrt(w):.2g} of its prior spread)")
    return tuple(notes)
