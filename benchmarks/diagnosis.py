"""Attribution: causes are injected one at a time, and the diagnosis has to name them.

    python benchmarks/diagnosis.py [null=150] [each=40] [cases=30] [repeats=5]

Probabilities are calibrated on the tasks wipe and peg with magnitudes from the middle of each cause's range. They are
tested on pick_place with all magnitudes, and on wipe and peg with magnitudes from both ends of the range. Signatures
are those of middle magnitudes everywhere. Three causes are never modelled.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from dexprior.stats import Rate
from dexprior.transfer.diagnosis import (
    CALIBRATED,
    CAUSES,
    UNKNOWN,
    SignatureBank,
    calibrate,
    diagnose,
    identified,
    inject_strengths,
    injectable,
)  # fmt: skip
from dexprior.transfer.replay import Probe, as_the_expert_did, wiping
from dexprior.worlds.tasks import make_task

UNMODELLED = ("servo_damping", "force_gain", "joint_offset")
MODELLED = tuple(name for name in CAUSES if name not in UNMODELLED)
MIDDLE, ENDS, WHOLE = ((0.2, 0.8),), ((0.0, 0.2), (0.8, 1.0)), ((0.0, 1.0),)
LEARNED, HELD_OUT = ("wipe", "peg"), ("pick_place",)


def main() -> None:
    sizes = {"null": 150, "each": 40, "cases": 30, "repeats": 5}
    sizes |= {key: int(value) for key, value in (word.split("=") for word in sys.argv[1:])}
    start = time.process_time()
    banks = {}
    for name in (*LEARNED, *HELD_OUT):
        banks[name] = SignatureBank.make(
            _probe(name), MODELLED, repeats=sizes["repeats"], null=sizes["null"], each=sizes["each"], within=MIDDLE[0]
        )  # fmt: skip
        print(f"{name}: bank after {time.process_time() - start:.0f} CPU s", file=sys.stderr, flush=True)
    learned = [case for name in LEARNED for case in _cases(banks[name], MODELLED, MIDDLE, sizes, seed=1)]
    seen = [case for case in learned if case["seen"]]
    shares = np.array([[case["unexplained"][name] for name in MODELLED] for case in seen])
    calibration = calibrate(shares, np.array([MODELLED.index(case["truth"]) for case in seen]))
    print(json.dumps({"name": "calibration", "sharpness": calibration.sharpness, "unknown": calibration.unknown}))
    ends = [c for n in LEARNED for c in _cases(banks[n], MODELLED, ENDS, sizes, seed=12, calibration=calibration)]
    other = [c for n in HELD_OUT for c in _cases(banks[n], MODELLED, WHOLE, sizes, seed=13, calibration=calibration)]
    strange = [c for n in banks for c in _cases(banks[n], UNMODELLED, WHOLE, sizes, seed=14, calibration=calibration)]
    for label, cases in (("other magnitudes", ends), ("other task", other), ("both", ends + other)):
        _report(label, cases, strange)
    print(f"all: {time.process_time() - start:.0f} CPU s", file=sys.stderr)


def _probe(name: str) -> Probe:
    task = make_task(name)
    return wiping(task) if name == "wipe" else as_the_expert_did(task, identified(task), seed=1)


def _cases(bank, names, ranges, sizes, *, seed, calibration=CALIBRATED) -> list[dict]:
    cases = []
    family = identified(bank.probe.task)
    for k, name in enumerate(names):
        if not injectable(CAUSES[name], bank.probe.task):
            continue
        for j, within in enumerate(ranges):
            rng = np.random.default_rng([seed, k, j])
            n = sizes["cases"] // len(ranges)
            magnitudes = CAUSES[name].draw(rng, n, within=within)
            real = inject_strengths(
                bank.probe, CAUSES[name], family.sample(rng, n), magnitudes, repeats=bank.repeats,
                seed=int(rng.integers(2**31)), noisy=True,
            )  # fmt: skip
            for magnitude, found in zip(magnitudes, diagnose(bank, real, calibration=calibration)):
                cases.append(found.to_json() | {
                    "truth": name, "gap": CAUSES[name].gap, "magnitude": float(magnitude), "task": bank.probe.task.name,
                })  # fmt: skip
    return cases


def _report(label: str, cases: list[dict], strange: list[dict]) -> None:
    seen = [case for case in cases if case["seen"]]
    _print(f"{label}: seen at all", Rate(len(seen), len(cases)))
    for what, key in (("cause", "causes"), ("gap", "gaps")):
        truth = [case["truth"] if what == "cause" else case["gap"] for case in seen]
        ranked = [sorted(case[key], key=lambda name, case=case: -case[key][name]) for case in seen]
        for top in (1, 2):
            hits = sum(t in row[:top] for t, row in zip(truth, ranked))
            _print(f"{label}: {what} among the first {top}", Rate(hits, len(seen)))
    every = [case for case in (*seen, *strange) if case["seen"]]
    said = [max(case["causes"], key=case["causes"].get) for case in every]
    right = np.array([s == (c["truth"] if c["truth"] in MODELLED else UNKNOWN) for s, c in zip(said, every)])
    sure = np.array([max(case["causes"].values()) for case in every])
    error = sum(
        ((sure > low) & (sure <= low + 0.1)).mean()
        * abs(right[(sure > low) & (sure <= low + 0.1)].mean() - sure[(sure > low) & (sure <= low + 0.1)].mean())
        for low in np.arange(0.0, 1.0, 0.1) if ((sure > low) & (sure <= low + 0.1)).any()
    )  # fmt: skip
    print(json.dumps({"name": f"{label}: calibration error", "value": float(error), "unit": "1", "n": len(every)}))
    unknown = [case for case in strange if case["seen"]]
    hits = sum(max(case["causes"], key=case["causes"].get) == UNKNOWN for case in unknown)
    _print(f"{label}: unmodelled called unknown", Rate(hits, len(unknown)))
    wrong = [(c["task"], c["truth"], max(c["causes"], key=c["causes"].get), round(c["magnitude"], 4))
             for c in seen if max(c["causes"], key=c["causes"].get) != c["truth"]]  # fmt: skip
    unseen = sorted({(c["task"], c["truth"]) for c in cases if not c["seen"]})
    print(json.dumps({"name": f"{label}: wrong", "cases": wrong[:40], "not seen": unseen}), flush=True)


def _print(name: str, rate: Rate) -> None:
    d = rate.as_dict()
    print(json.dumps({"name": name, "value": d["rate"], "unit": "1", "k": d["k"], "n": d["n"],
                      "interval": d["interval"]}), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
