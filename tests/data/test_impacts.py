"""Planar impacts: their geometry, and every way in which the measured file can be wrong."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dexprior.data.impacts import (
    ELLIPSE_MASS,
    ELLIPSE_SEMI_AXES,
    PlanarImpacts,
    check_torque_balance,
    ellipse_contact,
    ellipse_inertia,
    find_ellipse_impacts,
    kinetic_energy,
    load_ellipse_impacts,
)
from dexprior.data.simulated_impacts import generate_impacts
from dexprior.errors import BadInput

INERTIA = ellipse_inertia(ELLIPSE_SEMI_AXES, ELLIPSE_MASS)


def measured() -> PlanarImpacts:
    path = find_ellipse_impacts()
    if path is None:
        pytest.skip("the measured ellipse impacts are not under $DEXPRIOR_DATA/impacts")
    return load_ellipse_impacts(path)


@pytest.fixture
def published(tmp_path):
    """Generated impacts, written as the published record is: x and vx negated, some rows flagged."""
    impacts = generate_impacts(0, 40)
    mirror = np.array([-1.0, 1.0, 1.0])
    place = np.stack([np.zeros(40), impacts.tangent_row[:, 2], impacts.angle], axis=1)
    flags = np.zeros((40, 6), dtype=np.uint8)
    flags[[3, 17], [0, 5]] = 1
    arrays = {
        "pre": np.hstack([place, impacts.pre * mirror]),
        "post": np.hstack([place, impacts.post * mirror]),
        "n": np.array(impacts.normal_row),
        "d": np.array(impacts.tangent_row),
        "flags": flags,
        "source_row": np.arange(40) * 2,
    }
    path = tmp_path / "ellipse_impacts.npz"

    def write(**changes):
        np.savez(path, **{k: v for k, v in (arrays | changes).items() if v is not None})
        return path

    write.arrays = arrays
    write.impacts = impacts
    return write


# --- geometry --------------------------------------------------------------------------------


def test_the_contact_point_is_the_lowest_point_of_the_ellipse():
    angle = np.linspace(0, np.pi, 19)
    normal, tangent = ellipse_contact(angle, ELLIPSE_SEMI_AXES)
    phase = np.linspace(0, 2 * np.pi, 20_001)
    a, b = ELLIPSE_SEMI_AXES
    for k, theta in enumerate(angle):
        x = a * np.cos(phase) * np.cos(theta) - b * np.sin(phase) * np.sin(theta)
        y = a * np.cos(phase) * np.sin(theta) + b * np.sin(phase) * np.cos(theta)
        assert -y.min() == pytest.approx(tangent[k, 2], abs=1e-8)
        assert x[y.argmin()] == pytest.approx(normal[k, 2], abs=1e-5)


def test_a_split_is_a_fixed_partition():
    impacts = generate_impacts(0, 30)
    fit, rest = impacts.split(10, seed=4)
    again, _ = impacts.split(10, seed=4)
    rows = np.concatenate([fit.source_row, rest.source_row])
    assert (len(fit), len(rest)) == (10, 20)
    np.testing.assert_array_equal(np.sort(rows), np.arange(30))
    np.testing.assert_array_equal(fit.source_row, again.source_row)
    for n_fit in (0, 30):
        with pytest.raises(BadInput, match="between 1 and 29"):
            impacts.split(n_fit, seed=0)


def test_kinetic_energy_is_the_metric_of_the_geometry():
    impacts = generate_impacts(0, 12)
    inertia = np.linalg.inv(impacts.geometry.inverse_inertia)
    expected = 0.5 * np.einsum("bi,bij,bj->b", impacts.pre, inertia, impacts.pre)
    np.testing.assert_allclose(kinetic_energy(impacts.pre, impacts.mass, impacts.inertia), expected)


# --- the measured file --------------------------------------------------------------------------------------


def test_the_loader_mirrors_once_and_drops_flagged_rows(published):
    loaded = load_ellipse_impacts(published())
    kept = np.delete(np.arange(40), [3, 17])
    assert loaded.source == "measured"
    np.testing.assert_array_equal(loaded.source_row, kept * 2)
    np.testing.assert_allclose(loaded.pre, published.impacts.pre[kept])
    np.testing.assert_allclose(loaded.post, published.impacts.post[kept])


def test_a_file_that_was_mirrored_before_is_noticed(published):
    mirror = np.array([-1.0, 1.0, 1.0, -1.0, 1.0, 1.0])
    path = published(pre=published.arrays["pre"] * mirror, post=published.arrays["post"] * mirror)
    with pytest.raises(BadInput, match="mirrored already"):
        load_ellipse_impacts(path)


def test_contact_rows_of_other_impacts_are_noticed(published):
    shuffled = np.random.default_rng(0).permutation(40)
    path = published(n=published.arrays["n"][shuffled], d=published.arrays["d"][shuffled])
    with pytest.raises(BadInput, match=r"torque balance.*belong to other impacts"):
        load_ellipse_impacts(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d": None}, "lacks d; it has: flags, n"),
        ({"n": np.zeros((40, 2))}, r"n has shape \(40, 2\), expected \(40, 3\)"),
        ({"post": np.zeros((39, 6))}, r"post has shape \(39, 6\), expected \(40, 6\)"),
        ({"flags": np.ones((40, 6))}, "every row is flagged"),
        ({"pre": np.full((40, 6), "fast")}, "pre is not numeric"),
        ({"pre": np.full((40, 6), None)}, "archive of plain arrays"),
        ({"pre": np.full((40, 6), np.nan)}, "not finite"),
    ],
)
def test_a_malformed_file_is_one_clear_error(published, changes, message):
    with pytest.raises(BadInput, match=message):
        load_ellipse_impacts(published(**changes))


def test_a_truncated_file_is_one_clear_error(published):
    path = published()
    whole = path.read_bytes()
    for share in (0.0, 0.3, 0.7, 0.99):
        path.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(BadInput, match=str(path)):
            load_ellipse_impacts(path)


def test_a_flipped_byte_is_one_clear_error(published):
    path = published()
    damaged = bytearray(path.read_bytes())
    damaged[400] ^= 0xFF  # inside the first array's data
    path.write_bytes(damaged)
    with pytest.raises(BadInput, match="truncated or damaged"):
        load_ellipse_impacts(path)


def test_other_kinds_of_files_are_refused(tmp_path):
    with pytest.raises(BadInput, match="no such file"):
        load_ellipse_impacts(tmp_path / "absent.npz")
    np.save(tmp_path / "single.npy", np.zeros(3))
    with pytest.raises(BadInput, match="single array"):
        load_ellipse_impacts(tmp_path / "single.npy")


def test_the_file_is_found_through_the_environment(published, monkeypatch, tmp_path):
    monkeypatch.delenv("DEXPRIOR_DATA", raising=False)
    assert find_ellipse_impacts() is None
    monkeypatch.setenv("DEXPRIOR_DATA", str(tmp_path))
    assert find_ellipse_impacts() is None
    (tmp_path / "impacts").mkdir()
    published().rename(tmp_path / "impacts" / "ellipse_impacts.npz")
    assert find_ellipse_impacts() == tmp_path / "impacts" / "ellipse_impacts.npz"


def test_a_body_without_mass_is_refused():
    with pytest.raises(BadInput, match="must be positive"):
        dataclasses.replace(generate_impacts(0, 5), mass=0.0)


def test_the_measured_record_is_what_its_card_says():
    impacts = measured()
    assert len(impacts) == 1418
    assert impacts.gyration == pytest.approx(0.0192, abs=1e-4)
    assert check_torque_balance(impacts) < 0.35
    normal, tangent = ellipse_contact(impacts.angle, impacts.semi_axes)
    assert np.abs(tangent - impacts.tangent_row).max() < 1e-3  # [m] rows and angles tell the same story
    assert np.median(np.abs(normal - impacts.normal_row)) < 5e-4
