"""Routes of a trained pushing policy on the independent engine's table: what `dexprior evaluate task=push` runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from dexprior.artifacts import write_json
from dexprior.config import Ge, config
from dexprior.envs.reality.pushing import RealTable, start_table
from dexprior.errors import BadInput
from dexprior.policy.pushing.evaluation import evaluate_routes
from dexprior.policy.pushing.routes import Route
from dexprior.policy.pushing.training import load_push_policy

__all__ = ["RouteStudyConfig", "study_routes"]


@config
class RouteStudyConfig:
    """Which routes, on which tables, how often."""

    settings: tuple[int, ...] = (1,)
    """Numbers of the table's hidden contact parameters."""
    segments: tuple[int, ...] = (1, 2, 3)
    """Lengths of the routes."""
    runs: Annotated[int, Ge(1)] = 100
    """Starts of each route."""
    table_seed: Annotated[int, Ge(0)] = 50
    """Seed of the motion capture's noise."""

    def __post_init__(self) -> None:
        if not self.settings or not self.segments or min(self.segments) < 1:
            raise BadInput(
                f"routes: settings {self.settings} and segments {self.segments} must not be empty or below 1"
            )


def study_routes(study: RouteStudyConfig, policy: Path, out: Path, *, seed: int) -> dict[str, Any]:
    """Drive every route in every setting, on a table server of our own; the result is written to `out`.

    Args:
        study: routes and settings.
        policy: folder (or file) of a policy that `train-policy task=push` wrote.
        out: a JSON file.
        seed: of the starts.

    Returns:
        By `SETTING/SEGMENTS`: success of full routes and share of sub-goals with exact intervals, mean strikes.

    Raises:
        ArtifactError: no such policy.
        MissingExtra: the table's engine is not installed.
    """
    file = policy / "policy.safetensors" if policy.is_dir() else policy
    actor, trained = load_push_policy(file)
    rows: dict[str, Any] = {}
    for setting in study.settings:
        with RealTable(start_table(trained.world, setting=setting, seed=study.table_seed)) as table:
            for segments in study.segments:
                route = Route.turning(segments, trained.task)
                run = evaluate_routes(
                    actor, table, route, world=trained.world, task=trained.task, runs=study.runs, seed=seed
                )
                rows[f"{setting}/{segments}"] = run.as_dict()
    write_json(out, {"policy": str(file), "seed": seed, "routes": rows})
    return rows
