"""The task suite: scenes with named parameters, instances, rewards and verdicts, stepped n at a time.

    worlds = TaskWorlds(make_task("pick_place"), n=64)

A new task is a subclass of `Task`; docs/tutorials/your-own-task.md makes one.
"""

from __future__ import annotations

from dexprior.worlds.tasks.actions import ActionSpec, ArmAction, RobotCommand
from dexprior.worlds.tasks.base import Layout, Scenes, Task, Truth
from dexprior.worlds.tasks.checking import check_task
from dexprior.worlds.tasks.cube_in_hand import CubeInHand, CubeInHandConfig
from dexprior.worlds.tasks.episodes import Player, Step, episode
from dexprior.worlds.tasks.folding import Folding, FoldingConfig
from dexprior.worlds.tasks.handover import Handover, HandoverConfig
from dexprior.worlds.tasks.injected import inject
from dexprior.worlds.tasks.insertion import Insertion, InsertionConfig
from dexprior.worlds.tasks.learned import learned_family
from dexprior.worlds.tasks.nut_bolt import NutBolt, NutBoltConfig
from dexprior.worlds.tasks.peg import Peg, PegConfig
from dexprior.worlds.tasks.pick_place import PickPlace, PickPlaceConfig
from dexprior.worlds.tasks.recording import Recording, record
from dexprior.worlds.tasks.soft_grasp import SoftGrasp, SoftGraspConfig
from dexprior.worlds.tasks.suite import (
    SUITE,
    Entry,
    demonstrated_tasks,
    expert_of,
    human_task,
    make_task,
    register_task,
    robot_task,
    strategies_of,
    strategy_of,
)
from dexprior.worlds.tasks.view import RigState, View
from dexprior.worlds.tasks.wipe import Wipe, WipeConfig
from dexprior.worlds.tasks.worlds import Physics, TaskWorlds

__all__ = [
    # the suite
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
    "CubeInHand",
    "CubeInHandConfig",
    "Handover",
    "HandoverConfig",
    "Folding",
    "FoldingConfig",
    "Insertion",
    "InsertionConfig",
    "NutBolt",
    "NutBoltConfig",
    "Peg",
    "PegConfig",
    "PickPlace",
    "PickPlaceConfig",
    "SoftGrasp",
    "SoftGraspConfig",
    "Wipe",
    "WipeConfig",
    "inject",
    "learned_family",
    # worlds
    "ActionSpec",
    "ArmAction",
    "Physics",
    "RigState",
    "RobotCommand",
    "TaskWorlds",
    "View",
    "Player",
    "Step",
    "episode",
    "Recording",
    "record",
    # what a task is made of
    "Layout",
    "Scenes",
    "Task",
    "Truth",
    "check_task",
]
