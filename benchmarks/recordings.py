"""What recordings of an expert are worth to a policy, by the world that they were recorded in: one JSON line a world.

python benchmarks/recordings.py runs/insertion/06-policy OUT other training

The scripted expert knows where nut and bolt are; its episodes in the other world carry what that world's contact asks
for, those in the training world are the control: the same script, panel and training.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from dexprior.data.traces import write_trace
from dexprior.envs.panel import Panel
from dexprior.envs.sim import SimBackend
from dexprior.pipeline.stages import EvaluationConfig, stage_evaluation, stage_policy
from dexprior.policy.ppo import PpoConfig
from dexprior.policy.rollout import prior_policy, recorded, run_episodes
from dexprior.transfer.collection import write_manifest
from dexprior.worlds.tasks import make_task

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "pipeline"))
from test_recorded_policy import expert

TASK = make_task("insertion")
WORLDS = {"other": (TASK.other(), TASK.reality), "training": (TASK, TASK.family)}
INSTANCES = 48


def row(world: str, policy: Path, out: Path) -> dict:
    """Record, train from the policy, and evaluate beside it on the held-out panel."""
    started = time.monotonic()
    task, family = WORLDS[world]
    panel = Panel.sample("site", task, INSTANCES, seed=3, family=family)
    backend = SimBackend(task, INSTANCES, family=family)
    episodes = run_episodes(prior_policy(expert(panel), np.arange(INSTANCES)), backend, panel)
    folder = out / world / "recordings"
    (folder / "on_site").mkdir(parents=True)
    panel.save(folder / "panel.json")
    for k, trace in enumerate(recorded(episodes, panel, world)):
        write_trace(trace, folder / "on_site" / f"{k}.mcap")
    reading = SimpleNamespace(episodes=(), counts={"on_site": None})
    manifest = write_manifest(reading, folder, out / world / "train.json", init=str(policy))
    stage_policy(PpoConfig(), Path(), out / world / "policy", seed=0, use_prior=True, data=manifest)
    found = stage_evaluation(
        EvaluationConfig(), {"policy": out / world / "policy", "baseline": policy}, out / world / "evaluation", seed=0
    )
    return {
        "recorded in": world, "episodes": int(episodes.success.sum()), "instances": INSTANCES,
        "success": {name: {w: [r["success"]["k"], r["success"]["n"]] for w, r in rows.items()}
                    for name, rows in found["policies"].items()},
        "compared": found["compared"], "seconds": time.monotonic() - started,
    }  # fmt: skip


def main(policy: str, out: str, *worlds: str) -> None:
    """One line a world."""
    for world in worlds or tuple(WORLDS):
        print(json.dumps(row(world, Path(policy), Path(out))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
