"""The hybrid backend: MuJoCo's world when its model is not asked, the model's answer when it is."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from dexprior.collision import (
    HybridConfig,
    ImpulseNetwork,
    RestitutionFriction,
    Surrogate,
    SurrogateConfig,
)
from dexprior.envs.hybrid import NUT_PAIRS, HybridBackend
from dexprior.envs.line import SimBackend
from dexprior.errors import ArtifactError, BadInput, UnknownName
from dexprior.worlds.insertion import TRAINING_FAMILY

STILL = (np.zeros((1, 6)), np.array([0.08]))


@pytest.fixture
def tame(quiet):
    """The instance with the training family's parameters only."""
    kept = {name: value for name, value in quiet.parameters.items() if name in TRAINING_FAMILY.names}
    return type(quiet)(quiet.nut, quiet.bolt, quiet.nut_yaw, kept, quiet.seed)


def _drop(backend: SimBackend, instance, steps: int, height: float = 0.05) -> np.ndarray:
    """Height of the nut after each step, dropped from above the table [m]."""
    backend.reset([instance])
    backend.worlds.data.joint("nut").qpos[2] += height
    return np.array([backend.step(*STILL).truth.nut[0, 2] for _ in range(steps)])


def _hybrid(restitution: float, **limits) -> HybridBackend:
    return HybridBackend(RestitutionFriction(), np.array([restitution, 0.3]), config=HybridConfig(**limits))


def test_a_model_that_is_never_asked_changes_nothing(tame):
    import mujoco

    hybrid = _hybrid(0.5, min_approach=1e6)
    plain = SimBackend(1, family=TRAINING_FAMILY, stepper=mujoco.mj_step)
    np.testing.assert_allclose(_drop(hybrid, tame, 15), _drop(plain, tame, 15), rtol=0, atol=1e-12)
    assert not any(hybrid.counts.values())


def test_an_impact_is_answered_and_counted_and_bounces_by_its_restitution(tame):
    counts, heights = {}, {}
    for restitution in (0.0, 0.6):
        hybrid = _hybrid(restitution)
        heights[restitution] = _drop(hybrid, tame, 8)
        counts[restitution] = hybrid.counts
    assert counts[0.0]["impacts"] > 0
    assert counts[0.6]["impacts"] > 0
    assert heights[0.6][2:].max() > heights[0.0][2:].max() + 0.002


def test_each_reset_is_bound_to_afresh_and_counts_go_on(tame):
    hybrid = _hybrid(0.0)
    _drop(hybrid, tame, 6)
    once = hybrid.counts["impacts"]
    _drop(hybrid, tame, 6)
    assert hybrid.counts["impacts"] == 2 * once > 0


def test_a_checkpoint_is_loaded_with_its_parameters(tame, tmp_path):
    torch.manual_seed(0)
    network = ImpulseNetwork(SurrogateConfig(width=8, depth=1))
    seen = np.array([[-50.0, 50.0]] * 4)
    phi = np.array([0.3, 0.5, 0.001, 1.0, 0.0])
    named = dataclasses.replace(Surrogate.from_network(network, seen), phi=phi)
    path = named.save(tmp_path / "with.safetensors", producer="test", seed=0)
    hybrid = HybridBackend.load(path)
    assert np.isfinite(_drop(hybrid, tame, 6)).all()
    assert sum(hybrid.counts.values()) > 0
    bare = Surrogate.from_network(network, seen).save(tmp_path / "bare.safetensors", producer="test", seed=0)
    with pytest.raises(BadInput, match="give phi"):
        HybridBackend.load(bare)
    HybridBackend.load(bare, phi=phi)
    with pytest.raises(ArtifactError, match="no such file"):
        HybridBackend.load(tmp_path / "absent.safetensors")


def test_mistakes_are_found_at_once():
    with pytest.raises(UnknownName, match="nut9"):
        HybridBackend(RestitutionFriction(), np.array([0.0, 0.3]), pairs=[("nut9", "table")])
    with pytest.raises(BadInput, match="phi"):
        HybridBackend(RestitutionFriction(), np.array([0.0]))


def test_a_nut_that_lands_flat_is_asked_about_once_a_touch(tame):
    """All its geoms are one patch, struck at the centre: it bounces straight up."""
    hybrid = _hybrid(0.5)
    hybrid.reset([tame])
    hybrid.worlds.data.joint("nut").qpos[2] += 0.05
    while hybrid.counts["impacts"] == 0:
        hybrid.step(*STILL)
    assert hybrid.counts["impacts"] == 1
    assert len(hybrid.hybrid.stepper.answers) == 1
    nut = hybrid.worlds.model.joint("nut").dofadr[0]
    answer = hybrid.hybrid.stepper.answers[0]
    assert answer.post[nut + 2] == pytest.approx(-0.5 * answer.pre[nut + 2], rel=1e-6)
    np.testing.assert_allclose(answer.post[nut + 3 : nut + 6], 0.0, atol=1e-3)


def test_geoms_may_still_be_watched_one_by_one(tame):
    pairs = [(f"nut{k}", "table") for k in range(8)]
    one_by_one = HybridBackend(RestitutionFriction(), np.array([0.5, 0.3]), pairs=pairs)
    patch = HybridBackend(RestitutionFriction(), np.array([0.5, 0.3]), pairs=NUT_PAIRS)
    np.testing.assert_allclose(_drop(one_by_one, tame, 4), _drop(patch, tame, 4), atol=1e-6)
