"""Starts and targets that a prior proposes from an object, its goal and a sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dexprior.artifacts import write_tensors
from dexprior.data.demonstrating import condition_of
from dexprior.errors import ArtifactError, BadInput
from dexprior.prior.denoiser import JointDenoiser
from dexprior.prior.proposal import Proposal, fit_proposal
from dexprior.prior.sampling import load_prior, save_prior
from dexprior.prior.text import HASHED, text_encoder
from dexprior.worlds.tasks import make_task, strategies_of

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def asked():
    """240 conditions of a task, with habits of their own and sentences of all its ways."""
    task = make_task("pick_place")
    scenes = task.sample(np.random.default_rng(0), 240)
    return [condition_of(task, {k: v[i] for k, v in scenes.items()}, seed=i, size=16) for i in range(240)]


@pytest.fixture(scope="module")
def proposal(asked):
    return fit_proposal(asked[:200], fps=12.5, sides=("right",), seed=0, text=text_encoder(HASHED))


def wrists(conditions, name):
    return np.array([getattr(c, name)[0].wrist_pose[:3] for c in conditions])


def test_a_proposed_hand_ends_where_the_object_is_to_go_and_begins_near_it(proposal, asked):
    new = asked[200:]
    found = proposal.propose(new, seed=0)
    goals = np.array([c.goal[:3] for c in new])
    usual = np.linalg.norm(wrists(new, "target") - goals, axis=1)
    assert np.median(np.linalg.norm(wrists(found, "target") - goals, axis=1)) < 1.25 * np.median(usual)
    anybody = np.linalg.norm(wrists(new, "target") - np.roll(wrists(new, "target"), 1, axis=0), axis=1)
    apart = np.linalg.norm(wrists(new, "target") - wrists(found, "target"), axis=1)
    assert np.median(apart) < 0.5 * np.median(anybody)
    for condition, made in zip(new, found):
        assert made.target[0].touching.any()
        np.testing.assert_array_equal(made.cloud, condition.cloud)
        assert made.text == condition.text
        assert 0.0 < made.target_at <= made.seconds


def test_the_sentence_chooses_how_long_it_takes(proposal, asked):
    ways = strategies_of("pick_place")
    slow, quick = max(ways, key=lambda way: way.seconds), min(ways, key=lambda way: way.seconds)
    assert slow.seconds > quick.seconds + 0.3
    told = [
        np.mean([c.seconds for c in proposal.propose([replace(c, text=w.sentences[0]) for c in asked[200:]], seed=0)])
        for w in (slow, quick)
    ]
    assert told[0] > told[1] + 0.5 * (slow.seconds - quick.seconds)


def test_a_proposal_moves_with_the_object(proposal, asked):
    shift = np.array([0.03, -0.05, 0.0])
    one = asked[220]
    along = np.concatenate([shift, np.zeros(4)])
    moved = replace(
        one, cloud=one.cloud + along[:6], points=one.points + shift, pose=one.pose + along, goal=one.goal + along
    )  # fmt: skip
    here, there = (
        np.mean([wrists(proposal.propose([c], seed=k), "target")[0] for k in range(30)], axis=0) for c in (one, moved)
    )
    np.testing.assert_allclose(there - here, shift, atol=0.02)


def test_a_proposal_depends_on_the_seed_and_the_place_in_the_list_alone(proposal, asked):
    first = proposal.propose(asked[200:204], seed=3)
    again = proposal.propose(asked[200:202], seed=3)
    np.testing.assert_allclose(wrists(first[:2], "start"), wrists(again, "start"), atol=1e-6)
    assert np.linalg.norm(wrists(proposal.propose(asked[200:204], seed=4), "start") - wrists(first, "start")) > 1e-3


def test_a_fit_is_a_function_of_its_seed_and_kept_as_it_is(proposal, asked, tmp_path):
    proposal.save(tmp_path)
    read = Proposal.load(tmp_path)
    assert read is not None
    again = fit_proposal(asked[:200], fps=12.5, sides=("right",), seed=0, text=text_encoder(HASHED))
    for other in (read, again):
        for c, d in zip(proposal.propose(asked[200:], seed=1), other.propose(asked[200:], seed=1)):
            np.testing.assert_array_equal(c.target[0].wrist_pose, d.target[0].wrist_pose)


def test_both_hands_keep_their_sides(handed):
    both = handed[2:]
    proposal = fit_proposal(both, fps=24.0, sides=("right", "left"), seed=0, text=text_encoder(HASHED))
    (found,) = proposal.propose(both[:1], seed=0)
    assert [hand.side for hand in found.start] == ["right", "left"]
    right, left = (hand.wrist_pose[:3] for hand in found.start)
    assert left[1] - right[1] == pytest.approx(0.12, abs=0.03)


def test_what_is_wrong_is_said(proposal, asked, tmp_path):
    with pytest.raises(BadInput, match="followed by 3 points; this proposal was fitted to 16"):
        proposal.propose([replace(asked[0], points=asked[0].points[:3])], seed=0)
    with pytest.raises(BadInput, match="1 condition: a proposal is fitted to at least two"):
        fit_proposal(asked[:1], fps=12.5, sides=("right",), seed=0, text=text_encoder(HASHED))
    write_tensors(tmp_path / "proposal.safetensors", {"middle": np.zeros(3)}, {})
    with pytest.raises(ArtifactError, match=r"proposal\.safetensors"):
        Proposal.load(tmp_path)


def test_a_checkpoint_keeps_its_proposal_and_an_older_one_says_that_it_has_none(proposal, asked, tmp_path):
    net = JointDenoiser(frames=6, size=16, width=32, layers=1, heads=2, channels=10, fps=3.0).eval()
    save_prior(net, tmp_path / "old", seed=0, extra={})
    with pytest.raises(ArtifactError, match="holds no proposal of starts and targets"):
        load_prior(tmp_path / "old")[0].propose(asked[:1])
    save_prior(net, tmp_path / "new", seed=0, extra={}, proposal=proposal)
    load_prior(tmp_path / "new")[0].save_pretrained(tmp_path / "again")
    (found,), (wanted,) = (
        one.propose(asked[:1], seed=2) for one in (load_prior(tmp_path / "again")[0], proposal)
    )  # fmt: skip
    np.testing.assert_array_equal(found.target[0].wrist_pose, wanted.target[0].wrist_pose)
