"""`dexprior estimate-pose samples=`: what lies beside the samples is read with them."""

from __future__ import annotations

import dataclasses
import json

import pytest
from pictured import pictured_episode

from dexprior.artifacts import load_all, save
from dexprior.cli.main import main
from dexprior.pose.estimator import EstimatorConfig, PoseEstimator, save_estimator
from dexprior.types import HandTrajectory, ObjectTrajectory


@pytest.fixture
def sampled(tmp_path, monkeypatch):
    """A folder with two samples, their conditions and a second camera's views, and an estimator."""
    monkeypatch.chdir(tmp_path)
    episodes = [pictured_episode(seed, n=6, size=16) for seed in range(2)]
    save([e.sample for e in episodes], tmp_path / "samples.safetensors", producer="test")
    save([e.condition for e in episodes], tmp_path / "conditions.safetensors", producer="test")
    views = [dataclasses.replace(next(v for v in e.views if v.frames is not None), depth=None) for e in episodes]
    save(views, tmp_path / "samples.side.safetensors", producer="test")
    model = PoseEstimator(EstimatorConfig(size=16, channels=4, width=16)).eval()
    save_estimator(model, tmp_path / "estimator.safetensors", seed=0)
    return ["estimate-pose", "samples=samples.safetensors", "estimator=estimator.safetensors", "out=pose"]


def test_hands_and_objects_are_read_from_all_cameras(sampled, tmp_path, capsys):
    assert main(sampled) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["clips"], answer["cameras"]) == (2, 2)
    assert len(answer["consistency"]) == 2
    both = load_all(tmp_path / "pose" / "hand.safetensors", HandTrajectory)
    assert len(load_all(tmp_path / "pose" / "object.safetensors", ObjectTrajectory)) == 2
    (tmp_path / "samples.side.safetensors").unlink()
    assert main(sampled) == 0
    assert json.loads(capsys.readouterr().out)["cameras"] == 1
    alone = load_all(tmp_path / "pose" / "hand.safetensors", HandTrajectory)
    assert abs(both[0].joints - alone[0].joints).max() > 1e-4


def test_samples_without_conditions_or_with_others_are_refused(sampled, tmp_path, capsys):
    conditions = tmp_path / "conditions.safetensors"
    save([pictured_episode(0, n=6, size=16).condition], conditions, producer="test")
    assert main(sampled) == 1
    assert "holds 2 clip(s), the conditions and views beside it 1 and 2: sample them again" in capsys.readouterr().err
    conditions.unlink()
    assert main(sampled) == 1
    assert "conditions.safetensors does not exist: it says where the clips' objects are" in capsys.readouterr().err
