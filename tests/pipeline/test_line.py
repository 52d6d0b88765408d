"""The line's runner: tasks that it takes, and runs that are read back from their folders."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dexprior.artifacts import write_json
from dexprior.errors import ArtifactError, BadInput, ConfigError, UnknownName
from dexprior.pipeline.following import gripper_of
from dexprior.pipeline.line import Line
from dexprior.pipeline.settings import BankConfig, LineConfig
from dexprior.worlds.tasks import SUITE, demonstrated_tasks, robot_task, strategies_of


def test_a_run_is_read_back_from_its_folder(tmp_path):
    made = Line(LineConfig(task="peg", settings={"clearance": 0.001}, seed=3, out=str(tmp_path / "a")))
    made._record()
    (tmp_path / "a").rename(tmp_path / "b")
    again = Line.load(tmp_path / "b", scored=8)
    assert again.task == made.task
    assert again.config == replace(made.config, out=str(tmp_path / "b"), scored=8)


def test_the_estimator_learns_from_the_prior_s_samples_and_the_bank_waits_for_it_where_it_reads_pixels(tmp_path):
    steps = Line(LineConfig(out=str(tmp_path))).steps()
    assert steps["03-estimator"].needs == ("01-demonstrations", "02-prior")
    assert steps["04-behavior"].needs == ("02-prior",)
    for source in ("pixels", "fused"):
        steps = Line(LineConfig(out=str(tmp_path), bank=BankConfig(source=source))).steps()
        assert steps["04-behavior"].needs == ("02-prior", "03-estimator")


def test_folders_of_another_version_end_in_the_command_that_makes_them_again(tmp_path):
    with pytest.raises(ArtifactError, match=r"holds no line.json; make a run with `dexprior demo out="):
        Line.load(tmp_path)
    (tmp_path / "01-demonstrations").mkdir()
    with pytest.raises(ArtifactError, match=r"another version: make it again with `dexprior demo out=FOLDER`"):
        Line(LineConfig(out=str(tmp_path))).run(say=lambda _: None)
    write_json(tmp_path / "line.json", {"schema": "dexprior.line/0", "config": {}})
    with pytest.raises(ArtifactError, match="another version; make the run again with `dexprior demo"):
        Line.load(tmp_path)


@pytest.mark.parametrize("name", demonstrated_tasks())
def test_the_line_takes_every_task_with_demonstrations_and_all_its_variants(name, tmp_path):
    made = Line(LineConfig(task=name, out=str(tmp_path)))
    assert made.task == robot_task(name)
    strategy = strategies_of(name)[0]
    for variant in SUITE[name].variants:
        task = robot_task(name, **variant)
        scenes = task.sample(np.random.default_rng(0), 2)
        strategy.plan(task, scenes, strategy.values(np.full((2, len(strategy.knobs)), 0.5)))
        assert gripper_of(task).end.name == gripper_of(made.task).end.name


def test_tasks_that_the_line_cannot_do_are_refused_by_name(tmp_path):
    with pytest.raises(UnknownName, match="wipe"):
        Line(LineConfig(task="wipe", out=str(tmp_path)))
    with pytest.raises(BadInput, match=r"'folding' has 2 robots in these settings.*{'robots': 1}"):
        Line(LineConfig(task="folding", settings={"robots": 2}, out=str(tmp_path)))
    with pytest.raises(BadInput, match="no map from an opening"):
        Line(LineConfig(task="soft_grasp", settings={"hand": "human_hand"}, out=str(tmp_path)))
    with pytest.raises(ConfigError, match=r"gripper.forse_gain: unknown key. Did you mean 'force_gain'"):
        Line(LineConfig(gripper={"forse_gain": 2.0}, out=str(tmp_path)))
