"""Hand trajectory -> robot trajectory.

A hand (robot=builtin-hand, tendon_hand, human_hand; shadow, allegro and leap where their files are installed) follows
the person's kinematically. An arm with an end effector that closes by one number (robot=ARM+END: arm7+parallel,
gantry+three_finger, arm7+tendon_hand, ...) follows the contact phases of clips whose object is known. Both are drawn
beside the clip in an mp4, and stand as a table in a csv.

samples= takes a file of `dexprior sample`, or a folder of `dexprior data generate`; the clips' own hands are followed,
or with hand= those that estimate-pose read from them. hand= alone takes a file of estimate-pose, or the dexmv sequence
(a .npz), whose object is drawn too; landmarks= takes what a tracker or a headset wrote: 21 joints in MediaPipe's order,
or 25 (WebXR, ARKit), 26 (OpenXR) or 27, in a .csv, .jsonl or .npz file, where names of joints decide before their
order.

dexprior sample; dexprior estimate-pose samples=runs/samples/samples.safetensors
dexprior retarget samples=runs/samples/samples.safetensors hand=runs/pose/hand.safetensors robot=arm7+parallel
dexprior retarget landmarks=SESSION.csv side=right
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from dexprior.cli.show import first_existing, show
from dexprior.config import Ge, Gt, config
from dexprior.data.objects import object_frame
from dexprior.errors import BadInput, ConfigError, UnknownName
from dexprior.geometry.transforms import invert_pose, transform_points
from dexprior.retarget.gripper import GripperConfig, ToolTrajectory

if TYPE_CHECKING:
    from dexprior.robots.machines import EndEffector
    from dexprior.types import HandTrajectory, JointTrajectory, VideoSample

_PERIOD = 0.04  # [s] between two frames of an arm's trajectory


HELP: dict[str, tuple[str, ...]] = {
    "": ("landmarks", "hand", "samples", "video", "robot", "side", "unit", "fps", "start", "every", "out"),
}
"""What `--help` shows, of the verb and of its words; what ends in a dot, `--help all` shows."""


@config
class Config:
    """Settings of `dexprior retarget`."""

    hand: str | None = None
    """Hand trajectory file, or dexmv_mustard.npz; by default the hands of samples=, else runs/pose/hand.safetensors."""
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
    """Hand of a landmark stream that does not say, or holds two; the hand of clips with two that is followed: where
    hands were read, they must be of that side."""
    samples: str | None = None
    """File of sampled clips or folder of demonstrations; an arm needs them."""
    robot: str = "builtin-hand"
    """A hand of the catalog, or ARM+END: an arm and an end effector that closes by one number, as arm7+parallel."""
    every: Annotated[int, Ge(1)] = 2
    """Draw every n-th frame."""
    gripper: GripperConfig = GripperConfig()
    """For an arm: how closely its end effector follows the hand."""
    out: str = "runs/retarget"
    """Folder: robot.safetensors, retarget.mp4 and retarget.csv, or a film and a table for each of several hands."""


def run(config: Config, words: list[str]) -> int:
    """Retarget, draw and write."""
    from dexprior.robots import catalog

    name, hands, arm = config.robot, ", ".join(catalog.hands()), "+" in config.robot
    if not arm and name not in catalog.hands():
        if name in (*catalog.arms(), *catalog.end_effectors()):
            raise BadInput(
                f"{name!r} has no fingers that follow a human hand's; choices: {hands}, or an arm with an end "
                "effector, as arm7+parallel"
            )
        raise UnknownName("robot", name, (*catalog.hands(), "arm7+parallel"))
    if config.video is not None and config.samples is not None:
        raise ConfigError("retarget: give either video=CLIP or samples=FILE, whichever the hand was read from")
    if config.landmarks is not None and (config.hand is not None or config.samples is not None or arm):
        raise ConfigError(
            f"retarget landmarks={config.landmarks}: a hand follows it; give no hand=, no samples=, and a robot of "
            f"{hands}"
        )
    return _arm(config, *name.split("+", 1)) if arm else _hand(config, catalog.end_effector(name))


@dataclass(frozen=True)
class _Followed:
    """A hand, and the clip that shows it."""

    hand: HandTrajectory
    sample: VideoSample
    surface: np.ndarray | None
    """Points and normals of the object in the first frame (point, 6), where a condition tells them."""


def _hands(config: Config) -> Path:
    return first_existing(config.hand, ["runs/pose/hand.safetensors"], "hand trajectory", "dexprior estimate-pose")


def _followed(config: Config) -> list[_Followed]:
    """The clips of samples=, with their own hands, or with those that were read from them."""
    from dexprior.artifacts import load_all
    from dexprior.data.episodes import read_episodes
    from dexprior.types import HandTrajectory, PriorCondition, VideoSample

    assert config.samples is not None
    path = Path(config.samples)
    conditions: list[PriorCondition] | list[None]
    if path.is_dir():
        episodes = [(episode.sample, episode.condition) for episode in read_episodes(path)]
        samples, conditions = [one for one, _ in episodes], [one for _, one in episodes]
    else:
        samples, beside = load_all(path, VideoSample), path.with_name("conditions.safetensors")
        conditions = load_all(beside, PriorCondition) if beside.exists() else [None] * len(samples)
        if len(conditions) != len(samples):
            raise BadInput(
                f"{beside} holds {len(conditions)} condition(s), {path} {len(samples)} clip(s): sample them again"
            )
    if config.hand is None:
        hands = [sample.of_side(config.side) for sample in samples]
    else:
        hands = load_all(config.hand, HandTrajectory)
        found = [(len(h), len(s.frames)) for h, s in zip(hands, samples)]
        if len(hands) != len(samples) or any(a != b for a, b in found):
            raise BadInput(
                f"{config.hand} holds {len(hands)} hand(s), {path} {len(samples)} clip(s): they must be read from "
                f"these; make them with `dexprior estimate-pose samples={path}`"
            )
    surfaces = [None if condition is None else condition.cloud[condition.moves] for condition in conditions]
    return [_Followed(*one) for one in zip(hands, samples, surfaces)]


def _hand(config: Config, robot: EndEffector) -> int:
    from dexprior.artifacts import load_all, save
    from dexprior.data.clips import write_clip
    from dexprior.data.dexmv import BOTTLE_HALF_SIZE, read_dexmv
    from dexprior.pose.landmark_streams import hand_from_stream, read_stream
    from dexprior.retarget.drawing import draw_retargeting
    from dexprior.retarget.hand_kinematic import retarget_hand
    from dexprior.types import HandTrajectory

    held, clips = None, None
    if config.landmarks is not None:
        stream = read_stream(config.landmarks, side=config.side, fps=config.fps, unit=config.unit)
        hands = [hand_from_stream(stream)]
    elif config.samples is not None:
        followed = _followed(config)
        hands, clips = [one.hand for one in followed], [_enlarged(one.sample.frames) for one in followed]
    elif (path := _hands(config)).suffix == ".npz":
        hand, held = read_dexmv(path)
        hands = [hand]
    else:
        hands = load_all(path, HandTrajectory)
    shown = clips or _clip(config, hands)
    out = Path(config.out)
    results = [retarget_hand(hand, robot, object=held) for hand in hands]
    save([r.trajectory for r in results], out / "robot.safetensors", producer="retarget", config=config)
    films, tables = [], []
    for k, (hand, result, clip) in enumerate(zip(hands, results, shown)):
        frames = draw_retargeting(
            hand.joints, result.trajectory, clip=clip, object=None if held is None else object_frame(held),
            object_size=BOTTLE_HALF_SIZE, every=config.every,
        )  # fmt: skip
        name = "retarget" if len(hands) == 1 else f"{k:03d}"
        films.append(write_clip(out / f"{name}.mp4", frames, 1.0 / float(np.median(np.diff(hand.t))) / config.every))
        thumb = result.trajectory.fingers.index("thumb")
        apart = np.linalg.norm(result.tips - result.tips[:, thumb, None], axis=2).T
        openings = {f"opening/{f}": a for f, a in zip(result.trajectory.fingers, apart) if f != "thumb"}
        tables.append(_table(out / f"{name}.csv", result.trajectory, openings))
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
            "tables": tables,
        }
    )
    return 0


def _clip(config: Config, hands: list[HandTrajectory]) -> list[np.ndarray | None]:
    """Frames of video= to draw beside the hand, 256 pixels high; None where there is no clip."""
    from dexprior.data.readers import ClipReader

    if config.video is None:
        return [None] * len(hands)
    if len(hands) != 1:
        raise BadInput(f"{_hands(config)} holds {len(hands)} hands, video={config.video} shows one: give samples=FILE")
    with ClipReader(config.video) as shown:
        height, width = shown.shown
        t = shown.times
    t = t[config.start :] - t[min(config.start, len(t) - 1)]
    seconds, last = hands[0].t - hands[0].t[0], float(np.median(np.diff(t))) if len(t) > 1 else 0.0
    if not len(t) or seconds[-1] > t[-1] + last:
        raise BadInput(
            f"{config.video} shows {len(t)} frames from start={config.start} on, the hand has {len(seconds)}, over "
            f"{seconds[-1]:.2f} s: is it of another clip?"
        )
    at = config.start + np.abs(t[:, None] - seconds).argmin(axis=0)  # whatever the rates of both are
    with ClipReader(config.video, size=(256, 2 * round(128 * width / height))) as clip:
        return [clip.read(at)]


def _enlarged(frames: np.ndarray) -> np.ndarray:
    from PIL import Image

    height, width = frames.shape[1:3]
    size = (2 * round(128 * width / height), 256)
    return np.stack([np.asarray(Image.fromarray(f).resize(size, Image.Resampling.NEAREST)) for f in frames])


def _arm(config: Config, arm: str, end: str) -> int:
    from dexprior.artifacts import save
    from dexprior.data.clips import write_clip
    from dexprior.pose.fusion import fuse_hands
    from dexprior.retarget.arm_ik import missed, solve_arm
    from dexprior.retarget.gripper import retarget_to_gripper
    from dexprior.retarget.grips import Follower

    robot = Follower.of(arm, end)
    if config.samples is None:
        raise ConfigError(
            f"retarget robot={config.robot}: an arm goes to the clips' objects; give samples=FILE, e.g. "
            "runs/samples/samples.safetensors of `dexprior sample`, or a folder of `dexprior data generate`"
        )
    followed, plans = _followed(config), []
    for one in followed:
        own = one.sample.of_side(config.side)
        hand = own if config.hand is None else fuse_hands(one.hand, own)
        plan = retarget_to_gripper(hand, one.sample.object, robot, config.gripper, surface=one.surface)
        plans.append(plan.at(np.arange(0.0, plan.t[-1] + 1e-9, _PERIOD)))
    moved = [solve_arm(arm, end, plan) for plan in plans]
    out = Path(config.out)
    path = save(moved, out / "robot.safetensors", producer="retarget", config=config)
    films, tables = [], []
    for k, (one, plan, trajectory) in enumerate(zip(followed, plans, moved)):
        name = "retarget" if len(moved) == 1 else f"{k:03d}"
        frames = _drawn(one, plan, trajectory, config.every)
        films.append(write_clip(out / f"{name}.mp4", frames, 1.0 / _PERIOD / config.every))
        tables.append(_table(out / f"{name}.csv", trajectory, {"opening": plan.opening}))
    show(
        {
            "robot": config.robot,
            "trajectory": path,
            "feasible": [float(m.feasible.mean()) for m in moved],
            "misses": [{"clip": k, **asdict(miss)} for k, m in enumerate(moved) for miss in missed(m)],
            "idle": [k for k, plan in enumerate(plans) if plan.held is None],
            "clips": films,
            "tables": tables,
        }
    )
    return 0


def _drawn(one: _Followed, plan: ToolTrajectory, trajectory: JointTrajectory, every: int) -> np.ndarray:
    """The clip, shown as fast as the arm follows it, beside the arm and an ellipsoid for the object."""
    from dexprior.retarget.drawing import draw_retargeting

    hand, shape = one.hand, {}
    at = np.abs(plan.clip[:, None] - (hand.t - hand.t[0])).argmin(axis=1)
    if one.surface is not None:
        frame = object_frame(one.sample.object)
        half = np.abs(transform_points(invert_pose(frame[0]), one.surface[:, :3])).max(axis=0)
        shape = {"object": frame[at], "object_size": tuple(half.tolist()), "floor": 0.0}
    return draw_retargeting(hand.joints[at], trajectory, clip=_enlarged(one.sample.frames)[at], every=every, **shape)


def _table(path: Path, trajectory: JointTrajectory, more: Mapping[str, np.ndarray]) -> Path:
    """Write a trajectory as comma-separated values: t [s], joints [rad, m], openings [m], then by finger contact and
    force [N]."""
    from dexprior.artifacts import write_atomic

    columns: dict[str, Any] = {"t": trajectory.t, **dict(zip(trajectory.names, trajectory.q.T)), **more}
    for name, values in (("contact", trajectory.contact), ("force", trajectory.force)):
        columns |= {f"{name}/{finger}": column for finger, column in zip(trajectory.fingers, values.T)}
    columns["feasible"] = trajectory.feasible.astype(int)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([f"{value:.6g}" for value in row] for row in zip(*columns.values()))
    return write_atomic(path, text.getvalue().encode())
