"""The network that reads shapes from clouds: its symmetries, its training, and a shape that it never saw."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import dexprior.collision.shapes.generator as generator
from dexprior.collision.parameters import ContactRanges
from dexprior.collision.shapes import (
    PairConfig,
    ShapeNetwork,
    ShapeNetworkConfig,
    ShapeRanges,
    ShapeTrainingConfig,
    generate,
    load_shape_network,
    planar_strikes,
    preset,
    prism_strike,
    regular_contour,
    relative_errors,
    save_shape_network,
    train_shape_network,
)
from dexprior.errors import ArtifactError, BadInput
from dexprior.worlds.pushing import PushingConfig

WORLD = PushingConfig()
SMALL = ShapeNetworkConfig(width=16, depth=2, near=8, far=8)


def strikes_of(contours, pairs):
    config = PairConfig(pairs=pairs, surface=True, at_rest=True, slide_ratio=3.0, cloud=256)
    scenes = [prism_strike(contour, resting=False, like=WORLD) for contour in contours]
    return planar_strikes(
        [generate(scene, config, ShapeRanges(), seed=1, blocks_per_shard=1) for scene in scenes], ContactRanges()
    )


@pytest.fixture(scope="module")
def strikes():
    patch = pytest.MonkeyPatch()
    patch.setattr(generator, "_BLOCK", 256)
    yield strikes_of([regular_contour(4, 0.07), regular_contour(5, 0.06)], 200)
    patch.undo()


def far(strikes, count=8):
    return torch.arange(count).expand(len(strikes), -1)


@pytest.mark.parametrize("head", ["contact", "free", "blind"])
def test_a_mirrored_strike_is_answered_by_the_mirrored_impulse(strikes, head):
    torch.manual_seed(0)
    network = ShapeNetwork(replace(SMALL, head=head)).eval()
    mirror = torch.tensor([1.0, -1.0])
    mirrored = replace(
        strikes,
        clouds=strikes.clouds * mirror.repeat(2),
        point=strikes.point * mirror,
        heading=strikes.heading * mirror,
        known=torch.cat([strikes.known[:, :2] * mirror, strikes.known[:, 2:]], dim=1),
    )
    with torch.no_grad():
        straight, reflected = network(strikes, far(strikes)), network(mirrored, far(strikes))
    torch.testing.assert_close(reflected, straight * mirror, atol=1e-5, rtol=1e-4)
    assert straight.abs().max() > 0.01


def test_turning_the_body_turns_the_answer(strikes):
    """The body frame is a convention: with other axes the velocity after is the same vector."""
    torch.manual_seed(0)
    network = ShapeNetwork(SMALL).eval()
    c, s = np.cos(0.7), np.sin(0.7)
    turn = torch.tensor([[c, -s], [s, c]], dtype=torch.float32)
    clouds = torch.cat([strikes.clouds[..., :2] @ turn.T, strikes.clouds[..., 2:] @ turn.T], dim=-1)
    turned = replace(strikes, clouds=clouds, point=strikes.point @ turn.T, heading=strikes.heading @ turn.T)
    here, there = network.predict(strikes), network.predict(turned)
    np.testing.assert_allclose(there[:, :2], here[:, :2] @ turn.numpy().T, atol=1e-4)
    np.testing.assert_allclose(there[:, 2], here[:, 2], atol=1e-4)


def test_the_impulse_of_the_record_gives_the_velocity_of_the_record(strikes):
    """A point impulse at the impact point, through the frame of the strike: inputs and targets fit together."""

    class Oracle(ShapeNetwork):
        def forward(self, strikes, far):
            return strikes.impulse

    errors = relative_errors(Oracle(SMALL).predict(strikes), strikes.after.numpy())
    assert np.median(errors) < 0.01
    assert (errors < 0.1).mean() > 0.97


def test_a_resumed_training_equals_an_uninterrupted_one(strikes, tmp_path, one_thread):
    training = ShapeTrainingConfig(steps=12, batch=32, checkpoint_every=5)
    whole = train_shape_network(strikes, training, SMALL, seed=0, progress=False)

    def stop(step):
        if step == 7:
            raise KeyboardInterrupt

    checkpoint = tmp_path / "state.safetensors"
    arguments = {"seed": 0, "checkpoint": checkpoint, "progress": False}
    with pytest.raises(KeyboardInterrupt):
        train_shape_network(strikes, training, SMALL, on_step=stop, **arguments)
    steps: list[int] = []
    resumed = train_shape_network(strikes, training, SMALL, on_step=steps.append, **arguments)
    assert steps[0] == 6
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
    with pytest.raises(ArtifactError, match="belongs to another run: seed is 0 there, 1 here"):
        train_shape_network(strikes, training, SMALL, seed=1, checkpoint=checkpoint, progress=False)


def test_a_saved_network_answers_alike(strikes, tmp_path):
    torch.manual_seed(3)
    network = ShapeNetwork(SMALL).eval()
    path = save_shape_network(network, tmp_path / "network.safetensors", producer="test", seed=3)
    np.testing.assert_array_equal(load_shape_network(path).predict(strikes), network.predict(strikes))


def test_impacts_in_space_are_refused(monkeypatch):
    monkeypatch.setattr(generator, "_BLOCK", 64)
    pairs = generate(preset("cube_plane"), PairConfig(pairs=20), ShapeRanges(), seed=0, blocks_per_shard=1)
    with pytest.raises(BadInput, match="in space"):
        planar_strikes([pairs], ContactRanges())


@pytest.mark.slow
def test_a_shape_that_was_never_seen_is_predicted_from_its_cloud(one_thread):
    """Squares, pentagons and octagons are seen; a triangle is left out."""
    seen = strikes_of([regular_contour(k, r) for k, r in ((4, 0.07), (5, 0.06), (8, 0.05))], 2000)
    new = strikes_of([PushingConfig(shape="triangle").footprint.contour], 500)
    training = ShapeTrainingConfig(steps=400, batch=128)
    median = {
        head: np.median(
            relative_errors(
                train_shape_network(
                    seen, training, ShapeNetworkConfig(width=32, head=head), seed=0, progress=False
                ).predict(new),
                new.after.numpy(),
            )
        )
        for head in ("contact", "blind")
    }
    assert median["contact"] < 0.1
    assert median["contact"] < 0.5 * median["blind"]
