"""Posteriors agree with closed forms; flags, verdicts and losses say what traces tell and what they do not."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

from dexprior.errors import BadInput, MissingExtra, UnknownName
from dexprior.extras import available
from dexprior.families import Parameter, ParameterFamily
from dexprior.transfer.conditioning import (
    Conditioned,
    ConditioningConfig,
    LaplaceConfig,
    NeuralConfig,
    Observations,
    SamplerConfig,
    VerdictConfig,
    condition,
    laplace,
    neural,
    sample_posterior,
)
from dexprior.types import Channel, Trace

QUICK = ConditioningConfig(sampler=SamplerConfig(particles=256), evaluations=200)
SLOPES = np.array([[1.0, 0.5, 0.5, 0.0], [0.3, -1.0, -1.0, 0.0], [0.2, 0.3, 0.3, 0.0], [1.0, 1.0, 1.0, 0.0]])


def normal(name: str, **changes) -> Parameter:
    plain = {
        "name": name, "unit": "1", "low": -6.0, "high": 6.0, "distribution": "normal", "mean": 0.0, "std": 0.8,
        "target": f"world/-/{name}",
    }  # fmt: skip
    return Parameter(**plain | changes)


LINEAR = ParameterFamily("linear", tuple(normal(name) for name in ("alone", "one", "other", "unseen")))


def linear(values: np.ndarray) -> np.ndarray:
    return values @ SLOPES.T


def seen(truth, *, repeats: int = 3, noise: float = 0.1, seed: int = 0) -> Observations:
    clean = linear(np.array([truth]))
    return Observations(
        values=clean + noise * np.random.default_rng(seed).standard_normal((repeats, 4)), groups=("y",) * 4
    )


@pytest.fixture(scope="module")
def posterior() -> Conditioned:
    return condition(LINEAR, seen([0.6, -0.4, 0.3, 0.9], noise=0.1), simulate=linear, settings=QUICK, seed=0)


# --- the posterior ------------------------------------------------------------------------------------------


def test_a_linear_simulators_posterior_is_the_closed_form():
    known = Observations(values=seen([0.6, -0.4, 0.3, 0.9], noise=0.2).values, noise=np.full(4, 0.2))
    found = condition(
        LINEAR, known, simulate=linear, settings=ConditioningConfig(sampler=SamplerConfig(particles=1024)), seed=0
    )
    precision = 3 * SLOPES.T @ SLOPES / 0.04 + np.eye(4) / 0.64
    covariance = np.linalg.inv(precision)
    mean = covariance @ SLOPES.T @ known.values.sum(axis=0) / 0.04
    std = np.sqrt(covariance.diagonal())
    np.testing.assert_allclose((found.values.mean(axis=0) - mean) / std, 0.0, atol=0.1)
    np.testing.assert_allclose(found.values.std(axis=0) / std, 1.0, atol=0.08)
    np.testing.assert_allclose(np.corrcoef(found.values.T)[1, 2], covariance[1, 2] / (std[1] * std[2]), atol=0.02)
    assert found.p_value > 0.01
    assert not found.does_not_cover


def test_a_joint_prior_is_respected():
    """Conditioning in two steps is conditioning on both; the first step's joint density is the second's prior."""
    noise = np.full(4, 0.1)
    first, second = (seen([0.6, -0.4, 0.3, 0.9], seed=k).values for k in (0, 1))
    step = condition(LINEAR, Observations(values=first, noise=noise), simulate=linear, settings=QUICK, seed=0)
    more = Observations(values=second, noise=noise)
    both = Observations(values=np.concatenate([first, second]), noise=noise)
    again = condition(step.joint, more, simulate=linear, settings=QUICK, seed=0)
    once = condition(LINEAR, both, simulate=linear, settings=QUICK, seed=0)
    for k in (0, 1):
        assert again.values[:, k].mean() == pytest.approx(once.values[:, k].mean(), abs=0.5 * once.values[:, k].std())
        assert again.values[:, k].std() == pytest.approx(once.values[:, k].std(), rel=0.35)


def test_the_seed_decides(posterior):
    again = condition(LINEAR, seen([0.6, -0.4, 0.3, 0.9], noise=0.1), simulate=linear, settings=QUICK, seed=0)
    np.testing.assert_array_equal(again.values, posterior.values)
    assert again.family == posterior.family
    other = condition(LINEAR, seen([0.6, -0.4, 0.3, 0.9], noise=0.1), simulate=linear, settings=QUICK, seed=1)
    assert (other.values != posterior.values).any()


def test_noise_that_is_estimated_widens_the_posterior_as_students_t():
    """One parameter, one summary, R repeats: (mean - s) sqrt(R) / std is t with R - 1 degrees of freedom."""
    from scipy.stats import t

    flat = ParameterFamily("flat", (normal("x", distribution="uniform", mean=None, std=None, low=-50.0, high=50.0),))
    y = np.array([[1.0], [1.5], [0.3], [1.1]])
    found = condition(
        flat, Observations(values=y), simulate=lambda v: v, seed=0,
        settings=ConditioningConfig(sampler=SamplerConfig(particles=4000), evaluations=0),
    )  # fmt: skip
    scaled = (found.values[:, 0] - y.mean()) * 2.0 / y.std(ddof=1)
    np.testing.assert_allclose(
        np.quantile(scaled, [0.05, 0.25, 0.75, 0.95]), t.ppf([0.05, 0.25, 0.75, 0.95], 3), atol=0.2
    )


def test_the_sampler_finds_both_modes():
    family = ParameterFamily("f", (normal("x", distribution="uniform", mean=None, std=None),))
    samples = sample_posterior(family, lambda v: -0.5 * ((v[:, 0] ** 2 - 4.0) / 0.1) ** 2, SamplerConfig(), seed=0)
    assert samples.powers[-1] == 1.0
    assert np.abs(np.abs(samples.values[:, 0]) - 2.0).max() < 0.2
    assert 0.3 < (samples.values > 0).mean() < 0.7


def test_a_lucky_draw_far_above_the_others_does_not_stand_for_all():
    """Its copies share the weight, so that no further power seems to cost anything: the others must not be lost."""
    family = ParameterFamily("f", LINEAR.parameters[:2])
    lucky = family.sample(np.random.default_rng([0, 31]), 128)[5]  # of the sampler's own first draws
    samples = sample_posterior(
        family, lambda v: 150.0 * np.exp(-0.5 * ((v - lucky) ** 2).sum(axis=1) / 0.02**2) - 20.0 * (v**2).sum(axis=1),
        SamplerConfig(particles=128), seed=0,
    )  # fmt: skip
    np.testing.assert_allclose(samples.values.mean(axis=0), lucky, atol=0.001)
    np.testing.assert_allclose(samples.values.std(axis=0), 0.02 / np.sqrt(150.0), rtol=0.3)


# --- flags --------------------------------------------------------------------------------------------------


def test_what_the_traces_do_not_tell_keeps_its_prior(posterior):
    after = dict(zip(posterior.family.names, posterior.family.parameters))
    assert [p.identifiable for p in after.values()] == [True, False, False, False]
    assert [p.provenance for p in after.values()] == ["fitted", "assumed", "assumed", "assumed"]
    assert posterior.family.density.names == ("alone",)
    rows = posterior.intervals()
    assert rows["unseen"] == {"unit": "1", "identifiable": False, "value": None, "interval": None}
    low, high = rows["alone"]["interval"]
    assert low < 0.6 < high
    assert high - low < 0.5
    draws = posterior.family.sample(np.random.default_rng(0), 4000)
    np.testing.assert_allclose(draws.std(axis=0)[1:], 0.8, rtol=0.05)  # the prior's
    assert draws[:, 0].std() < 0.1
    assert abs(np.corrcoef(draws.T)[0, 1:]).max() < 0.05


def test_what_is_told_of_two_together_is_noted_and_kept_in_the_joint_family(posterior):
    assert len(posterior.notes) == 1
    assert "told together, not alone: +1.00 one +1.00 other" in posterior.notes[0].replace("+0.99", "+1.00")
    draws = posterior.joint.sample(np.random.default_rng(0), 4000)
    assert (draws[:, 1] + draws[:, 2]).std() < 0.25
    assert draws[:, 1].std() > 0.4
    assert [p.identifiable for p in posterior.joint.parameters] == [True, False, False, False]


def test_the_margin_decides():
    strict = ConditioningConfig(sampler=QUICK.sampler, evaluations=0, verdict=VerdictConfig(margin=0.01))
    found = condition(LINEAR, seen([0.6, -0.4, 0.3, 0.9]), simulate=linear, settings=strict, seed=0)
    assert not any(p.identifiable for p in found.family.parameters)
    assert found.family.density.names == ()
    assert all(row["interval"] is None for row in found.intervals().values())


def test_what_was_told_before_stays_told(posterior):
    """Traces that say nothing new of a parameter do not take back what earlier ones said."""
    vague = seen([0.6, -0.4, 0.3, 0.9], noise=5.0, seed=3)
    again = condition(posterior.family, vague, simulate=linear, settings=QUICK, seed=0)
    assert again.spread[0] > 0.5
    assert again.family.parameters[0].identifiable
    assert again.intervals()["alone"]["interval"] is not None
    assert again.family.sample(np.random.default_rng(0), 1000)[:, 0].std() < 0.1


@pytest.mark.parametrize("kind", ["independent", "copula", "particles", "flow"])
def test_the_new_family_has_the_density_that_was_asked_for(kind):
    settings = ConditioningConfig(sampler=QUICK.sampler, evaluations=0, verdict=VerdictConfig(density=kind))
    square = SLOPES[:, :2]
    family = ParameterFamily("two", LINEAR.parameters[:2])
    clean = np.array([[0.5, -0.3]]) @ square.T
    observations = Observations(values=clean + 0.2 * np.random.default_rng(0).standard_normal((3, 4)), noise=[0.2] * 4)
    found = condition(family, observations, simulate=lambda v: v @ square.T, settings=settings, seed=0)
    assert found.family.density.kind == kind
    draws = found.family.sample(np.random.default_rng(0), 4000)
    np.testing.assert_allclose(draws.mean(axis=0), found.values.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(draws.std(axis=0), found.values.std(axis=0), rtol=0.12)
    assert ParameterFamily.from_json(json.loads(json.dumps(found.family.to_json()))) == found.family


def test_plain_data(posterior):
    plain = json.loads(json.dumps(posterior.as_dict()))
    assert plain["intervals"]["unseen"]["interval"] is None
    assert ParameterFamily.from_json(plain["family"]) == posterior.family


def test_a_family_conditions_itself_by_a_method():
    observations = seen([0.6, -0.4, 0.3, 0.9])
    by = partial(condition, simulate=linear, settings=QUICK, seed=0)
    np.testing.assert_array_equal(LINEAR.condition(observations, by).values, by(LINEAR, observations).values)


# --- verdicts -----------------------------------------------------------------------------------------------

BOX = ParameterFamily(
    "box",
    tuple(normal(n, distribution="uniform", mean=None, std=None, low=-1.0, high=1.0) for n in ("friction", "lag")),
)


def boxed(values: np.ndarray) -> np.ndarray:
    return np.stack([values[:, 0], values[:, 0] + values[:, 1], values[:, 1] - values[:, 0]], axis=1)


def of_box(truth, *, extra=(0.0, 0.0, 0.0), noise: float = 0.02) -> Conditioned:
    clean = boxed(np.array([truth])) + np.array(extra)
    values = clean + noise * np.random.default_rng(5).standard_normal((6, 3))
    return condition(BOX, Observations(values=values, groups=("y",) * 3), simulate=boxed, settings=QUICK, seed=0)


def test_traces_of_a_member_are_covered():
    found = of_box([0.4, -0.5])
    assert found.verdicts == ()
    assert not found.does_not_cover


@pytest.mark.parametrize(("truth", "side", "end"), [([1.3, 0.0], "upper", "1"), ([-1.4, 0.2], "lower", "-1")])
def test_a_truth_beyond_an_end_names_parameter_and_side(truth, side, end):
    found = of_box(truth)
    assert found.does_not_cover
    assert found.p_value < 0.01
    assert f"the family does not cover: 'friction' is pressed against the {side} end {end}" in found.verdicts[0]
    assert not any("'lag'" in text for text in found.verdicts)


def test_a_truth_that_is_no_parameters_fault_is_said_to_be_none():
    found = of_box([0.4, -0.5], extra=(0.0, 0.0, 0.4))
    assert found.does_not_cover
    assert found.p_value < 0.01
    assert "no parameter sits at an end: what differs is none of its parameters" in found.verdicts[-1]
    assert "summary 2" in found.verdicts[-1]


def test_false_misfits_are_as_rare_as_declared():
    """p values of the best fit, of traces that a member made, are not small more often than they may be."""
    rng = np.random.default_rng(0)
    small = 0
    for truth in BOX.sample(rng, 300):
        values = boxed(truth[None]) + 0.02 * rng.standard_normal((3, 3))
        observations = Observations(values=values, groups=("y",) * 3)
        slopes = boxed(np.eye(2)).T
        best = np.linalg.lstsq(slopes, observations.mean, rcond=None)[0]
        small += observations.lack_of_fit(boxed(best[None])[0], 2) < 0.05
    assert 3 <= small <= 27  # 15 expected


# --- losses and refusals ------------------------------------------------------------------------------------


def test_one_repeat_is_handled_and_says_what_is_lost():
    found = condition(LINEAR, seen([0.6, -0.4, 0.3, 0.9], repeats=1), simulate=linear, settings=QUICK, seed=0)
    assert found.p_value is None
    assert any("one repeat: its noise was taken from the misfit" in note for note in found.notes)
    assert not found.does_not_cover
    declared = Observations(values=seen([0.6, -0.4, 0.3, 0.9], repeats=1).values, noise=np.full(4, 0.1))
    found = condition(LINEAR, declared, simulate=linear, settings=QUICK, seed=0)
    assert found.p_value is not None
    assert not any("one repeat" in note for note in found.notes)


def test_simulations_that_fail_count_as_impossible():
    def often(values):
        return np.where(values[:, :1] > 1.0, np.nan, linear(values))

    found = condition(LINEAR, seen([0.6, -0.4, 0.3, 0.9]), simulate=often, settings=QUICK, seed=0)
    assert (found.values[:, 0] <= 1.0).all()
    assert any("simulations were not finite and count as impossible" in note for note in found.notes)


@pytest.mark.parametrize(
    ("simulate", "message"),
    [
        (lambda v: linear(v)[:, :3], r"array of shape \(\d+, 3\) for \d+ parameter sets, expected \(\d+, 4\)"),
        (lambda v: linear(v)[:5], r"array of shape \(5, 4\) for"),
        (lambda v: 1.0, r"array of shape \(\) for"),
        (lambda v: np.nan * linear(v), "not finite for 64 of 64 draws of family 'linear'"),
    ],
)
def test_a_simulator_that_answers_something_else(simulate, message):
    with pytest.raises(BadInput, match=message):
        condition(LINEAR, seen([0.6, -0.4, 0.3, 0.9]), simulate=simulate, settings=QUICK, seed=0)


def test_a_family_without_a_free_parameter():
    fixed = ParameterFamily("fixed", (normal("x", low=1.0, high=1.0, distribution="uniform", mean=None, std=None),))
    with pytest.raises(BadInput, match="family 'fixed' has no parameter that is not fixed"):
        condition(fixed, Observations(values=[[1.0], [1.1]]), simulate=lambda v: v, seed=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"values": [[1.0, np.nan], [1.0, 2.0]]}, "'summary 1' of repeat 0 is nan"),
        ({"values": [1.0, 2.0]}, r"observations of shape \(2,\), expected \(repeat, summary\)"),
        ({"values": np.zeros((0, 3))}, r"observations of shape \(0, 3\)"),
        (
            {"values": [[1.0, 2.0], [1.0, 2.1]]},
            "the 2 repeats of 'summary 0' are equal, and say nothing of their noise",
        ),
        ({"values": [[1.0, 2.0]]}, "one repeat of 'summary 0' alone cannot tell its noise"),
        ({"values": [[1.0, 2.0]], "groups": ("y",)}, "2 names and 1 groups for 2 summaries"),
        ({"values": [[1.0, 2.0]], "noise": [0.1, 0.0]}, "must be 2 positive standard deviations"),
    ],
)
def test_observations_that_cannot_be_used(options, message):
    with pytest.raises(BadInput, match=message):
        Observations(**options)


# --- traces -------------------------------------------------------------------------------------------------


def trace(shift: float = 0.0, *, panel: str = "p", width: int = 2, kind: str = "measured", end: float = 1.0) -> Trace:
    t = np.linspace(0.0, end, 51)
    value = np.stack([t * (k + 1) + shift for k in range(width)], axis=1)
    channel = Channel(t=t, t_host=t, value=value, unit="m", frame="-", kind=kind)
    return Trace(channels={"x": channel}, panel_hash=panel)


def test_traces_become_summaries_by_channel_column_and_time():
    found = Observations.of_traces([trace(), trace(0.1)], ["x"], np.array([0.25, 0.5]))
    np.testing.assert_allclose(found.values, [[0.25, 0.5, 0.5, 1.0], [0.35, 0.6, 0.6, 1.1]])
    assert found.names == ("x[0] at 0.25 s", "x[0] at 0.5 s", "x[1] at 0.25 s", "x[1] at 0.5 s")
    assert found.groups == ("x[0]", "x[0]", "x[1]", "x[1]")


@pytest.mark.parametrize(
    ("traces", "message"),
    [
        ([], "observations of 0 traces"),
        ([trace(), trace(panel="q")], "traces of different panels are no repeats: p, q"),
        ([trace(kind="privileged")], "channel 'x' is privileged: no identification may read it"),
        ([trace(), trace(end=0.4)], "channel 'x' of repeat 1 covers 0 to 0.4 s, not 0.25 to 0.5 s"),
        ([trace(), trace(width=3)], "channels of different widths"),
    ],
)
def test_traces_that_are_no_repeats(traces, message):
    with pytest.raises(BadInput, match=message):
        Observations.of_traces(traces, ["x"], np.array([0.25, 0.5]))


def test_channels_are_known():
    with pytest.raises(UnknownName, match=r"unknown channel 'y'. Known: x"):
        Observations.of_traces([trace()], ["y"], np.array([0.5]))


# --- other methods ------------------------------------------------------------------------------------------


@pytest.mark.skipif(not available("colorama"), reason="needs mujoco.sysid's packages: pip install 'dexprior[sysid]'")
def test_laplace_agrees_with_the_closed_form():
    known = Observations(values=seen([0.6, -0.4, 0.3, 0.9], noise=0.2).values, noise=np.full(4, 0.2))
    found = laplace(LINEAR, known, simulate=linear, settings=LaplaceConfig(search=QUICK, draws=4000), seed=0)
    covariance = np.linalg.inv(3 * SLOPES.T @ SLOPES / 0.04 + np.eye(4) / 0.64)
    mean = covariance @ SLOPES.T @ known.values.sum(axis=0) / 0.04
    std = np.sqrt(covariance.diagonal())
    np.testing.assert_allclose((found.values.mean(axis=0) - mean) / std, 0.0, atol=0.15)
    np.testing.assert_allclose(found.values.std(axis=0) / std, 1.0, atol=0.1)
    assert [p.identifiable for p in found.family.parameters] == [True, False, False, False]
    assert found.simulations < 1000


@pytest.mark.slow
@pytest.mark.skipif(not available("sbi"), reason="needs sbi: pip install 'dexprior[sbi]'")
def test_a_network_comes_near_the_closed_form():
    square = SLOPES[:, :2]
    family = ParameterFamily("two", LINEAR.parameters[:2])
    clean = np.array([[0.5, -0.3]]) @ square.T
    known = Observations(values=clean + 0.2 * np.random.default_rng(0).standard_normal((3, 4)), noise=[0.2] * 4)
    found = neural(family, known, simulate=lambda v: v @ square.T, settings=NeuralConfig(simulations=2000), seed=0)
    covariance = np.linalg.inv(3 * square.T @ square / 0.04 + np.eye(2) / 0.64)
    mean = covariance @ square.T @ known.values.sum(axis=0) / 0.04
    std = np.sqrt(covariance.diagonal())
    np.testing.assert_allclose((found.values.mean(axis=0) - mean) / std, 0.0, atol=0.5)
    np.testing.assert_allclose(found.values.std(axis=0) / std, 1.0, atol=0.3)


@pytest.mark.parametrize(("method", "extra"), [(laplace, "sysid"), (neural, "sbi")])
def test_an_absent_package_is_a_sentence(method, extra, monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=rf"pip install 'dexprior\[{extra}\]'"):
        method(LINEAR, seen([0.6, -0.4, 0.3, 0.9]), simulate=linear, seed=0)


def test_conditioning_loads_no_torch():
    import subprocess
    import sys

    code = "import sys, dexprior.transfer.conditioning; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "False", done.stderr
