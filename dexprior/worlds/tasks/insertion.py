"""A ring-shaped nut on the table, put over an upright bolt: coarse beside `nut_bolt`, and the line's first task.

The bolt is a capsule, whose round tip gives the nut a lead-in; there are no threads. Scene, sizes and parameters are
those of `dexprior.worlds.insertion`, in which a human hand does the same.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float

from dexprior.families import ParameterFamily
from dexprior.geometry.rotations import matrix_from_quat, rot6d_from_matrix
from dexprior.worlds.insertion import (
    BOLT_POINTS,
    NUT_POINTS,
    OTHER_FAMILY,
    TRAINING_FAMILY,
    InsertionConfig,
    add_nut_and_bolt,
    engaged_depth,
    sample_scenes,
    scene_cloud,
    succeeded,
)
from dexprior.worlds.measures import tolerance
from dexprior.worlds.rigs import add_rig
from dexprior.worlds.tasks.base import Layout, Scenes, Task, Truth
from dexprior.worlds.tasks.parts import Part, turned_surface
from dexprior.worlds.tasks.scene import place_points, stage, upright
from dexprior.worlds.tasks.view import View

__all__ = ["Insertion", "InsertionConfig"]


@dataclass(frozen=True)
class Insertion(Task):
    """See the module."""

    config: InsertionConfig = field(default_factory=InsertionConfig)

    name: ClassVar[str] = "insertion"
    horizon: ClassVar[float] = 3.0
    family: ClassVar[ParameterFamily] = TRAINING_FAMILY
    reality: ClassVar[ParameterFamily] = OTHER_FAMILY
    weights: ClassVar[dict[str, float]] = {
        "reach": 0.1, "grasp": 0.1, "carry": 0.2, "still": 0.05, "over": 0.05, "engage": 0.5,
    }  # fmt: skip
    struck: ClassVar[tuple[tuple[str, str], ...]] = (("nut", "table"), ("nut", "bolt"))
    points: ClassVar[int] = NUT_POINTS + BOLT_POINTS

    @property
    def parts(self) -> tuple[Part, ...]:
        """The nut, and the bolt as a cylinder."""
        c, half = self.config, self.config.height / 2
        ring = ((c.hole_radius, c.outer_radius), (-half, half))
        pin = ((0.0, c.bolt_radius), (0.0, c.bolt_height))
        return (
            Part(name="nut", body="nut", moves=True, surface=functools.partial(turned_surface, ring)),
            Part(name="bolt", body="bolt", moves=False, surface=functools.partial(turned_surface, pin)),
        )

    @property
    def bodies(self) -> tuple[int, ...]:
        """The nut's points, then the bolt's."""
        return NUT_POINTS, BOLT_POINTS

    def other(self) -> Insertion:
        """The same with an elliptic friction cone."""
        return replace(self, config=replace(self.config, cone="elliptic"))

    def layout(self) -> Layout:
        """A nut, a bolt, and the robot."""
        c = self.config
        spec = stage(self.name, timestep=c.timestep, cone=c.cone)
        spec.option.impratio = 1.0  # soft friction, in which a loosely held nut creeps, is part of this task
        add_nut_and_bolt(spec, c)
        return Layout(spec=spec, rigs=(add_rig(spec, c.arm, c.end_effector),))

    def sample(self, rng: np.random.Generator, n: int) -> Scenes:
        """`nut` and `bolt` positions on the table (n, 3) [m], `yaw` of the nut (n,) [rad]."""
        drawn = sample_scenes(rng, n)
        return {"nut": drawn["nut"], "bolt": drawn["bolt"], "yaw": drawn["nut_yaw"][:, 0]}

    def place(self, view: View, ids: np.ndarray, scenes: Scenes) -> None:
        """The nut on the table, and the bolt."""
        rest = scenes["nut"] * [1.0, 1.0, 0.0] + [0.0, 0.0, self.config.height / 2]
        view.pose("nut")[ids] = upright(rest, scenes["yaw"])
        view.place_mocap(ids, "bolt", upright(scenes["bolt"], np.zeros(len(ids))))

    def measure(self, view: View) -> Truth:
        """Also the `bolt`'s foot (n, 3), the `goal` (n, 3) where the nut's lower face is at the bolt's tip, the `depth`
        of that face below it [m], and `tool` (n, 3)."""
        c, rig = self.config, view.rigs[0]
        pose, bolt = view.pose("nut").copy(), view.mocap_pose("bolt")[:, :3]
        return {
            "object": pose, **rig.grasp(pose[:, :3], view.velocity("nut")[:, :3]), "bolt": bolt,
            "goal": bolt + np.array([0.0, 0.0, c.bolt_height + c.height / 2]), "depth": engaged_depth(c, pose, bolt),
            "tool": rig.tcp[:, :3],
        }  # fmt: skip

    def cloud(self, view: View, truth: Truth) -> Float[np.ndarray, "n point 3"]:
        """Points on the nut, then on the bolt."""
        nut, bolt = _points(self.config)
        return np.concatenate([place_points(nut, truth["object"]), truth["bolt"][:, None] + bolt], axis=1)

    def terms(self, truth: Truth) -> dict[str, Float[np.ndarray, " n"]]:
        """Reach, grasp, carry over the bolt, hold still, at its height, engage."""
        nut, held = truth["object"], truth["held"].astype(np.float64)
        lateral = np.linalg.norm(nut[:, :2] - truth["bolt"][:, :2], axis=1)
        lifted = tolerance(nut[:, 2], bounds=(0.03, 1.0), margin=0.03)
        engaged = np.clip(truth["depth"] / self.config.success_depth, 0.0, 1.0)
        carried = tolerance(lateral, bounds=(0.0, 0.003), margin=0.12) * np.maximum(lifted, np.minimum(engaged * 4, 1))
        high = tolerance(np.abs(nut[:, 2] - truth["goal"][:, 2]), bounds=(0.0, 0.01), margin=0.1)
        away = np.linalg.norm(truth["tool"] - nut[:, :3], axis=1)
        return {
            "reach": tolerance(away, bounds=(0.0, 0.008), margin=0.15),
            "grasp": held,
            "carry": carried,
            "still": tolerance(truth["slip"], bounds=(0.0, 0.002), margin=0.02) * held,
            "over": high * carried,
            "engage": engaged,
        }

    def success(self, truth: Truth) -> Bool[np.ndarray, " n"]:
        """The nut sits on the bolt, held or not."""
        return succeeded(self.config, truth["object"], truth["bolt"])

    def privileged(self, truth: Truth) -> Float[np.ndarray, "n 13"]:
        """The nut from the tool, the bolt from the nut [m], two rows of the nut's rotation, whether it is held."""
        nut = truth["object"]
        rotation = rot6d_from_matrix(matrix_from_quat(nut[:, 3:]))
        held = truth["held"][:, None].astype(np.float64)
        return np.concatenate([nut[:, :3] - truth["tool"], truth["bolt"] - nut[:, :3], rotation, held], axis=1)


@functools.cache
def _points(config: InsertionConfig) -> tuple[Float[np.ndarray, "nut 3"], Float[np.ndarray, "bolt 3"]]:
    nut, bolt = scene_cloud(config, NUT_POINTS, BOLT_POINTS)
    return nut[:, :3], bolt[:, :3]
