"""A folder has one writer, whatever became of the last one."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dexprior.artifacts import RunFolder, claimed, claims, write_atomic
from dexprior.children import rank, ranks
from dexprior.errors import ArtifactError

_HOLDER = """
import sys, time
from dexprior.artifacts import claimed
with claimed(sys.argv[1], beside=len(sys.argv) > 2):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder():
    """Starts a process that holds a place."""
    started = []

    def hold(place, *words: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", _HOLDER, str(place), *words], stdout=subprocess.PIPE, text=True
        )  # fmt: skip
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(claims, "_PATIENCE", 0.2)


def test_a_second_process_is_refused_and_told_which_has_the_folder(holder, tmp_path):
    process = holder(tmp_path / "run")
    said = f"run is being written by process {process.pid} on .*: wait until"
    with pytest.raises(ArtifactError, match=said), claimed(tmp_path / "run"):
        pass
    with pytest.raises(ArtifactError, match="is being written by"):
        RunFolder(tmp_path / "run", "stage", {}, 0).open()
    assert not (tmp_path / "run" / "run.json").exists()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    with pytest.raises(ArtifactError, match="is being written by"), claimed(tmp_path / "link"):
        pass
    with claimed(tmp_path / "other"), claimed(tmp_path / "run" / "below"):
        pass


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_writer_that_ended_in_any_way_holds_nothing(end, holder, tmp_path):
    process = holder(tmp_path / "run")
    process.send_signal(end)
    with claimed(tmp_path / "run"):
        assert (tmp_path / "run" / ".lock").exists()
    assert not (tmp_path / "run" / ".lock").exists()


def test_one_waits_for_a_writer_that_is_about_to_end(holder, tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "_PATIENCE", 20.0)
    process = holder(tmp_path)
    subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -9 {process.pid}"])
    with claimed(tmp_path):
        assert process.wait(5) == -signal.SIGKILL


def test_a_file_is_held_beside_it_and_its_folder_stays_free(holder, tmp_path):
    holder(tmp_path / "a.json", "beside")
    with pytest.raises(ArtifactError, match=r"a\.json is being written by"), claimed(tmp_path / "a.json", beside=True):
        pass
    with claimed(tmp_path / "b.json", beside=True), claimed(tmp_path):
        pass


def test_what_nothing_was_written_to_is_left_as_it_was_found(tmp_path):
    with claimed(tmp_path / "a" / "b" / "c"):
        assert (tmp_path / "a" / "b" / "c").is_dir()
    assert list(tmp_path.iterdir()) == []
    with claimed(tmp_path / "a" / "b" / "c.json", beside=True):
        (tmp_path / "a" / "kept").touch()
    assert sorted(p.name for p in (tmp_path / "a").rglob("*")) == ["kept"]


def test_the_same_process_may_claim_within_a_claim_in_any_order_of_release(tmp_path):
    outer, inner = claims.Claim(tmp_path / "x"), claims.Claim(tmp_path / "x")
    outer.release()
    assert (tmp_path / "x" / ".lock").exists()
    inner.release()
    inner.release()
    assert not (tmp_path / "x").exists()
    RunFolder(tmp_path / "x", "stage", {}, 0).open()  # collected, and with it its claim
    assert sorted(os.listdir(tmp_path / "x")) == ["run.json"]


def test_a_run_folder_is_held_until_it_is_finished(tmp_path):
    run = RunFolder(tmp_path, "stage", {}, 0).open()
    assert (tmp_path / ".lock").exists()
    run.finish({})
    assert sorted(os.listdir(tmp_path)) == ["done.json", "run.json"]
    RunFolder(tmp_path, "stage", {}, 0).open()  # it is only read
    assert not (tmp_path / ".lock").exists()


def test_only_the_first_of_several_ranks_holds_a_folder_and_keeps_the_record(holder, tmp_path, monkeypatch):
    holder(tmp_path)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert (rank(), ranks()) == (1, 2)
    with claimed(tmp_path):
        RunFolder(tmp_path, "stage", {}, 0).open()
    assert not (tmp_path / "run.json").exists()
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name)
    assert (rank(), ranks()) == (0, 1)


def test_where_a_file_system_has_no_locks_one_line_says_so(tmp_path, monkeypatch, capsys):
    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with claimed(tmp_path / "run"):
        write_atomic(tmp_path / "run" / "a", b"x")
    said = capsys.readouterr().err.splitlines()
    assert said == [f"{tmp_path / 'run'}: its file system has no locks; start no second command that writes there"]
    assert sorted(os.listdir(tmp_path / "run")) == ["a"]


def test_what_killed_writers_left_is_cleared_and_what_others_write_is_not(tmp_path):
    gone = subprocess.Popen(["true"])
    gone.wait()
    left = [
        f".a.{gone.pid}.tmp",
        f"deep/er/.b.npz.{gone.pid}.tmp",
        f".c.{gone.pid}.partial/data/x",
        f"own/.d.{gone.pid}.tmp",
    ]
    kept = [f".a.{os.getppid()}.tmp", "a", ".a.tmp", "deep/.b.x.tmp", "own/run.json"]
    for name in (*left, *kept):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    with claimed(tmp_path):
        now = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert now == sorted([*kept, f"own/.d.{gone.pid}.tmp", ".lock"])  # a run of its own is cleared when it goes on
    (tmp_path / f".a.{gone.pid}.tmp").touch()
    (tmp_path / f".z.{gone.pid}.tmp").touch()
    with claimed(tmp_path / "a", beside=True):
        assert not (tmp_path / f".a.{gone.pid}.tmp").exists()
    assert (tmp_path / f".z.{gone.pid}.tmp").exists()


def test_a_full_disk_keeps_the_old_file_and_nothing_else_and_names_it(tmp_path, monkeypatch):
    write_atomic(tmp_path / "a", b"old")
    write = Path.write_bytes

    def full(path, data):
        write(path, data[:3])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path / 'a'}'"):
        write_atomic(tmp_path / "a", b"newer")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"old"}


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    for place, beside in ((tmp_path / "file" / "x", False), (tmp_path / "file" / "x.json", True)):
        with pytest.raises(OSError, match=f"'{place}'"), claimed(place, beside=beside):
            pass
    assert sorted(os.listdir(tmp_path)) == ["file"]


def test_two_that_start_at_once_never_both_hold(tmp_path):
    """Locks are taken away when they are released: whoever waited on one that is gone must take the next."""
    code = """
import sys, os
from dexprior.artifacts import claimed
for _ in range(60):
    with claimed(sys.argv[1]):
        os.close(os.open(sys.argv[2], os.O_CREAT | os.O_EXCL))
        os.unlink(sys.argv[2])
"""
    command = [sys.executable, "-c", code, str(tmp_path / "run"), str(tmp_path / "alone")]
    started = time.monotonic()
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=60)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert time.monotonic() - started < 60
