"""Lines that are appended: half a line is cut off, whole ones are not read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from dexprior.data.lines import append_lines, read_index_lines


@pytest.mark.parametrize("half", ["", '{"n": 9', "{", '{"n": 9}'])
def test_what_was_appended_comes_back_without_half_a_line(tmp_path, half):
    path = tmp_path / "index.jsonl"
    append_lines(path, [{"n": 0}, {"n": 1}])
    with path.open("a") as stream:
        stream.write(half)
    append_lines(path, [{"n": 2}])
    assert read_index_lines(path) == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_half_a_line_alone_and_an_empty_file_are_begun_anew(tmp_path):
    for content in ("", '{"n'):
        path = tmp_path / "index.jsonl"
        path.write_text(content)
        append_lines(path, [{"n": 2}])
        assert read_index_lines(path) == [{"n": 2}]


def test_appending_to_whole_lines_does_not_read_them(tmp_path, monkeypatch):
    path = tmp_path / "index.jsonl"
    append_lines(path, [{"n": n} for n in range(100)])
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"all of {path} is read"))
        append_lines(path, [{"n": 100}])
    assert len(read_index_lines(path)) == 101
