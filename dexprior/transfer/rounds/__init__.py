"""Transfer rounds with a real robot: a folder with `round.yaml`, `trials.csv` and, where there are any, traces.

dexprior ledger new runs/round-1        # writes both files, with every field explained
...                                     # run the robot, fill them in
dexprior ledger add runs/round-1        # checks them; writes ledger.json and ledger.html
dexprior ledger update runs/round-1 out=runs/round-2   # fits the family to the replays; the next round's folder
"""

from dexprior.transfer.rounds.adding import add_round, explain_replays
from dexprior.transfer.rounds.answering import AnswerConfig, Retrain, answer_round
from dexprior.transfer.rounds.history import compare_rounds
from dexprior.transfer.rounds.reading import COLUMNS, Round, RoundConfig, read_round, write_template

__all__ = [
    "COLUMNS",
    "AnswerConfig",
    "Retrain",
    "Round",
    "RoundConfig",
    "add_round",
    "answer_round",
    "compare_rounds",
    "explain_replays",
    "read_round",
    "write_template",
]
