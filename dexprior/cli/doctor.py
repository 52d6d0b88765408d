"""What this machine has, what is missing, and what to do about it.

Exit status 0 when the demo can run here, 1 when something that it needs is missing. What only some verbs need is listed
with those verbs.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys

from dexprior import extras
from dexprior.artifacts import package_versions
from dexprior.errors import MissingExtra

_NEEDED = ("numpy", "torch", "mujoco", "diffusers", "accelerate", "hydra-core", "gymnasium", "mink", "av")


def run(config: None, words: list[str]) -> int:
    """Print the report."""
    problems: list[str] = []
    print(f"python     {platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores")
    for name in _NEEDED:
        try:
            print(f"{name:<10} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            print(f"{name:<10} missing")
            problems.append(f"{name} is missing: pip install dexprior")
    if package_versions().get("mujoco") == "4.0.0":
        problems.append("mujoco 4.0.0 has broken sparse constraint Jacobians: pip install 'mujoco<4' in a fresh venv")
    problems += _graphics()
    _accelerator()
    print("what only some verbs need")
    _open3d()
    for module, (extra, purpose, verbs) in extras.OPTIONAL.items():
        found = extras.available(module)
        advice = "" if found else f"  ->  pip install 'dexprior[{extra}]'"
        print(f"  {module:<20} {'yes' if found else 'no':<4} {purpose} (verbs: {verbs}){advice}")
    _data()
    print()
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    print("ready: dexprior demo" if not problems else "not ready; see above")
    return 1 if problems else 0


def _graphics() -> list[str]:
    from dexprior.worlds.render import check_graphics

    wrong = check_graphics()
    print(f"rendering  {'works' if wrong is None else 'does not work'} (MUJOCO_GL={os.environ.get('MUJOCO_GL', '')})")
    return [] if wrong is None else [wrong]


def _open3d() -> None:
    found, advice = "yes", ""
    try:
        extras.open3d()
    except MissingExtra as error:
        found, advice = "no", f"  ->  {error}"
    verbs = "data generate task=, data import, collision generate|distill pairs="
    print(f"  {'open3d':<20} {found:<4} distances to surfaces, clouds of meshes (verbs: {verbs}){advice}")


def _accelerator() -> None:
    import torch

    if torch.cuda.is_available():
        print(
            f"gpu        {torch.cuda.get_device_name(0)}: accelerate launch --config_file configs/accelerate/gpu.yaml "
            "scripts/train_prior.py"
        )
    else:
        print(f"gpu        none found; {torch.get_num_threads()} CPU threads will be used")


def _data() -> None:
    from dexprior.data import catalog

    print(f"measured data (DEXPRIOR_DATA={os.environ.get('DEXPRIOR_DATA', 'not set')})")
    for name in catalog.names():
        path = catalog.find(name)
        print(f"  {name:<20} {'found' if path else f'not found  ->  dexprior data get {name}'}")
