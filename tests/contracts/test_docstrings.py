"""A docstring's first sentence names its noun: "Number of bytes", never "Of its bytes"."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "dexprior"
DANGLING = re.compile(r"(Of|In|By|To|For|From|With|At|On)\b(?!(?<=For) [^:.;]+:\s)(?!(?<=With) [^:.;]+=[^:.;]+:\s)")
"""An opening preposition; `For generate: number of ...` and `With set=strikes: searches ...` say where a setting is
of use, and then name their noun."""


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Docstrings of a module, its classes and functions, and the strings under fields and constants."""
    for node in ast.walk(ast.parse(path.read_text())):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield statement.lineno, " ".join(value.value.split())


@pytest.mark.parametrize("folder", sorted(path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"))
def test_no_first_sentence_opens_with_a_preposition(folder):
    place = PACKAGE / folder
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    found = [f"{path}:{line}: {text[:80]}" for path in files for line, text in _texts(path) if DANGLING.match(text)]
    assert found == []


@pytest.mark.parametrize("text", ["Of its bytes.", "By which it moves [m].", "For task=push.", "With one instance."])
def test_a_sentence_without_its_noun_is_seen(text):
    assert DANGLING.match(text)


@pytest.mark.parametrize(
    "text",
    ["Number of bytes, where the index knows it.", "Forces of each fingertip [N].",
     "For generate: number of demonstrations.", "With set=strikes: searches per target and method."],
)  # fmt: skip
def test_a_sentence_with_its_noun_passes(text):
    assert not DANGLING.match(text)
