"""Hand trajectory -> robot trajectory.

A hand (robot=builtin-hand, tendon_hand, human_hand; shadow, allegro and leap where their files are installed) follows
the person's kinematically, drawn beside the clip in an mp4; the arm with its gripper (robot=arm7+parallel) follows the
contact phases of sampled clips. hand= takes a file of estimate-pose, or the dexmv sequence (a .npz), whose object is
drawn too; landmarks= takes what a tracker or a headset wrote: 21 joints in MediaPipe's order, or 25 (WebXR, ARKit), 26
(OpenXR) or 27, in a .csv, .jsonl or .npz file, where names of joints decide before their order.

dexprior sample; dexprior estimate-pose samples=runs/samples/samples.safetensors
dexprior retarget samples=runs/samples/samples.safetensors robot=arm7+parallel
dexprior retarget landmarks=SESSION.csv side=right
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np

from dexprior.cli.show import first_existing, show
from dexprior.config import Ge, Gt, config
from dexprior.errors import BadInput, ConfigError, UnknownName
from dexprior.retarget.gripper import GripperConfig

if TYPE_CHECKING:
    from dexprior.robots.machines import EndEffector
    from dexprior.types import HandTrajectory, VideoSample

_PERIOD = 0.04  # [s] between two frames of an arm's trajectory


@config
class Config:
    """Settings of `dexprior retarget`."""

    hand: str | None = None
    """Hand trajectory file, or dexmv_mustard.npz; by default runs/pose/hand.safetensors."""
    landmarks: str | None = None
    """Landmark stream of a tracker or a headset, instead of a hand trajectory."""
    fps: Annotated[float, Gt(0)] | None = None
    """Frames a second of a landmark stream that holds no times."""
    unit: Literal["m", "cm", "mm"] = "m"
    """Unit of a landmark stream's positions."""
    video: str | None = None
    """Clip to draw the robot beside."""
    start: Annotated[int, Ge(0)] = 0
    """First frame of the clip that the hand belongs to."""
    side: Literal["left", "right"] | None = None
    """Hand of a landmark stream that does not say, or holds two; for the arm, the hand of sampled clips with two that
    it follows: hands must have been read of that side."""
    samples: str | None = None
    """Sampled clips that the hands were read from; robot=arm7+parallel needs them, a hand is drawn beside them."""
    robot: str = "builtin-hand"
    """A hand of the catalog, or arm7+parallel."""
    every: Annotated[int, Ge(1)] = 2
    """Draw every n-th frame."""
    gripper: GripperConfig = GripperConfig()
    """For the arm: how closely its gripper follows the hand."""
    out: str = "runs/retarget"
    """Folder: robot.safetensors, and for a hand retarget.mp4, or one film for each of several hands."""


def run(config: Config, words: list[str]) -> int:
    """Retarget, draw and write."""
    from dexprior.retarget.arm_ik import ARM_WITH_GRIPPER
    from dexprior.robots import catalog

    name, choices = config.robot, (*catalog.hands(), ARM_WITH_GRIPPER)
    if name not in choices and name in (*catalog.arms(), *catalog.end_effectors()):
        raise BadInput(f"{name!r} has no fingers that follow a human hand's; choices: {', '.join(choices)}")
    if name not in choices:
        raise UnknownName("robot", name, choices)
    if config.video is not None and config.samples is not None:
        raise ConfigError("retarget: give either video=CLIP or samples=FILE, whichever the hand was read from")
    if config.landmarks is not None and (config.hand is not None or name == ARM_WITH_GRIPPER):
        raise ConfigError(
            f"retarget landmarks={config.landmarks}: a hand follows it; give no hand= and a robot of "
            f"{', '.join(catalog.hands())}"
        )
    return _arm(config) if name == ARM_WITH_GRIPPER else _hand(config, catalog.end_effector(name))


def _hands(config: Config) -> Path:
    return first_existing(config.hand, ["runs/pose/hand.safetensors"], "hand trajectory", "dexprior estimate-pose")


def _samples(config: Config, hands: list[HandTrajectory]) -> list[VideoSample]:
    """Of as many clips as hands were read from."""
    from dexprior.artifacts import load_all
    from dexprior.types import VideoSample

    assert config.samples is not None
    samples = load_all(config.samples, VideoSample)
    found = [(len(h), len(s.frames)) for h, s in zip(hands, samples)]
    if len(hands) != len(samples) or any(a != b for a, b in found):
        raise BadInput(
            f"{_hands(config)} holds {len(hands)} hand(s), {config.samples} {len(samples)} clip(s): they must be read "
            f"from these; make them with `dexprior estimate-pose samples={config.samples}`"
        )
    return samples


def _hand(config: Config, robot: EndEffector) -> int:
    from dexprior.artifacts import load_all, save
    from dexprior.data.clips import write_clip
    from dexprior.data.dexmv import BOTTLE_HALF_SIZE, read_dexmv
    from dexprior.pose.landmark_streams import hand_from_stream, read_stream
    from dexprior.retarget.drawing import draw_retargeting
    from dexprior.retarget.hand_kinematic import retarget_hand
    from dexprior.types import HandTrajectory

    hands, held = [], None
    if config.landmarks is not None:
        stream = read_stream(config.landmarks, side=config.side, fps=config.fps, unit=config.unit)
        hands = [hand_from_stream(stream)]
    elif (path := _hands(config)).suffix == ".npz":
        hand, held = read_dexmv(path)
        hands = [hand]
    else:
        hands = load_all(path, HandTrajectory)
    clips = _clips(config, hands)
    out = Path(config.out)
    results = [retarget_hand(hand, robot, object=held) for hand in hands]
    save([r.trajectory for r in results], out / "robot.safetensors", producer="retarget", config=config)
    films = []
    for k, (hand, result, clip) in enumerate(zip(hands, results, clips)):
        frames = draw_retargeting(
            hand, result.trajectory, robot, clip=clip, object=held, object_size=BOTTLE_HALF_SIZE, every=config.every
        )
        name = "retarget.mp4" if len(hands) == 1 else f"{k:03d}.mp4"
        films.append(str(write_clip(out / name, frames, 1.0 / float(np.median(np.diff(hand.t))) / config.every)))
    show(
        {
            "robot": robot.name,
            "hands": len(hands),
            "frames": sum(map(len, hands)),
            "lost": int(sum((~h.valid).sum() for h in hands)),
            "feasible": float(np.concatenate([r.trajectory.feasible for r in results]).mean()),
            "fingertip_error_mm": float(1000 * np.mean(np.concatenate([np.ravel(r.tip_error) for r in results]))),
            "trajectory": str(out / "robot.safetensors"),
            "clips": films,
        }
    )
    return 0


def _clips(config: Config, hands: list[HandTrajectory]) -> list[np.ndarray | None]:
    """Frames to draw beside each hand, 256 pixels high; None where there is no clip."""
    from dexprior.data.clips import probe_clip, read_clip

    if config.samples is not None:
        return [_enlarged(sample.frames) for sample in _samples(config, hands)]
    if config.video is None:
        return [None] * len(hands)
    if len(hands) != 1:
        raise BadInput(f"{_hands(config)} holds {len(hands)} hands, video={config.video} shows one: give samples=FILE")
    shown = probe_clip(config.video)
    size = (256, 2 * round(128 * shown.width / shown.height))
    clip, _ = read_clip(config.video, size=size, start=config.start, stop=config.start + len(hands[0]))
    return [clip]


def _enlarged(frames: np.ndarray) -> np.ndarray:
    from PIL import Image

    height, width = frames.shape[1:3]
    size = (2 * round(128 * width / height), 256)
    return np.stack([np.asarray(Image.fromarray(f).resize(size, Image.Resampling.NEAREST)) for f in frames])


def _arm(config: Config) -> int:
    from dexprior.artifacts import load_all, save
    from dexprior.pose.fusion import fuse_hands
    from dexprior.retarget.arm_ik import solve_arm
    from dexprior.retarget.gripper import retarget_to_gripper
    from dexprior.retarget.grips import Follower
    from dexprior.types import HandTrajectory

    if config.samples is None:
        raise ConfigError(
            f"retarget robot={config.robot}: the gripper closes on the clips' objects; give samples=FILE, e.g. "
            "runs/samples/samples.safetensors, and the hands that `dexprior estimate-pose samples=FILE` read"
        )
    hands = load_all(_hands(config), HandTrajectory)
    arm, end = config.robot.split("+")
    samples, robot = _samples(config, hands), Follower.of(arm, end)
    moved = []
    for hand, sample, surface in zip(hands, samples, _surfaces(config, len(samples))):
        fused = fuse_hands(hand, sample.of_side(config.side))
        tool = retarget_to_gripper(fused, sample.object, robot, config.gripper, surface=surface)
        grid = np.arange(0.0, tool.t[-1] + 1e-9, _PERIOD)
        at = tool.at(grid)
        moved.append(solve_arm(grid, at.tool, at.opening))
    path = save(moved, Path(config.out) / "robot.safetensors", producer="retarget", config=config)
    show(
        {
            "robot": config.robot,
            "trajectory": str(path),
            "feasible": [float(m.feasible.mean()) for m in moved],
        }
    )
    return 0


def _surfaces(config: Config, n: int) -> list[np.ndarray | None]:
    """Of the clips' objects, as the conditions beside the samples show them; None where none lie there."""
    from dexprior.artifacts import load_all
    from dexprior.types import PriorCondition

    path = Path(str(config.samples)).with_name("conditions.safetensors")
    if not path.exists():
        return [None] * n
    conditions = load_all(path, PriorCondition)
    if len(conditions) != n:
        raise BadInput(f"{path} holds {len(conditions)} condition(s), {config.samples} {n} clip(s): sample them again")
    return [condition.cloud[condition.moves] for condition in conditions]
