"""A checkpoint's card says where it comes from, and nothing that is not known."""

from __future__ import annotations

import yaml

from dexprior.prior.card import model_card, sources_of


def test_data_of_several_sources_are_counted_with_their_licences():
    rows = [{"task": "peg"}, {"data_set": "dexycb", "licence": "CC-BY-NC-4.0"}, {"task": "peg"}, {"data_set": "mine"}]
    made, theirs, mine = sources_of(rows)
    assert (made["clips"], theirs["licence"], mine["licence"]) == (2, "CC-BY-NC-4.0", "not stated")
    card = model_card({"sources": [made, theirs]})
    assert "- 1 clips of dexycb; their licence: CC-BY-NC-4.0." in card
    assert "depends on these licences" in card


def test_the_front_matter_says_a_licence_only_where_all_was_generated():
    def licence(*sources):
        return yaml.safe_load(model_card({"sources": list(sources)}).split("---")[1])["license"]

    own, theirs = sources_of([{"task": "peg"}]), sources_of([{"data_set": "mine"}])
    assert [licence(*own), licence(*own, *theirs), licence()] == ["apache-2.0", "other", "other"]


def test_what_is_known_is_told():
    header = {"seed": 3, "versions": {"torch": "2.13.0"}}
    info = {"header": header, "steps": 700, "settings": ["prior.width=64"], "tasks": ["peg"], "averaged": True}
    value = {"mean": 3.21, "low": 2.0, "high": 4.0}
    card = model_card(info, {"clips": {"held_out": 24}, "prior": {"goal_error_mm": value}, "copy": {}})
    told = ("Steps: 700; seed: 3", "`prior.width=64`", "torch 2.13.0", "Tasks: peg", "a moving average", "On 24 clips")
    assert not [text for text in told if text not in card]
    assert "| object at the end [mm] | 3.21 [2, 4] | - |" in card
    assert "No evaluation is recorded" in model_card(info)
