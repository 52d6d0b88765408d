"""A human hand's motion on a robot hand: one least-squares problem a frame, or over all frames of a clip.

Minimises over q (time, joint), in the wrist frame, with u_f the direction from the human's wrist to her fingertip:

    sum_f w_u |(1 - u_f u_f^T) tip_f|^2                       fingertips where hers are, seen from the wrist,
    sum_f     (u_f^T tip_f - |p_f|)^2                         as far out as p_f = base_f + s_f (h_f - b_f)
    sum_f w_d |distal_f - base_f - s_f (hd_f - b_f)|^2        last joints, so that fingers curl alike
    sum_f w(d) (|tip_f - tip_thumb| - G_f(d))^2               pinches: d is the human's distance of the two tips,
    sum_f w_v |(tip_f - tip_thumb) - G_f(d) v_f / d|^2        and v_f the vector between them
    w_s |q[t-1] - 2 q[t] + q[t+1]|^2  +  w_p |q - q_rest|^2   smoothness without delay, and posture

subject to the joint limits. w(d) grows as a finger nears the thumb, and G_f maps the distance at which human
fingertips touch to the one at which the robot's do (the sum of their radii, and never less), so that touching stays
touching; between two fingers that hold an object G keeps the object's width instead. Where the human's tips touch
depends on who placed the landmarks, so that distance is read off the pinches of the source. The smoothness term
looks both ways in time: unlike a low-pass filter it cannot delay a contact. After Handa et al. 2020, "DexPilot", and
Qin et al. 2022, "DexMV".

`HandRetargeter` solves the same for one frame after the other, as they come; there q[t] is held near q[t-1] by a
weight that is small beside a pinch's. A clip's solution starts from it. Solved by Gauss-Newton with Levenberg's
damping and an active set for the limits; frames of a clip are coupled by the smoothness alone, so that each of its
steps is one banded Cholesky solve.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import Annotated, Protocol

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import Ge, Gt, config
from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_quat
from dexprior.geometry.transforms import IDENTITY_POSE
from dexprior.hands.skeleton import forward
from dexprior.robots.catalog import fingers_of
from dexprior.robots.hand_kinematics import HandKinematics
from dexprior.robots.identity import model_hash
from dexprior.robots.machines import EndEffector
from dexprior.types import FINGERS, HandTrajectory, JointTrajectory, ObjectTrajectory, Side

__all__ = ["HandRetargetConfig", "HandRetargeter", "HandRetargeting", "retarget_hand"]


_OPEN = 0.95
"""Reach of an open finger over the sum of its bones. Estimated fingers are never quite straight; with 1 here
a robot's fingers would bend their middle joints to make up for it."""


_LEAST_HELD = 3
"""Frames that a pinch lasts to count."""

_STEADY = 6  # frames of the same distance that are a pinch before one has ended
_KEPT_LEVELS = 64  # of the last pinches of a finger
_ASTRAY = np.deg2rad(20)  # catalog: 10 degrees at most, but for the thumb of the tendon hand with 39
_FIRST = 128  # frames of a stream from which a person's measures are taken
_STILL = 1e-3  # [rad, m] largest change of a joint in a step that is not worth taking
_LITTLE = 1e-3  # relative gain of a step after which there is none to come


@config
class HandRetargetConfig:
    """Weights relative to a fingertip's distance from the wrist, and thresholds."""

    direction_weight: Annotated[float, Ge(0)] = 4.0
    """A fingertip beside the line from the wrist on which the human's is."""
    distal_weight: Annotated[float, Ge(0)] = 0.05
    """Last joints of the fingers."""
    pinch_weight: Annotated[float, Ge(0)] = 80.0
    """Distance from thumb to finger when they are closer than `pinch_distance`."""
    vector_weight: Annotated[float, Ge(0)] = 8.0
    """Vector from thumb to finger, likewise."""
    pinch_distance: Annotated[float, Gt(0)] = 0.035
    """Human thumb-to-finger distance at which a pinch takes over [m]."""
    touch_distance: Annotated[float, Gt(0)] = 0.020
    """Human thumb-to-finger distance of landmarks when the pads touch, in a clip without a pinch that shows it [m]."""
    first_touch: Annotated[float, Gt(0)] = 0.010
    """The same in a stream, before its first pinch [m]: closing late there does less harm than closing early."""
    press: Annotated[float, Ge(0)] = 0.001
    """How far two fingertips of the robot that touch are pressed into each other [m]."""
    far_weight: Annotated[float, Ge(0)] = 0.05
    """The vector when they are apart."""
    smoothness: Annotated[float, Ge(0)] = 2e-4
    """Squared second difference of the joints in a clip [m^2 / rad^2]."""
    inertia: Annotated[float, Ge(0)] = 2e-4
    """Squared change of the joints from one frame to the next, frame by frame [m^2 / rad^2]."""
    posture: Annotated[float, Ge(0)] = 2e-6
    """Squared distance from the rest posture [m^2 / rad^2]; decides what the fingertips leave open."""
    tolerance: Annotated[float, Gt(0)] = 0.030
    """Largest fingertip error of a feasible frame [m]."""
    pinch_tolerance: Annotated[float, Gt(0)] = 0.010
    """Largest error of a pinching finger's distance to the thumb in a feasible frame [m]."""
    iterations: Annotated[int, Ge(1)] = 20
    """Most Gauss-Newton steps: of a clip, and of each frame of a stream."""


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
    tables = _Robot.of(robot, hand.side)
    if object is not None and not np.array_equal(object.t, hand.t):
        raise BadInput(
            f"the object has {len(object)} frames, the hand {len(hand)}, or their times differ: resample one"
        )
    local = _in_wrist_frame(hand.wrist_pose, hand.joints)
    human = _Human.of(local, hand.contact, tables, config)
    problem = _Problem.of(local, hand.contact, tables, human, config)
    q = np.empty((len(hand), len(robot.joints)))
    previous = np.clip(tables.rest, tables.lower, tables.upper)
    for k in range(len(hand)):
        (previous,) = _minimise(problem.at(k), previous[None], _Inertia(config.inertia, previous), config)
        q[k] = previous
    q = _minimise(problem, q, _Smoothness.of(config.smoothness, len(hand)), config)
    points, _ = tables.kinematics.forward(q)
    tip_error, pinch_error = problem.errors(points)
    judged = tip_error * ~problem.pinching  # a pinching finger is judged by its pinch
    feasible = hand.valid & (judged.max(axis=1) <= config.tolerance)
    feasible &= pinch_error.max(axis=1) <= config.pinch_tolerance
    R = matrix_from_quat(hand.wrist_pose[:, 3:])
    local_tips = points[:, list(tables.kinematics.tips)]
    wrist_pose = hand.wrist_pose.copy()
    contact = hand.contact[:, list(tables.human)]
    if contact.sum() > 1e-6:  # the mean vector from the robot's touching fingertips to the human's
        apart = local[:, tables.chains[:, 3]] - local_tips
        wrist_pose[:, :3] += R @ (np.einsum("tf,tfi->i", contact, apart) / contact.sum())
    tips = np.einsum("tij,tkj->tki", R, local_tips) + wrist_pose[:, None, :3]
    trajectory = JointTrajectory(
        robot=robot.name,
        model_hash=model_hash(robot.model),
        names=robot.joints,
        t=hand.t,
        q=q,
        ee_pose=wrist_pose,
        feasible=feasible,
        fingers=tuple(FINGERS[f] for f in tables.human),
        contact=contact,
        force=hand.force[:, list(tables.human)],
    )
    return HandRetargeting(trajectory, object, tips, tip_error, pinch_error)


class HandRetargeter:
    """A robot hand that follows a human one frame after the other, from what it has seen so far.

    The same frames give the same joints, bit for bit. What it takes from the human are the lengths of her fingers
    (medians of the first frames) and the distances at which her fingertips touch (of the pinches so far).
    """

    def __init__(self, robot: EndEffector, config: HandRetargetConfig | None = None, *, side: Side = "right") -> None:
        """Prepare for a robot hand and a human one of the same side.

        Raises:
            BadInput: the robot has no fingers that follow a human hand's, or it is a hand of the other side.
            MissingExtra: the package that holds the robot is not installed.
        """
        self._config = config or HandRetargetConfig()
        self._robot = _Robot.of(robot, side)
        self._touches = _Touches(len(self._robot.human), self._config, self._config.first_touch)
        self._first: list[np.ndarray] = []
        self._seen = 0
        self._human: _Human | None = None
        self._q = np.clip(self._robot.rest, self._robot.lower, self._robot.upper)
        self.joints = robot.joints
        """Names of what `step` returns, in order."""

    def step(
        self,
        joints: Float[np.ndarray, "21 3"],
        wrist_pose: Float[np.ndarray, " 7"],
        contact: Float[np.ndarray, " 5"] | None = None,
    ) -> Float[np.ndarray, " joint"]:
        """Joint positions for the next frame [rad, m]; a frame that is not finite was lost, and repeats the last one.

        Args:
            joints: the human's, in the base frame and MediaPipe's order [m].
            wrist_pose: pose of MANO's wrist frame in the base frame [m, unit quaternion].
            contact: probability that each finger touches an object; zero when omitted.

        Raises:
            BadInput: another shape.
        """
        shapes = [np.shape(joints), np.shape(wrist_pose), (5,) if contact is None else np.shape(contact)]
        if shapes != [(21, 3), (7,), (5,)]:
            raise BadInput(
                f"joints {shapes[0]}, wrist_pose {shapes[1]}, contact {shapes[2]}: expected (21, 3), (7,), (5,)"
            )
        if not (np.isfinite(joints).all() and np.isfinite(wrist_pose).all()):
            return self._q.copy()
        local = _in_wrist_frame(np.asarray(wrist_pose)[None], np.asarray(joints)[None])
        given = np.zeros((1, 5)) if contact is None else np.asarray(contact, dtype=np.float64)[None]
        self._touches.see(_pinches(local, self._robot)[0], _holding(given, self._robot)[0])
        touch = self._touches.known
        self._seen += 1
        if self._seen <= _FIRST:
            self._first.append(local[0])
        if self._human is None or (self._seen <= _FIRST and self._seen & (self._seen - 1) == 0):
            self._human = _Human.measured(np.array(self._first), self._robot, touch)  # frames 1, 2, 4, 8, ...
        human = self._human if touch is self._human.touch else replace(self._human, touch=touch)
        self._human = human
        problem = _Problem.of(local, given, self._robot, human, self._config)
        (self._q,) = _minimise(problem, self._q[None], _Inertia(self._config.inertia, self._q), self._config)
        return self._q.copy()


def _in_wrist_frame(wrist_pose: np.ndarray, joints: np.ndarray) -> np.ndarray:
    R = matrix_from_quat(wrist_pose[:, 3:])
    return (joints - wrist_pose[:, None, :3]) @ R


def _pinches(local: np.ndarray, robot: _Robot) -> np.ndarray:
    """Distances of fingertips from the thumb's [m]."""
    tips = local[..., robot.chains[:, 3], :]
    return np.linalg.norm(tips - tips[..., robot.thumb, None, :], axis=-1)


def _holding(contact: np.ndarray, robot: _Robot) -> np.ndarray:
    """How surely each finger holds something against the thumb."""
    given = contact[..., robot.human]
    return given * given[..., robot.thumb, None]


@dataclass(frozen=True)
class _Robot:
    """What does not change while a robot hand follows."""

    kinematics: HandKinematics
    human: tuple[int, ...]
    """Indices of its fingers among a human's."""
    chains: np.ndarray
    """The human's four joints (finger, 4) of each."""
    thumb: int
    others: list[int]
    reach: Float[np.ndarray, " finger"]
    """Reach of an open finger, from its knuckle [m]."""
    points: Bool[np.ndarray, " finger"]
    """Whether each can point where an open human hand's does, seen from the wrist. Where a thumb is mounted under the
    palm it cannot, and follows the human's from knuckle to knuckle instead."""
    touching: Float[np.ndarray, " finger"]
    """Distance of the sites of each fingertip and the thumb's when they touch [m]."""
    rest: Float[np.ndarray, " joint"]
    lower: Float[np.ndarray, " joint"]
    upper: Float[np.ndarray, " joint"]

    @classmethod
    def of(cls, robot: EndEffector, side: Side) -> _Robot:
        fingers = fingers_of(robot)
        if fingers.side != side:
            raise BadInput(f"{robot.name!r} is a {fingers.side} hand, the human's is {side}: mirror the clip")
        kinematics = HandKinematics.of(robot)
        lower, upper = kinematics.lower.copy(), kinematics.upper.copy()
        rest = np.clip(0.0, lower, upper) + 0.15 * (upper - np.clip(0.0, lower, upper))
        still = list(kinematics.fixed)
        lower[still] = upper[still] = rest[still] = np.clip(0.0, lower[still], upper[still])
        flat, _ = kinematics.forward(np.clip(np.zeros((1, len(rest))), lower, upper))
        thumb = fingers.names.index("thumb")
        human = tuple(FINGERS.index(f) for f in fingers.names)
        return cls(
            kinematics=kinematics,
            human=human,
            chains=np.array([[1 + 4 * f + k for k in range(4)] for f in human]),
            thumb=thumb,
            others=[f for f in range(len(human)) if f != thumb],
            reach=np.linalg.norm(flat[0, : len(human)] - kinematics.bases, axis=-1),
            points=_can_point(kinematics, human, lower, upper),
            touching=kinematics.tip_radii + kinematics.tip_radii[thumb],
            rest=rest,
            lower=lower,
            upper=upper,
        )


def _can_point(
    kinematics: HandKinematics, human: tuple[int, ...], lower: np.ndarray, upper: np.ndarray
) -> Bool[np.ndarray, " finger"]:
    """Which fingers some of many postures bring near the direction of a flat human hand's."""
    flat = forward(IDENTITY_POSE, np.zeros(45))[4::4][list(human)]
    q = np.random.default_rng(0).uniform(lower, upper, (256, len(lower)))
    tips = kinematics.forward(q)[0][:, : len(human)]
    cosine = (tips * flat).sum(-1) / (np.linalg.norm(tips, axis=-1) * np.linalg.norm(flat, axis=-1))
    return cosine.max(axis=0) > np.cos(_ASTRAY)


@dataclass(frozen=True)
class _Human:
    """What a source says about a person, of the fingers that the robot has."""

    bases: Float[np.ndarray, "finger 3"]
    """Knuckles in the wrist frame [m]."""
    reach: Float[np.ndarray, " finger"]
    """Reach of an open finger, from its knuckle [m]."""
    touch: Float[np.ndarray, " finger"]
    """Distance of the landmarks of each fingertip and the thumb's when the pads touch [m]."""

    @classmethod
    def measured(cls, local: np.ndarray, robot: _Robot, touch: np.ndarray) -> _Human:
        bones = np.linalg.norm(np.diff(local[:, robot.chains], axis=2), axis=-1)
        return cls(
            bases=np.median(local[:, robot.chains[:, 0]], axis=0),
            reach=_OPEN * np.median(bones.sum(axis=-1), axis=0),
            touch=touch,
        )

    @classmethod
    def of(cls, local: np.ndarray, contact: np.ndarray, robot: _Robot, config: HandRetargetConfig) -> _Human:
        """The hand of a whole clip."""
        touches = _Touches(len(robot.human), config, config.touch_distance)
        for distance, holding in zip(_pinches(local, robot), _holding(contact, robot)):
            touches.see(distance, holding)
        touches.close()
        return cls.measured(local, robot, touches.known)


class _Touches:
    """Distances of fingertip landmarks when the pads touch, from the pinches that a source has shown.

    A pinch is a run of frames in which a finger is closer to the thumb than `pinch_distance` and holds no object. Its
    level is the median of the distances within 3 mm of the run's third smallest. A finger's touch is the median of its
    levels within 4 mm of the lowest: the others are of fingers that came near. A finger that has not pinched, or seems
    to touch 6 mm farther than others, has the (lower) median of all. Before the first pinch is over, a distance that
    stays the same counts as a level; `known` is a guess until then.
    """

    def __init__(self, fingers: int, config: HandRetargetConfig, guess: float) -> None:
        self._config, self._farthest = config, 0.7 * config.pinch_distance
        self._runs: list[list[float]] = [[] for _ in range(fingers)]
        self._levels: list[list[float]] = [[] for _ in range(fingers)]
        self.known = np.full(fingers, guess)
        """What is known of each finger [m]."""

    def see(self, distance: Float[np.ndarray, " finger"], holding: Float[np.ndarray, " finger"]) -> None:
        """Take in another frame; the thumb's distance is zero and says nothing."""
        for f, d in enumerate(distance.tolist()):
            if 0.0 < d < self._config.pinch_distance and holding[f] < 0.5:
                self._runs[f].append(d)
                if not any(self._levels):
                    self._foresee(self._runs[f][-_STEADY:])
            elif self._runs[f]:
                self._end(f)

    def close(self) -> None:
        """End pinches that last until the end."""
        for f in range(len(self._runs)):
            self._end(f)

    def _foresee(self, last: list[float]) -> None:
        level = float(np.median(last))
        if len(last) == _STEADY and max(last) - min(last) < 0.0015 and level <= self._farthest:
            self.known = np.full(len(self._runs), level)

    def _end(self, finger: int) -> None:
        run, self._runs[finger] = np.sort(self._runs[finger]), []
        if len(run) < _LEAST_HELD:
            return
        held = run[run <= run[_LEAST_HELD - 1] + 0.003]
        level = float(np.median(held))
        if level > self._farthest:
            return
        self._levels[finger] = [*self._levels[finger], level][-_KEPT_LEVELS:]
        typical = [
            float(np.median([x for x in levels if x <= min(levels) + 0.004])) if levels else np.inf
            for levels in self._levels
        ]
        pooled = statistics.median_low([x for x in typical if x < np.inf])
        self.known = np.array([x if x <= pooled + 0.006 else pooled for x in typical])


@dataclass(frozen=True)
class _Problem:
    """Targets and weights of frames."""

    robot: _Robot
    config: HandRetargetConfig
    tips: Float[np.ndarray, "time finger 3"]
    stretch: Float[np.ndarray, "time finger 3 3"]
    """What a fingertip's distance from its target is multiplied by: more across the line from the wrist."""
    distals: Float[np.ndarray, "time finger 3"]
    pinch: Float[np.ndarray, "time other 3"]
    """Wanted vector from the thumb to each other finger."""
    gap: Float[np.ndarray, "time other"]
    """Its length."""
    vector_weight: Float[np.ndarray, "time other"]
    """Root of its weight; likewise of its length's."""
    gap_weight: Float[np.ndarray, "time other"]
    pinching: np.ndarray
    """(time, finger)"""

    @classmethod
    def of(
        cls, local: np.ndarray, contact: np.ndarray, robot: _Robot, human: _Human, config: HandRetargetConfig
    ) -> _Problem:
        bases, others = robot.kinematics.bases, robot.others
        scale = (robot.reach / human.reach)[:, None]
        tips, distals = local[:, robot.chains[:, 3]], local[:, robot.chains[:, 2]]
        places = bases + scale * (tips - human.bases)
        along = tips / np.maximum(np.linalg.norm(tips, axis=-1, keepdims=True), 1e-9)
        outward = np.linalg.norm(places, axis=-1, keepdims=True) * along
        across = np.where(robot.points, np.sqrt(config.direction_weight), 1.0)[:, None, None]
        stretch = across * np.eye(3) + (1 - across) * along[..., :, None] * along[..., None, :]

        vector = tips[:, others] - tips[:, robot.thumb, None]
        distance = np.linalg.norm(vector, axis=-1)
        near = 1 / (1 + np.exp(np.clip((distance - config.pinch_distance) / 0.004, -50, 50)))
        touch, touching = human.touch[others], robot.touching[others] - config.press
        mean_scale, far = float(scale.mean()), 2 * config.pinch_distance  # from `far` on distances scale with the hand
        slope = (mean_scale * far - touching) / np.maximum(far - touch, 1e-3)
        beyond = np.maximum(distance - far, 0.0)
        gap = touching + slope * np.clip(distance - touch, 0.0, np.maximum(far - touch, 0.0)) + mean_scale * beyond
        holding = _holding(contact, robot)[:, others]
        width = np.maximum(distance - touch, 0.0) + touching  # pads apart by the object's width
        gap = (1 - holding) * gap + holding * width
        closing = np.maximum(near, holding)
        pinching = np.zeros(tips.shape[:2], dtype=bool)
        pinching[:, others] = closing > 0.5
        return cls(
            robot=robot,
            config=config,
            tips=np.where(robot.points[:, None], outward, places),
            stretch=stretch,
            distals=bases + scale * (distals - human.bases),
            pinch=vector * (gap / np.maximum(distance, 1e-9))[..., None],
            gap=gap,
            vector_weight=np.sqrt(config.far_weight + config.vector_weight * closing),
            gap_weight=np.sqrt(config.pinch_weight * closing),
            pinching=pinching,
        )

    def at(self, frame: int) -> _Problem:
        """One frame of it."""
        one = {
            name: getattr(self, name)[frame : frame + 1]
            for name in ("tips", "stretch", "distals", "pinch", "gap", "vector_weight", "gap_weight", "pinching")
        }
        return replace(self, **one)

    def residuals(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weighted residuals (time, row) and their derivatives (time, row, joint)."""
        points, jacobian = self.robot.kinematics.forward(q)
        n, joints, fingers = len(q), q.shape[1], self.tips.shape[1]
        others, thumb = self.robot.others, self.robot.thumb
        tips, d_tips = points[:, :fingers], jacobian[:, :fingers]
        apart = tips[:, others] - tips[:, thumb, None]
        d_apart = d_tips[:, others] - d_tips[:, thumb, None]
        length = np.maximum(np.linalg.norm(apart, axis=-1), 1e-6)
        towards = apart / length[..., None]
        a, b, c = np.sqrt(self.config.distal_weight), self.vector_weight[..., None], self.gap_weight
        value = [
            (self.stretch @ (tips - self.tips)[..., None]).reshape(n, -1),
            (a * (points[:, fingers:] - self.distals)).reshape(n, -1),
            (b * (apart - self.pinch)).reshape(n, -1),
            c * (length - self.gap),
        ]
        slope = [
            (self.stretch @ d_tips).reshape(n, -1, joints),
            (a * jacobian[:, fingers:]).reshape(n, -1, joints),
            (b[..., None] * d_apart).reshape(n, -1, joints),
            (c[..., None] * (towards[..., None, :] @ d_apart)[..., 0, :]),
        ]
        return np.concatenate(value, axis=1), np.concatenate(slope, axis=1)

    def errors(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Fingertip errors, and errors of the distance to the thumb where a finger pinches."""
        tips = points[:, : self.tips.shape[1]]
        tip_error = np.linalg.norm(tips - self.tips, axis=-1)
        gap = np.linalg.norm(tips[:, self.robot.others] - tips[:, self.robot.thumb, None], axis=-1)
        pinch_error = np.zeros_like(tip_error)
        pinch_error[:, self.robot.others] = np.abs(gap - self.gap)
        return tip_error, pinch_error * self.pinching


class _Coupling(Protocol):
    """What ties frames together: to each other, or one to the frame before it."""

    def cost(self, q: np.ndarray) -> float: ...

    def gradient(self, q: np.ndarray) -> np.ndarray:
        """Half of it."""
        ...

    def solve(self, blocks: np.ndarray, rhs: np.ndarray, free: np.ndarray) -> np.ndarray:
        """(blocks + its own half Hessian) x = rhs for the free entries; the others stay zero."""
        ...


@dataclass(frozen=True)
class _Inertia:
    """A frame stays near the one before it."""

    weight: float
    previous: Float[np.ndarray, " joint"]

    def cost(self, q: np.ndarray) -> float:
        return self.weight * float(((q - self.previous) ** 2).sum())

    def gradient(self, q: np.ndarray) -> np.ndarray:
        return self.weight * (q - self.previous)

    def solve(self, blocks: np.ndarray, rhs: np.ndarray, free: np.ndarray) -> np.ndarray:
        at = np.flatnonzero(free[0])
        step = np.zeros_like(rhs)
        A = blocks[0][np.ix_(at, at)]
        A[np.arange(len(at)), np.arange(len(at))] += self.weight
        step[0, at] = np.linalg.solve(A, rhs[0, at])
        return step


@dataclass(frozen=True)
class _Smoothness:
    """Second differences of all frames are small."""

    weight: float
    bands: Float[np.ndarray, "3 time"]

    @classmethod
    def of(cls, weight: float, n: int) -> _Smoothness:
        return cls(weight, weight * _second_difference_bands(n))

    def cost(self, q: np.ndarray) -> float:
        return self.weight * _roughness(q)[0]

    def gradient(self, q: np.ndarray) -> np.ndarray:
        return self.weight * _roughness(q)[1]

    def solve(self, blocks: np.ndarray, rhs: np.ndarray, free: np.ndarray) -> np.ndarray:
        return _solve_banded(blocks, self.bands, rhs, free)


def _minimise(problem: _Problem, q: np.ndarray, coupling: _Coupling, config: HandRetargetConfig) -> np.ndarray:
    """Joints (time, joint) from which no step gains anything, or those after the last allowed one."""
    robot = problem.robot
    joints = np.arange(q.shape[1])

    def cost_of(q: np.ndarray, value: np.ndarray) -> float:
        return float((value**2).sum()) + coupling.cost(q) + config.posture * float(((q - robot.rest) ** 2).sum())

    damping = 1e-3
    value, slope = problem.residuals(q)
    cost = cost_of(q, value)
    for _ in range(config.iterations):
        gradient = (value[:, None] @ slope)[:, 0] + config.posture * (q - robot.rest) + coupling.gradient(q)
        free = ~(((q <= robot.lower) & (gradient > 0)) | ((q >= robot.upper) & (gradient < 0)))
        hessian = np.swapaxes(slope, 1, 2) @ slope
        hessian[:, joints, joints] += config.posture + damping
        step = coupling.solve(hessian, -gradient, free)
        step *= min(1.0, 0.5 / max(float(np.abs(step).max()), 1e-12))  # half a radian at most
        trial = np.clip(q + step, robot.lower, robot.upper)
        moved = float(np.abs(trial - q).max())
        if moved < _STILL:
            break
        trial_value, trial_slope = problem.residuals(trial)
        trial_cost = cost_of(trial, trial_value)
        if trial_cost > cost:
            damping *= 8
            if damping > 1e3:
                break
            continue
        gained = cost - trial_cost
        q, value, slope, cost = trial, trial_value, trial_slope, trial_cost
        damping = max(damping / 4, 1e-8)
        if gained < _LITTLE * cost:
            break
    return q


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
