"""First divergence: false alarms, what is found, how late, and whether the onset's interval holds it.

    python benchmarks/divergence.py [reference=600] [null=1000] [injected=200]

The peer is a fixed rule of three standard deviations, with the same bands.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dexprior.families import Event, ParameterFamily, actuation
from dexprior.stats import Rate
from dexprior.transfer.divergence import DivergenceDetector, Signals
from dexprior.transfer.replay import Probe, replay, wiping
from dexprior.worlds.tasks import make_task

REPEATS = 5
BATCH = 100  # groups
START = 1.32  # [s] of every change; a multiple of the control period
DRIFT = 1.0  # [N/s]
CENTRE = {
    "plate_friction": 0.35, "plate_timeconst": 0.009, "pad_friction": 0.95, "pad_timeconst": 0.0075, "block_mass": 1.0,
    "wrench_noise": 0.0, "cloud_noise": 0.001, "actuator_delay": 0.010, "backlash": 0.0,
}  # fmt: skip
WIDTH = 0.05  # the family is what an identification left: five percent to each side, a millisecond of delay
VISIBLE = 0.1  # of the noise of a group's mean: from there on a change counts as begun


def main() -> None:
    sizes = {"reference": 600, "null": 1000, "injected": 200}
    sizes |= {key: int(value) for key, value in (word.split("=") for word in sys.argv[1:])}
    task = make_task("wipe", timestep=0.001)
    wide = task.family.extended(*actuation(delay=(0.0, 0.03), backlash=(0.0, 0.02)))
    family = ParameterFamily("identified", tuple(_narrow(p) for p in wide.parameters))
    probe = wiping(task)

    def simulate(groups: int, seed: int, cause: str = "none", **settings) -> Iterator[Signals]:
        for start in range(0, groups, BATCH):
            rng = np.random.default_rng([seed, start])
            values = family.sample(rng, min(BATCH, groups - start))
            yield replay(
                probe, wide, values, repeats=REPEATS, seed=int(rng.integers(2**31)), events=EVENTS[cause],
                disturb=_drift if cause == "drift" else None, **settings,
            )  # fmt: skip

    start = time.process_time()
    detector = DivergenceDetector.fit(Signals.joined(list(simulate(sizes["reference"], 0))))
    print(f"reference: {time.process_time() - start:.0f} CPU s", file=sys.stderr)
    if sizes["null"]:
        _null(detector, simulate(sizes["null"], 1))
    for k, cause in enumerate(("friction", "delay", "backlash", "drift")):
        truth = None if cause == "drift" else zip(
            simulate(sizes["injected"], 12 + k, cause, noisy=False), simulate(sizes["injected"], 12 + k, noisy=False)
        )  # fmt: skip
        _injected(detector, cause, simulate(sizes["injected"], 12 + k, cause), truth, probe)
    print(f"all: {time.process_time() - start:.0f} CPU s", file=sys.stderr)


EVENTS = {
    "none": lambda values: (),
    "friction": lambda values: (Event(kind="scale", time=START, target="plate_friction", value=(1.5,)),),
    "delay": lambda values: (
        Event(kind="set", time=START, target="actuator_delay", value=(values["actuator_delay"] + 0.005,)),
    ),
    "backlash": lambda values: (Event(kind="set", time=START, target="backlash", value=(0.01,)),),
    "drift": lambda values: (),
}


def _narrow(p):
    middle = CENTRE[p.name]
    half = 0.001 if p.name == "actuator_delay" else WIDTH * middle
    return replace(p, low=middle - half, high=middle + half, distribution="uniform", mean=None, std=None)


def _drift(recording):
    since = np.maximum(recording.t - START, 0.0)
    added = np.zeros_like(recording.wrench)
    added[..., 2] = DRIFT * since
    return {"force": added}


def _null(detector: DivergenceDetector, batches: Iterator[Signals]) -> None:
    any_, by_channel, fixed = [], [], {name: [] for name in detector.reference.values}
    for batch in batches:
        verdicts = detector.compare(batch)
        any_ += [row[0].t is not None for row in verdicts]
        by_channel += [{d.channel: d.t is not None for d in row} for row in verdicts]
        for name, hit in _three_sigma(detector, batch).items():
            fixed[name] += hit.tolist()
    n = len(any_)
    peers = {name: float(np.mean(hit)) for name, hit in fixed.items()}
    _print("false alarms, any channel", Rate(sum(any_), n), float(np.mean(np.any(list(fixed.values()), axis=0))))
    for name in detector.bands:
        _print(f"false alarms, {name}", Rate(sum(row[name] for row in by_channel), n), peers.get(name))


def _injected(detector, cause, batches, truth, probe: Probe) -> None:
    found, late, first, covered, early, width = [], [], [], [], [], []
    t = detector.reference.t
    noise = probe.noise
    sizes = {"joints": noise.joint, "force": noise.force, "touch": noise.touch, "slip": noise.slip}
    for batch in batches:
        begun = {name: np.full(batch.groups, START) for name in batch.values}
        if truth is not None:
            changed, plain = next(truth)
            for name in batch.values:
                apart = np.abs((changed.values[name] - plain.values[name]).mean(axis=1)).max(axis=2)
                seen = apart > VISIBLE * sizes[name] / np.sqrt(REPEATS)
                begun[name] = np.where(seen.any(axis=1), t[seen.argmax(axis=1)], np.inf)
        for g, row in enumerate(detector.compare(batch)):
            d = row[0]
            found.append(d.t is not None)
            if d.t is None or d.onset is None:
                continue
            start = begun[detector.config.timing if d.channel == "timing" else d.channel][g]
            late.append(d.t - START)
            first.append(d.channel)
            covered.append(bool(d.onset.low <= start <= d.onset.high))
            early.append(d.t < START)
            width.append(d.onset.high - d.onset.low)
    _print(f"{cause}: found", Rate(sum(found), len(found)), None)
    print(json.dumps({
        "name": f"{cause}: delay", "value": float(np.median(late)), "unit": "s", "peer": None, "peer_value": None,
        "ratio": None, "quantiles_5_95": np.quantile(late, [0.05, 0.95]).tolist(),
        "earliest": {c: first.count(c) for c in sorted(set(first))},
    }), flush=True)  # fmt: skip
    after = [hit for hit, before in zip(covered, early) if not before]
    _print(f"{cause}: onset covered, alarms after the change", Rate(sum(after), len(after)), None)
    extra = {"median_width_s": float(np.median(width))}
    _print(f"{cause}: onset covered", Rate(sum(covered), len(covered)), None, extra)


def _three_sigma(detector: DivergenceDetector, batch: Signals) -> dict[str, np.ndarray]:
    hits = {}
    for name, x in batch.values.items():
        band = detector.bands[name]
        hits[name] = (np.abs(band.deviation(x)) > 3.0 * band.spread).any(axis=(1, 2))
    return hits


def _print(name: str, rate: Rate, peer: float | None, extra: dict | None = None) -> None:
    d = rate.as_dict()
    print(json.dumps({
        "name": name, "value": d["rate"], "unit": "1", "peer": None if peer is None else "three standard deviations",
        "peer_value": peer, "ratio": None if not peer else d["rate"] / peer, "k": d["k"], "n": d["n"],
        "interval": d["interval"],
    } | (extra or {})), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
