"""Frames of a run that people look at: clips enlarged, with the hand that is read from them, and rollouts."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from dexprior.envs.panel import Panel
from dexprior.envs.sim import SimBackend
from dexprior.envs.tasks import Pictures
from dexprior.geometry.transforms import project
from dexprior.policy.rollout import Episodes, Policy, run_episodes
from dexprior.retarget.drawing import draw_landmarks
from dexprior.types import Camera, HandTrajectory, VideoSample

__all__ = ["Frames", "grown", "rollout_frames", "with_hand"]

Frames = UInt8[np.ndarray, "time height width 3"]
_PIXELS = 240


def grown(frames: Frames) -> Frames:
    """Frames enlarged by whole pixels to about 240 of them."""
    factor = max(_PIXELS // frames.shape[1], 1)
    return frames.repeat(factor, axis=1).repeat(factor, axis=2)


def with_hand(sample: VideoSample, hand: HandTrajectory) -> Frames:
    """A clip, enlarged, with the joints of a hand over it, as the clip's camera sees them."""
    camera: Camera = sample.camera
    pixels = project(camera.K, camera.T_base_cam, hand.joints) / [camera.width, camera.height]
    return draw_landmarks(grown(sample.frames), pixels)


def rollout_frames(act: Policy, backend: SimBackend, panel: Panel) -> tuple[list[Frames], Episodes]:
    """Frames of one episode in every world, and the episodes; closes the worlds."""
    pictures = Pictures(backend.worlds)
    shot: list[list[UInt8[np.ndarray, "height width 3"]]] = [[] for _ in range(backend.n)]

    def filmed(observation: dict[str, np.ndarray], reading: Any) -> Float[np.ndarray, "n action"]:
        for k, frames in enumerate(shot):
            frames.append(pictures.frame(k, size=_PIXELS))
        return act(observation, reading)

    episodes = run_episodes(filmed, backend, panel)
    pictures.close()
    backend.close()
    return [np.stack(frames) for frames in shot], episodes
