"""A toss, real beside simulated: curves over time, and the cube itself, projected from the side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float

from dexprior.data.tosses import CUBE_DT, CubeScale, corner_positions
from dexprior.errors import BadInput
from dexprior.geometry.rotations import rotation_angle
from dexprior.studies.cubes.metrics import pose_cost

__all__ = ["draw_toss"]

_COLOURS = ("tab:blue", "tab:red", "tab:green", "tab:purple", "tab:orange")


def draw_toss(
    path: str | Path,
    measured: Float[np.ndarray, "frame 13"],
    simulated: Mapping[str, Float[np.ndarray, "member frame 13"]],
    scale: CubeScale,
    *,
    shown: int = 6,
    title: str = "",
) -> None:
    """Write a picture of one toss: strips of cubes, height, distance travelled, and angle from the measured pose.

    Args:
        path: of the image.
        measured: the real states.
        simulated: name -> rollouts of the same toss; the first is drawn as cubes, all as curves.
        scale: of the cube and the table.
        shown: cubes in a strip.
        title: above all.

    Raises:
        BadInput: nothing to compare, or another number of frames.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    frames = len(measured)
    if not simulated or any(states.shape[1:] != (frames, 13) for states in simulated.values()):
        shapes = {name: states.shape for name, states in simulated.items()}
        raise BadInput(f"draw_toss: simulated has {shapes or 'nothing'}; expected (member, {frames}, 13) for each name")
    if len(simulated) > len(_COLOURS):
        raise BadInput(f"draw_toss: {len(simulated)} simulators; at most {len(_COLOURS)} can be told apart")
    figure = Figure(figsize=(11, 2.1 * (1 + len(simulated)) + 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    parts = figure.add_gridspec(2, 1, height_ratios=[2.1 * (1 + len(simulated)), 3.2])
    strips, curves = figure.add_subfigure(parts[0]), figure.add_subfigure(parts[1])
    along = _direction(measured)
    chosen = np.unique(np.linspace(0, frames - 1, shown).astype(int))
    colours = dict(zip(simulated, _COLOURS))
    rows = [("measured", measured, "0.25")]
    rows += [(name, states[0], colours[name]) for name, states in simulated.items()]
    reach = np.concatenate([corner_positions(states[chosen], scale.half_width) @ along for _, states, _ in rows])
    for axes, (name, states, colour) in zip(strips.subplots(len(rows), 1, sharex=True), rows):
        for k, frame in enumerate(chosen):
            _cube(axes, states[frame], scale, along, colour, alpha=0.3 + 0.7 * (k + 1) / len(chosen))
        axes.axhline(scale.table_height, color="k", lw=0.8)
        axes.set(aspect="equal", ylabel="z [m]", xlim=(reach.min() - 0.02, reach.max() + 0.02))
        axes.set_title(name, loc="left", fontsize=9)
    axes.set_xlabel("along the toss [m]")

    seconds = np.arange(frames) * CUBE_DT
    height, travelled, angle = curves.subplots(1, 3)
    height.plot(seconds, measured[:, 2], color="0.25", lw=2, label="measured")
    travelled.plot(seconds, (measured[:, :3] - measured[0, :3]) @ along, color="0.25", lw=2)
    for name, states in simulated.items():
        cost = pose_cost(states[0, 1:], measured[1:]).mean()
        for k, member in enumerate(states):
            style = {"color": colours[name], "alpha": 1.0 if k == 0 else 0.25, "lw": 1.5 if k == 0 else 0.6}
            height.plot(seconds, member[:, 2], label=f"{name}: e_q {cost:.3f}" if k == 0 else None, **style)
            travelled.plot(seconds, (member[:, :3] - measured[0, :3]) @ along, **style)
            angle.plot(seconds, np.degrees(rotation_angle(member[:, 3:7], measured[:, 3:7])), **style)
    height.set(xlabel="s", ylabel="height of the centre [m]")
    travelled.set(xlabel="s", ylabel="travelled [m]")
    angle.set(xlabel="s", ylabel="angle from the measured [deg]")
    height.legend(fontsize=7)
    figure.savefig(path, dpi=110)


_EDGES = [(a, b) for a in range(8) for b in range(a + 1, 8) if bin(a ^ b).count("1") == 1]


def _cube(axes, state: np.ndarray, scale: CubeScale, along: np.ndarray, colour: str, alpha: float) -> None:  # type: ignore[no-untyped-def]
    corners = corner_positions(state, scale.half_width)
    flat = np.stack([corners @ along, corners[:, 2]], axis=1)
    for a, b in _EDGES:
        axes.plot(*flat[[a, b]].T, color=colour, lw=0.9, alpha=alpha)
    axes.plot(*flat[0], "o", color=colour, ms=4, alpha=alpha)  # one corner is marked, so that turns can be told


def _direction(measured: np.ndarray) -> np.ndarray:
    """Horizontal unit vector from the start to the end."""
    way = measured[-1, :3] - measured[0, :3]
    way[2] = 0.0
    length = np.linalg.norm(way)
    unit: np.ndarray = way / length if length > 1e-6 else np.array([1.0, 0.0, 0.0])
    return unit
