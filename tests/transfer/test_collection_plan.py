"""Plans: what is required is never left out, the budget is kept, the sheet is balanced, the promise has a hash."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import matplotlib
import pytest

from dexprior.cli.main import main
from dexprior.config import config_hash
from dexprior.errors import BadInput, UnknownName
from dexprior.families import GAPS
from dexprior.stats import power_mcnemar
from dexprior.transfer.collection import (
    BLOCK,
    PROTOCOLS,
    UNKNOWN,
    VERIFY,
    Belief,
    CollectionPlan,
    Panel,
    PlanConfig,
    best_next,
    make_trials,
    plan_collection,
    preregister,
    preregistration_hash,
    read_protocols,
    worth_asking,
    write_plan,
)

matplotlib.use("Agg")
DIAGNOSIS = {
    "contact": 0.1,
    "visual": 0.6,
    "sensor": 0.05,
    "object": 0.1,
    "environment": 0.05,
    "human": 0.05,
    UNKNOWN: 0.05,
}


def planned(budget: float = 150.0, seed: int = 0, diagnosis=DIAGNOSIS, **settings) -> CollectionPlan:
    return plan_collection(diagnosis, None, budget, None, seed, PlanConfig(**settings))


@pytest.fixture(scope="module")
def plan() -> CollectionPlan:
    return planned(regulates_force=True)


def test_the_table_has_a_protocol_for_every_gap_and_states_what_a_team_needs():
    assert {p.gap for p in PROTOCOLS.values()} == set(GAPS)
    assert PROTOCOLS["contact_force"].required_with_force
    assert any("consent" in r for r in PROTOCOLS["people"].requires)
    assert any("data protection" in r for r in PROTOCOLS["people"].requires)
    for p in PROTOCOLS.values():
        assert p.records
        assert p.conditions
        assert p.done


def test_the_budget_is_kept_and_hours_add_up(plan):
    assert plan.hours <= 150.0 + 1e-9
    hours = sum(PROTOCOLS[n].opening_hours + k * PROTOCOLS[n].pair_hours for n, k in plan.pairs.items())
    assert plan.hours == pytest.approx(hours + plan.settings.panel.hours)
    widths = [step.expected_width for step in plan.steps]
    assert all(b < a for a, b in itertools.pairwise(widths))


def test_a_larger_budget_is_never_worse():
    widths = [planned(budget).steps[-1].expected_width for budget in (60.0, 120.0, 400.0)]
    assert widths[0] > widths[1] > widths[2]


def test_the_plan_stops_where_the_wanted_width_is_reached():
    plan = planned(1e4, width=0.4)
    assert plan.steps[-1].expected_width <= 0.4
    assert plan.steps[-2].expected_width > 0.4
    assert plan.hours < 500


def test_the_likely_gap_comes_first_and_force_only_where_it_is_regulated(plan):
    assert planned(30.0).steps[0].protocol == "egocentric_video"
    assert plan.steps[0].protocol == "contact_force"
    assert plan.steps[0].reason == "required"
    certain = {"visual": 1.0}
    needs = planned(22.5, diagnosis=certain, regulates_force=True)
    assert list(needs.pairs) == ["contact_force"]
    assert "contact_force" not in planned(22.5, diagnosis=certain).pairs


def test_setup_counts_against_a_protocol():
    costly = PROTOCOLS | {"egocentric_video": replace(PROTOCOLS["egocentric_video"], setup_hours=500.0)}
    plan = plan_collection(DIAGNOSIS, None, 150.0, costly, 0)
    assert "egocentric_video" not in plan.pairs


def test_a_measured_gap_saves_hours():
    assert planned(1e4, instances=64).hours < planned(1e4).hours


def test_nothing_is_spent_on_a_gap_that_the_diagnosis_rules_out():
    """A wide interval would be worth hours, were the cause possible."""
    ruled_out = {"contact": 0.7, "visual": 0.3}
    plan = planned(1e4, diagnosis=ruled_out, width=1e-3)
    assert {PROTOCOLS[name].gap for name in plan.pairs} == {"contact", "visual"}
    forced = planned(1e4, diagnosis={"visual": 1.0}, width=1e-3, regulates_force=True)
    assert {PROTOCOLS[step.protocol].gap for step in forced.steps if step.reason == "information"} == {"visual"}
    assert list(worth_asking(ruled_out, PROTOCOLS)) == [name for name, p in PROTOCOLS.items() if p.gap in ruled_out]


def test_the_next_protocol_follows_the_belief():
    settings = PlanConfig()
    belief = Belief.from_diagnosis(DIAGNOSIS, settings.contributions())
    name, rates = best_next(belief, PROTOCOLS, set(), settings)
    assert name == "egocentric_video"
    assert set(rates) == set(PROTOCOLS)
    assert best_next(belief, PROTOCOLS, {"egocentric_video"}, settings)[1][name] > rates[name]


def test_the_same_seed_gives_the_same_plan_and_another_order_otherwise(plan):
    again, other = planned(regulates_force=True), planned(regulates_force=True, seed=1)
    assert again.trials == plan.trials
    assert again.preregistration_hash == plan.preregistration_hash
    assert [t.trial for t in other.trials] != [t.trial for t in plan.trials]
    assert other.pairs == plan.pairs


def test_the_sheet_is_paired_blocked_and_balanced():
    trials = make_trials([(PROTOCOLS["contact_force"], 30), (PROTOCOLS["on_site"], 27)], 12, 5)
    assert [t.order for t in trials] == list(range(1, len(trials) + 1))
    by_id = {t.trial: t for t in trials}
    assert len(by_id) == len(trials) == 60 + 81 + 24
    for t in trials:
        partner = by_id[t.partner]
        assert partner.arm != t.arm
        assert (partner.pair, partner.instance, partner.conditions) == (t.pair, t.instance, t.conditions)
    contact = [t for t in trials if t.protocol == "contact_force"]
    cells = [tuple(t.conditions.values()) for t in contact if t.arm == "with"]
    assert len(set(cells)) == 6
    assert all(cells.count(cell) == 5 for cell in cells)  # 30 pairs, 6 combinations
    assert {len([t for t in contact if t.block == b]) for b in {t.block for t in contact}} == {2 * BLOCK}
    first = [t.arm for t, after in itertools.pairwise(contact) if t.pair == after.pair]
    assert 5 < first.count("with") < 25  # neither arm always leads
    site = [t for t in trials if t.protocol == "on_site"]
    assert len({tuple(t.conditions.values()) for t in site}) == 27
    assert {t.arm for t in site} == {"without", "with", "comparison"}
    assert trials[-1].protocol == VERIFY


def test_the_promise_states_an_effect_that_the_panel_finds():
    panel = Panel(pairs=60, loss=0.05)
    promised, digest = preregister(panel, make_trials([], 60, 0), sim=0.9)
    least = promised["minimum_detectable_effect"]
    assert power_mcnemar(0.05 + least, 0.05, 60, alpha=0.04) == pytest.approx(0.8, abs=0.01)
    assert preregistration_hash(json.loads(json.dumps(promised))) == digest
    assert preregister(panel, make_trials([], 60, 1), sim=0.9)[1] != digest
    with pytest.raises(BadInput, match="early"):
        preregister(Panel(alpha=0.01, early=0.01), (), sim=0.9)


def test_files_hold_the_inputs_and_the_page_nothing_from_outside(plan, tmp_path):
    page = write_plan(plan, tmp_path).read_text()
    data = json.loads((tmp_path / "plan.json").read_text())
    assert data["seed"] == 0
    assert data["inputs"]["settings"]["budget"] == 150.0
    assert data["inputs"]["probabilities"] == DIAGNOSIS
    assert data["header"]["config_hash"] == config_hash(plan.settings)
    assert {row["protocol"] for row in data["information"]} == set(PROTOCOLS)
    assert len(data["trials"]) == len((tmp_path / "trials.csv").read_text().splitlines()) - 1
    assert "http" not in page
    assert page.count("data:image/png") == 2
    for name in plan.pairs:
        assert f"<h2>{name}" in page
    assert plan.preregistration_hash in page


def test_consent_stands_on_the_page_wherever_people_take_part(tmp_path):
    human = {"human": 0.95, UNKNOWN: 0.05}
    assert "informed consent" in write_plan(planned(diagnosis=human), tmp_path).read_text()


@pytest.mark.parametrize(
    ("budget", "settings", "named"),
    [
        (-1.0, {}, "budget = -1"),
        (float("nan"), {}, "budget = nan"),
        (7.9, {}, "need 8 h"),
        (21.9, {"regulates_force": True}, "contact_force"),
        (100.0, {"sim": 0.5, "real": 0.6}, "no success gap"),
    ],
)
def test_bad_budgets_and_rates_are_named(budget, settings, named):
    with pytest.raises(BadInput, match=named):
        planned(budget, **settings)


def test_force_cannot_be_left_out_by_leaving_out_its_protocol():
    others = {n: p for n, p in PROTOCOLS.items() if n != "contact_force"}
    with pytest.raises(BadInput, match="regulates force"):
        plan_collection(DIAGNOSIS, None, 200.0, others, 0, PlanConfig(regulates_force=True))


def test_yaml_overrides_values_and_names_what_it_cannot(tmp_path):
    path = tmp_path / "protocols.yaml"
    path.write_text("on_site: {collection_hours: 7.5, conditions: {light: [sun, shade]}}\n")
    site = read_protocols(path)["on_site"]
    assert (site.collection_hours, site.conditions) == (7.5, {"light": ("sun", "shade")})
    assert read_protocols(None) == PROTOCOLS
    for text, kind, named in (
        ("on_sight: {}", UnknownName, "on_site"),
        ("on_site: {hours: 3}", UnknownName, "collection_hours"),
        ("on_site: {pair_hours: fast}", BadInput, "pair_hours"),
        ("on_site: {pair_hours: -1}", BadInput, "pair_hours"),
        ("on_site: {conditions: {light: []}}", BadInput, "light"),
        ("on_site: 3", BadInput, "on_site"),
        ("[", BadInput, "protocols.yaml"),
    ):
        path.write_text(text)
        with pytest.raises(kind, match=named):
            read_protocols(path)


def test_the_verb_plans_and_names_bad_input(tmp_path, capsys):
    diagnosis = tmp_path / "diagnosis.json"
    diagnosis.write_text(json.dumps(DIAGNOSIS))
    out = tmp_path / "plan"
    assert main(["ledger", "plan", f"diagnosis={diagnosis}", f"out={out}", "plan.budget=40"]) == 0
    assert json.loads(capsys.readouterr().out)["hours"] <= 40
    assert sorted(p.name for p in out.iterdir()) == ["plan.html", "plan.json", "trials.csv"]
    assert main(["ledger", "plan", f"diagnosis={diagnosis}", f"out={out}", "plan.budget=-3"]) == 1
    assert "budget = -3" in capsys.readouterr().err
    assert main(["ledger", "plan", f"out={out}"]) == 1
    assert "diagnosis=FILE" in capsys.readouterr().err
    diagnosis.write_text(json.dumps(DIAGNOSIS | {"contact": 0.4}))
    assert main(["ledger", "plan", f"diagnosis={diagnosis}", f"out={out}"]) == 1
    assert "sum to 1.3" in capsys.readouterr().err
