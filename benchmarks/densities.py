"""Densities of actions: how far from a true one, how calibrated, how long to fit and to ask; JSON lines.

    OMP_NUM_THREADS=1 python benchmarks/densities.py [door_human.npz]

Two habits in the plane, of which the true density is known, and the demonstrations of the Adroit door where their file
is given. `nats_short`: mean of true minus fitted log density at fresh draws. `coverage`: share of held-out actions
within the regions of highest density of 50 and 90 %. `ms`: of one log density at a batch of 1,000.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace

import numpy as np
import torch

from dexprior.policy.density import ActionDensity, DensityConfig, fit_density
from dexprior.policy.gym import EnvConfig, GymConfig, GymWorlds
from dexprior.policy.gym.experts import read_prior
from dexprior.policy.pairs import Pairs

SPREAD, JITTER = 0.05, 0.02


def mean_of(state: np.ndarray, side: np.ndarray | float) -> np.ndarray:
    """Where each habit goes."""
    return np.column_stack([0.5 * side + 0.2 * np.tanh(state[:, 0]), 0.09 * side * state[:, 1]])


def draw(rng: np.random.Generator, n: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """States, and actions of either habit."""
    state, side = rng.normal(size=(n, 3)).astype(np.float32), rng.choice([-1.0, 1.0], n)
    return state, (mean_of(state, side) + spread * rng.normal(size=(n, 2))).astype(np.float32)


def true_log_density(state: np.ndarray, action: np.ndarray) -> np.ndarray:
    """Of the two habits, with the fit's jitter."""
    variance = SPREAD**2 + JITTER**2
    each = [-0.5 * ((action - mean_of(state, side)) ** 2).sum(1) / variance for side in (-1.0, 1.0)]
    return np.logaddexp(*each) - np.log(2 * np.pi * variance) - np.log(2.0)


@torch.no_grad()
def milliseconds(density: ActionDensity, state: np.ndarray, action: np.ndarray) -> float:
    """CPU time of one log density at a batch."""
    context = density.context({"state": torch.from_numpy(state)})
    began = time.process_time()
    for _ in range(10):
        density.log_prob_at(context, torch.from_numpy(action))
    return round(100 * (time.process_time() - began), 2)


def main() -> None:
    """Fit and print."""
    torch.set_num_threads(1)
    state, action = draw(np.random.default_rng(0), 3000, SPREAD)
    pairs = Pairs(observation={"state": state}, action=action, episode=np.repeat(np.arange(60), 50))
    for kind in ("flow", "mixture"):
        began = time.process_time()
        density, told = fit_density(pairs, DensityConfig(kind=kind, steps=1500, jitter=JITTER), seed=0)
        spent = time.process_time() - began
        fresh, wanted = draw(np.random.default_rng(1), 4000, float(np.hypot(SPREAD, JITTER)))
        with torch.no_grad():
            context = density.context({"state": torch.from_numpy(fresh)})
            found = density.log_prob_at(context, torch.from_numpy(wanted)).numpy()
        short = float((true_log_density(fresh, wanted) - found).mean())
        row = {"pairs": "two habits", "kind": kind, "nats_short": round(short, 3), **told, "fit_cpu_s": round(spent, 1)}
        print(json.dumps(row | {"ms": milliseconds(density, fresh[:1000], wanted[:1000])}))
    for path in sys.argv[1:]:
        worlds = GymWorlds("AdroitHandDoorSparse-v1", 1, EnvConfig())
        door = read_prior(path, worlds)
        assert isinstance(door, Pairs)
        for kind in ("flow", "mixture"):
            began = time.process_time()
            density, told = fit_density(door, replace(GymConfig().density, kind=kind), seed=0)
            spent = time.process_time() - began
            seen, done = door.observation["state"][:1000], door.action[:1000].astype(np.float32)
            row = {"pairs": "Adroit door", "kind": kind, **told, "fit_cpu_s": round(spent, 1)}
            print(json.dumps(row | {"ms": milliseconds(density, seen, done)}))


if __name__ == "__main__":
    main()
