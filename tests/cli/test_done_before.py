"""A command that was carried out says so, and does nothing again; one of another run names what differs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dexprior.cli.main import main
from dexprior.cli.show import told_when_done
from dexprior.pipeline.stages import run_stage


def test_only_a_command_that_changes_nothing_is_already_done(tmp_path, capsys):
    out = tmp_path / "out"

    def told(work) -> bool:
        with told_when_done(out):
            work()
        return "already done" in capsys.readouterr().err

    assert not told(lambda: None)  # nothing there
    assert not told(lambda: (out.mkdir(), (out / "a").write_text("x")))
    assert told(lambda: None)
    assert not told(lambda: (out / "b").write_text("y"))
    assert not told(lambda: (out / "a").write_text("z"))
    assert not told(lambda: (out / "b").unlink())
    with pytest.raises(OSError, match="gone"), told_when_done(out):
        raise OSError("gone")
    assert "already done" not in capsys.readouterr().err


@pytest.fixture
def trains(monkeypatch, tmp_path):
    """Has train-prior count what it was asked for instead of training; what it was asked for so far."""
    asked = []

    def stage(config, demonstrations, folder, *, seed, videos=None, more=()):
        work = lambda: asked.append(more) or {"steps": config.steps + sum(more)}  # noqa: E731
        return run_stage(folder, "prior", config, seed, work, more=more)

    monkeypatch.setattr("dexprior.pipeline.stages.stage_prior", stage)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clips").mkdir()
    return asked


def _train(capsys, *words):
    status = main(["train-prior", "demonstrations=clips", "out=prior", *words])
    told = capsys.readouterr()
    return status, told.out, told.err


def test_a_second_training_is_already_done_and_another_names_its_key(trains, capsys):
    assert _train(capsys, "prior.steps=9")[0] == 0
    status, out, err = _train(capsys, "prior.steps=9")
    assert (status, json.loads(out), trains) == (0, {"steps": 9}, [()])
    assert err.startswith("prior: already done; ")
    status, out, err = _train(capsys, "prior.steps=8")
    assert (status, out) == (1, "")
    assert "prior belongs to another run: steps is 9 there, 8 here; give another output folder, or delete" in err
    status, out, err = _train(capsys, "prior.steps=9", "seed=4")
    assert (status, out) == (1, "")
    assert "seed is 0 there, 4 here" in err


def test_a_finished_training_goes_on_with_more(trains, capsys):
    words = ["prior.steps=9"]
    assert "holds no finished run to go on from" in _train(capsys, *words, "more=4")[2]
    assert _train(capsys, *words)[0] == 0
    for more, steps in (("4", 13), ("4,4", 17)):
        status, out, err = _train(capsys, *words, f"more={more}")
        assert (status, json.loads(out)) == (0, {"steps": steps}), err
        assert "already done" not in err
        assert "already done" in _train(capsys, *words, f"more={more}")[2]
    assert trains == [(), (4,), (4, 4)]
    record = json.loads(Path("prior/run.json").read_text())
    assert [entry["more"] for entry in record["continued"]] == [4, 4]
    assert "more=4,4" in _train(capsys, *words, "more=5")[2]
    assert "greater than or equal to 1" in _train(capsys, *words, "more=0")[2]
