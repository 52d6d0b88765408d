"""Generated pairs obey mechanics, depend on (scene, config, seed) alone, and survive kills and damage."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dexprior.collision.shapes.generator as generator
from dexprior.collision.shapes import (
    CollisionScene,
    ContactWorlds,
    PairConfig,
    ShapeRanges,
    Side,
    generate,
    load_pairs,
    preset,
)
from dexprior.errors import ArtifactError, BadInput, ConfigError
from dexprior.geometry.rotations import matrix_from_quat

RANGES = ShapeRanges()
IN_SPACE = CollisionScene(
    object=Side(shape="box", size=(0.03, 0.04, 0.05), mass=0.4),
    other=Side(shape="ellipsoid", size=(0.02, 0.03, 0.04), mass=0.2),
)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(generator, "_BLOCK", 128)


@pytest.fixture
def space():
    return generate(IN_SPACE, PairConfig(pairs=200, other_spin=20.0), RANGES, seed=1)


def assert_equal(a, b):
    for name, value in a.arrays().items():
        np.testing.assert_array_equal(value, b.arrays()[name])
    assert a.counts == b.counts


def test_free_bodies_keep_momentum_and_angular_momentum(space):
    """Neither is built into the record: both sides are simulated."""
    mass = 1.0 / space.inverse_inertia[:, 0, 0]
    change = space.after - space.before
    momentum = np.einsum("s,nsi->ni", mass, change[..., :3])
    np.testing.assert_allclose(momentum, 0.0, atol=1e-10)
    turn = matrix_from_quat(space.pose[:, 3:])
    own, other = (np.linalg.inv(inverse[3:, 3:]) for inverse in space.inverse_inertia)
    spin = change[:, 0, 3:] @ own + np.einsum("nij,jk,nlk,nl->ni", turn, other, turn, change[:, 1, 3:])
    orbit = np.cross(space.pose[:, :3], mass[1] * change[:, 1, :3])
    size = np.linalg.norm(space.impulse[:, :3], axis=1) * 0.05
    assert (np.linalg.norm(spin + orbit, axis=1) < 0.1 * size).mean() > 0.95  # bodies move a little during the contact


def test_the_impulse_explains_both_sides(space):
    push = np.einsum("nci,nc->ni", space.frame, space.impulse[:, :3])
    size = np.linalg.norm(push, axis=1)
    for side, sign in ((0, 1.0), (1, -1.0)):
        change = (space.after - space.before)[:, side, :3] / space.inverse_inertia[side, 0, 0]
        missed = np.linalg.norm(sign * change - push, axis=1) / size
        assert np.median(missed) < 0.02


def test_impacts_approach_push_and_lose_energy(space):
    assert (space.approach[:, 0] < 0).all()
    np.testing.assert_allclose(space.approach[:, 2], 0.0, atol=1e-12)
    assert (space.approach[:, 1] > 0).all()
    assert (space.impulse[:, 0] > 0).all()
    cone = np.hypot(space.impulse[:, 1], space.impulse[:, 2]) / space.impulse[:, 0]
    friction = space.parameters[:, space.names.index("friction")]
    assert np.median(cone / friction) < 1.02
    frames = space.frame @ space.frame.swapaxes(1, 2)
    np.testing.assert_allclose(frames, np.broadcast_to(np.eye(3), frames.shape), atol=1e-9)
    np.testing.assert_allclose(np.linalg.det(space.frame), 1.0)


def test_the_contact_point_lies_on_both_surfaces(space):
    outside = (np.abs(space.point) - [0.03, 0.04, 0.05]).max(axis=1)
    np.testing.assert_allclose(outside, 0.0, atol=2e-6)
    turn = matrix_from_quat(space.pose[:, 3:])
    local = np.einsum("nji,nj->ni", turn, space.point - space.pose[:, :3]) / [0.02, 0.03, 0.04]
    np.testing.assert_allclose((local**2).sum(axis=1), 1.0, atol=2e-4)


def test_torsional_friction_takes_spin_about_the_normal():
    """A ball that lands spinning: what the contact takes of its spin is the impulse about the normal."""
    ball = Side(shape="sphere", size=(0.02,), mass=0.1)
    scene = CollisionScene(object=ball, other=Side(shape="plane", motion="fixed"))
    n = 3
    worlds = ContactWorlds(scene, n)
    quat = np.zeros((2, n, 4))
    quat[..., 0] = 1.0
    touch = worlds.touch(quat, np.zeros((n, 3)), np.tile([0.0, 0.0, -1.0], (n, 1)))
    np.testing.assert_allclose(touch.pose[0, :, 2], 0.02, atol=2e-6)
    twist = np.zeros((2, n, 6))
    twist[0, :, 2], twist[0, :, 5] = -1.0, 40.0
    given = {"friction": 0.3, "damping_ratio": 0.3, "time_constant": 0.001, "impratio": 20.0}
    parameters = {name: np.full(n, value) for name, value in given.items()}
    parameters["torsional_friction"] = np.array([1e-5, 2e-3, 5e-3])
    after, _ = worlds.run(touch.pose, twist, parameters, impedance=0.005)
    normal = 0.1 * (after[0, :, 2] + 1.0)
    taken = 2 / 5 * 0.1 * 0.02**2 * (40.0 - after[0, :, 5])
    limit = np.minimum(parameters["torsional_friction"] * normal, 2 / 5 * 0.1 * 0.02**2 * 40.0)  # or all its spin
    assert (taken > 0).all()
    assert (taken < 1.01 * limit).all()  # the first creeps: regularized friction is viscous where mu omega is slow
    np.testing.assert_allclose(taken[1:], limit[1:], rtol=0.02)


def test_pairs_do_not_depend_on_threads_shards_or_interruptions(tmp_path, monkeypatch):
    scene, config = preset("ellipse_plane"), PairConfig(pairs=300)
    whole = generate(scene, config, RANGES, seed=3, folder=tmp_path / "whole", blocks_per_shard=1)
    threaded = generate(scene, config, RANGES, seed=3, threads=2, blocks_per_shard=1)
    assert_equal(whole, threaded)
    coarse = generate(scene, config, RANGES, seed=3, blocks_per_shard=3)
    np.testing.assert_array_equal(whole.impulse, coarse.impulse)

    write, written = generator._Shards.write, []

    def die_after_the_second(self, number, *rest):
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(number)
        write(self, number, *rest)

    monkeypatch.setattr(generator._Shards, "write", die_after_the_second)
    with pytest.raises(KeyboardInterrupt):
        generate(scene, config, RANGES, seed=3, folder=tmp_path / "killed", blocks_per_shard=1)
    assert 0 < len(load_pairs(tmp_path / "killed")) < 300
    written.clear()
    assert_equal(whole, generate(scene, config, RANGES, seed=3, folder=tmp_path / "killed", blocks_per_shard=1))
    assert written == [2]
    assert_equal(whole, load_pairs(tmp_path / "killed"))
    other = generate(scene, config, RANGES, seed=4, blocks_per_shard=1)
    assert not np.array_equal(whole.impulse, other.impulse)


def test_a_damaged_shard_is_named_and_made_again(tmp_path):
    scene, config = preset("ellipse_plane"), PairConfig(pairs=200)
    arguments = {"seed": 3, "folder": tmp_path / "pairs", "blocks_per_shard": 1}
    whole = generate(scene, config, RANGES, **arguments)
    shard = tmp_path / "pairs" / "shard-00001.safetensors"
    data = bytearray(shard.read_bytes())
    data[-5] ^= 1
    shard.write_bytes(data)
    with pytest.raises(ArtifactError, match=r"shard-00001\.safetensors is damaged"):
        generate(scene, config, RANGES, **arguments)
    with pytest.raises(ArtifactError, match=r"shard-00001\.safetensors is damaged"):
        load_pairs(tmp_path / "pairs")
    shard.unlink()
    assert_equal(whole, generate(scene, config, RANGES, **arguments))
    with pytest.raises(ArtifactError, match="seed is 3 there, 4 here"):
        generate(scene, config, RANGES, seed=4, folder=tmp_path / "pairs")
    with pytest.raises(ArtifactError, match="no collision pairs"):
        load_pairs(tmp_path)


def test_every_rejection_has_a_reason(monkeypatch):
    run = ContactWorlds.run

    def spoiled(self, pose, twist, parameters, **settings):
        after, end = run(self, pose, twist, parameters, **settings)
        after[0, 0], end[0] = np.nan, 3
        after[0, 1, :3] *= 100.0
        end[2], end[3] = 1, 2
        return after, end

    monkeypatch.setattr(ContactWorlds, "run", spoiled)
    counts = generate(preset("ellipse_plane"), PairConfig(pairs=50), RANGES, seed=0, blocks_per_shard=1).counts
    assert counts["simulated"] == 128
    assert counts["not_finite"] == counts["gained_energy"] == counts["missed"] == 1
    assert counts["cut_off"] >= 1


def test_bodies_that_overlap_at_the_start_are_refused():
    worlds = ContactWorlds(IN_SPACE, 1)
    pose = np.zeros((2, 1, 7))
    pose[..., 3] = 1.0
    pose[1, 0, 0] = 0.045
    given = dict.fromkeys(("friction", "damping_ratio", "time_constant", "impratio", "torsional_friction"), np.ones(1))
    with pytest.raises(BadInput, match=r"overlap by 5 mm"):
        worlds.run(pose, np.zeros((2, 1, 6)), given, impedance=None)


def test_ranges_that_are_empty_are_refused():
    with pytest.raises(ConfigError, match="ground_friction"):
        ShapeRanges(ground_friction=(0.3, 0.3))
    with pytest.raises(ConfigError, match="approach_speed"):
        PairConfig(approach_speed=(0.0, 1.0))


def test_the_index_says_what_each_shard_holds(tmp_path):
    generate(preset("ellipse_plane"), PairConfig(pairs=100), RANGES, seed=0, folder=tmp_path, blocks_per_shard=1)
    index = json.loads((tmp_path / "shards.json").read_text())
    assert set(index) == {"shard-00000.safetensors"}
    assert index["shard-00000.safetensors"]["counts"]["simulated"] == 128
