"""What an injector may touch; every hook does nothing by default."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float, UInt8

from dexprior.families import ParameterFamily
from dexprior.robots.rigs import Rig

if TYPE_CHECKING:
    import mujoco

__all__ = ["Injector", "Stage"]


@dataclass(frozen=True)
class Stage:
    """A scene before it is compiled."""

    spec: mujoco.MjSpec
    rigs: tuple[Rig, ...]

    @property
    def objects(self) -> list[Any]:
        """Bodies that can be manipulated: those with a free joint, but for clutter and robots."""
        import mujoco

        prefixes = (*(rig.prefix for rig in self.rigs), "clutter")
        return [
            body
            for body in self.spec.bodies
            if any(joint.type == mujoco.mjtJoint.mjJNT_FREE for joint in body.joints)
            and not body.name.startswith(prefixes)
        ]


class Injector:
    """One switch.

    Args:
        strength: in (0, 1].
        seed: of what it draws for the scene; what it draws for a picture also depends on the instance.
    """

    name: ClassVar[str]

    def __init__(self, strength: float, seed: int) -> None:
        self.strength, self._seed = strength, seed

    def rng(self, *more: int) -> np.random.Generator:
        """Random numbers of this injector alone."""
        return np.random.default_rng([self._seed, zlib.crc32(self.name.encode()), *more])

    def configure(self, settings: Any) -> Any:
        """Change the task's own configuration."""
        return settings

    def build(self, stage: Stage) -> None:
        """Change the scene before it is compiled."""

    def parameters(self, family: ParameterFamily) -> ParameterFamily:
        """Change what the world is assumed to be like."""
        return family

    def sample(self, rng: np.random.Generator, n: int) -> dict[str, Float[np.ndarray, "n ..."]]:
        """Draw where its things are in n instances."""
        return {}

    def place(self, view: Any, ids: np.ndarray, scenes: Any) -> None:
        """Put them there."""

    def cloud(self, points: Float[np.ndarray, "n point 3"]) -> Float[np.ndarray, "n point 3"]:
        """What is left of a point cloud."""
        return points

    def dress(self, model: mujoco.MjModel, look: int) -> None:
        """Change how a world looks, before it is rendered; `look` is the instance's."""

    def develop(self, image: UInt8[np.ndarray, "height width 3"]) -> UInt8[np.ndarray, "height width 3"]:
        """Change a rendered image."""
        return image
