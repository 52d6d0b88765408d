"""A scripted human hand that puts the nut on the bolt: reach, pinch, lift, carry, lower.

The script only says where the wrist goes and how the fingers close; what moves, touches and presses is simulated, in
a world whose contact differs from the training simulator's.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from dexprior.geometry.rotations import (
    axis_angle_from_matrix,
    matrix_from_axis_angle,
    quat_from_axis_angle,
    quat_multiply,
    quat_rotate,
)
from dexprior.geometry.timing import minimum_jerk
from dexprior.geometry.transforms import pose_multiply
from dexprior.hands.skeleton import FINGER_RADIUS, forward
from dexprior.types.hand import FINGERS
from dexprior.worlds.human import HINGE_LIMITS, HINGE_NAMES, finger_pose_from_hinges
from dexprior.worlds.insertion import (
    HUMAN_WORLD,
    OTHER_FAMILY,
    InsertionConfig,
    build_scene,
    succeeded,
)

__all__ = ["Demonstrator", "HandPlan", "PinchGrasp", "Recording", "plan_insertion", "solve_pinch"]

_PINCHING = ("thumb", "index", "middle")


@dataclass(frozen=True)
class PinchGrasp:
    """A precision pinch, relative to a nut at the origin with its axis along z."""

    wrist_pose: Float[np.ndarray, 7]
    open: Float[np.ndarray, " hinge"]
    """Fingertips well clear of the nut [rad]."""
    touch: Float[np.ndarray, " hinge"]
    """Fingertips on the surface [rad]."""
    squeeze: Float[np.ndarray, " hinge"]
    """Fingertips commanded into the nut: the servos turn the distance into force [rad]."""


@functools.cache
def solve_pinch(
    outer_radius: float, *, height: float = 0.004, depth: float = 0.012, clear: float = 0.018
) -> PinchGrasp:
    """Fit wrist and fingers so that thumb, index and middle finger meet the nut's side, palm towards the body.

    Nonlinear least squares on fingertip positions with a preference for a natural posture.

    Args:
        outer_radius: of the nut [m].
        height: of the fingertips above the nut's centre [m].
        depth: how far inside the surface the squeezing fingertips are commanded [m].
        clear: how far outside it the open ones stay [m].
    """
    from scipy.optimize import least_squares

    directions = np.array([[0.0, -1.0, 0.0], [0.5, 0.87, 0.0], [-0.5, 0.87, 0.0]])
    tips = [4 * (FINGERS.index(f) + 1) for f in _PINCHING]
    idle = [16, 20]
    rest = np.array([_rest_angle(name) for name in HINGE_NAMES])
    low, high = HINGE_LIMITS.T
    fingers = np.array([0.0, 0.5, -0.86])
    palm = np.array([0.0, -0.86, -0.5])

    def target(distance: float) -> np.ndarray:
        return directions * (outer_radius + FINGER_RADIUS + distance) + [0.0, 0.0, height]

    def joints(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        pose = np.concatenate([x[:3], quat_from_axis_angle(x[3:6])])
        return forward(pose, finger_pose_from_hinges(x[6:])), matrix_from_axis_angle(x[3:6])

    def whole(x: np.ndarray) -> np.ndarray:
        points, R = joints(x)
        posture = np.concatenate([-R[:, 0] - fingers, -R[:, 1] - palm])
        above_table = np.minimum(points[idle, 2] - 0.04, 0.0)
        return np.concatenate(
            [
                100 * (points[tips] - target(0.0)).ravel(),
                0.5 * posture,
                0.15 * (x[6:] - rest),
                50 * above_table,
            ]
        )

    def only_fingers(h: np.ndarray, fixed: np.ndarray, distance: float) -> np.ndarray:
        points, _ = joints(np.concatenate([fixed[:6], h]))
        return np.concatenate([100 * (points[tips] - target(distance)).ravel(), 0.1 * (h - fixed[6:])])

    x_axis = -fingers / np.linalg.norm(fingers)
    y_axis = -palm - (-palm @ x_axis) * x_axis
    y_axis /= np.linalg.norm(y_axis)
    start_rotation = np.stack([x_axis, y_axis, np.cross(x_axis, y_axis)], axis=1)
    start = np.concatenate([[0.0, -0.05, 0.14], axis_angle_from_matrix(start_rotation), rest])
    bounds = (np.concatenate([[-0.5] * 3, [-7.0] * 3, low]), np.concatenate([[0.5] * 3, [7.0] * 3, high]))
    x = least_squares(whole, start, bounds=bounds, max_nfev=60, ftol=1e-5).x
    poses = [
        least_squares(only_fingers, x[6:], bounds=(low, high), args=(x, distance), max_nfev=30, ftol=1e-5).x
        for distance in (clear, 0.0, -depth)
    ]
    return PinchGrasp(np.concatenate([x[:3], quat_from_axis_angle(x[3:6])]), *poses)


def _rest_angle(name: str) -> float:
    if name.startswith(("ring", "little")) and name.endswith("flexion"):
        return 0.9
    return {"thumb2_flexion": 0.2, "thumb3_flexion": 0.2}.get(name, 0.5 if name.endswith("flexion") else 0.0)


@dataclass(frozen=True)
class Recording:
    """What one demonstration did, sampled at the video's rate."""

    t: Float[np.ndarray, " time"]
    wrist_pose: Float[np.ndarray, "time 7"]
    finger_pose: Float[np.ndarray, "time 45"]
    joints: Float[np.ndarray, "time 21 3"]
    nut_pose: Float[np.ndarray, "time 7"]
    bolt: Float[np.ndarray, 3]
    force: Float[np.ndarray, "time 5"]
    """Fingertip normal forces on the nut [N]."""
    wrench: Float[np.ndarray, "time 6"]
    """Of nut and bolt on the hand, wrist frame [N, N m]: what a sensor at the wrist would read."""
    qpos: Float[np.ndarray, "time nq"]
    """For rendering."""
    success: bool


class Demonstrator:
    """Simulates demonstrations one after the other in one process."""

    def __init__(self, config: InsertionConfig, grasp: PinchGrasp | None = None) -> None:
        import mujoco

        self.config = config
        spec = build_scene(config)
        spec.option.timestep = 0.002
        self.model = spec.compile()
        OTHER_FAMILY.apply(self.model, HUMAN_WORLD)
        self.data = mujoco.MjData(self.model)
        self.grasp = solve_pinch(config.outer_radius) if grasp is None else grasp
        self._wrist = self.model.joint("wrist").qposadr[0]
        self._nut = self.model.joint("nut").qposadr[0]
        self._hinges = np.array([self.model.joint(name).qposadr[0] for name in HINGE_NAMES])
        self._touch = np.array([self.model.sensor(f"touch_{f}").adr[0] for f in FINGERS])
        self._tip_geoms = {self.model.geom(f"pad_{f}").id for f in FINGERS}

    def run(self, scene: dict[str, Any], *, seed: int, frames: int, fps: float) -> Recording:
        """One demonstration.

        Args:
            scene: `nut`, `bolt` (3,) on the table [m], `nut_yaw` [rad].
            seed: of this demonstration's habits: timing, approach, grip, small errors.
            frames, fps: length and rate of the recording.
        """
        import mujoco

        plan = plan_insertion(self.config, self.grasp, scene, np.random.default_rng(seed), frames / fps)
        m, d = self.model, self.data
        mujoco.mj_resetData(m, d)
        nut = np.asarray(scene["nut"], dtype=np.float64)
        yaw = float(np.ravel(scene["nut_yaw"])[0])
        d.qpos[self._nut : self._nut + 7] = [
            *nut[:2],
            self.config.height / 2,
            np.cos(yaw / 2),
            0,
            0,
            np.sin(yaw / 2),
        ]
        d.mocap_pos[m.body("bolt").mocapid[0]] = scene["bolt"]
        arm = m.body("arm").mocapid[0]
        start = plan.wrist(0.0)
        d.qpos[self._wrist : self._wrist + 7] = start
        d.qpos[self._hinges] = plan.hinges(0.0)
        d.mocap_pos[arm], d.mocap_quat[arm] = start[:3], start[3:]
        mujoco.mj_forward(m, d)
        substeps = round(1.0 / fps / m.opt.timestep)
        corrected = False
        rows: list[tuple[np.ndarray, ...]] = []
        for k in range(frames):
            rows.append((d.qpos.copy(), d.sensordata[self._touch].copy(), self._wrench()))
            for s in range(substeps):
                t = k / fps + s * m.opt.timestep
                if not corrected and t >= plan.times[3]:
                    plan, corrected = plan.corrected(d.qpos[self._wrist :][:7], d.qpos[self._nut :][:7]), True
                target = plan.wrist(t)
                d.mocap_pos[arm], d.mocap_quat[arm] = target[:3], target[3:]
                d.ctrl[:] = plan.hinges(t)
                mujoco.mj_step(m, d)
        qpos, force, wrench = (np.stack(column) for column in zip(*rows))
        wrist_pose = qpos[:, self._wrist : self._wrist + 7]
        finger_pose = finger_pose_from_hinges(qpos[:, self._hinges])
        nut_pose = qpos[:, self._nut : self._nut + 7]
        return Recording(
            t=np.arange(frames) / fps,
            wrist_pose=wrist_pose,
            finger_pose=finger_pose,
            joints=forward(wrist_pose, finger_pose),
            nut_pose=nut_pose,
            bolt=np.asarray(scene["bolt"], dtype=np.float64),
            force=force,
            wrench=wrench,
            qpos=qpos,
            success=bool(succeeded(self.config, nut_pose[-1], scene["bolt"])),
        )

    def touching(self, force: Float[np.ndarray, "time 5"]) -> Bool[np.ndarray, "time 5"]:
        """Which fingers press, with hysteresis against chatter."""
        from dexprior.geometry.timing import hysteresis

        return hysteresis(force, on=CONTACT_ON, off=CONTACT_OFF)

    def _wrench(self) -> Float[np.ndarray, 6]:
        """Sum of the contact forces on the fingertips, about the wrist, in the wrist frame."""
        import mujoco

        m, d = self.model, self.data
        wrist = d.body("wrist")
        total = np.zeros(6)
        local = np.zeros(6)
        for k in range(d.ncon):
            contact = d.contact[k]
            if contact.geom1 in self._tip_geoms:
                sign = -1.0
            elif contact.geom2 in self._tip_geoms:
                sign = 1.0
            else:
                continue
            mujoco.mj_contactForce(m, d, k, local)
            force = sign * contact.frame.reshape(3, 3).T @ local[:3]
            total[:3] += force
            total[3:] += np.cross(contact.pos - wrist.xpos, force)
        R = wrist.xmat.reshape(3, 3)
        return np.concatenate([R.T @ total[:3], R.T @ total[3:]])


CONTACT_ON = 0.30
"""[N] a fingertip counts as touching above this..."""
CONTACT_OFF = 0.15
"""[N] ...and as free below this."""


@dataclass(frozen=True)
class HandPlan:
    """Wrist knots with minimum-jerk blends; the fingers close during the second phase."""

    times: Float[np.ndarray, " knot"]
    knots: Float[np.ndarray, "knot 7"]
    nut_goals: Float[np.ndarray, "2 3"]
    """Where the nut should be at the last two knots [m]."""
    open: Float[np.ndarray, " hinge"]
    squeeze: Float[np.ndarray, " hinge"]

    def corrected(self, wrist: Float[np.ndarray, 7], nut: Float[np.ndarray, 7]) -> HandPlan:
        """The plan after a look at how the nut really lies in the hand: upright nut over the bolt, not wrist."""
        axis = quat_rotate(nut[3:], np.array([0.0, 0.0, 1.0]))
        axis = axis if axis[2] > 0 else -axis
        upright = quat_from_axis_angle(np.cross(axis, [0.0, 0.0, 1.0]))
        arm = quat_rotate(upright, wrist[:3] - nut[:3])
        quat = quat_multiply(upright, wrist[3:])
        knots = self.knots.copy()
        knots[-2:] = [np.concatenate([goal + arm, quat]) for goal in self.nut_goals]
        return replace(self, knots=knots)

    def wrist(self, t: float) -> Float[np.ndarray, 7]:
        k = int(np.clip(np.searchsorted(self.times, t, side="right") - 1, 0, len(self.knots) - 2))
        u = float(minimum_jerk(np.array((t - self.times[k]) / (self.times[k + 1] - self.times[k]))))
        a, b = self.knots[k], self.knots[k + 1]
        quat = a[3:] + u * ((b[3:] if a[3:] @ b[3:] >= 0 else -b[3:]) - a[3:])
        return np.concatenate([a[:3] + u * (b[:3] - a[:3]), quat / np.linalg.norm(quat)])

    def hinges(self, t: float) -> Float[np.ndarray, " hinge"]:
        u = float(minimum_jerk(np.array((t - self.times[1]) / (self.times[2] - self.times[1]))))
        return self.open + u * (self.squeeze - self.open)


def plan_insertion(
    config: InsertionConfig,
    grasp: PinchGrasp,
    scene: Mapping[str, Any],
    rng: np.random.Generator,
    duration: float,
) -> HandPlan:
    """Where wrist and fingers are told to go: reach, pinch, lift, carry, lower, with one person's small variations.

    Args:
        scene: `nut` and `bolt` positions on the table [m].
        rng: draws timing, approach, grip and small errors.
        duration: of the whole [s].
    """
    nut = np.array([*np.asarray(scene["nut"])[:2], config.height / 2])
    seated = np.array([*np.asarray(scene["bolt"])[:2], config.height / 2 + 0.003])
    twist = rng.uniform(-0.5, 0.5)
    turn = np.array([np.cos(twist / 2), 0.0, 0.0, np.sin(twist / 2)])
    grip = pose_multiply(np.array([0, 0, 0, *turn]), grasp.wrist_pose)
    grip = grip + np.array([*rng.normal(0, 0.001, 3), 0, 0, 0, 0])
    tilt = quat_from_axis_angle(rng.normal(0, 0.25, 3))
    away = np.array([rng.uniform(-0.06, 0.04), rng.uniform(-0.10, -0.04), rng.uniform(0.06, 0.11)])
    start = np.concatenate([grip[:3] + away, quat_multiply(tilt, grip[3:])])
    rise = config.bolt_height + rng.uniform(0.012, 0.03)
    above = seated + np.array([*rng.normal(0, 0.001, 2), rise])
    phases = duration * np.cumsum([0.22, 0.15, 0.14, 0.24, 0.20]) * rng.uniform(0.94, 1.04)

    def at(point: np.ndarray) -> np.ndarray:
        return np.concatenate([grip[:3] + point, grip[3:]])

    knots = [
        np.concatenate([start[:3] + nut, start[3:]]), at(nut), at(nut), at(nut + np.array([0, 0, rise])), at(above),
        at(np.array([*above[:2], seated[2]])),
    ]  # fmt: skip
    return HandPlan(
        times=np.concatenate([[0.0], phases]),
        knots=np.stack(knots),
        nut_goals=np.stack([above, [*above[:2], seated[2]]]),
        open=grasp.open,
        squeeze=grasp.touch + rng.uniform(0.8, 1.3) * (grasp.squeeze - grasp.touch),
    )
