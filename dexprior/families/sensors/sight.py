"""A camera that sees points of objects only where nothing is in its way."""

from __future__ import annotations

from typing import Annotated

from dexprior.config import Ge, config

__all__ = ["SightConfig"]


@config
class SightConfig:
    """Which camera looks, and how near to a surface a point counts as lying on it."""

    camera: str = "front"
    """Name of a camera of the scene."""
    slack: Annotated[float, Ge(0)] = 0.003
    """A point is seen where its ray ends at most this far before it [m]: surfaces give way where they touch."""
    labels: bool = True
    """Whether points come with the body that they lie on, each body's at their places in the cloud. A camera says no
    such thing: without labels every reading's points come in an order that is drawn anew, and nothing stands for a body
    that is hidden."""
