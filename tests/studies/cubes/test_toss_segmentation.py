"""First impacts of generated tosses, where the simulator knows what happened."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dexprior.data.tosses import (
    CUBE_DT,
    CUBE_MASS,
    corner_positions,
    find_cube_tosses,
    fit_scale,
    fly,
    generate_tosses,
    load_cube_tosses,
    lowest_corner,
    split_groups,
)
from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_quat, quat_from_axis_angle, quat_multiply, rotation_angle
from dexprior.studies.cubes import SegmentationConfig, first_impacts, fit_flight, flight_starts


@pytest.fixture(scope="module")
def tosses():
    return generate_tosses(7, 60)


@pytest.fixture(scope="module")
def scale(tosses):
    return fit_scale(tosses)


@pytest.fixture(scope="module")
def impacts(tosses, scale):
    return first_impacts(tosses, scale)


def test_a_fitted_flight_is_the_flight(tosses):
    start = tosses.initial_states[:20]
    seconds = np.arange(15) * CUBE_DT * np.ones((20, 1)) - 0.03
    states = fly(start[:, None], seconds, 9.6)
    used = np.ones((20, 15), dtype=bool)
    used[:, ::4] = False
    states[:, ::4] = 0.0
    found = fit_flight(states, seconds, used, 9.6)
    np.testing.assert_allclose(
        found[:, [0, 1, 2, 7, 8, 9, 10, 11, 12]], start[:, [0, 1, 2, 7, 8, 9, 10, 11, 12]], atol=1e-6
    )
    assert rotation_angle(found[:, 3:7], start[:, 3:7]).max() < 1e-6


def test_a_fitted_flight_beats_its_noise(tosses):
    rng = np.random.default_rng(0)
    start = tosses.initial_states[:20]
    seconds = np.arange(16) * CUBE_DT * np.ones((20, 1))
    states = fly(start[:, None], seconds, 9.6)
    states[..., :3] += 1e-3 * rng.normal(size=(20, 16, 3))
    states[..., 3:7] = quat_multiply(states[..., 3:7], quat_from_axis_angle(0.01 * rng.normal(size=(20, 16, 3))))
    found = fit_flight(states, seconds, np.ones((20, 16), dtype=bool), 9.6)
    ideal = 1.0 / np.sqrt(((seconds[0] - seconds[0].mean()) ** 2).sum())  # standard error of a slope per unit of noise
    for part, noise in ((slice(7, 10), 1e-3), (slice(10, 13), 0.01)):
        error = np.sqrt(((found[:, part] - start[:, part]) ** 2).mean())
        assert error == pytest.approx(noise * ideal, rel=0.35)


def test_a_flight_needs_two_frames(tosses):
    with pytest.raises(BadInput, match="at least two frames"):
        fit_flight(tosses.states[None, :5], np.arange(5.0)[None], np.eye(5, dtype=bool)[:1], 9.6)


def test_flight_starts_are_closer_to_the_truth_than_measured_ones(scale):
    clean, noisy = generate_tosses(7, 60, noise=0.0), generate_tosses(7, 60)
    found = flight_starts(noisy, scale, SegmentationConfig())
    for part in (slice(7, 10), slice(10, 13)):
        fitted, raw = (np.abs(x[:, part] - clean.initial_states[:, part]).mean() for x in (found, noisy.initial_states))
        assert fitted < 0.8 * raw


def test_at_the_touch_one_corner_is_on_the_table_and_the_next_is_not(impacts, scale):
    states = impacts.states
    np.testing.assert_allclose(lowest_corner(states, scale), 0.0, atol=1e-9)
    corners = np.sort(corner_positions(states, scale.half_width)[..., 2] - scale.table_height, axis=1)
    np.testing.assert_allclose(corners[:, 1], impacts.second)
    assert impacts.second.min() >= SegmentationConfig().second_corner
    np.testing.assert_allclose(impacts.arm[:, 2] + states[:, 2], scale.table_height, atol=1e-9)


def test_every_toss_is_used_or_excluded_for_a_reason(impacts, tosses):
    rows = sorted([*impacts.toss, *impacts.excluded])
    assert rows == list(range(len(tosses)))
    assert any("second corner within 10 mm" in reason for reason in impacts.excluded.values())
    assert len(impacts) > 10


def test_a_first_impact_pushes_up_against_the_sliding_and_loses_energy(impacts):
    geometry = impacts.geometry
    before, after = (np.einsum("bcd,bd->bc", geometry.jacobian, v) for v in (impacts.pre, impacts.post))
    assert (before[:, 0] < 0).all()
    assert (after[:, 0] > before[:, 0]).all()
    assert (before[:, 1] >= 0).all()
    np.testing.assert_allclose(before[:, 2], 0.0, atol=1e-9)
    energy = [((v * impacts.velocity_scale) ** 2).sum(axis=1) for v in (impacts.pre, impacts.post)]
    assert (energy[1] < energy[0]).all()


def test_the_contact_rows_are_the_corner_s_velocity(impacts, scale):
    """Finite differences of the corner's position along the flight."""
    step = 1e-6
    corner = (
        np.abs(corner_positions(impacts.states, scale.half_width) - (impacts.pose[:, None, :3] + impacts.arm[:, None]))
        .sum(-1)
        .argmin(axis=1)
    )
    each = np.arange(len(impacts))
    places = [
        corner_positions(fly(impacts.states, np.full(len(impacts), t), 0.0), scale.half_width)[each, corner]
        for t in (-step, step)
    ]
    moved = (places[1] - places[0]) / (2 * step)
    found = np.einsum("bcd,bd->bc", impacts.geometry.jacobian, impacts.pre)
    np.testing.assert_allclose(found[:, 0], moved[:, 2], atol=1e-5)
    np.testing.assert_allclose(found[:, 1], np.linalg.norm(moved[:, :2], axis=1), atol=1e-5)


def test_the_metric_is_the_kinetic_energy(impacts, scale):
    inertia = np.diag([CUBE_MASS] * 3 + [scale.inertia] * 3)
    np.testing.assert_allclose(np.linalg.inv(impacts.geometry.inverse_inertia[0]), inertia)
    energy = np.einsum("bi,ij,bj->b", impacts.post, inertia, impacts.post)
    np.testing.assert_allclose(CUBE_MASS * ((impacts.post * impacts.velocity_scale) ** 2).sum(axis=1), energy)


def test_turning_the_world_leaves_the_contact_frame_s_velocities(tosses, scale, impacts):
    turn = quat_from_axis_angle(np.array([0.0, 0.0, 0.7]))
    R = matrix_from_quat(turn)
    turned = dataclasses.replace(
        tosses,
        pos=tosses.pos @ R.T,
        vel=tosses.vel @ R.T,
        quat=quat_multiply(np.broadcast_to(turn, tosses.quat.shape), tosses.quat),
    )
    other = first_impacts(turned, scale)
    for v, w in ((impacts.pre, other.pre), (impacts.post, other.post)):
        one, two = (np.einsum("bcd,bd->bc", i.geometry.jacobian, x) for i, x in ((impacts, v), (other, w)))
        np.testing.assert_allclose(one, two, atol=1e-6)


def test_slower_contacts_are_excluded(tosses, scale):
    strict = first_impacts(tosses, scale, SegmentationConfig(longest=2))
    assert strict.duration.max() <= 2
    assert any("more than 2 frames" in reason for reason in strict.excluded.values())


def test_tosses_without_a_first_impact_are_one_clear_error(tosses, scale):
    with pytest.raises(BadInput, match=r"none of 60 tosses has a usable first impact: .*second corner"):
        first_impacts(tosses, scale, SegmentationConfig(second_corner=1.0))


def test_the_measured_first_impacts_are_what_the_card_says():
    path = find_cube_tosses()
    if path is None:
        pytest.skip("the measured cube tosses are not under $DEXPRIOR_DATA/impacts")
    train, _ = split_groups(load_cube_tosses(path), 0.5, seed=0)
    impacts = first_impacts(train, fit_scale(train))
    assert 90 <= len(impacts) <= 105
    assert 2 <= np.median(impacts.duration) <= 3
    two = sum("second corner" in reason for reason in impacts.excluded.values())
    assert two / (two + len(impacts)) == pytest.approx(0.25, abs=0.04)
