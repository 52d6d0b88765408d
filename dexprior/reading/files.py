"""A file's bytes and its text, bounded."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from dexprior.errors import BadInput

__all__ = ["MAX_BYTES", "existing", "gunzipped", "most_unpacked", "read_bytes", "read_text", "text_of"]

MAX_BYTES = 1 << 28
"""Largest file [bytes] that is read whole; parsed JSON takes some twenty times its text in memory."""

_GROWTH = 64
_PIECE = 256  # bytes of a damaged stream that are lost with the damage, at most

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def existing(path: str | Path, *, absent: str = "") -> Path:
    """The path of a regular file.

    Args:
        path: the file.
        absent: what to say where it does not exist, after "no such file".

    Raises:
        BadInput: there is none, or it is a folder or a device.
    """
    path = Path(path)
    if "\0" in str(path):
        raise BadInput(f"{str(path)[:200]!r} is no path: it holds a NUL")
    try:
        if path.is_file():
            return path
        found = "a folder" if path.is_dir() else "no regular file" if path.exists() else None
    except OSError as error:  # a name too long, or a folder that may not be entered
        raise BadInput(f"{str(path)[:200]!r} is no path: {error}") from None
    if found:
        raise BadInput(f"{path} is {found}, expected a file")
    raise BadInput(f"{path}: no such file{f'. {absent}' if absent else ''}")


def read_bytes(path: str | Path, *, max_bytes: int = MAX_BYTES, absent: str = "") -> bytes:
    """The bytes of a file.

    Raises:
        BadInput: no such file, a folder, larger than `max_bytes`, or it cannot be read.
    """
    path = existing(path, absent=absent)
    try:
        with path.open("rb") as stream:
            if (size := os.fstat(stream.fileno()).st_size) > max_bytes:
                raise BadInput(f"{path} has {size:,} bytes, at most {max_bytes:,} are read")
            return stream.read(size)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}") from None


def read_text(path: str | Path, *, max_bytes: int = MAX_BYTES, absent: str = "") -> str:
    """The text of a file in UTF-8, without a byte-order mark.

    Raises:
        BadInput: as `read_bytes` and `text_of`.
    """
    return text_of(read_bytes(path, max_bytes=max_bytes, absent=absent), path)


def text_of(data: bytes, where: object) -> str:
    """Bytes as text, without the byte-order mark that spreadsheets put before it.

    Raises:
        BadInput: not UTF-8, or bytes of zero: a file of another kind.
    """
    if data.startswith(_UTF16):
        raise BadInput(f"{where} is text in UTF-16, expected UTF-8: save it again as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{where} is not text in UTF-8: byte {error.start} is 0x{data[error.start]:02x}; "
            "it is a binary file, or text in another encoding"
        ) from None
    if "\0" in text:
        raise BadInput(f"{where} is not text: character {text.index(chr(0))} is a NUL")
    return text


def most_unpacked(size: int) -> int:
    """Bytes that a packed file of `size` bytes may become: what a file may have, or 64 times its own."""
    return max(MAX_BYTES, _GROWTH * size)


def gunzipped(data: bytes, where: object) -> tuple[bytes, str]:
    """What a gzip stream holds up to its end or its damage, and what is wrong with the rest; "" where nothing is.

    Raises:
        BadInput: it unpacks to far more than its size.
    """
    pieces, size, most = [], 0, most_unpacked(len(data))
    engine, wrong = zlib.decompressobj(wbits=31), ""
    for k in range(0, len(data), _PIECE):
        rest = data[k : k + _PIECE]
        try:
            while rest:
                if engine.eof:  # another stream follows, as `cat a.gz b.gz` makes
                    engine = zlib.decompressobj(wbits=31)
                pieces.append(engine.decompress(rest))
                size += len(pieces[-1])
                rest = engine.unused_data
        except zlib.error as error:
            wrong = f"the gzip stream is damaged ({error})"
            break
        if size > most:
            raise BadInput(f"{where} unpacks to more than {most:,} bytes, which its {len(data):,} cannot mean")
    if not wrong and not engine.eof:
        wrong = "the gzip stream is damaged (it breaks off before its end)"
    return b"".join(pieces), wrong
