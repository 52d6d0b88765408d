"""Killed at any of its files, a command that is given again ends where the uninterrupted one does."""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path

import pytest
from sources import SOURCES

from dexprior.artifacts import read_tensors
from dexprior.cli.main import main

pytestmark = pytest.mark.slow
_WRITE = (
    "motion capture", "trace out", "trace of one table", "trace of LeRobot", "VideoX-Fun", "recording", "LeRobot v2",
    "landmarks",
)  # fmt: skip
_PASSING = re.compile(r'"(created|seconds|versions|mark)": [^,}]*|/[^"<, ]*/(whole|killed)')


def call(words: list[str], *, kill_at: int = -1) -> tuple[int, int]:
    """Exit status and number of files written of a call in a process of its own, which dies before the `kill_at`-th."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(120)
        written, put = 0, {name: getattr(os, name) for name in ("replace", "rename")}

        def counted(name):
            def move(*args, **kwargs):
                nonlocal written
                if written == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                written += 1
                return put[name](*args, **kwargs)

            return move

        os.replace, os.rename = counted("replace"), counted("rename")
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        status = main(words)
        os.write(into, str(written).encode())
        os._exit(status)
    os.close(into)
    with os.fdopen(out) as stream:
        written = stream.read()
    _, ended = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(ended), int(written or 0)


def content(folder: Path) -> dict[str, object]:
    """What a call left, without what passes: when, by whom, where."""
    found: dict[str, object] = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = str(path.relative_to(folder))
        if path.suffix == ".safetensors":
            arrays = read_tensors(path)[0]
            found[name] = {key: (value.dtype, value.shape, value.tobytes()) for key, value in arrays.items()}
        elif path.suffix in (".json", ".jsonl", ".csv", ".yaml"):
            found[name] = _PASSING.sub("", path.read_text())
        else:
            found[name] = "there"
    return found


@pytest.mark.parametrize("name", _WRITE)
def test_killed_before_any_of_its_files_it_ends_as_the_uninterrupted_one(name, tmp_path):
    (tmp_path / "d").mkdir()
    SOURCES[name].make(tmp_path / "d")

    def words(out: str) -> list[str]:
        (tmp_path / out).mkdir(exist_ok=True)
        shutil.copytree(tmp_path / "d", tmp_path / out / "d", dirs_exist_ok=True)
        return [word.format(d=tmp_path / out / "d", o=tmp_path / out) for word in SOURCES[name].words]

    status, written = call(words("whole"))
    assert status in (0, SOURCES[name].rest)
    assert call(words("killed"), kill_at=0)[0] == -signal.SIGKILL
    for kill_at in sorted({written // 2, written - 1} - {0}):
        assert call(words("killed"), kill_at=kill_at)[0] in (-signal.SIGKILL, status)  # less may be left to write
    assert call(words("killed"))[0] == status
    assert content(tmp_path / "killed") == content(tmp_path / "whole")
