"""What the studies found, as pages: curves over the training, and tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dexprior.studies.kl.seeds import shown
from dexprior.transfer.page import Page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dexprior.studies.kl.mechanism import MechanismConfig

__all__ = ["draw_curves", "mechanism_page"]

_COLORS = ("#1f6f8b", "#c77c11", "#6b9e78", "#8d8d99", "#9b4f96", "#1c2530")
_PANELS = {
    "elsewhere": "success elsewhere", "training": "success in the training world", "kl": "KL to the prior [nats]",
    "elsewhere/onset": "first touch elsewhere [s]", "elsewhere/grip": "force on a fingertip [N]",
    "elsewhere/angle": "lean at first touch [degrees]",
}  # fmt: skip


def draw_curves(axes: Axes, arms: Mapping[str, Mapping[Any, list[dict[str, float]]]], name: str) -> None:
    """A number along the training: a thin line a seed, a thick one for their mean."""
    for color, (arm, seeds) in zip(_COLORS, arms.items()):
        rows = [[(row["step"], row[name]) for row in curve if name in row] for curve in seeds.values()]
        for line in rows:
            axes.plot(*zip(*line), color=color, linewidth=0.6, alpha=0.5)
        mean = np.nanmean([[value for _, value in line] for line in rows], axis=0)
        axes.plot([step for step, _ in rows[0]], mean, color=color, linewidth=1.8, label=f"{arm} ({len(rows)})")


def mechanism_page(config: MechanismConfig, found: Mapping[str, Any], path: Path) -> Path:
    """Curves of all arms, and what they say at the end."""
    from matplotlib.figure import Figure

    page = Page(
        f"What the KL holds: {config.task}",
        "All worlds are simulated in one engine; elsewhere means parameters beyond the ends of the training family.",
    )
    page.section("At the end of the training")
    page.table(
        ["weight of the KL", "success elsewhere, over none", "in the training world, over none"],
        [[arm, *(shown(row[place]) for place in ("elsewhere", "training"))] for arm, row in found["held"].items()],
    )
    page.table(
        ["weight of the KL", "best look elsewhere over the last"],
        [[arm, shown(row)] for arm, row in found["drift"].items()],
    )
    figure = Figure(figsize=(11.0, 6.4), layout="constrained")
    grid = figure.subplots(2, 3)
    for axes, (name, label) in zip(grid.flat, _PANELS.items()):
        draw_curves(axes, found["arms"], name)
        axes.set_xlabel("control steps")
        axes.set_ylabel(label)
        if name in ("elsewhere", "training"):
            axes.set_ylim(-0.02, 1.02)
        if name == "kl":
            axes.set_yscale("log")
    grid.flat[0].legend(frameon=False, fontsize=8)
    page.section("Along the training")
    page.figure(figure, "Thin: one seed; thick: their mean, with the number of seeds.")
    return page.write(path)
