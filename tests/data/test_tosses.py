"""Cube tosses: laws of flight and simulation, the scale, and every way in which the measured file can be wrong."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dexprior.data.tosses import (
    CUBE_DT,
    CUBE_HALF_WIDTH,
    CubeScale,
    CubeTosses,
    check_consistency,
    corner_positions,
    find_cube_tosses,
    fit_scale,
    fly,
    generate_tosses,
    load_cube_tosses,
    lowest_corner,
    simulate_tosses,
    split_groups,
    undo_velocity_lag,
)
from dexprior.errors import BadInput
from dexprior.geometry.rotations import quat_conjugate, quat_rotate, rotation_angle

SCALE = CubeScale(half_width=0.051, gravity=9.6, table_height=-0.0003)
PHI = (0.2, 0.5, 0.005, 1.0, 0.0, 0.0, 0.9, 0.95, 0.001)


def measured() -> CubeTosses:
    path = find_cube_tosses()
    if path is None:
        pytest.skip("the measured cube tosses are not under $DEXPRIOR_DATA/impacts")
    return load_cube_tosses(path)


@pytest.fixture(scope="module")
def generated():
    return generate_tosses(0, 30)


@pytest.fixture
def published(generated, tmp_path):
    """Generated tosses, written as the published record is."""
    names = ("start", "pos", "quat", "vel", "omega", "duplicate_group")
    arrays = {name: np.array(getattr(generated, name)) for name in names}
    path = tmp_path / "cube_tosses.npz"

    def write(**changes):
        np.savez(path, **{k: v for k, v in (arrays | changes).items() if v is not None})
        return path

    write.arrays = arrays
    return write


# --- flight, geometry, scale --------------------------------------------------------------------------------


def test_flying_there_and_back_changes_nothing(generated):
    states = generated.states[:50]
    there = fly(states, np.full(50, 0.3), 9.6)
    back = fly(there, np.full(50, -0.3), 9.6)
    np.testing.assert_allclose(back, states, atol=1e-12)
    energy = 0.5 * there[:, 9] ** 2 + 9.6 * there[:, 2]
    np.testing.assert_allclose(energy, 0.5 * states[:, 9] ** 2 + 9.6 * states[:, 2])


def test_the_lowest_corner_is_the_lowest_of_the_corners(generated):
    states = generated.states[::17]
    lowest = corner_positions(states, SCALE.half_width)[..., 2].min(axis=1) - SCALE.table_height
    np.testing.assert_allclose(lowest_corner(states, SCALE), lowest, atol=1e-12)


def test_the_scale_is_learned_from_the_tosses_that_are_given():
    hidden = CubeScale(half_width=0.0489, gravity=9.15, table_height=0.004)
    few = generate_tosses(4, 20, scale=hidden)
    found = fit_scale(few)
    assert found.gravity == pytest.approx(hidden.gravity, rel=5e-3)
    assert found.half_width == pytest.approx(CUBE_HALF_WIDTH * hidden.gravity / 9.81, rel=5e-3)
    rest = few.pos[few.start[1:] - 1, 2]
    assert found.table_height + found.half_width == pytest.approx(np.median(rest), abs=2e-4)


def test_a_scale_needs_flight_and_rest(generated):
    late = [np.arange(s + 70, e) for s, e in zip(generated.start[:-1], generated.start[1:])]
    early = [np.arange(s, s + 20) for s in generated.start[:-1]]
    for rows, message in ((late, "no toss flies"), (early, "no toss ends at rest")):
        frames = np.concatenate(rows)
        cut = dataclasses.replace(
            generated,
            start=np.concatenate([[0], np.cumsum([len(r) for r in rows])]),
            **{name: getattr(generated, name)[frames] for name in ("pos", "quat", "vel", "omega")},
        )
        with pytest.raises(BadInput, match=message):
            fit_scale(cut)


def test_backward_differences_of_a_flight_are_its_velocities_half_a_frame_ago(generated):
    states = fly(
        generated.initial_states[:, None], np.arange(3) * CUBE_DT * np.ones((len(generated), 1)), SCALE.gravity
    )
    lagged = states[:, 2].copy()
    lagged[:, 7:10] = (states[:, 2, :3] - states[:, 1, :3]) / CUBE_DT
    np.testing.assert_allclose(undo_velocity_lag(lagged, SCALE), states[:, 2], atol=1e-9)
    resting = lagged - np.eye(13)[2] * 0.2
    np.testing.assert_array_equal(undo_velocity_lag(resting, SCALE), resting)


def test_a_scale_without_gravity_is_refused():
    with pytest.raises(BadInput, match="must be positive"):
        CubeScale(half_width=0.05, gravity=0.0, table_height=0.0)


# --- simulation ---------------------------------------------------------------------------------------------


@pytest.fixture
def starts(generated):
    return generated.initial_states[:8]


def simulate(initial, steps=60, **options):
    return simulate_tosses(initial, steps, np.tile(PHI, (len(initial), 1)), SCALE, **options)


def test_a_toss_that_never_lands_is_a_parabola(starts):
    high = starts + np.eye(13)[2] * 3.0
    expected = fly(high[:, None], np.arange(21) * CUBE_DT * np.ones((8, 1)), SCALE.gravity)
    np.testing.assert_allclose(simulate(high, 20), expected, atol=1e-12)


def test_flight_after_a_bounce_is_a_parabola_too(starts):
    states = simulate(starts, 60)
    up = (lowest_corner(states, SCALE) > 1e-3).astype(int)
    apart = [
        fly(states[k, f], np.array(2 * CUBE_DT), SCALE.gravity)[:3] - states[k, f + 2, :3]
        for k in range(8)
        for f in range(25, 57)
        if up[k, f - 1 : f + 4].all()
    ]
    assert len(apart) > 10
    assert np.abs(apart).max() < 1e-4  # [m] half a step's fall in two frames


def test_the_cube_comes_to_rest_on_the_table_as_heavy_as_it_is(starts):
    states = simulate(starts, 200)
    assert np.abs(states[:, -1, 2] - SCALE.half_width - SCALE.table_height).max() < 5e-4
    assert np.abs(states[:, -1, 7:10]).max() < 0.01


def test_turning_the_world_about_the_vertical_turns_the_toss(starts):
    turn = np.array([np.cos(0.4), 0.0, 0.0, np.sin(0.4)])

    def turned(states):
        from dexprior.geometry.rotations import quat_multiply

        return np.concatenate(
            [
                quat_rotate(np.broadcast_to(turn, states[..., 3:7].shape), states[..., :3]),
                quat_multiply(np.broadcast_to(turn, states[..., 3:7].shape), states[..., 3:7]),
                quat_rotate(np.broadcast_to(turn, states[..., 3:7].shape), states[..., 7:10]),
                states[..., 10:],
            ],
            axis=-1,
        )

    one, other = turned(simulate(starts, 24)), simulate(turned(starts), 24)
    np.testing.assert_allclose(one[..., :3], other[..., :3], atol=1e-3)
    assert rotation_angle(one[..., 3:7], other[..., 3:7]).max() < 0.05


def test_a_toss_does_not_depend_on_threads_or_company(starts):
    np.testing.assert_array_equal(simulate(starts[:3]), simulate(starts, threads=2)[:3])


def test_smaller_steps_converge(starts):
    fine, middle, coarse = (simulate(starts, 30, substeps=s)[:, -1, :3] for s in (64, 16, 8))
    error = [np.median(np.linalg.norm(x - fine, axis=1)) for x in (middle, coarse)]
    assert error[0] < error[1] < 0.006  # [m]


def test_more_friction_slides_less(starts):
    reach = []
    for mu in (0.02, 0.5):
        states = simulate_tosses(starts, 80, np.tile((mu, *PHI[1:]), (8, 1)), SCALE)
        reach.append(np.linalg.norm(states[:, -1, :2] - states[:, 0, :2], axis=1).mean())
    assert reach[1] < 0.8 * reach[0]


def test_simulations_say_what_they_do_not_take(starts):
    with pytest.raises(BadInput, match="choices: elliptic, pyramidal"):
        simulate(starts, cone="round")
    with pytest.raises(BadInput, match=r"phi has shape \(8, 3\), expected \(8, 9\)"):
        simulate_tosses(starts, 5, np.ones((8, 3)), SCALE)


# --- the type -----------------------------------------------------------------------------------------------


def test_generated_tosses_are_a_function_of_the_seed_and_say_what_they_are(generated):
    same, other = generate_tosses(0, 30), generate_tosses(1, 30)
    np.testing.assert_array_equal(generated.states, same.states)
    assert not np.array_equal(generated.pos[:50], other.pos[:50])
    assert generated.source == "generated"
    assert len(generated) == 30


def test_taking_tosses_keeps_each_whole(generated):
    chosen = generated.take([5, 2])
    for k, row in enumerate((5, 2)):
        mine = chosen.states[chosen.start[k] : chosen.start[k + 1]]
        theirs = generated.states[generated.start[row] : generated.start[row + 1]]
        np.testing.assert_array_equal(mine, theirs)
    padded = chosen.padded()
    assert padded.shape == (2, chosen.lengths.max(), 13)
    np.testing.assert_array_equal(padded[1, -1], chosen.states[-1])


def test_a_split_never_shares_a_recording(generated):
    train, held = split_groups(generated, 0.5, seed=3)
    again, _ = split_groups(generated, 0.5, seed=3)
    assert not set(train.duplicate_group) & set(held.duplicate_group)
    assert len(train) + len(held) == len(generated)
    np.testing.assert_array_equal(train.pos, again.pos)
    for share in (0.0, 1.0):
        with pytest.raises(BadInput, match="leaves one side empty"):
            split_groups(generated, share, seed=0)


def test_samples_are_nested_and_without_duplicates(generated):
    few, more = generated.sample(5, 1), generated.sample(12, 1)
    assert len(set(more.duplicate_group)) == 12
    assert set(few.duplicate_group) < set(more.duplicate_group)
    with pytest.raises(BadInput, match="between 1 and the 27 different recordings"):
        generated.sample(28, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: {"start": t.start[[0, 2, 1, *range(3, 31)]]}, "increase strictly"),
        (lambda t: {"start": t.start + 1}, "increase strictly"),
        (lambda t: {"start": t.start[:-1]}, "start has 30 entries, but 30 tosses"),
        (lambda t: {"quat": t.quat * 1.1}, r"norm 1\.1"),
        (lambda t: {"dt": 0.0}, "must be positive"),
        (lambda t: {"source": "dreamt"}, "choices: measured, generated"),
    ],
)
def test_inconsistent_tosses_are_one_clear_error(generated, change, message):
    with pytest.raises(BadInput, match=message):
        dataclasses.replace(generated, **change(generated))


# --- the measured file --------------------------------------------------------------------------------------


def test_the_loader_gives_back_what_was_written(published, generated):
    loaded = load_cube_tosses(published())
    assert loaded.source == "measured"
    np.testing.assert_array_equal(loaded.states, generated.states)


def _corruptions():
    def world_omega(a):
        return {"omega": quat_rotate(a["quat"], a["omega"])}

    def body_velocity(a):
        return {"vel": quat_rotate(quat_conjugate(a["quat"]), a["vel"])}

    return {
        "quat is scalar last; it must": lambda a: {"quat": np.roll(a["quat"], -1, axis=1)},
        "omega is in the world frame": world_omega,
        "quat is world -> body": lambda a: {"quat": quat_conjugate(a["quat"])},
        "scalar last, and omega in the world": lambda a: world_omega(a) | {"quat": np.roll(a["quat"], -1, axis=1)},
        "vel is in the body frame": body_velocity,
        "vel is per frame": lambda a: {"vel": a["vel"] * CUBE_DT},
        "vel and the change of pos disagree.*wrong rate": lambda a: {"vel": a["vel"][::-1]},
        "omega and the change of quat disagree.*wrong rate": lambda a: {"omega": 2.0 * a["omega"]},
    }


@pytest.mark.parametrize("message", _corruptions())
def test_a_mix_up_of_frames_is_named(published, message):
    changes = _corruptions()[message](published.arrays)
    with pytest.raises(BadInput, match=message):
        load_cube_tosses(published(**changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vel": None}, "lacks vel; it has: duplicate_group, omega"),
        ({"quat": np.zeros((10, 3))}, r"quat has shape \(10, 3\)"),
        ({"omega": np.zeros((10, 3))}, r"omega has shape \(10, 3\): axis 'row'"),
        ({"start": np.array([0, 9, 4])}, "start has 3 entries"),
        ({"pos": np.full((10, 3), np.nan)}, "not finite"),
        ({"pos": np.full((10, 3), "far")}, "not a numeric array"),
        ({"pos": np.full((10, 3), None)}, "archive of plain arrays"),
    ],
)
def test_a_malformed_file_is_one_clear_error(published, changes, message):
    path = published(**changes)
    with pytest.raises(BadInput, match=message) as caught:
        load_cube_tosses(path)
    assert str(path) in str(caught.value)


def test_a_truncated_file_is_one_clear_error(published):
    path = published()
    whole = path.read_bytes()
    for share in (0.0, 0.3, 0.7, 0.99):
        path.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(BadInput, match=str(path)):
            load_cube_tosses(path)


def test_other_kinds_of_files_are_refused(tmp_path):
    with pytest.raises(BadInput, match="no such file"):
        load_cube_tosses(tmp_path / "absent.npz")
    np.save(tmp_path / "single.npy", np.zeros(3))
    with pytest.raises(BadInput, match="single array"):
        load_cube_tosses(tmp_path / "single.npy")


def test_the_file_is_found_through_the_environment(published, monkeypatch, tmp_path):
    monkeypatch.delenv("DEXPRIOR_DATA", raising=False)
    assert find_cube_tosses() is None
    monkeypatch.setenv("DEXPRIOR_DATA", str(tmp_path))
    assert find_cube_tosses() is None
    (tmp_path / "impacts").mkdir()
    published().rename(tmp_path / "impacts" / "cube_tosses.npz")
    assert find_cube_tosses() == tmp_path / "impacts" / "cube_tosses.npz"


def test_the_measured_record_is_what_its_card_says():
    tosses = measured()
    assert len(tosses) == 444
    assert len(np.unique(tosses.duplicate_group)) == 420
    linear, angular = check_consistency(tosses)
    assert linear < 0.05
    assert angular < 0.06
    rows = np.delete(np.arange(len(tosses.pos)), tosses.start[:-1])
    rows = rows[rows < tosses.start[-1] - 1]
    back, centred = ((tosses.pos[rows + k] - tosses.pos[rows - 1]) / ((1 + k) * tosses.dt) for k in (0, 1))
    assert np.std(back - tosses.vel[rows]) < 0.5 * np.std(
        centred - tosses.vel[rows]
    )  # velocities are backward differences
    scale = fit_scale(tosses)
    assert scale.gravity == pytest.approx(9.61, abs=0.03)
    assert scale.table_height + scale.half_width == pytest.approx(0.0512, abs=2e-4)
