"""Hand trajectory -> robot trajectory.

A multi-finger robot (robot=builtin-hand, shadow) follows a real hand kinematically, drawn beside the clip in an mp4;
the arm (robot=arm7+parallel) follows sampled clips through the trained network. hand= takes a file of estimate-pose, or
the dexmv sequence (a .npz), whose object is drawn too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dexprior.cli.show import first_existing, show
from dexprior.config import Ge, config
from dexprior.errors import ConfigError


@config
class Config:
    """Settings of `dexprior retarget`."""

    hand: str | None = None
    """Hand trajectory file, or dexmv_mustard.npz; by default runs/pose/hand.safetensors."""
    video: str | None = None
    """Clip to draw the robot beside."""
    start: Annotated[int, Ge(0)] = 0
    """First frame of the clip that the hand belongs to."""
    robot: str = "builtin-hand"
    """Name in the catalog."""
    every: Annotated[int, Ge(1)] = 2
    """Draw every n-th frame."""
    samples: str | None = None
    """Sampled clips, for robot=arm7+parallel."""
    checkpoint: str | None = None
    """Retargeting network for the arm; by default the demo's."""
    estimator: str | None = None
    """Pose estimator for the sampled clips; by default the demo's."""
    out: str = "runs/retarget"
    """Folder: robot.safetensors and retarget.mp4."""


def run(config: Config, words: list[str]) -> int:
    """Retarget, draw and write."""
    from dexprior.hands import catalog

    kind = catalog.load(config.robot).kind
    return _arm(config) if kind == "arm" else _hand(config)


def _hand(config: Config) -> int:
    import numpy as np

    from dexprior.artifacts import load, save
    from dexprior.data.clips import probe_clip, read_clip, write_clip
    from dexprior.data.dexmv import BOTTLE_HALF_SIZE, read_dexmv
    from dexprior.hands import catalog
    from dexprior.retarget.drawing import draw_retargeting
    from dexprior.retarget.hand_kinematic import retarget_hand
    from dexprior.types import HandTrajectory

    path = first_existing(config.hand, ["runs/pose/hand.safetensors"], "hand trajectory", "dexprior estimate-pose")
    hand, held = read_dexmv(path) if path.suffix == ".npz" else (load(path, HandTrajectory), None)
    robot = catalog.load(config.robot)
    result = retarget_hand(hand, robot, object=held)
    out = Path(config.out)
    save(result.trajectory, out / "robot.safetensors", producer="retarget", config=config)
    clip = None
    if config.video is not None:
        shown = probe_clip(config.video)
        size = (256, 2 * round(128 * shown.width / shown.height))
        clip, _ = read_clip(config.video, size=size, start=config.start, stop=config.start + len(hand))
    frames = draw_retargeting(
        hand, result.trajectory, robot, clip=clip, object=held, object_size=BOTTLE_HALF_SIZE, every=config.every
    )
    fps = 1.0 / float(np.median(np.diff(hand.t))) / config.every
    clip_path = write_clip(out / "retarget.mp4", frames, fps)
    show(
        {
            "robot": robot.name,
            "frames": len(hand),
            "feasible": float(result.trajectory.feasible.mean()),
            "fingertip_error_mm": float(1000 * np.mean(result.tip_error)),
            "trajectory": str(out / "robot.safetensors"),
            "clip": str(clip_path),
        }
    )
    return 0


def _arm(config: Config) -> int:
    from dexprior.artifacts import load_all, save
    from dexprior.pipeline.stages import retarget_sample
    from dexprior.pose.estimator import load_estimator
    from dexprior.retarget.network import load_retargeter
    from dexprior.types import VideoSample

    if config.samples is None:
        raise ConfigError("retarget robot=arm7+parallel: give samples=FILE, e.g. runs/samples/samples.safetensors")
    network = first_existing(
        config.checkpoint,
        ["runs/demo/04-retargeter/retargeter.safetensors"],
        "retargeting network",
        "dexprior demo",
    )
    estimator = first_existing(
        config.estimator, ["runs/demo/03-estimator/estimator.safetensors"], "pose estimator", "dexprior demo"
    )
    model, reader = load_retargeter(network), load_estimator(estimator)
    moved = [retarget_sample(s, reader, model) for s in load_all(config.samples, VideoSample)]
    path = save(
        [m.trajectory for m in moved],
        Path(config.out) / "robot.safetensors",
        producer="retarget",
        config=config,
    )
    show({"trajectories": str(path), "feasible": [float(m.trajectory.feasible.mean()) for m in moved]})
    return 0
