"""Pictures from above: one strike as measured and as predicted, and a route with every strike on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from dexprior.envs.pushing import PushingTask
from dexprior.policy.pushing.evaluation import RouteRun
from dexprior.policy.pushing.routes import Route
from dexprior.worlds.pushing import PushingConfig, Strikes, rod_at_touch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_route", "draw_strike"]

_COLORS = ("#b2182b", "#2166ac", "#4d9221", "#762a83")
_INK = "#303030"


def draw_strike(
    world: PushingConfig,
    pose: Float[np.ndarray, " 3"],
    strike: Strikes,
    track: Float[np.ndarray, "frame 3"],
    predicted: Mapping[str, Float[np.ndarray, " 3"]],
    target: Axes | str | Path,
) -> None:
    """Draw a struck object: where it stood, the recorded path to rest, and where each model says that it stops.

    Args:
        world: the object.
        pose: before the strike.
        strike: one strike.
        track: recorded poses; the last is where it stopped.
        predicted: final pose by the model's name.
        target: axes to draw into, or an image file to write.
    """
    axes, finish = _open(target)
    _outline(axes, world, pose, color="#9a9a9a", label="before")
    axes.plot(track[:, 0], track[:, 1], color=_INK, linewidth=1.0)
    _outline(axes, world, track[-1], color=_INK, label="measured", linewidth=2.0)
    for color, (name, final) in zip(_COLORS, predicted.items()):
        _outline(axes, world, final, color=color, label=name, linestyle="--")
    _rod(axes, world, pose, strike)
    axes.legend(fontsize=8, frameon=False, loc="best")
    finish()


def draw_route(
    world: PushingConfig, task: PushingTask, run: RouteRun, which: int, target: Axes | str | Path, *, title: str = ""
) -> None:
    """Draw one run of a route: safe zone, sub-goals, and the object after each strike with the rod that struck it.

    Args:
        world: the object.
        task: width of the zone, size of the sub-goals.
        run: from `evaluate_routes`.
        which: number of the run.
        target: axes to draw into, or an image file to write.
        title: above the picture.
    """
    axes, finish = _open(target)
    _zone(axes, task, run.route)
    poses, strikes = run.poses[which], run.actions[which]
    count = len(strikes)
    for k, pose in enumerate(poses):
        shade = str(round(0.75 - 0.6 * k / max(count, 1), 3))
        _outline(axes, world, pose, color=shade, linewidth=1.4)
        if k < count:
            one = Strikes(alpha=strikes.alpha[[k]], speed=strikes.speed[[k]], beta=strikes.beta[[k]])
            _rod(axes, world, pose, one, label=str(k + 1))
    axes.plot(*poses[:, :2].T, color=_COLORS[1], linewidth=1.0, marker=".", zorder=4)
    axes.set_title(title or f"{int(run.completed[which])} of {run.route.segments} sub-goals, {count} strikes")
    finish()


def _open(target: Axes | str | Path) -> tuple[Any, Any]:
    if not isinstance(target, (str, Path)):
        return target, lambda: _frame(target)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()

    def finish() -> None:
        _frame(axes)
        figure.savefig(target, dpi=130)

    return axes, finish


def _frame(axes: Any) -> None:
    axes.set_aspect("equal")
    axes.margins(0.05)
    axes.set_xlabel("x [m]")
    axes.set_ylabel("y [m]")


def _outline(axes: Any, world: PushingConfig, pose: np.ndarray, *, label: str | None = None, **style: Any) -> None:
    c, s = np.cos(pose[2]), np.sin(pose[2])
    contour = world.footprint.contour
    x = pose[0] + c * contour[:, 0] - s * contour[:, 1]
    y = pose[1] + s * contour[:, 0] + c * contour[:, 1]
    axes.plot(np.append(x, x[0]), np.append(y, y[0]), label=label, **style)
    axes.plot([pose[0], pose[0] + 0.25 * world.size * c], [pose[1], pose[1] + 0.25 * world.size * s], **style)


def _rod(axes: Any, world: PushingConfig, pose: np.ndarray, strike: Strikes, *, label: str = "") -> None:
    from matplotlib.patches import Circle

    axis, velocity, _ = rod_at_touch(world, np.asarray(pose)[None], strike)
    axes.add_patch(Circle(axis[0], world.rod_radius, color=_COLORS[0], alpha=0.8, zorder=3))
    tail = axis[0] - 0.06 * velocity[0]
    axes.annotate("", axis[0], tail, arrowprops={"arrowstyle": "-|>", "color": _COLORS[0]}, zorder=3)
    if label:
        axes.annotate(label, tail, color=_COLORS[0], fontsize=8, ha="right", va="center")


def _zone(axes: Any, task: PushingTask, route: Route) -> None:
    from matplotlib.patches import Circle, Rectangle

    for start, heading in zip(route.corners[:-1], route.heading):
        side = task.width / 2 * np.array([np.sin(heading), -np.cos(heading)])
        axes.add_patch(
            Rectangle(start + side, task.length, task.width, angle=np.degrees(heading), color="#e8eef5", zorder=0)
        )
    for corner in route.corners:
        axes.add_patch(Circle(corner, task.reached, color="#d6e4d0", zorder=0))
