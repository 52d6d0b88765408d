"""The checkpoints that ship: small, whole, without a pickle, and of networks that this version has."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from dexprior.artifacts import load_module
from dexprior.cli.compose import compose
from dexprior.cli.places import shipped
from dexprior.config import to_plain
from dexprior.pipeline.settings import LineConfig
from dexprior.policy.actor import SCHEMA, load_actor
from dexprior.pose.estimator import load_estimator
from dexprior.prior.sampling import load_prior

FOLDER = Path(__file__).resolve().parents[2] / "checkpoints"
SETS = sorted(path.parent for path in FOLDER.glob("*/SHA256SUMS"))


def test_they_are_small_and_hold_no_pickle():
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 3_000_000
    assert {path.suffix for path in files} == {".safetensors", ".json", ".md", ".py", ""}
    assert [path for path in files if not path.suffix] == [folder / "SHA256SUMS" for folder in SETS]


@pytest.mark.parametrize("folder", SETS, ids=lambda path: path.name)
def test_every_file_is_the_one_that_was_made(folder):
    listed = dict(reversed(line.split("  ", 1)) for line in (folder / "SHA256SUMS").read_text().splitlines())
    found = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "SHA256SUMS"
    }
    assert found == listed


def test_they_are_the_networks_of_the_preset_and_this_version_reads_them():
    made = compose("demo", LineConfig, ["preset=tiny"])
    prior, info = load_prior(shipped("prior") / "checkpoint")
    assert info["tasks"] == [made.task]
    sizes = {name: prior.denoiser.config[name] for name in ("size", "width", "layers", "channels")}
    assert sizes == {name: to_plain(made.prior)[name] for name in sizes}
    assert load_estimator(shipped("estimator") / "estimator.safetensors").config == made.estimator
    actor = shipped("policy") / "actor.safetensors"
    assert load_actor(actor).config == made.policy.actor
    assert load_module(actor, schema=SCHEMA)[2]["sensors"] == to_plain(made.policy.simulation.sensors)
