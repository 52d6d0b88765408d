"""Scenes: what cannot be meant is refused, and inertias are those of the bodies."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.collision.shapes import PRESETS, CollisionScene, ContactWorlds, Side, preset
from dexprior.config import to_plain, validate
from dexprior.errors import ConfigError, UnknownName
from dexprior.worlds.pushing import PushingConfig

BALL = Side(shape="sphere", size=(0.02,), mass=0.1)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_compiles_and_survives_its_plain_form(name):
    scene = preset(name)
    worlds = ContactWorlds(scene, 1)
    assert worlds.bodies[0].moves.any()
    assert validate(CollisionScene, to_plain(scene)) == scene


def test_unknown_names_come_with_the_choices():
    with pytest.raises(UnknownName, match="striker_square"):
        preset("striker_sqare")
    with pytest.raises(UnknownName, match="capsule"):
        Side(shape="torus", size=(0.1,))
    with pytest.raises(UnknownName, match="resting"):
        Side(shape="sphere", size=(0.1,), motion="floating")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shape": "box", "size": (0.1, 0.1)}, "needs 3"),
        ({"shape": "box", "size": (0.1, 0.1, 0.0)}, "degenerate"),
        ({"shape": "sphere", "size": (float("nan"),)}, "degenerate"),
        ({"shape": "plane"}, "a plane is fixed"),
        ({"shape": "mesh"}, "required there"),
        ({"shape": "prism", "size": (0.1,)}, "contour"),
        ({"shape": "box", "size": (0.1, 0.1, 0.1), "motion": "resting"}, "only a prism"),
        ({"shape": "sphere", "size": (0.1,), "inertia": (1.0, 1.0, 1.0)}, "needs a mass"),
    ],
)
def test_a_side_that_cannot_be_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Side(**settings)


def test_motions_that_do_not_go_together_are_refused():
    with pytest.raises(ConfigError, match="swapped"):
        CollisionScene(object=Side(shape="sphere", size=(0.1,), motion="fixed"), other=BALL)
    with pytest.raises(ConfigError, match="choices: free, fixed"):
        CollisionScene(object=BALL, other=Side(shape="sphere", size=(0.1,), motion="planar"))


@pytest.mark.parametrize("shape", ["semi_cylinder", "square", "triangle"])
def test_a_striker_has_the_mass_and_inertia_of_the_striking_world(shape):
    world = PushingConfig(shape=shape)
    body, rod = ContactWorlds(preset(f"striker_{shape}"), 1).bodies
    expected = [1 / world.mass, 1 / world.mass, 0, 0, 0, 1 / world.inertia]
    np.testing.assert_allclose(body.inverse_inertia.diagonal(), expected, rtol=1e-6)
    np.testing.assert_allclose(rod.inverse_inertia.diagonal(), [1 / world.rod_mass] * 2 + [0] * 4, rtol=1e-9)


def test_a_tilted_inertia_is_told_in_body_axes():
    """A prism of unequal sides, turned in its contour: the body axes are not its principal ones."""
    c, s = np.cos(0.4), np.sin(0.4)
    corners = np.array([[-0.06, -0.02], [0.06, -0.02], [0.06, 0.02], [-0.06, 0.02]]) @ np.array([[c, s], [-s, c]])
    side = Side(shape="prism", size=(0.05,), contour=tuple(map(tuple, corners.tolist())), mass=1.0)
    body = ContactWorlds(CollisionScene(object=side, other=BALL), 1).bodies[0]
    principal = np.array([0.02**2 + 0.05**2, 0.06**2 + 0.05**2, 0.06**2 + 0.02**2]) / 3
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    expected = np.linalg.inv(turn @ np.diag(principal) @ turn.T)
    np.testing.assert_allclose(body.inverse_inertia[3:, 3:], expected, rtol=1e-6, atol=1e-6)
