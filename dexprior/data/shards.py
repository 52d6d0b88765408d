"""Shards: many episodes a file, each file a plain tar that streams, beside it an index with checksums.

FOLDER/w0-00000.tar      for each episode ID.mp4, ID.safetensors, ..., and last ID.json, which says that it is whole
FOLDER/w0-00000.jsonl    the same rows with the place and the SHA-256 of every part

Several writers write at once, each its own files. A kill leaves a tar that ends in the middle of an episode: readers
name that episode and use the rest, and the same writer goes on behind the last whole one. The tar is the truth: an
index that is behind it, or lost, is completed from it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import tarfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import numpy as np

from dexprior.artifacts import write_atomic
from dexprior.artifacts.claims import NO_LOCKS
from dexprior.config import Ge, Le, config
from dexprior.data.episodes import MAIN, EpisodeFolder, EpisodeSet, describe_episode, pack_episode, unpack_episode
from dexprior.data.readers import ClipSource
from dexprior.errors import ArtifactError, BadInput
from dexprior.reading import entries, integer, listed, mapping, parse_json_object, shown, text
from dexprior.types import Episode

__all__ = ["Damage", "ShardSet", "ShardWriter", "Split", "SplitConfig", "open_episodes", "place_in_split", "split_of"]

Split = Literal["train", "validation", "test"]

_BLOCK = tarfile.BLOCKSIZE
_END = b"\0" * (2 * _BLOCK)
_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")


@config
class SplitConfig:
    """Who learns from which episode. A function of the episode's own ids: no later episode moves an earlier one."""

    by: Literal["seed", "object"] = "seed"
    """What must not be shared by two splits."""
    validation: Annotated[float, Ge(0), Le(1)] = 0.1
    """Share of the seeds, or of the objects."""
    test: Annotated[float, Ge(0), Le(1)] = 0.1
    """Share of the seeds, or of the objects."""
    held_out: tuple[str, ...] = ()
    """Objects that are in the test split whatever `by` says."""

    def __post_init__(self) -> None:
        if self.validation + self.test > 1:
            raise BadInput(f"SplitConfig: validation {self.validation} and test {self.test} are more than all")


def split_of(row: Mapping[str, Any], settings: SplitConfig) -> Split:
    """The split of an index row: u = SHA-256(by, seed or object) in [0, 1) against the shares.

    An episode without a seed counts as a seed of its own.
    """
    if row["object"] in settings.held_out:
        return "test"
    u = place_in_split(row, settings.by)
    if u < settings.test:
        return "test"
    return "validation" if u < settings.test + settings.validation else "train"


def place_in_split(row: Mapping[str, Any], by: Literal["seed", "object"] = "seed") -> float:
    """The number in [0, 1) that decides the split of an index row."""
    key = row["object"] if by == "object" else row["seed"]
    name = f"{by}:{row['id'] if key is None else key}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") / 2**64


@dataclass(frozen=True)
class Damage:
    """What could not be used, and why."""

    shard: str
    episode: str
    reason: str


class ShardWriter:
    """Appends episodes to shards of its own; go on after a kill by opening the same writer again."""

    def __init__(
        self,
        folder: str | Path,
        *,
        writer: str = "w0",
        producer: str,
        max_bytes: int = 256 * 2**20,
        patience: float = 0.0,
    ) -> None:
        """Open, and recover what a killed writer of this name left.

        Args:
            folder: made when missing.
            writer: letters, digits, `_`; one process at a time for each name.
            producer: stage or verb, for the headers.
            max_bytes: a shard that is longer is closed and the next one begun.
            patience: seconds to wait for another process that writes under this name.

        Raises:
            BadInput: an impossible name, or a name that another process writes under.
        """
        if not re.fullmatch(r"[A-Za-z0-9_]+", writer):
            raise BadInput(f"writer = {writer!r}: expected letters, digits and _")
        self.folder, self.writer, self.producer, self.max_bytes = Path(folder), writer, producer, max_bytes
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = (self.folder / f".{writer}.lock").open("w")
        until = time.monotonic() + patience
        while not _locked(self._lock):
            if time.monotonic() >= until:
                self._lock.close()
                raise BadInput(f"writer {writer!r} is open in another process in {folder}: use another name")
            time.sleep(0.05)
        self.ids: set[str] = set()
        self.dropped: list[Damage] = []
        self._number, self._end = 0, 0
        for path in sorted(self.folder.glob(f"{writer}-*.tar")):
            rows, damage, self._end = _recover(path)
            self.ids |= {row["id"] for row in rows}
            self.dropped += damage
            self._number = int(path.stem.rpartition("-")[2])
        self._open()

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def path(self) -> Path:
        """The shard that is written now."""
        return self.folder / f"{self.writer}-{self._number:05d}.tar"

    def write(self, name: str, episode: Episode, *, seed: int | None = None) -> dict[str, Any]:
        """Append one episode; returns its row. It is there for readers as soon as this returns.

        Raises:
            BadInput: an impossible name, or one that this writer has written.
            ArtifactError: it cannot be written (a full disk); what was written before stays.
        """
        if not _ID.fullmatch(name):
            raise BadInput(f"episode {name!r}: expected up to 80 letters, digits, _ and -")
        if name in self.ids:
            raise BadInput(f"episode {name!r} is in {self.folder} already")
        parts = pack_episode(episode, producer=self.producer, seed=seed)
        row = {"id": name, "seed": seed, **describe_episode(episode)}
        row["sha256"] = {part: hashlib.sha256(data).hexdigest() for part, data in parts.items()}
        record, places = _record(name, parts, row, self._end)
        line = json.dumps({**row, "parts": places, "end": self._end + len(record)}) + "\n"
        before = self._index.seek(0, os.SEEK_END)
        try:
            _write_all(self._shard, record)
            _write_all(self._index, line.encode())
        except OSError as error:
            os.truncate(self.path, self._end)
            os.truncate(self.path.with_suffix(".jsonl"), before)
            raise ArtifactError(
                f"episode {name!r} cannot be written to {self.path} ({error.strerror}); the "
                f"{len(self.ids)} episodes of this writer are whole: free some space and start it again"
            ) from None
        self._end += len(record)
        self.ids.add(name)
        if self._end >= self.max_bytes:
            self._finish()
            self._number, self._end = self._number + 1, 0
            self._open()
        return row

    def close(self) -> None:
        """End the shard and let another process take the name."""
        if not self._lock.closed:
            self._finish()
            self._lock.close()

    def _open(self) -> None:
        self._shard: IO[bytes] = self.path.open("ab", buffering=0)
        os.truncate(self.path, self._end)
        self._index: IO[bytes] = self.path.with_suffix(".jsonl").open("ab", buffering=0)

    def _finish(self) -> None:
        try:
            _write_all(self._shard, _END)
        except OSError:  # a full disk: a tar without its end mark is read as well
            os.truncate(self.path, self._end)
        for stream in (self._shard, self._index):
            os.fsync(stream.fileno())
            stream.close()


class ShardSet:
    """All episodes of a folder of shards; it keeps a few numbers an episode in memory and the rows on disk.

    Cheap to pickle into workers: nothing stays open.
    """

    def __init__(self, folder: str | Path) -> None:
        """Read the indices, and complete them where a writer was killed between shard and index.

        Raises:
            ArtifactError: no shard in the folder.
        """
        self.folder = Path(folder)
        self.shards = tuple(sorted(self.folder.glob("*.tar")))
        if not self.shards:
            raise ArtifactError(f"{folder} holds no shard (*.tar); is it a folder of episodes?")
        self.damage: list[Damage] = []
        self._extra: dict[int, dict[str, Any]] = {}
        shard: list[int] = []
        start: list[int] = []
        length: list[int] = []
        seen: set[bytes] = set()
        digest = hashlib.sha256()
        for k, path in enumerate(self.shards):
            rows, damage = _rows(path)
            self.damage += damage
            for row, place in rows:
                key = hashlib.blake2b(row["id"].encode(), digest_size=8).digest()
                if key in seen:
                    self.damage.append(Damage(path.name, row["id"], "stands in an earlier shard as well"))
                    continue
                seen.add(key)
                digest.update(json.dumps([row["id"], row["sha256"]]).encode())
                if place is None:
                    self._extra[len(shard)] = row
                shard.append(k)
                start.append(0 if place is None else place[0])
                length.append(0 if place is None else place[1])
        self._shard, self._start = np.array(shard, dtype=np.int32), np.array(start, dtype=np.int64)
        self._length = np.array(length, dtype=np.int32)
        self.fingerprint = digest.hexdigest()
        """Hash of all checksums: equal for equal content."""

    def __len__(self) -> int:
        return len(self._shard)

    def name(self, number: int) -> str:
        """The id of one episode."""
        return self.row(number)["id"]

    def row(self, number: int) -> dict[str, Any]:
        """The index row of one episode."""
        number = range(len(self))[number]
        if number in self._extra:
            return self._extra[number]
        with self._path(number).with_suffix(".jsonl").open("rb") as stream:
            stream.seek(int(self._start[number]))
            return _row(stream.read(int(self._length[number])), self._path(number).with_suffix(".jsonl"))

    def rows(self) -> Iterator[dict[str, Any]]:
        """All rows in order."""
        for number in range(len(self)):
            yield self.row(number)

    def read(self, number: int, *, views: bool = True) -> Episode:
        """Read one episode and check what is read of it; without its views if they are not wanted.

        Raises:
            ArtifactError: a checksum is wrong, or the shard is shorter than its index says.
            BadInput: the content is not a valid episode.
        """
        row = self.row(number)
        try:
            for part in row["parts"] if views else (MAIN, "safetensors"):
                self._check(self._source(number, row, part), row, part)
            return unpack_episode(lambda part: self._source(number, row, part), views=views)
        except BadInput as error:
            raise BadInput(f"episode {row['id']!r}: {error}") from None

    def clip(self, number: int, view: str | None = None) -> ClipSource:
        """Where the pixels of an episode lie.

        Raises:
            BadInput: it has no such view.
        """
        return self._source(number, self.row(number), MAIN if view is None else f"{view}.{MAIN}")

    def usable(self) -> Iterator[tuple[dict[str, Any], Episode]]:
        """Rows and episodes, without those that cannot be read: these are added to `damage`."""
        for number in range(len(self)):
            row = self.row(number)
            try:
                episode = self.read(number)
            except (ArtifactError, BadInput) as error:
                self.damage.append(Damage(self._path(number).name, row["id"], str(error)))
                continue
            yield row, episode

    @staticmethod
    def _check(source: ClipSource, row: Mapping[str, Any], part: str) -> None:
        if hashlib.sha256(source.read_bytes()).hexdigest() != source.sha256:
            raise ArtifactError(
                f"episode {row['id']!r} in {source.path}: {part} does not have its checksum, the shard is damaged; "
                "the other episodes can be used"
            )

    def _path(self, number: int) -> Path:
        return self.shards[self._shard[number]]

    def _source(self, number: int, row: Mapping[str, Any], part: str) -> ClipSource:
        if part not in row["parts"]:
            raise BadInput(f"episode {row['id']!r} has no {part}; it has: {', '.join(row['parts'])}")
        offset, length = row["parts"][part]
        return ClipSource(self._path(number), offset, length, row["sha256"][part])


def open_episodes(folder: str | Path) -> EpisodeSet:
    """The kept episodes of a folder of either layout.

    Raises:
        ArtifactError: it is neither.
    """
    folder = Path(folder)
    if (folder / "index.jsonl").is_file() or not any(folder.glob("*.tar")):
        return EpisodeFolder(folder)
    return ShardSet(folder)


def _locked(stream: IO[Any]) -> bool:
    """Whether a lock is had, or cannot be: a file system without locks."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    return True


# --- tar ---


def _record(
    name: str, parts: Mapping[str, bytes], row: Mapping[str, Any], start: int
) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """One episode as tar members, and the place of each part in the shard."""
    pieces: list[bytes] = []
    places, position = {}, start
    for part, data in [*parts.items(), ("json", json.dumps(row).encode())]:
        info = tarfile.TarInfo(f"{name}.{part}")
        info.size, info.mode = len(data), 0o644
        header = info.tobuf(tarfile.USTAR_FORMAT)
        padding = b"\0" * (-len(data) % _BLOCK)
        places[part] = (position + len(header), len(data))
        pieces += [header, data, padding]
        position += len(header) + len(data) + len(padding)
    del places["json"]
    return b"".join(pieces), places


def _scan(path: Path, start: int) -> Iterator[tuple[dict[str, Any] | None, int, str]]:
    """Whole episodes from a byte on as (row with parts, end, name); last (None, end, name) where one was cut off."""
    size, position, end = path.stat().st_size, start, start
    places: dict[str, tuple[int, int]] = {}
    name = ""
    with path.open("rb") as stream:
        while position < size:
            stream.seek(position)
            block = stream.read(_BLOCK)
            if not block.strip(b"\0"):
                break
            try:
                info = tarfile.TarInfo.frombuf(block, "ascii", "surrogateescape")
            except tarfile.HeaderError:
                break
            name, _, part = info.name.partition(".")
            body, after = position + _BLOCK, position + _BLOCK + info.size + -info.size % _BLOCK
            if info.size < 0 or after > size:
                break
            if part != "json":
                places[part] = (body, info.size)
            else:
                try:
                    row = _row(stream.read(info.size), path, {"parts": places, "end": after})
                except BadInput:
                    yield None, end, name
                    return
                yield row, after, name
                places, end, name = {}, after, ""
            position = after
    if name or (position < size and size - position != len(_END)):
        yield None, end, name


def _row(data: bytes, where: Path, place: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What an index, or a shard itself, says of one episode.

    Raises:
        BadInput: no row of an index, or one with a field of another type.
    """
    row = parse_json_object(data, where, nan=True) | dict(place or {})
    name, parts, sums, _ = entries(row, ("id", "parts", "sha256", "end"), where)
    if _ID.fullmatch(text(name, f"{where}: id")) is None:
        raise BadInput(f"{where}: id = {shown(name)}: expected up to 80 letters, digits, _ and -")
    integer(row["end"], f"{where}: end", high=2**62)
    for part, at in mapping(parts, f"{where}: {name}: parts").items():
        for number in listed(list(at) if isinstance(at, tuple) else at, f"{where}: {name}: {part}"):
            integer(number, f"{where}: {name}: {part}", high=row["end"])
        if len(at) != 2 or part not in mapping(sums, f"{where}: {name}: sha256"):
            raise BadInput(f"{where}: {name}: {part} has no place, or no checksum")
    return row


def _rows(path: Path) -> tuple[list[tuple[dict[str, Any], tuple[int, int] | None]], list[Damage]]:
    """Rows of a shard with their place in its index (None where only the shard has them), and what was cut off."""
    rows: list[tuple[dict[str, Any], tuple[int, int] | None]] = []
    damage: list[Damage] = []
    size, end, position = path.stat().st_size, 0, 0
    index = path.with_suffix(".jsonl")
    lines = index.read_bytes().splitlines(keepends=True) if index.is_file() else []
    for k, line in enumerate(lines, start=1):
        try:
            row = _row(line, index) if line.endswith(b"\n") else None
        except BadInput:
            row = None
        if row is None:
            if k < len(lines):
                damage.append(Damage(path.name, f"row {k}", f"{index.name} is damaged in line {k}"))
        elif row["end"] > size:
            damage.append(Damage(path.name, row["id"], f"{path.name} ends before this episode does: it was cut off"))
        else:
            rows.append((row, (position, len(line))))
            end = row["end"]
        position += len(line)
    for found, _, name in _scan(path, end) if not damage else ():
        if found is None:
            damage.append(
                Damage(path.name, name or "unknown", "its writer stopped in the middle of it, or is writing it")
            )
        else:
            rows.append((found, None))
    return rows, damage


def _recover(path: Path) -> tuple[list[dict[str, Any]], list[Damage], int]:
    """Bring a shard and its index to the last whole episode; returns (rows, what was dropped, end of the shard)."""
    rows, damage = _rows(path)
    end = max((row["end"] for row, _ in rows), default=0)
    index = path.with_suffix(".jsonl")
    if damage or any(place is None for _, place in rows) or not index.is_file() or not _ends_whole(index):
        text = "".join(json.dumps(row) + "\n" for row, _ in rows)
        write_atomic(index, text.encode())
    return [row for row, _ in rows], damage, end


def _ends_whole(index: Path) -> bool:
    data = index.read_bytes()
    return not data or data.endswith(b"\n")


def _write_all(stream: IO[bytes], data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[stream.write(view) :]
