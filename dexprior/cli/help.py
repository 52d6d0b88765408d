"""Help on a verb, or on one word of it: what it does, and the settings that are often changed."""

from __future__ import annotations

from collections.abc import Sequence

from dexprior.cli import source
from dexprior.cli.places import presets
from dexprior.errors import UnknownName

__all__ = ["help_on"]


def help_on(verb: str, words: Sequence[str]) -> str:
    """Usage, description and settings with their defaults; all settings where the words hold `all`.

    Args:
        verb: one of `VERBS`.
        words: what was said beside `--help`; the first that is no setting is a word of the verb.

    Raises:
        UnknownName: the verb has no such word.
    """
    module = f"dexprior.cli.{verb.replace('-', '_')}"
    whole = "all" in words
    said = [word for word in words if word not in ("all", "-h", "--help") and "=" not in word]
    known = [word.split()[0] for word in source.constant(module, "WORDS") or ()]
    word = said[0] if said and known else ""
    if word and word not in known:
        raise UnknownName(f"word of {verb}", word, known)
    marked: dict[str, tuple[str, ...]] = source.constant(module, "HELP") or {}
    rows = source.settings(module)
    shown = [row for name in marked.get(word, ()) for row in rows if row[0] == name]
    more = [row for row in rows if row not in shown and (not word or _belongs(row[0], marked[word]))]
    if whole:
        shown, more = [row for row in rows if row in shown or row in more], []
    call = " ".join(["dexprior", verb, *([word] if word else [])])
    lines = [f"usage: {call} [key=value ...]", "", *_about(module, verb, word)]
    if not word and (names := presets(verb)):
        lines += ["", f"preset={'|'.join(names)}"]
    if shown:
        lines += ["", "settings:", *(f"  {path}={value}   {text}" for path, value, text in shown)]
    if more or (known and not word):
        lines.append("")
    if more:
        lines.append(f"{len(more)} more: {call} --help all")
    if known and not word:
        lines.append(f"on one word: dexprior {verb} {'|'.join(dict.fromkeys(known))} --help")
    return "\n".join(lines)


def _belongs(path: str, marked: Sequence[str]) -> bool:
    return any(f"{path}.".startswith(name) for name in marked if name.endswith("."))


def _about(module: str, verb: str, word: str) -> list[str]:
    """The description of a verb, or the lines of it that say what a word does."""
    lines = source.documentation(module).splitlines()
    if not word:
        return lines
    found: list[str] = []
    inside = False
    for line in lines:
        inside = line.startswith(f"dexprior {verb} {word}") or (inside and line.startswith(" "))
        found += [line] if inside else []
    return found or lines[:1]
