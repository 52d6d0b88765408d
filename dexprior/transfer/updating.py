"""A round's diagnosis becomes the next round's family: what is blamed is fitted to the real traces, or widened first.

update = update_family(assumed, observations, simulate=..., blamed=blamed_parameters(assumed, diagnosis.causes), seed=0)
update.family       # fitted where the traces tell it, as assumed elsewhere
update.actions      # a sentence each, for the next ledger
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from dexprior.config import Ge, Gt, Lt, config
from dexprior.errors import BadInput, UnknownName
from dexprior.families import Parameter, ParameterFamily
from dexprior.families.densities import INDEPENDENT
from dexprior.transfer.conditioning import (
    Conditioned,
    ConditioningConfig,
    Observations,
    Side,
    Simulator,
    condition,
)
from dexprior.transfer.diagnosis import UNKNOWN, cause_of

__all__ = ["Update", "UpdateConfig", "added_by", "blamed_parameters", "update_family", "widened"]

_BESIDE = 0.035  # share of a support
_BOTH: tuple[Side, ...] = ("lower", "upper")
_SMALLEST = 0.25  # of a positive lower end, that one widening leaves at least: a scale does not cross zero


@config
class UpdateConfig:
    """How a family is brought to the traces."""

    widenings: Annotated[int, Ge(0)] = 4
    """How often supports may be widened before what was found is taken as it is."""
    gain: Annotated[float, Gt(0), Lt(1)] = 0.05
    """Level of the test that a widening which explains the traces no more than before has brought a better fit."""
    blame: Annotated[float, Gt(0), Lt(1)] = 0.5
    """Probability from which the most probable cause alone is believed, or the most probable ones together; where they
    do not reach it, every free parameter is fitted."""
    conditioning: ConditioningConfig = ConditioningConfig()
    """Conditioning of each fit."""


@dataclass(frozen=True, kw_only=True)
class Update:
    """A family after a round."""

    family: ParameterFamily
    actions: tuple[str, ...]
    """What was done, a sentence each."""
    conditioned: Conditioned
    """The last fit; of the family with all parameters fixed that are not blamed."""
    widenings: int

    def as_dict(self) -> dict[str, Any]:
        """Plain data of the fit, without intervals.

        Repeats of a contact err together over time, which the fit's noise does not know: of 27 of its 95 % intervals
        on a known world 11 held the truth (docs/measurements/ledger.md), so none is stated.
        """
        found = self.conditioned.as_dict()
        rows = found.pop("intervals")
        told = {name: {"unit": row["unit"], "value": row["value"]} for name, row in rows.items() if row["identifiable"]}
        return found | {"fitted": told, "widenings": self.widenings}


def blamed_parameters(
    family: ParameterFamily, causes: Mapping[str, float], settings: UpdateConfig | None = None
) -> tuple[str, ...]:
    """Free parameters that the most probable causes act on: the fewest that hold enough of the probability together.
    All free ones where they never do, or where one of them acts on none.

    Args:
        family: the assumed one.
        causes: probabilities, as `Diagnosis.causes` gives them; may be empty.
        settings: the defaults if None.

    Raises:
        BadInput: a family without a free parameter.
        UnknownName: a cause that there is not.
    """
    settings = settings or UpdateConfig()
    free = tuple(p.name for p in family.parameters if not p.fixed)
    if not free:
        raise BadInput(f"family {family.name!r} has no free parameter that could be blamed")
    known = {name: p for name, p in causes.items() if name != UNKNOWN}
    hit: set[str] = set()
    believed = 0.0
    for name in sorted(known, key=lambda cause: known[cause], reverse=True):
        if believed >= settings.blame:
            break
        cause, believed = cause_of(name), believed + known[name]
        moved = {p.name for p in family.parameters if not p.fixed and fnmatch.fnmatchcase(p.target, cause.target)}
        if not moved or cause.kind not in ("scale", "add"):
            return free
        hit |= moved
    return tuple(name for name in free if name in hit) if believed >= settings.blame else free


def widened(parameter: Parameter, side: Side) -> Parameter:
    """A parameter whose support reaches farther to one side, by its own width; flat over it.

    A lower end above zero stays above zero, at most three quarters of it go at once; one at zero stays there.
    """
    width = parameter.high - parameter.low
    low, high = parameter.low, parameter.high
    if side == "lower":
        low = max(low - width, _SMALLEST * low) if low >= 0 else low - width
    else:
        high = high + width
    if parameter.distribution == "normal":
        parameter = replace(parameter, distribution="uniform", mean=None, std=None)
    return replace(parameter, low=low, high=high, provenance="assumed")


def added_by(parameter: Parameter, side: Side, widenings: int) -> Parameter:
    """The part of a support that so many widenings to one side add; flat over it."""
    wide = parameter
    for _ in range(widenings):
        wide = widened(wide, side)
    return replace(wide, high=parameter.low) if side == "lower" else replace(wide, low=parameter.high)


def update_family(
    family: ParameterFamily,
    observations: Observations,
    *,
    simulate: Simulator,
    blamed: Sequence[str],
    settings: UpdateConfig | None = None,
    seed: int,
) -> Update:
    """Fit the blamed parameters to real traces; where the family does not cover them, widen it as the verdict says.

    Where no member explains the traces and no end is named, it is widened to both sides; where a fit lies right beside
    an end, beyond that. A widening after which no member explains them either, and the best fits no better than by
    chance, is taken back, and the last one. What still does not explain them in the end is left wide, and not fitted.

    Args:
        family: what was assumed.
        observations: the real traces.
        simulate: values in the order of the family's names -> summaries; it must take values beyond the supports.
        blamed: names of the parameters to fit; the others stay at their medians meanwhile, and as they were after.
        settings: the defaults if None.
        seed: the same one gives the same family.

    Raises:
        UnknownName: a blamed parameter that the family does not have.
        BadInput: no parameter, or a fixed one, is blamed; whatever `condition` raises.
    """
    settings = settings or UpdateConfig()
    for name in blamed:
        if name not in family.names:
            raise UnknownName(f"blamed parameter of {family.name!r}", name, family.names)
        if family.parameters[family.names.index(name)].fixed:
            raise BadInput(f"blamed parameter {name!r} of {family.name!r} is fixed; traces cannot move it")
    if not blamed:
        raise BadInput(f"no parameter of {family.name!r} is blamed")
    tried = ParameterFamily(
        family.name, tuple(p if p.name in blamed else _at_median(p) for p in family.parameters)
    )  # fmt: skip
    actions: list[str] = []
    last: tuple[ParameterFamily, Conditioned, list[str]] | None = None
    for widenings in range(settings.widenings + 1):
        found = condition(tried, observations, simulate=simulate, settings=settings.conditioning, seed=seed + widenings)
        missed = found.p_value is not None and found.p_value < settings.conditioning.verdict.alpha
        if missed and last is not None:
            names = [p.name for p, old in zip(tried.parameters, last[0].parameters) if p != old]
            chance = _by_chance(observations, simulate, last[1], found, len(names))
            if chance > settings.gain:
                tried, found, actions = last
                wider = ", ".join(names)
                actions.append(
                    f"took back a wider {wider}: the traces fit it no better than by chance (p = {chance:.2g})"
                )
                widenings -= 1
                break
        last = (tried, found, [*actions]) if missed else None
        why = "the traces press against its {} end"
        sides = found.pressed
        if not sides and missed:
            sides, why = tuple((name, side) for name in blamed for side in _BOTH), "no member explains the traces"
        if not sides:
            sides, why = _beside(tried, found), "its fit lies right beside its {} end"
        if not sides or widenings == settings.widenings:
            break
        for name, side in sides:
            k = tried.names.index(name)
            before, after = tried.parameters[k], widened(tried.parameters[k], side)
            actions.append(
                f"widened {name} from [{before.low:.3g}, {before.high:.3g}] to [{after.low:.3g}, {after.high:.3g}] "
                f"{after.unit}: {why.format(side)}"
            )
            tried = replace(tried, parameters=tuple(after if p.name == name else p for p in tried.parameters))
    kept = []
    margin = settings.conditioning.verdict.margin
    for p, wide, fitted, spread in zip(family.parameters, tried.parameters, found.family.parameters, found.spread):
        told = p.name in blamed and bool(spread < margin) and not missed
        reached = p.name in blamed and (wide.low, wide.high) != (p.low, p.high)
        kept.append(fitted if told else wide if reached else p)
        if told:
            actions.append(f"fitted {p.name} to the real traces: {fitted.mean:.3g} {p.unit}")
        elif p.name in blamed:
            actions.append(f"did not fit {p.name}: the traces do not {'fit it' if missed else 'tell it'}")
    actions += [f"not explained: {verdict}" for verdict in found.verdicts]
    return Update(
        family=ParameterFamily(
            f"{family.name}|traces", tuple(kept), INDEPENDENT if missed else found.family.density
        ), actions=tuple(actions), conditioned=found, widenings=widenings,
    )  # fmt: skip


def _by_chance(
    observations: Observations, simulate: Simulator, before: Conditioned, after: Conditioned, widened: int
) -> float:
    """p value of a better fit in a wider family, where no member of either explains the traces.

    Likelihood ratio at the noise of the traces where they pressed against an end, which asked for it. A blind widening
    is held against more, as something is always found: F test, in which what neither explains is the noise.
    """
    from scipy.stats import chi2, f

    first, second = (observations.misfit(simulate(found.best[None])[0]) for found in (before, after))
    if before.pressed:
        return float(chi2.sf(first - second, widened))
    left = max(observations.size - widened, 1)
    return float(f.sf((first - second) / widened / (second / left), widened, left))


def _beside(family: ParameterFamily, found: Conditioned) -> tuple[tuple[str, Side], ...]:
    """What traces fit best right beside an end, which a better fit may lie beyond: contact is no monotone function."""
    sides: list[tuple[str, Side]] = []
    for k, p in enumerate(family.parameters):
        if not p.fixed and found.family.parameters[k].provenance == "fitted":
            at = float(np.median(p.share(found.values[:, k])))
            sides += [(p.name, side) for side, away in zip(_BOTH, (at, 1.0 - at)) if away < _BESIDE]
    return tuple(sides)


def _at_median(p: Parameter) -> Parameter:
    middle = float(p.ppf(np.array([0.5]))[0])
    return replace(p, low=middle, high=middle, distribution="uniform", mean=None, std=None)
