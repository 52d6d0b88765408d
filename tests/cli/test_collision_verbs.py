"""`dexprior collision WORD` in the order of the tutorial, small; each step takes up what the one before left."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dexprior import extras
from dexprior.cli.main import main
from dexprior.data.impacts import save_impacts
from dexprior.data.simulated_impacts import generate_impacts

SMALL = (
    "collision.generator.pairs=800",
    "collision.surrogate.width=12",
    "collision.surrogate.depth=2",
    "collision.distill.steps=80",
    "collision.distill.batch=64",
    "collision.identify.starts=2",
    "collision.grid.friction=4",
    "collision.grid.damping_ratio=4",
    "collision.grid.time_constant=1",
    "collision.grid.impratio=2",
    "collision.grid.closed_form=11",
    "collision.cma.evaluations=40",
    "collision.clash.pairs=500",
    "collision.clash.batch=64",
    "collision.clash.steps=40",
    "collision.clash.pretrain_steps=40",
    "collision.clash_tuned.pairs=500",
    "collision.clash_tuned.batch=64",
    "collision.clash_tuned.steps=40",
    "collision.clash_tuned.pretrain_steps=40",
    "collision.resamples=50",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a base model, impacts, and a fine-tuned model."""
    folder = tmp_path_factory.mktemp("verbs")
    save_impacts(generate_impacts(0, 60), folder / "impacts.npz")
    base = f"out={folder}/base"
    use = (f"model={folder}/base/base.safetensors", f"data={folder}/impacts.npz", f"out={folder}/mine")
    assert main(["collision", "generate", base, *SMALL]) == 0
    assert main(["collision", "distill", base, *SMALL]) == 0
    assert main(["collision", "identify", *use, *SMALL]) == 0
    assert main(["collision", "finetune", *use, *SMALL]) == 0
    return folder


def test_identified_parameters_come_with_intervals_and_flags(made):
    found = json.loads((made / "mine" / "identified.json").read_text())
    assert set(found) == {"friction", "damping_ratio", "time_constant", "impratio", "damping_exponent"}
    for entry in found.values():
        low, high = entry["interval"]
        assert low <= entry["value"] <= high
        assert isinstance(entry["identifiable"], bool)


def test_a_finished_base_is_taken_up_and_another_configuration_refused(made, capsys):
    assert main(["collision", "distill", f"out={made}/base", *SMALL]) == 0
    assert json.loads(capsys.readouterr().out)["pairs"] == 800
    assert main(["collision", "distill", f"out={made}/base", *SMALL, "collision.distill.steps=81"]) == 1
    assert "belongs to another run: steps is " in capsys.readouterr().err


@pytest.mark.parametrize("simulator", ["planar", "mujoco"])
def test_a_plan_ends_near_its_target(made, capsys, simulator):
    words = [f"model={made}/mine/collision.safetensors", f"out={made}/mine", "plan.target=[0.08,0.02,0.1]"]
    search = ["plan.search.evaluations=80", "plan.search.population=20", f"plan.simulator={simulator}"]
    assert main(["collision", "plan", *words, *search]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result == json.loads((made / "mine" / "plan.json").read_text())
    assert result["evaluations"] == 80
    assert np.linalg.norm(np.array(result["final_pose"][:2]) - [0.08, 0.02]) < 0.03
    if simulator == "mujoco":
        np.testing.assert_allclose(result["final_pose"], result["final_pose_in_mujoco"], atol=1e-9)


def test_evaluate_writes_every_method_and_goes_on_where_it_was_stopped(made, capsys):
    words = [f"train={made}/impacts.npz", f"test={made}/impacts.npz", f"out={made}/result.json", "draws=2", *SMALL]
    assert main(["collision", "evaluate", *words]) == 0
    first = (made / "result.json").read_text()
    methods = json.loads(first)["methods"]
    assert {
        "finetuned",
        "clash",
        "clash_tuned",
        "mujoco_grid",
        "mujoco_cma",
        "closed_form",
        "point_impulse_bound",
    } <= set(methods)
    (made / "result.json").unlink()
    (made / "result.parts" / "done.json").unlink()
    (made / "result.parts" / "draws" / "001.json").unlink()
    capsys.readouterr()
    assert main(["collision", "evaluate", *words]) == 0
    assert (made / "result.json").read_text() == first


def test_recorded_starts_are_chosen_among_by_every_method(made, capsys):
    words = ["set=ellipse", f"train={made}/impacts.npz", f"test={made}/impacts.npz", f"out={made}/chosen.json", *SMALL]
    assert main(["collision", "plan", *words]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == json.loads((made / "chosen.json").read_text())["methods"]
    assert shown["recorded_outcome"]["error"] < shown["finetuned"]["error"] < shown["chance"]["error"]
    assert main(["collision", "plan", "set=ellipse", f"train={made}/impacts.npz", f"out={made}/none.json"]) == 1
    assert "give train=FILE and test=FILE" in capsys.readouterr().err


@pytest.mark.skipif(not extras.available("pybullet"), reason="needs the extra `reality` (pybullet)")
def test_evaluate_plays_strikes_on_the_tables_of_another_engine(made, capsys):
    words = [
        "set=strikes",
        f"model={made}/base/base.safetensors",
        f"out={made}/strikes.json",
        "n_real=5",
        "strikes.shapes=[semi_cylinder]",
        "strikes.settings=[1]",
        "strikes.methods=[real_only,hybrid]",
        "strikes.test=5",
        "strikes.resamples=20",
        "strikes.tuning.evaluations=8",
        "strikes.tuning.population=4",
        "strikes.tuning.time_constant=[0.004,0.006]",
    ]
    assert main(["collision", "evaluate", *words, *SMALL]) == 0
    shown = json.loads(capsys.readouterr().out)["semi_cylinder"]
    kept = json.loads((made / "strikes.json").read_text())["shapes"]["semi_cylinder"]
    assert set(shown) == {"real_only", "hybrid"}
    assert shown["hybrid"]["position"] == kept["methods"]["hybrid"]["position"]
    words[2] = f"out={made}/plans.json"
    budget = ["plan.targets=1", "plan.repeats=2", "plan.search.evaluations=20", "plan.search.population=10"]
    assert main(["collision", "plan", *words, *budget, *SMALL]) == 0
    planned = json.loads(capsys.readouterr().out)["semi_cylinder"]["1"]["methods"]
    assert planned["hybrid"]["n"] == 1
    assert planned["hybrid"]["position"] < 0.1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate", "train=a.npz"], "give train=FILE and test=FILE"),
        (["evaluate", "train=a.npz", "test=b.npz", "out=runs/x"], "must name a .json file"),
        (["evaluate", "train=a.npz", "test=b.npz", "out=x.json"], "a.npz: no such file"),
        (["identify", "model=absent.safetensors"], "no base model found"),
        (["plan", "model=absent.safetensors"], "no collision model found"),
        (["guess"], "choices: generate, distill"),
        (["evaluate", "set=sphere"], "set"),
        (["evaluate", "set=strikes", "train=a.npz", "out=x.json"], "reads no train or test file"),
        (["plan", "set=strikes", "out=runs/x"], "collision plan: out=runs/x must name a .json file"),
        (["evaluate", "set=strikes", "out=x.json"], "no base model found"),
        (["evaluate", "set=strikes", "strikes.shapes=[hexagon]"], "'hexagon'"),
        (["evaluate", "set=strikes", "strikes.methods=[hybrid,guess]"], "'guess'"),
        (["evaluate", "set=strikes", "strikes.settings=[9]"], "settings 0 to 5"),
        (["evaluate", "set=strikes", "n_real=2"], "n_real = 2"),
    ],
)
def test_mistakes_are_one_clear_line(capsys, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    assert main(["collision", *words]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
