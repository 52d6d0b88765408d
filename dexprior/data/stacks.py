"""All kept episodes of a folder as stacked arrays, ready for training: decoded once, then memory-mapped by the OS."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from dexprior.artifacts import file_hash, from_tensors, read_tensors, to_tensors, write_tensors
from dexprior.data.episodes import read_episodes
from dexprior.data.shards import ShardSet, open_episodes
from dexprior.errors import BadInput
from dexprior.types import Camera, Episode, PriorCondition

__all__ = ["Stack", "load_stack", "resized_camera", "shrink", "stack_episodes"]


@dataclass(frozen=True)
class Stack:
    """n clips of equal length."""

    frames: UInt8[np.ndarray, "clip time size size 3"]
    wrist_pose: Float[np.ndarray, "clip time 7"]
    finger_pose: Float[np.ndarray, "clip time 45"]
    joints: Float[np.ndarray, "clip time 21 3"]
    object_pose: Float[np.ndarray, "clip time 7"]
    contact: Float[np.ndarray, "clip time 5"]
    force: Float[np.ndarray, "clip time 5"]
    conditions: list[PriorCondition]
    bolt: Float[np.ndarray, "clip 3"]
    """Foot of the bolt, for evaluation only."""
    fps: float

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, ids: Any) -> Stack:
        ids = np.arange(len(self))[ids]
        arrays = {name: getattr(self, name)[ids] for name in _ARRAYS}
        return Stack(**arrays, conditions=[self.conditions[i] for i in ids], fps=self.fps)


_ARRAYS = ("frames", "wrist_pose", "finger_pose", "joints", "object_pose", "contact", "force", "bolt")


def stack_episodes(episodes: list[Episode], size: int) -> Stack:
    """Stack episodes of equal length, with frames shrunk to `size` pixels.

    Raises:
        BadInput: clips of different lengths or rates.
    """
    lengths = {len(e.sample.frames) for e in episodes}
    rates = {e.sample.fps for e in episodes}
    if len(lengths) != 1 or len(rates) != 1:
        raise BadInput(f"clips of {sorted(lengths)} frames at {sorted(rates)} fps cannot be stacked")
    return Stack(
        frames=np.stack([shrink(e.sample.frames, size) for e in episodes]),
        wrist_pose=np.stack([e.sample.hand.wrist_pose for e in episodes]),
        finger_pose=np.stack([e.sample.hand.finger_pose for e in episodes]),
        joints=np.stack([e.sample.hand.joints for e in episodes]),
        object_pose=np.stack([e.sample.object.pose for e in episodes]),
        contact=np.stack([e.sample.hand.contact for e in episodes]),
        force=np.stack([e.sample.hand.force for e in episodes]),
        conditions=[e.condition for e in episodes],
        bolt=np.array([e.info["bolt"] for e in episodes]),
        fps=rates.pop(),
    )


def load_stack(folder: str | Path, size: int) -> Stack:
    """Stack a folder of episodes; the decoded arrays are kept beside them for the next reader."""
    folder = Path(folder)
    cache = folder / f"stack-{size}.safetensors"
    shards = open_episodes(folder)
    index = shards.fingerprint if isinstance(shards, ShardSet) else file_hash(folder / "index.jsonl")
    if cache.exists():
        tensors, meta = read_tensors(cache)
        if meta["index"] == index:
            conditions = [from_tensors(tree, tensors) for tree in meta["conditions"]]
            return Stack(**{name: tensors[name] for name in _ARRAYS}, conditions=conditions, fps=meta["fps"])
    stack = stack_episodes(list(read_episodes(folder)), size)
    tensors = {name: getattr(stack, name) for name in _ARRAYS}
    trees = []
    for k, condition in enumerate(stack.conditions):
        arrays, tree = to_tensors(condition)
        tensors |= {f"{k}/{name}": value for name, value in arrays.items()}
        trees.append(_renamed(tree, f"{k}/"))
    write_tensors(cache, tensors, {"index": index, "conditions": trees, "fps": stack.fps})
    return stack


def shrink(frames: UInt8[np.ndarray, "time height width 3"], size: int) -> UInt8[np.ndarray, "time size size 3"]:
    """Average blocks of pixels.

    Raises:
        BadInput: the frames are not square, or their size is no multiple of `size`.
    """
    t, height, width, _ = frames.shape
    if height != width or height % size:
        raise BadInput(f"frames of {height}x{width} px cannot be averaged to {size}x{size}")
    block = height // size
    if block == 1:
        return frames
    return frames.reshape(t, size, block, size, block, 3).mean(axis=(2, 4)).round().astype(np.uint8)


def resized_camera(camera: Camera, size: int) -> Camera:
    """The same camera for square images of another size."""
    scale = size / camera.width
    K = camera.K.copy()
    K[:2] *= scale
    return Camera(K=K, T_base_cam=camera.T_base_cam, width=size, height=size)


def _renamed(tree: Any, prefix: str) -> Any:
    if isinstance(tree, list):
        return [_renamed(v, prefix) for v in tree]
    if isinstance(tree, dict):
        return {k: prefix + v if k == "$array" else _renamed(v, prefix) for k, v in tree.items()}
    return tree
