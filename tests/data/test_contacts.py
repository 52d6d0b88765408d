"""Who touches when: schedules that follow the object, and configurations of one frame."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dexprior.data.contacts import contact_schedule
from dexprior.geometry.transforms import IDENTITY_POSE
from dexprior.hands.mano import contact_configuration
from dexprior.types import HandTrajectory, ObjectTrajectory


def test_touches_move_with_the_object(examples, example_makers):
    hand, nut = examples[HandTrajectory], examples[ObjectTrajectory]
    contact = np.zeros((5, 5))
    contact[1:3, 0] = contact[4, 0] = contact[:, 3] = 1.0
    hand = dataclasses.replace(hand, contact=contact)
    schedule = contact_schedule([hand], nut)
    assert schedule.finger == ("thumb", "thumb", "ring")
    np.testing.assert_allclose(schedule.t_on, hand.t[[1, 4, 0]])
    np.testing.assert_allclose(schedule.t_off, hand.t[[2, 4, 4]])
    assert schedule.normal_force[1] == pytest.approx(hand.force[4, 0])
    moved_nut = dataclasses.replace(nut, pose=np.tile(IDENTITY_POSE, (5, 1)))
    np.testing.assert_allclose(contact_schedule([hand], moved_nut).point[1], hand.joints[4, 4])
    free = contact_schedule([dataclasses.replace(hand, contact=np.zeros((5, 5)))], nut)
    assert free.finger == ()


def test_a_configuration_has_points_only_where_it_touches(examples):
    hand = examples[HandTrajectory]
    made = contact_configuration(hand, 2)
    np.testing.assert_array_equal(made.touching, hand.contact[2] > 0.5)
    np.testing.assert_array_equal(made.points[made.touching], hand.joints[2, 4::4][made.touching])
    assert (made.points[~made.touching] == 0).all()
