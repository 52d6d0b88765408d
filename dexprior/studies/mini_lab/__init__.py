"""The mini-lab: a gait that turns a cube is trained at some frictions and meets another; then the simulator follows.

dexprior ledger lab out=runs/lab
"""

from dexprior.studies.mini_lab.rounds import LabRound, play_round, read_lab_round, save_round
from dexprior.studies.mini_lab.settings import LabConfig, TrainingConfig
from dexprior.studies.mini_lab.study import By, Updated, first_round, next_round, run_lab, untrained, update_folder

__all__ = [
    "By",
    "LabConfig",
    "LabRound",
    "TrainingConfig",
    "Updated",
    "first_round",
    "next_round",
    "play_round",
    "read_lab_round",
    "run_lab",
    "save_round",
    "untrained",
    "update_folder",
]
