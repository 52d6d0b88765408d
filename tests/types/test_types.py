"""A value that exists is valid: what is wrong is refused with the field and the value in one sentence."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import dexprior.types as types
from dexprior.errors import BadInput, UnknownName

TYPES = sorted(
    (c for c in map(types.__dict__.get, types.__all__) if dataclasses.is_dataclass(c)), key=lambda c: c.__name__
)


def array_fields(value: Any) -> list[str]:
    return [f.name for f in dataclasses.fields(value) if isinstance(getattr(value, f.name), np.ndarray)]


CASES = [
    (cls, f.name)
    for cls in TYPES
    for f in dataclasses.fields(cls)
    if "np.ndarray" in str(f.type) and cls is not types.Command
]
FLOATS = [(cls, name) for cls, name in CASES if str(cls.__dataclass_fields__[name].type).startswith("Float")]


def refused(value: Any, /, **changes: Any) -> str:
    with pytest.raises(BadInput) as caught:
        dataclasses.replace(value, **changes)
    return str(caught.value)


def changed(array: np.ndarray, index: Any, value: Any) -> np.ndarray:
    array = np.array(array)
    array[index] = value
    return array


def test_schemas_are_versioned_and_unique():
    schemas = [cls.schema for cls in TYPES]
    assert len(set(schemas)) == len(schemas)
    assert all(s.startswith("dexprior.") and s.rpartition("/")[2].isdigit() for s in schemas)


@pytest.mark.parametrize("cls", TYPES)
def test_values_and_their_arrays_are_read_only(cls, examples):
    value = examples[cls]
    field = dataclasses.fields(value)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, field, None)
    for name in array_fields(value):
        assert not getattr(value, name).flags.writeable, name


@pytest.mark.parametrize(("cls", "name"), CASES)
def test_arrays_are_copied(cls, name, examples):
    mine = np.array(getattr(examples[cls], name))
    value = dataclasses.replace(examples[cls], **{name: mine})
    kept = getattr(value, name).copy()
    mine[...] = 0
    np.testing.assert_array_equal(getattr(value, name), kept)


@pytest.mark.parametrize(("cls", "name"), CASES)
def test_another_number_of_axes_is_refused(cls, name, examples):
    wrong = np.array(getattr(examples[cls], name))[None]
    if (cls, name) == (types.Camera, "T_base_cam"):
        wrong = wrong[None]  # one axis more is that of a camera that moves
    message = refused(examples[cls], **{name: wrong})
    assert message.startswith(f"{cls.__name__}.{name} has shape {wrong.shape}, expected (")


@pytest.mark.parametrize(("cls", "name"), CASES)
def test_text_is_not_an_array(cls, name, examples):
    value = dataclasses.replace(examples[cls])
    shape = getattr(value, name).shape
    message = refused(value, **{name: np.full(shape, "x")})
    assert message.startswith(f"{cls.__name__}.{name}")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("cls", "name"), FLOATS)
def test_numbers_that_are_not_finite_are_refused(cls, name, bad, examples):
    array = np.array(getattr(examples[cls], name))
    array.flat[-1] = bad
    message = refused(examples[cls], **{name: array})
    assert message.startswith(
        f"{cls.__name__}.{name} holds 1 value(s) that are not finite; the first is {bad} at index"
    )


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (types.HandTrajectory, "joints"),
        (types.HandTrajectory, "valid"),
        (types.ObjectTrajectory, "pose"),
        (types.WrenchTrack, "wrench"),
        (types.JointTrajectory, "q"),
        (types.Channel, "value"),
        (types.Channel, "t_host"),
        (types.ContactSchedule, "point"),
    ],
)
def test_axes_of_one_name_must_agree(cls, name, examples):
    value = examples[cls]
    message = refused(value, **{name: np.array(getattr(value, name))[:-1]})
    assert f"{cls.__name__}.{name} has shape" in message
    assert "axis '" in message
    assert " here but " in message


@pytest.mark.parametrize(
    "cls", [types.HandTrajectory, types.ObjectTrajectory, types.WrenchTrack, types.JointTrajectory, types.Channel]
)
@pytest.mark.parametrize("step", [0.0, -1e-6])
def test_time_runs_forward(cls, step, examples):
    t = np.array(examples[cls].t)
    t[3] = t[2] + step
    assert refused(examples[cls], t=t).startswith(f"{cls.__name__}.t must increase strictly, but goes from 0.083333 s")


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (types.HandTrajectory, "wrist_pose"),
        (types.ObjectTrajectory, "pose"),
        (types.JointTrajectory, "ee_pose"),
        (types.ContactConfiguration, "wrist_pose"),
    ],
)
def test_quaternions_are_unit(cls, name, examples):
    pose = np.array(getattr(examples[cls], name))
    pose[..., 3:] *= 1.01
    assert f"{cls.__name__}.{name}: quaternion of norm 1.0100" in refused(examples[cls], **{name: pose})


def test_a_spread_is_one_number_a_joint_or_one_along_each_axis(examples):
    hand = examples[types.HandTrajectory]
    assert (hand.spread == hand.sigma[..., None]).all()
    along = np.stack([hand.sigma, 2 * hand.sigma, 3 * hand.sigma], axis=-1)
    assert (dataclasses.replace(hand, sigma=along).spread == along).all()
    assert refused(hand, sigma=along[..., :2]) == "HandTrajectory.sigma has shape (5, 21, 2), expected (time, 21)"


def test_messages_are_whole_sentences(examples):
    """Pinned texts; change them here when they change on purpose."""
    hand, contact = examples[types.HandTrajectory], examples[types.ContactSchedule]
    condition, sample = examples[types.PriorCondition], examples[types.VideoSample]
    millimetres = np.array(condition.cloud)
    millimetres[:, :3] = 1000.0
    assert [
        refused(hand, force=changed(hand.force, (1, 2), np.nan)),
        refused(hand, contact=changed(hand.contact, (0, 0), 1.5)),
        refused(hand, sigma=changed(hand.sigma, (0, 0), -0.5)),
        refused(hand, joints=hand.joints[:4]),
        refused(hand, finger_pose=hand.finger_pose[:, :44]),
        refused(hand, t=hand.t[::-1]),
        refused(hand, side="both"),
        refused(hand, wrist_pose=changed(hand.wrist_pose, (0, slice(3, None)), [0.0, 0.0, 0.0, 2.0])),
        refused(contact, finger=("thumb", "pinky")),
        refused(contact, finger=("thumb",)),
        refused(contact, side=("right",)),
        refused(contact, side=("right", "both")),
        refused(contact, t_off=np.array([0.05, 0.3])),
        refused(condition, cloud=millimetres),
        refused(condition, cloud=np.zeros((0, 6))),
        refused(sample, fps=0.0),
        refused(sample, frames=sample.frames[:4]),
    ] == [
        "HandTrajectory.force holds 1 value(s) that are not finite; the first is nan at index (1, 2). "
        "Frames without a measurement are marked in `valid`.",
        "HandTrajectory.contact: largest value 1.5 is above 1",
        "HandTrajectory.sigma: smallest value -0.5 is below 0",
        "HandTrajectory.joints has shape (4, 21, 3): axis 'time' is 4 here but 5 in t",
        "HandTrajectory.finger_pose has shape (5, 44), expected (time, 45)",
        "HandTrajectory.t must increase strictly, but goes from 0.166667 s to 0.125000 s at index 1",
        "HandTrajectory.side = 'both'; choices: left, right",
        "HandTrajectory.wrist_pose: quaternion of norm 2.0000; poses are [x y z qw qx qy qz] with a unit quaternion, "
        "scalar first",
        "ContactSchedule.finger = 'pinky'; choices: thumb, index, middle, ring, little",
        "ContactSchedule: 1 finger names for 2 touches",
        "ContactSchedule: 1 sides for 2 touches",
        "ContactSchedule.side = 'both'; choices: right, left",
        "ContactSchedule: touch 0 ends at 0.050 s before it starts at 0.100 s",
        "PriorCondition.cloud reaches 1000 m from the base: points are in metres in the base frame; a cloud in "
        "millimetres must be divided by 1000",
        "PriorCondition.cloud holds no points",
        "VideoSample.fps = 0.0: must be positive",
        "VideoSample: 4 frames, 5 hand poses, 5 object poses",
    ]


@pytest.mark.parametrize(
    ("cls", "name", "value", "message"),
    [
        (types.VideoSample, "frames", np.full((5, 32, 32, 3), 0.5), "holds float64 values that uint8 cannot keep"),
        (types.VideoSample, "frames", np.full((5, 32, 32, 3), 300), "holds int64 values that uint8 cannot keep"),
        (types.HandTrajectory, "valid", np.full(5, 0.7), "holds float64 values that bool cannot keep"),
        (types.HandTrajectory, "valid", np.full(5, np.nan), "holds float64 values that bool cannot keep"),
    ],
)
def test_no_value_is_changed_to_fit_a_dtype(cls, name, value, message, examples):
    assert message in refused(examples[cls], **{name: value})


def test_numbers_that_mean_the_same_are_converted(examples):
    sample = examples[types.VideoSample]
    again = dataclasses.replace(sample, frames=sample.frames.astype(np.int64))
    assert again.frames.dtype == np.uint8
    hand = dataclasses.replace(examples[types.HandTrajectory], valid=np.array([1, 0, 1, 1, 0]))
    assert hand.valid.tolist() == [True, False, True, True, False]
    assert dataclasses.replace(hand, betas=np.zeros(10, np.float32)).betas.dtype == np.float64


@pytest.mark.parametrize(
    "T", [np.diag([2.0, 1, 1, 1]), np.diag([1.0, 1, -1, 1]), np.zeros((4, 4))], ids=["scaled", "mirrored", "zero"]
)
def test_a_camera_pose_is_a_rotation(T, examples):
    assert refused(examples[types.Camera], T_base_cam=T) == (
        "Camera.T_base_cam: the upper-left 3x3 block is not a rotation"
    )


def test_a_camera_stands_still_or_has_a_pose_in_every_frame(examples):
    still, sample, view = examples[types.Camera], examples[types.VideoSample], examples[types.View]
    path = np.tile(still.T_base_cam, (5, 1, 1))
    path[:, 0, 3] += np.arange(5)
    moving = dataclasses.replace(still, T_base_cam=path)
    assert (still.moves, moving.moves) == (False, True)
    np.testing.assert_array_equal(still.poses(3), np.tile(still.T_base_cam, (3, 1, 1)))
    np.testing.assert_array_equal(moving.poses(7), path[[0, 1, 2, 3, 4, 4, 4]])  # it rests at the end of its path
    assert dataclasses.replace(sample, camera=moving).camera.moves
    short = dataclasses.replace(still, T_base_cam=path[:4])
    assert refused(sample, camera=short) == "VideoSample: 5 frames, but its camera moves through 4 poses"
    assert refused(view, camera=short) == "View 'side': 5 frames, but its camera moves through 4 poses"
    assert refused(still, T_base_cam=path[:0]) == "Camera.T_base_cam holds no pose"
    path[3, 0, 0] *= -1
    assert refused(still, T_base_cam=path) == "Camera.T_base_cam: the upper-left 3x3 block is not a rotation"


def test_a_clip_shows_one_hand_of_each_side_at_most(examples):
    sample, condition = examples[types.VideoSample], examples[types.PriorCondition]
    left = dataclasses.replace(sample.hand, side="left")
    both = dataclasses.replace(sample, hands=[left, sample.hand])
    assert [hand.side for hand in both.hands] == list(types.SIDES)  # in one order, however they were given
    assert both.of_side("left") is left
    assert sample.of_side("right") is sample.of_side(None) is sample.hand
    with pytest.raises(BadInput, match="the clip shows a right hand and a left hand: choose one by its side"):
        _ = both.hand
    with pytest.raises(BadInput, match="the clip shows a right hand: no left one"):
        sample.of_side("left")
    assert refused(sample, hands=()) == "VideoSample.hands holds no hand"
    assert refused(sample, hands=(left, left)) == "VideoSample.hands holds left and left: at most one hand of each side"
    start = condition.start[0]
    other = dataclasses.replace(start, side="left")
    asked = dataclasses.replace(condition, start=(other, start), target=(start, other))
    assert [hand.side for hand in asked.start + asked.target] == [*types.SIDES, *types.SIDES]
    assert refused(asked, target=(start,)) == "PriorCondition: a start of right and left, but a target of right"


def test_focal_lengths_are_positive(examples):
    K = changed(examples[types.Camera].K, (1, 1), -30.0)
    assert refused(examples[types.Camera], K=K) == "Camera.K: focal lengths 30, -30 must be positive"


def test_normals_are_unit(examples):
    cloud = np.array(examples[types.PriorCondition].cloud)
    cloud[:, 3:] *= 0.5
    assert "normals have norms 0.500 to 0.500, not 1" in refused(examples[types.PriorCondition], cloud=cloud)


def test_joint_names_count(examples):
    robot = examples[types.JointTrajectory]
    assert refused(robot, names=("a",)) == "JointTrajectory: 1 names for 2 joints"
    assert refused(robot, fingers=("a",)) == "JointTrajectory: 1 names for 2 fingers"


def test_what_fingertips_are_to_feel_is_a_probability_and_a_push(examples):
    robot = examples[types.JointTrajectory]
    assert "JointTrajectory.contact: largest value 1.5 is above 1" in refused(robot, contact=1.5 + 0 * robot.contact)
    assert "JointTrajectory.force: smallest value -2 is below 0" in refused(robot, force=-2.0 + 0 * robot.force)


def test_an_episode_has_a_wrench_for_every_frame(examples, example_makers):
    short = example_makers(n=3)[types.WrenchTrack]
    assert refused(examples[types.Episode], wrench=short) == "Episode: 5 frames but 3 wrenches"


def test_a_trace_knows_its_channels(examples):
    trace = examples[types.Trace]
    assert trace["tcp"] is trace.channels["tcp"]
    with pytest.raises(UnknownName, match="unknown channel 'wrenhc'; did you mean 'wrench'\\? Known: tcp, wrench"):
        trace["wrenhc"]
    assert refused(trace, channels={}) == "Trace holds no channels"


def test_commands_may_ask_for_nonsense_but_not_in_an_unknown_way():
    command = types.Command(seq=0, t=0.0, mode="tendon", value=np.array([1.0, np.nan]))
    assert not command.finite
    assert not types.Command(seq=0, t=0.0, mode="tendon", value=np.zeros(2), gripper=float("inf")).finite
    assert types.Command(seq=0, t=0.0, mode="tendon", value=np.zeros(2)).finite
    assert "choices: cartesian_velocity, joint_position, tendon" in refused(command, mode="jump")


def test_first_contact(examples):
    contact = examples[types.ContactSchedule]
    assert contact.onset() == 0.1
    assert contact.onset("index") == 0.2
    assert contact.onset("little") is None


def test_a_hand_that_touches_nothing():
    empty = types.ContactSchedule(
        side=(), finger=(), t_on=np.zeros(0), t_off=np.zeros(0), point=np.zeros((0, 3)), normal_force=np.zeros(0)
    )
    assert empty.onset() is None


def test_joint_orders_have_each_joint_once():
    assert len(set(types.HAND_JOINTS)) == 21
    assert len(set(types.MANO_JOINTS)) == 16
    assert [types.HAND_JOINTS[4 * k] for k in range(1, 6)] == [f"{f}_tip" for f in types.FINGERS]


def test_delassus_is_how_impulses_change_contact_velocity(examples):
    geometry = examples[types.ContactGeometry]
    J, W = geometry.jacobian[1], geometry.inverse_inertia[1]
    np.testing.assert_allclose(geometry.delassus[1], J @ W @ J.T)
