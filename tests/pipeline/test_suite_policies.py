"""Policies of any task of the suite: trained without a prior, evaluated in both worlds and through a socket."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dexprior.artifacts import write_json
from dexprior.behavior import BehaviorConfig, BehaviorPrior
from dexprior.cli.evaluate import Config
from dexprior.cli.evaluate import run as evaluate
from dexprior.cli.main import main
from dexprior.config import to_plain
from dexprior.envs import BackendConfig, factory
from dexprior.envs.panel import Panel
from dexprior.errors import BadInput
from dexprior.families import ACTUATOR_DELAY, Parameter, ParameterFamily, SensorModels, SightConfig, actuation
from dexprior.families.sensors import EncoderConfig
from dexprior.pipeline.stages import (
    EvaluationConfig,
    run_world,
    seen_through,
    stage_evaluation,
    stage_policy,
    trained_sensors,
    trained_task,
)
from dexprior.policy.actor import ActorConfig
from dexprior.policy.ppo import PpoConfig
from dexprior.worlds.tasks import inject, make_task
from dexprior.worlds.tasks.actions import MAX_TWIST

TINY = PpoConfig(worlds=2, iterations=1, epochs=1, actor=ActorConfig(width=8, point_width=4))
FEW = EvaluationConfig(instances=2)
TASKS = {
    "pick_place": make_task("pick_place", half_size=0.018),
    "cube_in_hand": make_task("cube_in_hand"),  # no arm to move, and many fingers
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run folder of each task."""
    folders = {}
    for name, task in TASKS.items():
        folders[name] = tmp_path_factory.mktemp(name)
        stage_policy(TINY, None, folders[name], seed=0, use_prior=False, task=task)
    return folders


def test_a_policy_s_file_knows_its_task(trained):
    for name, task in TASKS.items():
        assert trained_task({"policy": trained[name]}) == task
    with pytest.raises(BadInput, match=r"policies of different tasks cannot be compared: .*half_size"):
        trained_task(trained)


@pytest.mark.parametrize("name", TASKS)
def test_it_is_evaluated_in_both_worlds(trained, tmp_path, name):
    found = stage_evaluation(FEW, {"policy": trained[name]}, tmp_path, seed=0)
    assert set(found["policies"]["policy"]) == {"sim", "other"}
    for world in found["policies"]["policy"].values():
        assert world["success"]["n"] == 2
        assert 0 <= world["lost"] <= 2
        assert 0.0 <= world["saturated"] <= 1.0


def test_it_is_evaluated_behind_a_socket_in_the_other_world_only(trained, tmp_path):
    config = EvaluationConfig(instances=2, backend=BackendConfig(kind="reality"))
    found = stage_evaluation(config, {"policy": trained["pick_place"]}, tmp_path / "there", seed=0)
    here = stage_evaluation(FEW, {"policy": trained["pick_place"]}, tmp_path / "here", seed=0)
    assert set(found["policies"]["policy"]) == {"other"}
    assert found["policies"]["policy"]["other"] == here["policies"]["policy"]["other"]
    with pytest.raises(BadInput, match="world 'sim'; choices: other"):
        run_world(lambda *_: None, "sim", config, task=TASKS["pick_place"])


def test_a_policy_is_judged_through_the_sensors_that_it_was_trained_with(trained, tmp_path):
    """In every backend, but for those that the backend has of its own."""
    sensors = SensorModels(encoder=EncoderConfig(bias=0.2))
    seen = replace(TINY, simulation=factory.SimulationOptions(sensors=sensors))
    stage_policy(seen, None, tmp_path / "policy", seed=0, use_prior=False, task=TASKS["pick_place"])
    assert trained_sensors(tmp_path / "policy") == sensors
    assert trained_sensors(trained["pick_place"]) == SensorModels()
    chosen = seen_through(BackendConfig(), sensors)
    assert {chosen.simulation.sensors, chosen.reality.sensors, chosen.hardware.sensors} == {sensors}
    own = SensorModels(sight=SightConfig())
    kept = seen_through(BackendConfig(simulation=factory.SimulationOptions(sensors=own)), sensors)
    assert (kept.simulation.sensors, kept.reality.sensors) == (replace(sensors, sight=own.sight), sensors)


def test_training_goes_on_through_the_sensors_that_an_actor_was_trained_with(tmp_path):
    """But for those that the new settings switch on; points with labels are for another actor."""
    unlabelled = SensorModels(sight=SightConfig(labels=False))
    seen = replace(TINY, simulation=factory.SimulationOptions(sensors=unlabelled))
    stage_policy(seen, None, tmp_path / "first", seed=0, use_prior=False, task=TASKS["pick_place"])
    noisy = replace(TINY, simulation=factory.SimulationOptions(sensors=SensorModels(encoder=EncoderConfig(bias=0.2))))
    stage_policy(noisy, None, tmp_path / "on", seed=0, use_prior=False, init=tmp_path / "first")
    assert trained_sensors(tmp_path / "on") == SensorModels(encoder=EncoderConfig(bias=0.2), sight=unlabelled.sight)
    labelled = replace(TINY, simulation=factory.SimulationOptions(sensors=SensorModels(sight=SightConfig())))
    with pytest.raises(BadInput, match="kind of sensors; of what it senses and sends, these differ: labels"):
        stage_policy(labelled, None, tmp_path / "other", seed=0, use_prior=False, init=tmp_path / "first")


def test_hardware_that_cannot_be_driven_is_named(trained):
    config = EvaluationConfig(instances=2, backend=BackendConfig(kind="hardware"))
    with pytest.raises(BadInput, match="hardware is one arm with a parallel gripper"):
        run_world(lambda *_: None, "other", config, task=TASKS["cube_in_hand"])


def test_what_does_not_fit_is_said(trained, tmp_path):
    with pytest.raises(BadInput, match="'pick_place' without a behavioral prior: give behavior=FOLDER"):
        stage_policy(TINY, None, tmp_path, seed=0, use_prior=True, task=TASKS["pick_place"])
    with pytest.raises(BadInput, match="behavior=bank: a behavioral prior, which use_prior=false leaves out"):
        stage_policy(TINY, Path("bank"), tmp_path, seed=0, use_prior=False, task=TASKS["pick_place"])
    with pytest.raises(BadInput, match="evaluate task=peg: the policy was trained for 'pick_place'"):
        evaluate(Config(task="peg", policy=str(trained["pick_place"]), out=str(tmp_path)), [])


@pytest.fixture
def learned(tmp_path):
    """What a robot's logs said: a friction beyond the task's own, a delay, a coarse encoder."""
    family = ParameterFamily(
        "fitted",
        (
            Parameter(name="cube_friction", unit="1", low=0.31, high=0.32, target="geom/cube/friction/0"),
            *actuation(delay=(0.02, 0.03))[:1],
        ),
    )
    write_json(tmp_path / "family.json", family.to_json())
    write_json(tmp_path / "sensors.json", to_plain(SensorModels(encoder=EncoderConfig(step=0.01))))
    return [f"family={tmp_path / 'family.json'}", f"sensors={tmp_path / 'sensors.json'}", "phenomena={stribeck:{}}"]


def _demo_of_the_task(folder, monkeypatch):
    """Work beside a demo's run, whose bank knows scenes without clutter, and cannot be read."""
    bank = folder / "runs" / "demo" / "04-behavior"
    bank.mkdir(parents=True)
    Panel.sample("train", TASKS["pick_place"], 3, seed=0, purpose="training").save(bank / "panel.json")
    (bank / "behavior.safetensors").write_bytes(b"not read without the prior")
    monkeypatch.chdir(folder)


def test_what_was_learned_of_a_robot_is_trained_and_evaluated_with(trained, tmp_path, learned, monkeypatch):
    seen = []
    make = factory.simulate

    def noted(engine, task, n, *, family=None, options=None):
        seen.append((task, family, options))
        return make(engine, task, n, family=family, options=options)

    _demo_of_the_task(tmp_path, monkeypatch)
    monkeypatch.setattr("dexprior.policy.ppo.simulate", noted)
    monkeypatch.setattr(factory, "simulate", noted)
    words = [*learned, "injectors={clutter:0.5}"]
    small = ["policy.worlds=2", "policy.iterations=1", "policy.epochs=1", "policy.actor.width=8"]
    small += ["policy.actor.point_width=4", "policy.warmup=0"]
    start = trained["pick_place"]
    assert main(["train-policy", f"init={start}", "use_prior=false", f"out={tmp_path / 'on'}", *small, *words]) == 0
    assert (
        main(["evaluate", f"policy={tmp_path / 'on'}", "evaluation.instances=2", f"out={tmp_path / 'e'}", *words]) == 0
    )
    assert [task == inject(TASKS["pick_place"], {"clutter": 0.5}) for task, *_ in seen] == [True] * 3
    for *_, options in seen:
        assert options.sensors.encoder.step == 0.01
        assert options.phenomena.active == ("stribeck",)
    trained_in, sim, other = ({p.name: p for p in family.parameters} for _, family, _ in seen)
    assert trained_in["cube_friction"].high == sim["cube_friction"].high == 0.32
    assert ACTUATOR_DELAY in sim
    assert ACTUATOR_DELAY not in other  # the other world keeps its own
    assert trained_task({"policy": tmp_path / "on"}) == TASKS["pick_place"]
    (tmp_path / "family.json").write_text((tmp_path / "family.json").read_text().replace("0.32", "0.33"))
    assert main(["train-policy", f"init={start}", "use_prior=false", f"out={tmp_path / 'on'}", *small, *words]) == 1


def test_a_panel_with_another_family_keeps_the_scenes_that_its_prior_knows(tmp_path, learned):
    task = TASKS["pick_place"]
    panel = Panel.sample("train", task, 2, seed=0, purpose="training")
    tool = np.broadcast_to([0.5, 0, 0.2, 0, 1, 0, 0], (2, 1, task.steps, 1, 7)).copy()
    end = np.ones((2, 1, task.steps, 1, 1))
    panel.save(tmp_path / "panel.json")
    prior = BehaviorPrior(BehaviorConfig(), MAX_TWIST, task.control_dt, tool, end, panel.hash)
    prior.save(tmp_path / "behavior.safetensors")
    family = (learned[0].partition("=")[2],)
    found = stage_policy(TINY, tmp_path, tmp_path / "out", seed=0, use_prior=True, task=task, family=family)
    assert len(found["curve"]) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["family=nowhere.json"], "nowhere.json"),
        (["sensors=nowhere.json"], "nowhere.json"),
        (["phenomena={stribek:{}}"], "phenomena.stribek: unknown key. Did you mean 'stribeck'"),
        (["injectors={light:2}"], "strength 2.0 is outside"),
        (["family={file}", "evaluation.backend.kind=reality"], "which backend 'reality' does not show"),
        (["phenomena={stribeck:{}}", "evaluation.backend.kind=reality"], "backend 'reality' has its own"),
    ],
)  # fmt: skip
def test_words_that_cannot_be_followed_are_named(trained, tmp_path, learned, capsys, words, message):
    words = [word.replace("{file}", learned[0].partition("=")[2]) for word in words]
    assert main(["evaluate", f"policy={trained['pick_place']}", f"out={tmp_path / 'e'}", *words]) == 1
    assert message in capsys.readouterr().err
