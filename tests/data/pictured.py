"""Episodes whose pictures show the hand that their numbers describe: a bent hand of capsules that moves and grasps."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np

from dexprior.data.objects import rigid_object
from dexprior.geometry.transforms import look_at, project
from dexprior.hands.skeleton import BONES, forward
from dexprior.types import (
    Camera,
    ContactConfiguration,
    ContactSchedule,
    Episode,
    HandTrajectory,
    PriorCondition,
    VideoSample,
    WrenchTrack,
)
from dexprior.types.episode import View

SKIN, TABLE, NUT = (222, 171, 140), (150, 150, 120), (230, 130, 40)


def camera_at(eye, size: int = 64) -> Camera:
    focal = 1.4 * size
    K = np.array([[focal, 0, size / 2], [0, focal, size / 2], [0, 0, 1.0]])
    return Camera(K=K, T_base_cam=look_at(eye, (0.45, 0.0, 0.05)), width=size, height=size)


def walking_camera(n: int, size: int = 64) -> Camera:
    """On a head that goes around the table while the hand works."""
    still = camera_at((1.0, 0.0, 0.5), size)
    eyes = np.stack([np.linspace(1.0, 0.9, n), np.linspace(-0.2, 0.3, n), np.linspace(0.5, 0.6, n)], axis=1)
    return Camera(
        K=still.K, T_base_cam=np.stack([look_at(eye, (0.45, 0.0, 0.05)) for eye in eyes]), width=size, height=size
    )


def draw(camera: Camera, *hands: np.ndarray) -> np.ndarray:
    """Capsules between projected joints."""
    size = camera.width
    centres = np.stack(np.meshgrid(np.arange(size) + 0.5, np.arange(size) + 0.5), axis=-1)
    frames = np.broadcast_to(np.uint8(TABLE), (len(hands[0]), size, size, 3)).copy()
    seen = [project(camera.K, camera.T_base_cam, joints) for joints in hands]
    for k, frame in enumerate(frames):
        frame += np.uint8(10 * (centres[..., :1] / size))
        for pixels, (a, b) in itertools.product(seen, BONES):
            p, q = pixels[k, a], pixels[k, b]
            along = np.clip(((centres - p) @ (q - p)) / ((q - p) @ (q - p) + 1e-9), 0, 1)
            frame[np.linalg.norm(centres - p - along[..., None] * (q - p), axis=-1) < 1.6] = SKIN
    return frames


def pictured_episode(
    seed: int = 0,
    *,
    n: int = 24,
    size: int = 64,
    fps: float = 24.0,
    side: str = "right",
    rest: int = 0,
    walks: bool = False,
) -> Episode:
    """An episode with a second view, all of it consistent; in its last `rest` frames the hand rests.

    `walks`: the first camera moves.
    """
    rng = np.random.default_rng(seed)
    t = np.arange(n) / fps
    wrist = np.zeros((n, 7))
    way = np.concatenate([np.linspace(-0.1, 0.1, n - rest), np.full(rest, 0.1)])
    wrist[:, :3] = np.stack([0.45 + rng.uniform(-0.02, 0.02) + 0 * way, way, 0.1 + 0.03 * np.cos(20 * way)], axis=1)
    wrist[:, 3] = 1.0
    fingers = np.zeros((n, 15, 3))
    fingers[..., 2] = 0.5 if seed is None else 0.45 + 0.1 * rng.random()
    joints = forward(wrist, fingers.reshape(n, 45))
    if side == "left":
        joints = joints * [1, 1, -1] + [0, 0, 0.2]
    hand = HandTrajectory(
        t=t,
        side=side,
        wrist_pose=wrist,
        finger_pose=fingers.reshape(n, 45),
        betas=np.zeros(10),
        joints=joints,
        contact=np.tile(t[:, None] > t[n // 2], (1, 5)).astype(float),
        force=np.tile(np.where(t > t[n // 2], 3.0, 0.0)[:, None], (1, 5)),
        valid=np.ones(n, dtype=bool),
        sigma=np.zeros((n, 21)),
        scale_known=True,
    )
    pose = np.concatenate([joints[:, 8], np.tile([1.0, 0, 0, 0], (n, 1))], axis=1)
    nut = rigid_object("nut", t, pose)
    normals = rng.normal(size=(32, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    main = walking_camera(n, size) if walks else camera_at((1.0, 0.0, 0.5), size)
    other = camera_at((0.5, -0.6, 0.5), size)
    at = ContactConfiguration(
        side=side,
        wrist_pose=wrist[0],
        finger_pose=fingers[0].ravel(),
        betas=np.zeros(10),
        touching=np.zeros(5, dtype=bool),
        points=np.zeros((5, 3)),
    )
    sample = VideoSample(
        frames=draw(main, joints),
        fps=fps,
        camera=main,
        hands=(hand,),
        object=nut,
        contact=ContactSchedule(
            side=(side,),
            finger=("index",),
            t_on=np.array([t[n // 2]]),
            t_off=np.array([t[-1]]),
            point=np.zeros((1, 3)),
            normal_force=np.array([3.0]),
        ),
        provenance={"source": "test"},
    )
    cloud = np.concatenate([joints[n // 2, 8] + 0.02 * normals, normals], axis=1)
    return Episode(
        sample=sample,
        condition=PriorCondition(
            cloud=cloud,
            moves=np.ones(len(cloud), dtype=bool),
            points=nut.points[0],
            start=(at,),
            target=(at,),
            target_at=(n - 1) / fps,
            seconds=n / fps,
            camera=main,
            text=f"take nut <{seed}> & turn it",
            pose=pose[0],
        ),
        wrench=WrenchTrack(t=t, wrench=np.tile([0, 0, 1.0, 0, 0, 0], (n, 1)), tared=True, gravity_compensated=True),
        info={"task": "grasp", "success": bool(seed is None or seed % 4 != 3)},
        views=(View(name="other", camera=other, frames=draw(other, joints)),),
    )


def two_handed_episode(seed: int = 0) -> Episode:
    """The same with a left hand beside the right one: its mirror image, 12 cm away."""
    episode = pictured_episode(seed)
    right, (start,), (target,) = episode.sample.hand, episode.condition.start, episode.condition.target
    mirror = np.array([1.0, 1, -1])
    wrist = right.wrist_pose * [1, 1, -1, 1, 1, 1, 1] + [0, 0.12, 0.2, 0, 0, 0, 0]
    wrist[:, 3:] = [0.0, 0, 1, 0]  # S I M, of mirrors in z and x
    joints = right.joints * mirror + [0, 0.12, 0.2]
    fingers = (right.finger_pose.reshape(-1, 15, 3) * [1, -1, -1]).reshape(-1, 45)
    left = dataclasses.replace(right, side="left", wrist_pose=wrist, joints=joints, finger_pose=fingers)
    at = [dataclasses.replace(hand, side="left", wrist_pose=wrist[0]) for hand in (start, target)]
    cameras = [episode.sample.camera, episode.views[0].camera]
    frames = [draw(camera, right.joints, joints) for camera in cameras]
    return dataclasses.replace(
        episode,
        sample=dataclasses.replace(episode.sample, hands=(right, left), frames=frames[0]),
        condition=dataclasses.replace(episode.condition, start=(start, at[0]), target=(target, at[1])),
        views=(dataclasses.replace(episode.views[0], frames=frames[1]),),
    )
