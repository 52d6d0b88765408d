"""The picture of an evaluation: share of impacts predicted within an error, for every error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dexprior.artifacts import read_object, read_tensors
from dexprior.collision.stage import OURS
from dexprior.errors import ArtifactError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["LABELS", "plot_accuracy", "strongest_opponent"]

LABELS = {
    "point_impulse_bound": "best point impulse (bound: sees the outcome)",
    "finetuned": "network identified and fine-tuned",
    "identified": "network identified",
    "clash_tuned": "CLASH, simulator and training tuned",
    "clash": "CLASH, as published",
    "clash_without_pretraining": "the same network without pre-training",
    "closed_form": "restitution + friction",
    "mujoco_cma": "MuJoCo, tuned by CMA-ES, impedance included",
    "mujoco_grid": "MuJoCo, grid-tuned at the network's impedance",
    "mujoco_mjx": "MuJoCo, tuned by gradients (MJX)",
    "mujoco_identified": "MuJoCo at the network's parameters and impedance",
}
"""Methods in the order of tables and plots; those with a colour are drawn."""

_COLORS = {
    "point_impulse_bound": "#8a8a8a",
    "finetuned": "#b2182b",
    "identified": "#ef8a62",
    "clash_tuned": "#762a83",
    "clash": "#af8dc3",
    "closed_form": "#4d9221",
    "mujoco_cma": "#2166ac",
    "mujoco_grid": "#67a9cf",
}


def strongest_opponent(result: dict[str, Any]) -> str:
    """A sentence on ours against the opponent with the smallest median error."""
    name, ours = result["strongest_opponent"], result["methods"][OURS]
    other = result["methods"][name]
    found = result["paired"][name]["median"]
    low, high = found["interval"]
    return (
        f"The strongest opponent is {LABELS[name]}: median error {other['median']:.3f} against {ours['median']:.3f} of "
        f"the {LABELS[OURS]}, whose median is {found['ratio']:.2f} [{low:.2f}, {high:.2f}] of it (95 % interval over "
        "draws and test impacts)."
    )


def plot_accuracy(result_folder: str | Path, target: Axes | str | Path) -> None:
    """Draw the share of impacts with a relative error below e, against e in [0, 0.6].

    Args:
        result_folder: what `run` filled.
        target: axes to draw into, or an image file to write.

    Raises:
        ArtifactError: the folder holds no finished evaluation.
    """
    folder = Path(result_folder)
    if not (folder / "result.json").is_file():
        raise ArtifactError(f"{folder} holds no result.json: the collision stage has not finished there")
    if isinstance(target, (str, Path)):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 4.4), layout="constrained")
        FigureCanvasAgg(figure)
        _draw(folder, figure.add_subplot())
        figure.savefig(target, dpi=150)
    else:
        _draw(folder, target)


def _draw(folder: Path, axes: Axes) -> None:
    result = read_object(folder / "result.json")
    tensors, _ = read_tensors(folder / "samples.safetensors")
    for name, color in _COLORS.items():
        numbers, label = result["methods"][name], LABELS[name]
        axes.plot(
            tensors["thresholds"],
            tensors[f"accuracy/{name}"],
            label=f"{label}: median {numbers['median']:.3f}",
            color=color,
            linestyle="--" if name == "point_impulse_bound" else "-",
            linewidth=2.2 if name == "finetuned" else 1.5,
        )
    for threshold in (0.1, 0.2):
        axes.axvline(threshold, color="#cccccc", linewidth=0.8, zorder=0)
    count = result["n_test"]
    axes.set(
        xlim=(0.0, 0.6),
        ylim=(0.0, 1.0),
        xlabel="relative error e of (vx, vy, kω) after the impact",
        ylabel="share of impacts with an error below e",
        title=f"{count} {result['source']} impacts, adapted on {result['n_real']} others",
    )
    axes.legend(loc="lower right", fontsize=8, frameon=False)
