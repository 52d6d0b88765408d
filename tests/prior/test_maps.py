"""Control maps show each thing where the camera sees it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dexprior.data.stacks import resized_camera
from dexprior.geometry.rotations import matrix_from_axis_angle
from dexprior.geometry.torch_camera import project
from dexprior.geometry.transforms import project as project_pixels
from dexprior.prior.conditioning import condition_tensors
from dexprior.prior.maps import control_maps, map_channels
from dexprior.prior.motion import HANDS, POINTS, joints_of, motion_size, points_of

SIZE = 64
INDEX = 2  # channel of the index finger
FINGERS = HANDS[0].fingers


@pytest.fixture(scope="module")
def scene(conditions):
    """Tensors of the first condition, and a motion of three frames that starts at its start."""
    given = condition_tensors(conditions[:1])
    motion = torch.zeros(1, 3, motion_size(1))
    motion[..., HANDS[0].pose] = given["start"][:, :, :54]
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
    assert maps.shape == (3, map_channels(1), SIZE, SIZE)
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
    joints = joints_of(motion, "right")[0, 0, 1 + 4 * finger : 5 + 4 * finger].numpy()
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


def test_a_point_that_stands_still_moves_in_the_picture_of_a_camera_that_moves(scene):
    """As the pinhole model says, frame by frame; what of the scene is fixed moves, too."""
    given, motion, camera = scene
    path = np.tile(camera.T_base_cam, (3, 1, 1))
    path[1] = path[1] @ _turned([0.0, 0.08, 0.0])
    path[2, :3, 3] += path[2, :3, 0] * 0.06
    walks = replace(camera, T_base_cam=path)
    poses = torch.from_numpy(path[:, :3].reshape(3, 12)).float()
    along = {**given, "camera": torch.cat([given["camera"][:, None, :4].expand(-1, 3, -1), poses[None]], dim=-1)}
    maps = control_maps(motion, along, SIZE)[0]
    torch.testing.assert_close(maps[0], _maps(scene)[0])
    centre = points_of(motion)[0].mean(dim=1, keepdim=True).numpy()
    pixels = project_pixels(walks.K, walks.T_base_cam, centre)[:, 0] * SIZE / walks.width
    peaks = np.array([_peak(maps[k, 7]) for k in range(3)])
    np.testing.assert_allclose(peaks, pixels, atol=0.51)
    assert np.abs(peaks[1:] - peaks[0]).max(axis=1).min() > 2.0
    assert (maps[1:, 9] - maps[:1, 9]).abs().amax(dim=(1, 2)).min() > 0.1


def _turned(axis_angle):
    T = np.eye(4)
    T[:3, :3] = matrix_from_axis_angle(np.array(axis_angle))
    return T


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


def test_a_second_hand_has_maps_of_its_own_and_leaves_the_others_alone(scene):
    """Those of the mirror image of the first hand are the mirror image of its maps, for a camera that looks along x."""
    given, motion, _ = scene
    both = torch.cat([motion, torch.zeros(1, 3, motion_size(2) - motion_size(1))], dim=-1)
    axial = torch.tensor([1.0, -1.0, -1.0])
    both[..., HANDS[1].wrist] = motion[..., HANDS[0].wrist] * torch.tensor([1.0, -1.0, 1.0])
    both[..., HANDS[1].rotation] = motion[..., HANDS[0].rotation] * torch.tensor([-1.0, 1.0, -1.0, 1.0, -1.0, 1.0])
    both[..., HANDS[1].fingers] = (motion[..., HANDS[0].fingers].unflatten(-1, (15, 3)) * axial).flatten(-2)
    eye = torch.zeros(1, 16)
    eye[0, :4] = torch.tensor([0.8, 0.8, 0.5, 0.5])
    eye[0, 4:] = torch.tensor([[0.0, 0, -1, 1.0], [1, 0, 0, 0], [0, -1, 0, 0.1]]).flatten()
    asked = {**given, "camera": eye, "shows": torch.tensor([[True, True]])}
    maps = control_maps(both, asked, SIZE, sides=("right", "left"))[0]
    assert maps.shape[1] == map_channels(2) == 22
    torch.testing.assert_close(maps[:, :15], control_maps(motion, {**given, "camera": eye}, SIZE)[0])
    torch.testing.assert_close(maps[:, 15:], maps[:, :7].flip(-1), atol=1e-5, rtol=1e-4)
    assert maps[:, 15:].amax() > 0.9
    alone = control_maps(both, {**asked, "shows": torch.tensor([[False, True]])}, SIZE, sides=("right", "left"))[0]
    assert not alone[:, :7].any()
    assert torch.equal(alone[:, 7:], maps[:, 7:])
    unknown = torch.tensor([[[True, True, False]] * 3])
    hidden = control_maps(both, asked, SIZE, sides=("right", "left"), known=unknown)[0]
    assert not hidden[:, 15:].any()
    assert torch.equal(hidden[:, :15], maps[:, :15])


def test_maps_pass_gradients_to_the_motion(scene):
    motion = scene[1].clone().requires_grad_()
    _maps(scene, motion).square().sum().backward()
    for group in (HANDS[0].wrist, HANDS[0].rotation, FINGERS, POINTS):
        assert motion.grad[..., group].abs().max() > 0
