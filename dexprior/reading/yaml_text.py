"""YAML that others wrote, as plain data: bounded aliases, no key twice, dates as text."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import yaml

from dexprior.errors import BadInput
from dexprior.reading.files import read_text
from dexprior.reading.json_text import MAX_DEPTH

__all__ = ["parse_yaml", "read_yaml"]

MAX_BYTES = 1 << 20
"""Largest file [bytes]: people write YAML by hand, and its parser takes seconds for a megabyte."""
MAX_NODES = 100_000
"""Values, each alias counted as all that it stands for: nine aliases of nine aliases of ... are 400 bytes of text."""


def read_yaml(path: str | Path, *, absent: str = "") -> Any:
    """A YAML file's plain data; None where it is empty.

    Raises:
        BadInput: as `parse_yaml`, no such file, or it cannot be read as text.
    """
    return parse_yaml(read_text(path, max_bytes=MAX_BYTES, absent=absent), path)


def parse_yaml(text: str, where: object) -> Any:
    """The plain data of one YAML document: lists, mappings, text, numbers, true, false and null.

    Raises:
        BadInput: not YAML, several documents, a tag of other data, a value that its tag does not allow, keys that are
            equal, nested too deeply, aliases that stand for more than `MAX_NODES` values, a number that is not finite
            or beyond 64 bits, text that no file can hold; `where` names the source.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _weigh(node)
        return _plain(loader.construct_document(node))
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the latter two: an escape beyond Unicode
        raise BadInput(f"{where} is not YAML: {' '.join(str(error).split())}") from None
    except _Refused as error:
        raise BadInput(f"{where}: {error}") from None


_TAG = "tag:yaml.org,2002:"
_SURROGATE = re.compile("[\ud800-\udfff]")
_DEEP = f"nests more than {MAX_DEPTH} lists and mappings within each other"


class _Refused(Exception):
    """A value that YAML allows and this reader does not."""


class _Loader(yaml.SafeLoader):
    """The safe loader, without dates and default values (`=`; they stay text), with a depth and with every key once."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # PyYAML's own attribute
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_TAG + "timestamp", _TAG + "value")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _Refused(_DEEP)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen: dict[Any, str] = {}  # here, since merges add their keys to the node later
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _TAG + "merge":
                value = self.construct_object(key, deep=True)
                if value in seen:  # 1, 0x1, 1.0 and true are equal
                    first = f", first as {seen[value][:80]!r}" if seen[value] != key.value else ""
                    line = key.start_mark.line + 1
                    raise _Refused(f"the key {key.value[:80]!r} stands twice, again in line {line}{first}")
                seen[value] = key.value
        return node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, OverflowError):  # what PyYAML's constructors raise
            kind, line = node.tag.removeprefix(_TAG), node.start_mark.line + 1
            raise _Refused(f"{str(node.value)[:80]!r} in line {line} cannot be read as {kind}") from None


def _weigh(root: Any) -> None:
    """Count every value as often as the data will show it."""
    weights: dict[int, int] = {}
    open_nodes: set[int] = set()

    def weigh(node: Any) -> int:
        if id(node) in weights:
            return weights[id(node)]
        if id(node) in open_nodes:
            raise _Refused("an alias stands for what it is a part of")
        open_nodes.add(id(node))
        parts = node.value if isinstance(node, yaml.SequenceNode) else ()
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else parts
        weight = 1 + sum(weigh(part) for part in parts)
        if weight > MAX_NODES:
            raise _Refused(f"its aliases stand for more than {MAX_NODES:,} values")
        open_nodes.discard(id(node))
        weights[id(node)] = weight
        return weight

    weigh(root)


def _plain(value: Any, depth: int = 1) -> Any:
    if depth > MAX_DEPTH:  # aliases nest what was written side by side
        raise _Refused(_DEEP)
    if isinstance(value, list):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_plain(key, depth + 1): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise _Refused("an integer does not fit into 64 bits")
    if isinstance(value, float) and not math.isfinite(value):
        raise _Refused(f"{value} where only finite numbers may stand")
    if not isinstance(value, (int, float, str)):
        raise _Refused(f"a {type(value).__name__} where only text, numbers, lists and mappings may stand")
    if isinstance(value, str) and _SURROGATE.search(value):
        raise _Refused(f"{value[:80]!r} holds half a surrogate pair, which no file can hold")
    return value
