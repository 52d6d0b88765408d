"""Sampling from the command line: what a sentence may be, and what the prior is not told."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from dexprior.artifacts import load_all
from dexprior.cli.main import main
from dexprior.cli.sample import Config, _drawn
from dexprior.errors import BadInput, UnknownName
from dexprior.prior.denoiser import JointDenoiser
from dexprior.prior.sampling import save_prior
from dexprior.types import PriorCondition, VideoSample
from dexprior.worlds.tasks import strategies_of

ALONE = ("start", "target", "fingers", "time")
NET = SimpleNamespace(fps=12.5, frames=51, size=16)


def test_a_sentence_of_the_task_decides_the_way_and_any_other_is_named():
    quick = next(way for way in strategies_of("pick_place") if way.name == "quick")
    for sentence in (quick.sentences[1], quick.held_out[0]):
        (made,) = _drawn(Config(sentence=sentence, n=1), "pick_place", NET)
        assert (made.text, made.seconds) == (sentence, pytest.approx(quick.seconds, abs=0.08))
    with pytest.raises(UnknownName, match="sentence 'juggle the block'"):
        _drawn(Config(sentence="juggle the block", n=1), "pick_place", NET)


def test_where_the_sentence_is_alone_it_may_be_any_and_the_clip_s_length_says_nothing():
    longest = max(way.seconds for way in strategies_of("pick_place"))
    for sentence in ("juggle the block", strategies_of("pick_place")[1].sentences[0]):
        made = _drawn(Config(sentence=sentence, n=3, mask=ALONE), "pick_place", NET)
        assert {c.text for c in made} == {sentence}
        assert all(c.seconds == pytest.approx(longest) for c in made)


@pytest.mark.parametrize("sentence", ["", "  ", "123 !", "把方块推过去"])
def test_a_sentence_without_a_word_is_refused(sentence):
    with pytest.raises(BadInput, match="no word in it that a prior trained on English could know"):
        _drawn(Config(sentence=sentence, n=1, mask=ALONE), "pick_place", NET)


@pytest.mark.usefixtures("one_thread")
def test_the_verb_hides_what_it_is_told_to_and_names_what_it_does_not_know(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    net = JointDenoiser(
        frames=51, size=16, width=32, layers=1, heads=2, channels=10, fps=12.5, hides=[*ALONE, "text"]
    ).eval()  # fmt: skip
    net.motion_mean[[3, 7]] = 1.0  # a rotation
    save_prior(net, tmp_path / "prior", seed=0, extra={"tasks": ["pick_place"]})
    words = ["sample", "prior=prior", "n=1", "motion_steps=1", "video_steps=1", "out=made"]
    asked = ["sentence=shove the block ahead, then lift it", f"mask=[{','.join(ALONE)}]", "guidance.text=1.5"]
    assert main([*words, *asked]) == 0
    (sample,) = load_all(tmp_path / "made" / "samples.safetensors", VideoSample)
    assert (sample.provenance["hidden"], sample.provenance["guidance"]) == (list(ALONE), {"text": 1.5})
    (condition,) = load_all(tmp_path / "made" / "conditions.safetensors", PriorCondition)
    assert main([*words, "proposed=true"]) == 1
    assert "this prior's checkpoint holds no proposal of starts and targets" in capsys.readouterr().err
    assert condition.text == "shove the block ahead, then lift it"
    given = ["video=made/samples.safetensors", "motion_steps=1", "out=read"]
    assert main(["sample", "prior=prior", *given]) == 0
    (read,) = load_all(tmp_path / "read" / "samples.safetensors", VideoSample)
    assert (read.frames == sample.frames).all()
    assert read.provenance["kept"] == "video"
    assert main(["sample", "prior=prior", *given, "motion=made/samples.safetensors"]) == 1
    assert "give one of video=FILE, motion=FILE and cloud=FILE" in capsys.readouterr().err
    capsys.readouterr()
    assert main([*words, "mask=[cloud]"]) == 1
    assert "this prior was never trained without cloud" in capsys.readouterr().err
    assert main([*words, "mask=[goal]"]) == 1
    assert "unknown condition 'goal'. Known: start, target, fingers, time, cloud, text" in capsys.readouterr().err
