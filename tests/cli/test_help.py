"""Help is short, on what was asked, and cheap: it reads what the settings are and does not load what they configure."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import subprocess
import sys
from typing import Any

import pytest

from dexprior.cli import source
from dexprior.cli.main import VERBS, main

MODULES = {verb: f"dexprior.cli.{verb.replace('-', '_')}" for verb in VERBS}
_FEW = 12


def fields(default: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Path and default of every setting, as the running classes have them."""
    rows = []
    for field in dataclasses.fields(default):
        path, value = f"{prefix}{field.name}", getattr(default, field.name)
        rows += fields(value, f"{path}.") if dataclasses.is_dataclass(value) else [(path, str(value))]
    return rows


def calls() -> list[tuple[str, str]]:
    return [(verb, word) for verb, module in MODULES.items() for word in (source.constant(module, "HELP") or {"": ()})]


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_read_is_what_the_running_classes_have(verb):
    module = importlib.import_module(MODULES[verb])
    expected = fields(module.Config()) if hasattr(module, "Config") else []
    assert [(path, str(value)) for path, value, _ in source.settings(MODULES[verb])] == expected
    assert source.documentation(MODULES[verb]) == inspect.getdoc(module)
    assert all(sentence for _, _, sentence in source.settings(MODULES[verb]))


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_marked_exists_is_few_and_leaves_no_setting_to_nobody(verb):
    paths = [path for path, _, _ in source.settings(MODULES[verb])]
    marked = source.constant(MODULES[verb], "HELP") or {}
    words = {word.split()[0] for word in source.constant(MODULES[verb], "WORDS") or ()}
    assert set(marked) - {""} == words
    for names in marked.values():
        common = [name for name in names if not name.endswith(".")]
        assert len(common) <= _FEW
        assert set(common) <= set(paths)
        assert all(any(f"{path}.".startswith(name) for path in paths) for name in names if name.endswith("."))
    if words:
        told = {name.split(".")[0] for names in marked.values() for name in names}
        assert told == {path.split(".")[0] for path in paths}
    elif paths:
        assert marked[""]


@pytest.mark.parametrize(("verb", "word"), calls(), ids=lambda part: part or "alone")
def test_a_page_shows_few_settings_and_says_where_the_rest_is(verb, word, capsys):
    words = [verb, *([word] if word else [])]
    assert main([*words, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: dexprior {' '.join(words)} [key=value")
    _, _, settings = shown.partition("\nsettings:\n")
    listed = [line for line in settings.splitlines() if line.startswith("  ")]
    assert len(listed) <= _FEW
    if word:
        about = [line for line in shown.splitlines() if line.startswith(f"dexprior {verb} ")]
        assert about
        assert all(line.startswith(f"dexprior {verb} {word}") for line in about)
    assert main([*words, "--help", "all"]) == 0
    whole = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  ") and "=" in line]
    assert set(listed) <= set(whole)
    if len(whole) > len(listed) and listed:
        assert f"{len(whole) - len(listed)} more: dexprior {' '.join(words)} --help all" in shown


def test_a_word_that_is_none_is_named_with_its_neighbour(capsys):
    assert main(["ledger", "repport", "--help"]) == 1
    assert "unknown word of ledger 'repport'; did you mean 'report'?" in capsys.readouterr().err


def test_a_page_costs_under_a_second_and_loads_nothing_that_trains_or_simulates():
    code = """
import json, sys, time
from dexprior.cli.main import main
spent = {}
for verb in json.loads(sys.argv[1]):
    start = time.process_time()
    main([verb, "--help", "all"])
    spent[verb] = time.process_time() - start
heavy = [name for name in ("torch", "mujoco", "diffusers", "scipy", "pydantic", "hydra") if name in sys.modules]
print(json.dumps({"spent": spent, "heavy": heavy}), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(list(VERBS))], capture_output=True, text=True, timeout=120, check=True
    )
    found = json.loads(done.stderr)
    assert found["heavy"] == []
    assert max(found["spent"].values()) < 1.0, found["spent"]


def test_expressions_are_worked_out_or_stand_as_they_are(tmp_path, monkeypatch):
    text = '''
import math
import numpy as np
from dexprior.config import config
_A, _B = 2, (3, 4)
LIMIT = 10**6
def late():
    return 1
@config
class Inner:
    rate: float = 1e-3
    """Of it."""
    size: int = 3
    """Of
    it."""
@config
class Base:
    first: int = -_A
    """One."""
    inner: Inner = Inner()
    """Some."""
@config
class Config(Base):
    second: tuple[int, ...] = tuple(range(len(_B)))
    """Two."""
    inner: Inner = replace(Inner(rate=0.5), size=LIMIT // 7)
    third: float = np.pi / 2
    """Three."""
    names: dict[str, int] = field(default_factory=lambda: {"a": _A})
    """Four."""
    open: list[int] = field(default_factory=list)
    """Five."""
    late: int = late()
    """Six."""
'''
    (tmp_path / "one.py").write_text(text)
    monkeypatch.setattr(source, "_ROOT", tmp_path)
    source._tree.cache_clear()
    source._globals.cache_clear()
    found = {path: (str(value), sentence) for path, value, sentence in source.settings("x.one")}
    source._tree.cache_clear()
    source._globals.cache_clear()
    assert list(found) == ["first", "inner.rate", "inner.size", "second", "third", "names", "open", "late"]
    assert found["first"] == ("-2", "One.")
    assert found["inner.rate"] == ("0.5", "Of it.")
    assert found["inner.size"] == ("LIMIT // 7", "Of it.")
    assert found["second"][0] == "(0, 1)"
    assert found["third"][0] == "1.5707963267948966"
    assert (found["names"][0], found["open"][0], found["late"][0]) == ("{'a': 2}", "[]", "late()")
