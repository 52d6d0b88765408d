"""Human demonstrations of the task suite, simulated, filmed and written by several processes.

Demonstrations are made in batches of a fixed size: the sentence is drawn first and decides the strategy, the object is
drawn from another stream. A batch is a function of (config, seed, its number), so that the same episodes come out
whatever the number of processes, and a killed run goes on where it stopped.
"""

from __future__ import annotations

import functools
import multiprocessing
import multiprocessing.util
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dexprior.artifacts import claimed, read_object, write_json
from dexprior.children import Interruptions, end_with_parent, unheard
from dexprior.config import Ge, Le, config, difference, to_plain
from dexprior.data.demonstrating.episodes import episode_of
from dexprior.data.demonstrating.film import FilmCrew
from dexprior.data.shards import ShardSet, ShardWriter
from dexprior.errors import ArtifactError, BadInput, ConnectionLost, UnknownName
from dexprior.families import drawn_outside
from dexprior.worlds.tasks import SUITE, Task, TaskWorlds, human_task, strategies_of, strategy_of
from dexprior.worlds.tasks.scene import CAMERAS
from dexprior.worlds.tasks.strategies import RefineConfig, demonstrate

__all__ = ["TaskDemonstrationConfig", "generate_demonstrations"]

_SETTINGS = "settings.json"
_PATIENCE = 30.0  # [s] that a worker of a killed call may need to end, which still holds its writer's name
_BATCH = 16  # demonstrations simulated together; part of what decides the episodes


@config
class TaskDemonstrationConfig:
    """How many demonstrations, and what is kept of them."""

    n: Annotated[int, Ge(1)] = 1000
    """Demonstrations; failures are among them, labelled."""
    size: Annotated[int, Ge(16)] = 64
    """Width and height of the videos [px]."""
    every: Annotated[int, Ge(1), Le(5)] = 2
    """Control periods (40 ms) between two frames: 2 gives 12.5 frames a second."""
    cameras: tuple[str, ...] = ("front", "side")
    """The first one's frames are the sample's own."""
    depth: tuple[str, ...] = ("front",)
    """Cameras whose depth is kept as well."""
    points: Annotated[int, Ge(8)] = 64
    """Points in the object cloud."""
    workers: Annotated[int, Ge(0)] = 0
    """Processes; 0 takes one per core, at most eight."""
    refine: RefineConfig = RefineConfig()
    """What is done where the first try fails."""
    drawn: bool = False
    """Whether people live in worlds that are drawn from beyond the ends of the training family, a new one each, and not
    all in the task's other world."""
    constants: dict[str, float] = field(default_factory=dict)
    """Parameters of these worlds that all of them have, by name, e.g. constants.pad_friction=0.9."""

    def __post_init__(self) -> None:
        for name in self.cameras:
            if name not in CAMERAS:
                raise UnknownName("camera", name, tuple(CAMERAS))
        if not self.cameras or len(set(self.cameras)) < len(self.cameras):
            raise BadInput(f"cameras = {self.cameras}: at least one, none of them twice")
        for name in self.depth:
            if name not in self.cameras:
                raise UnknownName("camera with depth", name, self.cameras)


def generate_demonstrations(
    task: str, config: TaskDemonstrationConfig, folder: str | Path, *, seed: int
) -> dict[str, float]:
    """Make demonstrations in a folder of shards, or go on making them.

    Args:
        task: one of `demonstrated_tasks`.
        config: see there.
        folder: made when missing; read it with `dexprior.data.shards.open_episodes`.
        seed: of everything.

    Returns:
        `episodes`, `successes` and `success`, their share, of all
        the task's episodes in the folder; `made` in this call.

    Raises:
        UnknownName: a task without demonstrations, or a constant that its worlds do not have.
        NoGraphics: frames cannot be rendered here.
        ArtifactError: the folder cannot be written, or holds demonstrations of this task and seed with other settings.
    """
    strategies_of(task)  # a task without any is named before a folder is made
    for name in config.constants:
        if name not in (known := human_task(task, 0).reality.names):
            raise UnknownName(f"parameter of the worlds in which {task!r} is demonstrated", name, known)
    with claimed(folder):
        return _generate(task, config, Path(folder), seed)


def _generate(task: str, config: TaskDemonstrationConfig, folder: Path, seed: int) -> dict[str, float]:
    from tqdm import tqdm

    done = frozenset(row["id"] for row in ShardSet(folder).rows()) if any(folder.glob("*.tar")) else frozenset()
    _keep_settings(folder, task, config, seed, fresh=not any(name.startswith(f"{task}-s{seed}-") for name in done))
    missing = [
        b for b in range(-(-config.n // _BATCH)) if not all(name in done for name in _names(task, config, seed, b))
    ]
    if missing:
        workers = min(config.workers or min(os.cpu_count() or 1, 8), len(missing))
        context = multiprocessing.get_context("spawn")
        start = (str(folder), context.Value("i", 0))
        bar = tqdm(total=config.n, initial=config.n - _open(task, config, seed, missing, done), unit="clip", desc=task)
        with bar, ProcessPoolExecutor(workers, context, _start_worker, start) as pool:
            with unheard():
                jobs = [pool.submit(_make_batch, task, config, seed, b, done) for b in missing]
            try:
                for job in as_completed(jobs):
                    bar.update(job.result())
            except BrokenProcessPool:
                raise ConnectionLost(
                    f"a process that made demonstrations of {task!r} ended before its work did; what was finished is "
                    f"in {folder}, and the same command goes on from there"
                ) from None
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    rows = [row for row in ShardSet(folder).rows() if row["task"] == task]
    successes = sum(row["success"] for row in rows)
    return {
        "episodes": len(rows),
        "successes": successes,
        "success": successes / len(rows),
        "made": len(rows) - sum(row["id"] in done for row in rows),
    }


def _keep_settings(folder: Path, task: str, config: TaskDemonstrationConfig, seed: int, *, fresh: bool) -> None:
    """Keep what a task's demonstrations of a seed look like, and refuse to add others; more of them may be made.

    Args:
        fresh: whether the folder holds none of them: in older folders nothing was kept.

    Raises:
        ArtifactError: those in the folder have other settings.
    """
    path, key = folder / _SETTINGS, f"{task}-s{seed}"
    kept = read_object(path) if path.is_file() else {}
    mine = {name: value for name, value in to_plain(config).items() if name not in ("n", "workers")}
    if fresh:
        write_json(path, kept | {key: mine})
    elif key in kept and (differs := difference(kept[key], mine)):
        name, there, here = differs
        raise ArtifactError(
            f"{folder} belongs to another run: {name} is {there} there, {here} here; give another output folder, or "
            "delete that one"
        )


def _open(task: str, config: TaskDemonstrationConfig, seed: int, batches: list[int], done: frozenset[str]) -> int:
    return sum(name not in done for b in batches for name in _names(task, config, seed, b))


def _names(task: str, config: TaskDemonstrationConfig, seed: int, batch: int) -> list[str]:
    stop = min(config.n, (batch + 1) * _BATCH)
    return [f"{task}-s{seed}-{number:06d}" for number in range(batch * _BATCH, stop)]


_worker: dict[str, Any] = {}
"""The one writer of a process, and its interruptions."""


def _start_worker(folder: str, counter: Any) -> None:
    end_with_parent()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with counter.get_lock():
        number = counter.value
        counter.value += 1
    writer = ShardWriter(folder, writer=f"demo{number}", producer="data.demonstrating", patience=_PATIENCE)
    _worker["writer"], _worker["interruptions"] = writer, Interruptions()
    multiprocessing.util.Finalize(writer, writer.close, exitpriority=10)


@functools.lru_cache(maxsize=8)
def _worlds(task: str, variant: int) -> tuple[Task, TaskWorlds]:
    made = human_task(task, variant)
    return made, TaskWorlds(made, _BATCH, arm_action="joint", family=made.reality, threads=1)


@functools.lru_cache(maxsize=8)
def _crew(task: str, variant: int, size: int) -> FilmCrew:
    return FilmCrew(_worlds(task, variant)[1].model, size)


def _sentence(task: str, seed: int, batch: int) -> str:
    """The batch's sentence: every strategy in turn in an order that is drawn, in one of its wordings."""
    strategies = strategies_of(task)
    turn, place = divmod(batch, len(strategies))
    order = np.random.default_rng([seed, 2, turn]).permutation(len(strategies))
    choices = strategies[order[place]].sentences
    return choices[int(np.random.default_rng([seed, 3, batch]).integers(len(choices)))]


def _object(task: str, seed: int, batch: int) -> tuple[np.random.Generator, int]:
    """What draws a batch's instances, and the number of its object; neither knows the sentence."""
    rng = np.random.default_rng([seed, 1, batch])
    return rng, int(rng.integers(len(SUITE[task].variants)))


def _wording(task: str, text: str, rng: np.random.Generator) -> str:
    """Another sentence for the same strategy."""
    choices = strategy_of(task, text).sentences
    return choices[int(rng.integers(len(choices)))]


def _make_batch(task: str, config: TaskDemonstrationConfig, seed: int, batch: int, done: frozenset[str]) -> int:
    """Simulate, film and write one batch; returns how many episodes are new."""
    writer, interruptions = _worker["writer"], _worker["interruptions"]
    text = _sentence(task, seed, batch)
    strategy = strategy_of(task, text)
    rng, variant = _object(task, seed, batch)
    with interruptions.heard():
        made, worlds = _worlds(task, variant)
    scenes = made.sample(rng, _BATCH)
    family = drawn_outside(f"{task}-people", made.family, made.reality) if config.drawn else made.reality
    parameters = [family.as_dict(row) | config.constants for row in family.sample(rng, _BATCH)]
    habits = np.random.default_rng([seed, 4, batch])
    with interruptions.heard():
        rollout, unit, first = demonstrate(
            worlds, strategy, scenes, parameters, rng=habits, settings=config.refine, every=config.every
        )
        crew = _crew(task, variant, config.size)
    new = 0
    for world, name in enumerate(_names(task, config, seed, batch)):
        words = _wording(task, text, habits)
        if name in done:
            continue
        with interruptions.heard():
            colour, depth = crew.film(
                rollout.qpos[:, world], rollout.mocap[:, world], config.cameras, depth=config.depth
            )
        info = {
            "seed": seed, "number": batch * _BATCH + world, "strategy": strategy.name,
            "first_try": bool(first[world]), "object": dict(SUITE[task].variants[variant]),
            "scene": {key: np.asarray(value[world]).tolist() for key, value in scenes.items()},
            "parameters": dict(parameters[world]),
            "habits": {key: float(value[world]) for key, value in strategy.values(unit).items()},
        }  # fmt: skip
        episode = episode_of(made, rollout, world, colour, depth, text=words, points=config.points, info=info)
        writer.write(name, episode, seed=batch * _BATCH + world)
        new += 1
    return new
