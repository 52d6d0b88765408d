"""The ledger keeps the signs of the field, its counts, and its panel."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dexprior.errors import ArtifactError, BadInput
from dexprior.families import ParameterFamily
from dexprior.transfer import Divergence, Ledger, WorldResult, read_ledger
from dexprior.worlds.tasks import Insertion


def _world(name, successes, slip, n=100, panel="abc") -> WorldResult:
    return WorldResult(name, np.arange(n) < successes, np.full(n, slip), np.ones(n, dtype=bool), panel)


def _ledger(**changes) -> Ledger:
    rows = (
        (Divergence("force", 0.8, 3.0, 20.0), Divergence("pose", 1.2, 3.0, 9.0), Divergence("touch", None, 3.0, 2.0)),
        (Divergence("pose", 1.6, 3.0, 8.0), Divergence("force", None, 3.0, 3.0), Divergence("touch", None, 3.0, 1.0)),
        (Divergence("pose", None, 3.0, 4.0), Divergence("force", None, 3.0, 3.0), Divergence("touch", None, 3.0, 1.0)),
    )
    values = {
        "round": "1", "policy": "test", "assumed": Insertion.family, "sim": _world("sim", 81, 0.08),
        "real": _world("real", 62, 0.19), "divergences": rows, "notes": ("no hardware",),
    }  # fmt: skip
    return Ledger(**(values | changes))


def test_golden_gaps():
    """Simulation promised 81 of 100 with a slip rate of 0.08; reality gave 62 with 0.19."""
    data = _ledger().to_json()
    assert data["success_gap"]["value"] == pytest.approx(0.19)
    assert data["slip_gap"]["value"] == pytest.approx(0.11)
    assert data["success"]["sim"]["k"] == 81
    assert data["success"]["real"]["rate"] == pytest.approx(0.62)
    assert data["slip_rate"]["real"]["value"] == pytest.approx(0.19)
    low, high = data["success_gap"]["interval"]
    assert 0.1 < low < 0.19 < high < 0.28  # 19 of 100 pairs, all one way: tighter than for unpaired rates
    assert data["success_gap"]["p_mcnemar"] == pytest.approx(2 * 0.5**19)  # 19 discordant pairs, all one way


def test_both_gaps_are_positive_when_reality_is_worse_and_change_sign_with_the_worlds():
    forth = _ledger().to_json()
    back = _ledger(sim=_world("sim", 62, 0.19), real=_world("real", 81, 0.08)).to_json()
    for name in ("success_gap", "slip_gap"):
        assert back[name]["value"] == pytest.approx(-forth[name]["value"])
        np.testing.assert_allclose(back[name]["interval"], -np.array(forth[name]["interval"])[::-1])


def test_every_number_has_its_count():
    data = _ledger().to_json()
    for entry in (data["success_gap"], data["slip_gap"], *data["success"].values(), *data["slip_rate"].values()):
        assert entry["n"] == 100


def test_the_earliest_channel_is_counted_and_censored_rows_are_not():
    earliest = _ledger().to_json()["earliest"]
    assert earliest["first"] == {"force": 1, "pose": 1}
    assert earliest["seen"] == {"force": 1, "pose": 2}
    assert earliest["median_t"] == {"force": pytest.approx(0.8), "pose": pytest.approx(1.4)}
    assert earliest["compared"] == 3


def test_worlds_of_different_panels_are_refused():
    with pytest.raises(BadInput, match=r"different panels \(abc and xyz\)"):
        _ledger(real=_world("real", 62, 0.19, panel="xyz"))


def test_unequal_numbers_of_trials_are_refused():
    with pytest.raises(BadInput, match="100 and 50"):
        _ledger(real=_world("real", 31, 0.19, n=50)).to_json()


def test_it_comes_back_from_disk(tmp_path):
    ledger = _ledger()
    data = read_ledger(ledger.save(tmp_path / "ledger.json"))
    fresh = json.loads(json.dumps(ledger.to_json()))
    created = data["header"].pop("created"), fresh["header"].pop("created")
    assert data == fresh
    assert all(created)
    assert ParameterFamily.from_json(data["assumed"]) == Insertion.family


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file.*writes a ledger"),
        ("{", "is not a ledger"),
        ("[]", "is not a ledger"),
        ('{"header": {}}', "is not a ledger"),
        (
            '{"header": {"schema": "dexprior.ledger/0"}}',
            r"this version reads 'dexprior.ledger/3'.*`dexprior ledger add",
        ),
    ],
)
def test_what_is_no_ledger_is_one_error(tmp_path, text, message):
    if text is not None:
        (tmp_path / "ledger.json").write_text(text)
    with pytest.raises(ArtifactError, match=message):
        read_ledger(tmp_path / "ledger.json")


def test_a_nut_that_was_never_held_does_not_count_as_one_that_did_not_slip():
    held = np.arange(100) < 40
    real = WorldResult("real", np.zeros(100, dtype=bool), np.where(held, 0.19, 0.0), held, "abc")
    data = _ledger(real=real).to_json()
    assert data["slip_gap"]["value"] == pytest.approx(0.11)
    assert data["slip_gap"]["n"] == 40
    never = WorldResult("real", np.zeros(100, dtype=bool), np.zeros(100), np.zeros(100, dtype=bool), "abc")
    assert _ledger(real=never).to_json()["slip_gap"] == {"value": None, "interval": None, "n": 0}


def test_worlds_of_one_name_and_uneven_outcomes_are_refused():
    with pytest.raises(BadInput, match="both worlds are called 'sim'"):
        _ledger(real=_world("sim", 62, 0.19))
    with pytest.raises(BadInput, match="must be as many"):
        WorldResult("real", np.ones(3, dtype=bool), np.zeros(2), np.ones(3, dtype=bool), "abc")
