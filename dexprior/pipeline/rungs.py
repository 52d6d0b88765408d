"""What a ladder found, as lines of text, a picture, and the sentence on where most is lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CHAIN", "draw_rungs", "largest_loss", "left_out_text", "loss_text", "table", "worlds_by_loss"]

CHAIN = ("expert", "demonstration", "sample", "bank", "policy")
"""Rungs of which each goes on from the one before; the others are beside them."""
_COLORS = {"training": "#1f6f8b", "other": "#c77c11", "others": "#6b9e78", "laws": "#8d8d99"}


def table(found: Mapping[str, Any]) -> str:
    """The ladder as lines of text, and where most is lost."""
    worlds = list(next(iter(found["rungs"].values())))
    lines = [f"{'rung':<16}" + "".join(f"{world:>14}" for world in worlds)]
    for rung, row in found["rungs"].items():
        told = [f"{row[world]['k']:>8} of {row[world]['n']:>2}" if world in row else f"{'-':>14}" for world in worlds]
        lines.append(f"{rung:<16}" + "".join(told))
    return "\n".join([*lines, *(loss_text(found, world) for world in worlds), *left_out_text(found)])


def largest_loss(found: Mapping[str, Any], world: str) -> tuple[str, str] | None:
    """The neighbours in the chain between which the rate of success falls most; None where it never falls."""
    k, lost = _loss(found, world)
    return None if lost <= 0 else (CHAIN[k], CHAIN[k + 1])


def _loss(found: Mapping[str, Any], world: str) -> tuple[int, float]:
    """Place in the chain after which the rate of success falls most, and by how much."""
    lost = -np.diff([found["rungs"][rung][world]["rate"] for rung in CHAIN])
    k = int(lost.argmax())
    return k, float(lost[k])


def worlds_by_loss(found: Mapping[str, Any]) -> list[str]:
    """Worlds in which the whole chain is judged, the one with the largest loss between two rungs first."""
    worlds = [world for world in found["rungs"][CHAIN[0]] if all(world in found["rungs"][rung] for rung in CHAIN)]
    return sorted(worlds, key=lambda world: -_loss(found, world)[1])


def loss_text(found: Mapping[str, Any], world: str) -> str:
    """A sentence on the largest loss in a world."""
    lost = largest_loss(found, world)
    if lost is None:
        return f"{world}: nothing is lost along the line."
    first, second = (found["rungs"][rung][world] for rung in lost)
    return (
        f"{world}: most is lost between {lost[0]} ({first['k']} of {first['n']}) and {lost[1]} "
        f"({second['k']} of {second['n']})."
    )


def left_out_text(found: Mapping[str, Any]) -> list[str]:
    """A sentence on demonstrations that no rung follows; none where all are followed."""
    n = found.get("left_out", 0)
    return [f"Left out, because they are longer than the prior's clips: {n} demonstrations of the scoring scenes."][:n]


def draw_rungs(found: Mapping[str, Any], ax: Axes) -> None:
    """A group of bars for each rung, one for each world, with 95 % intervals."""
    rungs = list(found["rungs"])
    worlds = list(found["rungs"][rungs[0]])
    height = 0.8 / len(worlds)
    for k, world in enumerate(worlds):
        judged = [j for j, rung in enumerate(rungs) if world in found["rungs"][rung]]
        rows = [found["rungs"][rungs[j]][world] for j in judged]
        rate = np.array([row["rate"] for row in rows])
        low, high = np.array([row["interval"] for row in rows]).T
        place = np.array(judged) + (k - (len(worlds) - 1) / 2) * height
        ax.barh(place, rate, 0.9 * height, color=_COLORS.get(world), label=world)
        apart = np.clip([rate - low, high - rate], 0.0, None)
        ax.errorbar(rate, place, xerr=apart, fmt="none", ecolor="#1c2530", elinewidth=0.8, capsize=1.5)
    for k in range(1, len(rungs)):
        ax.axhline(k - 0.5, color="#dde3ea", linewidth=0.8, zorder=0)
    ax.set(yticks=np.arange(len(rungs)), yticklabels=rungs, xlim=(0, 1.02), xlabel="success (95 %)")
    ax.set_ylim(len(rungs) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.legend(frameon=False, ncols=len(worlds), loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=9)
