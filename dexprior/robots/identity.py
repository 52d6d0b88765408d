"""What identifies a compiled model: trajectories say which robot's they are."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import mujoco

__all__ = ["model_hash"]


def model_hash(model: mujoco.MjModel) -> str:
    """Sixteen hex digits that identify a compiled model; another MuJoCo version gives another hash.

    It covers the names and arrays that decide motion and contact, not what is only drawn.
    """
    import mujoco

    digest = hashlib.sha256(mujoco.__version__.encode())
    for kind, count in _NAMED.items():
        for index in range(getattr(model, count)):
            name = mujoco.mj_id2name(model, getattr(mujoco.mjtObj, kind), index)
            digest.update(f"{kind} {index} {name}\n".encode())
    for prefix in _HASHED:
        for attribute in sorted(a for a in dir(model) if a.startswith(prefix) and not a.endswith(_DRAWN)):
            value = getattr(model, attribute)
            if isinstance(value, np.ndarray):
                digest.update(f"{attribute} {value.shape} {value.dtype}\n".encode())
                digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()[:16]


_NAMED = {"mjOBJ_BODY": "nbody", "mjOBJ_JOINT": "njnt", "mjOBJ_SITE": "nsite", "mjOBJ_ACTUATOR": "nu"}
_DRAWN = ("_rgba", "_matid", "_group")
_HASHED = ("actuator_", "body_", "dof_", "eq_", "geom_", "jnt_", "qpos", "site_", "tendon_")
