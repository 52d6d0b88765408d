"""Distilling, identifying and fine-tuning: resuming equals not stopping, and a known answer is found."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from dexprior.collision import (
    DistillConfig,
    FinetuneConfig,
    IdentifyConfig,
    SurrogateConfig,
    distill,
    finetune,
    identify,
    predict_impacts,
    relative_error,
)
from dexprior.data.impacts import generate_impacts
from dexprior.errors import ArtifactError, BadInput

SMALL = SurrogateConfig(width=8, depth=2)
SHORT = DistillConfig(steps=60, batch=32, checkpoint_every=20)


class Killed(Exception):
    """Stands for a kill between two steps."""


def weights(network):
    return {name: value.numpy().copy() for name, value in network.state_dict().items()}


@pytest.fixture(scope="module")
def own_world(surrogate):
    """Impacts of a world that the surrogate describes exactly, and its contact parameters."""
    phi = np.array([0.2, 0.3, 0.002])
    impacts = generate_impacts(0, 12)
    return dataclasses.replace(impacts, post=predict_impacts(surrogate, impacts, phi)[0]), phi


@pytest.mark.parametrize("killed_after", [20, 33])
def test_a_killed_and_resumed_run_equals_an_uninterrupted_one(pairs, tmp_path, killed_after):
    def kill(step):
        if step == killed_after:
            raise Killed

    whole = distill(pairs, SHORT, SMALL, seed=3, progress=False)
    path = tmp_path / "distill.safetensors"
    with pytest.raises(Killed):
        distill(pairs, SHORT, SMALL, seed=3, checkpoint=path, progress=False, on_step=kill)
    resumed = distill(pairs, SHORT, SMALL, seed=3, checkpoint=path, progress=False)
    for name, value in weights(whole).items():
        np.testing.assert_array_equal(weights(resumed)[name], value)


def test_a_checkpoint_of_another_run_is_refused(pairs, tmp_path):
    path = tmp_path / "distill.safetensors"
    distill(pairs, SHORT, SMALL, seed=3, checkpoint=path, progress=False)
    with pytest.raises(ArtifactError, match="configuration"):
        distill(pairs, SHORT, SMALL, seed=4, checkpoint=path, progress=False)


def test_training_does_not_touch_the_global_random_state(pairs):
    torch.manual_seed(11)
    before = torch.get_rng_state()
    distill(pairs, DistillConfig(steps=2, batch=8), SMALL, seed=0, progress=False)
    assert torch.equal(torch.get_rng_state(), before)


def test_distilling_learns(pairs, network):
    """The trained network explains most of the energy of the impulses that it saw."""
    approach, delassus, phi, impulse = (torch.tensor(x, dtype=torch.float32) for x in pairs.arrays().values())
    target = impulse * (delassus[:, 0, 0] / -approach[:, 0])[:, None]
    with torch.no_grad():
        error = network(approach, delassus, phi)[0] - target
    scatter = target - target.mean(dim=0)
    assert (error**2).sum() < 0.25 * (scatter**2).sum()


def test_identification_finds_a_world_that_the_network_describes(network, surrogate, own_world):
    impacts, phi = own_world
    found = identify(network, impacts, IdentifyConfig(starts=2, steps=120))
    assert relative_error(predict_impacts(surrogate, impacts, found)[0], impacts).mean() < 0.02
    assert found[0] == pytest.approx(phi[0], rel=0.1)  # friction shows in every impact that slips


def test_finetuning_a_perfect_model_chooses_no_step_and_leaves_it_as_it_is(network, own_world):
    impacts, phi = own_world
    before = weights(network)
    tuned = finetune(network, impacts, phi, FinetuneConfig(max_steps=3))
    assert tuned.steps == 0
    assert tuned.held_out[0] < 1e-3
    assert tuned.sigma_scale < 0.1
    for name, value in weights(network).items():
        np.testing.assert_array_equal(value, before[name])


def test_finetuning_moves_towards_a_world_that_bounces_more(network, surrogate, own_world):
    impacts, phi = own_world
    bouncier = dataclasses.replace(impacts, post=impacts.pre + 1.25 * (impacts.post - impacts.pre))
    fit, test = bouncier.split(8, seed=0)
    tuned = finetune(network, fit, phi, FinetuneConfig(max_steps=25, learning_rate=3e-3))
    adapted = type(surrogate).from_network(tuned.network, surrogate.seen)
    before, after = (relative_error(predict_impacts(m, test, phi)[0], test).mean() for m in (surrogate, adapted))
    assert tuned.steps > 0
    assert after < 0.7 * before
    assert tuned.sigma_scale > 0


def test_too_few_measured_impacts_are_refused(network):
    two = generate_impacts(0, 2)
    phi = np.array([0.2, 0.3, 0.002])
    with pytest.raises(BadInput, match="at least 3"):
        identify(network, two, IdentifyConfig(steps=1))
    with pytest.raises(BadInput, match="at least 3"):
        finetune(network, two, phi, FinetuneConfig(max_steps=1))
