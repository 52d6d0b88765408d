"""Environments of the task suite, and their names in Gymnasium: `gymnasium.make("dexprior/Peg-v0")`."""

from dexprior.envs.tasks.pictures import Film, Pictures
from dexprior.envs.tasks.playing import Played, play, play_policy, player_of
from dexprior.envs.tasks.vector import Reward, TaskEnv, TaskVectorEnv, make_env, make_vec_env

__all__ = [
    "Film",
    "Pictures",
    "Played",
    "Reward",
    "TaskEnv",
    "TaskVectorEnv",
    "make_env",
    "make_vec_env",
    "play",
    "play_policy",
    "player_of",
]
