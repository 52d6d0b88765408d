"""Time of one collision, of a batch, and of a plan, against MuJoCo in the same run.

Prints JSON lines {name, value, unit, peer, peer_value, ratio}; the network is untrained, as its time does not depend on
its weights.

    python benchmarks/collision.py [repeats]
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

os.environ["OMP_NUM_THREADS"] = "1"  # one thread for both sides, and before NumPy is imported

import numpy as np
import torch

from dexprior.collision import ContactRanges, ImpulseNetwork, Surrogate, SurrogateConfig, contact_velocity
from dexprior.collision.planar import PlanarStriker
from dexprior.data.simulated_impacts import generate_impacts, simulate_impacts
from dexprior.extras import available
from dexprior.policy.planning import MujocoStriker, PlanConfig, plan_strikes
from dexprior.studies.strikes import SlidingInMujoco
from dexprior.worlds.pushing import PushingConfig

BATCH = 4096
CONTACT = np.array([0.25, 0.2, 0.004, 1.0])  # MuJoCo's default impedance, at which `resolution` takes about 40 steps


def main(repeats: int = 5) -> None:
    """Measure and print."""
    torch.manual_seed(0)
    seen = np.array([[-50.0, 50.0]] * 4)
    model = Surrogate.from_network(ImpulseNetwork(SurrogateConfig()), seen)
    impacts = generate_impacts(0, BATCH)
    phi = ContactRanges().from_unit(np, np.zeros((1, 5)))
    geometry = impacts.geometry
    approach, delassus = contact_velocity(impacts.pre, geometry), geometry.delassus

    single = _time(lambda: _simulate(impacts.take(np.array([0]))), 20, repeats)
    step = _single_mujoco(impacts, repeats)
    batch = _time(lambda: _simulate(impacts), 1, repeats) / BATCH
    scale = model.config.ranges.simulated_scale
    features = (0.1, 0.2, 1.0, 0.9, phi[0, :4], *scale, *model._packed)
    rows = [
        ("one collision, network alone, NumPy", _time(lambda: model.kernel(*features), 300, repeats), step),
        (
            "one collision, from contact to impulse, NumPy",
            _time(lambda: model.network_impulse(approach[:1], delassus[:1], phi), 200, repeats),
            step,
        ),
    ]
    if available("numba"):
        fast = model.compiled()
        rows += [
            ("one collision, network alone, compiled", _time(lambda: fast.kernel(*features), 1000, repeats), step),
            (
                "one collision, from contact to impulse, compiled",
                _time(lambda: fast.network_impulse(approach[:1], delassus[:1], phi), 200, repeats),
                step,
            ),
        ]
    many = np.tile(phi, (BATCH, 1))
    rows.append(
        (
            f"a collision in a batch of {BATCH}",
            _time(lambda: model.network_impulse(approach, delassus, many), 3, repeats) / BATCH,
            step,
        )
    )
    for name, seconds, peer in rows:
        _print(name, 1e6 * seconds, "us", "mj_step through one contact", 1e6 * peer)
    _print("a collision in a batch, against MuJoCo's own", 1e6 * rows[-1][1], "us", "mujoco.batch", 1e6 * batch)
    _print("simulate_impacts, one", 1e6 * single, "us", "mj_step through one contact", 1e6 * step)
    for shape in ("semi_cylinder", "square", "triangle"):
        _plans(shape, model, phi[0])


def _simulate(impacts: object) -> None:
    simulate_impacts(
        impacts.pre,  # type: ignore[attr-defined]
        impacts.angle,  # type: ignore[attr-defined]
        np.tile(CONTACT, (len(impacts), 1)),  # type: ignore[arg-type]
        semi_axes=impacts.semi_axes,  # type: ignore[attr-defined]
        mass=impacts.mass,  # type: ignore[attr-defined]
        inertia=impacts.inertia,  # type: ignore[attr-defined]
    )


def _single_mujoco(impacts: object, repeats: int) -> float:
    """Bare `mj_step` of one ellipse from the touch to the separation."""
    import mujoco

    from dexprior.data.impacts import ellipse_contact
    from dexprior.data.simulated_impacts import SCENE

    one = impacts.take(np.array([0]))  # type: ignore[attr-defined]
    model = mujoco.MjModel.from_xml_string(SCENE)
    data = mujoco.MjData(model)
    geom, body = model.geom("ellipse").id, model.body("ellipse").id
    a, b = one.ellipse
    model.geom_size[geom], model.geom_rbound[geom] = [a, b, b], a
    model.body_mass[body], model.body_inertia[body] = one.mass, one.inertia
    model.geom_friction[geom, 0], model.geom_solref[geom] = CONTACT[0], [CONTACT[2], CONTACT[1]]
    model.opt.timestep = CONTACT[1] * CONTACT[2] / 12
    mujoco.mj_setConst(model, data)
    height = ellipse_contact(one.angle, one.ellipse)[1][0, 2]

    def collide() -> None:
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:] = [0.0, height, one.angle[0]], one.pre[0]
        touched = False
        while data.ncon or not touched:
            mujoco.mj_step(model, data)
            touched |= data.ncon > 0

    return _time(collide, 30, repeats)


def _plans(shape: str, model: Surrogate, phi: np.ndarray) -> None:
    """Five targets planned in step, with the same evaluations."""
    world = PushingConfig(shape=shape)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    start = np.zeros((5, 3))
    target = np.column_stack([rng.uniform(0.05, 0.15, 5), rng.uniform(-0.05, 0.05, 5), rng.uniform(-0.5, 0.5, 5)])
    plan = PlanConfig()
    seconds = {}
    planar = PlanarStriker(config=world, model=model, phi=phi, table_friction=world.table_friction)
    simulators = {"MuJoCo": MujocoStriker(config=world), "sliding": SlidingInMujoco(impact=planar), "planar": planar}
    for name, simulator in simulators.items():
        begin = time.perf_counter()
        plan_strikes(world, simulator, start, target, plan=plan, seed=0)
        seconds[name] = (time.perf_counter() - begin) / len(start)
    peer = ("s", "MuJoCo, batched", seconds["MuJoCo"])
    _print(f"a plan for the {shape}", seconds["planar"], *peer)
    _print(f"a plan for the {shape}, on MuJoCo's sliding", seconds["sliding"], *peer)


def _time(call: Callable[[], object], count: int, repeats: int) -> float:
    """Seconds of one call: the fastest of some runs, as all the rest is other processes."""
    call()
    best = np.inf
    for _ in range(repeats):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, (time.perf_counter() - begin) / count)
    return float(best)


def _print(name: str, value: float, unit: str, peer: str, peer_value: float) -> None:
    row = {"name": name, "value": value, "unit": unit, "peer": peer, "peer_value": peer_value}
    print(json.dumps({**row, "ratio": value / peer_value}), flush=True)


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
