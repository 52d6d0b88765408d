"""The suite: one row a task, with all that is known of it beside the task itself.

task = make_task("pick_place", half_size=0.018)
expert, strategies = expert_of("pick_place"), strategies_of("pick_place")
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dexprior.config import validate
from dexprior.errors import BadInput, UnknownName
from dexprior.worlds.tasks.base import Task
from dexprior.worlds.tasks.cube_in_hand import CubeInHand, CubeInHandConfig
from dexprior.worlds.tasks.episodes import Player
from dexprior.worlds.tasks.experts.cube_in_hand import cube_in_hand
from dexprior.worlds.tasks.experts.folding import folding
from dexprior.worlds.tasks.experts.handover import handover
from dexprior.worlds.tasks.experts.insertion import insertion
from dexprior.worlds.tasks.experts.nut_bolt import nut_bolt
from dexprior.worlds.tasks.experts.peg import peg
from dexprior.worlds.tasks.experts.pick_place import pick_place
from dexprior.worlds.tasks.experts.soft_grasp import soft_grasp
from dexprior.worlds.tasks.experts.wipe import wipe
from dexprior.worlds.tasks.folding import Folding, FoldingConfig
from dexprior.worlds.tasks.handover import Handover, HandoverConfig
from dexprior.worlds.tasks.injected import inject
from dexprior.worlds.tasks.insertion import Insertion, InsertionConfig
from dexprior.worlds.tasks.nut_bolt import NutBolt, NutBoltConfig
from dexprior.worlds.tasks.peg import Peg, PegConfig
from dexprior.worlds.tasks.pick_place import PickPlace, PickPlaceConfig
from dexprior.worlds.tasks.soft_grasp import SoftGrasp, SoftGraspConfig
from dexprior.worlds.tasks.strategies import Strategy
from dexprior.worlds.tasks.strategies.folding import FOLDING
from dexprior.worlds.tasks.strategies.insertion import INSERTION
from dexprior.worlds.tasks.strategies.nut_bolt import NUT_BOLT
from dexprior.worlds.tasks.strategies.peg import PEG
from dexprior.worlds.tasks.strategies.pick_place import PICK_PLACE
from dexprior.worlds.tasks.strategies.soft_grasp import SOFT_GRASP
from dexprior.worlds.tasks.wipe import Wipe, WipeConfig

__all__ = [
    "SUITE",
    "Entry",
    "demonstrated_tasks",
    "expert_of",
    "human_task",
    "make_task",
    "register_task",
    "robot_task",
    "strategies_of",
    "strategy_of",
]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One task of the suite."""

    task: type[Task]
    """Makes a task from a configuration."""
    settings: type
    """The configuration's class."""
    expert: Player | None = None
    """Shows that policies can solve it with the actions that they have."""
    strategies: tuple[Strategy, ...] = ()
    """Ways in which a human hand does it; without any it has no demonstrations."""
    variants: tuple[Mapping[str, Any], ...] = ({},)
    """Settings of the objects that demonstrations show; each is as likely."""
    hand: Literal["end_effector", "hand"] = "end_effector"
    """The setting that names the end effector in which a person's hand is put."""
    robot: Mapping[str, Any] = field(default_factory=dict)
    """Settings in which a robot does what the demonstrations show."""
    gripper: Mapping[str, Any] = field(default_factory=dict)
    """Settings by which its gripper follows them; see `dexprior.retarget.gripper.GripperConfig`."""
    warp: bool = False
    """Whether MuJoCo Warp steps it; all but the insertion are held against `mujoco.batch` in
    docs/measurements/worlds.md."""


SUITE: dict[str, Entry] = {
    "cube_in_hand": Entry(task=CubeInHand, settings=CubeInHandConfig, expert=cube_in_hand, hand="hand", warp=True),
    "handover": Entry(task=Handover, settings=HandoverConfig, expert=handover, warp=True),
    "folding": Entry(
        task=Folding,
        settings=FoldingConfig,
        expert=folding,
        strategies=FOLDING,
        variants=tuple({"side": side, "robots": 1} for side in (0.18, 0.20, 0.22)),
        robot={"robots": 1},
        gripper={"settling": 0.3, "release": 0.016},
    ),
    "insertion": Entry(
        task=Insertion,
        settings=InsertionConfig,
        expert=insertion,
        strategies=INSERTION,
        variants=tuple({"outer_radius": radius} for radius in (0.017, 0.018, 0.019)),
        warp=True,
    ),
    "nut_bolt": Entry(
        task=NutBolt,
        settings=NutBoltConfig,
        expert=nut_bolt,
        strategies=NUT_BOLT,
        variants=tuple(
            {"thread": {"across_flats": width, "nut_height": height}, "start": "started"}
            for width in (0.034, 0.038, 0.042)
            for height in (0.010, 0.012)
        ),
        robot={"start": "started"},
        warp=True,
    ),
    "peg": Entry(
        task=Peg,
        settings=PegConfig,
        expert=peg,
        strategies=PEG,
        variants=tuple(
            {"half_width": width, "half_length": length, "start": "standing"}
            for width in (0.008, 0.010, 0.012)
            for length in (0.028, 0.034)
        ),
        robot={"start": "standing", "seconds": 8.0},
        gripper={"lift": 0.01},
        warp=True,
    ),
    "pick_place": Entry(
        task=PickPlace,
        settings=PickPlaceConfig,
        expert=pick_place,
        strategies=PICK_PLACE,
        variants=tuple({"half_size": half} for half in (0.014, 0.016, 0.018, 0.020, 0.023)),
        gripper={"force_gain": 6.0},
        warp=True,
    ),
    "soft_grasp": Entry(
        task=SoftGrasp,
        settings=SoftGraspConfig,
        expert=soft_grasp,
        strategies=SOFT_GRASP,
        variants=tuple({"fruit": fruit, "timestep": 0.004} for fruit in ("strawberry", "grape", "peach")),
        hand="hand",
        gripper={"force_gain": 1.0, "least_force": 0.15, "descent": 0.5, "floor": 0.001},
    ),
    "wipe": Entry(task=Wipe, settings=WipeConfig, expert=wipe, warp=True),
}
"""Rows by the task's name."""


def register_task(kind: type[Task], settings: type, **known: Any) -> None:
    """Add a task to the suite, under its class's `name`, here and in the processes that are started from here.

    Args:
        kind: makes a task from a configuration.
        settings: the configuration's class.
        known: further fields of `Entry`, e.g. `expert`.

    Raises:
        BadInput: another task has its name.
    """
    entry = Entry(task=kind, settings=settings, **known)
    if SUITE.setdefault(kind.name, entry) != entry:
        raise BadInput(f"a task {kind.name!r} is registered already; choose another name")
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    own = [path for path in os.environ.get(_OWN, "").split(os.pathsep) if path]
    if file is not None and not kind.__module__.startswith("dexprior.") and str(Path(file).resolve()) not in own:
        os.environ[_OWN] = os.pathsep.join([*own, str(Path(file).resolve())])


def make_task(
    name: str, /, *, injectors: Mapping[str, float] | None = None, injector_seed: int = 0, **settings: Any
) -> Task:
    """A task by name.

    Args:
        name: one of `SUITE`.
        injectors: strengths in [0, 1] by name; none by default.
        injector_seed: of what they draw.
        settings: fields of its configuration that differ from the defaults.

    Raises:
        UnknownName: no such task or injector.
        ConfigError: an unknown setting, or one of a wrong type or out of range.
        BadInput: a strength out of range, or an injector that the task has no use for.
    """
    entry = _entry(name)
    task = entry.task(validate(entry.settings, settings, where=f"task {name}"))  # type: ignore[call-arg]
    return inject(task, injectors or {}, injector_seed)


def human_task(name: str, variant: int) -> Task:
    """The task as a person does it: in its other world, the human hand on a gantry, and one of the entry's variants.

    Raises:
        UnknownName: a task without human demonstrations.
    """
    strategies_of(name)
    entry = SUITE[name]
    return make_task(name, **{"arm": "gantry", entry.hand: "human_hand", **entry.variants[variant]}).other()


def robot_task(name: str, **settings: Any) -> Task:
    """The task as a robot does what the demonstrations show: in its entry's settings for that, unless others are given.

    Raises:
        UnknownName: no such task.
        ConfigError: as for `make_task`.
    """
    return make_task(name, **{**_entry(name).robot, **settings})


def expert_of(task: str) -> Player:
    """An expert by the task's name.

    Raises:
        UnknownName: the task has none.
    """
    expert = SUITE[task].expert if task in SUITE else None
    if expert is None:
        raise UnknownName("expert", task, [name for name, entry in SUITE.items() if entry.expert is not None])
    return expert


def demonstrated_tasks() -> tuple[str, ...]:
    """Tasks that have human demonstrations."""
    return tuple(name for name, entry in SUITE.items() if entry.strategies)


def strategies_of(task: str) -> tuple[Strategy, ...]:
    """The strategies of a task.

    Raises:
        UnknownName: it has none.
    """
    if task not in demonstrated_tasks():
        raise UnknownName("task with human demonstrations", task, demonstrated_tasks())
    return SUITE[task].strategies


def strategy_of(task: str, sentence: str) -> Strategy:
    """The strategy that a sentence asks for, one of demonstrations or one that is held out; it alone decides.

    Raises:
        UnknownName: no such task, or a sentence that none of its strategies has.
    """
    for strategy in strategies_of(task):
        if sentence in (*strategy.sentences, *strategy.held_out):
            return strategy
    raise UnknownName("sentence", sentence, [s for strategy in strategies_of(task) for s in strategy.sentences])


def _entry(name: str) -> Entry:
    if name not in SUITE:
        _load_own()
    if name not in SUITE:
        raise UnknownName("task", name, tuple(SUITE))
    return SUITE[name]


_OWN = "DEXPRIOR_OWN_TASKS"
"""Variable of the environment with the files that registered tasks in the process that started this one."""


def _load_own() -> None:
    """Run the files whose tasks the process that started this one knows."""
    for path in (path for path in os.environ.get(_OWN, "").split(os.pathsep) if path):
        name = f"_own_task_{Path(path).stem}"
        spec = None if name in sys.modules else importlib.util.spec_from_file_location(name, path)
        if spec is not None and spec.loader is not None and Path(path).is_file():
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
