"""A task that is learned in seconds: a gantry brings its tool to a mark, and the episode is lost far away from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dexprior.families import Parameter, ParameterFamily
from dexprior.robots.rigs import add_rig
from dexprior.worlds.measures import tolerance
from dexprior.worlds.tasks import Layout, Task
from dexprior.worlds.tasks.scene import VISUAL, stage, upright

__all__ = ["Reaching"]


def _noise(low: float, high: float) -> ParameterFamily:
    target = "world/-/cloud_noise"
    return ParameterFamily("reaching", (Parameter(name="cloud_noise", unit="m", low=low, high=high, target=target),))


@dataclass(frozen=True)
class Reaching(Task):
    """See the module."""

    lost: float = 10.0
    """Distance at which an episode is lost [m]."""

    name: ClassVar[str] = "reaching"
    horizon: ClassVar[float] = 0.8
    family: ClassVar[ParameterFamily] = _noise(0.0, 1e-3)
    reality: ClassVar[ParameterFamily] = _noise(0.01, 0.01)
    weights: ClassVar[dict[str, float]] = {"reach": 1.0}
    points: ClassVar[int] = 4

    def layout(self):
        import mujoco

        spec = stage(self.name, timestep=0.004)
        mark = spec.worldbody.add_body(name="mark", mocap=True)
        mark.add_geom(name="mark", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.01, 0, 0], **VISUAL)
        return Layout(spec=spec, rigs=(add_rig(spec, "gantry", "parallel"),))

    def sample(self, rng, n):
        return {"mark": np.array([0.45, 0.0, 0.2]) + rng.uniform(-0.15, 0.15, (n, 3))}

    def place(self, view, ids, scenes):
        view.place_mocap(ids, "mark", upright(scenes["mark"], np.zeros(len(ids))))

    def measure(self, view):
        mark, tool = view.mocap_pose("mark"), view.rigs[0].tcp[:, :3]
        nothing = np.zeros(view.n)
        away = np.linalg.norm(mark[:, :3] - tool, axis=1)
        return {"object": mark, "held": nothing.astype(bool), "slip": nothing, "away": away, "gap": mark[:, :3] - tool}

    def cloud(self, view, truth):
        return np.repeat(truth["object"][:, None, :3], self.points, axis=1)

    def terms(self, truth):
        return {"reach": tolerance(truth["away"], bounds=(0.0, 0.01), margin=0.2)}

    def success(self, truth):
        return truth["away"] < 0.05

    def failure(self, truth):
        return truth["away"] > self.lost

    def privileged(self, truth):
        return truth["gap"]
