"""Data sets by name: where each lies below `$DEXPRIOR_DATA`, and how a user gets it.

Nothing that others recorded ships with dexprior, and nothing here uses the network. `datasets/` holds a card
for each: source, licence, checksum, fields.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dexprior.artifacts import write_atomic
from dexprior.errors import BadInput, UnknownName
from dexprior.reading import most_unpacked

__all__ = ["DataSet", "cache_folder", "describe", "find", "get", "install", "instructions", "names", "verify"]


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """One entry."""

    name: str
    title: str
    folder: str
    """Below `$DEXPRIOR_DATA`, or below the user's cache."""
    files: Mapping[str, str]
    """File name -> SHA-256."""
    target: str | None
    """The file that `get` returns; None for the folder."""
    source: str
    """Where the original is."""
    licence: str
    steps: str
    """How to turn the original into these files."""


_SETS = (
    DataSet(
        name="ellipse-impacts",
        title="1700 real planar impacts of an ellipse (states before and after)",
        folder="impacts",
        files={"ellipse_impacts.npz": "ed1172ad21cf265716ad9a121b693063d5e0b039063f4cc0d515b585eaac5b0f"},
        target="ellipse_impacts.npz",
        source="https://github.com/DAIRLab/ImpactModeling",
        licence="BSD-3-Clause",
        steps="convert 'IRB Bound/ellipse_uniform.mat'; datasets/ellipse_impacts.md lists the fields",
    ),
    DataSet(
        name="cube-tosses",
        title="444 real tosses of a cube onto a table, whole trajectories at 148 Hz",
        folder="impacts",
        files={"cube_tosses.npz": "78a1992cdbaacb225448c9a27711136c4fea38121eca882d86be9e6ef684cf1f"},
        target="cube_tosses.npz",
        source="https://github.com/DAIRLab/dair_pll",
        licence="BSD-3-Clause",
        steps="convert assets/contactnets_cube; datasets/cube_tosses.md lists the fields",
    ),
    DataSet(
        name="hand-clip",
        title="webcam clip of one bare right hand (621 frames) with 21 landmarks",
        folder="hand_clip",
        files={
            "human_hand_video.mp4": "d306af128862940fc6e3c737a42ec6b00a137fff1c37b10805fe2c143c62ddb8",
            "human_joint_right.npz": "cfccd0a726173de2481c10ba965a847f99c344c0489d1021d165d5ea243dd1d8",
        },
        target=None,
        source="https://github.com/dexsuite/dex-retargeting",
        licence="MIT",
        steps="take the clip from example/vector_retargeting/data; datasets/hand_clip.md says the rest",
    ),
    DataSet(
        name="dexmv-mustard",
        title="pick-and-place of a bottle: MANO parameters, joints, object pose (122 frames)",
        folder="hand_object",
        files={"dexmv_mustard.npz": "eeca853ce840f022aa84fca85c11131b1f90992e5d72adbeb80eae531f2366b8"},
        target="dexmv_mustard.npz",
        source="https://github.com/yzqin/dexmv-sim",
        licence="Apache-2.0",
        steps="convert the retargeting example's pickled arrays; datasets/dexmv_mustard.md lists the fields",
    ),
    DataSet(
        name="adroit-door",
        title="25 human teleoperated demonstrations of a five-fingered hand that opens a door (6,729 steps)",
        folder="adroit",
        files={"door_human.npz": "8fadadf856f65580f364840b4ed17a07a92d7952b53022eb2840fddcaefa4243"},
        target="door_human.npz",
        source="https://github.com/aravindr93/hand_dapg",
        licence="Apache-2.0",
        steps="convert demonstrations/door-v0_demos.pickle; datasets/adroit.md lists the fields",
    ),
    DataSet(
        name="adroit-experts",
        title="two published experts of the same hand, for the door and the pen, as plain layers",
        folder="adroit/experts",
        files={
            "door.npz": "ad117672ae6f572ece00790f7a2146d2b4211648c3c8cdc34f5b652a4db84eb9",
            "pen.npz": "82580ee0f13afa010adfb4df416afd81dafbc18a6d74d21515d33d1221d56810",
        },
        target=None,
        source="https://github.com/aravindr93/hand_dapg",
        licence="Apache-2.0",
        steps="convert dapg/policies/*.pickle; datasets/adroit.md lists the fields",
    ),
    DataSet(
        name="hand-landmarks",
        title="MediaPipe's palm detector and hand landmark networks (tflite)",
        folder="hand-landmarks",
        files={
            "palm_detection_full.tflite": "1b14e9422c6ad006cde6581a46c8b90dd573c07ab7f3934b5589e7cea3f89a54",
            "hand_landmark_full.tflite": "11c272b891e1a99ab034208e23937a8008388cf11ed2a9d776ed3d01d0ba00e3",
            "hand_landmark_lite.tflite": "048edd3645c9bf7397d19a9f6e3a42957d6e414c9bea6598030a2e9b624156e6",
        },
        target=None,
        source="https://pypi.org/project/mediapipe/0.10.21",
        licence="Apache-2.0",
        steps=(
            "pip download --no-deps mediapipe==0.10.21, then "
            "dexprior data get hand-landmarks source=mediapipe-0.10.21-...whl"
        ),
    ),
)
_TABLE = {entry.name: entry for entry in _SETS}


def names() -> tuple[str, ...]:
    """Names of all data sets."""
    return tuple(_TABLE)


def describe(name: str) -> DataSet:
    """An entry.

    Raises:
        UnknownName: lists the names.
    """
    if name not in _TABLE:
        raise UnknownName("data set", name, _TABLE)
    return _TABLE[name]


def cache_folder() -> Path:
    """Where a user's own copies go: `$XDG_CACHE_HOME/dexprior`, or `~/.cache/dexprior`."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "dexprior"


def find(name: str) -> Path | None:
    """The data set's file or folder if all of it is there, else None."""
    entry = describe(name)
    for root in _roots():
        folder = root / entry.folder
        if all((folder / file).is_file() for file in entry.files):
            return folder if entry.target is None else folder / entry.target
    return None


def get(name: str) -> Path:
    """The data set's file or folder.

    Raises:
        UnknownName: no such data set.
        BadInput: it is absent; the message says where it comes from, its licence, and where it belongs.
    """
    found = find(name)
    if found is None:
        raise BadInput(instructions(name))
    return found


def instructions(name: str) -> str:
    """How to get a data set."""
    entry = describe(name)
    places = " or ".join(str(root / entry.folder) for root in _roots())
    unset = "" if os.environ.get("DEXPRIOR_DATA") else " ($DEXPRIOR_DATA is not set)"
    return (
        f"the data set {name!r} ({entry.title}) is not in {places}{unset}. It comes from {entry.source} "
        f"under {entry.licence}: {entry.steps}. Files: {', '.join(entry.files)}; `dexprior data get {name} "
        "source=FOLDER` (or a zip, or a wheel) checks them and puts them in place"
    )


def install(name: str, source: str | Path) -> Path:
    """Copy a data set's files into the user's cache, from a folder or a zip archive (a wheel is one) that holds them.

    Files are found by name at any depth. Nothing is written unless all are there and have the expected checksums.

    Raises:
        UnknownName: no such data set.
        BadInput: a file is missing or is another one; the message names it.
    """
    entry, source = describe(name), Path(source)
    contents: dict[str, bytes] = {}
    for file, digest in entry.files.items():
        found = _contents(source, file)
        if not found:
            raise BadInput(f"{source} holds no {file}, which the data set {name!r} needs")
        matching = [data for data in found if hashlib.sha256(data).hexdigest() == digest]
        if not matching:
            raise BadInput(
                f"{file} in {source} has the SHA-256 {hashlib.sha256(found[0]).hexdigest()}, the data set {name!r} "
                f"expects {digest}: it is damaged, or of another version"
            )
        contents[file] = matching[0]
    folder = cache_folder() / entry.folder
    for file, data in contents.items():
        write_atomic(folder / file, data)
    return folder if entry.target is None else folder / entry.target


def _contents(source: Path, file: str) -> list[bytes]:
    """What lies under a name in a folder or an archive."""
    if source.is_dir():
        return [path.read_bytes() for path in sorted(source.rglob(file)) if path.is_file()]
    if not source.is_file() or not zipfile.is_zipfile(source):
        raise BadInput(f"{source} is neither a folder nor a zip archive")
    try:
        with zipfile.ZipFile(source) as archive:
            members = [info for info in archive.infolist() if info.filename.split("/")[-1] == file]
            if (size := sum(info.file_size for info in members)) > (most := most_unpacked(source.stat().st_size)):
                raise BadInput(f"{source}: {file} unpacks to {size:,} bytes, at most {most:,} are read")
            return [archive.read(info) for info in members]
    except BadInput:
        raise
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, RuntimeError, EOFError, ValueError) as error:
        raise BadInput(f"{source} cannot be unpacked: {error}") from None


def verify(name: str) -> dict[str, bool]:
    """Whether each file has the checksum of the copy that dexprior was tested with; errors as in `get`."""
    found = get(name)
    folder = found if describe(name).target is None else found.parent
    return {
        file: hashlib.sha256((folder / file).read_bytes()).hexdigest() == digest
        for file, digest in describe(name).files.items()
    }


def _roots() -> list[Path]:
    root = os.environ.get("DEXPRIOR_DATA")
    return [*([Path(root)] if root else []), cache_folder()]
