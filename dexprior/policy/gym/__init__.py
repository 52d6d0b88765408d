"""Policies for any Gymnasium environment with flat or named observations and bounded actions, near a prior from a file.

worlds.py     environments side by side, and what counts as a success
networks.py   actors and critics of flat observations; a residual around a fixed actor
experts.py    priors from files: recorded episodes, or an expert's layers; experts that were made worse
cloning.py    imitation of pairs
offpolicy.py  SAC with demonstrations in the buffer, or near a density
training.py   all of it in a folder
"""

from dexprior.policy.gym.training import GymConfig, evaluate_policy, load_policy, train_gym
from dexprior.policy.gym.worlds import EnvConfig, GymWorlds

__all__ = ["EnvConfig", "GymConfig", "GymWorlds", "evaluate_policy", "load_policy", "train_gym"]
