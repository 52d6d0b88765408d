"""The table in Bullet: a world of its own that obeys mechanics, tells nothing but what a camera sees, and repeats."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dexprior.envs.reality.pushing.table as module
from dexprior import extras
from dexprior.envs import wire
from dexprior.envs.reality.pushing import SETTINGS, BulletTable, CaptureConfig, RealTable, Recordings, start_table
from dexprior.errors import BadInput, ConnectionLost, MissingExtra
from dexprior.worlds.pushing import PushingConfig, Strikes

needs_bullet = pytest.mark.skipif(not extras.available("pybullet"), reason="needs the extra `reality` (pybullet)")

_STRIKES = Strikes(alpha=np.array([0.0, 0.6]), speed=np.array([0.5, 0.8]), beta=np.array([0.0, -0.2]))
_POSES = np.array([[0.0, 0.0, 0.0], [0.1, -0.05, 2.0]])


@pytest.fixture(scope="module", params=["semi_cylinder", "square", "triangle"])
def world(request):
    return PushingConfig(shape=request.param)


@needs_bullet
@pytest.mark.parametrize("setting", [SETTINGS[0], SETTINGS[5]])
def test_a_strike_keeps_momentum_and_loses_energy(world, setting):
    with BulletTable(world, setting) as table:
        path = table.simulate(_POSES[0], Strikes(alpha=np.array([0.3]), speed=np.array([0.7]), beta=np.array([0.1])))
    gained = world.mass * path.velocity[:2]
    lost = world.rod_mass * (np.linalg.norm(path.rod_velocity) - 0.7)
    friction = world.mass * setting.table_friction * 9.81 * (path.touch[1] - path.touch[0])
    assert abs(np.linalg.norm(gained) + lost) < friction + 0.1 * np.linalg.norm(gained)
    energy = 0.5 * world.rod_mass * (path.rod_velocity**2).sum() + 0.5 * world.mass * (path.velocity[:2] ** 2).sum()
    energy += 0.5 * world.inertia * path.velocity[2] ** 2
    assert energy < 0.5 * world.rod_mass * 0.7**2


@needs_bullet
def test_spinning_friction_adds_its_own_moment(world):
    """Of a body that only spins: the coefficient times the weight, whatever the supports, omega' = -c g / k^2."""
    slowed = []
    for coefficient in (0.0, 0.003):
        with BulletTable(world, replace(SETTINGS[4], spinning_friction=coefficient)) as table:
            scene = module._Scene(table._bullet, table._client, world, table.setting, np.zeros(3))
            scene.wait(0.02)
            table._bullet.resetBaseVelocity(scene._object, [0, 0, 0], [0, 0, 8], physicsClientId=table._client)
            for _ in range(20):
                scene.step()
            slowed.append((8 - scene.velocity()[2]) / (20 * table.setting.slide_timestep))
    assert slowed[1] - slowed[0] == pytest.approx(0.003 * 9.81 / world.footprint.gyration**2, rel=0.25)


@needs_bullet
def test_half_the_time_step_gives_the_same_strike(world):
    strike = Strikes(alpha=np.array([0.3]), speed=np.array([0.7]), beta=np.array([0.1]))
    found = []
    for setting in (SETTINGS[1], replace(SETTINGS[1], strike_timestep=SETTINGS[1].strike_timestep / 2)):
        with BulletTable(world, setting) as table:
            found.append(table.simulate(_POSES[0], strike).velocity * [1, 1, world.footprint.gyration])
    assert np.linalg.norm(found[0] - found[1]) < 0.03 * np.linalg.norm(found[1])


@needs_bullet
def test_the_outcome_does_not_depend_on_where_the_object_stands(world):
    strike = Strikes(alpha=np.array([0.4]), speed=np.array([0.6]), beta=np.array([-0.1]))
    with BulletTable(world, SETTINGS[1]) as table:
        here = table.simulate(np.zeros(3), strike).pose[-1]
        pose = np.array([0.2, -0.3, 2.5])
        there = table.simulate(pose, strike).pose[-1]
    c, s = np.cos(pose[2]), np.sin(pose[2])
    moved = pose + np.array([c * here[0] - s * here[1], s * here[0] + c * here[1], here[2]])
    assert (np.abs(there - moved) < [0.001, 0.001, 0.05]).all()


@needs_bullet
def test_recordings_repeat_and_their_noise_is_as_declared():
    world = PushingConfig()
    with BulletTable(world, SETTINGS[1], capture=CaptureConfig(position_noise=0.0, angle_noise=0.0)) as table:
        exact = table.record(_POSES, _STRIKES)
    with BulletTable(world, SETTINGS[1]) as table:
        first, again = table.record(_POSES, _STRIKES, seed=3), table.record(_POSES, _STRIKES, seed=3)
        other = table.record(_POSES, _STRIKES, seed=4)
    np.testing.assert_array_equal(first.track, again.track)
    assert (np.nan_to_num(first.track) != np.nan_to_num(other.track)).any()
    error = (first.track - exact.track)[np.isfinite(exact.track).all(axis=2)]
    np.testing.assert_allclose(error.std(axis=0), [2e-4, 2e-4, 4e-3], rtol=0.35)
    assert first.velocity is None


@needs_bullet
def test_the_socket_tells_what_the_table_records_and_no_more():
    world = PushingConfig(shape="square", rod_friction=0.9)
    with BulletTable(world, SETTINGS[2], seed=5) as table:
        direct = table.record(_POSES, _STRIKES, seed=1)
    with RealTable(start_table(world, setting=2, seed=5)) as served:
        found = served.record(_POSES, _STRIKES, seed=1)
        np.testing.assert_array_equal(found.track, direct.track)
        np.testing.assert_array_equal(found.final_pose, direct.final_pose)
        np.testing.assert_array_equal(found.touch, direct.touch)
        assert found.velocity is None
        assert served.world == PushingConfig(shape="square")  # geometry travels, contact parameters do not
        with pytest.raises(BadInput, match="alpha"):
            served(_POSES[:1], Strikes(alpha=np.array([9.0]), speed=np.ones(1), beta=np.zeros(1)))
        np.testing.assert_array_equal(
            served.record(_POSES[:1], _take(0), seed=1).track[0], direct.track[0][: _seen(direct, 0)]
        )


@needs_bullet
def test_a_table_that_tells_the_truth_is_asked_for():
    with RealTable(start_table(PushingConfig(), setting=1, truth=True)) as table:
        found = table.record(_POSES, _STRIKES)
    assert found.velocity is not None
    assert found.velocity[0, 0] > 0.3


@needs_bullet
def test_an_unknown_setting_ends_the_server_with_a_sentence(capfd):
    with pytest.raises(ConnectionLost, match="exit status 2"):
        start_table(PushingConfig(), setting=9)
    assert "there are 0 to 5" in capfd.readouterr().err


@needs_bullet
def test_a_table_on_which_the_object_tips_over_is_refused():
    with pytest.raises(BadInput, match="tips over"):
        BulletTable(PushingConfig(), replace(SETTINGS[0], table_friction=2.0))


def test_without_the_package_a_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="dexprior\\[reality\\]"):
        BulletTable(PushingConfig(), SETTINGS[0])


def test_nothing_listens_there():
    listener = wire.listen()
    address = listener.getsockname()[:2]
    listener.close()
    with pytest.raises(ConnectionLost, match="no table server"):
        RealTable(address)


def test_tails_begin_after_the_rod_has_left():
    track = np.zeros((2, 6, 3))
    track[:, :, 0] = np.arange(6)
    track[1, 5] = np.nan
    recordings = Recordings(
        strikes=_STRIKES, pose=_POSES, track=track, t=np.arange(6) * 0.005, touch=np.array([[0, 0.004], [0, 0.011]]),
        final_pose=_POSES,
    )  # fmt: skip
    tails, t = recordings.tails()
    np.testing.assert_array_equal(tails[0, :, 0], [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(tails[1, :, 0], [3, 4, np.nan, np.nan, np.nan])
    np.testing.assert_allclose(t, np.arange(5) * 0.005)
    np.testing.assert_array_equal(recordings.take(np.array([1])).track[0], track[1])


def _take(k: int) -> Strikes:
    return Strikes(alpha=_STRIKES.alpha[[k]], speed=_STRIKES.speed[[k]], beta=_STRIKES.beta[[k]])


def _seen(recordings: Recordings, k: int) -> int:
    return int(np.isfinite(recordings.track[k, :, 0]).sum())
