"""Pickles: plain data come back, and no pickle makes NumPy read where it should not."""

from __future__ import annotations

import io
import pickle
import struct
import sys
import time

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.reading import Stub, read_pickle, read_pickled_npy

DATA = {
    "a": np.arange(6.0).reshape(2, 3), "b": np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3)),
    "c": np.float32(1.5), "d": [1, "x", None, True, 2.5, b"raw"], "e": (np.array(["ab", "c"]), b""),
    "f": np.array([1 + 2j]), "g": np.array([None, 3], dtype=object), "h": np.zeros((0, 3), np.uint8),
    "i": np.array([True, False]), "j": np.array([b"xy"]),
}  # fmt: skip


def assert_same(a, b):
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.tolist() == b.tolist()
    else:
        assert a == b


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_data_come_back_from_every_protocol(tmp_path, protocol):
    path = tmp_path / "data.pkl"
    path.write_bytes(pickle.dumps(DATA, protocol=protocol))
    assert_same(read_pickle(path), DATA)


def test_what_numpy_saved_comes_back(tmp_path):
    for k, value in enumerate((DATA["a"], DATA["b"], np.array(DATA, dtype=object), np.array([None, {"x": 1}]))):
        np.save(tmp_path / f"{k}.npy", value, allow_pickle=True)
        found = read_pickled_npy(tmp_path / f"{k}.npy")
        assert_same(found, value.item() if value.shape == () else value)


@pytest.mark.parametrize(
    ("dtype", "shape"), [("|S0", (3,)), ("<U0", (2,)), ("|V0", (2,)), ("<f8", (0, 10**18, 10**18)), ("<f8", (0, 2**63))]
)
def test_an_array_that_none_can_be_is_refused_by_name(tmp_path, dtype, shape):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
    (tmp_path / "forged.npy").write_bytes(stream.getvalue())
    with pytest.raises(BadInput, match=r"forged\.npy"):
        read_pickled_npy(tmp_path / "forged.npy")


class Calls:
    """Pickles as a call of a function, and a state that is set afterwards."""

    def __init__(self, function, *arguments, state=None):
        self.call = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self):
        return self.call


F8 = np.dtype("f8")
MAKE = (np.ndarray, (0,), b"b")
RECONSTRUCT = np.zeros(1).__reduce__()[0]
SCALAR = np.float64(1).__reduce__()[0]
cycle: list = []
cycle.append(cycle)
nested: list = []
for _ in range(200):
    nested = [nested]
bomb: list = ["x"] * 9
for _ in range(12):
    bomb = [bomb] * 9


def array_state(shape, dtype, data):
    return Calls(RECONSTRUCT, *MAKE, state=(1, shape, dtype, False, data))


ATTACKS = {
    "fields beyond the item": Calls(
        np.dtype, "V8", False, True, state=(3, "|", None, ("a",), {"a": (F8, 4096)}, 8, 1, 0)
    ),
    "fields on a plain dtype": Calls(
        np.dtype, "f8", False, True, state=(3, "<", None, ("a",), {"a": (F8, 1 << 40)}, 8, 1, 0)
    ),
    "a shape within a dtype": Calls(np.dtype, "f8", False, True, state=(3, "<", (F8, (1 << 30,)), None, None, 8, 1, 0)),
    "a size that the dtype has not": Calls(
        np.dtype, "f8", False, True, state=(3, "<", None, None, None, 1 << 20, 1, 0)
    ),
    "a size of text that it has not": Calls(np.dtype, "U4", False, True, state=(3, "<", None, None, None, 4096, 4, 8)),
    "metadata on a dtype": Calls(np.dtype, "f8", False, True, state=(4, "<", None, None, None, -1, -1, 0, {"m": 1})),
    "a dtype from a list of fields": np.zeros(2, dtype=[("a", "f8"), ("b", "i4")]),
    "a dtype of raw memory": np.zeros(2, "V16"),
    "dates": np.zeros(2, "M8[s]"),
    "objects from bytes": array_state((2,), np.dtype("O"), b"\x10" * 16),
    "one object from bytes": Calls(SCALAR, np.dtype("O"), b"\x10" * 8),
    "more elements than bytes": array_state((1 << 40,), F8, b"\0" * 8),
    "fewer elements than bytes": array_state((1,), F8, b"\0" * 4096),
    "a negative shape": array_state((-1,), F8, b"\0" * 8),
    "a shape that overflows": array_state((1 << 62, 4), F8, b""),
    "a shape of numbers that are none": array_state((2.0,), F8, b"\0" * 16),
    "a scalar without its bytes": Calls(SCALAR, F8, b"\0"),
    "an array that is called": Calls(np.ndarray, (1 << 20,)),
    "an array of another class": Calls(RECONSTRUCT, np.matrix, (0,), b"b"),
    "data within themselves": cycle,
    "too deep": nested,
    "shared a thousand million times": bomb,
    "an integer of a thousand digits": 10**1000,
    "half a surrogate pair": "\ud800",
    "a program": Calls(print, "x"),
    "a file": Calls(open, "/etc/hostname"),
}


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("attack", ATTACKS)
def test_forged_data_are_refused_in_one_sentence_that_names_the_file(tmp_path, attack, protocol):
    path = tmp_path / "forged.pkl"
    path.write_bytes(pickle.dumps({"v": ATTACKS[attack]}, protocol=protocol))
    with pytest.raises(BadInput, match=r"forged\.pkl") as error:
        read_pickle(path)
    assert len(str(error.value).splitlines()) == 1


RAW = {
    "a memo of four thousand million entries": b"\x80\x02Nr\xff\xff\xff\xffN.",
    "bytes longer than the file": b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b"x.",
    "a frame longer than the file": b"\x80\x04\x95" + struct.pack("<Q", 1 << 40) + b"N.",
    "a number longer than the file": b"\x80\x02\x8b\xff\xff\xff\x7f.",
    "an opcode that there is not": b"\x80\x02\xfd.",
    "no end": pickle.dumps(DATA)[:-20],
    "nothing": b"",
    "text": b"hello world\n",
    "a function that is changed": b"\x80\x02cnumpy\ndtype\n}X\x04\x00\x00\x00__x_K\x01sb.",
    "a stack that is empty": b"\x80\x02R.",
    "a persistent object": b"\x80\x02Px\n.",
    "an extension": b"\x80\x02\x82\x01.",
}


@pytest.mark.parametrize("case", RAW)
def test_damaged_pickles_are_refused_at_once(tmp_path, case):
    path = tmp_path / "forged.pkl"
    path.write_bytes(RAW[case])
    start = time.process_time()
    if case.startswith(("a memo", "a frame")):
        assert read_pickle(path) is None  # what they ask for is never made
    else:
        with pytest.raises(BadInput, match=r"forged\.pkl"):
            read_pickle(path)
    assert time.process_time() - start < 1.0


class Known(Stub):
    pass


def test_stubs_hold_the_state_of_the_classes_they_stand_for(tmp_path):
    module = type(sys)("stubbed")
    module.Thing = type("Thing", (), {"__module__": "stubbed"})
    sys.modules["stubbed"] = module
    try:
        thing = module.Thing()
        thing.x = np.arange(3.0)
        for protocol in (0, 2, 4):
            (tmp_path / "t.pkl").write_bytes(pickle.dumps([thing], protocol=protocol))
            (found,) = read_pickle(tmp_path / "t.pkl", stubs={("stubbed", "Thing"): Known})
            assert type(found) is Known
            assert found.state["x"].tolist() == [0, 1, 2]
    finally:
        del sys.modules["stubbed"]
    with pytest.raises(BadInput, match=r"stubbed\.Thing"):
        read_pickle(tmp_path / "t.pkl")
