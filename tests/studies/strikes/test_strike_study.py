"""The study on the independent engine's table: every method on the same strikes, kept cell by cell, with intervals."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from dexprior import extras
from dexprior.collision import ContactRanges, DistillConfig, GeneratorConfig, SurrogateConfig, distill, generate_pairs
from dexprior.collision.planar.strikes import TuneStrikesConfig
from dexprior.collision.stage import CollisionConfig
from dexprior.errors import ArtifactError, BadInput, ConfigError
from dexprior.policy.planning import PlanConfig
from dexprior.studies.strikes import StrikeStudyConfig, evaluate_plans, evaluate_strikes
from dexprior.studies.strikes.velocities import open_record

needs_bullet = pytest.mark.skipif(not extras.available("pybullet"), reason="needs the extra `reality` (pybullet)")

STUDY = StrikeStudyConfig(
    shapes=("square",),
    settings=(1,),
    methods=("closed_form", "identified", "hybrid"),
    test=8,
    tuning=TuneStrikesConfig(evaluations=8, population=4, time_constant=(0.004, 0.006)),
    resamples=50,
)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    model = distill(
        generate_pairs(GeneratorConfig(pairs=1000), ContactRanges(), seed=0),
        DistillConfig(steps=150, batch=128),
        SurrogateConfig(width=16, depth=2),
        seed=0,
        progress=False,
    )
    path = tmp_path_factory.mktemp("study") / "base.safetensors"
    model.save(path, producer="test", seed=0)
    return path


def _run(base, folder, study=STUDY, **changes):
    return evaluate_strikes(study, base, folder, **{"seed": 3, "n_real": 6, "progress": False, **changes})


@needs_bullet
def test_figures_are_those_of_the_kept_cells_and_a_second_run_takes_them_up(base, tmp_path):
    first = _run(base, tmp_path)
    found = first["shapes"]["square"]
    cell = tmp_path / "square" / "setting_1" / "draw_000.json"
    errors = {name: e["velocity"] for name, e in json.loads(cell.read_text())["errors"].items()}
    assert list(found["methods"]) == list(STUDY.methods)
    for name, figures in found["methods"].items():
        assert figures["n"] == len(errors[name]) == 8
        assert figures["median"] == pytest.approx(np.median(errors[name]))
        assert figures["acc_0.1"] == pytest.approx(np.mean(np.array(errors[name]) < 0.1))
        low, high = figures["intervals"]["velocity"]
        assert low <= figures["velocity"] <= high
    ratio = found["paired"]["closed_form"]["velocity"]["ratio"]
    assert ratio == pytest.approx(np.mean(errors["hybrid"]) / np.mean(errors["closed_form"]))
    assert "hybrid" not in found["paired"]
    told = found["fitted"]["1"][0]
    assert 0.15 < told["table_friction"]["value"] < 0.3  # 0.22 is what the table hides
    assert np.median(told["measured_velocity_error"]) < 0.1
    written = cell.stat().st_mtime_ns
    assert _run(base, tmp_path) == first
    assert cell.stat().st_mtime_ns == written
    with pytest.raises(ArtifactError, match="seed"):
        _run(base, tmp_path, seed=4)
    with pytest.raises(ArtifactError, match="n_real is 6 there, 7 here"):
        _run(base, tmp_path, n_real=7)


@needs_bullet
def test_plans_are_compared_target_by_target_and_kept(base, tmp_path):
    study = replace(STUDY, methods=("mujoco_tuned", "closed_form"))
    options = {
        "seed": 5,
        "n_real": 6,
        "targets": 2,
        "repeats": 2,
        "plan": PlanConfig(evaluations=24, population=12),
        "progress": False,
    }
    result = evaluate_plans(study, base, tmp_path, **options)
    found = result["shapes"]["square"]["1"]
    cell = json.loads((tmp_path / "square" / "setting_1" / "draw_000.json").read_text())
    errors = {name: np.array(row["position"]) for name, row in cell["methods"].items()}
    assert errors["closed_form"].shape == (2, 2)
    for name, row in found["methods"].items():
        assert row["position"] == pytest.approx(errors[name].mean())
        assert row["intervals"]["position"][0] <= row["position"] <= row["intervals"]["position"][1]
        assert row["position"] < 0.1
    difference = found["to_mujoco_tuned"]["closed_form"]["position"]
    assert difference["difference"] == pytest.approx((errors["closed_form"] - errors["mujoco_tuned"]).mean())
    per_target = (errors["closed_form"] - errors["mujoco_tuned"]).mean(axis=0)
    np.testing.assert_allclose(difference["interval"], np.sort(per_target), atol=1e-12)  # the ends of two targets
    assert evaluate_plans(study, base, tmp_path, **options) == result
    with pytest.raises(ArtifactError, match=r"more\.targets is 2 there, 3 here"):
        evaluate_plans(study, base, tmp_path, **options | {"targets": 3})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"settings": (6,)}, "settings 0 to 5"),
        ({"settings": ()}, "at least one"),
        ({"shapes": ("square", "square")}, "each once"),
        ({"speed": (1.0, 0.5)}, "slowest < fastest"),
    ],
)
def test_studies_that_cannot_be_are_refused(wrong, message):
    with pytest.raises(ConfigError, match=message):
        StrikeStudyConfig(**wrong)


def test_too_few_strikes_and_methods_without_a_velocity_are_refused(base, tmp_path):
    with pytest.raises(BadInput, match="at least 3 strikes"):
        _run(base, tmp_path, n_real=2)
    with pytest.raises(BadInput, match="draws = 0"):
        _run(base, tmp_path, draws=0)
    with pytest.raises(BadInput, match="targets = 0"):
        evaluate_plans(STUDY, base, tmp_path, seed=0, targets=0)
    with pytest.raises(BadInput, match="hybrid_mujoco"):
        _run(base, tmp_path, StrikeStudyConfig(methods=("hybrid", "hybrid_mujoco")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"errors": ', "is damaged"),
        ("", "is damaged"),
        ('{"a": 1}', "KeyError"),
        ("[]", "is damaged"),
        (json.dumps({"fitted": {}, "errors": dict.fromkeys(STUDY.methods, dict.fromkeys(
            ("velocity", "position", "orientation"), [0.1] * 5))}), "shape .3, 3, 5., this study's .3, 3, 8."),
    ],
)  # fmt: skip
def test_a_damaged_cell_is_named_before_anything_is_fitted(base, tmp_path, text, message):
    open_record(STUDY, base, tmp_path, stage="strikes", collision=CollisionConfig(), n_real=6, seed=3)
    cell = tmp_path / "square" / "setting_1" / "draw_001.json"
    cell.parent.mkdir(parents=True)
    cell.write_text(text)
    with pytest.raises(ArtifactError, match=message) as found:
        _run(base, tmp_path, draws=2)
    assert str(cell) in str(found.value)
    assert not cell.with_name("draw_000.json").exists()


def test_a_damaged_plan_is_named_before_anything_is_fitted(base, tmp_path):
    options = {"seed": 5, "n_real": 6, "targets": 2, "repeats": 2, "plan": PlanConfig(evaluations=24, population=12)}
    more = {"targets": 2, "repeats": 2, "plan": options["plan"]}
    open_record(STUDY, base, tmp_path, stage="strike-plans", collision=CollisionConfig(), n_real=6, seed=5, more=more)
    cell = tmp_path / "square" / "setting_1" / "draw_000.json"
    cell.parent.mkdir(parents=True)
    cell.write_text('{"methods": {}}')
    with pytest.raises(ArtifactError, match="is damaged"):
        evaluate_plans(STUDY, base, tmp_path, progress=False, **options)
