"""From folders of simulated pairs to one network for their shapes: by the library, and by the command."""

from __future__ import annotations

import json

import pytest

import dexprior.collision.shapes.generator as module
from dexprior.cli.main import main
from dexprior.collision.parameters import ContactRanges
from dexprior.collision.shapes import (
    PairConfig,
    ShapeNetworkConfig,
    ShapeRanges,
    ShapeTrainingConfig,
    distill_shapes,
    generate,
    load_ranges,
    load_shape_network,
    preset,
)
from dexprior.errors import ArtifactError, BadInput

NETWORK, TRAINING = ShapeNetworkConfig(width=8, near=4, far=4), ShapeTrainingConfig(steps=20, batch=32)
NARROW = ShapeRanges(contact=ContactRanges(friction=(0.1, 0.5)))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Pairs of two shapes, and of the second with narrower ranges, simulated in small blocks."""
    root = tmp_path_factory.mktemp("pairs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", 128)
        for name, ranges in (("square", ShapeRanges()), ("triangle", ShapeRanges()), ("narrow", NARROW)):
            scene = preset(f"striker_{name.replace('narrow', 'triangle')}")
            generate(scene, PairConfig(pairs=100), ranges, seed=0, folder=root / name, blocks_per_shard=1)
    return root


def test_the_command_trains_on_folders_and_scores_another(folders, tmp_path, capsys):
    words = [f"pairs=[{folders}/square]", f"test={folders}/triangle", f"out={tmp_path}"]
    size = ["network.width=8", "network.near=4", "network.far=4", "training.steps=20", "training.batch=32"]
    assert main(["collision", "distill", *words, *size]) == 0
    shown = json.loads(capsys.readouterr().out)
    scores = shown["scores"][f"{folders}/triangle"]
    assert scores["n"] == 100
    assert 0 <= scores["acc_0.1"] <= scores["acc_0.2"] <= 1
    assert load_shape_network(shown["file"]).config == NETWORK
    assert json.loads((tmp_path / "result.json").read_text()) == shown


def test_the_network_takes_the_ranges_of_its_folders_and_a_second_run_takes_it_up(folders, tmp_path):
    assert load_ranges(folders / "narrow") == NARROW
    options = {"seed": 1, "progress": False}
    first = distill_shapes([folders / "narrow"], tmp_path, NETWORK, TRAINING, **options)
    assert load_shape_network(first["file"]).config.ranges == NARROW.contact
    written = (tmp_path / "shapes.safetensors").stat().st_mtime_ns
    assert distill_shapes([folders / "narrow"], tmp_path, NETWORK, TRAINING, **options) == first
    assert (tmp_path / "shapes.safetensors").stat().st_mtime_ns == written
    with pytest.raises(ArtifactError, match=r"belongs to another run: ranges\.friction is"):
        distill_shapes([folders / "square"], tmp_path, NETWORK, TRAINING, **options)


def test_folders_that_do_not_fit_are_named(folders, tmp_path):
    with pytest.raises(BadInput, match="narrow: its contact parameters have other ranges"):
        distill_shapes([folders / "square", folders / "narrow"], tmp_path, seed=0)
    with pytest.raises(BadInput, match="at least one folder"):
        distill_shapes([], tmp_path, seed=0)
    with pytest.raises(ArtifactError, match="no collision pairs there"):
        distill_shapes([tmp_path / "absent"], tmp_path, seed=0)


def test_a_folder_given_twice_and_one_of_another_stage_are_refused(folders, tmp_path):
    square = folders / "square"
    with pytest.raises(BadInput, match="square is given twice"):
        distill_shapes([square, folders / ".." / folders.name / "square"], tmp_path / "out", NETWORK, TRAINING, seed=0)
    with pytest.raises(BadInput, match="the test shape is another one"):
        distill_shapes([square], tmp_path / "out", NETWORK, TRAINING, seed=0, test=square)
    for text in ('{"stage": "collision", "config": [1]}', "[]", '{"stage": "collision_pairs", "config": {}}'):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(ArtifactError, match="not of pairs that `generate` makes"):
            load_ranges(tmp_path)
    (tmp_path / "run.json").write_text('{"stage"')
    with pytest.raises(BadInput, match="is not valid JSON"):
        load_ranges(tmp_path)
    assert not (tmp_path / "out").exists()
