"""A comparison carries everything that it is read by, and says so where nothing was tried."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.stats import (
    Comparison,
    Family,
    Rate,
    boschloo,
    compare_pairs,
    compare_rates,
    detectable,
    detectable_paired,
    holm,
    mcnemar_exact,
    newcombe,
    probability_better,
    probability_better_paired,
    tango,
)

FIRST = np.arange(40) < 30
SECOND = (np.arange(40) < 18) | (np.arange(40) > 36)


def test_unpaired_bundles_the_unpaired_methods():
    c = compare_rates(Rate(8, 10), Rate(4, 10), names=("ours", "theirs"))
    assert c.difference == pytest.approx(0.4)
    assert c.interval == newcombe(8, 10, 4, 10)
    assert c.p_value == boschloo(8, 10, 4, 10)
    assert c.probability_better == probability_better(8, 10, 4, 10)
    assert c.detectable == (detectable(10, 10, 0.4), None)
    assert str(c) == (
        "ours 8/10 = 80% [44%, 97%] vs theirs 4/10 = 40% [12%, 74%], unpaired: +40% [-2%, +67%], "
        "Boschloo p = 0.089, P(better) = 0.960, 80% power from +55%"
    )


def test_paired_bundles_the_paired_methods_and_names_the_panel():
    c = compare_pairs(FIRST, SECOND, panel="a1b2c3")
    assert (c.first, c.second) == (Rate(30, 40), Rate(21, 40))
    assert c.difference == pytest.approx(9 / 40)
    assert c.interval == tango(18, 12, 3, 7)
    assert c.p_value == mcnemar_exact(12, 3)
    assert c.probability_better == probability_better_paired(12, 3)
    assert c.detectable == (detectable_paired(40, 3 / 40), None)  # 12 of 40 go one way already
    assert "40 pairs" in str(c)
    assert "McNemar p = 0.035" in str(c)
    assert str(c).endswith(", panel a1b2c3")


@pytest.mark.parametrize("paired", [True, False])
def test_exchanging_the_sides_changes_the_signs(paired):
    def of(a, b):
        return compare_pairs(a, b) if paired else compare_rates(Rate(int(a.sum()), 40), Rate(int(b.sum()), 40))

    forth, back = of(FIRST, SECOND), of(SECOND, FIRST)
    assert back.difference == pytest.approx(-forth.difference)
    assert back.interval == pytest.approx((-forth.interval[1], -forth.interval[0]))
    assert back.p_value == pytest.approx(forth.p_value)
    assert back.probability_better == pytest.approx(1 - forth.probability_better)


@pytest.mark.parametrize("c", [compare_rates(Rate(8, 10), Rate(4, 10)), compare_pairs(FIRST, SECOND, panel="x")])
def test_json_holds_what_the_line_says(c):
    data = c.as_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["text"] == str(c)
    assert data["p_mcnemar" if c.pairs else "p_boschloo"] == c.p_value
    assert [r["n"] for r in data["rates"]] == [c.first.n, c.second.n]
    assert data["interval"] == list(c.interval)
    assert data["detectable"]["power"] == 0.8


def test_level_reaches_the_interval_and_the_detectable_difference():
    wide, narrow = (compare_rates(Rate(20, 40), Rate(15, 40), level=level) for level in (0.99, 0.8))
    assert wide.interval[0] < narrow.interval[0]
    assert wide.detectable[0] > narrow.detectable[0]


@pytest.mark.parametrize(
    "c",
    [
        compare_rates(Rate(0, 0), Rate(1, 3)),
        compare_rates(Rate(1, 3), Rate(0, 0)),
        compare_pairs(np.zeros(0, dtype=bool), np.zeros(0, dtype=bool)),
    ],
)
def test_without_trials_it_is_not_testable(c):
    assert "not testable" in str(c)
    assert "%," not in str(c).split(": ")[-1]
    data = c.as_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["difference"] is data["interval"] is data["p_better"] is data["detectable"]["better"] is None
    assert c.p_value is None


def test_one_trial_each():
    c = compare_rates(Rate(1, 1), Rate(0, 1))
    assert c.p_value == pytest.approx(0.5)
    assert c.detectable == (None, None)
    assert "power from no difference" in str(c)


def test_a_family_is_corrected_for_the_tests_that_were_made():
    family = Family(
        {
            "sim": compare_pairs(FIRST, SECOND),
            "other": compare_rates(Rate(8, 10), Rate(4, 10)),
            "untried": compare_rates(Rate(0, 0), Rate(1, 3)),
        }
    )
    p = [family.members[name].p_value for name in ("sim", "other")]
    expected = holm(p)
    assert list(family.adjusted().values()) == [expected[0], expected[1], None]
    data = family.as_dict()
    assert data["sim"]["p_holm"] == expected[0]
    assert data["untried"]["p_holm"] is None
    lines = str(family).splitlines()
    assert lines[0].startswith("sim: first 30/40")
    assert lines[0].endswith(f"Holm p = {expected[0]:.2g}")
    assert "Holm" not in lines[2]


def test_bad_input():
    with pytest.raises(BadInput, match="both sides are called 'a'"):
        compare_rates(Rate(1, 2), Rate(1, 2), names=("a", "a"))
    with pytest.raises(BadInput, match="level = 95"):
        compare_rates(Rate(1, 2), Rate(1, 2), level=95)
    with pytest.raises(BadInput, match="40 and 39"):
        compare_pairs(FIRST, SECOND[:39])
    with pytest.raises(BadInput, match="do not add up"):
        Comparison(first=Rate(3, 4), second=Rate(3, 4), pairs=compare_pairs(FIRST, SECOND).pairs)
