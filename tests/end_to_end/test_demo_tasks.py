"""The line on the tasks that no other test takes through it, at a size where nothing is learned.

Runs of `pick_place` and `peg` stand in test_demo.py and test_documents.py. A second of a threaded nut or of a cloth
costs as much as a minute of a peg: there the stages are run up to a policy, and one demonstration is followed. The
ladder judges these same ways to act once more; the collision model knows no task.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from dexprior.behavior import BehaviorPrior
from dexprior.cli.compose import compose
from dexprior.data.stacks import load_stack
from dexprior.pipeline import ladder
from dexprior.pipeline.demo import run_demo
from dexprior.pipeline.following import clips_of_stack, follow
from dexprior.pipeline.line import Line
from dexprior.pipeline.settings import STAGES, LineConfig
from dexprior.pipeline.worlds import judging_worlds
from dexprior.policy.ppo import warm_up_of
from dexprior.worlds.tasks import demonstrated_tasks

pytestmark = pytest.mark.slow

SMALL = (
    "preset=smoke", "threads=1", "jobs=1", "demonstrations.n=16", "demonstrations.refine.rounds=0", "bank.scenes=2",
    "policy.worlds=2", "policy.iterations=2", "evaluation.instances=2", "gated=1",
)  # fmt: skip
WHOLE = {"insertion": (), "soft_grasp": ("settings.timestep=0.004", "evaluation.repeats=96")}
COSTLY = {"nut_bolt": ("bank.scenes=1",), "folding": ("settings.engine=particles",)}
ELSEWHERE = {"pick_place", "peg"}


def made(name: str, folder, *more: str) -> LineConfig:
    return compose("demo", LineConfig, [*SMALL, f"task={name}", f"out={folder}", *more])


def test_every_task_with_demonstrations_is_run_somewhere():
    assert ELSEWHERE | set(WHOLE) | set(COSTLY) == set(demonstrated_tasks())


@pytest.mark.parametrize("name", WHOLE)
def test_the_demo_of_a_task_ends_on_its_report(name, tmp_path, monkeypatch):
    """In two of the four worlds."""
    monkeypatch.setattr(
        ladder, "judging_worlds", lambda task: {k: judging_worlds(task)[k] for k in ("training", "other")}
    )
    page = run_demo(made(name, tmp_path, *WHOLE[name]), say=lambda _: None).read_text()
    assert f"dexprior demo: {name}" in page
    assert "most is lost between" in page or "nothing is lost" in page
    found = {stage: json.loads((tmp_path / stage / "done.json").read_text())["result"] for stage in STAGES}
    assert found["01-demonstrations"]["successes"] >= 8
    gated = "left_out" not in found["12-backends"]["hardware"]
    assert ("gate" in found["09-ladder"]["rungs"]) == gated == (name == "insertion")


@pytest.mark.parametrize("name", COSTLY)
def test_the_stages_of_a_costly_task_end_in_a_policy_and_its_demonstrations_are_followed(name, tmp_path):
    line = Line(made(name, tmp_path, *COSTLY[name]))
    assert line.demonstrations()["successes"] >= 8
    line.prior()
    line.estimator()
    assert line.behavior()["scenes"] == line.config.bank.scenes
    bank = BehaviorPrior.load(line.folder["04-behavior"] / "behavior.safetensors")
    assert bank.size == 7
    assert np.isfinite(bank.tool).all()
    worlds = line.config.policy.worlds
    assert line.policy("05-imitation", warm_up_of(line.config.policy))["steps"] == worlds * line.task.steps
    clips = clips_of_stack(load_stack(line.folder["01-demonstrations"], line.config.prior.size))[:1]
    won = follow(
        name, clips, ["training"], gripper=line.gripper, behavior=line.config.bank.behavior, seed=line.config.seed
    )
    assert won["training"].shape == (1,)
