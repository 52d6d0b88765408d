"""Lenses against their formulas, and pictures that are straightened by them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from foreign_layouts import DIST8, FISHEYE, HEIGHT, WIDTH, K

from dexprior.data.importers.lenses import fisheye624_lens, rational_lens, straightened

RAYS = np.random.default_rng(0).uniform(-0.8, 0.8, (50, 2))
OURS = K + np.array([[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]])


def by_hand(ray):
    """FISHEYE624 number by number."""
    f, cx, cy, *rest = FISHEYE
    k, (p1, p2), (s1, s2, s3, s4) = rest[:6], rest[6:8], rest[8:]
    a, b = ray
    angle = math.atan(math.hypot(a, b))
    far = angle + sum(k[i] * angle ** (2 * i + 3) for i in range(6))
    x, y = far * a / math.hypot(a, b), far * b / math.hypot(a, b)
    r2 = x * x + y * y
    u = x + 2 * (x * p1 + y * p2) * x + r2 * p1 + s1 * r2 + s2 * r2**2
    v = y + 2 * (x * p1 + y * p2) * y + r2 * p2 + s3 * r2 + s4 * r2**2
    return f * u + cx + 0.5, f * v + cy + 0.5


def test_a_lens_without_distortion_is_a_pinhole():
    pixels = rational_lens(K, np.zeros(8))(RAYS)
    np.testing.assert_allclose(pixels, RAYS * K[[0, 1], [0, 1]] + OURS[:2, 2])


def test_the_rational_model():
    x, y = 0.3, -0.4
    k1, k2, p1, p2, k3, k4, k5, k6 = DIST8
    r2 = 0.25
    radial = (1 + k1 * r2 + k2 * r2**2 + k3 * r2**3) / (1 + k4 * r2 + k5 * r2**2 + k6 * r2**3)
    u = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x)
    v = y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y
    np.testing.assert_allclose(
        rational_lens(K, DIST8)(np.array([x, y])), [K[0, 0] * u + OURS[0, 2], K[1, 1] * v + OURS[1, 2]]
    )


def test_the_fisheye():
    np.testing.assert_allclose(fisheye624_lens(FISHEYE)(RAYS), [by_hand(ray) for ray in RAYS])
    np.testing.assert_allclose(fisheye624_lens(FISHEYE)(np.zeros((1, 2)))[0], FISHEYE[1:3] + 0.5)
    plain = np.array([30.0, 31, 23, *np.zeros(12)])  # the angle, in pixels
    np.testing.assert_allclose(fisheye624_lens(plain)(np.array([1.0, 0.0])), [31.5 + 30 * np.pi / 4, 23.5])


@pytest.mark.parametrize("lens", [rational_lens(K, DIST8), fisheye624_lens(FISHEYE)], ids=["rational", "fisheye"])
@pytest.mark.parametrize("scale", [1, 2])
def test_a_straightened_picture_shows_each_ray_where_a_pinhole_does(lens, scale):
    """A picture that says where it is, seen through the lens: the answer is the lens itself."""
    size = HEIGHT * scale, WIDTH * scale
    row, column = np.meshgrid(np.arange(size[0]), np.arange(size[1]), indexing="ij")
    picture = np.stack([255 * column / size[1], 255 * row / size[0], 0 * row + 200], axis=-1).round().astype(np.uint8)
    straight = straightened(lambda k, wanted: picture, lens, OURS, HEIGHT, WIDTH)(0, size)
    assert straight.shape == picture.shape
    ray = (np.stack([column, row], axis=-1) + 0.5) / scale
    at = lens((ray - OURS[:2, 2]) / OURS[[0, 1], [0, 1]]) * scale - 0.5
    inside = ((at >= 0) & (at <= [size[1] - 1, size[0] - 1])).all(axis=-1)
    assert inside.mean() > 0.3
    wanted = np.stack([255 * at[..., 0] / size[1], 255 * at[..., 1] / size[0]], axis=-1)
    np.testing.assert_allclose(straight[inside, :2], wanted[inside], atol=1.1)
    far = ((at < -1) | (at > size[::-1])).any(axis=-1)
    assert not straight[far].any()
