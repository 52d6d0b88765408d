"""Distilling: resuming equals not stopping, and it learns."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dexprior.collision import DistillConfig, SurrogateConfig, distill
from dexprior.errors import ArtifactError

SMALL = SurrogateConfig(width=8, depth=2)
SHORT = DistillConfig(steps=60, batch=32, checkpoint_every=20)


class Killed(Exception):
    """Stands for a kill between two steps."""


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
    for one, other in zip(whole.layers, resumed.layers):
        for a, b in zip(one, other):
            np.testing.assert_array_equal(a, b)


def test_a_checkpoint_of_another_run_is_refused(pairs, tmp_path):
    path = tmp_path / "distill.safetensors"
    distill(pairs, SHORT, SMALL, seed=3, checkpoint=path, progress=False)
    with pytest.raises(ArtifactError, match="belongs to another run"):
        distill(pairs, SHORT, SMALL, seed=4, checkpoint=path, progress=False)


def test_training_does_not_touch_the_global_random_state(pairs):
    torch.manual_seed(11)
    before = torch.get_rng_state()
    distill(pairs, DistillConfig(steps=2, batch=8), SMALL, seed=0, progress=False)
    assert torch.equal(torch.get_rng_state(), before)


def test_distilling_learns_and_says_how_far_off_it_is(pairs, surrogate):
    """The trained network explains most of the energy of the impulses that it saw."""
    phi = np.hstack([pairs.phi, np.zeros((len(pairs), 1))])
    unit = -pairs.approach[:, :1] / pairs.delassus[:, 0, :1]
    target = pairs.impulse / unit
    error = surrogate.network_impulse(pairs.approach, pairs.delassus, phi) - target
    assert (error**2).sum() < 0.25 * ((target - target.mean(axis=0)) ** 2).sum()
    np.testing.assert_allclose(surrogate.scatter, np.sqrt((error**2).mean(axis=0)), rtol=1e-3)
