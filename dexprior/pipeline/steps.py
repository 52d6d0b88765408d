"""Steps of long work, of which some need others: side by side in a few processes, or one after the other in this one.

A step's result does not depend on where it runs, nor beside what: it is a function of its own arguments and of the
files of those that it needs.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any

from dexprior.children import Interruptions, end_with_parent, unheard
from dexprior.errors import ConnectionLost

__all__ = ["Step", "cores_each", "run_steps"]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One of them."""

    work: Callable[[], Any]
    """Can be sent to another process, as its result can."""
    needs: tuple[str, ...] = ()
    """Steps that come before it."""
    finished: bool = False
    """Whether it only reads what was done before, which is not worth sending."""


def cores_each(jobs: int) -> int:
    """Threads for each of so many processes."""
    return max((os.cpu_count() or 1) // jobs, 1)


def run_steps(
    steps: Mapping[str, Step],
    *,
    jobs: int,
    threads: int | None,
    began: Callable[[str], None],
    ended: Callable[[str], None],
) -> dict[str, Any]:
    """Do all steps; returns their results.

    Args:
        steps: in an order in which each comes after what it needs, and is begun as early as it can be.
        jobs: how many are done side by side, each in a process of its own; 1 takes this process.
        threads: of torch, in each process; None leaves it to torch.
        began: told the name of a step that begins.
        ended: told the name of a step that is done.

    Raises:
        ConnectionLost: a process ended without an answer.
        Exception: what a step raised; steps beside it are ended, and go on from their last state when done again.
    """
    todo, results = dict(steps), {}

    def ready() -> str | None:
        return next((name for name, step in todo.items() if all(need in results for need in step.needs)), None)

    def here(name: str) -> None:
        step = todo.pop(name)
        began(name)
        results[name] = step.work()
        ended(name)

    if jobs == 1:
        _use(threads)
    to_send = 0 if jobs == 1 else sum(not step.finished for step in steps.values())
    with _Crew(min(jobs, to_send), threads) as crew:
        while todo or crew.busy:
            name = ready()
            if name is not None and (jobs == 1 or todo[name].finished):
                here(name)
            elif name is not None and crew.free:
                began(name)
                crew.send(name, todo.pop(name).work)
            elif crew.busy:
                for done, result in crew.wait():
                    results[done] = result
                    ended(done)
            else:
                raise ValueError(f"steps {', '.join(todo)} need what is no step: {todo}")
    return results


class _Crew:
    """Processes that do one step at a time; they end with this one, however it does."""

    def __init__(self, n: int, threads: int | None) -> None:
        context = multiprocessing.get_context("spawn")
        self._members: list[tuple[Any, Connection]] = []
        self.busy: dict[Connection, str] = {}
        kept = os.environ.get(_LINE_OF_BAR)
        for k in range(n):
            mine, its = context.Pipe()
            os.environ[_LINE_OF_BAR] = str(k)  # two bars do not write over each other
            process = context.Process(target=_work, args=(its, threads), daemon=False)
            with unheard():
                process.start()
            its.close()
            self._members.append((process, mine))
        if n:
            os.environ.pop(_LINE_OF_BAR)
        if kept is not None:
            os.environ[_LINE_OF_BAR] = kept

    @property
    def free(self) -> bool:
        """Whether one has nothing to do."""
        return len(self.busy) < len(self._members)

    def send(self, name: str, work: Callable[[], Any]) -> None:
        """Give a step to one that has nothing to do."""
        line = next(line for _, line in self._members if line not in self.busy)
        line.send(work)
        self.busy[line] = name

    def wait(self) -> list[tuple[str, Any]]:
        """Names and results of steps that are done; waits until there is one."""
        done = []
        for line in wait(list(self.busy)):
            assert isinstance(line, Connection)
            name = self.busy.pop(line)
            try:
                result, error, trace = line.recv()
            except EOFError:
                process = next(process for process, its in self._members if its is line)
                process.join()
                raise ConnectionLost(
                    f"the process that did {name} ended with exit status {process.exitcode}; what it had finished is "
                    "kept, and the same command goes on from there"
                ) from None
            if error is not None:
                error.add_note(trace)
                raise error
            done.append((name, result))
        return done

    def __enter__(self) -> _Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process, line in self._members:
            if process.is_alive() and line in self.busy:
                os.kill(process.pid, signal.SIGINT)  # its own children end in order
            line.close()
        for process, _ in self._members:
            process.join(_ENDING)
            if process.is_alive():
                process.kill()
                process.join()


_LINE_OF_BAR = "TQDM_POSITION"
_ENDING = 20.0  # [s] until a process is killed that was asked to end


def _work(line: Connection, threads: int | None) -> None:
    """Do what comes, until nothing can come any more."""
    end_with_parent()
    _use(threads)
    try:
        interruptions = Interruptions()
        while True:
            work = line.recv()
            answer: tuple[Any, Exception | None, str]
            try:
                with interruptions.heard():
                    answer = work(), None, ""
            except Exception as error:  # noqa: BLE001  # `_Crew.wait` raises it
                answer = None, error, traceback.format_exc()
            line.send(answer)
    except (EOFError, BrokenPipeError, KeyboardInterrupt):  # whoever asked has gone
        return


def _use(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
