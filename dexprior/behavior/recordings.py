"""Recorded episodes as trajectories of the behavioral prior: `train.json` of `dexprior ledger plan`, checked and read.

recorded = read_recordings("runs/plan/train.json")
recorded.instances         # which instance of the recorded panel each episode shows
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from dexprior.artifacts import read_object
from dexprior.behavior.bank import BehaviorConfig, BehaviorPrior
from dexprior.data.traces import read_trace
from dexprior.errors import ArtifactError, BadInput, DexpriorError
from dexprior.geometry.timing import resample
from dexprior.geometry.transforms import interpolate_poses
from dexprior.reading import as_described, inside, text
from dexprior.types import Trace

__all__ = ["MANIFEST", "Recordings", "read_recordings"]

MANIFEST = "dexprior.training_manifest/1"
"""Schema of `train.json`."""
_POSE, _TWIST = 7, 6
_UNIT = 0.01  # by which the length of a quaternion may differ from one
_TICK = 1e-6  # [s] a command that is sent when a pose is read acts after it


@dataclass(frozen=True, kw_only=True)
class Recordings:
    """Successful episodes of one panel."""

    instances: Int[np.ndarray, " episode"]
    t: tuple[Float[np.ndarray, " time"], ...]
    """Times of each episode's commands, since its first one [s]."""
    tool: tuple[Float[np.ndarray, "time robot 7"], ...]
    """Tool poses, base frame."""
    end: tuple[Float[np.ndarray, "time robot end"], ...]
    """Numbers of the end effectors as they were commanded, over the same times, in [-1, 1]."""
    panel_hash: str
    folder: Path
    init: str | None
    """Run of the policy to start from."""
    checksum: str
    """Checksum of all listed episodes."""
    left_out: int
    """Episodes that were not a success."""

    def prior(
        self, config: BehaviorConfig, *, scale: Float[np.ndarray, 6], dt: float, panel_hash: str
    ) -> BehaviorPrior:
        """Their distribution over actions; the scenes are the recorded instances, in ascending order.

        A scene with fewer episodes than another shows them several times.

        Args:
            config: how trajectories become a distribution.
            scale: twist that an action of 1 stands for [m/s, rad/s].
            dt: control period [s].
            panel_hash: of the panel of these scenes.
        """
        grid = config.lead + dt * np.arange(config.steps)
        ids = [np.flatnonzero(self.instances == i) for i in np.unique(self.instances)]
        most = max(map(len, ids))
        chosen = np.array([np.resize(row, most) for row in ids])
        tool = np.array([[_resampled(grid, self.t[e], self.tool[e]) for e in row] for row in chosen])
        end = np.array([[resample(grid, self.t[e], self.end[e]) for e in row] for row in chosen])
        return BehaviorPrior(config, np.asarray(scale, dtype=np.float64), dt, tool, end, panel_hash)


def _resampled(grid: np.ndarray, t: np.ndarray, tool: np.ndarray) -> Float[np.ndarray, "step robot 7"]:
    return np.stack([interpolate_poses(grid, t, tool[:, k]) for k in range(tool.shape[1])], axis=1)


def read_recordings(path: str | Path, *, robots: int = 1, ends: int = 1) -> Recordings:
    """Read the episodes that a manifest lists, with every checksum.

    An episode is an MCAP trace with the channels `tool_pose` (7 a robot: position [m] and quaternion, base frame) and
    `command` (the action, in -1..1: robot by robot shares of the fastest twist, then the end effector's numbers), and
    `instance` in its info. What its info calls no success is left out.

    Args:
        path: of `train.json`.
        robots: in the scene.
        ends: numbers of each end effector.

    Raises:
        ArtifactError: no manifest, a damaged one, a missing episode, or one that was changed.
        BadInput: no episode, or one that is malformed, of another panel, or without an instance; each with its file.
    """
    path = Path(path)
    plain = _manifest(path)
    folder = Path(plain["folder"])
    rows: list[tuple[int, np.ndarray, np.ndarray, np.ndarray]] = []
    panels: dict[str, str] = {}
    left_out = 0
    for row in plain["episodes"]:
        file = inside(folder, row["file"], path)
        if not file.is_file():
            raise ArtifactError(f"{path} lists {file}, which does not exist")
        with file.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != row["sha256"]:
                raise ArtifactError(f"{file} was changed after {path} was written: its checksum is another")
        try:
            trace = read_trace(file)
            if trace.info.get("success") is False:
                left_out += 1
                continue
            rows.append(_episode(trace, robots, ends))
        except DexpriorError as error:
            raise BadInput(f"episode {file}: {error}") from None
        panels.setdefault(trace.panel_hash, str(file))
    if not rows:
        raise BadInput(f"{path} lists {len(plain['episodes'])} episodes, none of them a success: nothing to imitate")
    if len(panels) > 1:
        shown = ", ".join(f"{digest} ({file})" for digest, file in panels.items())
        raise BadInput(f"{path}: episodes of different panels: {shown}")
    instances, t, tool, end = zip(*rows)
    return Recordings(
        instances=np.array(instances), t=t, tool=tool, end=end, panel_hash=next(iter(panels)), folder=folder,
        init=plain["init"], checksum=plain["checksum"], left_out=left_out,
    )  # fmt: skip


def _manifest(path: Path) -> dict[str, Any]:
    absent = "`dexprior ledger plan results=... recordings=...` writes such a manifest."
    plain = read_object(path, "a manifest of recordings", schema=MANIFEST, absent=absent)
    with as_described("a manifest of recordings", path, ArtifactError):
        listed = [
            (text(row["file"], f"{path}: file"), text(row["sha256"], f"{path}: sha256")) for row in plain["episodes"]
        ]
        checksum, folder = text(plain["checksum"], f"{path}: checksum"), text(plain["folder"], f"{path}: folder")
        init = text(plain["init"], f"{path}: init", optional=True)
    if hashlib.sha256("".join(f"{f}\0{s}\n" for f, s in listed).encode()).hexdigest() != checksum:
        raise ArtifactError(f"{path}: its list of episodes was edited: it no longer has the checksum {checksum[:16]}")
    return {"episodes": plain["episodes"], "checksum": checksum, "folder": folder, "init": init}


def _episode(trace: Trace, robots: int, ends: int) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """Instance, times, tool poses, commanded numbers of the end effectors."""
    pose, command = trace["tool_pose"], trace["command"]
    widths = (("tool_pose", pose, robots * _POSE), ("command", command, robots * (_TWIST + ends)))
    for name, channel, width in widths:
        if channel.value.shape[1] != width or len(channel.t) < 2:
            raise BadInput(
                f"channel {name!r} has the shape {channel.value.shape}, expected (time, {width}), two or more"
            )
    instance = trace.info.get("instance")
    if not isinstance(instance, int) or isinstance(instance, bool) or instance < 0:
        raise BadInput(f"info['instance'] is {instance!r}; it says which instance of panel.json the episode shows")
    tool = pose.value.reshape(-1, robots, _POSE)
    apart = float(np.abs(np.linalg.norm(tool[..., 3:], axis=-1) - 1.0).max())
    if apart > _UNIT:
        raise BadInput(
            f"channel 'tool_pose': a quaternion has a length {apart:.3g} away from one; poses are [x y z qw qx qy qz]"
        )
    sent = np.maximum(np.searchsorted(command.t, pose.t - _TICK) - 1, 0)
    numbers = command.value[sent].reshape(-1, robots, _TWIST + ends)[..., _TWIST:]
    return instance, pose.t - command.t[0], tool, np.clip(numbers, -1.0, 1.0)
