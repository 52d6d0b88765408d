"""From a recorder's own CSV to a log that `dexprior ledger report` reads: names, seconds, radians.

python arm_log.py robot.csv logs/robot.csv
"""

import csv
import math
import sys
from pathlib import Path

JOINTS = {"shoulder": ("sh_target", "sh_angle"), "elbow": ("el_target", "el_angle")}  # name: commanded, measured

rows = list(csv.DictReader(Path(sys.argv[1]).read_text().splitlines()))
target = Path(sys.argv[2])
target.parent.mkdir(parents=True, exist_ok=True)
with target.open("w", newline="") as stream:
    writer = csv.writer(stream)
    writer.writerow(["t", *(f"{joint}_{kind}" for joint in JOINTS for kind in ("command", "measured"))])
    for row in rows:
        angles = [f"{math.radians(float(row[column])):.6f}" for pair in JOINTS.values() for column in pair]
        writer.writerow([f"{float(row['ms']) / 1000:.4f}", *angles])
print(f"{target}: {len(rows)} records of {', '.join(JOINTS)}")
