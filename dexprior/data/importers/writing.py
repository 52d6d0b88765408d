"""What an importer found becomes what training reads: our episodes, and records of what is less than one.

OUT/index.jsonl, OUT/000012.*       episodes, as `dexprior.data.episodes` has them
OUT/records/000013.safetensors      what lacks a part of an episode: hands, objects, wrench, signals
OUT/records/000013.mp4              its pictures: video alone trains the prior, too
OUT/records/000013.CAMERA.mp4       those of further cameras, where they are asked for

Every attempt has a line in the index, with the data set's own name of the episode and the reasons against it. A second
run goes on where the first ended.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.artifacts import from_tensors, make_header, read_tensors, to_tensors, write_tensors
from dexprior.config import to_plain
from dexprior.data.clips import write_clip
from dexprior.data.episodes import append_index, read_index, write_episode
from dexprior.data.importers.base import HandFit, ImportContext, Imported, ImportSettings, Rejected, View
from dexprior.data.importers.base import import_episodes as _import_episodes
from dexprior.data.importers.conversion import (
    NEEDED,
    chosen_view,
    further_views,
    scaled_camera,
    scaled_size,
    to_episode,
)
from dexprior.data.importers.table import importer
from dexprior.errors import ArtifactError, BadInput, DexpriorError
from dexprior.reading import as_described
from dexprior.types import (
    Channel,
    HandTrajectory,
    ObjectTrajectory,
)

__all__ = ["ImportSummary", "import_dataset", "import_episodes", "read_record"]

_SCHEMA = "dexprior.record/2"


@dataclass(frozen=True, kw_only=True)
class ImportSummary:
    """What became of a foreign data set."""

    episodes: int
    """Complete episodes written."""
    records: int
    """Records written of what lacks a part."""
    skipped: int
    """Episodes that an earlier run had written."""
    rejected: tuple[Rejected, ...]
    """What cannot be used, and why."""
    notes: dict[str, int]
    """What is left out or uncertain of what was written, and in how many pieces."""


def import_episodes(
    kind: str, source: Path, *, settings: ImportSettings | None = None, fit: HandFit | None = None
) -> Iterator[Imported | Rejected]:
    """Read a foreign data set episode by episode, without writing anything.

    Raises:
        UnknownName: no such format; the message lists them.
        BadInput: the folder is not of this format.
    """
    return _import_episodes(kind, importer(kind), source, ImportContext(settings=settings or ImportSettings(), fit=fit))


def import_dataset(
    kind: str,
    source: Path,
    out: Path,
    *,
    limit: int | None = None,
    settings: ImportSettings | None = None,
    fit: HandFit | None = None,
) -> ImportSummary:
    """Import a foreign data set into a folder of ours.

    Args:
        kind: a name of `IMPORTERS`.
        source: the data set's root (for single files: the file).
        out: our folder; episodes that are in it already are not read again.
        limit: stop after this many episodes of the data set.
        settings: what the user says about the data.
        fit: fits hands to joints where angles are missing, e.g. `dexprior.pose.landmarks.hand_from_landmarks`.

    Raises:
        UnknownName: no such format; the message lists them.
        BadInput: the folder is not of this format, or holds no episode.
    """
    settings = settings or ImportSettings()
    out.mkdir(parents=True, exist_ok=True)
    index = read_index(out) if (out / "index.jsonl").is_file() else []
    written = {row["piece"] for row in index if "piece" in row}
    origin = str(source.resolve())
    done = {row["source"]: row.get("from", origin) for row in index if row.get("last")}
    told = {(row["source"], row["reason"]) for row in index if "reason" in row}
    number = max((row["number"] for row in index), default=-1) + 1
    counts = {"episodes": 0, "records": 0, "skipped": 0}
    rejected: list[Rejected] = []
    notes: Counter[str] = Counter()

    def skip(name: str) -> bool:
        found = done.get(f"{kind}:{name}")
        if found is not None and found != origin:
            notes[f"episodes of these names are in {out} already, from {found}: give each data set a folder"] += 1
        counts["skipped"] += found == origin
        return found is not None

    context = ImportContext(settings=settings, fit=fit)
    for taken, found in enumerate(_import_episodes(kind, importer(kind), source, context, skip=skip), start=1):
        row = {"kept": False, "source": f"{kind}:{found.episode}", "from": origin}
        try:
            if isinstance(found, Rejected):
                raise BadInput(found.reason)
            with as_described(f"an episode of the format {kind!r}", found.episode):
                pieces = list(_pieces(found, settings.max_frames))
            for piece in pieces:
                name = f"{kind}:{piece.episode}"
                if name not in written:
                    with as_described(f"an episode of the format {kind!r}", found.episode):
                        about = _write(piece, out, number, settings)
                    counts["episodes" if about["kept"] else "records"] += 1
                    row |= {"number": number, "piece": name, "last": piece is pieces[-1], **about}
                    append_index(out, row)
                    notes.update(about["problems"])
                    number += 1
        except DexpriorError as error:
            rejected.append(Rejected(kind=kind, episode=found.episode, reason=str(error)))
            if (row["source"], str(error)) not in told:
                append_index(out, {"number": number, "kept": False, "source": row["source"], "reason": str(error)})
                number += 1
        if limit is not None and taken >= limit:
            break
    return ImportSummary(rejected=tuple(rejected), notes=dict(notes.most_common()), **counts)


def _write(piece: Imported, out: Path, number: int, settings: ImportSettings) -> dict[str, Any]:
    """Write a piece as an episode, or as a record where it lacks a part; returns what the index says of it."""
    lacks = () if piece.exact is not None else tuple(name for name in piece.absent if name in NEEDED)
    if piece.exact is None:
        chosen, kept = chosen_view(piece, settings), further_views(piece, settings, calibrated=not lacks)
        left = [view.name for view in piece.views if view is not chosen and view not in kept.values()]
        if left:
            note = f"cameras left out: {', '.join(left)}; imports.view= chooses one, imports.further_views= keeps more"
            piece = dataclasses.replace(piece, problems=(*piece.problems, note))
    about: dict[str, Any] = {"licence": piece.licence, "problems": list(piece.problems)}
    if lacks:
        _write_record(piece, out / "records", number, settings)
        return about | {"kept": False, "record": True, "lacks": list(lacks)}
    write_episode(out, number, to_episode(piece, settings), producer=f"import {piece.kind}")
    return about | {"kept": True, "text": piece.text[0] if piece.text else None}


def _pieces(imported: Imported, length: int) -> Iterator[Imported]:
    """Consecutive parts of a long recording; a short one as it is."""
    tracks: list[HandTrajectory | ObjectTrajectory] = [*imported.hands, *imported.objects]
    total = max([view.frames for view in imported.views] + [len(track) for track in tracks], default=0)
    if total <= length or imported.exact is not None:
        yield imported
        return
    count = -(-total // length)
    for k in range(count):
        part = slice(total * k // count, total * (k + 1) // count)
        yield _part(imported, part, f"{imported.episode}#{k:04d}")


def _part(imported: Imported, part: slice, name: str) -> Imported:
    """Frames of a recording, with times from zero."""
    tracks: list[HandTrajectory | ObjectTrajectory] = [*imported.hands, *imported.objects]
    t = tracks[0].t if tracks else np.arange(imported.views[0].frames) / imported.views[0].fps
    begin = float(t[part.start])
    end = float(t[part.stop]) if part.stop < len(t) else np.inf

    def cut(value: Any) -> Any:
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        n = len(value)
        moved = {
            k: v[part] for k, v in fields.items() if isinstance(v, np.ndarray) and v.shape[:1] == (n,) and k != "betas"
        }
        return dataclasses.replace(value, **moved | {"t": fields["t"][part] - begin})

    def cut_view(view: View) -> View:
        def read(size: tuple[int, int] | None, start: int, stop: int) -> Any:
            return view.read(size, part.start + start, part.start + stop)

        camera = view.camera
        if camera is not None and camera.moves:
            camera = dataclasses.replace(camera, T_base_cam=camera.T_base_cam[part])
        return dataclasses.replace(view, frames=part.stop - part.start, read=read, camera=camera)

    signals = {}
    for key, channel in imported.signals.items():
        inside = (channel.t >= begin) & (channel.t < end)
        if inside.any():
            signals[key] = Channel(
                t=channel.t[inside] - begin,
                t_host=channel.t_host[inside],
                value=channel.value[inside],
                unit=channel.unit,
                frame=channel.frame,
                kind=channel.kind,
            )
    return dataclasses.replace(
        imported,
        episode=name,
        views=tuple(cut_view(view) for view in imported.views),
        hands=tuple(cut(hand) for hand in imported.hands),
        objects=tuple(cut(thing) for thing in imported.objects),
        wrench=None if imported.wrench is None else cut(imported.wrench),
        signals=signals,
    )


def _write_record(imported: Imported, folder: Path, number: int, settings: ImportSettings) -> None:
    view = chosen_view(imported, settings)
    if view is not None:
        size = scaled_size(view, settings.height)
        write_clip(folder / f"{number:06d}.mp4", view.read(size, 0, view.frames), view.fps)
    for name, other in further_views(imported, settings, calibrated=False).items():
        pictures = other.read(scaled_size(other, settings.height), 0, other.frames)
        write_clip(folder / f"{number:06d}.{name}.mp4", pictures, other.fps)
    tensors, tree = to_tensors(
        {
            "episode": imported.episode,
            "kind": imported.kind,
            "licence": imported.licence,
            "origin": imported.source,
            "camera": None if view is None or view.camera is None else scaled_camera(view.camera, size),
            "lens": None if view is None else view.lens,
            "hands": list(imported.hands),
            "objects": list(imported.objects),
            "wrench": imported.wrench,
            "signals": dict(imported.signals),
            "text": list(imported.text),
            "ids": dict(imported.ids),
            "not_recorded": list(imported.absent),
            "problems": list(imported.problems),
        }
    )
    header = to_plain(make_header(_SCHEMA, producer=f"import {imported.kind}"))
    write_tensors(folder / f"{number:06d}.safetensors", tensors, {"header": header, "tree": tree})


def read_record(out: Path, number: int) -> dict[str, Any]:
    """What `import_dataset` kept of an incomplete episode: typed values by name, `video`, the path of its pictures, and
    `videos`, those of further cameras by name.

    Raises:
        ArtifactError: missing, damaged, or of another schema.
    """
    path = out / "records" / f"{number:06d}.safetensors"
    tensors, meta = read_tensors(path)
    if (found := meta.get("header", {}).get("schema")) != _SCHEMA:
        raise ArtifactError(f"{path} holds {found!r}, expected {_SCHEMA!r}: make it again with `dexprior data import`")
    video = path.with_suffix(".mp4")
    further = {path.name.split(".")[1]: path for path in sorted(path.parent.glob(f"{number:06d}.*.mp4"))}
    return {**from_tensors(meta["tree"], tensors), "video": video if video.is_file() else None, "videos": further}
