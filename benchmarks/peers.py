"""Share of an environment step's CPU time that is MuJoCo's: other packages' environments against ours on their MJCF.

Prints JSON lines {name, value, unit, peer, peer_value, ratio}. An efficiency is the rate of `env.step`, with
observations and rewards, over the rate of bare `mj_step` from the same states with the same frame skip: 1 is a loop of
bare `mj_step`. Both sides take turns, round by round, each with the MuJoCo of its own interpreter; medians over rounds.

    python benchmarks/peers.py PEER_PYTHON [worlds] [rounds]

PEER_PYTHON is an interpreter with `mujoco>=3.3,<3.4`, `gymnasium-robotics==1.4.2` and `robosuite==1.5.2`;
gymnasium-robotics' environments cannot be made with the newest MuJoCo.

Ours are worlds of a task that loads the peer's MJCF with its timestep and frame skip, starts where the peer is after
twenty random steps, and acts at random: joints, tool, wrist wrench, touch, 64 points of the object, noise, rewards and
truth are computed. What is changed in the MJCF: a wrist sensor and touch sensors are added, and Lift's seven motors
become position servos, because our Cartesian controller commands positions once a control period where robosuite's
commands torques at every simulation step.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import dexprior  # noqa: F401  # before MuJoCo: chooses the off-screen OpenGL platform

import mujoco  # isort: skip
import numpy as np
from envs import against_bare

from dexprior.envs.tasks import TaskVectorEnv
from dexprior.families import Parameter, ParameterFamily
from dexprior.robots.machines import ArmModel, EndEffector
from dexprior.robots.rigs import Rig
from dexprior.robots.sensors import add_touch_sensor, add_wrist_sensors
from dexprior.worlds.measures import tolerance
from dexprior.worlds.tasks import Layout, Scenes, Task, Truth, View
from dexprior.worlds.tasks.families import sensors
from dexprior.worlds.tasks.scene import box_points, place_points

_FINGERS = ("ff", "mf", "rf", "lf", "th")


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What of a peer's model is robot, and what is object."""

    object: tuple[str, str, str]
    """Body, free joint, geom."""
    wrist: str
    """Body that gets the wrist sensor."""
    tips: Mapping[str, float]
    """Bodies that get a touch sensor, and how far around their origin it feels [m]."""
    arm: tuple[str, ...] = ()
    """Joints that a Cartesian controller commands."""
    motors: tuple[str, ...] = ()
    """Actuators that position servos of these joints take the place of."""
    joints: tuple[str, ...]
    """Others that are observed."""
    actuators: tuple[str, ...]
    """Others that are commanded, each from one end of its range to the other."""
    mocap: str = ""
    """Body that carries the arm: moved by up to 5 cm a step, as the peer does."""


SCENES = {
    "Lift": Scene(
        object=("cube_main", "cube_joint0", "cube_g0"),
        wrist="robot0_right_hand",
        tips={"gripper0_right_finger_joint1_tip": 0.02, "gripper0_right_finger_joint2_tip": 0.02},
        arm=tuple(f"robot0_joint{k}" for k in range(1, 8)),
        motors=tuple(f"robot0_torq_j{k}" for k in range(1, 8)),
        joints=("gripper0_right_finger_joint1", "gripper0_right_finger_joint2"),
        actuators=("gripper0_right_gripper_finger_joint1", "gripper0_right_gripper_finger_joint2"),
    ),
    "FetchPickAndPlace-v4": Scene(
        object=("object0", "object0:joint", "object0"),
        wrist="robot0:gripper_link",
        tips={"robot0:r_gripper_finger_link": 0.03, "robot0:l_gripper_finger_link": 0.03},
        joints=tuple(
            f"robot0:{name}"
            for name in (
                "torso_lift_joint", "shoulder_pan_joint", "shoulder_lift_joint", "upperarm_roll_joint",
                "elbow_flex_joint", "forearm_roll_joint", "wrist_flex_joint", "wrist_roll_joint",
                "r_gripper_finger_joint", "l_gripper_finger_joint",
            )
        ),
        actuators=("robot0:l_gripper_finger_joint", "robot0:r_gripper_finger_joint"),
        mocap="robot0:mocap",
    ),
    "HandManipulateBlock-v1": Scene(
        object=("object", "object:joint", "object"),
        wrist="robot0:palm",
        tips={f"robot0:{finger}distal": 0.03 for finger in _FINGERS},
        joints=tuple(
            f"robot0:{name}"
            for name in (
                "WRJ1", "WRJ0", *(f"{f}J{k}" for f in ("FF", "MF", "RF") for k in (3, 2, 1, 0)),
                *(f"{f}J{k}" for f in ("LF", "TH") for k in (4, 3, 2, 1, 0)),
            )
        ),
        actuators=tuple(
            f"robot0:A_{name}"
            for name in (
                "WRJ1", "WRJ0", *(f"{f}J{k}" for f in ("FF", "MF", "RF") for k in (3, 2, 1)),
                *(f"LFJ{k}" for k in (4, 3, 2, 1)), *(f"THJ{k}" for k in (4, 3, 2, 1, 0)),
            )
        ),
    ),
}  # fmt: skip


class Peer:
    """One environment of theirs, in an interpreter of its own."""

    def __init__(self, python: str, name: str, folder: Path) -> None:
        side = Path(__file__).with_name("peer_side.py")
        self._process = subprocess.Popen(
            [python, str(side), name, str(folder / f"{name}.xml")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.model = self._answer()

    def round(self) -> float:
        """Its efficiency, once more."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        rates = self._answer()
        return rates["env"] / rates["bare"]

    def close(self) -> None:
        """End it."""
        self._process.communicate()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):  # packages print greetings
                return json.loads(line)
        raise SystemExit(f"{' '.join(map(str, self._process.args))} ended without an answer; run it alone to see why")


@dataclass(frozen=True)
class OnTheirModel(Task):
    """Bring the object to a place, in a peer's world."""

    scene: Scene
    model: Mapping[str, Any] = field(hash=False)
    name: ClassVar[str] = "peer"
    horizon: ClassVar[float] = 1e6
    weights: ClassVar[dict[str, float]] = {"reach": 0.5, "carry": 0.5}

    @property
    def control_dt(self) -> float:  # type: ignore[override]
        """As the peer's [s]."""
        return self.model["timestep"] * self.model["frame_skip"]

    @property
    def family(self) -> ParameterFamily:  # type: ignore[override]
        """Friction of the object, and noise."""
        friction = Parameter(
            name="friction", unit="1", low=0.5, high=1.5, target=f"geom/{self.scene.object[2]}/friction/0"
        )
        return ParameterFamily("peer", (friction, *sensors(wrench=0.3)))

    @property
    def reality(self) -> ParameterFamily:  # type: ignore[override]
        """The same."""
        return self.family

    def layout(self) -> Layout:
        """Their scene with our sensors."""
        s = self.scene
        spec = mujoco.MjSpec.from_file(self.model["mjcf"])
        spec.body(s.wrist).add_site(name="wrist")
        (spec.body(s.wrist) if s.arm else spec.worldbody).add_site(name="tcp")
        add_wrist_sensors(spec)
        for tip, radius in s.tips.items():
            spec.body(tip).add_site(name=f"touch_{tip}", size=[radius] * 3)
            add_touch_sensor(spec, f"touch_{tip}")
        for motor, joint in zip(s.motors, s.arm):
            spec.delete(spec.actuator(motor))
            servo = spec.add_actuator(name=joint, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            servo.set_to_position(kp=500.0, kv=50.0)
        model = spec.compile()
        start = np.asarray(self.model["qpos"])
        at = {joint: model.joint(joint).qposadr[0] for joint in (*s.arm, *s.joints)}
        home = start[[at[joint] for joint in s.arm]]
        reach = [model.joint(joint).range for joint in s.arm]
        arm = ArmModel(
            name="peer", build=mujoco.MjSpec, joints=s.arm, home=home, limits=np.array(reach).reshape(-1, 2),
            licence="", source="",
        )  # fmt: skip
        end = EndEffector(
            name="peer", kind="hand", build=mujoco.MjSpec, actuators=s.actuators,
            control=np.array([model.actuator(name).ctrlrange for name in s.actuators]),
            reset={joint: float(start[at[joint]]) for joint in s.joints},
            touch=tuple(f"touch_{tip}" for tip in s.tips), licence="", source="",
        )  # fmt: skip
        return Layout(spec=spec, rigs=(Rig(arm=arm, end=end, prefix="", home=home),))

    def sample(self, rng: np.random.Generator, n: int) -> Scenes:
        """`goal` beside where the object starts [m]."""
        return {"goal": rng.uniform(-0.1, 0.1, (n, 3))}

    def place(self, view: View, ids: np.ndarray, scenes: Scenes) -> None:
        """Everything where the peer had it."""
        view.qpos[ids] = self.model["qpos"]
        if self.scene.mocap:
            view.place_mocap(ids, self.scene.mocap, np.tile(self.model["mocap"][0], (len(ids), 1)))
        start = view.pose(self.scene.object[1])[ids, :3]
        view.remember("goal", np.zeros((view.n, 3)))[ids] = start + scenes["goal"]
        view.remember("step", np.zeros(view.n))[ids] = 0.0

    def act(self, view: View) -> None:
        """Move the mocap body, where there is one."""
        if not self.scene.mocap:
            return
        step = view.remember("step", np.zeros(view.n))
        away = np.random.default_rng(int(step[0])).uniform(-0.05, 0.05, (view.n, 3))
        pose = view.mocap_pose(self.scene.mocap)
        pose[:, :3] += away
        view.place_mocap(np.arange(view.n), self.scene.mocap, pose)
        step += 1.0

    def measure(self, view: View) -> Truth:
        """Also `goal` (n, 3)."""
        pose, rig = view.pose(self.scene.object[1]).copy(), view.rigs[0]
        grasp = rig.grasp(pose[:, :3], view.velocity(self.scene.object[1])[:, :3])
        return {"object": pose, **grasp, "goal": view.remember("goal", np.zeros((view.n, 3))), "tool": rig.tcp[:, :3]}

    def cloud(self, view: View, truth: Truth) -> np.ndarray:
        """Points on the object's box."""
        half = view.model.geom(self.scene.object[2]).size
        return place_points(box_points(half, self.points), truth["object"])

    def terms(self, truth: Truth) -> dict[str, np.ndarray]:
        """Near the object with the tool, near the goal with the object."""
        place = truth["object"][:, :3]
        away = [np.linalg.norm(place - truth[other], axis=1) for other in ("tool", "goal")]
        return {name: tolerance(d, bounds=(0.0, 0.01), margin=0.2) for name, d in zip(("reach", "carry"), away)}

    def success(self, truth: Truth) -> np.ndarray:
        """At the goal."""
        return np.linalg.norm(truth["object"][:, :3] - truth["goal"], axis=1) < 0.05


def main(python: str, worlds: int = 64, rounds: int = 7) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        for name, scene in SCENES.items():
            peer = Peer(python, name, Path(folder))
            task = OnTheirModel(scene, peer.model)
            many, one = (_begun(task, n) for n in (worlds, 1))
            theirs, vector, single = [], [], []
            for _ in range(rounds):
                theirs.append(peer.round())
                vector.append(_efficiency(many, 4))
                single.append(_efficiency(one, 4 * 16))
            peer.close()
            for what, ours in ((f"{worlds} worlds", vector), ("one world", single)):
                row = {
                    "name": f"efficiency on the model of {name}, {what}",
                    "value": float(np.median(ours)),
                    "unit": "1",
                }
                value = float(np.median(theirs))
                row |= {"peer": name, "peer_value": value, "ratio": row["value"] / value}
                print(json.dumps(row | {"mujoco": [mujoco.__version__, peer.model["mujoco"]]}), flush=True)


def _begun(task: Task, n: int) -> TaskVectorEnv:
    env = TaskVectorEnv(task, n, threads=1, autoreset=False)
    env.reset(seed=0)
    return env


def _efficiency(env: TaskVectorEnv, steps: int) -> float:
    """Of one round, from where the worlds are; every round goes on with other random actions."""
    action = env.np_random.uniform(-1, 1, env.action_space.shape)
    ours, bare = against_bare(env, action, rounds=1, steps=steps)
    return ours / bare


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
