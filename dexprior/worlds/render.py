"""Off-screen rendering, cheap enough for training videos in software."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import UInt8

from dexprior.errors import NoGraphics

if TYPE_CHECKING:
    import mujoco

__all__ = ["FrameRenderer", "check_graphics", "off_screen"]


class FrameRenderer:
    """Renders a model's states through one of its cameras. Use as a context manager.

    Raises:
        NoGraphics: no off-screen context can be made.
    """

    def __init__(self, model: mujoco.MjModel, *, camera: str, width: int, height: int) -> None:
        import mujoco

        self._camera = camera
        model.vis.global_.offwidth = max(model.vis.global_.offwidth, width)
        model.vis.global_.offheight = max(model.vis.global_.offheight, height)
        with off_screen():
            self._renderer = mujoco.Renderer(model, height, width)

    def __enter__(self) -> FrameRenderer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the context back."""
        self._renderer.close()

    def render(self, data: mujoco.MjData) -> UInt8[np.ndarray, "height width 3"]:
        """One RGB frame of a state on which `mj_forward` or `mj_step` was called."""
        self._renderer.update_scene(data, camera=self._camera)
        return self._renderer.render().copy()


@contextmanager
def off_screen() -> Iterator[None]:
    """Turns whatever fails while an off-screen context is made into one error.

    Raises:
        NoGraphics: no context can be made.
    """
    import mujoco

    try:
        yield
    except (mujoco.FatalError, ImportError, AttributeError, RuntimeError) as error:
        raise NoGraphics(
            f"no off-screen OpenGL context: {error}. Set MUJOCO_GL=egl (needs libegl1) or MUJOCO_GL=osmesa "
            "(needs libosmesa6) before Python starts; `dexprior doctor` shows what was found"
        ) from None


def check_graphics() -> str | None:
    """What is wrong with off-screen rendering here; None when it works."""
    import mujoco

    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><camera name='c' pos='0 0 1'/><geom size='.1'/></worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    try:
        with FrameRenderer(model, camera="c", width=16, height=16) as renderer:
            bright = renderer.render(data).max()
    except NoGraphics as error:
        return str(error)
    return None if bright > 0 else "the off-screen image is black"
