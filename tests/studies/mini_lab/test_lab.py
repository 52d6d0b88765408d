"""Settings and folders of the mini-lab."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.artifacts import RunFolder
from dexprior.cli.ledger import Config, run
from dexprior.errors import ArtifactError, BadInput
from dexprior.studies.mini_lab import LabConfig, run_lab
from dexprior.studies.mini_lab.gait import GAIT, gait
from dexprior.studies.mini_lab.rounds import lab_task
from dexprior.studies.mini_lab.worlds import FRICTION, assumed_family, levels, other_family


def test_the_held_out_friction_lies_outside():
    with pytest.raises(BadInput, match=r"held_out 0.9 lies within"):
        LabConfig(held_out=0.9)
    with pytest.raises(BadInput, match="92 are needed"):
        LabConfig(groups=50)


def test_the_worlds_differ_in_friction_alone():
    task, config = lab_task(), LabConfig()
    ours, theirs = assumed_family(task, config), other_family(task, config)
    differ = [a.name for a, b in zip(ours.parameters, theirs.parameters) if a != b]
    assert differ == [FRICTION]
    rows = levels(ours, config.frictions)
    assert rows[:, ours.names.index(FRICTION)].tolist() == list(config.frictions)
    assert np.ptp(np.delete(rows, ours.names.index(FRICTION), axis=1), axis=0).max() == 0


def test_a_gait_mirrors_with_the_turn_that_is_asked_for():
    def first(error):
        memory = np.zeros((1, 4))
        truth = {"error": np.array([error]), "angle": np.zeros(1)}
        gait(np.full((1, len(GAIT)), 0.5), truth, 0.0, 0.04, memory)
        return memory[0, 2]

    assert first(1.0) == pytest.approx(-first(-1.0))
    assert abs(first(1.0)) > 0.1


def test_what_is_no_round_is_named(tmp_path):
    with pytest.raises(ArtifactError, match=r"holds no round of the mini-lab.*ledger lab"):
        run(Config(out=str(tmp_path / "next")), ["update", str(tmp_path)])
    with pytest.raises(BadInput, match="is the round itself"):
        run(Config(out=str(tmp_path)), ["update", str(tmp_path)])
    with pytest.raises(BadInput, match="one folder of a round, got 0"):
        run(Config(), ["update"])


def test_nothing_that_is_there_is_written_over(tmp_path):
    for name in ("ledger.json", "round.yaml"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / name).touch()
        with pytest.raises(BadInput, match=f"{name} holds a round already"):
            run(Config(out=str(tmp_path / name)), ["update", str(tmp_path)])
    RunFolder(tmp_path / "lab", stage="lab", config=LabConfig(), seed=1).open()
    (tmp_path / "lab" / "round-1").mkdir()
    with pytest.raises(ArtifactError, match="belongs to another run: seed is 1 there, 0 here"):
        run_lab(LabConfig(), tmp_path / "lab", seed=0)
