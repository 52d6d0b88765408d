"""Diagnosis: injected causes are named, strange ones are unknown, and trials and interventions count."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.errors import BadInput, UnknownName
from dexprior.families import GAPS
from dexprior.transfer.diagnosis import (
    CAUSES,
    UNKNOWN,
    Intervention,
    SignatureBank,
    Trial,
    calibrate,
    cause_of,
    diagnose,
    identified,
    inject_cause,
    injectable,
    prior_of_failures,
    rank_parameters,
    support_of_intervention,
)
from dexprior.transfer.replay import as_the_expert_did, replay, wiping
from dexprior.worlds.tasks import make_task

NAMES = ("friction", "delay", "mass")
REPEATS = 2


@pytest.fixture(scope="module")
def bank():
    probe = wiping(make_task("wipe"), seconds=1.6)
    return SignatureBank.make(probe, NAMES, repeats=REPEATS, null=60, each=20)


def _real(bank, cause, magnitude, n=3, seed=5):
    values = identified(bank.probe.task).sample(np.random.default_rng(seed), n)
    what = None if cause is None else CAUSES[cause]
    return inject_cause(bank.probe, what, values, np.full(n, magnitude), repeats=REPEATS, seed=seed)


@pytest.mark.parametrize(
    ("cause", "magnitude"), [("friction", 1.8), ("friction", 0.5), ("delay", 0.012), ("mass", 2.5)]
)
def test_an_injected_cause_is_named(bank, cause, magnitude):
    for found in diagnose(bank, _real(bank, cause, magnitude)):
        assert found.seen
        assert max(found.causes, key=found.causes.get) == cause
        assert found.ranked()[0][0] == CAUSES[cause].gap
        assert sum(found.gaps.values()) == pytest.approx(1.0)
        assert set(found.gaps) == {*GAPS, UNKNOWN}


def test_what_no_cause_explains_is_unknown(bank):
    for found in diagnose(bank, _real(bank, "joint_offset", 0.01)):
        assert max(found.causes, key=found.causes.get) == UNKNOWN
        assert found.ranked()[0][0] == UNKNOWN


def test_a_robot_of_the_family_shows_nothing(bank):
    found = diagnose(bank, _real(bank, None, 1.0, n=12))
    assert sum(d.seen for d in found) <= 2
    quiet = next(d for d in found if not d.seen)
    assert quiet.causes == {}
    assert quiet.gaps["visual"] > quiet.gaps["contact"]  # a replay cannot show what nobody looks at


def test_trials_and_interventions_move_the_answer(bank):
    quiet = _real(bank, None, 1.0, n=1)
    trials = [Trial(success=i % 2 == 0, phase=None if i % 2 == 0 else "approach") for i in range(20)]
    panel = Intervention(gap="visual", without=(10, 20), with_it=(20, 20))
    alone = diagnose(bank, quiet, trials=trials)[0].gaps["visual"]
    assert diagnose(bank, quiet, trials=trials, interventions=[panel])[0].gaps["visual"] > alone
    assert diagnose(bank, quiet, trials=trials, interventions=[panel])[0].ranked()[0][0] == "visual"


def test_another_probe_is_refused(bank):
    other = wiping(make_task("wipe"), seconds=1.2)
    family = identified(other.task)
    foreign = replay(other, family, family.sample(np.random.default_rng(0), 1), repeats=2, seed=0)
    with pytest.raises(BadInput, match="the traces are of panel"):
        diagnose(bank, foreign)
    values = identified(bank.probe.task).sample(np.random.default_rng(0), 1)
    often = inject_cause(bank.probe, None, values, np.ones(1), repeats=3, seed=0)
    with pytest.raises(BadInput, match="3 repeats are compared with signatures for 2"):
        diagnose(bank, often)


def test_calibration_finds_its_parameters_again():
    rng = np.random.default_rng(0)
    n, causes = 4000, 5
    shares = rng.uniform(0.02, 1.0, (n, causes))
    logits = np.concatenate([-3.0 * np.log(shares + 0.01), np.full((n, 1), -3.0 * np.log(0.15 + 0.01))], axis=1)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    truth = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    known = truth < causes
    found = calibrate(shares[known], truth[known])
    assert 1.5 < found.sharpness < 4.5
    assert 0.05 < found.unknown < 0.6


def test_the_prior_follows_what_trials_have_in_common():
    even = prior_of_failures(())
    assert sum(even.values()) == pytest.approx(1.0)
    assert even["contact"] == pytest.approx(even["human"])
    touching = prior_of_failures([Trial(success=False, phase="contact")] * 5)
    assert max(touching, key=touching.get) == "contact"
    one_object = [Trial(success=i % 2 == 0, object="cup" if i % 2 == 0 else "peach") for i in range(20)]
    assert max(prior_of_failures(one_object), key=prior_of_failures(one_object).get) == "object"
    lights = [Trial(success=i % 2 == 0, lighting=f"{i % 2}") for i in range(20)]
    prior = prior_of_failures(lights)
    assert prior["visual"] == pytest.approx(prior["environment"])
    assert prior["visual"] > 5 * prior["contact"]
    no_link = [Trial(success=i % 4 == 0, object="cup" if i % 2 == 0 else "peach") for i in range(2)]
    assert prior_of_failures(no_link)["object"] < 3 * prior_of_failures(no_link)["contact"]


def test_an_intervention_that_helps_is_supported():
    assert support_of_intervention(Intervention(gap="visual", without=(5, 20), with_it=(18, 20))) > 100
    assert support_of_intervention(Intervention(gap="visual", without=(10, 20), with_it=(10, 20))) < 1
    assert support_of_intervention(Intervention(gap="visual", without=(15, 20), with_it=(5, 20))) < 0.1
    with pytest.raises(UnknownName, match="gap"):
        Intervention(gap="weather", without=(1, 2), with_it=(1, 2))
    with pytest.raises(BadInput, match="3 successes of 2"):
        Intervention(gap="visual", without=(3, 2), with_it=(1, 2))


def test_bad_trials_and_causes_are_named():
    with pytest.raises(UnknownName, match="phase of a failure"):
        Trial(success=False, phase="lunch")
    with pytest.raises(BadInput, match="failed in no phase"):
        Trial(success=True, phase="contact")
    with pytest.raises(UnknownName, match="unknown cause 'frction'; did you mean 'friction'"):
        cause_of("frction")
    with pytest.raises(BadInput, match="29 groups of the family"):
        SignatureBank.make(wiping(make_task("wipe")), NAMES, repeats=2, null=29)
    with pytest.raises(BadInput, match="a motion of the task 'wipe'"):
        wiping(make_task("peg"))


def test_what_a_scene_lacks_is_no_cause_of_its_failures():
    fruit, cube = make_task("soft_grasp"), make_task("pick_place")
    uneven = cause_of("uneven_mass")
    assert injectable(uneven, cube)
    assert not injectable(uneven, fruit)  # nothing rigid moves there


def test_parameters_are_ranked_by_their_effect():
    task = make_task("wipe")
    rng = np.random.default_rng(0)
    values = task.family.sample(rng, 400)
    friction = values[:, task.family.names.index("plate_friction")]
    success = friction + 0.05 * rng.normal(size=400) < 0.35
    effects = rank_parameters(task.family, values, success)
    assert effects[0].parameter == "plate_friction"
    assert effects[0].difference < -0.7
    assert effects[0].p_adjusted < 1e-6
    assert all(e.gap == "contact" for e in effects)
    assert effects[1].p_adjusted > 0.01
    with pytest.raises(BadInput, match="20 trials: at least 30"):
        rank_parameters(task.family, values[:20], success[:20])
    with pytest.raises(BadInput, match="values of shape"):
        rank_parameters(task.family, values[:, :2], success)


def test_a_replay_is_the_same_at_any_number_of_threads():
    probe = wiping(make_task("wipe"), seconds=0.8)
    family = identified(probe.task)
    values = family.sample(np.random.default_rng(0), 3)
    one = replay(probe, family, values, repeats=2, seed=1, threads=1)
    two = replay(probe, family, values, repeats=2, seed=1, threads=2)
    for name in one.values:
        np.testing.assert_array_equal(one.values[name], two.values[name])
    assert np.abs(one.values["force"][..., 2]).max() > 2.0


def test_the_experts_actions_can_be_replayed():
    task = make_task("pick_place")
    probe = as_the_expert_did(task, identified(task), seed=1)
    assert probe.actions.shape == (125, 7)
    assert probe.panel_hash == as_the_expert_did(task, identified(task), seed=1).panel_hash
    assert probe.panel_hash != as_the_expert_did(task, identified(task), seed=2).panel_hash
