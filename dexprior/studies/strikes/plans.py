"""Strikes planned with each fitted simulator and carried out on the independent engine's table.

What `dexprior collision plan set=strikes` runs. Targets are where random strikes brought the object on that very table,
so that each can be reached by one strike; every method searches for them with the same budget and several seeds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dexprior.collision.stage import CollisionConfig
from dexprior.config import to_plain
from dexprior.errors import BadInput
from dexprior.policy.planning import PlanConfig
from dexprior.stats import bootstrap_nested
from dexprior.studies.strikes.fitting import execute_plans
from dexprior.studies.strikes.velocities import (
    Bench,
    StrikeStudyConfig,
    check_counts,
    describe,
    open_record,
    read_cell,
    run_cells,
)

__all__ = ["PEER", "evaluate_plans"]

PEER = "mujoco_tuned"
"""The method that all others are compared with, target by target."""

_FIGURES = ("position", "orientation")


def evaluate_plans(
    study: StrikeStudyConfig,
    base: Path,
    folder: str | Path,
    *,
    seed: int,
    n_real: int = 10,
    draws: int = 1,
    targets: int = 5,
    repeats: int = 5,
    plan: PlanConfig | None = None,
    collision: CollisionConfig | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Fit on `n_real` strikes, plan to targets with every method, carry the plans out; plain data.

    Args:
        study: objects, tables, methods; its test strikes are not played.
        base: file of the distilled network.
        folder: keeps the cells; those that are there already, of the same configuration, are not repeated.
        seed: of strikes, targets, noise and searches.
        n_real: strikes to fit to.
        draws: how many times these and the targets are drawn anew in each setting.
        targets: per draw.
        repeats: searches per target, with random numbers of their own.
        plan: method and budget of the searches.
        collision: settings of identification and of the reference's network, and threads.
        progress: show a bar over the cells.

    Returns:
        By shape and setting: `methods` (name -> mean `position` [m] and `orientation` [rad] error, their 95 %
        `intervals` over draws and targets, and `seconds` per plan when all are searched at once), and
        `to_mujoco_tuned` (name -> figure -> paired difference and its interval).

    Raises:
        ArtifactError: the folder belongs to another configuration or seed; a cell in it is damaged; no such base.
        BadInput: fewer than three strikes to fit to, no draw, no target or no repeat.
        MissingExtra: the table's engine is not installed.
    """
    plan, collision = plan or PlanConfig(), collision or CollisionConfig()
    check_counts(n_real, draws)
    if min(targets, repeats) < 1:
        raise BadInput(f"plan: targets = {targets} and repeats = {repeats}; at least 1 of each")
    more = {"targets": targets, "repeats": repeats, "plan": plan}
    record = open_record(
        study, base, folder, stage="strike-plans", collision=collision, n_real=n_real, seed=seed, more=more
    )
    shape = (len(study.methods), len(_FIGURES), repeats, targets)
    found = run_cells(
        study, base, record, collision=collision, n_real=n_real, draws=draws, progress=progress,
        make=lambda bench, draw: _cell(bench, seed, draw, targets, repeats, plan),
        read=lambda file: _read(file, study, shape),
    )  # fmt: skip
    return {
        "schema": "dexprior.strike_plans/1",
        "study": to_plain(study),
        "plan": to_plain(plan),
        "seed": seed,
        "n_real": n_real,
        "draws": draws,
        "targets": targets,
        "repeats": repeats,
        "shapes": {
            shape: {
                str(setting): _summary(study, [found[shape, setting, draw] for draw in range(draws)])
                for setting in study.settings
            }
            for shape in study.shapes
        },
    }


def _read(file: Path, study: StrikeStudyConfig, shape: tuple[int, ...]) -> dict[str, Any]:
    return read_cell(file, lambda cell: [[cell["methods"][name][f] for f in _FIGURES] for name in study.methods], shape)


def _cell(bench: Bench, seed: int, draw: int, targets: int, repeats: int, plan: PlanConfig) -> dict[str, Any]:
    rng = bench.generator(seed, draw)
    fit, reached = bench.record(bench.n_real, rng), bench.record(targets, rng, turned=False)
    fitted = bench.fit(fit, rng)
    done = execute_plans(
        fitted,
        bench.table,
        reached.final_pose,
        repeats=repeats,
        names=bench.study.methods,
        plan=plan,
        seed=int(rng.integers(2**31)),
    )
    return {
        "targets": reached.final_pose.tolist(),
        "methods": {
            name: {
                "position": np.reshape(row["positions"], (repeats, targets)).tolist(),
                "orientation": np.reshape(row["orientations"], (repeats, targets)).tolist(),
                "seconds": row["seconds"],
            }
            for name, row in done.items()
        },
        "fitted": describe(fitted),
    }


def _summary(study: StrikeStudyConfig, cells: list[dict[str, Any]]) -> dict[str, Any]:
    names = study.methods
    errors = np.array(
        [[[cell["methods"][name][figure] for figure in _FIGURES] for name in names] for cell in cells]
    ).mean(axis=3)  # over repeats: draw, method, figure, target
    errors = np.moveaxis(errors, -1, 1)
    if PEER in names:
        errors = np.concatenate([errors, errors - errors[:, :, [names.index(PEER)]]], axis=2)

    def statistic(values: np.ndarray) -> np.ndarray:
        mean: np.ndarray = values.mean(axis=(0, 1))
        return mean.ravel()

    value, low, high = (
        part.reshape(-1, len(_FIGURES)) for part in bootstrap_nested(errors, statistic, depth=2, draws=study.resamples)
    )
    methods = {
        name: {
            **dict(zip(_FIGURES, value[k].tolist())),
            "intervals": {f: [float(low[k, j]), float(high[k, j])] for j, f in enumerate(_FIGURES)},
            "seconds": float(np.mean([cell["methods"][name]["seconds"] for cell in cells])),
            "n": int(np.prod(errors.shape[:2])),
        }
        for k, name in enumerate(names)
    }
    paired = {
        name: {
            f: {"difference": float(value[row, j]), "interval": [float(low[row, j]), float(high[row, j])]}
            for j, f in enumerate(_FIGURES)
        }
        for row, name in enumerate(names, start=len(names))
        if PEER in names and name != PEER
    }
    return {"methods": methods, f"to_{PEER}": paired}
