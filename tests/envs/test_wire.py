"""Framing: what arrives is what was sent, and everything else is one clear error."""

from __future__ import annotations

import json
import math
import socket
import struct
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dexprior.envs import wire
from dexprior.envs.processes import ServerProcess
from dexprior.errors import BadInput, ConnectionLost, SafetyStop
from dexprior.types import Command


@pytest.fixture
def ends():
    """Both ends of a connection: ours, and a bare socket."""
    ours, theirs = _tcp_pair()
    connection = wire.Connection(ours, timeout=0.5, peer="tester")
    yield connection, theirs
    connection.close()
    theirs.close()


def _tcp_pair() -> tuple[socket.socket, socket.socket]:
    with wire.listen() as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    return ours, theirs


def _frame(text: str) -> bytes:
    return struct.pack("<I", len(text.encode())) + text.encode()


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(plain)
def test_plain_data_survives_exactly(value):
    message = {"type": "x", "value": value}
    assert wire.decode(wire.encode(message)[4:]) == message


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_arrays_survive_bit_by_bit(values):
    array = np.array(values)
    message = wire.decode(wire.encode({"type": "x", "value": array})[4:])
    assert wire.array_from(message, "value", len(values)).tobytes() == array.tobytes()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_not_finite_is_not_written_and_the_place_is_named(value):
    with pytest.raises(BadInput, match=r"step\.twist\[2\] = "):
        wire.encode({"type": "step", "twist": np.array([0.0, 1.0, value])})


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" * 310, "18446744073709551616"])
def test_what_is_no_number_of_64_bits_is_not_read(text):
    with pytest.raises(BadInput, match=r"finite|float's range|64 bits"):
        wire.decode(f'{{"type": "reading", "q": [{text}]}}'.encode())


@given(
    st.lists(st.floats(), min_size=1, max_size=8),
    st.none() | st.floats(),
    st.integers(0, 2**40),
    st.floats(allow_nan=False),
)
def test_commands_travel_whatever_was_asked_as_strict_json(value, gripper, seq, t):
    command = Command(seq=seq, t=t, mode="cartesian_velocity", value=np.array(value), gripper=gripper)
    message = wire.decode(wire.encode({"type": "command", "command": wire.command_to_plain(command)})[4:])
    back = wire.command_from_plain(message["command"])
    np.testing.assert_array_equal(back.value, command.value)  # NaN equals NaN here
    np.testing.assert_array_equal(back.gripper, command.gripper)
    assert (back.seq, back.t, back.mode) == (seq, t, "cartesian_velocity")


@pytest.mark.parametrize(
    "change",
    [
        {"value": ["1.0"]},
        {"value": [True]},
        {"mode": "teleport"},
        {"seq": 1.5},
        {"t": None},
        {"gripper": "wide"},
        {"value": None},
        {"value": [10**400]},
        {"value": {"inf": 1}},
        {"value": "12"},
        {"value": [[1.0]]},
        {"t": 10**400},
        {"seq": 2**63},
    ],
)
def test_a_command_of_the_wrong_kind_is_refused(change):
    command = Command(seq=0, t=0.0, mode="cartesian_velocity", value=np.zeros(6))
    with pytest.raises(BadInput):
        wire.command_from_plain(wire.command_to_plain(command) | change)


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe",
        b"{",
        b"[1]",
        b'{"no": "type"}',
        b'{"type": 3}',
        b"[" * 100_000,
        b'{"type": "a", "type": "b"}',
        b'{"type": "x", "v": ' + b"[" * 20 + b"]" * 20 + b"}",
    ],
)
def test_a_body_that_is_no_message_is_refused(body):
    with pytest.raises(BadInput):
        wire.decode(body)


@pytest.mark.parametrize("field", [[1, 2], [[1, 2, 3]], "text", [None, 1, 2], None, [1, "x", 2]])
def test_a_field_of_the_wrong_shape_is_named(field):
    with pytest.raises(BadInput, match="'twist'"):
        wire.array_from({"type": "step", "twist": field}, "twist", 3)


def test_messages_pass_in_order(ends):
    ours, theirs = ends
    theirs.sendall(_frame('{"type": "a"}') + _frame('{"type": "b"}'))
    assert [ours.receive()["type"], ours.receive()["type"]] == ["a", "b"]


def test_a_frame_may_come_in_pieces(ends):
    ours, theirs = ends

    def drip() -> None:
        for byte in _frame('{"type": "slow"}'):
            theirs.sendall(bytes([byte]))
            time.sleep(0.001)

    thread = threading.Thread(target=drip)
    thread.start()
    assert ours.receive() == {"type": "slow"}
    thread.join()


def test_a_truncated_frame_is_a_lost_connection(ends):
    ours, theirs = ends
    theirs.sendall(_frame('{"type": "cut"}')[:-3])
    theirs.close()
    with pytest.raises(ConnectionLost, match="12 of 15 bytes"):
        ours.receive()


def test_a_peer_that_closes_is_a_lost_connection_from_then_on(ends):
    ours, theirs = ends
    theirs.close()
    with pytest.raises(ConnectionLost, match="closed the connection"):
        ours.receive()
    with pytest.raises(ConnectionLost, match="make a new one"):
        ours.send({"type": "x"})


@pytest.mark.parametrize("length", [0, wire.MAX_BYTES + 1, 0x20544547])  # the last one is "GET "
def test_an_impossible_length_is_refused_before_it_is_awaited(ends, length):
    ours, theirs = ends
    theirs.sendall(struct.pack("<I", length))
    with pytest.raises(BadInput, match="another protocol"):
        ours.receive()


def test_too_much_is_not_sent(ends):
    with pytest.raises(BadInput, match="bytes"):
        ends[0].send({"type": "big", "text": "x" * wire.MAX_BYTES})


def test_a_silent_peer_times_out(ends):
    ours, _ = ends
    start = time.monotonic()
    with pytest.raises(ConnectionLost, match=r"within 0\.1 s"):
        ours.receive(wait=0.1)
    assert time.monotonic() - start < 2.0


def test_dripping_does_not_stretch_a_frame_for_ever(ends):
    ours, theirs = ends
    ours.timeout = 0.2
    stop = threading.Event()

    def drip() -> None:
        theirs.sendall(struct.pack("<I", 10_000))
        while not stop.wait(0.05):
            theirs.sendall(b" ")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        with pytest.raises(ConnectionLost, match="rest of a message"):
            ours.receive()
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("SafetyStop", SafetyStop), ("BadInput", BadInput), ("ConnectionLost", ConnectionLost), ("Odd", BadInput)],
)
def test_errors_arrive_as_errors(ends, kind, expected):
    ours, theirs = ends
    theirs.sendall(_frame(json.dumps({"type": "error", "kind": kind, "message": "no"})))
    with pytest.raises(expected, match="tester: no"):
        ours.request({"type": "please"})


def test_a_server_that_talks_at_length_is_cut_short(ends):
    ours, theirs = ends
    theirs.sendall(_frame(json.dumps({"type": "error", "message": "x" * 500_000})))
    with pytest.raises(BadInput) as caught:
        ours.request({"type": "please"})
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("value", [True, 1.0, "1", None, -1, 11, [1]])
def test_a_whole_number_in_a_range(value):
    assert wire.whole_from({"n": 10}, "n", 0, 10) == 10
    with pytest.raises(BadInput, match="'n' must be a whole number from 0 to 10"):
        wire.whole_from({"n": value}, "n", 0, 10)


def test_an_array_has_a_range_and_may_declare_its_length():
    message = {"type": "x", "q": [1.0, -3.0], "many": [0.0] * 5000, "text": ["1.0"]}
    assert wire.array_from(message, "q", "joint").shape == (2,)
    with pytest.raises(BadInput, match="holds -3, allowed are -2 to 2"):
        wire.array_from(message, "q", "joint", limit=2.0)
    with pytest.raises(BadInput, match=r"\(5000,\), expected finite numbers of shape \(joint\)"):
        wire.array_from(message, "many", "joint")
    with pytest.raises(BadInput, match="'text' must hold numbers"):
        wire.array_from(message, "text", 1)


def test_nobody_there_is_a_lost_connection():
    with wire.listen() as listener:
        address = listener.getsockname()
    with pytest.raises(ConnectionLost, match=f"no ghost at 127.0.0.1:{address[1]}"):
        wire.connect(address, timeout=0.5, peer="ghost")


def test_listens_on_this_machine_only():
    with wire.listen() as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


def test_a_server_that_does_not_start_says_so():
    with pytest.raises(ConnectionLost, match="did not announce an address"):
        ServerProcess("dexprior.envs.no_such_module", [])


def test_a_process_has_the_time_to_end_in_order(tmp_path, monkeypatch):
    """A gate waits until its robot stands, and then closes it."""
    code = """
import json, sys, time
print(json.dumps({"host": "127.0.0.1", "port": 1}), flush=True)
sys.stdin.read()
time.sleep(3.0)
open(__file__ + ".ended", "w").close()
"""
    (tmp_path / "takes_its_time.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    ServerProcess("takes_its_time", []).close()
    assert (tmp_path / "takes_its_time.py.ended").exists()
