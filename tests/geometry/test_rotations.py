"""Rotations form a group, all representations describe the same ones, and torch agrees with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.transform import Rotation

from dexprior.geometry import rotations as R
from dexprior.geometry import torch_rotations as T

vectors = arrays(np.float64, 3, elements=st.floats(-10, 10))
axis_angles = arrays(np.float64, 3, elements=st.floats(-1.8, 1.8))  # |v| < pi
IDENTITY = np.array([1.0, 0.0, 0.0, 0.0])


@st.composite
def quats(draw):
    v = draw(arrays(np.float64, 4, elements=st.floats(-1, 1)).filter(lambda q: np.linalg.norm(q) > 0.1))
    return v / np.linalg.norm(v)


def same_rotation(a, b, atol=1e-9) -> None:
    """q and -q are one rotation."""
    np.testing.assert_allclose(np.abs((np.asarray(a) * np.asarray(b)).sum(-1)), 1.0, atol=atol)


@given(quats(), quats(), quats())
def test_multiplication_is_associative(a, b, c):
    np.testing.assert_allclose(
        R.quat_multiply(R.quat_multiply(a, b), c), R.quat_multiply(a, R.quat_multiply(b, c)), atol=1e-12
    )


@given(quats())
def test_identity_and_inverse(q):
    np.testing.assert_allclose(R.quat_multiply(q, IDENTITY), q)
    np.testing.assert_allclose(R.quat_multiply(IDENTITY, q), q)
    np.testing.assert_allclose(R.quat_multiply(q, R.quat_conjugate(q)), IDENTITY, atol=1e-12)


@given(quats(), quats(), vectors)
def test_a_product_rotates_by_the_second_then_by_the_first(a, b, v):
    np.testing.assert_allclose(
        R.quat_rotate(R.quat_multiply(a, b), v), R.quat_rotate(a, R.quat_rotate(b, v)), atol=1e-9
    )


@given(quats(), vectors, vectors)
def test_rotations_keep_lengths_angles_and_handedness(q, u, v):
    ru, rv = R.quat_rotate(q, u), R.quat_rotate(q, v)
    np.testing.assert_allclose(ru @ rv, u @ v, atol=1e-9)
    np.testing.assert_allclose(np.cross(ru, rv), R.quat_rotate(q, np.cross(u, v)), atol=1e-8)


@given(quats(), quats())
def test_matrices_are_a_homomorphism_of_quaternions(a, b):
    A, B = R.matrix_from_quat(a), R.matrix_from_quat(b)
    np.testing.assert_allclose(A @ A.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(A), 1.0)
    np.testing.assert_allclose(A @ B, R.matrix_from_quat(R.quat_multiply(a, b)), atol=1e-12)


@given(quats())
def test_scipy_agrees(q):
    theirs = Rotation.from_quat(q[[1, 2, 3, 0]])
    np.testing.assert_allclose(R.matrix_from_quat(q), theirs.as_matrix(), atol=1e-12)
    np.testing.assert_allclose(
        R.quat_from_axis_angle(theirs.as_rotvec()) * np.sign(q @ R.quat_from_axis_angle(theirs.as_rotvec())),
        q,
        atol=1e-9,
    )


@given(quats())
def test_every_representation_and_back(q):
    matrix = R.matrix_from_quat(q)
    same_rotation(R.quat_from_matrix(matrix), q)
    assert R.quat_from_matrix(matrix)[0] >= 0
    np.testing.assert_allclose(R.matrix_from_rot6d(R.rot6d_from_matrix(matrix)), matrix, atol=1e-12)
    same_rotation(R.quat_from_axis_angle(R.axis_angle_from_quat(q)), q)
    np.testing.assert_allclose(R.matrix_from_axis_angle(R.axis_angle_from_matrix(matrix)), matrix, atol=1e-7)


@pytest.mark.parametrize("axis", np.eye(3))
@pytest.mark.parametrize("angle", [np.pi, np.pi - 1e-9, -np.pi + 1e-9, 1e-12, 0.0, np.pi / 2])
def test_half_turns_and_no_turn(axis, angle):
    matrix = Rotation.from_rotvec(angle * axis).as_matrix()
    same_rotation(R.quat_from_matrix(matrix), R.quat_from_axis_angle(angle * axis))
    np.testing.assert_allclose(R.matrix_from_axis_angle(R.axis_angle_from_matrix(matrix)), matrix, atol=1e-8)


@given(axis_angles)
def test_logarithm_inverts_the_exponential(v):
    np.testing.assert_allclose(R.axis_angle_from_quat(R.quat_from_axis_angle(v)), v, atol=1e-7)
    assert np.linalg.norm(R.axis_angle_from_quat(-R.quat_from_axis_angle(v))) <= np.pi + 1e-12


def test_tiny_rotations_keep_their_size():
    v = np.array([1e-9, -2e-9, 3e-9])
    np.testing.assert_allclose(R.axis_angle_from_quat(R.quat_from_axis_angle(v)), v, rtol=1e-6)


@given(quats(), quats())
def test_angle_is_a_metric_on_rotations(a, b):
    angle = R.rotation_angle(a, b)
    assert 0 <= angle <= np.pi
    np.testing.assert_allclose(angle, R.rotation_angle(b, -a), atol=1e-7)
    relative = R.axis_angle_from_quat(R.quat_multiply(R.quat_conjugate(a), b))
    np.testing.assert_allclose(angle, np.linalg.norm(relative), atol=1e-6)


@given(quats(), quats(), st.floats(0, 1))
def test_slerp_starts_at_a_ends_at_b_and_turns_steadily(a, b, u):
    same_rotation(R.quat_slerp(a, b, np.array(0.0)), a)
    same_rotation(R.quat_slerp(a, b, np.array(1.0)), b)
    whole = R.rotation_angle(a, b)
    np.testing.assert_allclose(R.rotation_angle(a, R.quat_slerp(a, b, np.array(u))), u * whole, atol=1e-6)


@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (0,)])
def test_all_functions_are_batched(shape):
    rng = np.random.default_rng(0)
    v = rng.normal(size=(*shape, 3))
    q = R.quat_from_axis_angle(v)
    assert q.shape == (*shape, 4)
    matrix = R.matrix_from_quat(q)
    assert matrix.shape == (*shape, 3, 3)
    np.testing.assert_allclose(R.matrix_from_axis_angle(v), matrix, atol=1e-12)
    assert R.quat_from_matrix(matrix).shape == (*shape, 4)
    assert R.rot6d_from_matrix(matrix).shape == (*shape, 6)
    assert R.matrix_from_rot6d(R.rot6d_from_matrix(matrix)).shape == (*shape, 3, 3)
    assert R.rotation_angle(q, q).shape == shape
    assert R.quat_slerp(q, q, np.full(shape, 0.5)).shape == (*shape, 4)


def test_torch_has_the_same_names():
    assert set(T.__all__) <= set(R.__all__)


@given(arrays(np.float64, (3, 3), elements=st.floats(-3, 3)))
def test_torch_agrees_on_axis_angles(v):
    ours = T.matrix_from_axis_angle(torch.from_numpy(v)).numpy()
    np.testing.assert_allclose(ours, R.matrix_from_axis_angle(v), atol=1e-7)


@given(quats(), st.floats(0.1, 10))
def test_torch_agrees_on_quaternions_of_any_norm(q, scale):
    matrix = T.matrix_from_quat(torch.from_numpy(scale * q))
    np.testing.assert_allclose(matrix.numpy(), R.matrix_from_quat(scale * q), atol=1e-12)
    np.testing.assert_allclose(T.rot6d_from_matrix(matrix).numpy(), R.rot6d_from_matrix(matrix.numpy()))


@given(quats(), quats())
def test_torch_agrees_on_products_and_their_angles(p, q):
    product = T.quat_multiply(torch.from_numpy(p), torch.from_numpy(q))
    np.testing.assert_allclose(product.numpy(), R.quat_multiply(p, q), atol=1e-12)
    turn = T.axis_angle_from_quat(product)
    np.testing.assert_allclose(T.matrix_from_axis_angle(turn).numpy(), R.matrix_from_quat(product.numpy()), atol=1e-7)
    assert turn.norm() <= np.pi + 1e-9


@given(arrays(np.float64, 6, elements=st.floats(-2, 2)))
def test_torch_agrees_on_six_numbers(d):
    x, y = d[:3], d[3:]
    if np.linalg.norm(np.cross(x, y)) < 1e-2:
        return
    ours = T.matrix_from_rot6d(torch.from_numpy(d)).numpy()
    np.testing.assert_allclose(ours, R.matrix_from_rot6d(d), atol=1e-9)
    np.testing.assert_allclose(ours @ ours.T, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(np.linalg.det(ours), 1.0)


def test_torch_exponential_has_a_gradient_at_zero():
    v = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    T.matrix_from_axis_angle(v)[2, 1].backward()
    np.testing.assert_allclose(v.grad.numpy(), [1.0, 0.0, 0.0], atol=1e-8)


@pytest.mark.parametrize("period", [2 * np.pi, np.pi / 2])
def test_a_wrapped_angle_is_the_smallest_that_is_equivalent(period):
    angle = np.linspace(-12.0, 12.0, 401)
    wrapped = R.wrap_angle(angle, period)
    turns = (angle - wrapped) / period
    np.testing.assert_allclose(turns, np.round(turns), atol=1e-9)
    assert (wrapped >= -period / 2).all()
    assert (wrapped < period / 2).all()
