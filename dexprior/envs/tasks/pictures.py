"""Frames of single worlds of a batch, and films of several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import UInt8

from dexprior.data.clips import write_clip
from dexprior.errors import BadInput
from dexprior.worlds.render import FrameRenderer
from dexprior.worlds.tasks import TaskWorlds

if TYPE_CHECKING:
    from dexprior.envs.tasks.vector import TaskVectorEnv

__all__ = ["Film", "Pictures"]

Frame = UInt8[np.ndarray, "height width 3"]


class Pictures:
    """Renders worlds, each with its own model; off-screen contexts are made when first needed and kept until `close`.

    Args:
        worlds: whose states are shown.
    """

    def __init__(self, worlds: TaskWorlds) -> None:
        self._worlds = worlds
        self._renderers: dict[tuple[int, str, int], FrameRenderer] = {}

    def frame(self, world: int, *, look: int = 0, camera: str = "front", size: int = 480) -> Frame:
        """One RGB frame of a world as it is now; `look` as in `TaskWorlds.data`.

        Raises:
            NoGraphics: nothing can be rendered here.
        """
        model, data = self._worlds.data(world, look=look)
        key = (world, camera, size)
        if key not in self._renderers:
            self._renderers[key] = FrameRenderer(model, camera=camera, width=size, height=size)
        return self._renderers[key].render(data)

    def refresh(self, worlds: Sequence[int]) -> None:
        """Forget what some worlds looked like: their models have changed."""
        for key in [key for key in self._renderers if key[0] in worlds]:
            self._renderers.pop(key).close()

    def close(self) -> None:
        """Give the contexts back."""
        self.refresh([key[0] for key in self._renderers])


class Film:
    """Frames of several worlds side by side, one a control step.

    Args:
        env: whose worlds are filmed.
        worlds: which of them, in the order of the tiles.
        cameras: tiles below each other.
        size: width and height of a tile [px]; even.

    Raises:
        BadInput: no such world, or an odd size.
    """

    def __init__(
        self, env: TaskVectorEnv, worlds: Sequence[int], *, cameras: Sequence[str] = ("front",), size: int = 240
    ) -> None:
        wrong = [k for k in worlds if not 0 <= k < env.num_envs]
        if wrong or not worlds:
            raise BadInput(f"film of worlds {list(worlds)}: there are worlds 0 to {env.num_envs - 1}")
        if size < 2 or size % 2:
            raise BadInput(f"film: tiles of {size} px; an even number of pixels is needed")
        self._env, self._worlds, self._cameras, self._size = env, tuple(worlds), tuple(cameras), size
        self.frames: list[Frame] = []

    def shoot(self) -> None:
        """Add a frame of the worlds as they are now."""
        rows = [
            np.concatenate([self._env.frame(k, camera=camera, size=self._size) for k in self._worlds], axis=1)
            for camera in self._cameras
        ]
        self.frames.append(np.concatenate(rows, axis=0))

    def write(self, path: str | Path) -> Path:
        """Write an mp4 that plays in real time.

        Raises:
            BadInput: no frame was shot.
        """
        if not self.frames:
            raise BadInput("a film without a frame; call `shoot` first")
        return write_clip(path, np.stack(self.frames), 1.0 / self._env.task.control_dt)
