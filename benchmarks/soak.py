"""Random actions for a long time: no number that is not finite, no memory that grows.

Prints a JSON line {name, steps, episodes, not_finite, rss_mb: [after a tenth, at the end], cpu_s} a task, and exits
with 1 if a number was not finite or memory grew by more than 5 %.

    python benchmarks/soak.py pick_place=10000000 soft_grasp=220000 [folding=...]
"""

from __future__ import annotations

import json
import sys
import time

import dexprior  # noqa: F401  # before MuJoCo: chooses the off-screen OpenGL platform

import numpy as np  # isort: skip

from dexprior.envs.tasks import make_vec_env

WORLDS = 128


def main(tasks: dict[str, int]) -> int:
    """Soak each task for so many control steps of all worlds together."""
    results = [soak(task, steps) for task, steps in tasks.items()]
    for row in results:
        print(json.dumps(row), flush=True)
    return int(any(row["not_finite"] or row["rss_mb"][1] > 1.05 * row["rss_mb"][0] for row in results))


def soak(task: str, steps: int) -> dict[str, object]:
    """Random actions, drawn anew every control step; worlds restart when their episodes are over."""
    env = make_vec_env(task, num_envs=WORLDS, threads=1)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    rounds = -(-steps // WORLDS)
    episodes, bad, start, early = 0, 0, time.process_time(), 0.0
    for k in range(rounds):
        observation, reward, terminated, truncated, _ = env.step(
            rng.uniform(-1.0, 1.0, (WORLDS, env.worlds.action_size))
        )
        episodes += int((terminated | truncated).sum())
        numbers = (*observation.values(), reward, env.worlds.view.qpos, env.worlds.view.qvel)
        bad += sum(int((~np.isfinite(value)).sum()) for value in numbers)
        if k == rounds // 10:
            early = _resident()
    return {
        "name": task, "steps": rounds * WORLDS, "episodes": episodes, "not_finite": bad,
        "rss_mb": [round(early, 1), round(_resident(), 1)], "cpu_s": round(time.process_time() - start, 1),
    }  # fmt: skip


def _resident() -> float:
    """Memory of this process [MB]."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


if __name__ == "__main__":
    given = (word.partition("=") for word in sys.argv[1:] or ["pick_place=10000000", "soft_grasp=220000"])
    sys.exit(main({task: int(steps) for task, _, steps in given}))
