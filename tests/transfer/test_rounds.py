"""Rounds filled in by hand: the golden gaps, what is refused, and rounds side by side."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dexprior.artifacts import write_json
from dexprior.cli.main import main
from dexprior.data.traces import write_trace
from dexprior.errors import ArtifactError, BadInput, ConfigError
from dexprior.transfer.diagnosis import CAUSES, BankConfig, identified, inject_cause
from dexprior.transfer.replay import Probe, wiping
from dexprior.transfer.rounds import COLUMNS, add_round, compare_rounds, read_round, write_template
from dexprior.types import Channel, Trace
from dexprior.worlds.tasks import make_task

SETTINGS = "round: '{}'\npolicy: grasp\npanel: kitchen\n"


def _write(folder, rows, *, settings=SETTINGS, name="1", columns=tuple(COLUMNS), more=""):
    folder.mkdir(exist_ok=True)
    (folder / "round.yaml").write_text(settings.format(name) + more)
    lines = [",".join(columns)] + [",".join(str(row.get(c, "")) for c in columns) for row in rows]
    (folder / "trials.csv").write_text("\n".join(lines) + "\n")
    return folder


def _rows(sim: int, real: int, n: int = 100, slips=(0.08, 0.19), **changes) -> list[dict]:
    """The robot fails on the last instances; so does the simulator, on fewer."""
    return [
        {"world": world, "instance": f"{i:03d}", "success": int(i < k), "held": 1, "slip_rate": slip,
         "phase": "" if i < k or world == "simulator" else "contact"} | changes
        for world, k, slip in (("simulator", sim, slips[0]), ("robot", real, slips[1])) for i in range(n)
    ]  # fmt: skip


def test_golden_gaps(tmp_path):
    """Slip .08 and .19, success .81 and .62 make gaps of .11 and .19."""
    data = add_round(_write(tmp_path / "a", _rows(81, 62)))
    assert data["success_gap"]["value"] == pytest.approx(0.19)
    assert data["slip_gap"]["value"] == pytest.approx(0.11)
    assert data["signatures"] == ["phase contact: 38 of 38 failures"]
    assert data["cases"] == [f"{i:03d}" for i in range(62, 81)]
    assert max(data["diagnosis"], key=data["diagnosis"].get) == "contact"
    assert json.loads((tmp_path / "a" / "diagnosis.json").read_text()) == data["diagnosis"]
    page = (tmp_path / "a" / "ledger.html").read_text()
    assert "81/100 = 81%" in page
    assert "+0.1900" in page
    assert json.loads((tmp_path / "a" / "ledger.json").read_text())["outcomes"]["robot"] == [1] * 62 + [0] * 38


STATED = "assumptions:\n  friction: {value: 0.8, range: [0.6, 1.0], provenance: fitted}\n  delay: null\n"


def test_what_the_simulator_assumed_is_stated_or_said_not_to_be(tmp_path):
    data = add_round(_write(tmp_path / "a", _rows(8, 6, n=10), settings=SETTINGS, more=STATED))
    assert data["assumptions"] == {
        "friction": {"value": 0.8, "range": [0.6, 1.0], "provenance": "fitted", "unit": "1"},
        "delay": None, "compliance": None, "tactile_noise": None,
    }  # fmt: skip
    page = (tmp_path / "a" / "ledger.html").read_text()
    assert "<td>friction</td><td>0.8 1</td><td>0.6 .. 1</td><td>fitted</td>" in page
    assert page.count("not stated") == 3


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ("friction: {value: 2.0, range: [0.6, 1.0], provenance: fitted}", r"0 <= low <= value <= high"),
        ("friction: {value: 0.8, range: [0.6, 1.0], provenance: guessed}", "guessed"),
        ("friction: {value: 0.8, provenance: fitted}", "range: required"),
        ("grip: {value: 0.8, range: [0.6, 1.0], provenance: fitted}", "friction, delay, compliance, tactile_noise"),
    ],
)
def test_an_assumption_needs_value_range_and_provenance(tmp_path, stated, message):
    folder = _write(tmp_path / "a", _rows(8, 6, n=10), more=f"assumptions: {{{stated}}}\n")
    with pytest.raises((BadInput, ConfigError), match=message):
        read_round(folder)


def test_a_plan_takes_diagnosis_and_rates_of_its_round(tmp_path, capsys):
    folder = _write(tmp_path / "a", _rows(9, 6, n=10))
    add_round(folder)
    assert main(["ledger", "plan", str(folder), f"out={tmp_path / 'plan'}", "plan.budget=60"]) == 0
    assert json.loads(capsys.readouterr().out)["rates"] == {"sim": 0.9, "real": 0.6, "instances": 10}
    planned = json.loads((tmp_path / "plan" / "plan.json").read_text())["inputs"]
    assert planned["settings"]["instances"] == 10
    assert planned["probabilities"] == json.loads((folder / "diagnosis.json").read_text())
    assert main(["ledger", "plan", str(folder), f"out={tmp_path / 'plan'}", "plan.real=0.5"]) == 1
    assert "plan.real is given, and measured by the round" in capsys.readouterr().err
    for words in ([], [str(folder), str(folder)], [str(folder), "diagnosis=d.json"]):
        assert main(["ledger", "plan", *words]) == 1
        assert "give one folder of a round" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"n": 0}, "n = 0"), ({"k": 11}, "k = 11"), ({"k": 1.5}, "k = 1.5"), ({"k": None}, "k = None"),
        ("one of two", "expected a simulator and a robot"), ("none", "no 'success'"), ("a list", "named entries"),
        ("no k", "no 'k'"),
    ],
)  # fmt: skip
def test_a_plan_of_a_damaged_ledger_names_it(tmp_path, capsys, change, named):
    folder = _write(tmp_path / "a", _rows(9, 6, n=10))
    add_round(folder)
    ledger = json.loads((folder / "ledger.json").read_text())
    world = list(ledger["success"])[1]
    if isinstance(change, dict):
        ledger["success"][world] |= change
    elif change == "one of two":
        del ledger["success"][world]
    elif change == "no k":
        del ledger["success"][world]["k"]
    elif change == "none":
        del ledger["success"]
    else:
        ledger["success"] = [1, 2]
    (folder / "ledger.json").write_text(json.dumps(ledger))
    assert main(["ledger", "plan", str(folder), f"out={tmp_path / 'plan'}"]) == 1
    said = capsys.readouterr().err
    assert "unforeseen" not in said
    assert str(folder / "ledger.json") in said
    assert named in said


def test_a_template_is_written_once_and_names_what_is_missing(tmp_path):
    write_template(tmp_path / "r")
    with pytest.raises(BadInput, match="policy is empty"):
        read_round(tmp_path / "r")
    with pytest.raises(BadInput, match="exists; choose another folder"):
        write_template(tmp_path / "r")
    text = (tmp_path / "r" / "round.yaml").read_text()
    assert all(name in text for name in COLUMNS)


def test_panels_that_differ_are_compared_unpaired_and_say_so(tmp_path):
    rows = [row for row in _rows(81, 62) if (row["world"], row["instance"]) != ("robot", "000")]
    for k, row in enumerate(rows):
        row["slip_rate"] += 0.01 * (-1) ** k
    data = add_round(_write(tmp_path / "a", rows))
    assert data["success_gap"]["pairs"] is None
    assert "000 in one of them only" in data["notes"][0]
    assert data["slip_gap"]["value"] == pytest.approx(0.11, abs=1e-3)
    assert data["cases"] == []


def test_what_was_not_measured_is_not_testable(tmp_path):
    data = add_round(_write(tmp_path / "a", _rows(10, 5, 10, slips=("", ""))))
    assert data["slip_gap"] == {"value": None, "interval": None, "n": 0}
    assert data["timing_gap"]["n"] == 0
    assert "not testable" in (tmp_path / "a" / "ledger.html").read_text()


def test_being_late_counts_where_both_succeed(tmp_path):
    rows = _rows(8, 6, 10)
    for row in rows:
        row["seconds"] = 2.0 if row["world"] == "simulator" else 2.5
    data = add_round(_write(tmp_path / "a", rows))
    assert data["timing_gap"]["value"] == pytest.approx(0.5)
    assert data["timing_gap"]["n"] == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"success": "yes"}, "line 2: success = 'yes'; choices: 1, 0"),
        ({"success": ""}, "line 2: success is empty"),
        ({"world": "moon"}, "line 2: world 'moon'; choices: simulator, robot"),
        ({"slip_rate": "1.5"}, "line 2: slip_rate = 1.5 lies outside 0..1"),
        ({"slip_rate": "nan"}, "line 2: slip_rate = nan lies outside 0..1"),
        ({"seconds": "soon"}, "line 2: seconds = 'soon' is no number"),
        ({"phase": "lunch", "success": 0}, "phase 'lunch'; choices: approach, contact, hold, handover"),
        ({"phase": "contact", "success": 1}, "a success that failed in the phase 'contact'"),
        ({"trace": "gone.mcap"}, "gone.mcap, which does not exist"),
    ],
)
def test_a_bad_line_is_named(tmp_path, change, message):
    rows = _rows(4, 2, 5)
    rows[0] |= change
    with pytest.raises(BadInput, match=message):
        read_round(_write(tmp_path / "a", rows))


def test_bad_files_are_named(tmp_path):
    with pytest.raises(BadInput, match="dexprior ledger new"):
        read_round(tmp_path / "none")
    folder = _write(tmp_path / "a", _rows(4, 2, 5), columns=("world", "instance"))
    with pytest.raises(BadInput, match="has no column 'success'"):
        read_round(folder)
    with pytest.raises(BadInput, match="holds no trial of 'robot'"):
        read_round(_write(tmp_path / "b", _rows(4, 2, 5)[:5]))
    with pytest.raises(BadInput, match="holds no trial: the success gap is not testable"):
        read_round(_write(tmp_path / "c", []))
    with pytest.raises(ConfigError, match="polic"):
        read_round(_write(tmp_path / "d", _rows(4, 2, 5), settings=SETTINGS + "polici: x\n"))
    with pytest.raises(BadInput, match="replays = None; give both, or neither"):
        read_round(_write(tmp_path / "f", _rows(4, 2, 5), settings=SETTINGS + "probe: p.json\n"))
    with pytest.raises(BadInput, match="is not YAML"):
        read_round(_write(tmp_path / "e", _rows(4, 2, 5), settings="round: [1\n"))


def test_traces_are_compared_where_there_are_enough(tmp_path):
    rng = np.random.default_rng(0)
    t = np.arange(60) * 0.02

    def trace(step=0.0):
        force = np.sin(3 * t)[:, None] + 0.1 * rng.normal(size=(60, 1)) + step * (t > 0.6)[:, None]
        return Trace(
            channels={"force": Channel(t=t, t_host=t, value=force, unit="N", frame="sensor", kind="measured")},
            panel_hash="kitchen",
        )

    folder = tmp_path / "a"
    rows = _rows(5, 3, 5)
    rows[5]["trace"], rows[6]["trace"] = "real0.mcap", "real1.mcap"
    _write(folder, rows, settings=SETTINGS + "reference: simulated\n")
    write_trace(trace(step=2.0), folder / "real0.mcap")
    write_trace(trace(), folder / "real1.mcap")
    (folder / "simulated" / "000").mkdir(parents=True)
    for k in range(40):
        write_trace(trace(), folder / "simulated" / "000" / f"{k:02d}.mcap")
    data = add_round(folder)
    first = data["first_divergence"][0][0]
    assert 0.6 < first["t"] <= 0.66
    assert first["onset"]["low"] <= 0.62 <= first["onset"]["high"] + 0.02
    assert data["distance"]["force"] > 2.0
    assert data["notes"] == [
        "Instance 000: no channel 'command': clocks are taken as they are.",
        "Instance 001: first divergence not testable, 0 simulated traces of 31 that 1 channels need.",
    ]


@pytest.mark.slow
def test_a_robot_that_replays_a_probe_is_explained(tmp_path):
    """Its contacts rub 1.8 times as much as the simulator assumes."""
    probe = wiping(make_task("wipe"), seconds=1.6)
    values = identified(probe.task).sample(np.random.default_rng(0), 1)
    real = inject_cause(probe, CAUSES["friction"], values, np.array([1.8]), repeats=3, seed=7)
    folder = _write(tmp_path / "a", _rows(5, 3, 5), settings=SETTINGS + "probe: probe.json\nreplays: replays\n")
    probe.save(folder / "probe.json")
    (folder / "replays").mkdir()
    for k in range(3):
        # the robot's clock began five seconds earlier: the command says so
        channels = {
            name: Channel(t=real.t + 5.0, t_host=real.t + 5.0, value=real.values[name][0, k], unit=real.units[name],
                          frame="-", kind="measured") for name in ("joints", "force")
        }  # fmt: skip
        t, q = probe.commands(identified(probe.task))
        channels["command"] = Channel(t=t + 5.0, t_host=t + 5.0, value=q, unit="rad", frame="-", kind="commanded")
        write_trace(Trace(channels=channels, panel_hash="mine"), folder / "replays" / f"{k}.mcap")
    data = add_round(folder, bank=BankConfig(null=60, each=12))
    seen = {d["channel"]: d["t"] for d in data["first_divergence"][0]}
    assert seen["force"] < min(seen.values()) + 0.02  # with the pose, and its lag behind the family
    assert max(data["diagnosis"], key=data["diagnosis"].get) == "contact"
    assert "data:image/png" in (folder / "ledger.html").read_text()
    assert "explained by friction" in data["notes"][-1]
    explanation = json.loads((folder / "explanation.json").read_text())
    assert explanation["seen"]
    assert max(explanation["causes"], key=explanation["causes"].get) == "friction"


def test_rounds_side_by_side(tmp_path):
    for name, real in (("1", 12), ("2", 25)):
        add_round(_write(tmp_path / name, _rows(29, real, 30), name=name))
    lines = compare_rounds([tmp_path / "1", tmp_path / "2"], tmp_path / "h")["changes"]
    assert "25/30" in lines[0]
    assert "30 pairs: +43%" in lines[0]
    history = json.loads((tmp_path / "h" / "history.json").read_text())
    assert [r["name"] for r in history["rounds"]] == ["round 1", "round 2"]
    assert next(iter(history["changes"].values()))["p_holm"] < 0.01
    with pytest.raises(BadInput, match="1 round"):
        compare_rounds([tmp_path / "1"], tmp_path / "h")
    with pytest.raises(BadInput, match="two rounds have one name: round 1, round 1"):
        compare_rounds([tmp_path / "1", tmp_path / "1"], tmp_path / "h")
    write_json(tmp_path / "old.json", {"header": {"schema": "dexprior.ledger/1"}})
    with pytest.raises(ArtifactError, match=r"dexprior\.ledger/1"):
        compare_rounds([tmp_path / "1", tmp_path / "old.json"], tmp_path / "h")


def test_a_probe_is_read_as_it_was_written(tmp_path):
    task = make_task("wipe", stroke=0.06)
    probe = wiping(task, seconds=0.8)
    assert Probe.read(probe.save(tmp_path / "p.json", settings={"stroke": 0.06})).panel_hash == probe.panel_hash
    with pytest.raises(BadInput, match="is not the task of this probe"):
        probe.save(tmp_path / "q.json")
    t, q = probe.commands(identified(task))
    assert t[0] == pytest.approx(0.0)
    assert q.shape == (20, 7)
    data = json.loads((tmp_path / "p.json").read_text())
    (tmp_path / "p.json").write_text(json.dumps(data | {"panel": "0"}))
    with pytest.raises(ArtifactError, match="another version of the task 'wipe'"):
        Probe.read(tmp_path / "p.json")
    (tmp_path / "p.json").write_text("{}")
    with pytest.raises(ArtifactError, match="is not a probe"):
        Probe.read(tmp_path / "p.json")
