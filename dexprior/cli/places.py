"""Where the YAML files of the verbs and the checkpoints that ship lie."""

from __future__ import annotations

from pathlib import Path

__all__ = ["SHIPPED", "config_folder", "presets", "shipped"]

SHIPPED = "shipped"
"""What is written in place of a run's folder for the checkpoints that come with the package."""


def config_folder() -> Path:
    """Where the YAML files lie."""
    return _folder("configs")


def shipped(part: str) -> Path:
    """Folder of a small network of pick-and-place that comes with the package: prior, estimator or policy."""
    return _folder("checkpoints") / "pick_place" / part


def _folder(name: str) -> Path:
    """A folder inside an installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / name
    return inside if inside.is_dir() else package.parent / name


def presets(verb: str) -> list[str]:
    """Names that `preset=` takes for a verb."""
    return sorted(p.stem for p in (config_folder() / "preset" / verb.replace("-", "_")).glob("*.yaml"))
