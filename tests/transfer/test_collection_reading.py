"""Filled sheets: what cannot be is named, what was promised is applied, what is trained on is listed and hashed."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil

import numpy as np
import pytest

from dexprior.cli.main import main
from dexprior.errors import ArtifactError, BadInput
from dexprior.stats import mcnemar_exact, tango
from dexprior.transfer.collection import (
    UNKNOWN,
    VERIFY,
    PairCounts,
    Panel,
    PlanConfig,
    judge,
    make_trials,
    plan_collection,
    preregister,
    preregistration_hash,
    read_back,
    read_plan,
    write_manifest,
    write_plan,
)

DIAGNOSIS = {"contact": 0.5, "environment": 0.45, UNKNOWN: 0.05}
SETTINGS = PlanConfig(regulates_force=True, panel=Panel(pairs=40), trust=1.0)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    write_plan(plan_collection(DIAGNOSIS, None, 50.0, None, 0, SETTINGS), folder)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "plan")


def rows_of(folder):
    with (folder / "trials.csv").open() as stream:
        return list(csv.reader(stream))


def write(folder, rows):
    with (folder / "filled.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)
    return folder / "filled.csv"


def column(rows, name):
    return next(k for k, cell in enumerate(rows[0]) if cell.split(" ")[0] == name)


def fill(folder, success=None, change=None):
    """Fill in every run: by default after and with always succeed, the others in every second pair."""
    rows = rows_of(folder)
    at = {name: column(rows, name) for name in ("trial", "protocol", "pair", "arm", "success", "abort", "episode")}
    for row in rows[1:]:
        won = row[at["arm"]] in ("with", "after") or int(row[at["pair"]].rpartition("-")[2]) % 2 == 0
        row[at["success"]] = str(int(won if success is None else success(row[at["arm"]], row[at["pair"]])))
        row[at["abort"]] = "none"
    if change is not None:
        change(rows, at)
    return write(folder, rows)


def row_of(rows, at, trial):
    return next(row for row in rows[1:] if row[at["trial"]] == trial)


def read(folder, sheet, **more):
    return read_back(read_plan(folder / "plan.json"), sheet, **more)


def test_a_filled_sheet_moves_the_belief_and_is_judged(folder):
    reading = read(folder, fill(folder))
    assert set(reading.counts) == {"contact_force", "on_site", VERIFY}
    counts = reading.counts["contact_force"]
    assert (counts.gain, counts.loss) == (-(-counts.n // 2), 0)
    contact = reading.after.contribution("contact")
    assert contact["low"] > 0.2
    assert reading.after.width() < reading.before.width()
    assert reading.verdict is not None
    assert reading.verdict.outcome == "closed"
    assert reading.verdict.comparison["p_mcnemar"] == pytest.approx(mcnemar_exact(20, 0))
    assert reading.verdict.comparison["interval"] == pytest.approx(list(tango(20, 20, 0, 0)))
    assert reading.comparisons["on_site"]["names"] == ["with", "comparison"]
    json.dumps(reading.to_json())


def test_nothing_is_claimed_where_nothing_changed(folder):
    reading = read(folder, fill(folder, success=lambda arm, pair: int(pair[-1]) < 6))
    assert reading.verdict is not None
    assert reading.verdict.outcome == "undecided"
    assert reading.counts["contact_force"].gain == 0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda r, at: r.append([*r[1][: at["trial"]], "contact_force-999-a", *r[1][at["trial"] + 1 :]]), "999"),
        (lambda r, at: r.append(list(r[1])), "twice"),
        (lambda r, at: r.pop(3), "missing"),
        (lambda r, at: r[1].__setitem__(at["success"], "2"), "success = '2'"),
        (lambda r, at: r[1].__setitem__(at["success"], "yes"), "choices: 0, 1"),
        (lambda r, at: r[1].__setitem__(at["abort"], "bored"), "hardware"),
        (lambda r, at: r[1].__setitem__(at["abort"], "operator"), "leave it empty"),
        (lambda r, at: r[1].__setitem__(at["success"], ""), "no success"),
        (lambda r, at: r[1].__setitem__(at["arm"], "with" if r[1][at["arm"]] == "without" else "without"), "arm is"),
        (lambda r, at: r[0].__setitem__(at["success"], "won"), "no column success"),
        (lambda r, at: r[2].append("x"), "line 3"),
    ],
)
def test_what_a_sheet_cannot_hold_is_named(folder, change, named):
    with pytest.raises(BadInput, match=named):
        read(folder, fill(folder, change=change))


def test_a_safety_stop_is_a_failure_and_cannot_be_a_success(folder):
    def stop(success):
        def change(rows, at):
            row = row_of(rows, at, "contact_force-001-b")
            row[at["success"]], row[at["abort"]] = success, "safety"

        return change

    assert read(folder, fill(folder, change=stop("0"))).counts["contact_force"].gain == (
        read(folder, fill(folder)).counts["contact_force"].gain - 1
    )
    with pytest.raises(BadInput, match="safety stop is a failure"):
        read(folder, fill(folder, change=stop("1")))


def test_unequal_arms_are_counted_and_named(folder):
    def change(rows, at):
        row = row_of(rows, at, "contact_force-002-b")
        row[at["success"]] = row[at["abort"]] = ""

    n = read(folder, fill(folder)).counts["contact_force"].n
    with pytest.raises(
        BadInput, match=rf"contact_force: {n} without, {n - 1} with.*contact_force-002 \(no result with\)"
    ):
        read(folder, fill(folder, change=change), partial=True)


def test_hardware_voids_a_pair(folder):
    def change(rows, at):
        row = row_of(rows, at, "verify-003-a")
        row[at["success"]], row[at["abort"]] = "", "hardware"

    reading = read(folder, fill(folder, change=change))
    assert reading.voided[VERIFY] == 1
    assert reading.counts[VERIFY].n == 39


def blank(protocol, after=0):
    def change(rows, at):
        for row in rows[1:]:
            if row[at["protocol"]] == protocol and int(row[at["pair"]].rpartition("-")[2]) > after:
                row[at["success"]] = row[at["abort"]] = ""

    return change


def test_missing_results_are_named_unless_the_campaign_goes_on(folder):
    sheet = fill(folder, change=blank("on_site", 4))
    with pytest.raises(BadInput, match=r"no result of on_site-005.*; partial=true reads"):
        read(folder, sheet)
    partial = read(folder, sheet, partial=True)
    assert partial.counts["on_site"].n == 4
    assert next(iter(partial.promise)) == "on_site"  # contact has its pairs, the other gaps have no probability
    unverified = read(folder, fill(folder, change=blank(VERIFY)), partial=True)
    assert unverified.verdict is None


def test_the_verification_may_stop_once_it_is_decided_and_not_before(folder):
    decided = read(folder, fill(folder, change=blank(VERIFY, 30)))
    assert decided.verdict is not None
    assert 0 < decided.verdict.stopped <= 30
    assert decided.verdict.outcome in ("closed", "narrowed")
    with pytest.raises(BadInput, match="no result of verify-007"):
        read(folder, fill(folder, change=blank(VERIFY, 6)))


def test_a_panel_that_was_looked_at_after_every_pair_claims_too_much_rarely():
    """Under no difference, with the same instances looked at three times."""
    promised, _ = preregister(Panel(pairs=30, margin=0.5), make_trials([], 30, 0), sim=0.9)
    rng = np.random.default_rng(0)
    claims = 0
    for _ in range(60):
        outcomes = rng.random((2, 30)) < 0.6
        looks = [judge(promised, outcomes[0, :n], outcomes[1, :n]) for n in (12, 20, 30)]
        claims += any(v.outcome != "undecided" for v in looks)
    assert claims <= 8  # 5 % of 60, and three standard deviations


def test_worse_is_called_worse():
    promised, _ = preregister(Panel(pairs=30), make_trials([], 30, 0), sim=0.9)
    verdict = judge(promised, np.ones(30, bool), np.arange(30) < 10)
    assert verdict.outcome == "widened"
    with pytest.raises(BadInput, match="1 to 30"):
        judge(promised, np.ones(31, bool), np.ones(31, bool))


def test_an_edited_promise_or_design_is_refused(folder):
    path = folder / "plan.json"
    plan = json.loads(path.read_text())
    digest = plan["preregistration_hash"]
    assert read_plan(path, registered=digest[:12])["seed"] == 0
    edited = json.loads(path.read_text())
    edited["preregistration"]["panel"]["margin"] = 0.5
    path.write_text(json.dumps(edited))
    with pytest.raises(ArtifactError, match="preregistration was edited"):
        read_plan(path)
    edited["preregistration_hash"] = preregistration_hash(edited["preregistration"])
    path.write_text(json.dumps(edited))
    with pytest.raises(ArtifactError, match="was published"):
        read_plan(path, registered=digest)
    plan["trials"][0]["instance"] += 1
    path.write_text(json.dumps(plan))
    with pytest.raises(ArtifactError, match="trials were edited"):
        read_plan(path)


@pytest.mark.parametrize("text", ["{", "[]", '{"header": {"schema": "other/1"}}'])
def test_what_is_no_plan_is_refused(tmp_path, text):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(ArtifactError, match=r"plan\.json"):
        read_plan(tmp_path / "plan.json")
    with pytest.raises(ArtifactError, match="no such file"):
        read_plan(tmp_path / "none.json")


def record(folder, name, content=b"mcap"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def named(name, trial="contact_force-001-b"):
    def change(rows, at):
        row_of(rows, at, trial)[at["episode"]] = name

    return change


def test_the_manifest_lists_successes_and_collections_but_never_the_verification(folder, tmp_path):
    recordings = tmp_path / "recordings"
    record(recordings, "runs/one.mcap", b"one")
    record(recordings, "contact_force/demo.mcap", b"demo")
    record(recordings, "verify/run.mcap", b"verify")

    def change(rows, at):
        named("runs/one.mcap")(rows, at)
        named("verify/run.mcap", "verify-001-b")(rows, at)

    reading = read(folder, fill(folder, change=change))
    manifest = json.loads(write_manifest(reading, recordings, tmp_path / "train.json", init="runs/p").read_text())
    assert [e["file"] for e in manifest["episodes"]] == ["runs/one.mcap", "contact_force/demo.mcap"]
    assert manifest["episodes"][1]["sha256"] == hashlib.sha256(b"demo").hexdigest()
    assert manifest["init"] == "runs/p"
    record(recordings, "runs/one.mcap", b"changed")
    again = json.loads(write_manifest(reading, recordings, tmp_path / "train.json").read_text())
    assert again["checksum"] != manifest["checksum"]


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("runs/none.mcap", ArtifactError, "contact_force-001-b"),
        ("../outside.mcap", BadInput, "outside"),
        ("verify/run.mcap", BadInput, "not to train on"),
    ],
)
def test_episodes_that_cannot_be_trained_on_are_named(folder, tmp_path, name, kind, words):
    recordings = tmp_path / "recordings"
    record(recordings, "verify/run.mcap")
    record(tmp_path, "outside.mcap")
    reading = read(folder, fill(folder, change=named(name)))
    with pytest.raises(kind, match=words):
        write_manifest(reading, recordings, tmp_path / "train.json")


def test_the_verb_reads_back(folder, tmp_path, capsys):
    sheet = fill(folder)
    record(tmp_path / "recordings", "contact_force/demo.mcap")
    words = ["ledger", "plan", f"results={sheet}", f"out={folder}", f"recordings={tmp_path / 'recordings'}"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "closed"
    result = json.loads((folder / "result.json").read_text())
    assert result["closable_gap"]["after"]["width"] < result["closable_gap"]["before"]["width"]
    assert len(json.loads((folder / "train.json").read_text())["episodes"]) == 1
    assert PairCounts(**result["counts"]["contact_force"]).n > 0
    assert main([*words, "registered=0123456789"]) == 1
    assert "was published" in capsys.readouterr().err
