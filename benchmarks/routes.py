"""Pushing policies trained in two simulators that were fitted to the same ten strikes: one JSON line a policy.

python benchmarks/routes.py BASE.safetensors OUT hybrid 30000      (or mujoco; BASE is written by `collision distill`)

Both are fitted to the strikes of draw 0 of the strike study in setting 1 (seed 20261128, semi-cylinder), MuJoCo with
its impedance free; the policy, SAC of the default width, then drives routes on the table in all six settings.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from dexprior.collision.stage import CollisionConfig
from dexprior.collision.surrogate import Surrogate
from dexprior.envs.reality.pushing import SETTINGS, RealTable, start_table
from dexprior.policy.pushing import PushConfig, RouteStudyConfig, StrikerConfig, study_routes, train
from dexprior.studies.strikes.velocities import Bench, StrikeStudyConfig
from dexprior.worlds.pushing import PushingConfig

SEED, SETTING, STRIKES = 20261128, 1, 10


def fitted_striker(base: Path, kind: str, out: Path) -> tuple[StrikerConfig, PushingConfig]:
    """One of the two simulators, fitted; and the world with the table that the strikes tell."""
    world = PushingConfig()
    with RealTable(start_table(world, setting=SETTING, seed=SEED, truth=True)) as table:
        bench = Bench(
            world=world, table=table, setting=SETTING, base=Surrogate.load(base), references={},
            study=StrikeStudyConfig(), collision=CollisionConfig(), n_real=STRIKES,
        )  # fmt: skip
        rng = bench.generator(SEED, 0)
        fitted = bench.fit(bench.record(STRIKES, rng), rng)
    if kind == "mujoco":
        return StrikerConfig(kind="mujoco", parameters=dict(fitted.tuned)), fitted.standing
    file = fitted.surrogate.save(out / "fitted.safetensors", producer="benchmarks.routes", seed=SEED)
    striker = StrikerConfig(kind="hybrid", surrogate=str(file), contact_time=fitted.contact_time)
    return striker, fitted.standing


def row(base: Path, out: Path, kind: str, steps: int) -> dict:
    """Fit, train, drive."""
    out.mkdir(parents=True, exist_ok=True)
    striker, world = fitted_striker(base, kind, out)
    started = time.process_time()
    train(PushConfig(world=world, striker=striker, steps=steps), out, 0, quiet=True)
    seconds = time.process_time() - started
    study = RouteStudyConfig(settings=tuple(range(len(SETTINGS))))
    routes = study_routes(study, out, out / "routes.json", seed=7)
    return {"simulator": kind, "strikes": steps, "cpu_s": seconds, "routes": routes}


if __name__ == "__main__":
    base, out, kind, steps = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    print(json.dumps(row(base, out, kind, steps)), flush=True)
