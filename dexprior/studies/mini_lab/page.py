"""Success of gaits and of what they are part of over the friction of the fingertips, as numbers and as a figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from dexprior.studies.mini_lab.settings import LabConfig
from dexprior.studies.mini_lab.trials import episodes, repeated
from dexprior.studies.mini_lab.worlds import assumed_family, levels
from dexprior.worlds.tasks import Player, Task, TaskWorlds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_success", "success_over_friction"]

FRICTIONS = (0.1, 0.15, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.2)
"""Frictions at which gaits are tried."""
_INSTANCES = 16  # at each


def success_over_friction(
    task: Task, config: LabConfig, policies: Mapping[str, Player], *, seed: int
) -> dict[str, Float[np.ndarray, " friction"]]:
    """Success rates at `FRICTIONS`, on the same instances for every policy; no panel and no training shows them.

    Args:
        task: the cube.
        config: whose simulator it is, but for the friction.
        policies: by name.
        seed: of the instances.
    """
    family = assumed_family(task, config)
    rows = np.repeat(levels(family, FRICTIONS), _INSTANCES, axis=0)
    scenes = repeated(task.sample(np.random.default_rng([seed, 5]), _INSTANCES), len(FRICTIONS))
    worlds = TaskWorlds(task, len(rows), family=family, threads=1)
    return {
        name: episodes(worlds, policy, scenes, rows, config.seconds).success.reshape(len(FRICTIONS), -1).mean(axis=1)
        for name, policy in policies.items()
    }


def draw_success(found: Mapping[str, Float[np.ndarray, " friction"]], config: LabConfig) -> Figure:
    """One line a policy; the frictions that were trained on and the held-out one are marked."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 3.4))
    axes = figure.subplots()
    axes.axvspan(
        min(config.frictions), max(config.frictions), color="#1f6f8b", alpha=0.12, label="trained on in round 1"
    )
    axes.axvline(config.held_out, color="#c77c11", linestyle="--", label="held out")
    for (name, rate), marker in zip(found.items(), "os^vD"):
        axes.plot(FRICTIONS, rate, marker=marker, label=name)
    axes.set_xscale("log")
    axes.set_xticks(FRICTIONS, [f"{x:g}" for x in FRICTIONS])
    axes.minorticks_off()
    axes.set_xlabel("friction of the fingertips")
    axes.set_ylabel("success")
    axes.set_ylim(-0.05, 1.05)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure
