"""The folding task: laws of the cloth's geometry, and what a fold is judged by."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.errors import ConfigError, UnknownName
from dexprior.worlds.tasks import make_task
from dexprior.worlds.tasks.folding import OUTLINES, Cloth, flap_coverage, mirrored, planar_fit, turned, wrinkle

CLOTHS = [Cloth(outline=outline, side=0.2, resolution=n) for outline in OUTLINES for n in (7, 11)]


def _folded(cloth: Cloth, line: float, shift: float = 0.0) -> np.ndarray:
    """Vertices of an exactly folded cloth, its flap shifted along x."""
    flap = cloth.vertices[:, 0] > line
    across = mirrored(cloth.vertices, np.full(len(cloth.vertices), line)) + np.array([shift, 0.0])
    xy = np.where(flap[:, None], across, cloth.vertices)
    return np.column_stack([xy, np.where(flap, 0.006, 0.0)])


@pytest.mark.parametrize("cloth", CLOTHS, ids=lambda c: f"{c.outline}-{c.resolution}")
def test_a_cloth_is_one_flat_disc_of_the_outlines_area(cloth):
    body = {"square": 1.0, "shirt": 0.6 * 0.6 + 0.4}[cloth.outline] * cloth.side**2  # sleeves: the outer 0.4 of a side
    tolerance = 1e-12 if cloth.resolution == 11 or cloth.outline == "square" else 0.25 * body
    assert cloth.areas.sum() == pytest.approx(body, abs=tolerance)
    assert cloth.vertex_areas.sum() == pytest.approx(cloth.areas.sum())
    assert (cloth.areas > 0).all()
    assert len(cloth.vertices) - len(cloth.edges) + len(cloth.triangles) == 1  # Euler's number of a disc
    assert len(cloth.hinges) == 3 * len(cloth.triangles) - len(cloth.edges)
    assert len(cloth.samples) * 0.004**2 == pytest.approx(cloth.areas.sum(), rel=0.02)


@pytest.mark.parametrize("cloth", CLOTHS, ids=lambda c: f"{c.outline}-{c.resolution}")
def test_material_points_follow_affine_motion(cloth):
    rng = np.random.default_rng(0)
    F, shift = rng.normal(size=(2, 3)), rng.normal(size=3)
    moved = cloth.vertices @ F + shift
    np.testing.assert_allclose(cloth.sampled(moved[None])[0], cloth.samples @ F + shift, atol=1e-12)
    np.testing.assert_allclose(cloth.weights(cloth.vertices) @ moved, moved, atol=1e-12)


@pytest.mark.parametrize("cloth", CLOTHS, ids=lambda c: f"{c.outline}-{c.resolution}")
def test_an_exact_fold_covers_all_wherever_it_lies(cloth):
    line = 0.0
    flat = np.column_stack([cloth.vertices, np.zeros(len(cloth.vertices))])
    x = np.stack([_folded(cloth, line), flat])
    x[..., :2] = turned(x[..., :2], np.full(2, 0.4)) + np.array([0.3, -0.1])
    covered = flap_coverage(cloth, x[..., :2], np.full(2, line))
    assert covered[0] > 0.97  # samples at a cell's edge may fall on either side of it
    assert covered[1] < 0.1
    np.testing.assert_allclose(wrinkle(cloth, x, np.full(2, line)), 0.0, atol=1e-9)


def test_coverage_falls_with_the_shift_of_the_flap():
    """A flap of length l whose hem lies s too far along (stretched at its crease) covers l of l + s."""
    cloth = Cloth(outline="square", side=0.2, resolution=11)
    line = np.zeros(1)
    for shift in (0.024, 0.048):
        covered = flap_coverage(cloth, _folded(cloth, 0.0, -shift)[None, :, :2], line)[0]
        assert covered == pytest.approx(0.1 / (0.1 + shift), abs=0.02)


def test_wrinkle_is_the_area_that_slopes_hide():
    cloth = Cloth(outline="square", side=0.2, resolution=11)
    slope = 0.5
    x, y = cloth.vertices.T
    zigzag = slope * np.abs((x + 0.1) % 0.04 - 0.02)
    hidden = 1.0 - 1.0 / np.sqrt(1.0 + slope**2)
    assert wrinkle(cloth, np.column_stack([x, y, zigzag])[None], np.zeros(1))[0] == pytest.approx(hidden)


def test_the_planar_fit_finds_a_rigid_motion():
    cloth = Cloth(outline="shirt", side=0.2, resolution=11)
    moved = turned(cloth.vertices[None], np.array([-0.7])) + np.array([0.2, 0.5])
    moved[:, cloth.vertices[:, 0] > 0] += 1.0  # is not used
    origin, turn = planar_fit(cloth.vertices, moved, cloth.vertices[None, :, 0] <= 0)
    np.testing.assert_allclose(origin, [[0.2, 0.5]], atol=1e-12)
    np.testing.assert_allclose(turn, -0.7)


def test_settings_of_the_cloth_are_checked():
    with pytest.raises(ConfigError, match="outline"):
        make_task("folding", outline="sock")
    with pytest.raises(ConfigError, match="robots"):
        make_task("folding", robots=3)
    with pytest.raises(ConfigError, match="resolution"):
        make_task("folding", resolution=2)
    with pytest.raises(UnknownName, match="shirt"):
        Cloth(outline="sock", side=0.2, resolution=11)  # type: ignore[arg-type]
