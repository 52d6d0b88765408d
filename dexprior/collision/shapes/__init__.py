"""Collisions of any two bodies: scenes, simulated pairs on disk, and a network that reads shapes from point clouds."""

from dexprior.collision.shapes.contacts import ContactWorlds, Touch
from dexprior.collision.shapes.generator import PairConfig, ShapeRanges, generate, load_pairs, load_ranges
from dexprior.collision.shapes.network import (
    ShapeNetwork,
    ShapeNetworkConfig,
    ShapeTrainingConfig,
    Strikes2D,
    load_shape_network,
    planar_strikes,
    relative_errors,
    save_shape_network,
    train_shape_network,
)
from dexprior.collision.shapes.pairs import ShapePairs
from dexprior.collision.shapes.scene import PRESETS, CollisionScene, Side, preset, prism_strike
from dexprior.collision.shapes.solids import Solid, read_solid, regular_contour, surface_cloud
from dexprior.collision.shapes.stage import distill_shapes
from dexprior.collision.shapes.strikes import (
    STRIKE_PARAMETERS,
    StrikeSampling,
    Struck,
    sample_strikes,
    simulate_strike_pairs,
    strike_features,
    strike_state,
)

__all__ = [
    # scenes
    "PRESETS",
    "CollisionScene",
    "Side",
    "Solid",
    "preset",
    "prism_strike",
    "read_solid",
    "regular_contour",
    "surface_cloud",
    # simulated pairs
    "ContactWorlds",
    "PairConfig",
    "ShapePairs",
    "ShapeRanges",
    "Touch",
    "generate",
    "load_pairs",
    "load_ranges",
    # one network for many shapes
    "ShapeNetwork",
    "ShapeNetworkConfig",
    "ShapeTrainingConfig",
    "Strikes2D",
    "distill_shapes",
    "load_shape_network",
    "planar_strikes",
    "relative_errors",
    "save_shape_network",
    "train_shape_network",
    # the reference on strikes
    "STRIKE_PARAMETERS",
    "StrikeSampling",
    "Struck",
    "sample_strikes",
    "simulate_strike_pairs",
    "strike_features",
    "strike_state",
]
