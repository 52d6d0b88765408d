"""Grasps of clouds: opposite points, postures that touch, and objects that no hand takes."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_axis_angle
from dexprior.hands.skeleton import FINGER_RADIUS, forward
from dexprior.robots.human_hand import finger_pose_from_hinges
from dexprior.types.hand import FINGERS
from dexprior.worlds import grasping
from dexprior.worlds.grasping import grasp_cloud, hand_in_cloud
from dexprior.worlds.human_rig import REACHED, Contact


def _ellipsoid(radii, n=700):
    """Points and outward normals on an ellipsoid about the origin."""
    k = np.arange(n)
    z, turn = 1 - (2 * k + 1) / n, np.pi * (3 - np.sqrt(5)) * k
    unit = np.stack([np.sqrt(1 - z**2) * np.cos(turn), np.sqrt(1 - z**2) * np.sin(turn), z], axis=1)
    normals = unit / radii
    return np.concatenate([unit * radii, normals / np.linalg.norm(normals, axis=1, keepdims=True)], axis=1)


def _tube(radius, half, n=1200, wall=0.004):
    """The side of a mug: an outer and an inner wall."""
    rng = np.random.default_rng(0)
    turn, z = rng.uniform(0, 2 * np.pi, n), rng.uniform(-half, half, n)
    out = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    r = np.where(out > 0, radius, radius - wall)
    ring = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return np.column_stack([r[:, None] * ring, z, out[:, None] * ring, np.zeros(n)])


def _tips(grasp, yaw):
    """Fingertips and the whole hand in the cloud's frame."""
    joints = forward(grasp.wrist_pose, finger_pose_from_hinges(grasp.touch))
    joints = joints @ matrix_from_axis_angle(np.array([0.0, 0.0, yaw])).T
    return joints[[4 * (FINGERS.index(name) + 1) for name in grasp.fingers]], joints


@pytest.mark.parametrize(
    ("radii", "kind", "fingers"),
    [((0.013, 0.013, 0.018), "two-finger", 3), ((0.035, 0.035, 0.035), "power", 5)],
)
def test_the_fingertips_lie_on_the_surface_on_opposite_sides_above_the_table(radii, kind, fingers):
    """The cloud is a sample of the ellipsoid; the tips are measured against the ellipsoid itself."""
    grasp, yaw = grasp_cloud(_ellipsoid(np.array(radii)), kind, floor=-radii[2])
    tips, joints = _tips(grasp, yaw)
    assert len(grasp.fingers) == fingers
    assert grasp.error <= REACHED
    around = _ellipsoid(np.array(radii), 20000)[:, :3]
    apart = np.linalg.norm(tips[:, None] - around, axis=-1).min(axis=1)
    np.testing.assert_allclose(apart, FINGER_RADIUS, atol=0.004)
    thumb, *others = tips
    across = (np.mean(others, axis=0) - thumb) / np.linalg.norm(np.mean(others, axis=0) - thumb)
    assert all(tip @ across > 0 for tip in others)
    assert thumb @ across < 0
    assert joints[:, 2].min() > -radii[2]


def test_a_hollow_object_is_held_from_outside_with_no_finger_through_its_wall():
    cloud = _tube(0.04, 0.0475)
    grasp, yaw = grasp_cloud(cloud, "three-finger", floor=-0.0475)
    tips, joints = _tips(grasp, yaw)
    assert (np.hypot(tips[:, 0], tips[:, 1]) > 0.04).all()
    assert hand_in_cloud(joints, cloud) <= 0.004


def test_contacts_that_friction_cannot_hold_are_refused():
    def contact(finger, point, normal):
        return Contact(finger=finger, point=point, normal=normal)

    thumb = contact("thumb", (-0.02, 0.0, 0.0), (-1.0, 0.0, 0.0))
    assert grasping._balanced((thumb, contact("index", (0.02, 0.0, 0.0), (1.0, 0.0, 0.0))), 0.5)
    slanted = (float(np.cos(0.9)), 0.0, float(np.sin(0.9)))
    assert not grasping._balanced((thumb, contact("index", (0.02, 0.0, 0.0), slanted)), 0.5)
    assert grasping._balanced((thumb, contact("index", (0.02, 0.0, 0.0), slanted)), 2.0)
    assert not grasping._balanced((thumb, contact("index", (0.02, 0.03, 0.0), (1.0, 0.0, 0.0))), 0.5)


def test_an_object_that_no_hand_spans_or_whose_normals_point_inwards_has_no_grasp():
    with pytest.raises(BadInput, match=r"no two-finger grasp of an object of \d+ x \d+ x \d+ mm.*4 to 105 mm apart"):
        grasp_cloud(_ellipsoid(np.full(3, 0.2)), "two-finger", floor=-0.2)
    inward = _ellipsoid(np.full(3, 0.03)) * [1, 1, 1, -1, -1, -1]
    with pytest.raises(BadInput, match="check that the normals point outwards"):
        grasp_cloud(inward, "two-finger", floor=-0.03)
    with pytest.raises(BadInput, match="no power grasp of an object of 26 x 26 x 36 mm"):
        grasp_cloud(_ellipsoid(np.array([0.013, 0.013, 0.018])), "power", floor=-0.018)


def test_a_posture_that_is_too_far_from_its_contacts_is_refused_with_the_distance(monkeypatch):
    nearest = grasping.solve_grasp

    def lame(contacts, **more):
        """A hand whose contacts are 5 cm further than the object's."""
        away = tuple(
            Contact(finger=c.finger, point=tuple(p + 0.05 * n for p, n in zip(c.point, c.normal)), normal=c.normal)
            for c in contacts
        )
        return nearest(away, **more)

    monkeypatch.setattr(grasping, "solve_grasp", lame)
    monkeypatch.setattr(grasping, "_TRIED", 1)
    with pytest.raises(BadInput, match=r"no posture of the hand comes within 4 mm .* leaves (\d+) mm"):
        grasp_cloud(_ellipsoid(np.full(3, 0.045)), "two-finger", floor=-0.045)


def test_depth_of_a_hand_in_a_cloud():
    ball = _ellipsoid(np.full(3, 0.03), 3000)
    away = np.full((21, 3), [0.03 + FINGER_RADIUS + 0.001, 0.0, 0.0])
    assert hand_in_cloud(away, ball) < 0.001
    assert hand_in_cloud(away - [0.004, 0.0, 0.0], ball) == pytest.approx(0.003, abs=5e-4)
    assert hand_in_cloud(np.zeros((21, 3)), ball) == pytest.approx(0.03 + FINGER_RADIUS, abs=1e-3)
