"""The command line of a world in a process of its own: shared by the reality server and the loopback robot."""

from __future__ import annotations

import argparse
from pathlib import Path

from dexprior.envs.messages import task_from_plain
from dexprior.families import ParameterFamily, SensorModels
from dexprior.reading import read_json_object
from dexprior.worlds.tasks import Task, make_task

__all__ = ["add_world_arguments", "chosen_world"]


def add_world_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say which world is served, and whose child the process is."""
    parser.add_argument(
        "--task", default="insertion", help="name of a task, for its other world; or a JSON file with name and settings"
    )
    parser.add_argument("--family", type=Path, help="JSON file of the parameter family; default: the other world's")
    parser.add_argument("--sensors", type=Path, help="JSON file of models of sensors and links; default: none")
    parser.add_argument("--seed", type=int, default=0, help="draws the one set of values of this world")
    parser.add_argument("--no-tracker", action="store_true", help="do not tell the truth about the object")
    parser.add_argument("--with-parent", action="store_true", help="end when stdin closes")


def chosen_world(chosen: argparse.Namespace) -> tuple[Task, ParameterFamily, SensorModels]:
    """Task, family and models of sensors that the arguments name.

    Raises:
        BadInput, ConfigError, UnknownName: a file that cannot be read, or no such task.
    """
    if chosen.task.endswith(".json"):
        task = task_from_plain(read_json_object(Path(chosen.task)), chosen.task)
    else:
        task = make_task(chosen.task).other()
    family = task.reality if chosen.family is None else ParameterFamily.read(chosen.family)
    return task, family, SensorModels() if chosen.sensors is None else SensorModels.read(chosen.sensors)
