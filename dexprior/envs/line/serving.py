"""The command line of a world in a process of its own: shared by the reality server and the loopback robot."""

from __future__ import annotations

import argparse
from pathlib import Path

from dexprior.config import validate
from dexprior.families import ParameterFamily
from dexprior.reading import read_json_object
from dexprior.worlds.insertion import OTHER_FAMILY, InsertionConfig

__all__ = ["add_world_arguments", "chosen_world"]


def add_world_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say which world is served, and whose child the process is."""
    parser.add_argument("--family", type=Path, help="JSON file of the parameter family; default: the other world")
    parser.add_argument("--world", type=Path, help="JSON file of nut and bolt sizes")
    parser.add_argument("--cone", choices=("elliptic", "pyramidal"), default="elliptic", help="friction cone")
    parser.add_argument("--seed", type=int, default=0, help="draws the one set of values of this world")
    parser.add_argument("--no-tracker", action="store_true", help="do not tell the truth about the nut")
    parser.add_argument("--with-parent", action="store_true", help="end when stdin closes")


def chosen_world(chosen: argparse.Namespace) -> tuple[ParameterFamily, InsertionConfig]:
    """Family and sizes that the arguments name.

    Raises:
        BadInput, ConfigError: a file that cannot be read, or is neither.
    """
    family = OTHER_FAMILY if chosen.family is None else ParameterFamily.read(chosen.family)
    sizes = {} if chosen.world is None else read_json_object(chosen.world)
    return family, validate(InsertionConfig, sizes, where=str(chosen.world))
