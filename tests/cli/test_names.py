"""Names are taken as they stand: with spaces, accents, brackets, signs, or like numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from dexprior.cli import evaluate, sample, train_policy
from dexprior.cli.compose import compose
from dexprior.cli.main import main
from dexprior.cli.words import is_setting, text_settings, text_value
from dexprior.config import config
from dexprior.errors import ConfigError


@config
class Inner:
    name: str | None = None
    size: int = 3


@config
class Outer:
    inner: Inner = Inner()
    kind: Literal["a", "b"] = "a"
    names: tuple[str, ...] = ()
    files: str | tuple[str, ...] = ()
    number: int | str = 3


ODD = (
    "20251231", "007", "1e5", "-3", "3.14", "true", "no", "off", "nan", "x(y)", "[x]", "{x: 1}", "naïve", "мяч", "球",
    "two words", " leading", "a=b", "a==b", "a,b", "#1", "it's", '5"', "~tilde", "a~b", "${oc.env:HOME}", "$HOME",
    "a\\b", "a\\'b", "*", "?", "!", "%", "@", ";", "|", "&", "^", "`x`", "a:b", "+a", "x" * 400,
)  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_a_name_is_taken_as_it_stands(name):
    for none in (False, True):
        assert text_value("v.k", name, one=True, several=False, none=none) == name


def test_so_it_is_at_any_depth_and_with_any_key(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for first, *names in zip(ODD[::3], ODD[1::3], ODD[2::3]):
        words = [f"prior={first}", f"out={names[0]}", f"+sentence={names[1]}"]
        found = compose("sample", sample.Config, words)
        assert [found.prior, found.out, found.sentence] == [first, *names]
    deep = compose("train-policy", train_policy.Config, ["policy.simulation.checkpoint=5 (b)=[c]", "init=2025"])
    assert (deep.policy.simulation.checkpoint, deep.init) == ("5 (b)=[c]", "2025")


@pytest.mark.parametrize("name", ODD)
def test_names_in_a_row_are_too_with_quotes_around_those_with_commas_and_brackets(name):
    quoted = '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"' if set(",[]'\"\\") & set(name) else name
    if name != name.strip():
        quoted = f'"{name}"'
    row = text_value("v.k", f"[first,{quoted}, last]", one=False, several=True, none=False)
    assert row == ["first", name, "last"]


def test_what_is_quoted_is_what_stands_in_the_quotes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def read(said, one=True, several=False, none=True):
        return text_value("v.k", said, one=one, several=several, none=none)

    assert read("'null'") == read('"null"') == "null"
    assert read("null") is None
    assert read("null", none=False) == "null"
    (tmp_path / "null").mkdir()
    assert read("null") == "null"
    assert read(r"'it\'s'") == "it's"
    assert read("'a' and 'b'") == "'a' and 'b'"
    assert read("~/x") == str(Path.home() / "x")
    assert read("'~/x'") == "~/x"
    assert read("") == ""
    both = {"one": True, "several": True}
    assert read("a.json", **both) == "a.json"
    assert read("a.json,b.json", **both) == ["a.json", "b.json"]
    (tmp_path / "a,b").touch()
    assert read("a,b", **both) == "a,b"
    assert read('"a,c"', **both) == "a,c"
    assert read("[a]", **both) == ["a"]
    assert read("[]", one=False, several=True) == []
    for wrong in ("[a,,b]", "a,,b"):
        with pytest.raises(ConfigError, match=r"v\.k=\[a,,b\]: no row of texts as \[a,b\]; .* two pairs of quotes"):
            read(wrong, one=False, several=True)


def test_which_settings_are_texts_is_read_off_their_types():
    assert text_settings(Outer) == {
        "inner.name": (True, False, True), "kind": (True, False, False), "names": (False, True, False),
        "files": (True, True, False),
    }  # fmt: skip


def test_other_settings_and_rows_of_numbers_are_read_as_before():
    found = compose("train-policy", train_policy.Config, ["use_prior=false", "more=4,5", "init=null"])
    assert (found.use_prior, found.more, found.init) == (False, (4, 5), None)
    found = compose("evaluate", evaluate.Config, ["injectors={cables:0.5}", "family=a.json,b.json", "+out=x"])
    assert (found.injectors, found.family, found.out) == ({"cables": 0.5}, ("a.json", "b.json"), "x")


def test_a_word_is_a_setting_only_where_it_begins_as_one():
    assert all(map(is_setting, ("a=b", "a.b_c=", "+a=1", "~a=", "a=b=c", "a=(")))
    assert not any(map(is_setting, ("./a=b", "/x/a=b", "a b=c", "=a", "3=4", "a", "été=1")))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["data", "inspect", "source=20251231"], "20251231/index.jsonl: no such file"),
        (["data", "inspect", "source=no (1)"], "no (1)/index.jsonl: no such file"),
        (["estimate-pose", "video=vidéo #2.mp4"], "no clip at vidéo #2.mp4"),
        (["evaluate", "evaluation.instances=(2"], 'evaluation.instances="(2"\''),
        (["ledger", "report", "logs=2025"], "The file or folder of that name is written ./logs=2025."),
        (["ledger", "report", "./logs=2025"], "logs=2025"),
    ],
)
def test_a_mistake_names_the_thing_or_says_how_to_quote(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs=2025").mkdir()
    assert main(words) == 1
    told = capsys.readouterr().err
    assert said in told
    assert len(told.splitlines()) == 1
    assert "unknown key" not in told or "written" in said
