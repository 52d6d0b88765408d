"""Messages end the search, and errors survive the way back from a worker process."""

from __future__ import annotations

import pickle

import pytest

from dexprior import errors
from dexprior.errors import DexpriorError, UnknownName


def test_every_error_has_the_one_root():
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), DexpriorError)


@pytest.mark.parametrize(
    ("name", "caught_as"),
    [
        ("BadInput", ValueError),
        ("ConnectionLost", ConnectionError),
        ("MissingExtra", ImportError),
        ("NoGraphics", RuntimeError),
        ("SafetyStop", RuntimeError),
        ("UnknownName", KeyError),
    ],
)
def test_errors_are_what_a_caller_without_dexprior_would_catch(name, caught_as):
    assert issubclass(getattr(errors, name), caught_as)


def test_unknown_name_lists_the_table_and_guesses():
    error = UnknownName("robot", "arm8", ["arm7", "hand"])
    assert str(error) == "unknown robot 'arm8'; did you mean 'arm7'? Known: arm7, hand"


def test_unknown_name_far_from_everything_does_not_guess():
    assert str(UnknownName("robot", "zzz", ["arm7"])) == "unknown robot 'zzz'. Known: arm7"


def test_unknown_name_of_an_empty_table():
    assert str(UnknownName("pair", "x", [])) == "unknown pair 'x'. Known: none"


@pytest.mark.parametrize("name", errors.__all__)
def test_errors_cross_process_pools(name):
    """A pool whose worker raises something that cannot be unpickled waits for ever."""
    cls = getattr(errors, name)
    error = cls("robot", "arm8", ["arm7"]) if cls is UnknownName else cls("what happened")
    back = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes, as multiprocessing does
    assert type(back) is cls
    assert str(back) == str(error)
