"""ROS bags, without ROS: out and back, and what other recorders leave in them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dexprior.data.traces import ChannelLayout, export_traces, import_trace
from dexprior.errors import BadInput
from dexprior.types import Channel, Trace

pytest.importorskip("rosbags")

from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_typestore

STORE = get_typestore(Stores.ROS2_HUMBLE)
S = 10**9


@pytest.mark.parametrize("out", ["a.bag", "a"])
def test_a_trace_goes_out_and_comes_back(out, trace, same, tmp_path):
    """The fixture's clocks are whole nanoseconds, which is what a bag holds."""
    lost = export_traces([trace], "rosbag", tmp_path / out)
    assert "nanoseconds" in lost[0]
    same(trace, import_trace(tmp_path / out, "rosbag"))
    with pytest.raises(BadInput, match="exists"):
        export_traces([trace], "rosbag", tmp_path / out)


def make(kind, **fields):
    return STORE.types[kind](**fields)


def header(seconds=0.0, frame=""):
    ns = round(seconds * S)
    return make(
        "std_msgs/msg/Header", frame_id=frame, stamp=make("builtin_interfaces/msg/Time", sec=ns // S, nanosec=ns % S)
    )


def joints(seconds, names, position, velocity=()):
    return make(
        "sensor_msgs/msg/JointState", header=header(seconds), name=list(names), position=np.array(position, float),
        velocity=np.array(velocity, float), effort=np.empty(0),
    )  # fmt: skip


def wrench(seconds, force, frame="ft"):
    vectors = [make("geometry_msgs/msg/Vector3", x=a, y=b, z=c) for a, b, c in (force, (0.1, 0.2, 0.3))]
    body = make("geometry_msgs/msg/Wrench", force=vectors[0], torque=vectors[1])
    return make("geometry_msgs/msg/WrenchStamped", header=header(seconds, frame), wrench=body)


def array(values, offset=0):
    layout = make("std_msgs/msg/MultiArrayLayout", dim=[], data_offset=offset)
    return make("std_msgs/msg/Float64MultiArray", layout=layout, data=np.array(values, float))


def trajectory(seconds, offsets, positions):
    none = np.empty(0)
    points = [
        make(
            "trajectory_msgs/msg/JointTrajectoryPoint", positions=np.array(q, float), velocities=none,
            accelerations=none, effort=none,
            time_from_start=make("builtin_interfaces/msg/Duration", sec=int(dt), nanosec=round((dt % 1) * S)),
        )
        for dt, q in zip(offsets, positions)
    ]  # fmt: skip
    return make("trajectory_msgs/msg/JointTrajectory", header=header(seconds), joint_names=["a"], points=points)


def bag(path, rows):
    """A ROS 2 bag of (topic, receive time [s], message)."""
    with Writer2(path, version=9) as writer:
        links = {}
        for topic, host, message in rows:
            kind = message.__msgtype__
            if topic not in links:
                links[topic] = writer.add_connection(topic, kind, typestore=STORE)
            writer.write(links[topic], round(host * S), STORE.serialize_cdr(message, kind))
    return path


def test_joint_states_become_a_channel_a_part_with_both_clocks(tmp_path):
    rows = [("/joint_states", 50 + k, joints(k + 1, "ab", [k, -k], [k / 2, 0])) for k in range(3)]
    trace = import_trace(bag(tmp_path / "a", rows), "rosbag")
    position, velocity = trace["joint_states.position"], trace["joint_states.velocity"]
    np.testing.assert_array_equal(position.value, [[0, 0], [1, -1], [2, -2]])
    np.testing.assert_array_equal(position.t, [1, 2, 3])
    np.testing.assert_array_equal(position.t_host, [50, 51, 52])
    assert (position.unit, velocity.unit, position.kind) == ("rad", "rad/s", "measured")
    assert set(trace.channels) == {"joint_states.position", "joint_states.velocity"}  # nobody measured effort
    assert trace.info["names"]["joint_states.position"] == ["a", "b"]


def test_two_publishers_of_joint_states_are_two_channels(tmp_path):
    rows = [("/j", k, joints(k + 1, names, [k])) for k, names in enumerate("abab")]
    trace = import_trace(bag(tmp_path / "a", rows), "rosbag")
    np.testing.assert_array_equal(trace["j.position"].value.ravel(), [0, 2])
    np.testing.assert_array_equal(trace["j.position.b"].value.ravel(), [1, 3])


def test_frames_come_from_headers_and_commands_from_names(tmp_path):
    rows = [
        ("/ft/wrench", 1, wrench(1, (1.0, 2.0, 3.0))),
        ("/arm/command", 1.0, array([1, 2])),
        ("/arm/commander_state", 1.0, array([9, 1, 2], offset=1)),
    ]
    trace = import_trace(bag(tmp_path / "a", rows), "rosbag")
    np.testing.assert_allclose(trace["ft.wrench"].value, [[1, 2, 3, 0.1, 0.2, 0.3]])
    assert (trace["ft.wrench"].frame, trace["ft.wrench"].unit) == ("ft", "N, N m")
    assert trace["arm.command"].kind == "commanded"
    assert trace["arm.commander_state"].kind == "measured"
    np.testing.assert_array_equal(trace["arm.commander_state"].value, [[1, 2]])  # without its padding
    np.testing.assert_array_equal(trace["arm.command"].t, trace["arm.command"].t_host)
    assert "no time stamps" in " ".join(trace.info["notes"])


def test_a_layout_names_and_describes_topics(tmp_path):
    rows = [("/j", k, joints(k + 1, "a", [k])) for k in range(3)] + [("/x", 1.0, array([1.0]))]
    layout = {
        "goal": ChannelLayout(source="/j", field="position", kind="commanded"),
        "grip": ChannelLayout(source="/x", unit="m", frame="tcp"),
    }
    trace = import_trace(bag(tmp_path / "a", rows), "rosbag", layout=layout)
    assert (trace["goal"].kind, trace["goal"].unit) == ("commanded", "rad")
    assert (trace["grip"].unit, trace["grip"].frame) == ("m", "tcp")
    with pytest.raises(BadInput, match=r"no 'j.effort' for channel 'x'; it has: j.position, x"):
        import_trace(tmp_path / "a", "rosbag", layout={"x": ChannelLayout(source="/j", field="effort")})


def test_a_trajectory_is_what_was_not_replaced(tmp_path):
    rows = [
        ("/plan", 11.0, trajectory(1.0, [0, 0.5, 1.0, 1.5], [[0], [1], [2], [3]])),
        ("/plan", 11.8, trajectory(1.8, [0, 0.5], [[7], [8]])),
    ]
    plan = import_trace(bag(tmp_path / "a", rows), "rosbag")["plan"]
    np.testing.assert_array_equal(plan.value.ravel(), [0, 1, 7, 8])
    np.testing.assert_allclose(plan.t, [1.0, 1.5, 1.8, 2.3])
    np.testing.assert_allclose(plan.t_host, [11.0, 11.5, 11.8, 12.3])
    assert plan.kind == "commanded"


def test_repeated_stamps_are_left_out_with_a_note_and_unset_ones_replaced(tmp_path):
    rows = [("/j", t + 0.001 * k, joints(t, "a", [k])) for k, t in enumerate((1, 2, 2, 3))]
    rows += [("/k", k, joints(0, "a", [k])) for k in range(3)]
    trace = import_trace(bag(tmp_path / "a", rows), "rosbag")
    np.testing.assert_array_equal(trace["j.position"].value.ravel(), [0, 1, 3])
    np.testing.assert_array_equal(trace["k.position"].t, [0, 1, 2])
    assert any("1 sample(s) of 4 whose stamp is not after the one before" in note for note in trace.info["notes"])


def test_a_text_topic_of_events_becomes_events_and_unknown_types_are_named(tmp_path):
    text = make("std_msgs/msg/String", data="contact")
    rows = [("/events", 2.5, text), ("/flag", 2.0, make("std_msgs/msg/Bool", data=True)), ("/x", 1.0, array([1.0]))]
    trace = import_trace(bag(tmp_path / "a", rows), "rosbag")
    assert trace.info["events"] == [[2.5, 2.5, "contact"]]
    assert "topic /flag is left out: std_msgs/msg/Bool is no channel" in trace.info["notes"]
    with pytest.raises(BadInput, match=r"topic /flag holds std_msgs/msg/Bool; types that are read: sensor_msgs"):
        import_trace(tmp_path / "a", "rosbag", layout={"x": ChannelLayout(source="/flag")})
    with pytest.raises(BadInput, match=r"no topic that can be read, it holds /flag \(std_msgs/msg/Bool\)"):
        import_trace(bag(tmp_path / "b", rows[1:2]), "rosbag")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("/j", k, joints(k + 1, "a", [np.nan])) for k in range(2)], "'j.position'.*not finite"),
        ([("/x", k, array([0.0] * (k + 1))) for k in range(2)], "'x': message 1 holds 2 numbers, the first 1"),
        ([("/j", h, joints(t, "a", [0])) for t, h in ((1, 1), (2, 2), (3, 9))], r"jump against each other by \+6"),
    ],
)
def test_what_no_channel_can_hold_is_named(rows, message, tmp_path):
    with pytest.raises(BadInput, match=f"(?s)a.*{message}"):
        import_trace(bag(tmp_path / "a", rows), "rosbag")


def test_names_decide_where_a_number_goes_whatever_their_order(tmp_path):
    rows = [
        ("/j", 1, joints(1, "ab", [1, 2], [10, 20])), ("/j", 2, joints(2, "ba", [20, 10], [2, 1])),
        ("/x", 1, array([5.0])),
    ]  # fmt: skip
    trace = import_trace(
        bag(tmp_path / "a", rows), "rosbag", layout={"q": ChannelLayout(source="/j", field="position")}
    )
    np.testing.assert_array_equal(trace["q"].value, [[1, 2], [10, 20]])
    np.testing.assert_array_equal(trace["j.velocity"].value, [[10, 20], [1, 2]])
    assert (trace.names("q"), trace.names("j.velocity"), trace.names("x")) == (("a", "b"), ("a", "b"), None)


def test_one_bad_part_does_not_refuse_the_bag(tmp_path):
    """Velocities that nobody measured, one joint without one, a message of another size, a stamp that is 5 ms early."""
    times = [1.0, 1.01, 1.02, 1.005, 1.03]
    rows = [("/j", 5 + 0.01 * k, joints(t, "ab", [k, -k], [np.nan, np.nan])) for k, t in enumerate(times)]
    rows += [("/k", 5 + 0.01 * k, joints(1 + 0.01 * k, "ab", [k, k], [k, np.nan])) for k in range(3)]
    rows += [("/x", 5 + 0.01 * k, array([0.0] * (k + 1))) for k in range(2)]
    trace = import_trace(bag(tmp_path / "a", rows), "rosbag")
    np.testing.assert_array_equal(trace["j.position"].value[:, 0], [0, 1, 2, 4])
    np.testing.assert_array_equal(trace["k.velocity"].value, [[0], [1], [2]])
    assert trace.names("k.velocity") == ("a",)
    assert set(trace.channels) == {"j.position", "k.position", "k.velocity"}
    said = " ".join(trace.info["notes"])
    assert "'j.velocity': values that are not finite in every sample: left out" in said
    assert "'j.position': 1 sample(s) of 5 whose stamp is not after the one before" in said
    assert "'k.velocity': b: never finite, left out" in said
    assert "'x': message 1 holds 2 numbers, the first 1: left out" in said
    with pytest.raises(BadInput, match=r"a: channel 'j.velocity'"):
        import_trace(tmp_path / "a", "rosbag", layout={"v": ChannelLayout(source="/j", field="velocity")})


def test_a_channel_whose_clock_jumps_is_left_out_and_the_others_stay(tmp_path):
    rows = [("/j", h, joints(t, "a", [0])) for t, h in ((1, 1), (2, 2), (3, 9))] + [("/x", 1.0, array([1.0]))]
    trace = import_trace(bag(tmp_path / "a", rows), "rosbag")
    assert set(trace.channels) == {"x"}
    assert any("'j.position': the clocks jump" in note and "left out" in note for note in trace.info["notes"])


def test_a_ros_1_bag_of_anyone_is_read(tmp_path):
    store = get_typestore(Stores.ROS1_NOETIC)
    kind = "geometry_msgs/msg/TwistStamped"
    types = store.types
    with Writer1(tmp_path / "a.bag") as writer:
        link = writer.add_connection("/cmd/twist", kind, typestore=store)
        for k in range(3):
            ends = [types["geometry_msgs/msg/Vector3"](x=k + 0.0, y=0.0, z=0.0) for _ in range(2)]
            stamp = types["builtin_interfaces/msg/Time"](sec=k + 1, nanosec=0)
            message = types[kind](
                header=types["std_msgs/msg/Header"](seq=k, stamp=stamp, frame_id="tool"),
                twist=types["geometry_msgs/msg/Twist"](linear=ends[0], angular=ends[1]),
            )
            writer.write(link, (k + 5) * S, store.serialize_ros1(message, kind))
    twist = import_trace(tmp_path / "a.bag", "rosbag")["cmd.twist"]
    assert (twist.unit, twist.frame, twist.kind) == ("m/s, rad/s", "tool", "commanded")
    np.testing.assert_array_equal(twist.value[:, 3], [0, 1, 2])


def test_damaged_bags_are_named(trace, tmp_path):
    export_traces([trace], "rosbag", tmp_path / "a.bag")
    data = (tmp_path / "a.bag").read_bytes()
    for piece in (b"", b"no bag at all", data[: len(data) // 2], data[:-500]):
        (tmp_path / "a.bag").write_bytes(piece)
        with pytest.raises(BadInput, match=r"a\.bag is no ROS bag, or it is damaged"):
            import_trace(tmp_path / "a.bag", "rosbag")
    export_traces([trace], "rosbag", tmp_path / "b")
    (storage,) = (tmp_path / "b").glob("*.db3")
    storage.write_bytes(storage.read_bytes()[:3000])
    with pytest.raises(BadInput, match="damaged"):
        import_trace(tmp_path / "b", "rosbag")
    (tmp_path / "b" / "metadata.yaml").write_text("x: [")
    with pytest.raises(BadInput, match="damaged"):
        import_trace(tmp_path / "b", "rosbag")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"t": [-1.0, 1.0]}, r"'x': times from -1\.000 to 1\.000 s"),
        ({"t_host": [0.0, 1e10]}, "ROS has them from 0"),
        ({"t": [1.0, 1.0 + 1e-12]}, "samples 0 and 1 are less than a nanosecond apart"),
    ],
)
def test_clocks_that_ros_has_no_numbers_for_are_refused(change, message, tmp_path):
    fields = {"t": [0.0, 1.0], "t_host": [0.0, 1.0]} | change
    one = Channel(value=np.zeros((2, 1)), unit="N", frame="-", kind="measured", **fields)
    with pytest.raises(BadInput, match=message):
        export_traces([Trace(channels={"x": one}, panel_hash="")], "rosbag", tmp_path / "a")


def test_names_that_are_no_topics_are_refused(trace, tmp_path):
    bad = dataclasses.replace(trace, channels={"2 x": trace["touch"]})
    with pytest.raises(BadInput, match="'2 x' cannot be a topic"):
        export_traces([bad], "rosbag", tmp_path / "a")
