"""How stiff the covers of fingertips are over a grasp of soft fruit, with a toe region of three decades.

    python benchmarks/fruit_stiffness.py [FRUIT]

Three fingers close on a fruit by millimetres a second in the other world with `other_toe=1000`, and lift it; at every
simulation step each fingertip's force and the depth of its contact are kept, whose ratio is the secant stiffness of the
cover. A second grasp without the toe says what the law multiplies. Prints JSON, and writes
docs/measurements/line/fruit_stiffness.png. What the fruit itself gives is not in the depth.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from dexprior.families import Hysteresis, Phenomena
from dexprior.retarget.grips import grip_map
from dexprior.worlds.contact_laws import toe_secant
from dexprior.worlds.tasks import Player, RigState, TaskWorlds, Truth, episode, expert_of, make_task

PICTURE = Path(__file__).parents[1] / "docs/measurements/line/fruit_stiffness.png"
RATIO = 1000.0
SEED = 0


def slowly(width: float) -> Player:
    """Who comes down over a fruit as the expert does, closes by millimetres a second, and lifts what is held."""
    grip, expert = grip_map("three_finger"), expert_of("soft_grasp")

    def play(truth: Truth, rigs: tuple[RigState, ...], t: float, memory: np.ndarray) -> np.ndarray:
        action = expert(truth, rigs, min(t, _DOWN), np.zeros_like(memory))
        if t >= _DOWN:
            action[:, :6] = [0.0, 0.0, 0.3 if t >= _HELD else 0.0, 0.0, 0.0, 0.0]
            share = np.clip((t - _CLOSES) / (_HELD - _CLOSES), 0.0, 1.0)
            closed = grip.numbers(np.array(width)) - _FORCE * grip.give
            action[:, 6:] = (1.0 - share) * grip.numbers(np.array(width + _WIDER)) + share * closed
        return action

    return play


def grasp(fruit: str, ratio: float) -> tuple[np.ndarray, np.ndarray, bool, float]:
    """Loads [N] and depths [m] of the fingertips (step, tip) while a fruit is grasped and lifted, whether it was, and
    the load from which the covers stiffen [N]."""
    task = make_task("soft_grasp", fruit=fruit, timestep=0.001, other_toe=ratio).other()
    law = task.phenomena.toe_stiffness
    # a hysteresis of nothing: depths are read, and springs stay as they are
    phenomena = None if law else Phenomena(hysteresis=Hysteresis(loss=1e-9))
    worlds = TaskWorlds(task, 1, family=task.reality, phenomena=phenomena, threads=1)
    rng = np.random.default_rng(SEED)
    parameters = [task.reality.as_dict(row) for row in task.reality.sample(rng, 1)]
    worlds.reset(np.arange(1), task.sample(rng, 1), parameters)
    rows: list[np.ndarray] = []
    memory, lifted = worlds.view.memory, False
    worlds.watch(1, lambda: rows.append(np.stack([memory[f"phenomena/{name}"][0] for name in ("load", "depth")])))
    for step in episode(worlds, slowly(task.fruit.size[0]), seconds=_HELD + 1.0):
        lifted = bool(step.truth["held"][0] and step.truth["object"][0, 2] > 0.05)
    load, depth = np.array(rows).transpose(1, 0, 2)
    return load, depth, lifted, law.load if law else 0.0


def main(fruit: str = "strawberry") -> None:
    """Record both grasps, print and draw."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    load, depth, lifted, from_ = grasp(fruit, RATIO)
    plain_load, plain_depth, plain_lifted, _ = grasp(fruit, 1.0)

    (force, secant), (plain_force, plain) = _secants(load, depth), _secants(plain_load, plain_depth)
    held = float(np.median(_secants(load[-500:], depth[-500:])[1]))
    found = {
        "fruit": fruit, "ratio": RATIO, "load_N": from_, "seed": SEED, "held": [lifted, plain_lifted],
        "forces_N": [float(force.min()), float(force.max())], "lowest_secant_N_per_m": float(secant.min()),
        "secant_of_the_hold_N_per_m": held, "decades": float(np.log10(held / secant.min())),
        "plain_secant_median_N_per_m": float(np.median(plain)),
    }  # fmt: skip
    print(json.dumps(found))
    figure, ax = plt.subplots(figsize=(6.4, 4.2))
    ax.loglog(plain_force, plain, ".", color="#c77c11", markersize=2, label="without a toe")
    ax.loglog(force, secant, ".", color="#1f6f8b", markersize=2, label=f"toe, ratio {RATIO:g}, from {from_:g} N")
    marks = np.geomspace(force.min(), force.max(), 200)
    law = np.median(plain) * toe_secant(marks, RATIO, from_)
    ax.loglog(marks, law, color="#1c2530", linewidth=1, label="the law, quasi-static")
    ax.set(xlabel="force of a fingertip [N]", ylabel="force / depth of its contact [N/m]")
    ax.legend(frameon=False)
    figure.savefig(PICTURE, dpi=110, bbox_inches="tight")


def _secants(load: np.ndarray, depth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Forces of fingertips that touch [N], and over the depths of their contacts [N/m]."""
    touching = (depth > _LEAST) & (load > 0.0)
    return load[touching], load[touching] / depth[touching]


_DOWN, _CLOSES, _HELD = 1.1, 4.0, 20.0  # [s] when it is down, begins to close (after the shake), and has closed
_WIDER, _FORCE = 0.004, 0.3  # [m] than the fruit where it begins to close, [N] of each fingertip where it ends
_LEAST = 1e-7  # [m] under which a contact has no depth to speak of

if __name__ == "__main__":
    main(*sys.argv[1:])
