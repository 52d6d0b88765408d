"""A policy's trials in two worlds are a round like any other: read, explained and answered; its policy learns on."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dexprior.artifacts import read_json, write_json
from dexprior.cli.main import main
from dexprior.errors import ArtifactError, BadInput
from dexprior.families import ACTUATOR_DELAY, ParameterFamily
from dexprior.pipeline import rounds
from dexprior.pipeline.rounds import Tried, explain_round, policy_probe, write_round
from dexprior.pipeline.stages import EvaluationConfig, run_world, stage_policy
from dexprior.pipeline.updating import RetrainConfig, update_round
from dexprior.policy.actor import ActorConfig
from dexprior.policy.ppo import PpoConfig
from dexprior.policy.rollout import expert_policy
from dexprior.transfer.diagnosis import BankConfig
from dexprior.transfer.replay import Probe
from dexprior.transfer.rounds import AnswerConfig, answering, read_round
from dexprior.transfer.rounds.adding import evidence_hash
from dexprior.worlds.tasks import make_task

TASK = make_task("wipe")
TINY = PpoConfig(worlds=2, iterations=1, epochs=1, warmup=1, actor=ActorConfig(width=8, point_width=4))
FEW = EvaluationConfig(instances=3, seed=5)


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    """The expert, in the name of a tiny policy that was trained."""
    policy = tmp_path_factory.mktemp("run") / "06-policy"
    stage_policy(TINY, None, policy, seed=0, use_prior=False, task=TASK)
    act = expert_policy(TASK)
    (sim, panel), (real, _) = (run_world(act, world, FEW, task=TASK) for world in ("sim", "other"))
    return Tried(task=TASK, policy=policy, act=act, panel=panel, family=TASK.family, sim=sim, real=real)


@pytest.fixture
def folder(tried, tmp_path):
    write_round(tried, tmp_path / "1", seed=0)
    return tmp_path / "1"


def test_the_folder_says_what_happened(tried, folder):
    found = read_round(folder)
    assert found.settings.task == "wipe"
    assert (folder / found.settings.policy / "actor.safetensors").is_file()
    for world, episodes in ((found.ledger.sim, tried.sim), (found.ledger.real, tried.real)):
        np.testing.assert_array_equal(world.success, episodes.success)
        np.testing.assert_array_equal(world.held, episodes.held)
        np.testing.assert_allclose(world.slip_rate, episodes.slip_rate, atol=1e-6)
    assert found.family is not None
    assert found.family.parameters[: len(TASK.family.names)] == TASK.family.parameters
    delay = found.family.parameters[found.family.names.index(ACTUATOR_DELAY)]
    assert delay.fixed  # both worlds have the same
    probe = Probe.read(folder / "probe.json")
    assert probe.panel_hash == policy_probe(tried).panel_hash
    assert len(probe.actions) * TASK.control_dt <= 0.9  # its block is held from the start
    write_round(tried, folder, seed=0)  # again, after a kill


@pytest.mark.slow
def test_it_is_explained_and_the_ledger_s_verbs_read_it(folder, monkeypatch):
    monkeypatch.setattr(rounds, "BANK", BankConfig(null=30, each=4))
    diagnosis, said = explain_round(folder, seed=0)
    assert diagnosis.seen  # plate and block of the other world lie outside of the family
    assert said.startswith("The probe's replays: explained by")
    gaps = read_json(folder / "diagnosis.json")
    assert gaps == pytest.approx(diagnosis.gaps)
    assert sum(gaps.values()) == pytest.approx(1.0)
    assert read_json(folder / "explanation.json")["causes"] == pytest.approx(diagnosis.causes)


@pytest.fixture
def explained(folder, monkeypatch):
    """A round whose friction is blamed, and a fit that takes no time."""
    explanation = {"causes": {"friction": 0.9, "unknown": 0.1}, "seen": True}
    evidence = evidence_hash(folder, read_round(folder))
    write_json(folder / "explanation.json", explanation | {"evidence": evidence})

    def fit(family, seen, *, simulate, blamed, settings, seed):
        found = tuple(replace(p, low=0.5, high=0.51, provenance="fitted") if p.name in blamed else p
                      for p in family.parameters)  # fmt: skip
        return SimpleNamespace(
            family=ParameterFamily("fitted", found), actions=("fitted it",), as_dict=lambda: {"fitted": {}}
        )

    monkeypatch.setattr(answering, "update_family", fit)
    return folder


def test_the_policy_is_trained_again_over_the_new_family_and_compared(explained, tmp_path, tried):
    small = AnswerConfig(others=8)
    answer = update_round(explained, tmp_path / "2", small, RetrainConfig(iterations=1), FEW, seed=0)
    assert answer["policy"] == answer["player"] == "policy"
    assert set(answer["success"]) == {"simulator", "other world"}
    for world in answer["comparison"].values():
        assert world["n"] == 3
        assert sum(world["pairs"].values()) == 3
    record = read_json(tmp_path / "2" / "policy" / "run.json")
    assert record["config"]["warmup"] == 0  # what the old actor knows is kept
    assert len(read_json(tmp_path / "2" / "policy" / "done.json")["result"]["curve"]) == 1
    (tmp_path / "2" / "trials.csv").write_text("world,instance,success\nsimulator,0,1\nother world,0,0\n")
    following = read_round(tmp_path / "2").settings
    assert (tmp_path / "2" / following.policy / "actor.safetensors").is_file()
    assert following.round == "2"


def test_training_may_be_left_out(explained, tmp_path):
    words = ["training.iterations=0", "answer.panel=2", "answer.player=still", "answer.others=8"]
    assert main(["ledger", "update", str(explained), f"out={tmp_path / '2'}", *words]) == 0
    assert not (tmp_path / "2" / "policy").exists()
    assert read_json(tmp_path / "2" / "update.json")["player"] == "still"


def test_what_cannot_be_trained_again_is_named(explained, tmp_path, tried):
    record = tried.policy / "run.json"
    kept = record.read_text()
    record.unlink()
    with pytest.raises(ArtifactError, match=r"run\.json.*train-policy"):
        update_round(explained, tmp_path / "2")
    record.write_text(kept)
    other = tmp_path / "pick_place"
    stage_policy(TINY, None, other, seed=0, use_prior=False, task=make_task("pick_place"))
    text = (explained / "round.yaml").read_text()
    was = read_round(explained).settings.policy
    (explained / "round.yaml").write_text(text.replace(was, str(other)))
    with pytest.raises(BadInput, match="its probe is of another task"):
        update_round(explained, tmp_path / "2")
