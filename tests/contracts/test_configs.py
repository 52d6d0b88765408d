"""Every YAML file composes and validates, and every configuration class documents each of its fields."""

from __future__ import annotations

import dataclasses
import importlib
import typing

import pytest

from dexprior.cli.compose import compose, config_folder, presets
from dexprior.cli.main import VERBS
from dexprior.cli.source import settings
from dexprior.config import config_hash, to_plain, validate

LAUNCHED = ("cpu", "gpu", "ddp", "fsdp2")
"""Configurations of `accelerate launch`."""
CONFIGURED = [verb for verb in VERBS if verb != "doctor"]


def _class(verb: str):
    return importlib.import_module(f"dexprior.cli.{verb.replace('-', '_')}").Config


@pytest.mark.parametrize("verb", CONFIGURED)
def test_a_verb_composes_to_its_defaults(verb):
    cls = _class(verb)
    assert compose(verb, cls, []) == cls()


@pytest.mark.parametrize("verb", CONFIGURED)
def test_every_preset_composes(verb):
    for name in presets(verb):
        assert isinstance(compose(verb, _class(verb), [f"preset={name}"]), _class(verb))


def test_no_yaml_file_is_left_out():
    known = {config_folder() / f"{verb.replace('-', '_')}.yaml" for verb in CONFIGURED}
    for verb in CONFIGURED:
        folder = config_folder() / "preset" / verb.replace("-", "_")
        known |= {folder / f"{name}.yaml" for name in presets(verb)}
    known |= {config_folder() / "accelerate" / f"{name}.yaml" for name in LAUNCHED}
    assert set(config_folder().rglob("*.yaml")) == known


@pytest.mark.parametrize("name", LAUNCHED)
def test_accelerate_reads_its_configurations(name):
    from accelerate.commands.config import load_config_from_file

    read = load_config_from_file(str(config_folder() / "accelerate" / f"{name}.yaml"))
    assert read.mixed_precision == ("no" if name == "cpu" else "bf16")
    assert read.fsdp_config.get("fsdp_version") == (2 if name == "fsdp2" else None)


def test_an_override_wins_over_a_preset():
    demo = compose("demo", _class("demo"), ["preset=smoke", "prior.steps=7"])
    assert demo.prior.steps == 7
    assert demo.demonstrations.n == 36


@pytest.mark.parametrize("verb", CONFIGURED)
def test_plain_form_is_lossless_and_hashes_alike(verb):
    cls = _class(verb)
    again = validate(cls, to_plain(cls()))
    assert again == cls()
    assert config_hash(again) == config_hash(cls())


@pytest.mark.parametrize("verb", CONFIGURED)
def test_every_field_has_a_sentence(verb):
    silent = [path for path, _, text in settings(f"dexprior.cli.{verb.replace('-', '_')}") if not text]
    assert not silent


def _classes(cls, seen):
    if cls in seen:
        return seen
    seen.add(cls)
    for kind in typing.get_type_hints(cls).values():
        if dataclasses.is_dataclass(kind):
            _classes(kind, seen)
    return seen


@pytest.mark.parametrize("verb", CONFIGURED)
def test_configurations_are_frozen_and_keyword_only(verb):
    for cls in _classes(_class(verb), set()):
        assert cls.__dataclass_params__.frozen
        assert all(field.kw_only for field in dataclasses.fields(cls))
