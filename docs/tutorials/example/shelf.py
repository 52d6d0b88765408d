"""A task of one's own that the whole line is trained on: a block is lifted onto a low shelf."""

import sys
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

import mujoco
import numpy as np

from dexprior.cli.main import main
from dexprior.config import Gt, Le, config
from dexprior.families import ParameterFamily, fixed_outside
from dexprior.geometry.rotations import wrap_angle, yaw_of
from dexprior.worlds.tasks import PickPlace, PickPlaceConfig, register_task
from dexprior.worlds.tasks.experts.base import gripper_action
from dexprior.worlds.tasks.scene import SURFACE
from dexprior.worlds.tasks.strategies.pick_place import PICK_PLACE


@config
class ShelfConfig(PickPlaceConfig):
    """Sizes and limits."""

    height: Annotated[float, Gt(0), Le(0.03)] = 0.02
    """Of the shelf [m]."""


FAMILY = ParameterFamily("shelf-training", PickPlace.family.parameters)
REALITY = {p.name: p.low for p in PickPlace.reality.parameters}


@dataclass(frozen=True)
class Shelf(PickPlace):
    """What a block, a mark and a robot are is known; what is new is where the mark lies, and when it is done."""

    config: ShelfConfig = field(default_factory=ShelfConfig)

    name: ClassVar[str] = "shelf"
    family: ClassVar[ParameterFamily] = FAMILY
    reality: ClassVar[ParameterFamily] = fixed_outside("shelf-reality", FAMILY, REALITY)

    def layout(self):
        made = super().layout()
        half = [0.09, 0.08, self.config.height / 2]
        shelf = made.spec.worldbody.add_body(name="shelf", pos=[0.44, 0.13, half[2]])
        shelf.add_geom(name="shelf", type=mujoco.mjtGeom.mjGEOM_BOX, size=half, rgba=[0.5, 0.4, 0.3, 1], **SURFACE)
        return made

    def sample(self, rng, n):
        scenes = dict(super().sample(rng, n))
        scenes["goal"] = np.column_stack([scenes["goal"][:, 0], 0.5 * scenes["goal"][:, 1] + 0.08, np.zeros(n)])
        scenes["goal"][:, 2] = self.config.height
        return scenes

    def success(self, truth):
        away = np.linalg.norm(truth["object"][:, :2] - truth["goal"][:, :2], axis=1)
        rest = truth["goal"][:, 2] + self.config.half_size
        return (away <= self.config.reached) & (np.abs(truth["object"][:, 2] - rest) < 0.005)


def expert(truth, rigs, t, memory):
    """Over the block, down, close, up, across, down to the shelf."""
    cube, tool, goal, n = truth["object"][:, :3], truth["tool"], truth["goal"], len(memory)
    turn, end = np.zeros((n, 3)), np.full(n, 1.0 if t < 1.0 else -1.0)
    move = np.zeros((n, 3))
    if t < 1.0:
        high = np.array([0.0, 0.0, 0.08 if t < 0.5 else 0.0])
        move = 5.0 * (cube + high - tool)
        turn[:, 2] = 3.0 * wrap_angle(yaw_of(truth["object"][:, 3:]) - yaw_of(rigs[0].tcp[:, 3:]), np.pi / 2)
    elif 1.4 <= t < 2.0:
        move[:, 2] = 0.18
    elif t >= 2.0:
        low = 5.0 * (goal[:, 2] + 0.02 - cube[:, 2]) if t > 3.1 else np.zeros(n)
        move = np.column_stack([4.0 * (goal[:, :2] - cube[:, :2]), low])
    return gripper_action(move, turn, end)


WORDS = ("lift the block onto the shelf", "put the block on the shelf")
register_task(
    Shelf,
    ShelfConfig,
    expert=expert,
    strategies=tuple(replace(way, sentences=WORDS) for way in PICK_PLACE if way.name == "careful"),
    variants=tuple({"half_size": half} for half in (0.018, 0.020)),
)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
