"""Settings as the source of a verb says them, without running it.

Settings stand beside the code that they configure, which loads torch and MuJoCo: many times the seconds that a page of
help is worth. So the help reads what a verb's `Config` is from the text of its module and of those that it takes
settings from: fields, defaults and sentences. `tests/cli/test_help.py` holds it to what the running classes have.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dexprior

__all__ = ["constant", "documentation", "settings"]

_ROOT = Path(dexprior.__file__).parent
_SIGNS: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}  # fmt: skip
_MAKERS: dict[str, Callable[..., Any]] = {
    "dict": dict, "frozenset": frozenset, "len": len, "list": list, "range": range, "set": set, "tuple": tuple,
}  # fmt: skip
_CONSTANTS = {"math.pi": math.pi, "np.pi": math.pi, "math.inf": math.inf, "np.inf": math.inf}


def documentation(module: str) -> str:
    """A module's docstring."""
    return ast.get_docstring(_tree(module)) or ""


def constant(module: str, name: str) -> Any:
    """What a module defines under a name; None where it does not."""
    found = _find(module, name)
    return None if found is None else _value(found.node, found.module)


def settings(module: str, name: str = "Config") -> list[tuple[str, Any, str]]:
    """Path, default and sentence of every setting of a configuration class, in order; none without the class."""
    found = _find(module, name)
    return [] if found is None else list(_rows(_Made(found), ""))


@dataclass(frozen=True)
class _Defined:
    """A class, or the value of a name, where it is defined."""

    module: str
    node: ast.AST


@dataclass(frozen=True)
class _Made:
    """A configuration that is made: its class, and what is not as the class has it."""

    defined: _Defined
    given: dict[str, Any] = field(default_factory=dict)


@functools.cache
def _tree(module: str) -> ast.Module:
    place = _ROOT.joinpath(*module.split(".")[1:])
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def _globals(module: str) -> dict[str, ast.AST | tuple[str, str]]:
    """What the names of a module stand for: a class, an expression, or a name of another module of ours."""
    found: dict[str, ast.AST | tuple[str, str]] = {}
    for node in _tree(module).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "dexprior":
            found |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                found |= _assigned(target, node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            found[node.target.id] = node.value
    return found


def _assigned(target: ast.expr, value: ast.expr) -> dict[str, ast.AST | tuple[str, str]]:
    """Names and what they are given, in `a = x` and in `a, b = x, y`."""
    if isinstance(target, ast.Name):
        return {target.id: value}
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return {name: each for one, its in zip(target.elts, value.elts) for name, each in _assigned(one, its).items()}
    return {}


def _find(module: str, name: str) -> _Defined | None:
    """Where a name that a module uses is defined."""
    known = _globals(module).get(name)
    if known is None:
        return None
    if isinstance(known, tuple):
        return _find(*known)
    if isinstance(known, ast.Name):
        return _find(module, known.id)
    return _Defined(module, known)


def _fields(defined: _Defined) -> dict[str, tuple[ast.expr, str, str]]:
    """Default, the module that it stands in, and sentence of each field of a class, those of its bases first."""
    node, module = defined.node, defined.module
    assert isinstance(node, ast.ClassDef)
    found: dict[str, tuple[ast.expr, str, str]] = {}
    for base in node.bases:
        owner = _find(module, base.id) if isinstance(base, ast.Name) else None
        if owner is not None and isinstance(owner.node, ast.ClassDef):
            found |= _fields(owner)
    for line, after in zip(node.body, [*node.body[1:], None]):
        if not isinstance(line, ast.AnnAssign) or line.value is None or not isinstance(line.target, ast.Name):
            continue
        text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else None
        sentence = " ".join(text.split()) if isinstance(text, str) else found.get(line.target.id, ("", "", ""))[2]
        found[line.target.id] = line.value, module, sentence
    return found


def _rows(made: _Made, prefix: str) -> Iterator[tuple[str, Any, str]]:
    for name, (default, module, sentence) in _fields(made.defined).items():
        value = made.given[name] if name in made.given else _value(default, module)
        if isinstance(value, _Made):
            yield from _rows(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value, sentence


class _Said(str):
    """An expression that is not worked out, as it stands."""

    def __repr__(self) -> str:
        return str(self)


def _value(node: ast.AST, module: str) -> Any:
    """What an expression gives; where that takes more than reading, the expression itself."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple):
        return tuple(_value(each, module) for each in node.elts)
    if isinstance(node, ast.List):
        return [_value(each, module) for each in node.elts]
    if isinstance(node, ast.Dict):
        return {_value(k, module): _value(v, module) for k, v in zip(node.keys, node.values) if k is not None}
    if isinstance(node, ast.UnaryOp) and type(node.op) in _SIGNS:
        return _SIGNS[type(node.op)](_value(node.operand, module))
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = _value(node.left, module), _value(node.right, module)
        if not isinstance(left, _Said) and not isinstance(right, _Said):
            return _ARITHMETIC[type(node.op)](left, right)
    if isinstance(node, ast.Lambda):
        return _value(node.body, module)
    if isinstance(node, ast.Name):
        found = _find(module, node.id)
        if found is not None:
            return _Made(found) if isinstance(found.node, ast.ClassDef) else _value(found.node, found.module)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _called(node, node.func.id, module)
    return _CONSTANTS.get(ast.unparse(node), _Said(ast.unparse(node)))


def _called(node: ast.Call, name: str, module: str) -> Any:
    given = {word.arg: word.value for word in node.keywords if word.arg is not None}
    if name == "field":
        factory = given.get("default_factory")
        if isinstance(factory, ast.Name) and factory.id in _MAKERS:
            return _MAKERS[factory.id]()
        return _value(factory or given["default"], module)
    values = {word: _value(value, module) for word, value in given.items()}
    if name == "replace":
        made = _value(node.args[0], module)
        return _Made(made.defined, made.given | values) if isinstance(made, _Made) else _Said(ast.unparse(node))
    found = _find(module, name)
    if found is not None and isinstance(found.node, ast.ClassDef):
        return _Made(found, values)
    arguments = [_value(each, module) for each in node.args]
    if name in _MAKERS and not values and not any(isinstance(each, _Said) for each in arguments):
        return _MAKERS[name](*arguments)
    return _Said(ast.unparse(node))
