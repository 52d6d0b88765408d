"""Plain data becomes a frozen class, or one message with the path, the value and the choices."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dexprior.config import Ge, Gt, Lt, config, config_hash, to_plain, validate
from dexprior.errors import BadInput, ConfigError


@config
class Inner:
    rate: Annotated[float, Gt(0), Lt(1)] = 0.5
    """Share."""
    kind: Literal["near", "far"] = "near"
    """Which."""

    def __post_init__(self) -> None:
        if self.kind == "far" and self.rate > 0.9:
            raise BadInput("far things have a rate of at most 0.9")


@config
class Outer:
    steps: Annotated[int, Ge(1)]
    """Number of steps."""
    widths: tuple[int, ...] = (8, 8)
    """Layer widths."""
    inner: Inner = Inner()
    """Nested."""
    maybe: Inner | None = None
    """Optional and nested."""


def message(data) -> str:
    with pytest.raises(ConfigError) as caught:
        validate(Outer, data, where="train")
    return str(caught.value)


def test_plain_data_becomes_the_class():
    assert validate(Outer, {"steps": 2, "widths": [3], "inner": {"kind": "far"}}) == Outer(
        steps=2, widths=(3,), inner=Inner(kind="far")
    )


def test_configurations_are_frozen_and_keyword_only():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Inner().rate = 0.1  # type: ignore[misc]
    with pytest.raises(TypeError):
        Inner(0.1)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            {"steps": 1, "widhts": []},
            "train.widhts: unknown key. Did you mean 'widths'? Known here: steps, widths, inner, maybe",
        ),
        (
            {"steps": 1, "inner": {"rat": 0.1}},
            "train.inner.rat: unknown key. Did you mean 'rate'? Known here: rate, kind",
        ),
        ({}, "train.steps: required but not given"),
        ({"steps": "many"}, "train.steps = 'many': input should be a valid integer"),
        ({"steps": 2.5}, "train.steps = 2.5: input should be a valid integer"),
        ({"steps": True}, "train.steps = True: input should be a valid integer"),
        ({"steps": "2"}, "train.steps = '2': input should be a valid integer"),
        ({"steps": 0}, "train.steps = 0: input should be greater than or equal to 1"),
        ({"steps": 1, "inner": {"rate": 1.0}}, "train.inner.rate = 1.0: input should be less than 1"),
        ({"steps": 1, "inner": {"kind": "nigh"}}, "train.inner.kind = 'nigh': input should be 'near' or 'far'"),
        ({"steps": 1, "widths": [1, "x"]}, "train.widths.1 = 'x': input should be a valid integer"),
        (
            {"steps": 1, "inner": {"kind": "far", "rate": 0.95}},
            "train.inner = {'kind': 'far', 'rate': 0.95}: value error, far things have a rate of at most 0.9",
        ),
    ],
)
def test_messages(data, expected):
    assert message(data) == expected


def test_all_problems_are_told_at_once():
    assert message({"steps": 0, "inner": {"rate": 2.0, "x": 1}}).splitlines() == [
        "train.steps = 0: input should be greater than or equal to 1",
        "train.inner.rate = 2.0: input should be less than 1",
        "train.inner.x: unknown key. Known here: rate, kind",
    ]


def test_unknown_keys_inside_an_optional_part_list_its_keys():
    assert message({"steps": 1, "maybe": {"rat": 0.2}}).startswith("train.maybe.rat: unknown key. Did you mean 'rate'?")


@config
class Free:
    shift: float = 0.0
    """Any number."""


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_must_be_finite(value):
    with pytest.raises(ConfigError, match=r"^config\.shift = -?(nan|inf): input should be a finite number$"):
        validate(Free, {"shift": value})


def test_what_json_cannot_say_is_not_plain_data():
    assert message({"steps": object()}).startswith("train: not plain data:")


configs = st.builds(
    Outer,
    steps=st.integers(1, 10**6),
    widths=st.lists(st.integers(-5, 5)).map(tuple),
    inner=st.builds(Inner, rate=st.floats(0.01, 0.9), kind=st.sampled_from(["near", "far"])),
    maybe=st.none() | st.builds(Inner, rate=st.floats(0.01, 0.9)),
)


@given(configs)
def test_plain_and_back(value):
    plain = to_plain(value)
    assert validate(Outer, json.loads(json.dumps(plain))) == value
    assert validate(Outer, plain) == value


@given(configs, configs)
def test_equal_hashes_mean_equal_values(a, b):
    assert (config_hash(a) == config_hash(b)) == (to_plain(a) == to_plain(b))


def test_the_hash_does_not_depend_on_the_order_of_keys():
    assert config_hash({"a": 1, "b": (1, 2)}) == config_hash({"b": [1, 2], "a": 1})
    assert len(config_hash({})) == 12
