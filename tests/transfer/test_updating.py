"""Which parameters are blamed, and where a family goes when traces lie outside of it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from dexprior.errors import BadInput, UnknownName
from dexprior.families import Parameter, ParameterFamily
from dexprior.transfer.conditioning import ConditioningConfig, Observations, SamplerConfig
from dexprior.transfer.updating import UpdateConfig, added_by, blamed_parameters, update_family, widened

FAMILY = ParameterFamily(
    "slide",
    (
        Parameter(name="friction", unit="1", low=0.6, high=0.9, target="geom/block/friction/0"),
        Parameter(name="speed", unit="m/s", low=0.9, high=1.1, target="world/-/speed"),
        Parameter(name="mass", unit="kg", low=0.3, high=0.3, target="body/block/mass"),
    ),
)
T = np.linspace(0.02, 0.12, 6)
FAST = UpdateConfig(
    conditioning=ConditioningConfig(sampler=SamplerConfig(particles=128), population=8, evaluations=200)
)


def simulate(values):
    return values[:, 1:2] * T - 0.5 * 9.81 * values[:, :1] * T**2


def seen(friction, n=5):
    truth = simulate(np.array([[friction, 1.0, 0.3]]))
    values = truth + 2e-4 * np.random.default_rng(0).standard_normal((n, len(T)))
    return Observations(values=values, groups=("position",) * len(T))


def test_a_truth_below_the_support_widens_it_downwards_and_is_found():
    update = update_family(FAMILY, seen(0.2), simulate=simulate, blamed=["friction"], settings=FAST, seed=0)
    friction, speed, _ = update.family.parameters
    assert update.widenings >= 1
    assert friction.low < 0.2
    assert friction.high == 0.9
    assert friction.provenance == "fitted"
    assert friction.mean == pytest.approx(0.2, abs=0.02)
    assert speed == FAMILY.parameters[1]
    assert update.actions[0].startswith("widened friction from [0.6, 0.9]")


def test_a_truth_inside_is_fitted_without_widening():
    update = update_family(FAMILY, seen(0.75), simulate=simulate, blamed=["friction"], settings=FAST, seed=0)
    assert update.widenings == 0
    assert (update.family.parameters[0].low, update.family.parameters[0].high) == (0.6, 0.9)
    assert update.family.parameters[0].std < 0.3 * 0.3 / np.sqrt(12)


def test_a_fit_right_beside_an_end_is_looked_for_beyond_it():
    def twice(values):
        """Two frictions give the same: one just inside of the support, one far below."""
        return (1.0 + (values[:, :1] - 0.2) * (values[:, :1] - 0.605)) * T

    truth = twice(np.array([[0.2, 1.0, 0.3]]))
    values = truth + 2e-6 * np.random.default_rng(0).standard_normal((5, len(T)))
    real = Observations(values=values, groups=("position",) * len(T))
    update = update_family(FAMILY, real, simulate=twice, blamed=["friction"], settings=FAST, seed=0)
    assert update.widenings >= 1
    assert "its fit lies right beside its lower end" in update.actions[0]
    assert update.family.parameters[0].low < 0.6


def test_a_fit_states_values_and_no_interval():
    """Repeats of a contact err together, so that the fit's spread is no interval."""
    update = update_family(FAMILY, seen(0.75), simulate=simulate, blamed=["friction"], settings=FAST, seed=0)
    plain = update.as_dict()
    assert plain["fitted"]["friction"]["value"] == pytest.approx(0.75, abs=0.02)
    assert list(plain["fitted"]) == ["friction"]
    assert "interval" not in json.dumps(plain)
    assert not [action for action in update.actions if action.startswith("fitted") and "[" in action]


def test_what_the_traces_do_not_tell_stays():
    noisy = Observations(values=seen(0.75).values, noise=np.full(len(T), 1.0))
    update = update_family(FAMILY, noisy, simulate=simulate, blamed=["friction"], settings=FAST, seed=0)
    assert update.family.parameters == FAMILY.parameters
    assert update.actions == ("did not fit friction: the traces do not tell it",)


def test_what_no_member_explains_is_left_wide_and_not_fitted():
    odd = Observations(values=seen(0.75).values + 0.05 * np.sin(200 * T), groups=("position",) * len(T))
    once = UpdateConfig(conditioning=FAST.conditioning, widenings=1)
    update = update_family(FAMILY, odd, simulate=simulate, blamed=["friction"], settings=once, seed=0)
    friction = update.family.parameters[0]
    assert friction.provenance == "assumed"
    assert friction.high - friction.low > 0.3
    assert "did not fit friction: the traces do not fit it" in update.actions
    assert update.actions[-1].startswith("not explained")


def zigzag(friction, size):
    """A truth that also differs in what no friction does."""
    apart = size * np.array([1, -1, 1, -1, 1, -1])
    return Observations(values=seen(friction).values + apart, groups=("position",) * len(T))


@pytest.mark.parametrize(("friction", "low", "high"), [(0.2, 0.075, 0.9), (1.4, 0.6, 1.8)])
def test_what_explains_traces_in_part_is_widened_as_far_as_they_tell(friction, low, high):
    real = zigzag(friction, 0.002)
    found = update_family(FAMILY, real, simulate=simulate, blamed=["friction"], settings=FAST, seed=0)
    p = found.family.parameters[0]
    assert (p.low, p.high) == pytest.approx((low, high))
    assert p.provenance == "assumed"
    assert found.widenings == found.as_dict()["widenings"] == 2
    assert [action.split(" (")[0] for action in found.actions if action.startswith("took back")] == [
        "took back a wider friction: the traces fit it no better than by chance"
    ]


def test_a_widening_that_explains_nothing_leaves_the_family_as_it_was():
    real = zigzag(0.75, 0.01)
    for widenings in (1, 4):
        settings = replace(FAST, widenings=widenings)
        found = update_family(FAMILY, real, simulate=simulate, blamed=["friction"], settings=settings, seed=0)
        assert found.family.parameters == FAMILY.parameters
        assert found.widenings == 0
        assert not [action for action in found.actions if action.startswith("widened")]


def test_several_that_are_blamed_are_widened_together():
    truth = simulate(np.array([[0.3, 1.6, 0.3]]))
    values = truth + 2e-4 * np.random.default_rng(0).standard_normal((5, len(T)))
    real = Observations(values=values, groups=("position",) * len(T))
    found = update_family(FAMILY, real, simulate=simulate, blamed=["friction", "speed"], settings=FAST, seed=0)
    friction, speed, _ = found.family.parameters
    assert friction.mean == pytest.approx(0.3, abs=0.05)
    assert speed.mean == pytest.approx(1.6, abs=0.02)


def test_causes_that_are_probable_together_are_blamed_together():
    give = Parameter(name="give", unit="s", low=0.005, high=0.01, target="geom/block/solref/0")
    family = ParameterFamily("slide", (*FAMILY.parameters, give))
    assert blamed_parameters(family, {"friction": 0.35, "contact_give": 0.3, "unknown": 0.35}) == ("friction", "give")
    assert blamed_parameters(family, {"friction": 0.6, "contact_give": 0.3, "unknown": 0.1}) == ("friction",)
    every = ("friction", "speed", "give")
    assert blamed_parameters(family, {"friction": 0.2, "contact_give": 0.2, "unknown": 0.6}) == every
    assert blamed_parameters(family, {"friction": 0.35, "mass": 0.3, "unknown": 0.35}) == every  # mass is fixed


def test_blame_follows_the_most_probable_cause():
    assert blamed_parameters(FAMILY, {"friction": 0.9, "unknown": 0.1}) == ("friction",)
    assert blamed_parameters(FAMILY, {"friction": 0.3, "delay": 0.3, "unknown": 0.4}) == ("friction", "speed")
    assert blamed_parameters(FAMILY, {"mass": 0.9}) == ("friction", "speed")  # it is fixed
    assert blamed_parameters(FAMILY, {}) == ("friction", "speed")


def test_a_positive_end_stays_positive():
    p = Parameter(name="k", unit="1", low=1.0, high=9.0, distribution="log_uniform", target="geom/a/friction/0")
    assert widened(p, "lower").low == 0.25
    assert widened(p, "upper").high == 17.0
    assert widened(p, "lower").distribution == "log_uniform"


def test_wrong_blame_is_named():
    with pytest.raises(UnknownName, match=r"grip.*friction, speed"):
        update_family(FAMILY, seen(0.7), simulate=simulate, blamed=["grip"], seed=0)
    with pytest.raises(BadInput, match=r"'mass'.*fixed"):
        update_family(FAMILY, seen(0.7), simulate=simulate, blamed=["mass"], seed=0)
    with pytest.raises(BadInput, match="no parameter"):
        update_family(FAMILY, seen(0.7), simulate=simulate, blamed=[], seed=0)


def test_what_widenings_add_lies_beside_the_support_and_stays_positive():
    p = FAMILY.parameters[0]
    below, above = added_by(p, "lower", 2), added_by(p, "upper", 1)
    assert below.high == p.low
    assert below.low == widened(widened(p, "lower"), "lower").low
    assert (above.low, above.high) == (p.high, 2 * p.high - p.low)
