"""The package's shape: what may import what, what is exported, and what an import costs."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import dexprior

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "mujoco", "open3d", "hydra", "diffusers")
MODULES = sorted(m.name for m in pkgutil.walk_packages(dexprior.__path__, "dexprior.") if m.name != "dexprior.__main__")
PACKAGES = sorted(m.name for m in pkgutil.iter_modules(dexprior.__path__, "dexprior.") if m.name != "dexprior.__main__")


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip


def tree_of(module: str) -> ast.Module:
    path = ROOT.joinpath(*module.split("."))
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())


@pytest.mark.parametrize(
    "module", ["dexprior", "dexprior.types", "dexprior.stats", "dexprior.config", "dexprior.errors"]
)
def test_light_imports_load_nothing_heavy(module):
    done = python(f"import sys, {module}; print(*[m for m in {HEAVY} if m in sys.modules])")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


@pytest.mark.parametrize("module", MODULES)
def test_all_names_exist(module):
    made = importlib.import_module(module)
    names = getattr(made, "__all__", [])
    assert len(set(names)) == len(names)
    assert not [name for name in names if not hasattr(made, name)]


@pytest.mark.parametrize("module", ["dexprior", *MODULES])
def test_what_is_defined_in_public_is_exported_or_said_to_be_private(module):
    """A package's `__init__` exports what it imports; a module with `__all__` names every class that it defines."""
    tree = tree_of(module)
    made = importlib.import_module(module)
    if not hasattr(made, "__all__"):
        body = [n for n in tree.body if not isinstance(n, (ast.Expr, ast.ImportFrom))]
        assert not body or module.split(".")[1] == "cli", f"{module} defines something but has no __all__"
        return
    if hasattr(made, "__path__"):
        given = {
            a.asname or a.name
            for n in tree.body
            if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("dexprior")
            for a in n.names
        }
        assert given <= set(made.__all__), given - set(made.__all__)


IMPORT_ALONE = """
import importlib, os, sys

names = sys.argv[1:]
for name in names:  # third-party packages stay loaded from here on
    try:
        importlib.import_module(name)
    except ImportError:
        pass  # found again below
for ours in [m for m in sys.modules if m.partition(".")[0] == "dexprior"]:
    del sys.modules[ours]


def visit(name):
    # after its package, as Python does: what that loaded is loaded already, the rest of it begins from there
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(f"{name}: {error!r}", flush=True)
        return
    for below in [m for m in names if m.rpartition(".")[0] == name]:
        if below in sys.modules:
            visit(below)
        elif child := os.fork():
            if os.waitpid(child, 0)[1]:
                sys.exit(f"{below}: no answer")
        else:
            visit(below)
            os._exit(0)


visit("dexprior")
"""


@pytest.mark.parametrize("modules", [PACKAGES, pytest.param(MODULES, marks=pytest.mark.slow)], ids=["packages", "all"])
def test_every_module_can_be_imported_first(modules):
    """Whichever of ours a program imports first: no import runs in a circle."""
    done = python(IMPORT_ALONE, *modules)
    assert done.returncode == 0, done.stderr
    assert not done.stdout, done.stdout


def test_nothing_unpickles_or_evaluates():
    """No file format of ours can run code."""
    found = []
    for module in MODULES:
        for node in ast.walk(tree_of(module)):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = [a.name for a in node.names] + [getattr(node, "module", None) or ""]
                found += [
                    f"{module}: {n}"
                    for n in names
                    if n.split(".")[0] in ("pickle", "dill", "joblib", "shelve", "marshal")
                ]
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec"):
                found.append(f"{module}: {node.func.id}")
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load":
                found.append(f"{module}: torch.load")
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and getattr(node.value, "value", None):
                found.append(f"{module}: allow_pickle")
    # others keep plain data in pickles: what reads them is attacked in tests/reading/test_pickle_attacks.py
    assert found == ["dexprior.reading.pickles: pickle"]


def test_no_package_is_a_drawer():
    assert not [m for m in MODULES if m.rpartition(".")[2] in ("utils", "helpers", "common", "misc")]


def test_import_contracts_hold():
    """The layers of pyproject.toml, checked by import-linter."""
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
