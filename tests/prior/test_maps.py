"""Control maps show each thing where the camera sees it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dexprior.data.stacks import resized_camera
from dexprior.geometry.transforms import project as project_pixels
from dexprior.prior.conditioning import condition_tensors
from dexprior.prior.maps import MAP_CHANNELS, control_maps, project
from dexprior.prior.motion import FINGERS, MOTION_SIZE, POINTS, WRIST, WRIST_ROT, joints_of, points_of

SIZE = 64
INDEX = 2  # channel of the index finger


@pytest.fixture(scope="module")
def scene(conditions):
    """Tensors of the first condition, and a motion of three frames that starts at its start."""
    given = condition_tensors(conditions[:1])
    motion = torch.zeros(1, 3, MOTION_SIZE)
    motion[..., WRIST.start : FINGERS.stop] = given["start"][:, None, :54]
    motion[..., POINTS] = given["points"].flatten(1)
    return given, motion, conditions[0].camera


def _maps(scene, motion=None, **kwargs):
    given, default, _ = scene
    return control_maps(default if motion is None else motion, given, SIZE, **kwargs)[0]


def _peak(image):
    row, column = np.unravel_index(int(image.argmax()), image.shape)
    return np.array([column, row]) + 0.5


def test_projection_is_that_of_the_geometry(scene):
    given, _, camera = scene
    points = np.random.default_rng(0).uniform([0.3, -0.2, 0.0], [0.6, 0.2, 0.3], (40, 3))
    shares = project(given["camera"], torch.from_numpy(points[None]).float())[0].numpy()
    pixels = project_pixels(camera.K, camera.T_base_cam, points)
    np.testing.assert_allclose(shares * camera.width, pixels, atol=1e-3)
    larger = resized_camera(camera, 4 * camera.width)  # a camera of another size gives the same shares
    np.testing.assert_allclose(
        project_pixels(larger.K, larger.T_base_cam, points) / larger.width, pixels / camera.width
    )


def test_maps_are_shares_of_the_right_shape(scene):
    maps = _maps(scene)
    assert maps.shape == (3, MAP_CHANNELS, SIZE, SIZE)
    assert maps.min() >= 0
    assert maps.max() <= 1


def test_the_maximum_of_the_objects_map_lies_at_its_projected_centre(scene):
    _, motion, camera = scene
    camera = resized_camera(camera, SIZE)
    centre = project_pixels(camera.K, camera.T_base_cam, points_of(motion)[0, 0].mean(0).numpy())
    np.testing.assert_allclose(_peak(_maps(scene)[0, 7]), centre, atol=0.51)


@pytest.mark.parametrize("finger", range(5))
def test_the_maximum_of_a_fingers_map_lies_at_one_of_its_joints(scene, finger):
    _, motion, camera = scene
    camera = resized_camera(camera, SIZE)
    joints = joints_of(motion)[0, 0, 1 + 4 * finger : 5 + 4 * finger].numpy()
    pixels = project_pixels(camera.K, camera.T_base_cam, joints)
    image = _maps(scene)[0, 1 + finger]
    assert np.linalg.norm(pixels - _peak(image), axis=1).min() < 2 * 0.03 * SIZE  # two widths: the four overlap
    inside = pixels[((pixels > 0) & (pixels < SIZE)).all(axis=1)].astype(int)
    assert all(image[row, column] > 0.85 for column, row in inside)


def test_bending_one_finger_changes_one_map(scene):
    bent = scene[1].clone()
    bent[..., FINGERS.start + 2] += 0.8  # the index finger's first joint, about z
    changed = (_maps(scene, bent) - _maps(scene)).abs().amax((0, 2, 3)) > 1e-4
    assert changed.nonzero().flatten().tolist() == [INDEX]


def test_the_objects_points_move_with_it_and_the_rest_stays(scene):
    given, motion, camera = scene
    moved = motion.clone()
    moved[:, 1:, POINTS] += torch.tensor([0.0, 0.08, 0.05]).repeat(16)
    maps = _maps(scene, moved)
    assert torch.equal(maps[0], _maps(scene)[0])
    assert torch.equal(maps[1, 9], maps[0, 9])
    camera = resized_camera(camera, SIZE)
    places = given["points"][0].numpy() + np.array([0.0, 0.08, 0.05])
    pixels = project_pixels(camera.K, camera.T_base_cam, places)
    weights = maps[1, 8].numpy()
    grid = np.stack(np.meshgrid(np.arange(SIZE) + 0.5, np.arange(SIZE) + 0.5), -1)
    middle = (weights[..., None] * grid).sum((0, 1)) / weights.sum()
    np.testing.assert_allclose(middle, pixels.mean(0), atol=1.0)


def test_what_is_not_known_is_not_drawn(scene):
    known = torch.tensor([[[True, True], [False, True], [True, False]]])
    maps, whole = _maps(scene, known=known), _maps(scene)
    assert torch.equal(maps[0], whole[0])
    assert not maps[1, :7].any()
    assert torch.equal(maps[1, 7:], whole[1, 7:])
    assert not maps[2, 7:9].any()
    assert torch.equal(maps[:, 9], whole[:, 9])


def test_the_fixed_map_shows_what_does_not_move(scene):
    given, motion, _ = scene
    swapped = {**given, "moves": ~given["moves"]}
    assert not torch.equal(control_maps(motion, swapped, SIZE)[0, 0, 9], _maps(scene)[0, 9])
    none = {**given, "moves": torch.ones_like(given["moves"])}
    assert not control_maps(motion, none, SIZE)[:, :, 9].any()


def test_maps_pass_gradients_to_the_motion(scene):
    motion = scene[1].clone().requires_grad_()
    _maps(scene, motion).square().sum().backward()
    for group in (WRIST, WRIST_ROT, FINGERS, POINTS):
        assert motion.grad[..., group].abs().max() > 0
