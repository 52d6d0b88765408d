"""From a task's name to samples of its prior: demonstrations, training, evaluation, and a scene that is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.artifacts import load_all
from dexprior.cli.main import main
from dexprior.types import VideoSample

PRIOR = [
    "prior.steps=3", "prior.size=24", "prior.width=32", "prior.layers=1", "prior.heads=2", "prior.channels=10",
    "prior.batch=2", "prior.video_clips=1", "prior.video_window=4", "prior.holdout=0.4",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("graphics")
@pytest.mark.parametrize("task", ["insertion", "pick_place", "peg", "soft_grasp"])
def test_a_tasks_demonstrations_train_a_prior_that_samples_its_scenes(task, tmp_path, capsys):
    data, out, samples = (tmp_path / name for name in ("data", "prior", "samples"))
    settings = ["suite.size=32", "suite.every=4", "suite.cameras=[front]", "suite.depth=[]", "suite.workers=1"]
    assert main(["data", "generate", f"task={task}", "n=5", f"out={data}", *settings]) == 0
    assert main(["train-prior", f"demonstrations={data}", f"out={out}", *PRIOR]) == 0
    said = capsys.readouterr().out
    for name in ("prior", "constant", "copy", "nearest", "demonstrations", "moves_alone", "left_out"):
        assert f'"{name}"' in said
    assert main(["sample", f"prior={out}", "n=2", f"out={samples}", "motion_steps=2", "video_steps=1"]) == 0
    for sample in load_all(samples / "samples.safetensors", VideoSample):
        assert sample.fps == pytest.approx(6.25)
        assert 2.5 <= len(sample.frames) / sample.fps <= 4.1
        assert sample.object.points.shape == (len(sample.frames), 16, 3)
        assert (sample.object.pose is None) == (task == "soft_grasp")
        assert np.linalg.norm(sample.hand.wrist_pose[0, :3] - sample.object.points[0].mean(axis=0)) < 0.4
