"""A flat piece of cloth: outline, triangulation, where it is gripped, and how well it lies after a fold.

Material coordinates are (x, y) in the flat cloth, centred on it [m]. The part beyond the fold line x = `line` is the
flap; folding mirrors it in the line, x -> 2 `line` - x.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from dexprior.errors import UnknownName

__all__ = [
    "OUTLINES",
    "Cloth",
    "Outline",
    "Place",
    "carried",
    "flap_coverage",
    "mirrored",
    "planar_fit",
    "turned",
    "wrinkle",
]

Outline = Literal["square", "shirt"]
OUTLINES: tuple[Outline, ...] = ("square", "shirt")
Place = tuple[Int[np.ndarray, "point 3"], Float[np.ndarray, "point 3"]]
"""Places of material points: the vertices of the triangle that each lies in, and their barycentric weights."""
_BODY, _SLEEVE = 0.3, 0.1  # of the shirt, in sides: half the body's width; where the sleeves begin, towards the neck
_SAMPLE, _CELL, _GRID = 0.0025, 0.005, 96  # [m] between material samples, [m] and number of the raster's cells


@dataclass(frozen=True, kw_only=True)
class Cloth:
    """A triangulated cloth on a square grid; the shirt is the square without the corners beside its body.

    The shirt's sleeves reach out at its neck, towards +x.
    """

    outline: Outline
    side: float
    """Length and width [m]."""
    resolution: int
    """Vertices along a side."""

    def __post_init__(self) -> None:
        if self.outline not in OUTLINES:
            raise UnknownName("outline", self.outline, OUTLINES)

    @property
    def spacing(self) -> float:
        """Between neighbours on the grid [m]."""
        return self.side / (self.resolution - 1)

    @cached_property
    def _cells(self) -> Bool[np.ndarray, "column row"]:
        middle = (np.arange(self.resolution - 1) + 0.5) * self.spacing - self.side / 2
        x, y = np.meshgrid(middle, middle, indexing="ij")
        if self.outline == "square":
            return np.ones_like(x, dtype=bool)
        return (np.abs(y) < _BODY * self.side) | (x > _SLEEVE * self.side)

    @cached_property
    def _numbered(self) -> tuple[Float[np.ndarray, "vertex 2"], Int[np.ndarray, "triangle 3"]]:
        n = self.resolution
        i, j = np.nonzero(self._cells)
        a, b, c, d = i * n + j, (i + 1) * n + j, (i + 1) * n + j + 1, i * n + j + 1
        even = (i + j) % 2 == 0  # diagonals alternate, so that no direction bends more easily
        first = np.where(even[:, None], np.column_stack([a, b, c]), np.column_stack([a, b, d]))
        second = np.where(even[:, None], np.column_stack([a, c, d]), np.column_stack([b, c, d]))
        triangles = np.concatenate([first, second])
        used, compact = np.unique(triangles, return_inverse=True)
        grid = np.stack([used // n, used % n], axis=1) * self.spacing - self.side / 2
        return grid, compact.reshape(triangles.shape)

    @property
    def vertices(self) -> Float[np.ndarray, "vertex 2"]:
        """Material coordinates [m]."""
        return self._numbered[0]

    @property
    def triangles(self) -> Int[np.ndarray, "triangle 3"]:
        """Counter-clockwise, seen from above."""
        return self._numbered[1]

    @cached_property
    def areas(self) -> Float[np.ndarray, " triangle"]:
        """Areas of the triangles [m2]."""
        a, b, c = self.vertices[self.triangles].transpose(1, 0, 2)
        return _cross(b - a, c - a) / 2

    @cached_property
    def vertex_areas(self) -> Float[np.ndarray, " vertex"]:
        """A third of each triangle around a vertex [m2]."""
        return np.bincount(self.triangles.ravel(), np.repeat(self.areas / 3, 3), len(self.vertices))

    @cached_property
    def edges(self) -> Int[np.ndarray, "edge 2"]:
        """Sides of the triangles, each once."""
        sides = np.concatenate([self.triangles[:, [0, 1]], self.triangles[:, [1, 2]], self.triangles[:, [2, 0]]])
        return np.unique(np.sort(sides, axis=1), axis=0)

    @cached_property
    def hinges(self) -> Int[np.ndarray, "hinge 4"]:
        """Vertices at each edge between two triangles: its two vertices, and the vertices opposite to it."""
        opposite: dict[tuple[int, int], list[int]] = {}
        for triangle in self.triangles.tolist():
            for k in range(3):
                a, b, c = triangle[k], triangle[(k + 1) % 3], triangle[(k + 2) % 3]
                opposite.setdefault((min(a, b), max(a, b)), []).append(c)
        return np.array([(*edge, *ends) for edge, ends in sorted(opposite.items()) if len(ends) == 2])

    @cached_property
    def bends(self) -> tuple[Float[np.ndarray, "hinge 4"], Float[np.ndarray, " hinge"]]:
        """Coefficients c of each hinge and the area A of its triangles [m2].

        Its bending energy is G h^3 / (16 A) |sum_i c_i x_i|^2 with shear modulus G and thickness h, as in MuJoCo:
        the isometric bending of Bergou et al. 2006, "A Quadratic Bending Model for Inextensible Surfaces", eq. 5.
        """
        x0, x1, x2, x3 = self.vertices[self.hinges].transpose(1, 0, 2)
        at0 = _cotangent(x1 - x0, x2 - x0) + _cotangent(x1 - x0, x3 - x0)
        at1 = _cotangent(x0 - x1, x2 - x1) + _cotangent(x0 - x1, x3 - x1)
        side2 = _cotangent(x1 - x0, x2 - x0) + _cotangent(x0 - x1, x2 - x1)
        side3 = _cotangent(x1 - x0, x3 - x0) + _cotangent(x0 - x1, x3 - x1)
        area = (np.abs(_cross(x1 - x0, x2 - x0)) + np.abs(_cross(x1 - x0, x3 - x0))) / 2
        return np.column_stack([at1, at0, -side2, -side3]), area

    def grained(self, edges: Int[np.ndarray, "edge 2"], ratio: float, angle: float) -> Float[np.ndarray, " edge"]:
        """Factors of the bending stiffness at edges of a fabric, `ratio` times as stiff along its grain as across.

        Bent in the direction phi it has B(phi) = B ratio^(cos(2 (phi - angle)) / 2); an edge is bent across itself.

        Args:
            edges: vertices at both ends.
            ratio: of stiffness along the grain to that across it; B is their geometric mean.
            angle: of the grain from the cloth's x axis [rad].
        """
        along = self.vertices[edges[:, 1]] - self.vertices[edges[:, 0]]
        across = np.arctan2(along[:, 0], -along[:, 1])
        return ratio ** (np.cos(2.0 * (across - angle)) / 2.0)

    def locate(self, points: Float[np.ndarray, "point 2"]) -> Place:
        """Where material points are in the triangles; those outside are brought to the nearest one's edge."""
        a, b, c = self.vertices[self.triangles].transpose(1, 0, 2)
        p = points[:, None]
        inner = np.stack([_cross(c - b, p - b), _cross(a - c, p - c), _cross(b - a, p - a)], axis=-1)
        inner = inner / (2 * self.areas[:, None])
        best = inner.min(axis=-1).argmax(axis=1)
        weights = np.clip(inner[np.arange(len(points)), best], 0.0, None)
        return self.triangles[best], weights / weights.sum(axis=1, keepdims=True)

    @cached_property
    def samples(self) -> Float[np.ndarray, "sample 2"]:
        """Material points on a fine grid, each of them for the same area [m]."""
        count = round(self.side / _SAMPLE)
        axis = (np.arange(count) + 0.5) / count * self.side - self.side / 2
        x, y = (v.ravel() for v in np.meshgrid(axis, axis, indexing="ij"))
        cell = np.floor((np.column_stack([x, y]) + self.side / 2) / self.spacing).astype(int)
        return np.column_stack([x, y])[self._cells[cell[:, 0], cell[:, 1]]]

    @cached_property
    def sampled(self) -> Place:
        """Where `samples` are in the triangles."""
        return self.locate(self.samples)

    def grips(self, count: int, inset: float) -> Float[np.ndarray, "grip 2"]:
        """Where grippers hold the flap's outer edge: near both ends of it, or in its middle.

        Args:
            count: 2 (the end at +y first) or 1.
            inset: from the edges [m].
        """
        end = self.side / 2 - inset
        return np.array([[end, end], [end, -end]] if count == 2 else [[end, 0.0]])


def carried(place: Place, positions: Float[np.ndarray, "n vertex k"]) -> Float[np.ndarray, "n point k"]:
    """Where material points are, given the vertices."""
    corners, weights = place
    return sum(weights[:, k, None] * positions[:, corners[:, k]] for k in range(3))  # type: ignore[return-value]


def mirrored(points: Float[np.ndarray, "*n 2"], line: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n 2"]:
    """Material points, mirrored in the fold line."""
    return np.stack([2.0 * line - points[..., 0], points[..., 1]], axis=-1)


def planar_fit(
    material: Float[np.ndarray, "vertex 2"],
    positions: Float[np.ndarray, "n vertex 2"],
    used: Bool[np.ndarray, "n vertex"],
) -> tuple[Float[np.ndarray, "n 2"], Float[np.ndarray, " n"]]:
    """The rigid motion of the plane that brings the used vertices nearest to where they are (Kabsch, in 2-D).

    Returns:
        Where the material origin goes [m], and the turn [rad].
    """
    weight = used / used.sum(axis=1, keepdims=True)
    # sums, not matrix products: those round differently for other numbers of worlds
    centre_m = (weight[..., None] * material).sum(axis=1)
    centre_p = (weight[..., None] * positions).sum(axis=1)
    m, p = material - centre_m[:, None], positions - centre_p[:, None]
    turn = np.arctan2((weight * _cross(m, p)).sum(axis=1), (weight * (m * p).sum(axis=-1)).sum(axis=1))
    return centre_p - turned(centre_m[:, None], turn)[:, 0], turn


def flap_coverage(
    cloth: Cloth, positions: Float[np.ndarray, "n vertex 2"], line: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Overlap of the folded flap, seen from above, with where it should lie: intersection over union in [0, 1].

    Both areas are rasters of the same material samples in cells of 5 mm; 1 for an exact fold, 0 for a flat cloth. Where
    it should lie is relative to the part that stays, as that lies now.

    Args:
        cloth: which one.
        positions: of the vertices, seen from above [m].
        line: fold line, in material coordinates [m].
    """
    origin, turn = planar_fit(cloth.vertices, positions, cloth.vertices[:, 0] <= line[:, None] - cloth.spacing)
    lies = turned(carried(cloth.sampled, positions) - origin[:, None], -turn)
    flap = cloth.samples[:, 0] > line[:, None]
    wanted = mirrored(np.broadcast_to(cloth.samples, lies.shape), line[:, None])
    covered, target = _raster(lies, flap), _raster(wanted, flap)
    return (covered & target).sum(axis=1) / (covered | target).sum(axis=1)


def wrinkle(
    cloth: Cloth, positions: Float[np.ndarray, "n vertex 3"], line: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Share of the area that slopes hide from a view from above, away from the fold: mean of 1 - |n_z| in [0, 1].

    0 for a smooth sheet, folded or not. Triangles within 1.5 grid spacings of the fold line do not count.
    """
    a, b, c = (positions[:, cloth.triangles[:, k]] for k in range(3))
    normal = np.cross(b - a, c - a)
    slope = 1.0 - np.abs(normal[..., 2]) / np.maximum(np.linalg.norm(normal, axis=-1), 1e-12)
    away = np.abs(cloth.vertices[cloth.triangles, 0].mean(axis=1) - line[:, None]) > 1.5 * cloth.spacing
    weight = cloth.areas * away
    return (weight * slope).sum(axis=1) / weight.sum(axis=1)


def _raster(points: np.ndarray, used: np.ndarray) -> Bool[np.ndarray, "n cell"]:
    """Cells that hold a used point; points beyond the raster's edge count in its outermost cells."""
    cell = np.clip(np.floor(points / _CELL).astype(int) + _GRID // 2, 0, _GRID - 1)
    index = np.where(used, cell[..., 0] * _GRID + cell[..., 1], _GRID * _GRID)
    hit = np.zeros((len(points), _GRID * _GRID + 1), dtype=bool)
    hit[np.arange(len(points))[:, None], index] = True
    return hit[:, :-1]


def _cotangent(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(axis=-1) / np.abs(_cross(a, b))


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def turned(points: Float[np.ndarray, "n k 2"], angle: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n k 2"]:
    """Points, turned about the origin of their plane [rad]."""
    c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
    x, y = points[..., 0], points[..., 1]
    return np.stack([c * x - s * y, s * x + c * y], axis=-1)
