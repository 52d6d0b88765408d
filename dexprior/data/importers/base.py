"""What an importer makes of one foreign recording, of which parts may be missing, and what it is told.

An importer is two functions: one lists the names of a folder's episodes, one reads an episode by name and raises
`BadInput` where it cannot. `import_episodes` turns that error into a `Rejected` with the episode's name and the
reason, and goes on with the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import Ge, Gt, config
from dexprior.data.importers.checks import check_hand, check_scale
from dexprior.data.readers import Frames
from dexprior.errors import BadInput, DexpriorError, MissingExtra
from dexprior.reading import as_described
from dexprior.types import Camera, Channel, Episode, HandTrajectory, ObjectTrajectory, Side, WrenchTrack

__all__ = [
    "HandFit",
    "ImportContext",
    "ImportSettings",
    "Imported",
    "Importer",
    "Mesh",
    "Rejected",
    "View",
    "import_episodes",
]


@config
class ImportSettings:
    """What the user says about a foreign data set."""

    licence: str | None = None
    """Licence of the data where the format does not state one, e.g. `CC-BY-4.0`."""
    text: str | None = None
    """Sentence for episodes without one."""
    side: Literal["left", "right"] | None = None
    """Which hand an episode keeps where two were recorded; both when omitted."""
    view: str | None = None
    """Camera whose pictures an episode shows; the first calibrated one when omitted."""
    further_views: Annotated[int, Ge(0)] = 0
    """How many further cameras are kept: calibrated ones of an episode, any of a record of less than one."""
    height: Annotated[int, Ge(16)] | None = 256
    """Pictures are scaled to this height (never up), keeping their shape; null keeps their size."""
    max_frames: Annotated[int, Gt(1)] = 600
    """Longer recordings are cut into pieces of at most this many frames."""
    cloud_points: Annotated[int, Gt(0)] = 256
    """Points of the object's cloud."""
    mano_right: str | None = None
    """The user's MANO_RIGHT.pkl; needed where a data set stores parameters and no joints."""
    mano_left: str | None = None
    """The user's MANO_LEFT.pkl."""
    quaternions: Literal["wxyz", "xyzw"] | None = None
    """Order of a robot's quaternions, where the data set does not document it (robomimic's layout beside robosuite)."""
    hand_order: tuple[Side, Side] | None = None
    """Order of two hands in one vector, where the data set does not document it (glove sets in LeRobot format)."""


class HandFit(Protocol):
    """Fits a hand to measured joints, e.g. `dexprior.pose.landmarks.hand_from_landmarks`."""

    def __call__(
        self,
        joints: Float[np.ndarray, "time 21 3"],
        t: Float[np.ndarray, " time"],
        side: Side,
        *,
        scale_known: bool,
        valid: Bool[np.ndarray, " time"],
        sigma: float,
    ) -> HandTrajectory: ...


@dataclass(frozen=True, kw_only=True)
class ImportContext:
    """What every importer may use."""

    settings: ImportSettings
    fit: HandFit | None = None
    """Finger angles where only joints are stored; without it, and without a MANO file, such a hand is left out."""

    @cached_property
    def _mano(self) -> dict[Side, dict[str, np.ndarray] | None]:
        from dexprior.hands.mano import read_mano

        paths: dict[Side, str | None] = {"left": self.settings.mano_left, "right": self.settings.mano_right}
        return {side: None if path is None else read_mano(path) for side, path in paths.items()}

    def mano(self, side: Side) -> dict[str, np.ndarray] | None:
        """The arrays of the user's MANO file of one side; None where none was given."""
        return self._mano[side]

    def mano_path(self, side: Side) -> str | None:
        """The user's MANO file of one side."""
        return self.settings.mano_left if side == "left" else self.settings.mano_right


@dataclass(frozen=True, kw_only=True)
class View:
    """What one camera saw; its pixels are read when they are needed."""

    name: str
    fps: float
    frames: int
    height: int
    width: int
    read: Callable[[tuple[int, int] | None, int, int], Frames]
    """(height and width to scale to, first frame, frame after the last) -> RGB."""
    camera: Camera | None = None
    """Calibration in the base frame, with a pose in each frame where it moves; None where it is missing, or not a
    pinhole's."""
    lens: str = "pinhole"
    """The lens model that the data set gives; `unknown` where it gives none."""

    def __post_init__(self) -> None:
        if not self.fps > 0 or self.frames < 1:
            raise BadInput(f"camera {self.name!r}: {self.frames} frames at {self.fps:g} a second")
        if self.camera is not None and (self.camera.height, self.camera.width) != (self.height, self.width):
            raise BadInput(
                f"camera {self.name!r}: calibrated for {self.camera.width} x {self.camera.height} pixels, its pictures "
                f"have {self.width} x {self.height}"
            )
        if self.camera is not None:
            self.camera.check_frames(self.frames, f"camera {self.name!r}")


@dataclass(frozen=True, kw_only=True)
class Mesh:
    """An object's mesh file."""

    path: Path
    scale: float = 1.0
    """Metres for one unit of the file."""


@dataclass(frozen=True, kw_only=True)
class Imported:
    """One recorded hand-object episode, as far as the data set has it; SI units, times from zero."""

    kind: str
    """The importer's name."""
    episode: str
    """Name of the episode within its data set."""
    licence: str
    """Licence of the data, or `not stated`."""
    source: str
    """Where the data set comes from."""
    views: tuple[View, ...] = ()
    hands: tuple[HandTrajectory, ...] = ()
    """Hands, at most one of each side."""
    objects: tuple[ObjectTrajectory, ...] = ()
    meshes: Mapping[str, Mesh] = field(default_factory=dict)
    """Meshes by object name."""
    target: str | None = None
    """Name of the object that the hand acts on."""
    wrench: WrenchTrack | None = None
    touch: bool = False
    """Whether contact and force of the fingers were measured (and are not merely zero)."""
    signals: Mapping[str, Channel] = field(default_factory=dict)
    """Whatever else was recorded: glove angles, robot states, articulation."""
    text: tuple[str, ...] = ()
    """Sentences that name the task."""
    exact: Callable[[], Episode] | None = None
    """An episode of ours that was exported: it is read as it was, and nothing is converted."""
    ids: Mapping[str, Any] = field(default_factory=dict)
    """Subject, session, split: plain data."""
    problems: tuple[str, ...] = ()
    """What is wrong or uncertain, in sentences."""

    def __post_init__(self) -> None:
        sides = [hand.side for hand in self.hands]
        if len(set(sides)) != len(sides):
            raise BadInput(f"two {sides[0]!r} hands in one episode: is one of them labelled wrongly?")
        lengths = {f"camera {v.name}": v.frames for v in self.views}
        lengths |= {f"{hand.side} hand": len(hand) for hand in self.hands}
        lengths |= {f"object {thing.object}": len(thing) for thing in self.objects}
        if self.wrench is not None:
            lengths["wrench"] = len(self.wrench)
        if len(set(lengths.values())) > 1:
            raise BadInput("streams differ in length: " + ", ".join(f"{k} has {n} frames" for k, n in lengths.items()))
        names = [thing.object for thing in self.objects]
        if self.target is not None and self.target not in names:
            raise BadInput(f"no object {self.target!r}; the episode has: {', '.join(names) or 'none'}")

    @property
    def absent(self) -> tuple[str, ...]:
        """Which parts of an `Episode` were not recorded."""
        there = {
            "pictures": bool(self.views),
            "calibration": any(view.camera is not None for view in self.views),
            "hand": bool(self.hands),
            "object": bool(self.objects),
            "mesh": any(thing.object in self.meshes for thing in self.objects),
            "touch": self.touch,
            "wrench": self.wrench is not None,
            "text": bool(self.text),
        }
        return tuple(name for name, found in there.items() if not found)


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """An episode that cannot be used, and why."""

    kind: str
    episode: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Importer:
    """One format."""

    title: str
    licence: str
    """Licence of the data set; `as stated by the user` for formats that anyone writes."""
    episodes: Callable[[Path], list[str]]
    """Names of the episodes in a folder, in a fixed order."""
    read: Callable[[Path, str, ImportContext], Imported]
    """One episode; raises BadInput with the reason where it cannot be used."""


def import_episodes(
    kind: str,
    importer: Importer,
    folder: Path,
    context: ImportContext,
    *,
    skip: Callable[[str], bool] = lambda episode: False,
) -> Iterator[Imported | Rejected]:
    """Read a folder's episodes one after the other; what cannot be used is named, the rest goes on.

    Args:
        kind: the importer's name.
        importer: the format.
        folder: root of the data set.
        context: settings, and what fits hands to joints.
        skip: episodes that need not be read.

    Raises:
        BadInput: the folder is not of this format, or holds no episode.
        MissingExtra: a package that this format needs is absent.
    """
    if not folder.exists():
        raise BadInput(f"{folder}: no such folder")
    names = importer.episodes(folder)
    if not names:
        raise BadInput(f"{folder} holds no episode of the format {kind!r} ({importer.title})")
    for name in names:
        if skip(name):
            continue
        try:
            with as_described(f"an episode of the format {kind!r}", name):
                found = _checked(importer.read(folder, name, context))
            yield found
        except MissingExtra:
            raise  # the environment's fault: no other episode would fare better
        except DexpriorError as error:
            yield Rejected(kind=kind, episode=name, reason=str(error))


def _checked(imported: Imported) -> Imported:
    parts = (imported.views, imported.hands, imported.objects, imported.signals, imported.wrench, imported.exact)
    if not any(part is not None and part != () and part != {} for part in parts):
        why = "; ".join(imported.problems)
        raise BadInput(f"{imported.episode} holds nothing that is imported{f': {why}' if why else ''}")
    for hand in imported.hands:
        check_hand(hand)
    for thing in imported.objects:
        check_scale(thing.centre[thing.valid], f"positions of object {thing.object!r}")
    return imported
