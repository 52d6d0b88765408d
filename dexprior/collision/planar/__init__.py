"""Strikes and slides in the plane, thousands at once: a collision model at the impact, friction in between."""

from dexprior.collision.planar.identification import (
    FrictionEstimate,
    identify_ground_friction,
    identify_support_share,
    identify_torsional_friction,
)
from dexprior.collision.planar.rollout import PlanarStriker, SlidingStriker, object_velocity, rest_after, strike_contact
from dexprior.collision.planar.sliding import SlideConfig, friction_acceleration, slide_to_rest

__all__ = [
    # slides
    "SlideConfig",
    "friction_acceleration",
    "slide_to_rest",
    # strikes
    "PlanarStriker",
    "SlidingStriker",
    "object_velocity",
    "rest_after",
    "strike_contact",
    # identification
    "FrictionEstimate",
    "identify_ground_friction",
    "identify_support_share",
    "identify_torsional_friction",
]
