"""Workers end with whoever started them, leave nothing locked, and say nothing when they are interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dexprior.data.shards import ShardSet
from dexprior.worlds.render import check_graphics

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(check_graphics() is not None, reason="no off-screen rendering here"),
]
COMMAND = [
    sys.executable, "-m", "dexprior", "data", "generate", "task=pick_place", "n=18", "suite.workers=2", "suite.size=16",
    "suite.cameras=[front]", "suite.depth=[]", "suite.refine.rounds=0", "out=made",
]  # fmt: skip


def start(folder: Path, said: str = "said.txt") -> subprocess.Popen:
    with (folder / said).open("w") as stream:
        return subprocess.Popen(
            COMMAND, cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=stream, stderr=stream,
            start_new_session=True,
        )  # fmt: skip


def wait_for(holds, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def of_session(session: int) -> list[int]:
    """Processes of a session that are not zombies."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, theirs = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(theirs) == session and state != "Z":
                found.append(int(entry.name))
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    assert start(folder).wait(240) == 0, (folder / "said.txt").read_text()
    return folder / "made"


def clips(folder: Path) -> dict[str, np.ndarray]:
    found = ShardSet(folder)
    assert not found.damage
    return {row["id"]: found.read(k).sample.hand.joints for k, row in enumerate(found.rows())}


def test_after_its_main_process_was_killed_the_same_command_goes_on_at_once(whole, tmp_path):
    killed = start(tmp_path)
    made = tmp_path / "made"
    wait_for(lambda: any(path.stat().st_size for path in made.glob("*.jsonl")))  # an episode is whole
    killed.kill()
    killed.wait()
    again = start(tmp_path, "again.txt")
    assert again.wait(240) == 0, (tmp_path / "again.txt").read_text()
    assert of_session(killed.pid) == []
    mine, theirs = clips(made), clips(whole)
    assert sorted(mine) == sorted(theirs)
    for name, joints in theirs.items():
        np.testing.assert_array_equal(mine[name], joints)
    assert not list(made.glob(".lock")) + list(made.glob(".*.tmp"))


@pytest.mark.parametrize("when", ["its workers start", "its workers work"])
def test_interrupted_it_says_one_line_and_another_beside_it_is_refused(when, tmp_path):
    """The terminal sends Ctrl-C to all processes."""
    first = start(tmp_path)
    if when == "its workers start":
        wait_for(lambda: len(of_session(first.pid)) >= 3)
        time.sleep(0.3)  # into their imports
    else:
        wait_for(lambda: any((tmp_path / "made").glob("*.jsonl")))
    if when == "its workers work":
        beside = start(tmp_path, "beside.txt")
        assert beside.wait(60) == 1
        (told,) = (tmp_path / "beside.txt").read_text().splitlines()
        assert told.startswith(f"dexprior data: made is being written by process {first.pid} on ")
    os.killpg(first.pid, signal.SIGINT)
    assert first.wait(60) == 130
    said = (tmp_path / "said.txt").read_text()
    assert "Traceback" not in said, said
    assert said.splitlines()[-1] == "dexprior data: interrupted; the same command goes on from the last checkpoint"
    wait_for(lambda: not of_session(first.pid), 20)
