"""Decoded frames, or what a network makes of them, kept on disk and mapped into memory.

An entry is one safetensors file whose name is the hash of everything that its content depends on: the source's bytes,
the settings, and the versions of what decodes. A changed source or setting has another name, so that an entry is never
stale; old ones are left for `prune`. Entries are written atomically, by any number of processes, and only read after.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dexprior.artifacts import tensor_header, write_atomic
from dexprior.data.readers import ClipReader, ClipSource, Frames, as_source
from dexprior.errors import ArtifactError, BadInput

__all__ = ["ArrayCache", "FrameCache", "content_hash"]

_FORMAT = 1
_SETTLED = 2.0  # [s] a file that changed later than so before it was hashed may change again unseen
_REMEMBERED = 4096

_hashes: OrderedDict[Path, tuple[tuple[int, ...], str]] = OrderedDict()


def content_hash(clip: ClipSource | str | Path) -> str:
    """SHA-256 of a source's bytes; known from the index for shards, and remembered for files that did not change.

    A file counts as unchanged while inode, size, and the times of content and inode are; the last cannot be set back.

    Raises:
        BadInput: no such file.
    """
    source = as_source(clip)
    if source.sha256 is not None:
        return source.sha256
    try:
        state = source.path.stat()
    except OSError:
        raise BadInput(f"no clip at {source.path}") from None
    stamp = (state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    known = _hashes.get(source.path) if source.length is None else None
    if known is not None and known[0] == stamp:
        return known[1]
    found = hashlib.sha256(source.read_bytes()).hexdigest()
    if source.length is None and time.time() - max(state.st_mtime, state.st_ctime) > _SETTLED:
        _hashes[source.path] = stamp, found
        if len(_hashes) > _REMEMBERED:
            _hashes.popitem(last=False)
    return found


class ArrayCache:
    """Arrays by the hash of what they depend on."""

    def __init__(self, folder: str | Path) -> None:
        """Entries lie in `folder`, which is made when missing."""
        self.folder = Path(folder)

    def path(self, key: dict[str, Any]) -> Path:
        """Where the entry of a key lies.

        Args:
            key: plain data; all that the array depends on.
        """
        text = json.dumps({"format": _FORMAT, **key}, sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()
        return self.folder / name[:2] / f"{name[2:]}.safetensors"

    def get(self, key: dict[str, Any], make: Callable[[], np.ndarray]) -> np.ndarray:
        """The array of a key, mapped read-only; made and written when it is not there, or damaged.

        Raises:
            ArtifactError: it cannot be written (a full disk); other entries stay.
        """
        path = self.path(key)
        found = _map(path)
        if found is None:
            self._write(path, make(), key)
            found = _map(path)
            assert found is not None
        return found

    def prune(self, keep: Iterable[dict[str, Any]]) -> int:
        """Remove all entries but these; returns how many files were removed. Not while others write."""
        kept = {self.path(key) for key in keep}
        removed = [path for path in self.folder.glob("??/*.safetensors") if path not in kept]
        removed += self.folder.glob("??/.*.tmp")  # of killed writers
        for path in removed:
            path.unlink(missing_ok=True)
        return len(removed)

    def _write(self, path: Path, array: np.ndarray, key: dict[str, Any]) -> None:
        from safetensors.numpy import save as dump

        data = dump({"array": np.asarray(array, order="C")}, metadata={"key": json.dumps(key, sort_keys=True)})
        try:
            write_atomic(path, data)
        except OSError as error:
            raise ArtifactError(
                f"the cache {self.folder} cannot be written ({error.strerror}): free some space"
            ) from None


class FrameCache:
    """Clips at one size, decoded once.

    A read equals the uncached read of `ClipReader` to the last bit. Whole clips are kept: a clip of n frames takes
    3 * height * width * n bytes.
    """

    def __init__(self, folder: str | Path, *, size: tuple[int, int] | None = None) -> None:
        """Entries lie in `folder`; `size` is (height, width), the clip's own when omitted."""
        self.size, self.arrays = size, ArrayCache(folder)

    def key(self, clip: ClipSource | str | Path) -> dict[str, Any]:
        """All that the frames of a clip depend on."""
        return {"frames": content_hash(clip), "size": self.size, "decoder": _decoder()}

    def clip(self, clip: ClipSource | str | Path) -> Frames:
        """All frames, mapped read-only.

        Raises:
            BadInput: see `ClipReader`.
            ArtifactError: the bytes of a shard's clip do not have their checksum, or see `ArrayCache.get`.
        """
        source = as_source(clip)
        return self.arrays.get(self.key(source), lambda: self._decode(source))

    def read(self, clip: ClipSource | str | Path, frames: Sequence[int] | range) -> Frames:
        """Copies of the frames of these numbers; errors as `clip`, and `BadInput` for a number outside the clip."""
        whole = self.clip(clip)
        if not len(frames) or min(frames) < 0 or max(frames) >= len(whole):
            raise BadInput(f"{clip} has {len(whole)} frames; {list(frames)[:20]} cannot be read")
        if isinstance(frames, range) and frames.step == 1:
            return np.array(whole[frames.start : frames.stop])
        return whole[np.asarray(frames, dtype=np.int64)]

    def latent(
        self, clip: ClipSource | str | Path, settings: dict[str, Any], make: Callable[[Frames], np.ndarray]
    ) -> np.ndarray:
        """What `make` returns for the frames of a clip, e.g. an encoder's latents; mapped read-only.

        Args:
            clip: the source.
            settings: plain data that names `make` and all that it depends on, e.g. the hash of its weights.
            make: called with all frames where there is no entry yet.
        """
        source = as_source(clip)
        return self.arrays.get({"latent": settings, **self.key(source)}, lambda: np.asarray(make(self._decode(source))))

    def _decode(self, source: ClipSource) -> Frames:
        if source.sha256 is not None and hashlib.sha256(source.read_bytes()).hexdigest() != source.sha256:
            raise ArtifactError(f"{source} does not have the checksum of its index: the shard is damaged")
        with ClipReader(source, size=self.size) as reader:
            return reader.read(range(len(reader)))


@functools.cache
def _decoder() -> str:
    return f"pyav {importlib.metadata.version('av')} bilinear"


_DTYPES = {"U8": np.uint8, "I8": np.int8, "I16": np.int16, "F16": np.float16, "F32": np.float32, "F64": np.float64}


def _map(path: Path) -> np.ndarray | None:
    """The array of an entry; None where there is none or it is not whole."""
    try:
        with path.open("rb") as stream:
            header, start = tensor_header(stream)
            entry = header["array"]
            size = os.fstat(stream.fileno()).st_size
        if size != start + entry["data_offsets"][1]:
            return None
        return np.memmap(path, _DTYPES[entry["dtype"]], "r", start, tuple(entry["shape"])).view(np.ndarray)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None
