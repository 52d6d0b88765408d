"""Which points of objects a camera sees in many worlds: those that its rays reach.

Something seen takes the place of what is hidden: a point of the same body, which a policy sees twice then. Of a body
that is hidden altogether a policy keeps what it saw last; until it has seen any of it, it is told where it is, as by
whoever asked for the task.

Without labels the whole cloud is one such body, whose points are shuffled before that: which place a point has, and
which point is seen twice, says nothing about the body that it lies on, and a hidden body is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int

from dexprior.errors import UnknownName
from dexprior.families import SightConfig

if TYPE_CHECKING:
    from dexprior.worlds.tasks.view import View

__all__ = ["Sight", "filled"]


class Sight:
    """A camera in every world.

    Args:
        config: which camera.
        view: of the worlds; its memory holds what was seen last.
        bodies: points of the cloud on each body.

    Raises:
        UnknownName: no such camera in the scene.
    """

    def __init__(self, config: SightConfig, view: View, bodies: Sequence[int]) -> None:
        import mujoco

        cameras = [view.model.camera(k).name for k in range(view.model.ncam)]
        if config.camera not in cameras:
            raise UnknownName("camera", config.camera, cameras)
        self._config, self._view = config, view
        self._lies = np.repeat(np.arange(len(bodies)), bodies)  # the body that each point of the task's cloud lies on
        self._edges = np.concatenate([[0], np.cumsum(bodies if config.labels else (sum(bodies),))])
        self._camera = view.model.camera(config.camera).id
        self._data = mujoco.MjData(view.model)
        self._eye = self._data.cam_xpos[self._camera]
        fields = ("qpos", "mocap_pos", "mocap_quat")
        self._state = [(getattr(self._data, name), view.state_field(name)) for name in fields]

    def visible(self, cloud: Float[np.ndarray, "n point 3"]) -> Bool[np.ndarray, "n point"]:
        """Which true points [m] a ray from the camera reaches."""
        import mujoco

        model, data, eye = self._view.model, self._data, self._eye
        n, points = cloud.shape[:2]
        rays, hit, distance = np.empty((n, points, 3)), np.zeros((n, points), dtype=np.int32), np.zeros((n, points))
        flat = rays.reshape(n, -1)
        for k in range(n):
            for one, of_worlds in self._state:
                one[:] = of_worlds[k]
            mujoco.mj_kinematics(model, data)
            if model.nflex:
                mujoco.mj_flex(model, data)
            mujoco.mj_camlight(model, data)
            np.subtract(cloud[k], eye, out=rays[k])
            mujoco.mj_multiRay(model, data, eye, flat[k], None, 1, -1, hit[k], distance[k], None, points, 10.0)
        short = (1.0 - distance) * np.linalg.norm(rays, axis=2)
        return (hit < 0) | (short <= self._config.slack)

    def show(
        self,
        cloud: Float[np.ndarray, "n point 3"],
        noisy: Float[np.ndarray, "n point 3"],
        chance: Float[np.ndarray, "n point"] | None = None,
    ) -> tuple[Float[np.ndarray, "n point 3"], Int[np.ndarray, "n point"] | None]:
        """What a policy gets of points [m], and which bodies these lie on where their places do not say it.

        Args:
            cloud: where they are.
            noisy: as they are measured.
            chance: independent random numbers that order them where they come without labels.
        """
        seen, lies = self.visible(cloud), None
        last = self._view.remember("sight/last", np.zeros_like(noisy))
        if chance is not None:
            order = np.argsort(chance, axis=1)
            seen, noisy = np.take_along_axis(seen, order, axis=1), np.take_along_axis(noisy, order[..., None], axis=1)
            lies = self._view.remember("sight/lies", np.zeros_like(order))
        known = self._view.remember("sight/known", np.zeros((len(noisy), len(self._edges) - 1), dtype=bool))
        for body, (a, b) in enumerate(pairwise(self._edges)):
            some = np.asarray(seen[:, a:b].any(axis=1))
            fresh = some | ~known[:, body]
            index = filled(seen[:, a:b] | ~some[:, None])
            measured = np.take_along_axis(noisy[:, a:b], index[..., None], axis=1)
            last[fresh, a:b] = measured[fresh]
            if lies is not None:
                lies[fresh] = self._lies[np.take_along_axis(order, index, axis=1)][fresh]
            known[:, body] |= some
        return last.copy(), None if lies is None else lies.copy()

    def reset(self, ids: np.ndarray) -> None:
        """Nothing was seen yet in some worlds."""
        if "sight/known" in self._view.memory:
            self._view.memory["sight/known"][ids] = False


def filled(seen: Bool[np.ndarray, "n point"]) -> Int[np.ndarray, "n point"]:
    """A point that is seen for every one: those that are, in turn."""
    first = np.argsort(~seen, axis=1, kind="stable")
    turn = (np.cumsum(~seen, axis=1) - 1) % seen.sum(axis=1, keepdims=True)
    return np.where(seen, np.arange(seen.shape[1]), np.take_along_axis(first, turn, axis=1))
