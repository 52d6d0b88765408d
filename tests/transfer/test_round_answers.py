"""The answer to a round of the suite: the blamed friction is found outside of the round's family, the rest stays."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from dexprior.artifacts import write_json
from dexprior.cli.ledger import Config, run
from dexprior.cli.main import main
from dexprior.data.traces import write_trace
from dexprior.errors import ArtifactError, BadInput, UnknownName
from dexprior.families import Parameter, ParameterFamily
from dexprior.transfer.conditioning import ConditioningConfig, Observations, SamplerConfig
from dexprior.transfer.diagnosis import completed, identified
from dexprior.transfer.replay import replay, wiping
from dexprior.transfer.rounds import AnswerConfig, answer_round, read_round
from dexprior.transfer.rounds.adding import evidence_hash
from dexprior.transfer.summaries import moving, observations_of, predict, whitened
from dexprior.transfer.updating import UpdateConfig
from dexprior.types import Channel, Trace
from dexprior.worlds.tasks import make_task

TASK = make_task("wipe")
KNOWN = identified(TASK)
ASSUMED = ParameterFamily("kitchen", tuple(p for p in KNOWN.parameters if p.name in ("plate_friction", "block_mass")))
FAST = AnswerConfig(
    window=0.7, panel=4, player="still",
    update=UpdateConfig(
        conditioning=ConditioningConfig(sampler=SamplerConfig(particles=32, moves=8), population=6, evaluations=24)
    ),
)  # fmt: skip
YAML = (
    "round: '1'\npolicy: {policy}\ntask: {task}\npanel: kitchen\nfamily: family.json\nprobe: probe.json\n"
    "replays: replays\n"
)
TRIALS = "world,instance,success\nsimulator,0,1\nrobot,0,0\nsimulator,1,1\nrobot,1,1\n"


@pytest.fixture(scope="module")
def recorded():
    """A plate that rubs .42 instead of .35, wiped three times."""
    probe = wiping(TASK, seconds=0.8)
    row = KNOWN.medians()
    row[KNOWN.names.index("plate_friction")] = 0.42
    wide = completed(TASK, ParameterFamily("robot", (_support("plate_friction", 0.3, 0.8),)))
    return probe, replay(probe, wide, row[None], repeats=3, seed=5)


def _support(name, low, high):
    return replace(KNOWN.parameters[KNOWN.names.index(name)], low=low, high=high)


def _round(folder, recorded, *, task="wipe", policy="expert", family=ASSUMED, causes=(("friction", 0.9),), seen=True):
    probe, real = recorded
    (folder / "replays").mkdir(parents=True)
    (folder / "round.yaml").write_text(YAML.format(task=task, policy=policy))
    (folder / "trials.csv").write_text(TRIALS)
    write_json(folder / "family.json", family.to_json())
    probe.save(folder / "probe.json")
    for k in range(real.repeats):
        channels = {
            name: Channel(t=real.t, t_host=real.t, value=real.values[name][0, k], unit=real.units[name], frame="-",
                          kind="measured") for name in ("joints", "force")
        }  # fmt: skip
        write_trace(Trace(channels=channels, panel_hash="mine"), folder / "replays" / f"{k}.mcap")
    explanation = {"causes": dict(causes) | {"unknown": 0.1}, "seen": seen}
    write_json(folder / "explanation.json", explanation | {"evidence": evidence_hash(folder, read_round(folder))})
    return folder


@pytest.mark.slow
def test_the_friction_is_found_outside_and_the_next_round_is_ready_to_fill_in(tmp_path, recorded):
    folder = _round(tmp_path / "1", recorded, policy="mine")
    answer = answer_round(folder, tmp_path / "2", FAST, seed=0)
    family = ParameterFamily.read(tmp_path / "2" / "family.json")
    friction = family.parameters[family.names.index("plate_friction")]
    assert friction.provenance == "fitted"
    assert friction.mean == pytest.approx(0.42, rel=0.05)
    assert "widened plate_friction" in answer["actions"][0]
    assert family.parameters[family.names.index("block_mass")] == ASSUMED.parameters[-1]
    assert set(family.names) == {"plate_friction", "block_mass", "pad_friction"}  # what is blamed comes along
    assert "'mine' is no folder of a policy: train it again over" in answer["left_to_do"]
    assert answer["comparison"]["pairs"] is not None
    again = json.loads((tmp_path / "2" / "update.json").read_text())
    assert again["trials"] == {"simulator": 1.0, "robot": 0.5}
    (tmp_path / "2" / "trials.csv").write_text(TRIALS)
    following = read_round(tmp_path / "2")
    assert following.settings.round == "2"
    assert list(following.settings.actions) == answer["actions"]
    assert following.family == family


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"task": "peg"}, BadInput, "task is 'peg', its probe is of 'wipe'"),
        ({"seen": False}, BadInput, "nothing to fit"),
        ({"causes": (("force_drift", 0.9),)}, BadInput, "'force_drift' .90%., which no free parameter stands for"),
        ({"causes": (("backlash", 0.9),)}, BadInput, "backlash is fixed in its family: give it a support"),
        ({"causes": (("friction", float("nan")),)}, ArtifactError, "friction = nan: expected a finite number"),
        (
            {"family": ParameterFamily("other", make_task("peg").family.parameters)}, UnknownName,
            "parameter of the task 'wipe' in the family 'other'",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_named(tmp_path, recorded, changes, error, message):
    with pytest.raises(error, match=message):
        answer_round(_round(tmp_path / "1", recorded, **changes), tmp_path / "2", FAST)
    assert not (tmp_path / "2").exists()


def test_a_round_without_its_files_is_named(tmp_path, recorded):
    folder = _round(tmp_path / "1", recorded)
    with pytest.raises(BadInput, match="by=recovery answers rounds of the mini-lab"):
        run(Config(out=str(tmp_path / "2"), by="recovery"), ["update", str(folder)])
    (folder / "explanation.json").write_text("[]")
    with pytest.raises(ArtifactError, match="is not an explanation"):
        answer_round(folder, tmp_path / "2", FAST)
    (folder / "explanation.json").unlink()
    with pytest.raises(ArtifactError, match="dexprior ledger add"):
        answer_round(folder, tmp_path / "2", FAST)
    text = YAML.format(task="wipe", policy="expert")
    for name in ("family", "probe"):
        kept = [
            line for line in text.splitlines() if not line.startswith((name, "replays" if name == "probe" else "-"))
        ]
        (folder / "round.yaml").write_text("\n".join(kept) + "\n")
        with pytest.raises(BadInput, match=f"{name} is not given"):
            answer_round(folder, tmp_path / "2", FAST)


def test_a_round_family_is_completed_by_what_is_identified():
    whole = completed(TASK, ASSUMED)
    assert whole.names == KNOWN.names
    assert np.isfinite(whole.sample(np.random.default_rng(0), 5)).all()
    assert completed(TASK, None) == KNOWN
    moved = ParameterFamily("moved", (replace(_support("plate_friction", 0.3, 0.4), target="geom/table/friction/0"),))
    with pytest.raises(BadInput, match=r"'plate_friction' of the family 'moved' is set at 'geom/table"):
        completed(TASK, moved)
    own = ParameterFamily(
        "arm", (Parameter(name="backlash.x", unit="rad", low=0, high=0.1, target="world/x/backlash"),)
    )
    with pytest.raises(BadInput, match=r"'backlash.x' of the family 'arm' is one joint's"):
        completed(TASK, own)


def test_the_robots_own_friction_is_the_likeliest_by_the_logged_channels_alone(recorded):
    probe, real = recorded
    logged = real.only(("force", "joints"))
    rows = np.tile(KNOWN.medians(), (3, 1))
    rows[:, KNOWN.names.index("plate_friction")] = 0.35, 0.42, 0.6
    predicted = predict(probe, KNOWN, rows, window=0.7, channels=("force", "joints"))
    likelihood = observations_of(logged, 0.7).log_likelihood(predicted)
    assert int(likelihood.argmax()) == 1
    assert moving(probe, KNOWN, ["plate_friction", "wrench_noise"], window=0.7) == ("plate_friction",)
    with pytest.raises(BadInput, match=r"ends at 0[.]80 s, within the 2 s that are fitted"):
        observations_of(logged, 2.0)


def test_what_is_not_fitted_counts_as_noise():
    """A robot that differs in what is not fitted is no surprise, though its repeats agree; the p value is level."""
    rng = np.random.default_rng(0)
    effect = rng.standard_normal((3, 12))
    others = rng.standard_normal((4000, 3)) @ effect
    p_values = []
    for _ in range(200):
        robot = rng.standard_normal(3) @ effect
        repeats = robot + 0.1 * rng.standard_normal((4, 12))
        alike = Observations(values=repeats, groups=("one",) * 12)
        white, W = whitened(alike, others)
        p_values.append((alike.lack_of_fit(np.zeros(12), 0), white.lack_of_fit(np.zeros(12) @ W.T, 0)))
    plain, marginal = (np.array(p_values) < 0.05).mean(axis=0)
    assert plain > 0.9
    assert marginal < 0.12


def test_replays_that_came_after_the_explanation_are_not_fitted_under_it(tmp_path, recorded):
    folder = _round(tmp_path / "1", recorded)
    (folder / "replays" / "0.mcap").unlink()
    with pytest.raises(BadInput, match="explains other replays, or another probe or family"):
        answer_round(folder, tmp_path / "2", FAST)


def test_an_out_that_is_taken_is_refused_before_the_fit(tmp_path, recorded, monkeypatch):
    def fit(*_, **__):
        raise AssertionError("fitted for nothing")

    monkeypatch.setattr("dexprior.transfer.rounds.answering.update_family", fit)
    folder = _round(tmp_path / "1", recorded)
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "round.yaml").touch()
    with pytest.raises(BadInput, match="2 exists and holds a round"):
        answer_round(folder, tmp_path / "2", FAST)
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="file exists; choose another folder"):
        answer_round(folder, tmp_path / "file", FAST)


def test_a_player_that_there_is_not_is_refused_before_the_fit(tmp_path, recorded, capsys):
    folder = _round(tmp_path / "1", recorded)
    assert main(["ledger", "update", str(folder), f"out={tmp_path / '2'}", "answer.player=nobody"]) == 1
    assert "'expert', 'random' or 'still'" in capsys.readouterr().err
