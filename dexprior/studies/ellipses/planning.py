"""Which start gives a wanted velocity? Each model chooses among recorded starts, and the record says what came of it.

Held-out impacts are halved. The velocity after each impact of one half is a goal; a model predicts the outcome of every
start of the other half and takes the start whose prediction lies nearest to the goal. What is scored is the outcome
that was recorded for that start, so that no simulator judges: the recorded outcomes themselves, taken as predictions,
leave the distance to the nearest one, which no model can beat. Then the halves change places.

Distances are in the kinetic-energy norm, relative to the goal's size.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from dexprior.collision.clash import ellipse_features
from dexprior.collision.stage import OURS, CollisionConfig, compare, held_out, scored_draws
from dexprior.data.impacts import PlanarImpacts
from dexprior.errors import BadInput
from dexprior.stats import bootstrap_crossed

__all__ = ["choose_starts", "evaluate_choices", "score_choices"]

BEST, CHANCE, NEIGHBOURS, ALL_NEIGHBOURS = "recorded_outcome", "chance", "neighbours", "neighbours_all"
"""Beside the fitted methods: the outcome itself, that of another start at random, that of the nearest of the fitted
starts, and that of the nearest of all that could have been fitted."""

_BLIND = "point_impulse_bound"  # it sees the outcome that is to be predicted
_FEW = 4  # held-out impacts: two starts to choose from, on each side


def evaluate_choices(
    config: CollisionConfig, folder: str | Path, *, seed: int, train: Path, test: Path, progress: bool = True
) -> dict[str, Any]:
    """Fit every method as `compare` does, draw by draw, and let all of them choose; plain data.

    Args:
        config: of the fits, and how many draws.
        folder: keeps the fits, as `compare` does; one that is finished is read.
        seed: of training, searches, and of the halves.
        train: impacts to draw from.
        test: impacts to choose among.
        progress: show progress bars.

    Returns:
        `methods`: name -> mean `error` of what was chosen and its 95 % `interval` over draws and goals, and
        `ours_to_it`, the ratio of our mean error to it and the interval of that.

    Raises:
        ArtifactError: the folder belongs to another configuration, seed or pair of files.
        BadInput: a file is unusable, or too little is held out to choose from.
    """
    compare(config, folder, seed=seed, train=train, test=test, progress=progress)
    pool, apart = held_out(train, test)
    scored = pool if apart is None else apart
    draws = scored_draws(folder, config, pool, apart)
    names: list[str] = []
    errors = np.empty(0)
    for k, draw in enumerate(draws):
        rest = scored.take(draw.rows)
        predicted = {name: post for name, post in draw.predicted.items() if name != _BLIND}
        predicted |= {
            BEST: rest.post,
            CHANCE: np.random.default_rng([seed, k, 42]).permutation(rest.post),
            NEIGHBOURS: _neighbours(pool.take(draw.fitted), rest),
        }
        if apart is not None:
            predicted[ALL_NEIGHBOURS] = _neighbours(pool, rest)
        found = score_choices(predicted, rest, seed=seed + k)
        if not names:
            names = list(found)
            errors = np.full((len(draws), len(scored), len(names)), np.nan)
        errors[k, draw.rows] = np.stack([found[name] for name in names], axis=1)

    def statistic(table: np.ndarray) -> np.ndarray:
        mean = np.nanmean(table, axis=(0, 1))
        return np.concatenate([mean, mean[names.index(OURS)] / np.maximum(mean, np.finfo(float).tiny)])

    value, low, high = (x.reshape(2, -1) for x in bootstrap_crossed(errors, statistic, draws=config.resamples))
    return {
        "schema": "dexprior.ellipse_choices/1",
        "n_real": config.n_real,
        "draws": len(draws),
        "goals": len(scored),
        "methods": {
            name: {
                "error": float(value[0, j]),
                "interval": [float(low[0, j]), float(high[0, j])],
                "ours_to_it": [float(value[1, j]), float(low[1, j]), float(high[1, j])],
            }
            for j, name in enumerate(names)
        },
    }


def score_choices(
    predicted: Mapping[str, Float[np.ndarray, "impact 3"]], recorded: PlanarImpacts, *, seed: int
) -> dict[str, Float[np.ndarray, " goal"]]:
    """Error of what each method chose, for every recorded outcome as the goal.

    Args:
        predicted: [vx vy omega] after each recorded impact, by method.
        recorded: what happened.
        seed: of the halves, and of which of several equally near starts is taken.

    Raises:
        BadInput: fewer than four impacts.
    """
    n = len(recorded)
    if n < _FEW:
        raise BadInput(f"score_choices: {n} impacts; at least {_FEW} are needed, two goals and two starts")
    scale = np.array([1.0, 1.0, recorded.gyration])
    outcome = recorded.post * scale
    order = np.random.default_rng([seed, 41]).permutation(n)
    found = {name: np.empty(n) for name in predicted}
    for goals, starts in ((order[: n // 2], order[n // 2 :]), (order[n // 2 :], order[: n // 2])):
        size = np.linalg.norm(outcome[goals], axis=1)
        for name, post in predicted.items():
            chosen = starts[choose_starts(post[starts] * scale, outcome[goals])]  # `starts` stand in random order
            found[name][goals] = np.linalg.norm(outcome[chosen] - outcome[goals], axis=1) / size
    return found


def choose_starts(
    predicted: Float[np.ndarray, "start 3"], goals: Float[np.ndarray, "goal 3"]
) -> Int[np.ndarray, " goal"]:
    """The start whose predicted outcome is nearest to each goal; the first of several that are equally near."""
    return np.linalg.norm(predicted[None] - goals[:, None], axis=-1).argmin(axis=1)


def _neighbours(known: PlanarImpacts, asked: PlanarImpacts) -> Float[np.ndarray, "impact 3"]:
    """The recorded outcome of the nearest known start, in standardized features of the approach."""
    features, wanted = ellipse_features(known), ellipse_features(asked)
    turns = [np.hstack([x[:, [0, 2, 4]], np.sin(x[:, [1, 3]]), np.cos(x[:, [1, 3]])]) for x in (features, wanted)]
    spread = turns[0].std(axis=0) + 1e-9
    nearest = choose_starts(turns[0] / spread, turns[1] / spread)
    outcome: np.ndarray = known.post[nearest]
    return outcome
