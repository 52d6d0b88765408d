"""The whole evaluation, small: complete, resumable, and honest about what it left out."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from dexprior.data.tosses import CubeScale, generate_tosses
from dexprior.errors import BadInput
from dexprior.studies.cubes import (
    CmaConfig,
    CubeEvaluationConfig,
    FamilyConfig,
    MujocoTosses,
    SimulationConfig,
    TossGridConfig,
    draw_toss,
    evaluate_cube,
)

TINY = CubeEvaluationConfig(
    family=FamilyConfig(evaluations=12, population=6),
    simulation=SimulationConfig(impact_substeps=8),
    cma=CmaConfig(evaluations=12),
    grid=TossGridConfig(sizes={"friction": 2}),
    rollout_draws=1,
    members=2,
    fit_stride=40,
    score_stride=20,
    resamples=20,
)


@pytest.fixture(scope="module")
def tosses():
    return generate_tosses(3, 44)


@pytest.fixture(scope="module")
def result(tosses, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cube")
    done = []
    found = evaluate_cube(
        tosses, tosses, TINY, n_real=14, draws=2, folder=folder, progress=lambda k, n: done.append((k, n))
    )
    return found, folder, done


def test_every_method_has_figures_with_intervals_and_the_result_is_plain(result):
    found, _, done = result
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert done == [(1, 2), (2, 2)]
    figures = found["figures"]
    assert set(figures["first"]) == {"ours", "mujoco_cma", "mujoco_grid", "closed_form", "bound", "prior"}
    whole = {"ours", "ours_single", "mujoco_cma", "mujoco_cma_mean", "mujoco_grid", "prior"}
    assert set(figures["whole/flight"]) == set(figures["whole/frame0"]) == whole
    assert {"steps_80", "steps_16", "distribution"} < set(figures)
    for methods in figures.values():
        for entry in methods.values():
            for name, triple in entry.items():
                if name not in ("draws", "over_draws"):
                    assert len(triple) == 3
                    assert triple[1] <= triple[2]
    assert figures["first"]["bound"]["median"][0] < figures["first"]["closed_form"]["median"][0]
    assert found["ratios"]["whole/flight/ours to mujoco_cma, e_q"][0] > 0


def test_no_recording_is_on_both_sides_of_one_file(result, tosses):
    found, _, _ = result
    assert found["tosses"]["train"] + found["tosses"]["test"] == len(tosses)


def test_a_finished_draw_is_not_repeated_and_gives_the_same_result(result, tosses):
    found, folder, _ = result
    (folder / "draw_001.json").unlink()
    first = (folder / "draw_000.json").stat().st_mtime_ns
    assert evaluate_cube(tosses, tosses, TINY, n_real=14, draws=2, folder=folder) == found
    assert (folder / "draw_000.json").stat().st_mtime_ns == first


def test_a_draw_of_other_settings_is_repeated(result, tosses):
    _, folder, _ = result
    other = replace(TINY, rollout_draws=0)
    again = evaluate_cube(tosses, tosses, other, n_real=14, draws=1, folder=folder)
    assert "whole/flight" not in again["figures"]
    assert "first" in again["figures"]


def test_too_few_first_impacts_are_said_not_raised(tosses):
    found = evaluate_cube(tosses, tosses, replace(TINY, rollout_draws=0), n_real=2, draws=2, seed=1)
    assert "usable first impacts in 2 tosses" in " ".join(found["skipped"]["0"])
    assert "bound" in found["figures"]["first"]


def test_shared_recordings_are_taken_from_the_training_side(tosses):
    train, test = tosses.take(np.arange(30)), tosses.take(np.arange(20, 44))
    found = evaluate_cube(train, test, replace(TINY, rollout_draws=0), n_real=12, draws=1)
    assert found["tosses"]["shared_and_left_out"] >= 10
    assert found["tosses"]["test"] == 24
    with pytest.raises(BadInput, match="all 5 tosses to learn from are among the 24"):
        evaluate_cube(test.take(np.arange(5)), test, TINY, n_real=3, draws=1)


def test_no_draws_are_refused(tosses):
    with pytest.raises(BadInput, match="draws = 0"):
        evaluate_cube(tosses, tosses, TINY, draws=0)


def test_a_toss_is_drawn(tmp_path, tosses):
    one = tosses.take([0])
    scale = CubeScale(half_width=0.0509, gravity=9.53, table_height=-0.0004)
    phi = np.array([0.3, 0.6, 0.0034, 1.0, 0.0, 0.0, 0.9, 0.95, 0.001])
    played = MujocoTosses(phi=phi, scale=scale).rollout(one.initial_states, len(one.pos) - 1)
    draw_toss(tmp_path / "toss.png", one.states, {"MuJoCo": played}, scale)
    assert (tmp_path / "toss.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(BadInput, match="expected"):
        draw_toss(tmp_path / "toss.png", one.states, {"MuJoCo": played[:, :-1]}, scale)
