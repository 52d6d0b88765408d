"""Studies of the KL: wrong worlds, worlds elsewhere, what is measured there, arms, and hidden constants."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dexprior.errors import ArtifactError, BadInput, UnknownName
from dexprior.pipeline.settings import LineConfig
from dexprior.policy.kl import KlConfig
from dexprior.policy.optimising import warm_up_of
from dexprior.policy.ppo import PpoConfig
from dexprior.stats import student_mean
from dexprior.studies.kl import ControlsConfig, CrossoverConfig, MechanismConfig, study_controls, study_mechanism
from dexprior.studies.kl.controls import ARMS, _reordered, _shuffled, _softer, _what, _wider
from dexprior.studies.kl.crossover import _auc, _differing, read_constant
from dexprior.studies.kl.seeds import over_seeds, shown
from dexprior.studies.kl.worlds import WRONG, elsewhere, habits, wrong_family
from dexprior.worlds.tasks import make_task, robot_task


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_world_differs_from_the_training_family_where_it_is_said(name):
    task = robot_task(name)
    family = wrong_family(task)
    differ = {a.name for a, b in zip(family.parameters, task.family.parameters, strict=True) if a != b}
    assert differ == set(WRONG[name])
    for p in family.parameters:
        if p.name in WRONG[name]:
            assert (p.low, p.high) == WRONG[name][p.name]
    with pytest.raises(UnknownName, match=r"unknown parameter of .* 'glue'"):
        wrong_family(task, {"glue": (1.0, 2.0)})


def test_no_wrong_world_is_known_of_other_tasks():
    with pytest.raises(UnknownName, match="wrong in a way that pays 'wipe'"):
        wrong_family(make_task("wipe"))


def test_worlds_elsewhere_are_fixed_and_outside_of_the_training_family():
    task = robot_task("peg")
    _, panel = elsewhere(task, vectors=3, scenes=4)
    again = elsewhere(task, vectors=3, scenes=4)[1]
    np.testing.assert_array_equal(panel.parameters, again.parameters)
    rows = panel.parameters.reshape(3, 4, -1)
    assert (rows == rows[:, :1]).all()
    assert len(np.unique(rows[:, 0, 0])) == 3
    for p, column in zip(panel.family.parameters, panel.parameters.T, strict=True):
        known = next(q for q in task.family.parameters if q.name == p.name)
        assert ((column < known.low) | (column > known.high) | (known.low == known.high)).all() or p.low >= known.high
    for value in panel.scenes.values():
        np.testing.assert_array_equal(value[:4], value[4:8])


def test_habits_are_when_how_hard_and_how_straight():
    """Two episodes: one touches in the third step with 2 N, leaning 30 degrees; the other never does."""
    touch = np.zeros((6, 2, 2))
    touch[2:5, 0] = 2.0
    tcp = np.zeros((6, 2, 7))
    tcp[..., 4] = 1.0  # upside down: the tool points straight down
    half = np.radians(30) / 2
    tcp[2, 0, 3:] = [-np.sin(half), np.cos(half), 0.0, 0.0]
    tcp[2, 0, 3:] = [0.0, np.cos(half), 0.0, np.sin(half)]
    robot = SimpleNamespace(touch=touch, tcp=tcp)
    found = habits(SimpleNamespace(robots=(robot,), t=0.04 * np.arange(1, 7)))
    assert found == pytest.approx({"onset": 0.12, "angle": 30.0, "grip": 2.0})
    touch[:] = 0.0
    assert all(np.isnan(value) for value in habits(SimpleNamespace(robots=(robot,), t=np.arange(6))).values())


def test_differences_over_seeds_are_paired():
    one, two = [0.5, 0.7, 0.9], [0.4, 0.6, 0.8]
    found = over_seeds(one, two)
    assert found["mean"] == pytest.approx(0.1)
    assert found["high"] - found["low"] == pytest.approx(0.0, abs=1e-12)
    assert shown(over_seeds([0.25], [0.0])) == "+0.250 (one seed)"
    assert shown(over_seeds([0.1, 0.3])).startswith("+0.200 [-1.071, +1.471], 2 seeds")


def test_a_t_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(0)
    inside = [low <= 0.3 <= high for _, low, high in (student_mean(0.3 + rng.normal(size=5)) for _ in range(2000))]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.015)
    with pytest.raises(BadInput, match="1 values; a spread needs two"):
        student_mean(np.zeros(1))


def test_every_arm_says_what_it_is():
    assert all(len(_what(arm)) > 15 for arm in ARMS)
    assert _what("rigid_dr_16").endswith("Times 16.")
    config = ControlsConfig()
    assert set(config.arms) | set(config.once) == set(ARMS)
    assert not set(config.arms) & set(config.once)


def test_a_shuffled_bank_has_no_scene_s_own_trajectory(tiny_bank):
    bank, panel = tiny_bank
    trial = _shuffled(SimpleNamespace(bank=bank, panel=panel, policy=None))
    same = (trial.prior.tool == bank.tool).all(axis=(1, 2, 3, 4))
    assert not same.any()
    np.testing.assert_array_equal(np.sort(trial.prior.tool[:, 0, 0, 0, 0]), np.sort(bank.tool[:, 0, 0, 0, 0]))
    back = _reordered(_reordered(bank, np.array([1, 2, 0])), np.array([2, 0, 1]))
    np.testing.assert_array_equal(back.tool, bank.tool)


@pytest.mark.parametrize("arm", ["still", "biased", "gaussian", "kl_0", "bc", "resets", "soft_dr", "rigid_dr_4"])
def test_arms_change_what_they_say(tiny_bank, arm):
    bank, panel = tiny_bank
    task = robot_task("pick_place")
    line = SimpleNamespace(task=task, config=SimpleNamespace(seed=0))
    policy = PpoConfig(iterations=6, warmup=2)
    trial = ARMS[arm](SimpleNamespace(bank=bank, panel=panel, policy=policy, line=line))
    if arm == "still":
        assert (trial.prior.tool == bank.tool[:, :, :1]).all()
        assert not trial.prior.force.any()
    if arm == "biased":
        assert np.linalg.norm((trial.prior.tool - bank.tool)[..., :3], axis=-1) == pytest.approx(0.004)
    if arm == "gaussian":
        assert (trial.prior.tool == trial.prior.tool[:1]).all()
        assert trial.prior.config.std_twist >= bank.config.std_twist
    if arm == "kl_0":
        assert trial.policy == replace(policy, kl=KlConfig(start=0.0))
    if arm == "bc":
        assert trial.policy == warm_up_of(policy)
    if arm == "resets":
        assert (trial.policy.kl.start, trial.policy.warmup, trial.policy.resets) == (0.0, 0, 0.75)
    if arm == "soft_dr":
        named = dict(zip(trial.panel.family.names, trial.panel.family.parameters))
        assert named["pad_timeconst"].high > 3 * task.family.parameters[task.family.names.index("pad_timeconst")].high
    if arm == "rigid_dr_4":
        assert trial.prior is None
        assert trial.policy.iterations == 24


def test_wider_and_softer_families_stay_possible():
    family = robot_task("peg").family
    for p, wide, soft in zip(family.parameters, _wider(family, 3.0).parameters, _softer(family).parameters):
        assert wide.high - wide.low >= p.high - p.low
        assert wide.low > 0 or p.low == 0
        assert (soft.low == 3 * p.low) == ("timeconst" in p.name or p.low == 0)


def test_a_constant_is_read_where_there_is_one():
    rng = np.random.default_rng(0)
    low, high = rng.normal(size=(60, 8)), rng.normal(size=(60, 8))
    assert abs(read_constant(low, high) - 0.5) < 0.15
    shifted = high + np.array([1.5, *np.zeros(7)])
    assert read_constant(low, shifted) > 0.75
    assert _auc([0.0, 1.0], [1.0, 2.0]) == 0.875
    with pytest.raises(BadInput, match="3 clips in a set: 5 folds"):
        read_constant(low[:3], high)


def test_lines_that_do_not_differ_are_refused():
    assert _differing(CrossoverConfig()) == ("pad_friction", (0.25, 0.9))
    with pytest.raises(UnknownName, match="hidden constant"):
        _differing(CrossoverConfig(line=LineConfig(task="folding")))
    with pytest.raises(UnknownName, match=r"unknown parameter of the worlds .* 'glue'"):
        _differing(CrossoverConfig(constant="glue", values=(0.1, 0.2)))
    with pytest.raises(BadInput, match="must differ"):
        _differing(CrossoverConfig(constant="pad_friction", values=(0.5, 0.5)))


def test_studies_refuse_what_they_cannot_use(tmp_path, tiny_bank):
    bank, panel = tiny_bank
    bank.save(tmp_path / "bank" / "behavior.safetensors")
    panel.save(tmp_path / "bank" / "panel.json")
    with pytest.raises(ArtifactError, match="holds a bank of 'pick_place', the study is of 'peg'"):
        study_mechanism(MechanismConfig(behavior=str(tmp_path / "bank")), tmp_path / "study")
    with pytest.raises(UnknownName, match="unknown arm 'kl0'; did you mean 'kl_0'"):
        study_controls(ControlsConfig(arms=("kl0",)), tmp_path / "study")
    with pytest.raises(ArtifactError, match="holds no"):
        study_controls(ControlsConfig(run=str(tmp_path / "nothing")), tmp_path / "study")
    assert not (tmp_path / "study").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_the_mechanism_runs_part_by_part_and_redoes_none(tiny_bank, tmp_path):
    bank, panel = tiny_bank
    bank.save(tmp_path / "bank" / "behavior.safetensors")
    panel.save(tmp_path / "bank" / "panel.json")
    config = MechanismConfig(
        task="pick_place", behavior=str(tmp_path / "bank"), seeds=2, every=1, vectors=2, scenes=2,
        arms=("annealed", "none"), once=("adaptive",),
        policy=PpoConfig(worlds=3, iterations=2, warmup=1, warmup_epochs=1, epochs=1),
    )  # fmt: skip
    said: list[str] = []
    found = study_mechanism(config, tmp_path / "study", say=said.append)
    assert set(found["arms"]) == {"annealed", "none", "adaptive"}
    assert found["held"]["annealed"]["elsewhere"]["n"] == 2
    assert found["held"]["adaptive"]["elsewhere"]["n"] == 1
    rows = found["arms"]["none"][1]
    assert [row["iteration"] for row in rows if "elsewhere" in row] == [1, 2]
    assert (tmp_path / "study" / "mechanism.html").stat().st_size > 20_000
    said.clear()
    again = study_mechanism(config, tmp_path / "study", say=said.append)
    assert not said
    assert json.dumps(again["held"]) == json.dumps(found["held"])
