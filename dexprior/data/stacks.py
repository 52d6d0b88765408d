"""The episodes of a folder as arrays, ready for training: decoded once, then read from one file.

Clips have their own length: the arrays are as long as the longest clip, `valid` says which frames are a clip's own, and
the rest repeats its last frame. They show one hand or two: arrays have a place for every side that any of them shows.
What an episode does not know is masked, so that it trains what it can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from dexprior.artifacts import file_hash, from_tensors, read_tensors, to_tensors, write_tensors
from dexprior.config import to_plain
from dexprior.data.shards import ShardSet, open_episodes, place_in_split
from dexprior.errors import ArtifactError, BadInput
from dexprior.geometry.transforms import IDENTITY_POSE
from dexprior.types import (
    SIDES,
    Camera,
    ContactConfiguration,
    Episode,
    HandTrajectory,
    ObjectTrajectory,
    PriorCondition,
    Side,
)
from dexprior.types.episode import View
from dexprior.types.hand import of_side

__all__ = [
    "Seen",
    "Stack",
    "fingerprint",
    "load_stack",
    "recorded_clip",
    "resized",
    "resized_camera",
    "split_stack",
    "stack_episodes",
]

_VERSION = 6
"""Version of the kept file; one of another version is made anew."""
_FAILED, _OTHER = "failed", "other hand"


class Seen(NamedTuple):
    """What one camera saw of n clips."""

    frames: UInt8[np.ndarray, "clip time size size 3"]
    cameras: list[Camera]
    """They fit the frames."""


@dataclass(frozen=True)
class Stack:
    """n clips, with square frames."""

    frames: UInt8[np.ndarray, "clip time size size 3"]
    valid: Bool[np.ndarray, "clip time"]
    """The clip's own frames; what follows repeats the last of them."""
    wrist_pose: Float[np.ndarray, "clip time hand 7"]
    finger_pose: Float[np.ndarray, "clip time hand 45"]
    joints: Float[np.ndarray, "clip time hand 21 3"]
    points: Float[np.ndarray, "clip time track 3"]
    """Points of the object's matter [m]."""
    contact: Float[np.ndarray, "clip time hand 5"]
    force: Float[np.ndarray, "clip time hand 5"]
    shows: Bool[np.ndarray, "clip hand"]
    """Which hands a clip shows: at least one; of the others all numbers are those of a hand at rest in the base."""
    hand_known: Bool[np.ndarray, "clip time hand"]
    """Whether the hand was measured; never where the frame is not valid, or the clip does not show it."""
    object_known: Bool[np.ndarray, "clip time"]
    """Whether the object was measured; never where the frame is not valid."""
    touch_known: Bool[np.ndarray, " clip"]
    """Whether contact and force were measured."""
    conditions: list[PriorCondition]
    """Their cameras fit the frames."""
    ids: tuple[str, ...]
    """Names of the episodes."""
    info: tuple[dict[str, Any], ...]
    """What is known of the episodes: task, scene, object."""
    place: Float[np.ndarray, " clip"]
    """Place in [0, 1), a function of the episode's seed: what decides which clips are held out."""
    fps: float
    sides: tuple[Side, ...] = ("right",)
    """Sides of the hands, in the order of `SIDES`."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Reason -> episodes of the folder that are not among the clips."""
    views: dict[str, Seen] = field(default_factory=dict)
    """What further cameras saw, by name: those that saw every clip."""

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, ids: Any) -> Stack:
        ids = np.arange(len(self))[ids]
        arrays: dict[str, Any] = {name: getattr(self, name)[ids] for name in _ARRAYS}
        return replace(
            self,
            **arrays,
            conditions=[self.conditions[i] for i in ids],
            ids=tuple(self.ids[i] for i in ids),
            info=tuple(self.info[i] for i in ids),
            views={name: Seen(seen.frames[ids], [seen.cameras[i] for i in ids]) for name, seen in self.views.items()},
        )

    @property
    def length(self) -> Int[np.ndarray, " clip"]:
        """Frames of each clip."""
        return self.valid.sum(axis=1)

    def hand_of(self, clip: int, side: Side | None = None) -> int:
        """The place of a clip's hand of a side, or of its only one.

        Raises:
            BadInput: see `VideoSample.of_side`.
        """
        hand = of_side(self.conditions[clip].start, side, f"clip {self.ids[clip]}")
        return self.sides.index(hand.side)

    def of_sides(self, sides: Sequence[Side]) -> Stack:
        """The clips that show a hand of these sides, without other hands; those that show none are left out.

        `left_out` counts, as `other hand`, the clips that lose a hand or are left out for it.

        Raises:
            BadInput: no clip shows one.
        """
        sides = tuple(side for side in SIDES if side in sides)
        if set(self.sides) <= set(sides):
            return self
        places = [self.sides.index(side) for side in sides if side in self.sides]
        kept = self.shows[:, places].any(axis=1)
        if not kept.any():
            raise BadInput(f"no clip shows a {' or '.join(sides)} hand; they show: {', '.join(self.sides)}")
        other = int(np.delete(self.shows, places, axis=1).any(axis=1).sum())
        chosen = self[kept]

        def of(hands: Sequence[ContactConfiguration]) -> tuple[ContactConfiguration, ...]:
            return tuple(hand for hand in hands if hand.side in sides)

        arrays: dict[str, Any] = {name: getattr(chosen, name)[:, :, places] for name in (*_OF_FRAMES, "hand_known")}
        return replace(
            chosen, **arrays, shows=chosen.shows[:, places], sides=tuple(self.sides[k] for k in places),
            conditions=[replace(c, start=of(c.start), target=of(c.target)) for c in chosen.conditions],
            left_out=self.left_out | {_OTHER: other + self.left_out.get(_OTHER, 0)},
        )  # fmt: skip

    def seen(self, clip: int) -> UInt8[np.ndarray, "frame size size 3"]:
        """A clip's own frames."""
        return self.frames[clip, : self.length[clip]]

    def views_of(self, clip: int) -> tuple[View, ...]:
        """What further cameras saw of a clip, in its own frames."""
        n = self.length[clip]
        return tuple(
            View(name=name, camera=seen.cameras[clip], frames=seen.frames[clip, :n])
            for name, seen in self.views.items()
        )


_OF_FRAMES = ("wrist_pose", "finger_pose", "joints", "contact", "force")  # of a hand, one row a frame
_ARRAYS = ("frames", "valid", *_OF_FRAMES, "points", "shows", "hand_known", "object_known", "touch_known", "place")


def stack_episodes(episodes: Sequence[Episode], size: int, *, ids: Sequence[str] | None = None) -> Stack:
    """Stack episodes, with frames resized to `size` pixels.

    Episodes that failed are left out.

    Args:
        episodes: of one frame rate.
        size: of the frames [px].
        ids: of the episodes; their numbers when omitted.

    Raises:
        BadInput: no clip is left, or clips of different rates, or objects that are followed by different numbers of
            points.
    """
    names = [f"{k:06d}" for k in range(len(episodes))] if ids is None else list(ids)
    rows = [
        {
            "id": name,
            "seed": None,
            "hands": [hand.side for hand in e.sample.hands],
            "success": bool(e.info.get("success", True)),
            "frames": len(e.sample.frames),
            "fps": e.sample.fps,
            "views": [view.name for view in e.views],
        }
        for name, e in zip(names, episodes)
    ]
    return _stack(rows, episodes.__getitem__, size, "the episodes")


def load_stack(folder: str | Path, size: int) -> Stack:
    """Stack a folder of episodes of either layout; the decoded arrays are kept beside them for the next reader.

    Args:
        folder: of episodes.
        size: of the frames [px]; any, they are resized.

    Raises:
        ArtifactError: no episode in the folder, or one that is damaged or of another version.
        BadInput: see `stack_episodes`.
    """
    folder = Path(folder)
    cache = folder / f"stack-{size}.safetensors"
    episodes, index = open_episodes(folder), fingerprint(folder)
    if cache.exists():
        tensors, meta = read_tensors(cache)
        if (meta.get("version"), meta["index"]) == (_VERSION, index):
            conditions = [from_tensors(tree, tensors) for tree in meta["conditions"]]
            views = {
                name: Seen(tensors[f"views/{name}"], [from_tensors(tree, tensors) for tree in trees])
                for name, trees in meta["views"].items()
            }
            kept: dict[str, Any] = {name: tensors[name] for name in _ARRAYS}
            return Stack(
                **kept, conditions=conditions, ids=tuple(meta["ids"]), info=tuple(meta["info"]), fps=meta["fps"],
                sides=tuple(meta["sides"]), left_out=meta["left_out"], views=views,
            )  # fmt: skip
    if not len(episodes):
        raise ArtifactError(f"{folder} holds no kept episode; make some with `dexprior data generate`")
    rows = [episodes.row(k) for k in range(len(episodes))]
    stack = _stack(rows, episodes.read, size, str(folder))
    tensors = {name: getattr(stack, name) for name in _ARRAYS}
    tensors |= {f"views/{name}": seen.frames for name, seen in stack.views.items()}

    def trees(values: Sequence[Any], prefix: str) -> list[Any]:
        found = []
        for k, value in enumerate(values):
            arrays, tree = to_tensors(value)
            tensors.update({f"{prefix}{k}/{name}": array for name, array in arrays.items()})
            found.append(_renamed(tree, f"{prefix}{k}/"))
        return found

    told = {
        "conditions": trees(stack.conditions, ""),
        "views": {name: trees(seen.cameras, f"{name}/") for name, seen in stack.views.items()},
    }
    plain = {name: to_plain(getattr(stack, name)) for name in ("ids", "info", "fps", "sides", "left_out")}
    write_tensors(cache, tensors, {"version": _VERSION, "index": index, **told, **plain})
    return stack


def fingerprint(folder: str | Path) -> str:
    """Hash of a folder's episodes: another one where there are other episodes.

    Raises:
        ArtifactError: it is no folder of episodes.
    """
    episodes = open_episodes(folder)
    return episodes.fingerprint if isinstance(episodes, ShardSet) else file_hash(Path(folder) / "index.jsonl")


def split_stack(stack: Stack, holdout: float) -> tuple[Stack, Stack]:
    """Clips to train on, and clips that are held out: those whose `place` is below `holdout`.

    They are those of the split `test` of `dexprior.data.shards.split_of`. An episode is on one side whatever else the
    folder holds, so that every stage leaves out the same; only where one side would be empty it gets the clip that is
    nearest to it.

    Raises:
        BadInput: fewer than two clips.
    """
    if len(stack) < 2:
        raise BadInput(f"{len(stack)} clips cannot be split into some to train on and some to hold out")
    held = stack.place < holdout
    held[stack.place.argmin()], held[stack.place.argmax()] = True, False
    return stack[~held], stack[held]


def recorded_clip(stack: Stack, k: int, side: Side | None = None) -> tuple[HandTrajectory, ObjectTrajectory]:
    """Hand and object of a recorded clip.

    Raises:
        BadInput: it shows no hand of this side, or two hands and no side is given.
    """
    n, h = stack.length[k], stack.hand_of(k, side)
    t = np.arange(n) / stack.fps
    hand = HandTrajectory(
        t=t, side=stack.sides[h], wrist_pose=stack.wrist_pose[k, :n, h], finger_pose=stack.finger_pose[k, :n, h],
        betas=np.zeros(10), joints=stack.joints[k, :n, h], contact=stack.contact[k, :n, h],
        force=stack.force[k, :n, h], valid=stack.hand_known[k, :n, h], sigma=np.zeros((n, 21)), scale_known=True,
    )  # fmt: skip
    return hand, ObjectTrajectory(object="object", t=t, points=stack.points[k, :n], valid=stack.object_known[k, :n])


def resized(frames: UInt8[np.ndarray, "time height width 3"], size: int) -> UInt8[np.ndarray, "time size size 3"]:
    """Square frames in which each pixel is the mean of what it covers; the whole picture is kept."""
    if frames.shape[1:3] == (size, size):
        return frames
    rows, columns = (_covering(length, size) for length in frames.shape[1:3])
    small = np.einsum("yh,xw,thwc->tyxc", rows, columns, frames.astype(np.float32), optimize=True)
    return small.round().clip(0, 255).astype(np.uint8)


def resized_camera(camera: Camera, size: int) -> Camera:
    """The same camera for such frames."""
    K = camera.K.copy()
    K[0] *= size / camera.width
    K[1] *= size / camera.height
    return Camera(K=K, T_base_cam=camera.T_base_cam, width=size, height=size)


def _covering(length: int, size: int) -> Float[np.ndarray, "size length"]:
    """Share of each output pixel that an input pixel covers, along one axis."""
    edges = np.arange(size + 1) * length / size
    low, high = edges[:-1, None], edges[1:, None]
    cell = np.arange(length)
    overlap = np.minimum(high, cell + 1) - np.maximum(low, cell)
    return (np.maximum(overlap, 0.0) * size / length).astype(np.float32)


def _stack(rows: Sequence[dict[str, Any]], read: Callable[[int], Episode], size: int, where: str) -> Stack:
    left_out = {_FAILED: sum(not row["success"] for row in rows)}
    chosen = [k for k, row in enumerate(rows) if row["success"]]
    rates = {rows[k]["fps"] for k in chosen}
    if not chosen:
        raise BadInput(f"{where}: no clip to train on; {len(rows)} episodes failed")
    if max(rates) - min(rates) > 1e-6 * max(rates):
        raise BadInput(f"{where}: clips at {', '.join(f'{r:g}' for r in sorted(rates))} frames a second: not one rate")
    time = max(rows[k]["frames"] for k in chosen)
    sides = tuple(side for side in SIDES if any(side in rows[k].get("hands", ()) for k in chosen))
    every = [name for name in rows[chosen[0]].get("views", ()) if all(name in rows[k].get("views", ()) for k in chosen)]
    arrays: dict[str, Any] = {}
    views: dict[str, Seen] = {}
    conditions: list[PriorCondition] = []
    ids: list[str] = []
    info: list[dict[str, Any]] = []
    for k in chosen:
        episode = read(k)
        found = _arrays(episode, time, size, sides) | {"place": np.array(place_in_split(rows[k]))}
        for name, value in found.items():
            rest = arrays.setdefault(name, np.empty((len(chosen), *value.shape), dtype=value.dtype))
            if rest.shape[1:] != value.shape:
                raise BadInput(
                    f"{where}: {name} of episode {rows[k]['id']!r} has the shape {value.shape}, of those before "
                    f"{rest.shape[1:]}"
                )
            rest[len(ids)] = value
        for view in episode.views:
            if view.name in every and view.frames is not None:
                if view.name not in views:
                    views[view.name] = Seen(np.empty((len(chosen), time, size, size, 3), dtype=np.uint8), [])
                last = len(view.frames) - 1
                views[view.name].frames[len(ids)] = resized(view.frames, size)[np.minimum(np.arange(time), last)]
                views[view.name].cameras.append(resized_camera(view.camera, size))
        condition = episode.condition
        conditions.append(replace(condition, camera=resized_camera(condition.camera, size)))
        ids.append(str(rows[k]["id"]))
        info.append(dict(to_plain(episode.info)))
    return Stack(
        **arrays, conditions=conditions, ids=tuple(ids), info=tuple(info), fps=float(min(rates)), sides=sides,
        left_out={k: n for k, n in left_out.items() if n},
        views={name: seen for name, seen in views.items() if len(seen.cameras) == len(ids)},
    )  # fmt: skip


def _arrays(episode: Episode, time: int, size: int, sides: tuple[Side, ...]) -> dict[str, np.ndarray]:
    sample, n = episode.sample, len(episode.sample.frames)
    rows = np.minimum(np.arange(time), n - 1)
    own = np.arange(time) < n
    shown = {hand.side: hand for hand in sample.hands}

    def stacked(name: str) -> np.ndarray:
        any_hand = getattr(sample.hands[0], name)
        nobody = np.broadcast_to(IDENTITY_POSE if name == "wrist_pose" else 0.0, any_hand.shape)
        return np.stack([getattr(shown[s], name) if s in shown else nobody for s in sides], axis=1)[rows]

    known = [own & shown[side].valid[rows] if side in shown else np.zeros_like(own) for side in sides]
    found = {name: stacked(name) for name in _OF_FRAMES}
    return found | {
        "frames": resized(sample.frames, size)[rows],
        "valid": own,
        "points": sample.object.points[rows],
        "shows": np.array([side in shown for side in sides]),
        "hand_known": np.stack(known, axis=1),
        "object_known": own & sample.object.valid[rows],
        "touch_known": np.array("touch" not in episode.info.get("not_recorded", ())),
    }


def _renamed(tree: Any, prefix: str) -> Any:
    if isinstance(tree, list):
        return [_renamed(v, prefix) for v in tree]
    if isinstance(tree, dict):
        return {k: prefix + v if k == "$array" else _renamed(v, prefix) for k, v in tree.items()}
    return tree
