"""Examples are numbered, short, and all in the index; tests/end_to_end/test_examples.py runs them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))


def test_they_are_numbered_in_a_row_and_stand_in_the_index():
    assert [path.name[:3] for path in EXAMPLES] == [f"{k:02d}_" for k in range(1, len(EXAMPLES) + 1)]
    listed = re.findall(r"^\| \[(\w+\.py)\]\(\1\) \|", (FOLDER / "README.md").read_text(), re.M)
    assert listed == [path.name for path in EXAMPLES]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_one_is_a_page_that_says_what_it_shows_and_how_it_is_called(path):
    text = path.read_text()
    assert len(text.splitlines()) < 60
    assert f"python examples/{path.name}" in str(ast.get_docstring(ast.parse(text)))
