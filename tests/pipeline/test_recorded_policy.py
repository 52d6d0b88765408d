"""A started policy that learns from recordings of another world acts more like who was recorded than one without."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dexprior.behavior import BehaviorConfig, BehaviorPrior, read_recordings
from dexprior.data.traces import write_trace
from dexprior.envs.messages import task_to_plain
from dexprior.envs.panel import Panel
from dexprior.envs.sim import SimBackend
from dexprior.errors import BadInput
from dexprior.geometry.timing import minimum_jerk
from dexprior.pipeline.stages import recorded_scenes, stage_policy
from dexprior.policy.actor import Actor, ActorConfig, Senses, load_actor, save_actor
from dexprior.policy.ppo import PpoConfig
from dexprior.policy.rollout import prior_policy, recorded, run_episodes
from dexprior.robots.arm7 import HOME, ArmKinematics
from dexprior.transfer.collection import write_manifest
from dexprior.worlds.tasks import make_task
from dexprior.worlds.tasks.actions import MAX_TWIST

TASK = make_task("insertion")
SMALL = ActorConfig(width=32, point_width=8)
CONFIG = PpoConfig(
    worlds=4, minibatch=50, iterations=3, warmup=2, guided=4, warmup_epochs=20, epochs=1, learning_rate=2e-3,
    actor=SMALL,
)  # fmt: skip


def expert(panel: Panel) -> BehaviorPrior:
    """Down to the nut, close, up, across, down over the bolt; written down by hand."""
    home = ArmKinematics().forward(HOME[None])[0][0]
    k = np.arange(1, TASK.steps + 1)

    def part(start: int, end: int) -> np.ndarray:
        return minimum_jerk(np.clip((k - start) / (end - start), 0, 1))[:, None]

    tool = np.empty((len(panel), 1, TASK.steps, 1, 7))
    tool[..., 3:] = [0.0, 1.0, 0.0, 0.0]
    up = np.array([0.0, 0.0, 0.065])
    for i in range(len(panel)):
        nut, bolt = (np.array([*panel.scenes[name][i, :2], 0.01]) for name in ("nut", "bolt"))
        tool[i, 0, :, 0, :3] = home + part(0, 20) * (nut - home) + part(27, 37) * up + part(37, 55) * (bolt - nut)
        tool[i, 0, :, 0, :3] -= part(57, 72) * up
    end = np.broadcast_to(np.where(k < 21, 1.0, -1.0)[:, None, None], (len(panel), 1, TASK.steps, 1, 1)).copy()
    return BehaviorPrior(BehaviorConfig(), MAX_TWIST, TASK.control_dt, tool, end, panel.hash)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Four instances of the other world, solved by the expert and recorded; a manifest; a run to start from."""
    folder = tmp_path_factory.mktemp("site")
    panel = Panel.sample("site", TASK, 4, seed=3, family=TASK.reality)
    backend = SimBackend(TASK.other(), 4, family=TASK.reality)
    episodes = run_episodes(prior_policy(expert(panel), np.arange(4)), backend, panel)
    assert episodes.success.all()
    (folder / "recordings" / "on_site").mkdir(parents=True)
    panel.save(folder / "recordings" / "panel.json")
    for k, trace in enumerate(recorded(episodes, panel, "other")):
        write_trace(trace, folder / "recordings" / "on_site" / f"{k}.mcap")
    torch.manual_seed(0)
    (folder / "start").mkdir()
    save_actor(Actor(SMALL, Senses.of(backend)), folder / "start" / "actor.safetensors", seed=0,
               extra={"prior": False, "task": task_to_plain(TASK)})  # fmt: skip
    reading = SimpleNamespace(episodes=(), counts={"on_site": None})
    manifest = write_manifest(reading, folder / "recordings", folder / "train.json", init=str(folder / "start"))
    return folder, panel, manifest


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_recordings_improve_a_started_policy_over_the_same_without(site):
    folder, _, manifest = site
    result = stage_policy(CONFIG, None, folder / "with", seed=0, use_prior=True, data=manifest)
    assert result["recorded"] == 4
    stage_policy(CONFIG, None, folder / "without", seed=0, use_prior=False, init=folder / "start", scenes=4)
    unseen = Panel.sample("unseen", TASK, 4, seed=9, family=TASK.reality)
    follow = prior_policy(expert(unseen), np.arange(4))
    actors = {name: load_actor(folder / name / "actor.safetensors") for name in ("start", "with", "without")}
    apart: dict[str, list[float]] = {name: [] for name in actors}

    def act(observation, reading):
        wanted = follow(observation, reading)
        for name, actor in actors.items():
            apart[name].append(float(np.abs(actor.act(observation) - wanted).mean()))
        return wanted

    run_episodes(act, SimBackend(TASK.other(), 4, family=TASK.reality), unseen)
    error = {name: np.mean(rows) for name, rows in apart.items()}
    assert error["with"] < 0.6 * error["without"]
    assert error["with"] < 0.6 * error["start"]


def test_what_was_recorded_solves_what_it_was_recorded_on(site):
    _, panel, manifest = site
    recordings = read_recordings(manifest)
    scenes, prior = recorded_scenes(recordings, TASK, seed=0)
    assert len(scenes) == len(prior.tool) == 4
    assert prior.panel_hash == scenes.hash
    assert scenes.family == TASK.family
    np.testing.assert_array_equal(scenes.scenes["nut"], panel.scenes["nut"])
    again = run_episodes(prior_policy(prior, np.arange(4)), SimBackend(TASK.other(), 4, family=TASK.reality), panel)
    assert again.success.all()


def test_recordings_of_another_panel_are_refused(site):
    folder, panel, manifest = site
    recordings = read_recordings(manifest)
    Panel.sample("x", TASK, 4, seed=4, family=TASK.reality).save(folder / "recordings" / "panel.json")
    with pytest.raises(BadInput, match="the episodes beside it show"):
        recorded_scenes(recordings, TASK, seed=0)
    panel.save(folder / "recordings" / "panel.json")


def test_recordings_without_a_prior_are_refused(site):
    folder, _, manifest = site
    with pytest.raises(BadInput, match="use_prior=false leaves out"):
        stage_policy(CONFIG, None, folder / "x", seed=0, use_prior=False, data=manifest)
