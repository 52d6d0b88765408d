"""The whole stage, small: it finishes, resumes to the same bits, and refuses another run's folder."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import dexprior.collision.stage as stage
from dexprior.artifacts import read_tensors
from dexprior.collision import CollisionConfig, Surrogate, compare, plot_accuracy, run
from dexprior.collision.report import LABELS, strongest_opponent
from dexprior.config import to_plain, validate
from dexprior.data.impacts import find_ellipse_impacts
from dexprior.errors import ArtifactError, BadInput

TINY = validate(
    CollisionConfig,
    {
        "generator": {"pairs": 800},
        "surrogate": {"width": 12, "depth": 2},
        "distill": {"steps": 80, "batch": 64, "checkpoint_every": 30},
        "identify": {"starts": 2, "steps": 10},
        "grid": {"friction": 4, "damping_ratio": 4, "time_constant": 1, "impratio": 2, "closed_form": 11},
        "cma": {"evaluations": 40},
        "clash": {"pairs": 500, "batch": 64, "steps": 40, "pretrain_steps": 40},
        "clash_tuned": {"pairs": 500, "batch": 64, "steps": 40, "pretrain_steps": 40, "impedance": 0.005},
        "resamples": 50,
        "draws": 2,
        "generated_impacts": 60,
    },
)


class Killed(Exception):
    """Stands for a kill."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("collision")
    return folder, run(TINY, folder, seed=0, data=None, progress=False)


def contents(folder):
    """Everything that a run leaves, but for its clock."""
    arrays = {}
    for path in sorted(folder.rglob("*.safetensors")):
        arrays |= {f"{path.relative_to(folder)}/{k}": v for k, v in read_tensors(path)[0].items()}
    plain = {p: json.loads((folder / p).read_text()) for p in ("result.json", "draws/000.json", "draws/001.json")}
    return arrays, plain


def test_it_leaves_a_model_numbers_and_what_a_plot_needs(finished):
    folder, result = finished
    methods = set(result["methods"])
    assert methods == {
        "finetuned",
        "identified",
        "clash",
        "clash_tuned",
        "clash_without_pretraining",
        "mujoco_grid",
        "mujoco_cma",
        "mujoco_identified",
        "closed_form",
        "point_impulse_bound",
    }
    assert all(len(numbers["per_draw"]["median"]) == 2 for numbers in result["methods"].values())
    assert result["paired"]["clash"]["acc_0.1"]["draws"] == 2
    assert result["strongest_opponent"] in methods - {"finetuned", "identified", "mujoco_identified"}
    assert result["source"] == "generated"
    assert result == json.loads((folder / "result.json").read_text())
    assert all(numbers["n"] == 50 for numbers in result["methods"].values())
    tensors, _ = read_tensors(folder / "samples.safetensors")
    for name in methods:
        assert tensors[f"predicted/{name}"].shape == tensors["measured"].shape
        assert tensors[f"accuracy/{name}"].shape == tensors["thresholds"].shape
    model = Surrogate.load(folder / "collision.safetensors")
    assert {n: v["value"] for n, v in result["fitted"]["finetuned"].items()} == dict(
        zip(model.parameters, model.phi.tolist())
    )


def test_the_saved_model_makes_the_saved_predictions(finished):
    folder, _ = finished
    model = Surrogate.load(folder / "collision.safetensors")
    impacts = stage._impacts(TINY, 0, None)
    rest = impacts.take(next(stage._draws(TINY, impacts, None))[1])
    post, std = stage.evaluation.predict_impacts(model, rest, model.phi)
    tensors, _ = read_tensors(folder / "samples.safetensors")
    np.testing.assert_array_equal(tensors["predicted/finetuned"], post)
    np.testing.assert_array_equal(tensors["predicted_std"], std)


@pytest.mark.parametrize("part", ["train_clash", "identify", "_figures"])
def test_a_run_that_was_killed_goes_on_to_the_same_bits(finished, tmp_path, monkeypatch, part):
    def kill(*_args, **_options):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(stage, part, kill)
        with pytest.raises(Killed):
            run(TINY, tmp_path, seed=0, data=None, progress=False)
    assert not (tmp_path / "result.json").exists()
    for done in ("generate_pairs", "distill"):  # what is on disk is not made again
        monkeypatch.setattr(stage, done, kill)
    run(TINY, tmp_path, seed=0, data=None, progress=False)
    (arrays, plain), (expected_arrays, expected_plain) = contents(tmp_path), contents(finished[0])
    assert plain == expected_plain
    assert arrays.keys() == expected_arrays.keys()
    for name, value in expected_arrays.items():
        np.testing.assert_array_equal(arrays[name], value, err_msg=name)


def test_figures_ratios_and_intervals_are_those_of_the_kept_predictions(finished):
    folder, result = finished
    impacts = stage._impacts(TINY, 0, None)
    medians = {name: [] for name in result["methods"]}
    for draw in stage.scored_draws(folder, TINY, impacts, None):
        assert set(draw.fitted) | set(draw.rows) == set(range(len(impacts)))
        rest = impacts.take(draw.rows)
        for name, post in draw.predicted.items():
            medians[name].append(np.median(stage.evaluation.relative_error(post, rest)))
    for name, numbers in result["methods"].items():
        np.testing.assert_allclose(numbers["per_draw"]["median"], medians[name])
        low, high = numbers["intervals"]["median"]
        assert low <= numbers["median"] <= high
    for name, found in result["paired"].items():
        expected = np.mean(medians["finetuned"]) / np.mean(medians[name])
        assert found["median"]["ratio"] == pytest.approx(expected)


def test_a_finished_run_is_not_run_again(finished, monkeypatch):
    folder, result = finished
    monkeypatch.setattr(stage, "_impacts", None)
    assert run(TINY, folder, seed=0, data=None) == result


def test_a_folder_of_another_run_is_refused(finished, tmp_path):
    folder, _ = finished
    with pytest.raises(ArtifactError, match="seed is 0 there, 1 here"):
        run(TINY, folder, seed=1, data=None)
    with pytest.raises(ArtifactError, match=r"belongs to another run: \S+ is .* there, .* here"):
        run(CollisionConfig(), folder, seed=0, data=None)
    with pytest.raises(ArtifactError, match="the list of inputs is"):
        run(TINY, folder, seed=0, data=tmp_path / "other.npz")


def test_an_absent_measured_file_is_an_error_not_a_generated_one(tmp_path):
    with pytest.raises(BadInput, match="no such file"):
        run(TINY, tmp_path / "run", seed=0, data=tmp_path / "absent.npz", progress=False)


def test_the_default_configuration_survives_its_plain_form():
    assert validate(CollisionConfig, to_plain(CollisionConfig())) == CollisionConfig()


def test_the_sentence_quotes_the_opponent_with_the_smallest_median(finished):
    _, result = finished
    ours = ("finetuned", "identified", "mujoco_identified", "point_impulse_bound")
    medians = {name: m["median"] for name, m in result["methods"].items() if name not in ours}
    name = min(medians, key=medians.get)
    assert LABELS[name] in strongest_opponent(result)
    assert f"{medians[name]:.3f}" in strongest_opponent(result)


def test_the_plot_is_written(finished, tmp_path):
    plot_accuracy(finished[0], tmp_path / "accuracy.png")
    assert (tmp_path / "accuracy.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ArtifactError, match="has not finished"):
        plot_accuracy(tmp_path, tmp_path / "none.png")


def test_it_runs_on_the_measured_impacts(tmp_path):
    path = find_ellipse_impacts()
    if path is None:
        pytest.skip("the measured ellipse impacts are not under $DEXPRIOR_DATA/impacts")
    result = run(TINY, tmp_path, seed=0, data=path, progress=False)
    assert result["source"] == "measured"
    methods = result["methods"]
    assert methods["finetuned"]["n"] == 1408
    assert all(
        methods["point_impulse_bound"]["median"] < numbers["median"]
        for name, numbers in methods.items()
        if name != "point_impulse_bound"
    )


def test_a_training_and_a_test_file_are_kept_apart(tmp_path):
    """Impacts that both files hold are not tested on; a test file of nothing else is refused."""
    path = find_ellipse_impacts()
    if path is None:
        pytest.skip("the measured ellipse impacts are not under $DEXPRIOR_DATA/impacts")
    with np.load(path) as archive:
        arrays = dict(archive)
    train, test = tmp_path / "train.npz", tmp_path / "test.npz"
    np.savez(train, **{k: v[:60] for k, v in arrays.items()})
    np.savez(test, **{k: v[40:120] for k, v in arrays.items()})
    result = compare(TINY, tmp_path / "run", seed=0, train=train, test=test, progress=False)
    fresh = int((arrays["flags"][60:120] == 0).all(axis=1).sum())
    assert result["n_test"] == fresh
    np.savez(test, **{k: v[:50] for k, v in arrays.items()})
    with pytest.raises(BadInput, match="nothing is left to test on"):
        compare(TINY, tmp_path / "other", seed=0, train=train, test=test, progress=False)


def test_more_impacts_than_there_are_is_one_clear_error(tmp_path):
    with pytest.raises(BadInput, match=r"n_real = 60.*between 1 and 59"):
        run(dataclasses.replace(TINY, n_real=60), tmp_path, seed=0, data=None, progress=False)
