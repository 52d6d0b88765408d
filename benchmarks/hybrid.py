"""CPU time of hybrid steps: with an impact that sensors feel or do not, and without one against `mj_step`.

Prints JSON lines {name, value, unit, peer, peer_value, ratio}.

    python benchmarks/hybrid.py [repeats]
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

os.environ["OMP_NUM_THREADS"] = "1"  # one thread for both sides, and before NumPy is imported

import dexprior  # noqa: F401  # before MuJoCo: chooses the off-screen OpenGL platform

import mujoco  # isort: skip
import numpy as np
import torch

from dexprior.collision import HybridStepper, ImpulseNetwork, RestitutionFriction, Surrogate, SurrogateConfig
from dexprior.collision.hybrid.event import Event, settle
from dexprior.types import CollisionModel
from dexprior.worlds.tasks import make_task


class Unfelt(HybridStepper):
    """Moves as its parent, and leaves impacts out of all forces."""

    def _step2(self, event: Event, change: np.ndarray) -> None:
        mujoco.mj_step2(self.model, self.data)


def main(repeats: int = 200) -> None:
    """Measure and print."""
    torch.manual_seed(0)
    network = Surrogate.from_network(ImpulseNetwork(SurrogateConfig()), np.array([[-50.0, 50.0]] * 4))
    for task in (make_task("insertion"), make_task("pick_place")):
        model = task.layout().spec.compile()
        body = task.struck[0][0]
        models: dict[str, tuple[CollisionModel, np.ndarray]] = {
            "closed form": (RestitutionFriction(), np.array([0.5, 0.3])),
            "network": (network, np.array([0.3, 0.5, 0.001, 1.0, 0.0])),
        }
        for name, (collision_model, phi) in models.items():
            felt, unfelt = (
                kind(model, mujoco.MjData(model), task.struck, collision_model, phi) for kind in (HybridStepper, Unfelt)
            )
            speeds = np.linspace(-0.5, -1.0, repeats)
            seconds = np.array([[_impact(stepper, body, speed) for stepper in (felt, unfelt)] for speed in speeds])
            ours, theirs = 1e6 * np.median(seconds, axis=0)
            _print(f"{task.name}: a step with an impact, {name}", ours, "us", "the same, unfelt", theirs)
        ours, theirs = _quiet(model, task.struck, repeats)
        _print(f"{task.name}: a step without an impact", 1e6 * ours, "us", "mj_step", 1e6 * theirs)


def _impact(stepper: HybridStepper, body: str, speed: float) -> float:
    """Seconds of the step in which a body that is thrown down from 5 cm [m/s] is answered."""
    model, data, before = stepper.model, stepper.data, stepper.counts["impacts"]
    mujoco.mj_resetData(model, data)
    data.joint(body).qpos[2] += 0.05
    data.joint(body).qvel[2] = speed
    while data.time < 1.0:
        begin = time.thread_time()
        event = stepper.begin()
        if event is not None:
            settle([event], stepper.collision_model)
        stepper.finish(event)
        if stepper.counts["impacts"] > before:
            return time.thread_time() - begin
    raise RuntimeError(f"{body} meets nothing")


def _quiet(model: mujoco.MjModel, pairs: object, repeats: int) -> tuple[float, float]:
    stepper = HybridStepper(model, mujoco.MjData(model), pairs, RestitutionFriction(), np.array([0.5, 0.3]))  # type: ignore[arg-type]
    data = mujoco.MjData(model)
    return _each(stepper.step, repeats), _each(lambda: mujoco.mj_step(model, data), repeats)


def _each(step: Callable[[], object], repeats: int) -> float:
    taken = []
    for _ in range(5 * repeats):
        begin = time.thread_time()
        step()
        taken.append(time.thread_time() - begin)
    return float(np.median(taken))


def _print(name: str, value: float, unit: str, peer: str, peer_value: float) -> None:
    row = {"name": name, "value": value, "unit": unit, "peer": peer, "peer_value": peer_value}
    print(json.dumps({**row, "ratio": value / peer_value}), flush=True)


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
