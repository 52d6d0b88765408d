"""Visual injectors: what a camera sees. They change no motion and no observation but images."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from jaxtyping import Float, UInt8

from dexprior.worlds.injectors.base import Injector, Stage

if TYPE_CHECKING:
    import mujoco

__all__ = ["Background", "Blur", "Lens", "Light", "Textures"]

_DRAWN = {"contype": 0, "conaffinity": 0, "group": 2, "mass": 0.0}


class Textures(Injector):
    """Patterns on the table and on objects, drawn anew for every instance; colours stay, contrast is the strength."""

    name: ClassVar[str] = "textures"
    _COUNT = 6

    def build(self, stage: Stage) -> None:
        """Several patterns as textures with a material each."""
        import mujoco

        rng, spec = self.rng(), stage.spec
        for k in range(self._COUNT):
            dark = 1.0 - self.strength * rng.uniform(0.3, 0.8, 3)
            builtin = mujoco.mjtBuiltin.mjBUILTIN_CHECKER if k % 2 == 0 else mujoco.mjtBuiltin.mjBUILTIN_FLAT
            spec.add_texture(
                name=f"textures{k}", type=mujoco.mjtTexture.mjTEXTURE_2D, builtin=builtin, rgb1=np.ones(3), rgb2=dark,
                width=128, height=128, mark=mujoco.mjtMark.mjMARK_RANDOM, markrgb=1.0 - self.strength * rng.random(3),
                random=0.05 * self.strength if k % 2 == 0 else 0.3,
            )  # fmt: skip
            material = spec.add_material(name=f"textures{k}", texuniform=True, texrepeat=[*rng.uniform(4, 16, 2)])
            material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = f"textures{k}"
        self._dressed = ["table", *(geom.name for body in stage.objects for geom in body.geoms if geom.name)]

    def dress(self, model: mujoco.MjModel, look: int) -> None:
        """One of the patterns each."""
        rng = self.rng(1, look)
        for name in self._dressed:
            model.geom(name).matid = model.material(f"textures{rng.integers(self._COUNT)}").id


class Light(Injector):
    """Brightness within a factor of 2.5, a tint of up to 40 %, and a lamp that stands up to 0.6 m elsewhere."""

    name: ClassVar[str] = "light"

    def dress(self, model: mujoco.MjModel, look: int) -> None:
        """All lamps and the headlight."""
        rng = self.rng(look)
        bright = 2.5 ** (self.strength * rng.uniform(-1.0, 1.0))
        tint = 1.0 + 0.4 * self.strength * rng.uniform(-1.0, 1.0, 3)
        for part in (model.light_diffuse, model.light_ambient):
            part[:] = np.clip(part * bright * tint, 0.0, 1.5)
        for part in (model.vis.headlight.diffuse, model.vis.headlight.ambient):
            part[:] = np.clip(part * bright * tint, 0.0, 1.5)
        model.light_pos[:, :2] += 0.6 * self.strength * rng.uniform(-1.0, 1.0, (model.nlight, 2))


class Background(Injector):
    """Walls with pictures behind the table and sheets on it around the work area; more, and brighter, the stronger."""

    name: ClassVar[str] = "background"

    def build(self, stage: Stage) -> None:
        """Two walls, up to eight pictures on each, and up to twelve sheets; all of them are only drawn."""
        import mujoco

        rng, world, box = self.rng(), stage.spec.worldbody, mujoco.mjtGeom.mjGEOM_BOX
        self._walls = ["background_x", "background_y"]
        self._pictures: list[str] = []
        world.add_geom(name="background_x", type=box, size=[0.01, 2.0, 1.5], pos=[-0.8, 0.0, 1.0], **_DRAWN)
        world.add_geom(name="background_y", type=box, size=[2.0, 0.01, 1.5], pos=[0.0, 1.2, 1.0], **_DRAWN)

        def picture(name: str, size: list[float], pos: list[float], yaw: float = 0.0) -> None:
            quat = [np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)]
            world.add_geom(name=name, type=box, size=size, pos=pos, quat=quat, **_DRAWN)
            self._pictures.append(name)

        for k in range(round(8 * self.strength)):
            across, up = rng.uniform(-0.9, 0.9), rng.uniform(-0.1, 0.6)
            wide, high = rng.uniform(0.05, 0.25, 2)
            picture(f"background_x{k}", [0.012, wide, high], [-0.79, across, up])
            picture(f"background_y{k}", [wide, 0.012, high], [across + 0.4, 1.19, up])
        for k in range(round(12 * self.strength)):
            angle, radius = rng.uniform(-np.pi, np.pi), rng.uniform(0.24, 0.45)
            pos = [0.45 + radius * np.cos(angle), radius * np.sin(angle), 2e-4 + 1e-5 * k]  # one above the other
            picture(f"background_sheet{k}", [*rng.uniform(0.03, 0.08, 2), 1e-4], pos, rng.uniform(0, np.pi))

    def dress(self, model: mujoco.MjModel, look: int) -> None:
        """Colours."""
        rng, grey = self.rng(1, look), 0.6
        for name in (*self._walls, *self._pictures):
            model.geom(name).rgba[:3] = grey + self.strength * (rng.random(3) - grey)


class Blur(Injector):
    """A Gaussian blur of up to 1 % of the image's height, as of a defocused lens."""

    name: ClassVar[str] = "blur"

    def develop(self, image: UInt8[np.ndarray, "height width 3"]) -> UInt8[np.ndarray, "height width 3"]:
        """Blurred."""
        from scipy.ndimage import gaussian_filter

        sigma = 0.01 * self.strength * len(image)
        return gaussian_filter(image.astype(np.float32), (sigma, sigma, 0)).round().astype(np.uint8)


class Lens(Injector):
    """Radial distortion of Brown and Conrady's first order: a point at radius r is seen at r (1 + k r^2).

    r is 1 at the middle of the image's edges, k is 0.2 at full strength: a pincushion, which needs no pixels from
    outside of what was rendered, as a barrel would. The calibration (`scene.camera`) stays that of the lens without
    distortion: at full strength it is wrong by 0.2 of half the image there, and not at the centre. Who wants true
    pixels maps them with `distorted`.
    """

    name: ClassVar[str] = "lens"

    @property
    def k(self) -> float:
        """Coefficient of the distortion."""
        return 0.2 * self.strength

    def distorted(self, pixels: Float[np.ndarray, "*n 2"], size: int) -> Float[np.ndarray, "*n 2"]:
        """Where the pixels (column, row) of an image without distortion are seen."""
        at = (pixels - (size - 1) / 2) / (size / 2)
        return at * (1.0 + self.k * np.sum(at**2, axis=-1, keepdims=True)) * (size / 2) + (size - 1) / 2

    def develop(self, image: UInt8[np.ndarray, "height width 3"]) -> UInt8[np.ndarray, "height width 3"]:
        """Distorted; the outermost parts are lost."""
        from scipy.ndimage import map_coordinates

        height, width = image.shape[:2]
        half = min(height, width) / 2
        row, column = np.mgrid[:height, :width].astype(np.float64)
        y, x = (row - (height - 1) / 2) / half, (column - (width - 1) / 2) / half
        seen = np.hypot(x, y)
        true = seen.copy()
        for _ in range(6):  # Newton on r (1 + k r^2) = seen, which is monotone
            true -= (true * (1.0 + self.k * true**2) - seen) / (1.0 + 3.0 * self.k * true**2)
        scale = np.where(seen > 0, true / np.where(seen > 0, seen, 1.0), 1.0)
        at = np.stack([y * scale * half + (height - 1) / 2, x * scale * half + (width - 1) / 2])
        channels = [map_coordinates(image[..., c], at, order=1, mode="nearest") for c in range(3)]
        return np.stack(channels, axis=-1)
