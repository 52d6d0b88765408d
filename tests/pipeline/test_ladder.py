"""The ladder's arithmetic, its table and its picture."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dexprior.artifacts import write_json
from dexprior.data.demonstrating import condition_of
from dexprior.data.stacks import Stack, stack_episodes
from dexprior.errors import ArtifactError, BadInput
from dexprior.pipeline import ladder
from dexprior.pipeline.following import first_way
from dexprior.pipeline.ladder import RUNGS, _clips, _sample, _within, ladder_steps, paired_ratio, rungs_of
from dexprior.pipeline.line import Line
from dexprior.pipeline.rungs import CHAIN, draw_rungs, largest_loss, loss_text, table
from dexprior.pipeline.settings import BankConfig, LineConfig
from dexprior.stats import Rate
from dexprior.types import Episode
from dexprior.worlds.tasks import make_task, robot_task, strategies_of

SCENE = {name: value[0] for name, value in make_task("pick_place").sample(np.random.default_rng(0), 1).items()}


def test_ratios_of_pairs():
    first = np.array([True] * 30 + [False] * 10)
    same = paired_ratio(first, first)
    assert same == {"ratio": 1.0, "low": 1.0, "high": 1.0}
    half = paired_ratio(first, first & (np.arange(40) % 2 == 0))
    assert half is not None
    assert half["ratio"] == 0.5
    assert 0.25 < half["low"] < 0.5 < half["high"] < 0.75
    more = paired_ratio(first & (np.arange(40) % 2 == 0), first)
    assert more is not None
    assert more["low"] > 1.0
    assert paired_ratio(np.arange(40) < 3, first) is None


def found(rates: dict[str, int]) -> dict:
    """A ladder of 10 scenes in two worlds, the second of which nothing survives after the expert."""
    return {
        "rungs": {
            rung: {
                world: Rate(k if world == "training" or rung == "expert" else 0, 10).as_dict()
                for world in ("training", "laws")
            }
            for rung, k in (dict.fromkeys(RUNGS, 0) | rates).items()
        }
    }


def test_the_table_names_every_rung_and_world():
    lines = table(found({})).splitlines()
    assert lines[0].split() == ["rung", "training", "laws"]
    assert [row[:16].strip() for row in lines[1 : len(RUNGS) + 1]] == list(RUNGS)
    assert len(lines) == len(RUNGS) + 3


class Demonstrations(list):
    """What of a stack the ladder asks for: conditions of scenes, of which some may be taken."""

    conditions = property(list)
    info = property(lambda self: [{"object": {}, "scene": SCENE} for _ in self])

    def __getitem__(self, ids):
        return Demonstrations(super(Demonstrations, self).__getitem__(k) for k in ids)


def test_demonstrations_that_are_longer_than_the_prior_s_clips_are_not_judged(tmp_path):
    whole = condition_of(robot_task("pick_place"), SCENE, seed=0, size=16, sentence=first_way("pick_place", 10.0))
    stack = Demonstrations([whole, replace(whole, seconds=whole.seconds + 1.0), whole])
    prior = SimpleNamespace(
        denoiser=SimpleNamespace(config=SimpleNamespace(frames=round(whole.seconds * 10), fps=10.0))
    )
    held, made = _within(Line(LineConfig(out=str(tmp_path))), stack, prior)
    assert [one.seconds for one in held] == [one.seconds for one in made] == [whole.seconds] * 2
    prior.denoiser.config.frames -= 1
    with pytest.raises(BadInput, match="each of the 3 demonstrations to judge is longer than"):
        _within(Line(LineConfig(out=str(tmp_path))), stack, prior)


def judged_of_three(example_makers) -> Stack:
    """Demonstrations of three scenes, of which the second is a second longer."""
    scenes, way = make_task("pick_place").sample(np.random.default_rng(1), 3), strategies_of("pick_place")[0]
    episodes = []
    for k, longer in enumerate((0.0, 1.0, 0.0)):
        one = example_makers(n=5, seed=k, size=16)[Episode]
        condition = replace(one.condition, text=way.sentences[0], seconds=way.seconds + longer)
        scene = {name: value[k].tolist() for name, value in scenes.items()}
        episodes.append(replace(one, condition=condition, info={"object": {}, "scene": scene}))
    return stack_episodes(episodes, 16)


def test_rungs_of_clips_take_what_the_samples_kept_and_ask_the_prior_nothing(
    example_makers, same, monkeypatch, tmp_path
):
    settings = LineConfig(out=str(tmp_path / "run"), bank=BankConfig(views=()))
    stack, line = judged_of_three(example_makers), Line(settings)
    net = SimpleNamespace(frames=round(stack.conditions[0].seconds * 10), fps=10.0, size=16)
    prior = SimpleNamespace(
        denoiser=SimpleNamespace(config=net), propose=lambda conditions, seed: conditions
    )  # fmt: skip
    samples = [example_makers(n=5, seed=k, size=16)[Episode].sample for k in (7, 8)]
    monkeypatch.setattr(ladder, "judged_clips", lambda config, folder: stack)
    monkeypatch.setattr(ladder, "load_prior", lambda folder: (prior, {}))
    monkeypatch.setattr(
        ladder, "sample_prior", lambda prior, conditions, settings, seed, **_: samples[: len(conditions)]
    )
    monkeypatch.setattr(Line, "made", lambda self, stage: ())
    _, made = _within(line, stack, prior)
    assert _sample(line.config, tmp_path) == {
        "judged": ["000000", "000002"],
        "left_out": 1,
        "made": ["sample", "made condition", "proposed"],
    }
    monkeypatch.delattr(ladder, "load_prior")
    monkeypatch.delattr(Line, "made")  # nor are its files read to know that they are the same
    monkeypatch.delattr(ladder, "condition_of")
    recorded, sampled, again = (_clips(line, tmp_path, rung) for rung in ("demonstration", "sample", "made condition"))
    for k, (clip, judged) in enumerate(zip(recorded, (0, 2), strict=True)):
        np.testing.assert_array_equal(clip.hand.joints, stack.joints[judged, :, 0])
        same(sampled[k].hand, samples[k].hand)
        same(again[k].hand, samples[k].hand)
        np.testing.assert_array_equal(sampled[k].surface, clip.surface)
        np.testing.assert_array_equal(again[k].surface, made[k].cloud[made[k].moves])


def test_samples_of_an_older_version_end_in_the_line_that_says_what_to_delete(example_makers, monkeypatch, tmp_path):
    stack, line = judged_of_three(example_makers), Line(LineConfig(out=str(tmp_path / "run")))
    monkeypatch.setattr(ladder, "judged_clips", lambda config, folder: stack)
    told = r"samples does not hold the samples of all rungs: .* Delete that folder, and the same command makes"
    with pytest.raises(ArtifactError, match=told):
        _clips(line, tmp_path, "sample")
    write_json(tmp_path / "samples" / "done.json", {"result": {"judged": [], "left_out": 1}, "seconds": 1.0})
    with pytest.raises(ArtifactError, match=told):
        _clips(line, tmp_path, "sample")


def test_of_a_ladder_s_steps_only_the_samples_need_the_prior(tmp_path):
    steps = ladder_steps(Line(LineConfig(out=str(tmp_path))), tmp_path / "09-ladder")
    assert [name for name, step in steps.items() if "02-prior" in step.needs] == ["09-ladder/samples"]


def test_a_refined_bank_is_judged_before_and_after(tmp_path, monkeypatch):
    config = LineConfig(out=str(tmp_path))
    assert "unrefined" not in rungs_of(Line(config))
    line = Line(replace(config, bank=replace(config.bank, rollouts=4)))
    assert rungs_of(line) == list(RUNGS)
    judged = {}
    monkeypatch.setattr(ladder, "_bank", lambda line, worlds, file: judged.setdefault(file, {}))
    for rung in ("unrefined", "bank"):
        ladder._won(line, tmp_path, rung)
    assert list(judged) == ["unrefined.safetensors", "behavior.safetensors"]


def test_the_table_says_how_many_demonstrations_were_left_out():
    assert "Left out" not in table(found({}) | {"left_out": 0})
    assert (
        table(found({}) | {"left_out": 3}).splitlines()[-1].endswith("clips: 3 demonstrations of the scoring scenes.")
    )


def test_the_rung_that_loses_most_is_named():
    ladder = found({"expert": 10, "demonstration": 9, "sample": 8, "bank": 8, "policy": 3})
    assert largest_loss(ladder, "training") == ("bank", "policy")
    assert loss_text(ladder, "training") == "training: most is lost between bank (8 of 10) and policy (3 of 10)."
    assert largest_loss(ladder, "laws") == ("expert", "demonstration")
    better = found(dict.fromkeys(CHAIN, 4))
    assert largest_loss(better, "training") is None
    assert "nothing is lost" in loss_text(better, "training")


def test_the_picture_has_a_bar_for_every_rung_and_world():
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    draw_rungs(found({"expert": 10, "policy": 3}), ax)
    assert [bar.get_width() for bar in ax.containers[0]][:1] == [1.0]
    assert sum(len(group) for group in ax.containers if hasattr(group, "patches")) == 2 * len(RUNGS)
    assert [label.get_text() for label in ax.get_yticklabels()] == list(RUNGS)


def test_a_rung_that_a_world_does_not_have_leaves_its_column_free():
    rate = {"k": 3, "n": 4}
    everywhere = {rung: {key: {**rate, "rate": 0.75} for key in ("training", "other", "laws")} for rung in CHAIN}
    text = table({"rungs": everywhere | {"gate": {"other": rate}}})
    assert text.splitlines()[len(CHAIN) + 1].split() == ["gate", "-", "3", "of", "4", "-"]
