"""Untrusted JSON: what is refused, by name, and what equals `json.loads`."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dexprior.errors import BadInput
from dexprior.reading import parse_json, parse_json_object, read_json

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(PLAIN, st.booleans())
def test_plain_data_comes_back_as_the_standard_parser_reads_it(value, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only)
    if "\0" not in text:
        assert parse_json(text.encode(), "x") == parse_json(text, "x") == json.loads(text) == value


REFUSED = {
    "deep": (b"[" * 100_000 + b"]" * 100_000, "nests 100000"),
    "deep, unclosed": (b'{"a":' * 70, "nests 70"),
    "deep, with brackets in strings before it": (b'["\\"]]]]\\\\",' + b"[" * 80, "nests 81"),
    "a huge integer": (b'{"a": 1' + b"0" * 5000 + b"}", "64 bits"),
    "just beyond 64 bits": (b"9223372036854775808", "64 bits"),
    "a float that overflows": (b'{"a": 1e999}', "float's range"),
    "a float of many digits": (b"1" * 400 + b".5", "float's range"),
    "NaN": (b'{"a": NaN}', "NaN"),
    "Infinity": (b"[-Infinity]", "Infinity"),
    "a key twice": (b'{"seed": 1, "seed": 2}', "'seed' stands twice"),
    "a key twice, deeper": (b'[{"a": {"b": 1, "b": 1}}]', "'b' stands twice"),
    "half a pair": (b'{"name": "\\ud800"}', "surrogate"),
    "not UTF-8": (b'{"name": "\xe9"}', "0xe9"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "UTF-16"),
    "zeros": (b"\0" * 50, "NUL"),
    "nothing": (b" \n", "empty"),
    "cut": (b'{"a": [1, 2', "truncated"),
    "two values": (b"{} {}", "valid JSON"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_one_sentence_that_names_the_source(case):
    data, said = REFUSED[case]
    with pytest.raises(BadInput, match=said) as error:
        parse_json(data, "FILE.json")
    assert "FILE.json" in str(error.value)
    assert len(str(error.value).splitlines()) == 1
    assert len(str(error.value)) < 300


def test_what_is_near_a_limit_passes():
    assert parse_json(b"9223372036854775807", "x") == 2**63 - 1
    assert parse_json(b"[" * 64 + b"]" * 64, "x", max_depth=64)
    assert parse_json(b'{"a": 1.5e100, "b": 0.12345678901234567890123}', "x")["a"] == 1.5e100
    assert parse_json('﻿{"a": "\\ud83d\\ude00[[[["}'.encode(), "x") == {"a": "😀[[[["}
    assert parse_json(b"[" + b"[[]]," * 500 + b"[]]", "x", max_depth=3)
    assert parse_json(b"[NaN, -Infinity]", "x", nan=True)[1] == float("-inf")


def test_limits_may_be_set():
    with pytest.raises(BadInput, match="at most 10"):
        parse_json(b'"0123456789"', "x", max_bytes=10)
    with pytest.raises(BadInput, match="at most 2"):
        parse_json(b"[[[]]]", "x", max_depth=2)
    with pytest.raises(BadInput, match="expected a JSON object"):
        parse_json_object(b"[1, 2]", "x")


def test_hostile_text_takes_linear_time():
    start = time.process_time()
    for data in (b'"' + b'\\"' * 1_000_000, b"9" * 1_000_000, b'{"a":' * 500_000, b'"' * 1_000_001):
        with pytest.raises(BadInput):
            parse_json(data, "x")
    assert time.process_time() - start < 2.0


def test_files_that_are_none(tmp_path):
    (tmp_path / "folder.json").mkdir()
    for path, said in ((tmp_path / "folder.json", "is a folder"), (tmp_path / "gone.json", "no such file. Make it.")):
        with pytest.raises(BadInput, match=said):
            read_json(path, absent="Make it.")
    with pytest.raises(BadInput, match="no path"):
        read_json("a\0b")
    with pytest.raises(BadInput, match=r"no path|no such file"):
        read_json("n" * 5000)
    (tmp_path / "good.json").write_bytes(b"\xef\xbb\xbf[1]")
    assert read_json(tmp_path / "good.json") == [1]
