"""The mini-lab over many seeds: one line of JSON a seed, folders of the rounds below OUT.

python benchmarks/mini_lab.py OUT 0 20
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from dexprior.studies.mini_lab import LabConfig, first_round, next_round, save_round
from dexprior.studies.mini_lab.study import untrained_success


def row(seed: int, out: Path) -> dict:
    """Round 1 and both answers to it."""
    config, started = LabConfig(), time.process_time()
    first = first_round(config, seed=seed)
    save_round(first, out / f"{seed}" / "round-1")
    found = {
        "seed": seed, "untrained": float(untrained_success(config, seed=seed).mean()),
        "sim 1": float(first.success["sim"].mean()), "real 1": float(first.success["real"].mean()),
        "slip gap": first.ledger["slip_gap"]["value"], "timing gap": first.ledger["timing_gap"]["value"],
        "earliest": first.ledger["earliest"]["first"], "distance": first.ledger["distance"],
        "diagnosis": first.ledger["diagnosis"], "causes": first.causes,
    }  # fmt: skip
    for by in ("family", "recovery"):
        after = next_round(first, by=by)
        save_round(after.round, out / f"{seed}" / f"round-2-{by}")
        c = after.comparison.as_dict()
        found[by] = {
            "sim": float(after.round.success["sim"].mean()), "real": float(after.round.success["real"].mean()),
            "pairs": c["pairs"], "difference": c["difference"], "interval": c["interval"],
            "actions": after.round.ledger["actions"], "fitted": after.found.get("fitted"),
            "p_value": after.found.get("p_value"), "slip gap": after.round.ledger["slip_gap"]["value"],
            "recovery": {k: after.found.get(k) for k in ("threshold", "side", "alarms", "retreats", "retry")},
        }  # fmt: skip
    return found | {"seconds": time.process_time() - started}


def main(out: str, first: str, last: str) -> None:
    """Seeds first to last - 1."""
    for seed in range(int(first), int(last)):
        print(json.dumps(row(seed, Path(out))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
