"""Filming simulated states: colour and depth of several cameras from one off-screen context."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Float32, UInt8

from dexprior.worlds.render import off_screen

if TYPE_CHECKING:
    import mujoco

__all__ = ["FilmCrew"]


class FilmCrew:
    """Films states of one model. Use as a context manager.

    One rendering gives colour and depth: `dexprior.worlds.render.FrameRenderer` would need two, and a context for each
    camera.

    Args:
        model: compiled; its scene may not change.
        size: width and height of the images [px].

    Raises:
        NoGraphics: no off-screen context can be made.
    """

    def __init__(self, model: mujoco.MjModel, size: int) -> None:
        import mujoco

        self.model, self.data, self.size = model, mujoco.MjData(model), size
        for side in ("offwidth", "offheight"):
            setattr(model.vis.global_, side, max(getattr(model.vis.global_, side), size))
        with off_screen():
            self._context = mujoco.GLContext(size, size)
            self._context.make_current()
            self._mjr = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._mjr)
        self._mjr.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR.value
        self._scene, self._options = mujoco.MjvScene(model, maxgeom=500), mujoco.MjvOption()
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
        self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        self._rect = mujoco.MjrRect(0, 0, size, size)
        extent = model.stat.extent
        self._near, self._far = model.vis.map.znear * extent, model.vis.map.zfar * extent

    def __enter__(self) -> FilmCrew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the context back."""
        self._context.make_current()
        self._mjr.free()
        self._context.free()

    def film(
        self,
        qpos: Float[np.ndarray, "time nq"],
        mocap: Float[np.ndarray, "time body 7"],
        cameras: tuple[str, ...],
        *,
        depth: tuple[str, ...] = (),
    ) -> tuple[dict[str, UInt8[np.ndarray, "time size size 3"]], dict[str, Float32[np.ndarray, "time size size"]]]:
        """Colour of every camera, and depth along the optical axis of some [m]; zero where nothing is.

        Args:
            qpos, mocap: states.
            cameras: names in the model.
            depth: those of them whose depth is wanted.
        """
        import mujoco

        self._context.make_current()
        time = len(qpos)
        colour = {name: np.empty((time, self.size, self.size, 3), dtype=np.uint8) for name in cameras}
        buffer = {name: np.empty((time, self.size, self.size), dtype=np.float32) for name in depth}
        eyes = {name: self._eye(name) for name in cameras}
        perturb = mujoco.MjvPerturb()
        for k in range(time):
            self.data.qpos[:] = qpos[k]
            self.data.mocap_pos[:], self.data.mocap_quat[:] = mocap[k, :, :3], mocap[k, :, 3:]
            mujoco.mj_kinematics(self.model, self.data)
            mujoco.mj_camlight(self.model, self.data)
            if self.model.nflex:
                mujoco.mj_flex(self.model, self.data)
            for number, (name, eye) in enumerate(eyes.items()):
                if number == 0:
                    mujoco.mjv_updateScene(
                        self.model,
                        self.data,
                        self._options,
                        perturb,
                        eye,
                        mujoco.mjtCatBit.mjCAT_ALL.value,
                        self._scene,
                    )
                else:
                    mujoco.mjv_updateCamera(self.model, self.data, eye, self._scene)
                mujoco.mjr_render(self._rect, self._scene, self._mjr)
                mujoco.mjr_readPixels(
                    colour[name][k], buffer[name][k] if name in buffer else None, self._rect, self._mjr
                )
        return (
            {name: np.ascontiguousarray(pixels[:, ::-1]) for name, pixels in colour.items()},
            {name: self._metres(np.ascontiguousarray(pixels[:, ::-1])) for name, pixels in buffer.items()},
        )

    def _eye(self, name: str) -> mujoco.MjvCamera:
        import mujoco

        eye = mujoco.MjvCamera()
        eye.type, eye.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, self.model.camera(name).id
        return eye

    def _metres(self, z: Float32[np.ndarray, "time size size"]) -> Float32[np.ndarray, "time size size"]:
        """Metres of MuJoCo's depth buffer: 1 at the near plane, 0 at the far one, linear in 1 / depth."""
        inverse = 1.0 / self._far + z.astype(np.float64) * (1.0 / self._near - 1.0 / self._far)
        return np.where(z > 0, 1.0 / inverse, 0.0).astype(np.float32)
