"""Sequential pushing: strike after strike along a straight segment towards a sub-goal, in many worlds at once."""

from dexprior.envs.pushing.gym import ACTION_SPACE, OBSERVATION_SPACE, PushingEnv, Striker
from dexprior.envs.pushing.task import PushingTask, Segments, judge, observe, strikes_from_action
from dexprior.envs.pushing.worlds import Outcome, PushingWorlds

__all__ = [
    "ACTION_SPACE",
    "OBSERVATION_SPACE",
    "Outcome",
    "PushingEnv",
    "PushingTask",
    "PushingWorlds",
    "Segments",
    "Striker",
    "judge",
    "observe",
    "strikes_from_action",
]
