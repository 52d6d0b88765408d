"""`dexprior condition`, and `dexprior sample cloud=`, which asks the same."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from dexprior.artifacts import load_all
from dexprior.cli.main import main
from dexprior.prior.conditioning import condition_tensors
from dexprior.prior.denoiser import JointDenoiser
from dexprior.prior.familiarity import Familiarity
from dexprior.prior.sampling import save_prior
from dexprior.types import PriorCondition, VideoSample

pytestmark = pytest.mark.usefixtures("one_thread")
ASKED = ("cloud=egg.csv", "at=0.45,-0.1", "goal=0.42,0.1", "text=lift it, then set it down: on 'the mark'", "seconds=2")


@pytest.fixture
def egg(tmp_path, monkeypatch):
    """A folder with the object's file."""
    monkeypatch.chdir(tmp_path)
    k = np.arange(300)
    z, turn = 1 - (2 * k + 1) / 300, np.pi * (3 - np.sqrt(5)) * k
    unit = np.stack([np.sqrt(1 - z**2) * np.cos(turn), np.sqrt(1 - z**2) * np.sin(turn), z], axis=1)
    both = np.concatenate([0.02 * unit, unit], axis=1)
    np.savetxt("egg.csv", both, delimiter=",", header="x,y,z,nx,ny,nz", comments="")
    return tmp_path


def _prior(folder, conditions):
    """Untrained, and what it remembers of some clouds."""
    torch.manual_seed(0)
    net = JointDenoiser(frames=6, size=16, width=32, layers=1, heads=2, channels=10, fps=3.0).eval()
    stacked = condition_tensors(conditions)
    net.motion.condition.fit(stacked)
    save_prior(net, folder, seed=0, extra={"tasks": []}, familiarity=Familiarity.fit(net.motion.condition, stacked))


def test_a_condition_is_written_drawn_and_sampled_and_the_short_way_gives_the_same(egg, capfd):
    assert main(["condition", *ASKED, "n=2", "seed=5", "out=asked/a.safetensors"]) == 0
    said = json.loads(capfd.readouterr().out)
    assert said["conditions"] == 2
    assert said["touching"][0] == "thumb"
    assert said["size_m"] == pytest.approx([0.04] * 3, abs=1e-3)
    assert (egg / "asked" / "a.png").stat().st_size > 1000
    written = load_all("asked/a.safetensors", PriorCondition)
    assert written[0].text == "lift it, then set it down: on 'the mark'"
    _prior(egg / "prior", [*written, *written])
    few = ["motion_steps=1", "video_steps=1", "prior=prior", "seed=5"]
    assert main(["sample", "conditions=asked/a.safetensors", "out=long", *few]) == 0
    assert main(["sample", *ASKED, "n=2", "out=short", *few]) == 0
    for name, kind in (("conditions", PriorCondition), ("samples", VideoSample)):
        long, short = (load_all(f"{way}/{name}.safetensors", kind) for way in ("long", "short"))
        for a, b in zip(long, short):
            np.testing.assert_array_equal(a.cloud if kind is PriorCondition else a.frames,
                                          b.cloud if kind is PriorCondition else b.frames)  # fmt: skip
    assert "warning" not in capfd.readouterr().err
    (egg / "prior" / "familiarity.safetensors").unlink()
    assert main(["sample", "conditions=asked/a.safetensors", "out=old", *few]) == 0
    assert "keeps nothing of its training clouds: it cannot tell" in capfd.readouterr().err


def test_a_cloud_that_the_prior_has_seen_nothing_like_is_warned_about(egg, capfd):
    assert main(["condition", *ASKED, "n=1", "out=a.safetensors"]) == 0
    (condition,) = load_all("a.safetensors", PriorCondition)
    rng = np.random.default_rng(0)
    seen = []
    for shift in rng.uniform(-0.02, 0.02, (40, 2)):
        cloud = condition.cloud.copy()
        cloud[:, :2] += 0.5 + shift
        seen.append(PriorCondition(**{**vars(condition), "cloud": cloud}))
    _prior(egg / "prior", seen)
    assert main(["sample", "conditions=a.safetensors", "prior=prior", "motion_steps=1", "video_steps=1"]) == 0
    assert "warning: the cloud of 1 of 1 samples is unlike those" in capfd.readouterr().err
    (sample,) = load_all("runs/samples/samples.safetensors", VideoSample)
    assert sample.provenance["cloud_distance"] > 1.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sample", "text=x", "goal=0.4,0.1"], "text, goal say what to do with an object of your own: give cloud=FILE"),
        (["sample", "cloud=egg.csv", "conditions=a"], "give either conditions=FILE or cloud=FILE"),
        (["condition", "cloud=egg.csv", "text=", "goal=0.4,0.1"], "text is empty"),
        (["condition", "cloud=egg.csv", "text=x", "goal=0.4,0.1", "units=inch"], "units = 'inch'"),
    ],
)
def test_settings_that_do_not_go_together_are_named(egg, capfd, words, message):
    assert main(words) == 1
    assert message in capfd.readouterr().err
