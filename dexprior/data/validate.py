"""What is wrong with recorded episodes: one named problem each, nothing raised."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import Gt, config
from dexprior.data.episodes import EpisodeSet
from dexprior.data.readers import Frames, probe_clip
from dexprior.data.shards import ShardSet, open_episodes
from dexprior.errors import ArtifactError, BadInput
from dexprior.geometry.transforms import into_camera, project
from dexprior.hands.side import flexion
from dexprior.types import Camera, Episode, HandTrajectory

__all__ = [
    "Detector",
    "Problem",
    "ProblemKind",
    "SeenHands",
    "Segmenter",
    "ValidationConfig",
    "check_episode",
    "hand_pixels",
    "validate",
]

ProblemKind = Literal["damaged", "fps", "clock", "scale", "side", "reprojection", "camera"]


_MOST_SKIN = 0.3
"""A picture of which more looks like skin is of something else of that colour, e.g. wood."""


_REST = 0.5  # palm lengths
_MOSTLY = 0.4  # share of a clip that a hand rests in one place, from which on the median picture may show it there


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong."""

    episode: str
    kind: ProblemKind
    reason: str

    def __str__(self) -> str:
        return f"{self.episode}: {self.kind}: {self.reason}"


@dataclass(frozen=True)
class SeenHands:
    """What a landmark detector saw in each frame."""

    image: Float[np.ndarray, "time 21 2"]
    """(column, row) as fractions of the frame; NaN where no hand was found."""
    right: Float[np.ndarray, " time"]
    """Probability of a right hand."""


Detector = Callable[[Frames], SeenHands]
"""Finds one hand in every frame of a real clip, e.g. `dexprior.pose.detection.detect_landmarks`."""

Segmenter = Callable[[Frames], Bool[np.ndarray, "time height width"]]
"""Says which pixels are hand, arm or what they move."""


@config
class ValidationConfig:
    """Values from which on something is a problem."""

    rate: Annotated[float, Gt(0)] = 0.02
    """Relative difference of two rates that are said to be one."""
    drift: Annotated[float, Gt(0)] = 0.5
    """Frames by which two clocks may come apart over an episode."""
    palm: tuple[float, float] = (0.05, 0.14)
    """Shortest and longest distance from the wrist to the middle finger's knuckle [m]."""
    backwards: Annotated[float, Gt(0)] = 0.01
    """How far fingers may bend to the back of the hand on average [m]."""
    reprojection: Annotated[float, Gt(0)] = 0.06
    """Mean distance of projected joints from the pixels of the hand, over the palm's length in the picture. Generated
    clips have at most 0.01; a camera that is 35 mm off gives 0.07 to 0.11."""
    landmarks: Annotated[float, Gt(0)] = 0.3
    """The same distance from landmarks that a detector sees, which are less exact."""
    opposite: Annotated[float, Gt(0)] = 0.2
    """A detector must see the labelled side with at least this probability."""


def validate(
    folder: str | Path,
    *,
    settings: ValidationConfig | None = None,
    segment: Segmenter | None = None,
    detect: Detector | None = None,
) -> list[Problem]:
    """Check every kept episode of a folder of either layout.

    Args:
        folder: episodes.
        settings: thresholds.
        segment: where the hand is in the pictures; `hand_pixels` when omitted.
        detect: a landmark detector for real clips: compared joint by joint, instead of `segment`.

    Raises:
        ArtifactError: it is no folder of episodes.
    """
    episodes = open_episodes(folder)
    settings = settings or ValidationConfig()
    problems: list[Problem] = []
    if isinstance(episodes, ShardSet):
        problems += [Problem(d.episode, "damaged", f"{d.shard}: {d.reason}") for d in episodes.damage]
    views: dict[Any, dict[str, list[str]]] = defaultdict(dict)
    for number in range(len(episodes)):
        name = episodes.name(number)
        try:
            row = episodes.row(number)
            views[row["task"]][name] = row["views"]
            episode = episodes.read(number)
            problems += check_episode(name, episode, settings, segment=segment, detect=detect)
            problems += _container_rate(name, episodes, number, episode, settings)
        except (ArtifactError, BadInput) as error:
            problems.append(Problem(name, "damaged", str(error)))
    for task, of_task in views.items():
        problems += _missing_views(task, of_task)
    return problems


def check_episode(
    name: str,
    episode: Episode,
    settings: ValidationConfig,
    *,
    segment: Segmenter | None = None,
    detect: Detector | None = None,
) -> list[Problem]:
    """Everything that one episode tells by itself."""
    sample = episode.sample
    found = [*_clocks(episode, settings), *_scale(episode, settings)]
    found += [problem for hand in sample.hands for problem in _side(hand, settings)]
    pictures: list[tuple[str, Camera, Frames]] = [("", sample.camera, sample.frames)]
    pictures += [(f"view {v.name!r}: ", v.camera, v.frames) for v in episode.views if v.frames is not None]
    for where, camera, frames in pictures:
        if (camera.height, camera.width) != frames.shape[1:3]:
            shape = f"{frames.shape[1]}x{frames.shape[2]}"
            found.append(
                ("camera", f"{where}K is for {camera.height}x{camera.width} pixels, the pictures have {shape}")
            )
        elif detect is not None:
            seen = detect(frames)  # of one hand: it need not be the first
            told = [list(_seen(where, camera, frames, hand, seen, settings)) for hand in sample.hands]
            fewest = min(told, key=len)
            found += fewest
        else:
            mask = hand_pixels(frames, still=not camera.moves) if segment is None else segment(frames)
            for hand in sample.hands:
                found += _covered(where, camera, frames, hand, mask, settings, by_motion=segment is None)
    return [Problem(name, kind, reason) for kind, reason in found]


def hand_pixels(frames: Frames, *, still: bool = True) -> Bool[np.ndarray, "time height width"]:
    """Pixels that move, and those of the colour of skin where that tells them from the scene.

    A pixel moves where it differs from the clip's median picture by more than noise; skin is R > 95, G > 40, B > 20,
    R - min(G, B) > 15, R - G > 15, R > B (Kovac, Peer and Solina 2003).

    Args:
        frames: of a clip.
        still: whether the camera stands still; where it moves, everything does, and colour alone tells.
    """
    background = np.median(frames, axis=0)
    difference = np.abs(frames - background).max(axis=-1)
    moving = (difference > max(20.0, 4.0 * float(np.median(difference)))) & still
    red, green, blue = np.moveaxis(frames.astype(np.int16), -1, 0)
    skin = (red > 95) & (green > 40) & (blue > 20) & (red > blue) & (red - green > 15)
    skin &= red - np.minimum(green, blue) > 15
    return moving | skin if skin.mean() < _MOST_SKIN else moving


# --- checks: each yields (kind, reason) ---

Found = tuple[ProblemKind, str]


def _clocks(episode: Episode, settings: ValidationConfig) -> Iterator[Found]:
    sample = episode.sample
    n = len(sample.frames)
    if n < 2:
        return
    t = sample.hands[0].t
    rate = 1.0 / float(np.median(np.diff(t)))
    if abs(rate / sample.fps - 1) > settings.rate:
        yield "fps", f"the clip says {sample.fps:g} frames per second, the hand's time stamps {rate:.4g}"
        return
    video = np.arange(n) / sample.fps
    streams = [("hand", hand.t) for hand in sample.hands]
    for stream, stamps in (*streams, ("object", sample.object.t), ("wrench", episode.wrench.t)):
        gap = (stamps - video) - (stamps[0] - video[0])
        worst = int(np.abs(gap).argmax())
        if abs(gap[worst]) * sample.fps > settings.drift:
            yield (
                "clock",
                f"the {stream}'s clock is {1000 * gap[worst]:+.0f} ms from the video's at frame {worst}, having "
                f"started with it ({1000 * gap[-1] / max(video[-1], 1e-9):+.1f} ms a second at the end)",
            )


def _container_rate(
    name: str, episodes: EpisodeSet, number: int, episode: Episode, settings: ValidationConfig
) -> Iterator[Problem]:
    for view in (None, *(v.name for v in episode.views if v.frames is not None)):
        fps = probe_clip(episodes.clip(number, view)).fps
        if abs(fps / episode.sample.fps - 1) > settings.rate:
            which = "the video" if view is None else f"the video of view {view!r}"
            reason = f"{which} shows {fps:g} frames per second, the episode says {episode.sample.fps:g}"
            yield Problem(name, "fps", reason)


def _scale(episode: Episode, settings: ValidationConfig) -> Iterator[Found]:
    for hand in episode.sample.hands:
        yield from _scale_of(hand, episode, settings)
    for view in episode.views:
        if view.depth is not None and view.depth.any():
            depth = float(np.median(view.depth[view.depth > 0]))
            if not 0.02 <= depth <= 20.0:
                yield "scale", f"view {view.name!r}: the median depth is {depth:.3g} m: is it in metres?"


def _scale_of(hand: HandTrajectory, episode: Episode, settings: ValidationConfig) -> Iterator[Found]:
    palm = _palm(hand)
    low, high = settings.palm
    if hand.scale_known and not low <= palm <= high:
        guess = " (millimetres?)" if low <= palm / 1000 <= high else ""
        yield "scale", f"the palm is {palm:.3g} m long{guess}; people's are {low:g} to {high:g} m"
        return
    points = episode.condition.cloud[:, :3]
    extent = float(np.ptp(points, axis=0).max())
    if extent < 0.002 or extent > 3.0:
        yield "scale", f"the cloud is {extent:.3g} m across: is it metric?"
    elif hand.scale_known:
        wrists = hand.joints[hand.valid, 0] if hand.valid.any() else hand.joints[:, 0]
        gap = float(np.linalg.norm(wrists[:, None] - points.mean(axis=0), axis=-1).min())
        if gap > 2.0 + extent:
            yield "scale", f"the hand never comes closer than {gap:.2g} m to the cloud: are both metric, in one frame?"


def _side(hand: HandTrajectory, settings: ValidationConfig) -> Iterator[Found]:
    """Fingers bend to the palm, which tells a left hand from a right one."""
    joints = hand.joints[hand.valid]
    if not len(joints):
        return
    bend = flexion(joints, hand.side)
    if bend < -settings.backwards:
        other = "left" if hand.side == "right" else "right"
        yield (
            "side",
            f"fingers of this {hand.side} hand bend {-1000 * bend:.0f} mm to its back: it is a {other} hand, or "
            "mirrored",
        )


def _covered(
    where: str,
    camera: Camera,
    frames: Frames,
    hand: HandTrajectory,
    mask: Bool[np.ndarray, "time height width"],
    settings: ValidationConfig,
    *,
    by_motion: bool,
) -> Iterator[Found]:
    """Compare projected joints with the pixels that are hand; where motion tells them, not while the hand rests."""
    from scipy.ndimage import distance_transform_edt

    pixels, depth, inside = _projected(camera, hand)
    usable = hand.valid & mask.any(axis=(1, 2))
    if not usable.any():  # a still hand of no colour of its own: nothing to compare with
        return
    if not inside[usable].any():
        yield "reprojection", f"{where}no joint of the hand projects into the picture in any frame"
        return
    if by_motion and not camera.moves:
        usable &= ~_resting(camera, hand, pixels, depth)
    misses = []
    for k in np.flatnonzero(usable & (inside.sum(axis=1) >= 5)):
        column, row = np.floor(pixels[k, inside[k]]).astype(int).T
        away = distance_transform_edt(~mask[k])[row, column]
        misses.append(away.mean() / _palm_pixels(camera, hand, depth[k]))
    yield from _verdict(where, misses, "where the hand is seen", settings.reprojection)


def _resting(
    camera: Camera, hand: HandTrajectory, pixels: Float[np.ndarray, "time 21 2"], depth: Float[np.ndarray, "time 21"]
) -> Bool[np.ndarray, " time"]:
    """Frames in which the hand is where it is most of the time, and so in the clip's median picture itself."""
    middle = np.median(pixels[hand.valid], axis=0) if hand.valid.any() else np.zeros((21, 2))
    away = np.linalg.norm(pixels - middle, axis=-1).mean(axis=1)
    near = away < _REST * np.array([_palm_pixels(camera, hand, row) for row in depth])
    return near & hand.valid & (near[hand.valid].mean() > _MOSTLY if hand.valid.any() else False)


def _seen(
    where: str, camera: Camera, frames: Frames, hand: HandTrajectory, seen: SeenHands, settings: ValidationConfig
) -> Iterator[Found]:
    """Compare projected joints with detected landmarks, and the side."""
    found = hand.valid & np.isfinite(seen.image).all(axis=(1, 2))
    if not found.any():
        return
    pixels, depth, _ = _projected(camera, hand)
    error = np.linalg.norm(pixels - seen.image * [camera.width, camera.height], axis=-1).mean(axis=1)
    palms = np.array([_palm_pixels(camera, hand, depth[k]) for k in range(len(frames))])
    yield from _verdict(where, list((error / palms)[found]), "the landmarks that are seen", settings.landmarks)
    right = float(seen.right[found].mean())
    if (right if hand.side == "right" else 1 - right) < settings.opposite:
        yield "side", f"{where}labelled {hand.side}, seen as a right hand with probability {right:.2f}"


def _verdict(where: str, misses: list[float], what: str, most: float) -> Iterator[Found]:
    miss = float(np.median(misses)) if misses else 0.0
    if miss > most:
        yield (
            "reprojection",
            f"{where}joints project {miss:.2f} palm lengths away from {what} (median of {len(misses)} frames): camera "
            "and hand are not in one frame of reference, or not of one time",
        )


def _projected(
    camera: Camera, hand: HandTrajectory
) -> tuple[Float[np.ndarray, "time 21 2"], Float[np.ndarray, "time 21"], Bool[np.ndarray, "time 21"]]:
    """Pixels, depth along the axis [m], and whether a joint is in the picture."""
    depth = into_camera(camera.T_base_cam, hand.joints)[..., 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        pixels = np.asarray(project(camera.K, camera.T_base_cam, hand.joints))
    inside = (depth > 0) & ((pixels >= 0) & (pixels < [camera.width, camera.height])).all(axis=-1)
    return np.nan_to_num(pixels, posinf=-1, neginf=-1), depth, inside


def _palm(hand: HandTrajectory) -> float:
    return float(np.median(np.linalg.norm(hand.joints[:, 9] - hand.joints[:, 0], axis=-1)))


def _palm_pixels(camera: Camera, hand: HandTrajectory, depth: Float[np.ndarray, " 21"]) -> float:
    return max(camera.K[0, 0] * _palm(hand) / max(float(np.abs(depth).mean()), 1e-6), 1.0)


def _missing_views(task: Any, views: dict[str, list[str]]) -> Iterator[Problem]:
    """A camera that more than half of a task's episodes have is expected of all."""
    counts = Counter(view for names in views.values() for view in names)
    expected = [view for view, count in counts.items() if 2 * count > len(views)]
    for name, has in views.items():
        missing = [view for view in expected if view not in has]
        if missing:
            reason = f"no view {', '.join(missing)}; {counts[missing[0]]} of {len(views)} episodes of {task} have it"
            yield Problem(name, "camera", reason)
