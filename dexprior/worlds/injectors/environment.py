"""Environment injectors: what else is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_quat, quat_from_yaw
from dexprior.worlds.injectors.base import Injector, Stage

if TYPE_CHECKING:
    import mujoco

__all__ = ["Cables", "Clutter", "Occlusion", "Reflections"]


class Clutter(Injector):
    """Up to six loose blocks and cans beside the work area, nearer the stronger; robots and objects may hit them."""

    name: ClassVar[str] = "clutter"
    _CELLS = np.array([(x, side) for x in (0.32, 0.45, 0.58) for side in (-1.0, 1.0)])

    def build(self, stage: Stage) -> None:
        """Free bodies of 20 to 80 g."""
        import mujoco

        rng = self.rng()
        self._half = np.zeros(int(np.ceil(6 * self.strength)))
        for k in range(len(self._half)):
            self._half[k] = half = rng.uniform(0.015, 0.03)
            body = stage.spec.worldbody.add_body(name=f"clutter{k}", pos=[*self._cell(k), half])
            body.add_freejoint(name=f"clutter{k}")
            can = bool(rng.random() < 0.5)
            kind = mujoco.mjtGeom.mjGEOM_CYLINDER if can else mujoco.mjtGeom.mjGEOM_BOX
            size = [0.7 * half, half, 0.0] if can else [*rng.uniform(0.6, 1.0, 2) * half, half]
            body.add_geom(
                name=f"clutter{k}", type=kind, size=size, mass=rng.uniform(0.02, 0.08), rgba=[*rng.random(3), 1.0],
                contype=1, conaffinity=3, friction=[0.6, 0.01, 0.0001],
            )  # fmt: skip

    def _cell(self, k: int) -> tuple[float, float]:
        x, side = self._CELLS[k]
        return float(x), float(side * (0.33 - 0.10 * self.strength))

    def sample(self, rng: np.random.Generator, n: int) -> dict[str, Float[np.ndarray, "n ..."]]:
        """`clutter` (n, k, 3): place on the table [m] and yaw [rad]."""
        count = int(np.ceil(6 * self.strength))
        cells = np.array([self._cell(k) for k in range(count)])
        place = cells + rng.uniform(-0.025, 0.025, (n, count, 2))
        return {"clutter": np.concatenate([place, rng.uniform(-np.pi, np.pi, (n, count, 1))], axis=2)}

    def place(self, view: Any, ids: np.ndarray, scenes: Any) -> None:
        """Upright on the table."""
        for k, half in enumerate(self._half):
            at = scenes["clutter"][:, k]
            pose = np.column_stack([at[:, :2], np.full(len(ids), half), quat_from_yaw(at[:, 2])])
            view.pose(f"clutter{k}")[ids] = pose


class Occlusion(Injector):
    """A board between the front camera and the scene, and no points on what it hides.

    Points of the cloud that the board hides from the camera are replaced by others of the same cloud; a cloud that is
    hidden altogether shows the board's centre.
    """

    name: ClassVar[str] = "occlusion"

    def build(self, stage: Stage) -> None:
        """Not in the way of anything that moves: it does not collide."""
        import mujoco

        cameras = {camera.name: camera for camera in stage.spec.cameras}
        if "front" not in cameras:
            raise BadInput(f"injector 'occlusion' needs a camera 'front'; there are: {', '.join(cameras) or 'none'}")
        camera, rng = cameras["front"], self.rng()
        self._eye = np.array(camera.pos)
        self._rotation = matrix_from_quat(np.array(camera.quat))
        aside = self._rotation[:, :2] @ (0.02 * rng.uniform(-1.0, 1.0, 2))
        self._centre = self._eye - 0.4 * self._rotation[:, 2] + aside  # 40 cm in front of the camera
        self._half = np.array([0.005 + 0.02 * self.strength, 0.06, 0.003])
        stage.spec.worldbody.add_geom(
            name="occlusion", type=mujoco.mjtGeom.mjGEOM_BOX, size=self._half, pos=self._centre, quat=camera.quat,
            rgba=[0.25, 0.3, 0.28, 1.0], contype=0, conaffinity=0, group=2, mass=0.0,
        )  # fmt: skip

    def hidden(self, points: Float[np.ndarray, "n point 3"]) -> np.ndarray:
        """Which points the board hides (n, point)."""
        eye = (self._eye - self._centre) @ self._rotation
        ray = (points - self._eye) @ self._rotation
        with np.errstate(divide="ignore", invalid="ignore"):
            at = -eye[2] / ray[..., 2]
            hit = eye[:2] + at[..., None] * ray[..., :2]
        return (at > 0) & (at < 1) & (np.abs(hit) <= self._half[:2]).all(axis=-1)

    def cloud(self, points: Float[np.ndarray, "n point 3"]) -> Float[np.ndarray, "n point 3"]:
        """Visible points, as many as before."""
        hidden = self.hidden(points)
        order = np.argsort(hidden, axis=1, kind="stable")  # the visible ones first
        count = (~hidden).sum(axis=1)
        turn = np.arange(points.shape[1]) % np.maximum(count, 1)[:, None]
        other = np.take_along_axis(points, np.take_along_axis(order, turn, axis=1)[..., None], axis=1)
        other = np.where((count > 0)[:, None, None], other, self._centre)
        return np.where(hidden[..., None], other, points)


class Cables(Injector):
    """A cable from the robot's wrist to a post: a spring that pulls with up to about 8 N, and is felt by the wrist."""

    name: ClassVar[str] = "cables"

    def build(self, stage: Stage) -> None:
        """A spatial tendon, slack below 0.25 m."""
        rng, spec = self.rng(), stage.spec
        post = [rng.uniform(0.3, 0.5), rng.choice([-1.0, 1.0]) * rng.uniform(0.35, 0.45), rng.uniform(0.05, 0.25)]
        spec.worldbody.add_site(name="cables_post", pos=post, size=[0.008] * 3, rgba=[0.1, 0.1, 0.1, 1.0])
        cable = spec.add_tendon(name="cables", width=0.004, rgba=[0.08, 0.08, 0.1, 1.0])
        cable.wrap_site("cables_post")
        cable.wrap_site(stage.rigs[0].name("wrist"))
        cable.stiffness[0], cable.damping[0] = 30.0 * self.strength, 1.0 * self.strength
        cable.springlength = [0.0, 0.25]


class Reflections(Injector):
    """A glossy table that mirrors what stands on it, by up to 40 %."""

    name: ClassVar[str] = "reflections"

    def build(self, stage: Stage) -> None:
        """A material for the table."""
        spec = stage.spec
        spec.add_material(name="reflections", rgba=spec.geom("table").rgba)
        spec.geom("table").material = "reflections"

    def dress(self, model: mujoco.MjModel, look: int) -> None:
        """Whatever material the table has by now."""
        material = int(model.geom("table").matid[0])
        model.mat_reflectance[material] = 0.4 * self.strength
        model.mat_specular[material] = model.mat_shininess[material] = 0.5 * self.strength
