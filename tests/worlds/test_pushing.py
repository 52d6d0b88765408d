"""The striking world: its geometry, its symmetries, and the laws that any strike obeys."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dexprior.config import validate
from dexprior.errors import BadInput, ConfigError, UnknownName
from dexprior.worlds.pushing import (
    GRAVITY,
    PushingConfig,
    Strikes,
    impact_points,
    pushing_spec,
    rod_at_touch,
    simulate_sliding,
    simulate_strikes,
    sliding_tails,
)

SHAPES = ("semi_cylinder", "square", "triangle")


@pytest.fixture(params=SHAPES)
def config(request):
    return PushingConfig(shape=request.param)


def random_strikes(config: PushingConfig, n: int, seed: int = 0) -> Strikes:
    rng = np.random.default_rng(seed)
    low, high = config.alpha_range
    return Strikes(
        alpha=rng.uniform(low, high, n),
        speed=rng.uniform(0.2, 1.0, n),
        beta=rng.uniform(-config.max_beta, config.max_beta, n),
    )


def mirrored(strikes: Strikes) -> Strikes:
    return Strikes(alpha=-strikes.alpha, speed=strikes.speed, beta=-strikes.beta)


def test_footprint_is_what_mujoco_compiles(config):
    model = pushing_spec(config).compile()
    body = model.body("object")
    axes = np.zeros(9)
    import mujoco

    mujoco.mju_quat2Mat(axes, body.iquat)
    axes = axes.reshape(3, 3)
    about_z = (axes @ np.diag(body.inertia) @ axes.T)[2, 2]
    assert about_z == pytest.approx(config.inertia, rel=1e-6)
    assert body.mass[0] == pytest.approx(config.mass)
    np.testing.assert_allclose(body.ipos, 0.0, atol=1e-8)
    if config.shape != "semi_cylinder":
        assert len(config.footprint.contour) * 2 < 20


def test_known_radii_of_gyration():
    assert PushingConfig(shape="square").footprint.gyration == pytest.approx(0.1 / np.sqrt(6))
    assert PushingConfig(shape="triangle").footprint.gyration == pytest.approx(0.1 / np.sqrt(12))
    fine = PushingConfig(facets=3000).footprint
    assert fine.centre[0] == pytest.approx(4 * 0.05 / (3 * np.pi), rel=1e-5)
    assert fine.gyration**2 == pytest.approx(0.05**2 / 2 - fine.centre[0] ** 2, rel=1e-5)


def test_impact_points_lie_on_the_contour_at_their_angle(config):
    low, high = config.alpha_range
    alpha = np.random.default_rng(0).uniform(low, high, 200)
    point, normal = impact_points(config, alpha)
    shape = config.footprint
    offset = shape.centre - point
    np.testing.assert_allclose(np.arctan2(offset[:, 1], offset[:, 0]), alpha, atol=1e-12)
    heights = ((shape.contour[None] - point[:, None]) * normal[:, None]).sum(axis=2)
    np.testing.assert_allclose(heights.max(axis=1), 0.0, atol=1e-12)  # no vertex lies outside the struck face
    np.testing.assert_allclose(np.linalg.norm(normal, axis=1), 1.0)
    if config.shape == "semi_cylinder":
        assert (normal[:, 0] < 0).all()  # arc side only


def test_every_allowed_strike_closes_in(config):
    low, high = config.alpha_range
    alpha, beta = (a.ravel() for a in np.meshgrid(np.linspace(low, high, 101), [-config.max_beta, config.max_beta]))
    strikes = Strikes(alpha=alpha, speed=np.ones(len(alpha)), beta=beta)
    _, velocity, normal = rod_at_touch(config, np.zeros((len(alpha), 3)), strikes)
    assert ((velocity * normal).sum(axis=1) < 0).all()


def test_strikes_obey_momentum_and_energy(config):
    strikes = random_strikes(config, 40)
    result = simulate_strikes(config, np.zeros((40, 3)), strikes, slide=False)
    assert result.separated.all()
    given = config.rod_mass * (result.rod_before - result.rod_after)
    taken = config.mass * result.velocity[:, :2]
    table = config.table_friction * config.mass * GRAVITY * result.contact_time
    lost = np.linalg.norm(given - taken, axis=1)
    assert (lost < 2.0 * table).all()  # the acceleration of the strike adds to the load, see `_TABLE_IMPEDANCE`
    assert (lost < 0.06 * np.linalg.norm(given, axis=1)).all()

    def energy(rod, v):
        spin = config.inertia * v[:, 2] ** 2
        return (config.rod_mass * (rod**2).sum(axis=1) + config.mass * (v[:, :2] ** 2).sum(axis=1) + spin) / 2

    before = energy(result.rod_before, np.zeros((40, 3)))
    after = energy(result.rod_after, result.velocity)
    assert (after < before).all()
    assert (after > 0.5 * before).any()


def test_mirrored_strikes_are_mirrored(config):
    strikes = random_strikes(config, 12)
    right = simulate_strikes(config, np.zeros((12, 3)), strikes)
    left = simulate_strikes(config, np.zeros((12, 3)), mirrored(strikes))
    flip = np.array([1.0, -1.0, -1.0])
    np.testing.assert_allclose(left.velocity * flip, right.velocity, atol=1e-3)
    np.testing.assert_allclose(left.final_pose * flip, right.final_pose, atol=5e-3)
    assert right.rested.all()


def test_moving_the_world_moves_the_outcome(config):
    strikes = random_strikes(config, 12)
    here = simulate_strikes(config, np.zeros((12, 3)), strikes)
    there = simulate_strikes(config, np.tile([0.3, -0.2, 2.0], (12, 1)), strikes)
    c, s = np.cos(2.0), np.sin(2.0)
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    np.testing.assert_allclose(there.velocity, here.velocity @ turn.T, atol=1e-3)
    np.testing.assert_allclose(there.final_pose, here.final_pose @ turn.T + [0.3, -0.2, 2.0], atol=5e-3)


def test_the_strike_has_converged_in_its_time_step(config):
    strikes = random_strikes(config, 20)
    coarse, fine = (
        simulate_strikes(dataclasses.replace(config, resolution=r), np.zeros((20, 3)), strikes, slide=False)
        for r in (24, 96)
    )
    scale = np.array([1.0, 1.0, config.footprint.gyration])
    error = np.linalg.norm((coarse.velocity - fine.velocity) * scale, axis=1)
    assert (error / np.linalg.norm(fine.velocity * scale, axis=1)).max() < 0.02
    assert np.median(error / np.linalg.norm(fine.velocity * scale, axis=1)) < 0.005


def test_a_central_strike_drives_along_x():
    config = PushingConfig(shape="square")
    strike = Strikes(alpha=[0.0], speed=[0.5], beta=[0.0])
    result = simulate_strikes(config, np.zeros((1, 3)), strike)
    vx, vy, omega = result.velocity[0]
    assert vx > result.rod_after[0, 0]
    np.testing.assert_allclose([vy, omega], 0.0, atol=1e-3)
    stop = vx**2 / (2 * config.table_friction * GRAVITY)
    assert result.final_pose[0, 0] - result.pose_after[0, 0] == pytest.approx(stop, abs=1e-3)


def test_parameters_differ_from_world_to_world():
    config = PushingConfig()
    strikes = Strikes(alpha=[0.2, 0.2], speed=[0.8, 0.8], beta=[0.0, 0.0])
    pose = np.zeros((2, 3))
    both = simulate_strikes(
        config,
        pose,
        strikes,
        parameters={"rod_damping_ratio": np.array([0.1, 0.6]), "table_friction": np.array([0.2, 0.4])},
    )
    alone = simulate_strikes(
        dataclasses.replace(config, rod_damping_ratio=0.6, table_friction=0.4), pose[:1], strikes_of(strikes, 1)
    )
    np.testing.assert_allclose(both.velocity[1], alone.velocity[0], atol=1e-12)
    np.testing.assert_allclose(both.final_pose[1], alone.final_pose[0], atol=1e-12)
    assert both.velocity[0, 0] > 1.05 * both.velocity[1, 0]  # bouncier
    assert both.final_pose[0, 0] > 1.5 * both.final_pose[1, 0]  # and on a slipperier table


def strikes_of(strikes: Strikes, k: int) -> Strikes:
    return Strikes(alpha=strikes.alpha[k : k + 1], speed=strikes.speed[k : k + 1], beta=strikes.beta[k : k + 1])


def test_results_do_not_depend_on_threads(config):
    strikes = random_strikes(config, 9)
    one, two = (simulate_strikes(config, np.zeros((9, 3)), strikes, threads=k) for k in (1, 2))
    for field in dataclasses.fields(one):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(two, field.name))


def test_sliding_without_spin_stops_where_coulomb_says(config):
    speed = np.array([0.2, 0.6, 1.0])
    velocity = np.stack([speed, np.zeros(3), np.zeros(3)], axis=1)
    friction = np.array([0.2, 0.3, 0.4])
    pose, seconds, rested = simulate_sliding(
        config, np.zeros((3, 3)), velocity, parameters={"table_friction": friction}
    )
    assert rested.all()
    np.testing.assert_allclose(pose[:, 0], speed**2 / (2 * friction * GRAVITY), atol=1e-3)
    np.testing.assert_allclose(pose[:, 1:], 0.0, atol=0.01)
    np.testing.assert_allclose(seconds, speed / (friction * GRAVITY), atol=0.05)  # then it rocks back


def test_tails_start_with_the_given_velocity():
    pose, t = sliding_tails(PushingConfig(shape="square"), np.array([[0.6, 0.0, 3.0]]), rate=1000.0, duration=0.02)
    assert pose.shape == (1, 21, 3)
    np.testing.assert_allclose(np.diff(t), 0.001)
    np.testing.assert_allclose(pose[0, 1] / t[1], [0.6, 0.0, 3.0], atol=0.1)


def test_a_strike_just_inside_a_corner_still_hits():
    config = PushingConfig(shape="square")
    result = simulate_strikes(config, np.zeros((1, 3)), Strikes(alpha=[0.78], speed=[0.5], beta=[0.5]), slide=False)
    assert result.separated.all()
    assert np.abs(result.velocity).max() > 0.05


def test_a_strike_that_becomes_a_push_is_cut_off_and_said():
    config = PushingConfig(rod_damping_ratio=1.0, table_friction=0.5)
    strike = Strikes(alpha=[0.0], speed=[0.3], beta=[0.0])
    result = simulate_strikes(config, np.zeros((1, 3)), strike, slide=False)
    assert not result.separated[0]
    assert result.contact_time[0] == pytest.approx(0.05, abs=0.001)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"facets": 20}, "multiple of 3"),
        ({"max_alpha": 1.6}, "arc ends"),
        ({"table_friction": 0.9}, "tips over"),
        ({"timestep": 0.02}, "two steps"),
    ],
)
def test_configuration_errors_name_the_value(change, message):
    with pytest.raises(ConfigError, match=message):
        PushingConfig(**change)


def test_bad_strikes_are_refused():
    config, pose = PushingConfig(), np.zeros((1, 3))
    good = Strikes(alpha=[0.0], speed=[0.5], beta=[0.0])
    with pytest.raises(BadInput, match=r"alpha = 2\.0000, but a semi_cylinder"):
        simulate_strikes(config, pose, Strikes(alpha=[2.0], speed=[0.5], beta=[0.0]))
    with pytest.raises(BadInput, match="away from the face"):
        simulate_strikes(config, pose, Strikes(alpha=[0.0], speed=[0.5], beta=[2.0]))
    with pytest.raises(BadInput, match="expected"):
        simulate_strikes(config, np.zeros((2, 3)), good)
    with pytest.raises(BadInput, match="not finite"):
        simulate_strikes(config, np.full((1, 3), np.nan), good)
    with pytest.raises(BadInput, match="speed"):
        Strikes(alpha=[0.0], speed=[0.0], beta=[0.0])
    with pytest.raises(UnknownName, match="did you mean 'rod_friction'"):
        simulate_strikes(config, pose, good, parameters={"rod_frction": np.array([0.1])})
    with pytest.raises(BadInput, match="one per world"):
        simulate_strikes(config, pose, good, parameters={"rod_friction": np.array([0.1, 0.2])})
    with pytest.raises(BadInput, match="tips over"):
        simulate_strikes(config, pose, good, parameters={"table_friction": np.array([0.95])})


def _struck(alpha: float, beta: float, **contact: float) -> np.ndarray:
    """Velocity of a square that is struck beside or at the middle of its side, on an almost frictionless table."""
    world = PushingConfig(shape="square", table_friction=1e-3, torsional_friction=0.0)
    strikes = Strikes(alpha=np.full(1, alpha), speed=np.full(1, 0.6), beta=np.full(1, beta))
    parameters = {name: np.full(1, value) for name, value in contact.items()}
    return simulate_strikes(world, np.zeros((1, 3)), strikes, parameters=parameters, slide=False).velocity[0]


def test_the_impedance_of_the_rod_ends_at_mujocos_default():
    for alpha, beta in ((0.3, 0.4), (0.1, -0.2)):
        contact = {"rod_damping_ratio": 0.3, "time_constant": 0.001}
        near = _struck(alpha, beta, **contact, rod_impedance=0.93, rod_grip=1.0)
        np.testing.assert_allclose(near, _struck(alpha, beta, **contact), atol=0.03)


def test_a_central_blow_is_the_same_at_every_impedance_and_one_beside_the_centre_is_not():
    """A spring and damper of its own feels how light the object is at the touch; MuJoCo's default does not."""
    contact = {"rod_friction": 0.0, "rod_damping_ratio": 0.3, "time_constant": 0.001}
    central, beside = (
        [_struck(alpha, 0.0, **contact, rod_impedance=d) for d in (0.005, 0.3, 0.9)] for alpha in (0.0, 0.6)
    )
    for other in central[1:]:
        np.testing.assert_allclose(other, central[0], atol=0.006)
    assert np.abs(beside[2] - beside[0]).max() > 0.02


def test_a_contact_of_low_grip_creeps():
    contact = {"rod_friction": 1.0, "rod_damping_ratio": 0.3, "time_constant": 0.001, "rod_impedance": 0.005}
    found = np.array([_struck(0.0, 0.4, **contact, rod_grip=grip) for grip in (0.05, 0.1, 2.0, 20.0)])
    along = found[:, 1]
    assert along[1] == pytest.approx(2.0 * along[0], rel=0.1)  # a damper, as long as it hardly slows the sliding
    assert along[1] < 0.3 * along[2]
    assert along[3] < 1.1 * along[2]  # and none where it stops it: both stick
    np.testing.assert_allclose(found[:, 0], found[0, 0], rtol=0.01)  # the normal blow is not touched


def test_an_impedance_outside_its_range_is_refused():
    with pytest.raises(ConfigError, match="rod_impedance"):
        validate(PushingConfig, {"rod_impedance": 1.5})
