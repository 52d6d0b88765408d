"""Depth images with what real depth cameras do to them; a pixel without a reading is 0, as drivers give it.

    z' = z + sqrt(floor^2 + (square z^2)^2) n              range-squared noise of stereo and of structured light
    edges: a pixel within `reach` of a step larger than `edge` is lost with a probability
    reflections: a pixel of a mirror, or seen at a grazing angle, is lost or reads too far

Noise: a disparity error of constant size is one of z^2 / (f b) in depth (Khoshelham and Elberink 2012, eq. 6-8; Nguyen
et al. 2012 measure it for axial noise, and the loss at grazing angles). Too far: light that arrives by way of another
surface has a longer path, here by an exponentially distributed length (multipath, as Whyte et al. 2015 review it).
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from jaxtyping import Bool, Float

from dexprior.config import Ge, Gt, Le, config
from dexprior.errors import BadInput
from dexprior.families.sensors.streams import lane, normals, uniforms

__all__ = ["DepthConfig", "sense_depth"]


@config
class DepthConfig:
    """One camera; the defaults are of the order of a structured-light camera's, and assumed."""

    floor: Annotated[float, Ge(0)] = 0.0005
    """Standard deviation close by [m]."""
    square: Annotated[float, Ge(0)] = 0.0019
    """Standard deviation over squared distance [1/m]."""
    edge: Annotated[float, Gt(0)] = 0.02
    """Step between neighbours that counts as an edge [m]."""
    reach: Annotated[int, Ge(0)] = 1
    """How far from an edge pixels are lost [pixels]; 0: none is."""
    edge_lost: Annotated[float, Ge(0), Le(1)] = 0.5
    """Probability that they are."""
    grazing: Annotated[float, Ge(0), Le(90)] = 75.0
    """Angle between ray and normal beyond which a surface counts as reflective [deg]; needs normals."""
    mirror_lost: Annotated[float, Ge(0), Le(1)] = 0.7
    """Probability that a reflective pixel is lost."""
    mirror_far: Annotated[float, Ge(0)] = 0.1
    """Mean by which the others of them read too far [m]."""
    nearest: Annotated[float, Ge(0)] = 0.2
    """Shortest distance that is read [m]."""
    farthest: Annotated[float, Gt(0)] = 5.0
    """Longest distance that is read [m]."""
    step: Annotated[float, Ge(0)] = 0.001
    """Smallest change that is read [m]; 0 for none."""


def sense_depth(
    config: DepthConfig,
    depth: Float[np.ndarray, "n row column"],
    seeds: np.ndarray,
    frame: int | np.ndarray,
    *,
    facing: Float[np.ndarray, "n row column"] | None = None,
    mirror: Bool[np.ndarray, "n row column"] | None = None,
) -> Float[np.ndarray, "n row column"]:
    """What a camera reads in n worlds.

    Args:
        config: of the camera.
        depth: true depth along the optical axis [m]; 0 or inf where nothing is hit.
        seeds: of each world.
        frame: number of the frame, the same or one a world: another one has other noise.
        facing: cosine between the ray to each pixel and the surface's normal, without sign.
        mirror: which pixels show a reflective surface.

    Returns:
        Depth [m], 0 where nothing is read.

    Raises:
        BadInput: arrays of other shapes, a negative depth or NaN.
    """
    depth = np.asarray(depth, dtype=np.float64)
    if depth.ndim != 3 or np.isnan(depth).any() or (depth < 0).any():
        raise BadInput(f"depth of shape {depth.shape}: (n, row, column) of metres >= 0 is needed, without NaN")
    for name, extra in (("facing", facing), ("mirror", mirror)):
        if extra is not None and np.shape(extra) != depth.shape:
            raise BadInput(f"{name} of shape {np.shape(extra)}, expected {depth.shape} as the depth has")
    seeds, n, size = np.asarray(seeds), len(depth), depth[0].size
    if seeds.shape != (n,):
        raise BadInput(f"seeds of shape {seeds.shape}, expected ({n},)")
    u = uniforms(lane(seeds, "depth/lost"), frame, 3 * size).reshape(n, 3, *depth.shape[1:])
    noise = normals(lane(seeds, "depth/noise"), frame, size).reshape(depth.shape)
    hit = (depth > 0) & np.isfinite(depth)
    z = np.where(hit, depth, 0.0)
    shiny = np.zeros(depth.shape, dtype=bool) if mirror is None else np.asarray(mirror, dtype=bool)
    if facing is not None:
        shiny = shiny | (np.abs(facing) < np.cos(np.deg2rad(config.grazing)))
    read = z + np.sqrt(config.floor**2 + (config.square * z**2) ** 2) * noise
    read = np.where(shiny, read - config.mirror_far * np.log(u[:, 1]), read)
    if config.step > 0:
        read = np.round(read / config.step) * config.step
    lost = ~hit | (read < config.nearest) | (read > config.farthest)
    lost |= shiny & (u[:, 0] < config.mirror_lost)
    if config.reach > 0 and config.edge_lost > 0:
        lost |= _near_edges(z, config) & (u[:, 2] < config.edge_lost)
    return np.where(lost, 0.0, read)


def _near_edges(z: Float[np.ndarray, "n row column"], config: DepthConfig) -> Bool[np.ndarray, "n row column"]:
    """Pixels on either side of a step, and those within reach of them."""
    from scipy.ndimage import binary_dilation

    edge = np.zeros(z.shape, dtype=bool)
    down, right = np.abs(np.diff(z, axis=1)) > config.edge, np.abs(np.diff(z, axis=2)) > config.edge
    edge[:, 1:] |= down
    edge[:, :-1] |= down
    edge[:, :, 1:] |= right
    edge[:, :, :-1] |= right
    if config.reach > 1:
        edge = binary_dilation(edge, np.ones((1, 3, 3), dtype=bool), iterations=config.reach - 1)
    return edge
