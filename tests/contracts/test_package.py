"""The package folder holds its modules and nothing else; what ships beside them is declared in pyproject.toml."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BACKUPS = {".orig", ".rej", ".bak", ".swp", ".tmp"}


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def test_the_package_holds_python_files_only():
    assert [str(path.relative_to(ROOT)) for path in _files(ROOT / "dexprior") if path.suffix != ".py"] == []


def test_every_folder_of_the_package_is_a_package():
    folders = {path.parent for path in _files(ROOT / "dexprior")}
    assert [str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_no_backup_lies_among_the_files():
    watched = ("dexprior", "tests", "docs", "configs", "datasets", "benchmarks", "scripts", "examples", "checkpoints")
    found = [path for name in watched for path in _files(ROOT / name)]
    assert [str(p.relative_to(ROOT)) for p in found if p.suffix in BACKUPS or p.name.endswith("~")] == []
