"""A table of trials, as a spreadsheet has it, becomes a transfer ledger: rates with intervals, the gap, what to replay.

python examples/07_ledger_from_csv.py [TRIALS]     a CSV with world (simulator, robot), instance, success
"""

import re
import shutil
import sys
from pathlib import Path

from dexprior.transfer.rounds import add_round, read_round, write_template

HERE = Path(__file__).parent
trials = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "trials.csv"
folder = Path("runs/examples/round")

shutil.rmtree(folder, ignore_errors=True)
settings, table = write_template(folder)  # what `dexprior ledger new FOLDER` writes: every field explained
text = settings.read_text()
for field, value in (("round", "'first'"), ("policy", "grasp"), ("panel", "kitchen")):
    text = re.sub(rf"^{field}: \S+", f"{field}: {value}", text, flags=re.M)
settings.write_text(text)
shutil.copy(trials, table)

found = read_round(folder)
add_round(folder)  # what `dexprior ledger add FOLDER` does
print(f"{folder / 'ledger.html'}: policy {found.settings.policy}, panel {found.settings.panel}")
