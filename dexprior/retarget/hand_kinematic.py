"""A human hand's motion on a robot hand: one least-squares problem over all frames of a clip.

Minimises over q (time, joint), in the wrist frame, with the human's vectors scaled finger by finger:

    sum_f       |tip_f - base_f - s_f (h_f - b_f)|^2          fingertips, from the knuckles
    sum_f w_d   |distal_f - base_f - s_f (hd_f - b_f)|^2      last joints, so that fingers curl alike
    sum_f w(d)  |(tip_f - tip_thumb) - G(d) v_f / d|^2        pinches: v_f from thumb to finger, d its length
    w_s |q[t-1] - 2 q[t] + q[t+1]|^2  +  w_p |q - q_rest|^2   smoothness without delay, and posture

subject to the joint limits. w(d) grows as a finger nears the thumb, and G maps the distance at which human
fingertips touch to the one at which the robot's do, so that touching stays touching; between two fingers that
hold an object G keeps the object's width instead. The smoothness term looks both ways in time: unlike a
low-pass filter it cannot delay a contact. After Handa et al. 2020, "DexPilot", and Qin et al. 2022, "DexMV".

Solved by Gauss-Newton with Levenberg's damping and an active set for the limits; frames are coupled by the
smoothness alone, so each step is one banded Cholesky solve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from dexprior.config import Ge, Gt, config
from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_quat
from dexprior.robots.catalog import fingers_of
from dexprior.robots.hand_kinematics import HandKinematics
from dexprior.robots.identity import model_hash
from dexprior.robots.machines import EndEffector, Fingers
from dexprior.types import FINGERS, HandTrajectory, JointTrajectory, ObjectTrajectory

__all__ = ["HandRetargetConfig", "HandRetargeting", "human_vectors", "retarget_hand"]


_OPEN = 0.95
"""Reach of an open finger over the sum of its bones. Estimated fingers are never quite straight; with 1 here
a robot's fingers would bend their middle joints to make up for it."""


@config
class HandRetargetConfig:
    """Weights relative to a fingertip's, and thresholds."""

    distal_weight: Annotated[float, Ge(0)] = 0.15
    """Last joints of the fingers."""
    pinch_weight: Annotated[float, Ge(0)] = 8.0
    """Vector from thumb to finger when they are closer than `pinch_distance`."""
    pinch_distance: Annotated[float, Gt(0)] = 0.035
    """Human thumb-to-finger distance at which a pinch takes over [m]."""
    touch_distance: Annotated[float, Gt(0)] = 0.020
    """Human thumb-to-finger distance of landmarks when the pads touch [m]."""
    far_weight: Annotated[float, Ge(0)] = 0.05
    """The same vector when they are apart."""
    smoothness: Annotated[float, Ge(0)] = 2e-4
    """Squared second difference of the joints [m^2 / rad^2]."""
    posture: Annotated[float, Ge(0)] = 2e-6
    """Squared distance from the rest posture [m^2 / rad^2]; decides what the fingertips leave open."""
    tolerance: Annotated[float, Gt(0)] = 0.030
    """Largest fingertip error of a feasible frame [m]."""
    pinch_tolerance: Annotated[float, Gt(0)] = 0.010
    """Largest error of a pinching finger's distance to the thumb in a feasible frame [m]."""
    iterations: Annotated[int, Ge(1)] = 60
    """Most Gauss-Newton steps."""


@dataclass(frozen=True)
class HandRetargeting:
    """A robot hand's motion, and how well it follows the human's."""

    trajectory: JointTrajectory
    object: ObjectTrajectory | None
    """The object as it was given: hand and robot share its frame."""
    tips: Float[np.ndarray, "time finger 3"]
    """The robot's fingertips in the base frame, in the order of the robot's fingers [m]."""
    tip_error: Float[np.ndarray, "time finger"]
    """Distance of each fingertip from its scaled target [m]."""
    pinch_error: Float[np.ndarray, "time finger"]
    """Error of each finger's distance to the thumb where it pinches, else zero [m]."""


def retarget_hand(
    hand: HandTrajectory,
    robot: EndEffector,
    *,
    config: HandRetargetConfig | None = None,
    object: ObjectTrajectory | None = None,
) -> HandRetargeting:
    """Joint positions of a robot hand that does what a human hand does.

    Frames are taken as evenly spaced in time. The robot's wrist goes where the human's is; if the fingers
    touch something, it is moved by one constant in the wrist's frame, so that longer or shorter fingers touch
    it too.

    Args:
        hand: the human hand.
        robot: a hand of the catalog that can follow a human one.
        config: weights.
        object: what the hand moves, returned unchanged; it must have the hand's time stamps.

    Raises:
        BadInput: the robot has no fingers that follow a human hand's, it is a hand of the other side, or the object's
            times are others.
        MissingExtra: the package that holds the robot is not installed.
    """
    config = config or HandRetargetConfig()
    fingers = fingers_of(robot)
    if fingers.side != hand.side:
        raise BadInput(f"{robot.name!r} is a {fingers.side} hand, the human's is {hand.side}: mirror the clip")
    if object is not None and not np.array_equal(object.t, hand.t):
        raise BadInput(
            f"the object has {len(object)} frames, the hand {len(hand)}, or their times differ: resample one"
        )
    kinematics = HandKinematics.of(robot)
    problem = _Problem.of(hand, fingers, kinematics, config)
    q = problem.solve(config)
    points, _ = kinematics.forward(q)
    tip_error, pinch_error = problem.errors(points)
    judged = tip_error * ~problem.pinching  # a pinching finger is judged by its pinch
    feasible = hand.valid & (judged.max(axis=1) <= config.tolerance)
    feasible &= pinch_error.max(axis=1) <= config.pinch_tolerance
    R = matrix_from_quat(hand.wrist_pose[:, 3:])
    local_tips = points[:, list(kinematics.tips)]
    wrist_pose = hand.wrist_pose.copy()
    wrist_pose[:, :3] += R @ _reach_offset(hand, fingers.names, local_tips)
    tips = np.einsum("tij,tkj->tki", R, local_tips) + wrist_pose[:, None, :3]
    trajectory = JointTrajectory(
        robot=robot.name,
        model_hash=model_hash(robot.model),
        names=robot.joints,
        t=hand.t,
        q=q,
        ee_pose=wrist_pose,
        feasible=feasible,
    )
    return HandRetargeting(trajectory, object, tips, tip_error, pinch_error)


def _reach_offset(
    hand: HandTrajectory, fingers: tuple[str, ...], tips: Float[np.ndarray, "time finger 3"]
) -> np.ndarray:
    """Mean vector from the robot's touching fingertips to the human's, wrist frame [m]."""
    contact = hand.contact[:, [FINGERS.index(f) for f in fingers]]
    if contact.sum() < 1e-6:
        return np.zeros(3)
    human = human_vectors(hand, fingers)[0]
    return np.einsum("tf,tfi->i", contact, human - tips) / contact.sum()


def human_vectors(
    hand: HandTrajectory, fingers: tuple[str, ...]
) -> tuple[
    Float[np.ndarray, "time finger 3"],
    Float[np.ndarray, "time finger 3"],
    Float[np.ndarray, "finger 3"],
    Float[np.ndarray, " finger"],
]:
    """Fingertips, last joints, first joints (medians) in the wrist frame, and reaches of open fingers [m]."""
    R = matrix_from_quat(hand.wrist_pose[:, 3:])
    local = np.einsum("tji,tkj->tki", R, hand.joints - hand.wrist_pose[:, None, :3])
    chains = np.array([[1 + 4 * FINGERS.index(f) + k for k in range(4)] for f in fingers])
    bones = np.linalg.norm(np.diff(local[:, chains], axis=2), axis=-1)
    return (
        local[:, chains[:, 3]],
        local[:, chains[:, 2]],
        np.median(local[:, chains[:, 0]], axis=0),
        _OPEN * np.median(bones.sum(axis=-1), axis=0),
    )


@dataclass(frozen=True)
class _Problem:
    """Targets and weights of every frame."""

    kinematics: HandKinematics
    tips: Float[np.ndarray, "time finger 3"]
    distals: Float[np.ndarray, "time finger 3"]
    pinch: Float[np.ndarray, "time finger 3"]
    """Wanted vector from the thumb to each finger; zero for the thumb."""
    pinch_weight: Float[np.ndarray, "time finger"]
    pinching: np.ndarray
    distal_weight: float
    thumb: int
    rest: Float[np.ndarray, " joint"]
    lower: Float[np.ndarray, " joint"]
    upper: Float[np.ndarray, " joint"]

    @classmethod
    def of(
        cls, hand: HandTrajectory, robot: Fingers, kinematics: HandKinematics, config: HandRetargetConfig
    ) -> _Problem:
        fingers = robot.names
        thumb = fingers.index("thumb")
        lower, upper = kinematics.lower.copy(), kinematics.upper.copy()
        rest = np.clip(0.0, lower, upper) + 0.15 * (upper - np.clip(0.0, lower, upper))
        still = list(kinematics.fixed)
        lower[still] = upper[still] = rest[still] = np.clip(0.0, lower[still], upper[still])
        flat, _ = kinematics.forward(np.clip(np.zeros((1, len(rest))), lower, upper))
        tips, distals, bases, length = human_vectors(hand, fingers)
        reach = np.linalg.norm(flat[0, : len(fingers)] - kinematics.bases, axis=-1)
        scale = (reach / length)[:, None]
        wanted_tips = kinematics.bases + scale * (tips - bases)
        wanted_distals = kinematics.bases + scale * (distals - bases)

        vector = tips - tips[:, thumb : thumb + 1]
        distance = np.linalg.norm(vector, axis=-1)
        near = 1 / (1 + np.exp(np.clip((distance - config.pinch_distance) / 0.004, -50, 50)))
        touching = 2 * kinematics.tip_radius
        mean_scale = float(scale.mean())
        far = 2 * config.pinch_distance  # from here on distances scale with the hand
        gap = np.interp(distance, [0, config.touch_distance, far], [0, touching, mean_scale * far])
        gap += mean_scale * np.clip(distance - far, 0, None)
        contact = hand.contact[:, [FINGERS.index(f) for f in fingers]]
        holding = contact * contact[:, thumb : thumb + 1]
        width = np.clip(distance - config.touch_distance, 0, None) + touching  # pads apart by the object's width
        gap = (1 - holding) * gap + holding * width
        weight = config.far_weight + config.pinch_weight * np.maximum(near, holding)
        weight[:, thumb] = 0.0
        return cls(
            kinematics=kinematics,
            tips=wanted_tips,
            distals=wanted_distals,
            pinch=vector * (gap / np.where(distance > 1e-9, distance, 1.0))[..., None],
            pinch_weight=weight,
            pinching=(np.maximum(near, holding) > 0.5) & (np.arange(len(fingers)) != thumb),
            distal_weight=config.distal_weight,
            thumb=thumb,
            rest=rest,
            lower=lower,
            upper=upper,
        )

    def residuals(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weighted residuals (time, row) and their derivatives (time, row, joint)."""
        points, jacobian = self.kinematics.forward(q)
        n = self.tips.shape[1]
        tips, distals = points[:, :n], points[:, n:]
        d_tips, d_distals = jacobian[:, :n], jacobian[:, n:]
        a, b = np.sqrt(self.distal_weight), np.sqrt(self.pinch_weight)[..., None]
        thumb = slice(self.thumb, self.thumb + 1)
        value = np.concatenate(
            [tips - self.tips, a * (distals - self.distals), b * (tips - tips[:, thumb] - self.pinch)], axis=1
        )
        slope = np.concatenate([d_tips, a * d_distals, b[..., None] * (d_tips - d_tips[:, thumb])], axis=1)
        return value.reshape(len(q), -1), slope.reshape(len(q), 3 * value.shape[1], -1)

    def errors(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Fingertip errors, and errors of the distance to the thumb where a finger pinches."""
        tips = points[:, : self.tips.shape[1]]
        tip_error = np.linalg.norm(tips - self.tips, axis=-1)
        gap = np.linalg.norm(tips - tips[:, self.thumb : self.thumb + 1], axis=-1)
        return tip_error, np.abs(gap - np.linalg.norm(self.pinch, axis=-1)) * self.pinching

    def solve(self, config: HandRetargetConfig) -> np.ndarray:
        n, joints = len(self.tips), len(self.rest)
        q = np.tile(np.clip(self.rest, self.lower, self.upper), (n, 1))
        couplings = config.smoothness * _second_difference_bands(n)
        damping = 1e-4
        value, slope = self.residuals(q)
        cost = self._cost(q, value, config)
        for _ in range(config.iterations):
            gradient = np.einsum("trj,tr->tj", slope, value) + config.posture * (q - self.rest)
            gradient += config.smoothness * _roughness(q)[1]
            free = ~(((q <= self.lower) & (gradient > 0)) | ((q >= self.upper) & (gradient < 0)))
            hessian = np.matmul(np.swapaxes(slope, 1, 2), slope)
            hessian[:, range(joints), range(joints)] += config.posture + damping
            step = _solve_banded(hessian, couplings, -gradient, free)
            step *= min(1.0, 0.5 / max(float(np.abs(step).max()), 1e-12))  # half a radian at most
            trial = np.clip(q + step, self.lower, self.upper)
            trial_value, trial_slope = self.residuals(trial)
            trial_cost = self._cost(trial, trial_value, config)
            if trial_cost > cost:
                damping *= 10
                if damping > 1e3:
                    break
                continue
            moved = float(np.abs(trial - q).max())
            gained = cost - trial_cost
            q, value, slope, cost = trial, trial_value, trial_slope, trial_cost
            damping = max(damping / 5, 1e-8)
            if moved < 1e-4 or gained < 1e-7 * cost:
                break
        return q

    def _cost(self, q: np.ndarray, value: np.ndarray, config: HandRetargetConfig) -> float:
        return float(
            (value**2).sum() + config.smoothness * _roughness(q)[0] + config.posture * ((q - self.rest) ** 2).sum()
        )


def _roughness(q: np.ndarray) -> tuple[float, np.ndarray]:
    """Sum of squared second differences along time, and half its gradient."""
    gradient = np.zeros_like(q)
    if len(q) < 3:
        return 0.0, gradient
    second = q[:-2] - 2 * q[1:-1] + q[2:]
    gradient[:-2] += second
    gradient[1:-1] -= 2 * second
    gradient[2:] += second
    return float((second**2).sum()), gradient


def _second_difference_bands(n: int) -> Float[np.ndarray, "3 time"]:
    """Diagonals 0, 1, 2 of D^T D for the second difference D over n frames."""
    bands = np.zeros((3, n))
    if n < 3:
        return bands
    for offset, value in ((0, 1.0), (1, 4.0), (2, 1.0)):
        bands[0, offset : n - 2 + offset] += value
    for offset in (0, 1):
        bands[1, offset : n - 2 + offset] -= 2.0
    bands[2, : n - 2] = 1.0
    return bands


def _solve_banded(blocks: np.ndarray, couplings: np.ndarray, rhs: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Solve (blocks + couplings) x = rhs for the free entries; the others stay zero.

    `blocks` (time, joint, joint) couple the joints of a frame, `couplings` (3, time) a joint with itself one
    and two frames later: lower bands up to 2 x joint of one symmetric matrix.
    """
    from scipy.linalg import solveh_banded

    n, joints = rhs.shape
    bands = np.zeros((2 * joints + 1, n, joints))
    for below in range(joints):
        rows = np.arange(below, joints)
        bands[below, :, : joints - below] = blocks[:, rows, rows - below]
    for lag in range(3):
        bands[lag * joints] += couplings[lag][:, None]
    flat = bands.reshape(2 * joints + 1, n * joints)
    unfixed = free.reshape(-1).astype(np.float64)
    for below in range(2 * joints + 1):
        size = flat.shape[1] - below
        if size > 0:
            flat[below, :size] *= unfixed[:size] * unfixed[below:]
    flat[0] += 1 - unfixed
    solution = solveh_banded(flat, rhs.reshape(-1) * unfixed, lower=True, overwrite_ab=True, check_finite=False)
    return solution.reshape(n, joints)
