"""Hydra -> plain data -> typed configuration. The defaults stand in the verbs' dataclasses, the variants in YAML."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from dexprior.cli.places import config_folder, presets
from dexprior.cli.words import quoting, text_settings, text_value
from dexprior.config import to_plain, validate
from dexprior.errors import ConfigError

__all__ = ["compose", "files", "parts"]

T = TypeVar("T")


def files(given: str | tuple[str, ...]) -> tuple[str, ...]:
    """The files of a setting that takes one or several."""
    return (given,) if isinstance(given, str) else given


def parts(given: int | tuple[int, ...]) -> tuple[int, ...]:
    """The numbers of a setting that takes one or several."""
    return (given,) if isinstance(given, int) else given


def compose(verb: str, cls: type[T], overrides: Sequence[str]) -> T:
    """A verb's configuration: its dataclass's defaults, then its YAML, then `key=value` overrides.

    Raises:
        ConfigError: an override that cannot be read, an unknown key, a wrong type, or a value out of range.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.config_store import ConfigStore
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    defaults = to_plain(cls())
    ConfigStore.instance().store(name=f"{_name(verb)}_defaults", node=_open_mappings(OmegaConf.create(defaults)))
    _check_keys(verb, defaults, overrides)
    texts = text_settings(cls)
    given = {}
    rest = []
    for override in overrides:
        key, _, value = override.partition("=")
        if key.lstrip("+") in texts:
            one, several, none = texts[key.lstrip("+")]
            given[key.lstrip("+")] = text_value(f"{verb}.{key}", value, one=one, several=several, none=none)
        else:
            rest.append(override)
    with initialize_config_dir(config_dir=str(config_folder()), version_base="1.3"):
        try:
            node = hydra_compose(config_name=_name(verb), overrides=[_group(verb, o) for o in rest])
            plain = OmegaConf.to_container(node, resolve=True)
        except (HydraException, OmegaConfBaseException) as error:
            first = str(error).strip().splitlines()[0]
            said = [o.partition("=") for o in rest if _SPECIAL.search(o.partition("=")[2])]
            hint = f"; {quoting(said[0][0], said[0][2])}" if said else ""
            raise ConfigError(f"{verb}: {first}{hint}") from None
    assert isinstance(plain, dict)
    for key, text in given.items():
        *folders, last = key.split(".")
        inner = plain
        for name in folders:
            inner = inner[name]
        inner[last] = text
    return validate(cls, {str(k): v for k, v in plain.items()}, where=verb)


def _open_mappings(node: Any) -> Any:
    """Let overrides add keys to mappings that are empty by default; Hydra closes all others."""
    from omegaconf import OmegaConf

    for key in node:
        child = node[key]
        if OmegaConf.is_dict(child):
            if len(child):
                _open_mappings(child)
            else:
                OmegaConf.set_struct(child, False)
    return node


def _check_keys(verb: str, defaults: dict[str, Any], overrides: Sequence[str]) -> None:
    known = list(_paths(defaults))
    if presets(verb):
        known.append("preset")
    for override in overrides:
        key, sep, _ = override.partition("=")
        if not sep:
            raise ConfigError(f"{verb}: {override!r} is no key=value")
        key = key.lstrip("+~")
        if key not in known and not _opened(defaults, key):
            near = difflib.get_close_matches(key, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            if Path(override).exists():
                hint += f" The file or folder of that name is written ./{override}."
            raise ConfigError(f"{verb}.{key}: unknown key.{hint} Known here: {', '.join(_top(known))}")
        if key == "preset" and override.partition("=")[2] not in presets(verb):
            raise ConfigError(f"{verb}.{override}: unknown preset; choices: {', '.join(presets(verb))}")


def _group(verb: str, override: str) -> str:
    """`preset=smoke` picks the file preset/VERB/smoke.yaml; values in a row are a list."""
    key, _, value = override.partition("=")
    if key == "preset":
        return f"preset/{_name(verb)}@_global_={value}"
    return f"{key}=[{value}]" if _ROW.fullmatch(value) else override


_ROW = re.compile(r"[^][(){}'\",=]+(,[^][(){}'\",=]+)+")
_SPECIAL = re.compile(r"[^\w.,:+-]")


def _paths(tree: dict[str, Any], prefix: str = "") -> Any:
    for key, value in tree.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _paths(value, f"{prefix}{key}.")


def _opened(tree: Any, key: str) -> bool:
    """Whether a key lies in a mapping that is empty by default."""
    head, _, rest = key.partition(".")
    if not isinstance(tree, dict) or head not in tree:
        return False
    return bool(rest) and (tree[head] == {} or _opened(tree[head], rest))


def _top(known: list[str]) -> list[str]:
    return [k for k in known if "." not in k]


def _name(verb: str) -> str:
    return verb.replace("-", "_")
