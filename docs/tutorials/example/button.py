"""A task of one's own: press a spring-loaded button with the closed gripper, and not too hard."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import mujoco
import numpy as np

from dexprior.config import Gt, config
from dexprior.families import Parameter, ParameterFamily, fixed_outside
from dexprior.robots.rigs import add_rig
from dexprior.worlds.measures import tolerance
from dexprior.worlds.tasks import Layout, Task, TaskWorlds, make_task, register_task
from dexprior.worlds.tasks.actions import MAX_TWIST
from dexprior.worlds.tasks.experts import run_expert
from dexprior.worlds.tasks.families import pads, sensors
from dexprior.worlds.tasks.scene import SURFACE, box_points, stage


@config
class ButtonConfig:
    """Sizes and limits."""

    arm: str = "arm7"
    """Name of the arm."""
    travel: Annotated[float, Gt(0)] = 0.01
    """How far the button must go down [m]."""
    gentle: Annotated[float, Gt(0)] = 25.0
    """Force from which the button breaks [N]."""


FAMILY = ParameterFamily(
    "button-training",
    (
        Parameter(name="spring", unit="N/m", low=300, high=800, target="joint/button/stiffness/0"),
        *pads(friction=(0.7, 1.2), timeconst=(0.008, 0.02)),
        *sensors(wrench=0.3),
    ),
)
REALITY = {"spring": 1000, "pad_friction": 0.5, "pad_timeconst": 0.03, "wrench_noise": 0.5, "cloud_noise": 0.003}


@dataclass(frozen=True)
class Button(Task):
    """See the module."""

    config: ButtonConfig = field(default_factory=ButtonConfig)

    name: ClassVar[str] = "button"
    horizon: ClassVar[float] = 3.0
    family: ClassVar[ParameterFamily] = FAMILY
    reality: ClassVar[ParameterFamily] = fixed_outside("button-reality", FAMILY, REALITY)
    weights: ClassVar[dict[str, float]] = {"reach": 0.3, "press": 0.6, "gentle": 0.1}

    def layout(self):
        spec = stage(self.name, timestep=0.004)
        base = spec.worldbody.add_body(name="base", mocap=True)
        base.add_geom(name="base", type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.03, 0.03, 0.01], **SURFACE)
        button = base.add_body(name="button", pos=[0, 0, 0.03])
        button.add_joint(
            name="button",
            type=mujoco.mjtJoint.mjJNT_SLIDE,
            axis=[0, 0, 1],
            range=[-0.015, 0],
            limited=True,
            stiffness=[500, 0, 0],
            damping=[5, 0, 0],
        )
        button.add_geom(
            name="button",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[0.02, 0.02, 0.008],
            mass=0.02,
            rgba=[0.8, 0.2, 0.2, 1],
            **SURFACE,
        )
        return Layout(spec=spec, rigs=(add_rig(spec, self.config.arm, "parallel"),))

    def sample(self, rng, n):
        return {"place": rng.uniform([0.40, -0.12, 0.01], [0.50, 0.12, 0.01], (n, 3))}

    def place(self, view, ids, scenes):
        upright = np.broadcast_to([1.0, 0, 0, 0], (len(ids), 4))
        view.place_mocap(ids, "base", np.concatenate([scenes["place"], upright], axis=1))

    def measure(self, view):
        rig, n = view.rigs[0], view.n
        down = -view.qpos[:, view.qpos_address("button")]
        pose = view.mocap_pose("base").copy()
        pose[:, 2] += 0.038 - down  # the button's upper face
        push = np.linalg.norm(rig.wrench[:, :3], axis=1)
        truth = {"object": pose, "held": np.zeros(n, dtype=bool), "slip": np.zeros(n)}  # nothing is grasped
        return truth | {"down": down, "push": push, "tool": rig.tcp[:, :3]}

    def cloud(self, view, truth):
        return box_points(np.array([0.02, 0.02, 0.008]), self.points) + truth["object"][:, None, :3] - [0, 0, 0.008]

    def terms(self, truth):
        away = np.linalg.norm(truth["tool"] - truth["object"][:, :3], axis=1)
        return {
            "reach": tolerance(away, bounds=(0, 0.015), margin=0.2),
            "press": np.clip(truth["down"] / self.config.travel, 0, 1),
            "gentle": tolerance(truth["push"], bounds=(0, 0.6 * self.config.gentle), margin=self.config.gentle),
        }

    def success(self, truth):
        return truth["down"] >= self.config.travel

    def failure(self, truth):
        return truth["push"] > self.config.gentle


def expert(truth, rigs, t, memory):
    """Over the button, then down at 30 mm/s until it has gone far enough."""
    away = truth["object"][:, :3] - truth["tool"]
    over = np.linalg.norm(away[:, :2], axis=1) < 0.004
    away[:, 2] = np.where(over, np.where(truth["down"] < 0.012, -0.008, 0.0), away[:, 2] + 0.03)
    twist = np.column_stack([4.0 * away, np.zeros_like(away)]) / MAX_TWIST
    return np.clip(np.column_stack([twist, np.full(len(away), -1.0)]), -1, 1)


register_task(Button, ButtonConfig, expert=expert)

if __name__ == "__main__":
    task, n = make_task("button"), 32
    for family in (task.family, task.reality):
        rng = np.random.default_rng(0)
        worlds = TaskWorlds(task, n, family=family)
        worlds.reset(np.arange(n), task.sample(rng, n), [family.as_dict(row) for row in family.sample(rng, n)])
        solved, truth = run_expert(worlds, expert)
        print(f"{family.name}: solved {solved.sum()} of {n}, hardest push {truth['push'].max():.0f} N at the end")
