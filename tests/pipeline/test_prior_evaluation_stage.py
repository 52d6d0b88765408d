"""What a prior is worth: every part of the result is there, and says what it should of samples that are made up."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dexprior.config import validate
from dexprior.data.demonstrating import TaskDemonstrationConfig, generate_demonstrations
from dexprior.errors import BadInput, UnknownName
from dexprior.pipeline import prior_evaluation
from dexprior.pipeline.prior_evaluation import PriorEvaluationConfig, stage_prior_evaluation, table
from dexprior.prior.conditioning import CONDITIONS
from dexprior.prior.denoiser import JointDenoiser
from dexprior.prior.sampling import save_prior

pytestmark = pytest.mark.usefixtures("one_thread", "graphics")


@pytest.fixture(scope="module")
def data(graphics, tmp_path_factory):
    """Demonstrations of two ways."""
    folder = tmp_path_factory.mktemp("demonstrations")
    config = TaskDemonstrationConfig(n=20, size=16, cameras=("front",), depth=(), workers=1)
    generate_demonstrations("pick_place", config, folder, seed=0)
    return folder


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Of a prior that knows nothing."""
    torch.manual_seed(0)
    net = JointDenoiser(
        frames=51, size=16, width=32, layers=1, heads=2, channels=10, fps=12.5, hides=list(CONDITIONS)
    ).eval()  # fmt: skip
    net.motion_std.fill_(0.1)
    net.motion_mean[[3, 7]] = 1.0  # a rotation
    folder = tmp_path_factory.mktemp("prior")
    save_prior(net, folder, seed=0, extra={"tasks": ["pick_place"], "holdout": 0.4})
    return folder


@pytest.fixture
def followed(monkeypatch):
    """Has robots succeed where the object ends within 2 cm of where it was demonstrated to."""

    def follow(name, clips, worlds, **_):
        ends = [np.linalg.norm(c.thing.points[-1].mean(0)[:2] - np.array(c.scene["goal"])[:2]) for c in clips]
        return {world: np.array(ends) < 0.02 for world in worlds}

    monkeypatch.setattr(prior_evaluation, "follow", follow)


def test_every_part_of_the_result_is_there(data, checkpoint, followed, tmp_path):
    config = validate(PriorEvaluationConfig, {"clips": 5, "draws": 2, "motion_steps": 2}, where="evaluation")
    found = stage_prior_evaluation(config, checkpoint, data, tmp_path, seed=0)
    judged = found["prior"]["judged"]
    assert 2 <= judged <= 5
    assert list(found["replay"]) == ["sample", "sentence", "constant", "copy", "nearest", "demonstrations"]
    for row in found["replay"].values():
        assert [world["n"] for world in row.values()] == [judged, judged]
    assert found["replay"]["demonstrations"]["other"]["k"] == judged
    assert found["replay"]["constant"]["other"]["k"] < judged
    assert found["errors"]["demonstrations"]["joints_error_mm"]["mean"] == 0.0
    assert "pixel_error" not in found["errors"]["prior"]
    for name, of in (("cloud", "object"), ("start", "joints"), ("target", "joints")):
        effect = found["effects"][name]
        assert effect["of"] == of
        assert effect["ratio"] == pytest.approx(effect["swapped_mm"] / effect["right_mm"])
        assert effect["ratio"] > 1.0  # an untrained prior goes where it is told
    assert found["spread"]["draws"] == 2
    ways = found["ways"]
    assert ways["chance"] == 0.5
    assert ways["read"]["trained"]["n"] == ways["read"]["held out"]["n"] == 2 * judged
    assert ways["read"]["no sentence"]["rate"] == 0.5  # whatever is read is one of the two
    assert len(found["ways"]["sentences"]) <= 2 * 2 * judged
    lines = table(found).splitlines()
    assert lines[0].split() == ["carried", "out", "training", "other"]
    assert any(line.startswith("way read from samples, held out: ") for line in lines)
    assert stage_prior_evaluation(config, checkpoint, data, tmp_path, seed=0) == found


def test_clips_that_are_all_too_long_are_named(data, tmp_path):
    net = JointDenoiser(frames=9, size=16, width=32, layers=1, heads=2, channels=10, fps=12.5).eval()
    save_prior(net, tmp_path / "short", seed=0, extra={})
    config = PriorEvaluationConfig(clips=2, draws=2, replayed=False)
    with pytest.raises(BadInput, match="clips is longer than the 9 frames of the prior"):
        stage_prior_evaluation(config, tmp_path / "short", data, tmp_path / "out", seed=0)


def test_what_is_masked_is_checked():
    with pytest.raises(UnknownName, match="unknown condition 'goal'"):
        PriorEvaluationConfig(masked=("goal",))
    with pytest.raises(BadInput, match="without text there is no sentence that could choose"):
        PriorEvaluationConfig(masked=("start", "text"))
