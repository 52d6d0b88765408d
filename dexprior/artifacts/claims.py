"""Whoever writes a folder has it alone: a lock that the kernel frees when its process ends, however it does."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import re
import shutil
import socket
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

from dexprior.children import rank
from dexprior.errors import ArtifactError
from dexprior.progress import say

__all__ = ["NO_LOCKS", "Claim", "claimed"]

_LOCK = ".lock"
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""What a file system without locks answers."""
_PATIENCE = 5.0  # [s] that a process may need to end whose parent was killed
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<pid>\d{1,9})\.(tmp|partial)")  # of `write_atomic` and its like
_MANY = 50_000  # entries of a folder that are looked through for what killed writers left
_mine: dict[Path, int] = {}  # locks that this process holds, and how often
_held: dict[Path, tuple[int, list[Path]]] = {}  # of those whose first claim was released before the others


class Claim:
    """A folder or file that this process writes, until `release` or until this object is collected.

    The same process may claim a place again within a claim of it; of several ranks the first holds it. What killed
    writers left there is cleared; folders that nothing was written to are taken away again.
    """

    def __init__(self, place: str | Path, *, beside: bool = False) -> None:
        """Claim a place.

        Args:
            place: a folder, which is made; or a file, of which the folder is made.
            beside: lock beside the place, as for a file, where the folder itself must not exist yet.

        Raises:
            ArtifactError: another process holds it; the message says which.
            OSError: the folder cannot be made or written; it names the place.
        """
        place = Path(place)
        lock = (place.with_name(f".{place.name}{_LOCK}") if beside else place / _LOCK).resolve()
        held, made = None, []
        if rank() == 0 and lock not in _mine:
            made = [folder for folder in (lock.parent, *lock.parent.parents) if not folder.exists()]
            try:
                held = _hold(lock, place)
                _clear(lock.parent, place.name if beside else None)
            except OSError as error:
                _leave(lock, held, made)
                raise type(error)(error.errno, error.strerror, str(place)) from None
            except ArtifactError:
                _leave(lock, None, made)
                raise
        _mine[lock] = _mine.get(lock, 0) + 1
        self.release = weakref.finalize(self, _release, os.getpid(), lock, held, made)


@contextlib.contextmanager
def claimed(place: str | Path, *, beside: bool = False) -> Iterator[None]:
    """Have a folder or file alone while it is written: a `Claim` for a block of code."""
    claim = Claim(place, beside=beside)
    try:
        yield
    finally:
        claim.release()


def _release(pid: int, lock: Path, held: int | None, made: list[Path]) -> None:
    if pid != os.getpid():  # a process that was forked within the claim
        return
    if held is not None:
        _held[lock] = held, made
    _mine[lock] -= 1
    if not _mine[lock]:
        del _mine[lock]
        _leave(lock, *_held.pop(lock, (None, [])))


def _hold(lock: Path, place: Path) -> int:
    """The open file of a lock; one line says so where its file system has none."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:  # another took the folder away, which nothing had been written to
            if time.monotonic() > until:
                raise
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = os.pread(handle, 200, 0).decode(errors="replace") or "another process"
            os.close(handle)
            if time.monotonic() > until:
                raise ArtifactError(
                    f"{place} is being written by {who}: wait until that has ended, or give another output folder"
                ) from None
            time.sleep(0.05)
            continue
        except OSError as error:
            if error.errno not in NO_LOCKS:
                os.close(handle)
                raise
            say(f"{place}: its file system has no locks; start no second command that writes there")
            return handle
        if _is_at(lock, handle):  # and not taken away by the one that held it before
            with contextlib.suppress(OSError):  # a full disk: only a message loses a name
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
            return handle
        os.close(handle)


def _is_at(lock: Path, handle: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(lock.stat(), os.fstat(handle))
    return False


def _leave(lock: Path, handle: int | None, made: list[Path]) -> None:
    if handle is not None:
        lock.unlink(missing_ok=True)
        os.close(handle)
    for folder in made:
        with contextlib.suppress(OSError):  # something was written
            folder.rmdir()


def _clear(folder: Path, name: str | None) -> None:
    """Take away the half-written files of processes that are no more: all but in runs of their own, or of one file."""
    for path in itertools.islice(_entries(folder) if name is None else folder.iterdir(), _MANY):
        found = _TEMPORARY.fullmatch(path.name)
        if found and name in (None, found["name"]) and not _runs(int(found["pid"])):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _entries(folder: Path) -> Iterator[Path]:
    for where, folders, files in os.walk(folder):
        folders[:] = [below for below in folders if not os.path.exists(os.path.join(where, below, "run.json"))]
        yield from (Path(where) / name for name in [*folders, *files])


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another's
        return True
    return True
