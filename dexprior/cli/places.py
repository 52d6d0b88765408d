"""Where the YAML files of the verbs lie."""

from __future__ import annotations

from pathlib import Path

__all__ = ["config_folder", "presets"]


def config_folder() -> Path:
    """Where the YAML files lie: inside an installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


def presets(verb: str) -> list[str]:
    """Names that `preset=` takes for a verb."""
    return sorted(p.stem for p in (config_folder() / "preset" / verb.replace("-", "_")).glob("*.yaml"))
