"""A judge without a simulator: the record scores what a model chose, and nothing that a model says can mislead it."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.collision.stage import CollisionConfig, held_out, scored_draws
from dexprior.config import validate
from dexprior.data.impacts import save_impacts
from dexprior.data.simulated_impacts import generate_impacts
from dexprior.errors import BadInput
from dexprior.studies.ellipses import choose_starts, evaluate_choices, score_choices

TINY = validate(
    CollisionConfig,
    {
        "generator": {"pairs": 800},
        "surrogate": {"width": 12, "depth": 2},
        "distill": {"steps": 80, "batch": 64},
        "identify": {"starts": 2, "steps": 10},
        "grid": {"friction": 4, "damping_ratio": 4, "time_constant": 1, "impratio": 2, "closed_form": 11},
        "cma": {"evaluations": 40},
        "clash": {"pairs": 500, "batch": 64, "steps": 40, "pretrain_steps": 40},
        "clash_tuned": {"pairs": 500, "batch": 64, "steps": 40, "pretrain_steps": 40, "impedance": 0.005},
        "draws": 2,
        "resamples": 50,
    },
)


@pytest.fixture(scope="module")
def recorded():
    return generate_impacts(0, 301)


def test_the_recorded_outcomes_are_the_best_predictor_and_noise_makes_it_worse(recorded):
    rng = np.random.default_rng(0)
    away = rng.normal(size=recorded.post.shape)
    predicted = {f"{scale}": recorded.post + scale * away for scale in (0.0, 0.1, 0.4, 10.0)}
    errors = {name: e.mean() for name, e in score_choices(predicted, recorded, seed=1).items()}
    assert errors["0.0"] < errors["0.1"] < errors["0.4"] < errors["10.0"]
    best = score_choices(predicted, recorded, seed=1)["0.0"]
    for other in score_choices(predicted, recorded, seed=1).values():
        assert (best <= other + 1e-12).all()  # goal by goal: no model finds a start that the truth does not


def test_a_predictor_that_says_the_same_of_every_start_is_no_better_than_chance(recorded):
    shuffled = np.random.default_rng(2).permutation(recorded.post)
    found = [
        score_choices({"constant": 0 * recorded.post + 1.0, "chance": shuffled}, recorded, seed=s) for s in range(40)
    ]
    constant, chance = (np.array([f[name].mean() for f in found]) for name in ("constant", "chance"))
    assert constant.mean() > chance.mean() - 3.0 * constant.std() / np.sqrt(len(constant))


def test_what_a_model_says_of_outcomes_other_than_their_order_does_not_matter(recorded):
    """Only the choice is scored: predictions for starts that are never chosen may be anything."""
    scale = np.array([1.0, 1.0, recorded.gyration])
    goals, starts = recorded.post[:5] * scale, recorded.post[5:] * scale
    chosen = choose_starts(starts, goals)
    others = np.setdiff1d(np.arange(len(starts)), chosen)
    starts[others] += 1e3
    np.testing.assert_array_equal(choose_starts(starts, goals), chosen)


def test_a_goal_is_never_among_the_starts_that_are_chosen_from(recorded):
    """With the truth as the predictor, a goal that was also a start would leave no error."""
    assert (score_choices({"truth": recorded.post}, recorded, seed=3)["truth"] > 0).all()


def test_too_few_impacts_are_refused(recorded):
    with pytest.raises(BadInput, match="3 impacts; at least 4"):
        score_choices({}, recorded.take(np.arange(3)), seed=0)


@pytest.mark.parametrize("apart", [True, False])
def test_every_method_chooses_and_fitted_impacts_are_neither_goals_nor_starts(tmp_path, apart):
    whole = generate_impacts(5, 90, phi=(0.2, 0.25, 8e-4, 1.5), impedance=0.005)
    train = save_impacts(whole.take(np.arange(40 if apart else 90)), tmp_path / "train.npz")
    test = train
    if apart:
        test = save_impacts(whole.take(np.arange(40, 90)), tmp_path / "test.npz")
    result = evaluate_choices(TINY, tmp_path / "run", seed=0, train=train, test=test, progress=False)
    methods = result["methods"]
    assert ("neighbours_all" in methods) == apart
    assert "point_impulse_bound" not in methods
    assert methods["finetuned"]["ours_to_it"] == pytest.approx([1.0, 1.0, 1.0])
    best, chance = methods["recorded_outcome"], methods["chance"]
    for found in methods.values():
        low, high = found["interval"]
        assert low <= found["error"] <= high
        assert best["error"] <= found["error"] + 1e-12
    assert methods["finetuned"]["error"] < chance["error"]
    pool, scored = held_out(train, test)
    for draw in scored_draws(tmp_path / "run", TINY, pool, scored):
        if not apart:
            assert not set(draw.fitted) & set(draw.rows)
