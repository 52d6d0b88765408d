"""Steps side by side: order, results, and what an end leaves."""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from dexprior.errors import ConnectionLost, UnknownName
from dexprior.pipeline.steps import Step, _work, run_steps


def note(folder: Path, name: str, *, wait_for: str | None = None, seconds: float = 20.0) -> int:
    """Say that it was here, in which process; waits until another one was."""
    (folder / name).write_text(str(os.getpid()))
    stop = time.monotonic() + seconds
    while wait_for is not None and not (folder / wait_for).exists():
        if time.monotonic() > stop:
            raise TimeoutError(f"{name} never met {wait_for}")
        time.sleep(0.01)
    return os.getpid()


def unknown() -> None:
    raise UnknownName("fruit", "pear", ("peach",))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def done(steps, jobs):
    said: list[str] = []
    results = run_steps(
        steps, jobs=jobs, threads=1, began=lambda name: said.append(f"+{name}"),
        ended=lambda name: said.append(f"-{name}"),
    )  # fmt: skip
    return results, said


def test_what_needs_others_comes_after_them_and_the_rest_beside_them(tmp_path):
    meet = functools.partial(note, tmp_path)
    steps = {
        "a": Step(work=functools.partial(meet, "a", wait_for="b")),  # only beside each other do they end
        "b": Step(work=functools.partial(meet, "b", wait_for="a")),
        "c": Step(work=functools.partial(meet, "c"), needs=("a", "b")),
        "old": Step(work=os.getpid, finished=True),
    }
    results, said = done(steps, jobs=2)
    assert set(results) == set(steps)
    assert said.index("+c") > max(said.index("-a"), said.index("-b"))
    assert results["a"] != results["b"]
    assert results["c"] in (results["a"], results["b"])
    assert results["old"] == os.getpid()  # nothing is sent that only reads


def test_one_at_a_time_takes_this_process(tmp_path):
    steps = {name: Step(work=functools.partial(note, tmp_path, name)) for name in "ab"}
    results, said = done(steps, jobs=1)
    assert results == dict.fromkeys("ab", os.getpid())
    assert said == ["+a", "-a", "+b", "-b"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_process_takes_as_many_threads_as_it_is_told(jobs):
    torch.set_num_threads(2)
    results, _ = done({"a": Step(work=torch.get_num_threads), "b": Step(work=torch.get_num_threads)}, jobs=jobs)
    assert results == {"a": 1, "b": 1}


def test_a_step_s_error_is_the_caller_s_and_ends_what_is_beside_it(tmp_path):
    beside = functools.partial(note, tmp_path, "beside", wait_for="never", seconds=120.0)
    started = time.monotonic()
    with pytest.raises(UnknownName, match="unknown fruit 'pear'") as caught:
        done({"bad": Step(work=unknown), "beside": Step(work=beside)}, jobs=2)
    assert "in unknown" in caught.value.__notes__[0]  # where it was raised
    assert time.monotonic() - started < 60.0


def test_a_process_that_dies_is_named_by_its_step(tmp_path):
    with pytest.raises(ConnectionLost, match="the process that did bad ended with exit status -9"):
        done({"bad": Step(work=die), "fine": Step(work=os.getpid)}, jobs=2)


def test_a_step_that_needs_none_of_them_is_refused():
    with pytest.raises(ValueError, match="need what is no step"):
        done({"a": Step(work=os.getpid, needs=("b",))}, jobs=1)


_PROGRAM = """
import functools, sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_steps import note
from dexprior.pipeline.steps import Step, _work, run_steps
if __name__ == "__main__":
    work = functools.partial(note, Path({folder!r}), "child", wait_for="never", seconds=120.0)
    try:
        run_steps({{"a": Step(work=work), "b": Step(work=work)}}, jobs=2, threads=1, began=print, ended=print)
    except KeyboardInterrupt:
        sys.exit("interrupted")
"""


def test_its_processes_end_with_it_however_it_ends(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM.format(tests=str(Path(__file__).parent), folder=str(tmp_path)))
    process = subprocess.Popen([sys.executable, str(program)])
    child = tmp_path / "child"
    deadline = time.monotonic() + 60.0
    while not (child.exists() and child.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.kill()
    process.wait()
    pid = int(child.read_text())
    while alive(pid):
        assert time.monotonic() < deadline, f"process {pid} outlived its parent"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True])
def test_interrupted_with_it_they_say_nothing(late, tmp_path):
    """The terminal sends Ctrl-C to all of its processes, while they import and while they work."""
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM.format(tests=str(Path(__file__).parent), folder=str(tmp_path)))
    process = subprocess.Popen(
        [sys.executable, str(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline() == "a\n"
    assert process.stdout.readline() == "b\n"
    while late and not (tmp_path / "child").exists():
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=60)[1] == "interrupted\n"
    assert process.returncode == 1


def alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


def test_an_answer_that_nobody_waits_for_is_dropped_without_a_word(tmp_path, capfd):
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_work, args=(there, 1))
    process.start()
    there.close()
    here.send(functools.partial(note, tmp_path, "begun", wait_for="gone"))
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    here.close()
    (tmp_path / "gone").touch()
    process.join(60.0)
    assert process.exitcode == 0
    assert "Traceback" not in capfd.readouterr().err
