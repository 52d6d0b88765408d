"""Poses compose like the matrices they stand for, and a pinhole camera sees what a ruler says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dexprior.geometry.rotations import rotation_angle
from dexprior.geometry.transforms import (
    IDENTITY_POSE,
    fit_rigid,
    interpolate_poses,
    into_camera,
    invert_pose,
    look_at,
    matrix_from_pose,
    pose_from_matrix,
    pose_multiply,
    project,
    transform_points,
)

points = arrays(np.float64, (4, 3), elements=st.floats(-5, 5))


@st.composite
def poses(draw):
    q = draw(arrays(np.float64, 4, elements=st.floats(-1, 1)).filter(lambda q: np.linalg.norm(q) > 0.1))
    return np.concatenate([draw(arrays(np.float64, 3, elements=st.floats(-5, 5))), q / np.linalg.norm(q)])


@given(poses(), poses(), poses())
def test_group_axioms(a, b, c):
    np.testing.assert_allclose(pose_multiply(pose_multiply(a, b), c), pose_multiply(a, pose_multiply(b, c)), atol=1e-10)
    np.testing.assert_allclose(pose_multiply(a, IDENTITY_POSE), a, atol=1e-12)
    np.testing.assert_allclose(pose_multiply(IDENTITY_POSE, a), a, atol=1e-12)
    np.testing.assert_allclose(pose_multiply(a, invert_pose(a)), IDENTITY_POSE, atol=1e-10)
    np.testing.assert_allclose(pose_multiply(invert_pose(a), a), IDENTITY_POSE, atol=1e-10)


@given(poses(), poses(), points)
def test_poses_act_like_their_matrices(a, b, x):
    A, B = matrix_from_pose(a), matrix_from_pose(b)
    np.testing.assert_allclose(matrix_from_pose(pose_multiply(a, b)), A @ B, atol=1e-10)
    np.testing.assert_allclose(transform_points(a, x), x @ A[:3, :3].T + A[:3, 3], atol=1e-10)
    np.testing.assert_allclose(transform_points(invert_pose(a), transform_points(a, x)), x, atol=1e-9)
    np.testing.assert_allclose(matrix_from_pose(pose_from_matrix(A)), A, atol=1e-9)


def test_one_pose_times_many():
    many = np.tile(IDENTITY_POSE, (3, 1)) + np.array([[1.0, 2, 3, 0, 0, 0, 0]])
    a = np.array([1.0, 0, 0, np.cos(0.3), 0, 0, np.sin(0.3)])
    assert pose_multiply(a, many).shape == pose_multiply(many, a).shape == (3, 7)
    np.testing.assert_allclose(pose_multiply(a, many)[1], pose_multiply(a, many[1]))
    np.testing.assert_allclose(pose_multiply(many, a)[1], pose_multiply(many[1], a))


@given(st.lists(poses(), min_size=2, max_size=5))
def test_interpolation_passes_through_what_is_known(known):
    known = np.stack(known)
    t = np.arange(len(known)) * 0.5
    found = interpolate_poses(t, t, known)
    np.testing.assert_allclose(found[:, :3], known[:, :3], atol=1e-9)
    np.testing.assert_allclose(rotation_angle(found[:, 3:], known[:, 3:]), 0, atol=1e-6)
    before, after = interpolate_poses(np.array([-3.0, 99.0]), t, known)
    np.testing.assert_allclose(before, found[0], atol=1e-9)
    np.testing.assert_allclose(after, found[-1], atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(found[:, 3:], axis=1), 1.0)


def test_interpolation_in_between():
    quarter = np.array([np.cos(np.pi / 4), 0, 0, np.sin(np.pi / 4)])
    known = np.stack([IDENTITY_POSE, np.array([2.0, 0, 0, *quarter]), np.array([2.0, 4.0, 0, *-quarter])])
    found = interpolate_poses(np.array([0.25, 1.5]), np.array([0.0, 1.0, 2.0]), known)
    np.testing.assert_allclose(found[0], [0.5, 0, 0, np.cos(np.pi / 16), 0, 0, np.sin(np.pi / 16)])
    np.testing.assert_allclose(found[1, :3], [2.0, 2.0, 0])
    assert rotation_angle(found[1, 3:], quarter) < 1e-7  # -q is q: no turn on the way


def test_interpolation_of_one_pose_is_that_pose():
    np.testing.assert_allclose(
        interpolate_poses(np.array([0.0, 5.0]), np.array([1.0]), IDENTITY_POSE[None]), [IDENTITY_POSE] * 2
    )


def test_a_pinhole_by_hand():
    """Focal length 100 px: at 2 m, 0.5 m to the right is 25 px right of the centre, and 0.2 m down 10 px down."""
    K = np.array([[100.0, 0, 32], [0, 100, 24], [0, 0, 1]])
    np.testing.assert_allclose(project(K, np.eye(4), np.array([0.5, 0.2, 2.0])), [57.0, 34.0])
    np.testing.assert_allclose(project(K, np.eye(4), np.array([0.0, 0.0, 7.0])), [32.0, 24.0])


def test_nothing_behind_the_camera_is_seen():
    pixels = project(np.eye(3), np.eye(4), np.array([[0.0, 0, -1], [0, 0, 0], [0, 0, 1]]))
    assert np.isnan(pixels[:2]).all()
    assert np.isfinite(pixels[2]).all()


@given(poses(), points)
def test_moving_the_world_with_the_camera_changes_no_picture(pose, x):
    K = np.array([[100.0, 0, 32], [0, 100, 24], [0, 0, 1]])
    x = x + np.array([0.0, 0.0, 8.0])
    moved = project(K, matrix_from_pose(pose), transform_points(pose, x))
    np.testing.assert_allclose(moved, project(K, np.eye(4), x), atol=1e-7)


def test_a_camera_looks_at_its_target_the_right_way_up():
    eye, target = np.array([0.9, -0.2, 0.4]), np.array([0.4, 0.0, 0.1])
    T = look_at(eye, target)
    np.testing.assert_allclose(T[:3, :3] @ T[:3, :3].T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(T[:3, :3]), 1.0)
    K = np.array([[50.0, 0, 16], [0, 50, 16], [0, 0, 1]])
    centre, above = project(K, T, np.stack([target, target + np.array([0, 0, 0.05])]))
    np.testing.assert_allclose(centre, [16, 16], atol=1e-9)
    assert above[1] < centre[1]  # rows count downwards
    assert above[0] == pytest.approx(centre[0])


def test_a_camera_that_moves_sees_each_frame_from_its_pose_in_it():
    rng = np.random.default_rng(0)
    points = rng.uniform(-0.2, 0.2, (4, 7, 3))
    path = np.stack([look_at(eye, np.zeros(3)) for eye in rng.uniform(0.5, 1.0, (4, 3))])
    K = np.array([[50.0, 0, 16], [0, 50, 16], [0, 0, 1]])
    for k in range(4):
        np.testing.assert_allclose(project(K, path, points)[k], project(K, path[k], points[k]))
        np.testing.assert_allclose(into_camera(path, points)[k], into_camera(path[k], points[k]))
    local = np.linalg.inv(path[2]) @ [*points[2, 3], 1.0]
    np.testing.assert_allclose(into_camera(path, points)[2, 3], local[:3], atol=1e-12)


@given(poses())
def test_the_rigid_fit_of_moved_points_is_the_motion(pose):
    local = np.random.default_rng(0).normal(size=(7, 3))
    found = fit_rigid(local, transform_points(pose, local))
    np.testing.assert_allclose(found[:3], pose[:3], atol=1e-9)
    assert rotation_angle(found[3:], pose[3:]) < 1e-6


def test_a_rigid_fit_is_a_rotation_even_of_mirrored_or_flat_points_and_none_is_better():
    rng = np.random.default_rng(1)
    local = rng.normal(size=(5, 9, 3))
    wanted = local * [1.0, 1.0, -1.0] + 0.1 * rng.normal(size=local.shape)
    wanted[0] = local[0] * [1.0, 1.0, 0.0]
    found = fit_rigid(local, wanted)
    np.testing.assert_allclose(np.linalg.det(matrix_from_pose(found)[:, :3, :3]), 1.0)

    def misfit(pose):
        return ((transform_points(pose, local) - wanted) ** 2).sum(axis=(1, 2))

    for _ in range(50):
        step = np.concatenate([0.02 * rng.normal(size=3), [1.0], 0.02 * rng.normal(size=3)])
        step[3:] /= np.linalg.norm(step[3:])
        assert (misfit(found) <= misfit(pose_multiply(found, step)) + 1e-9).all()
