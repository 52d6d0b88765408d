"""A training's log: its history is what happened, its trackers are told what people look at."""

from __future__ import annotations

import importlib.machinery
import sys
from types import ModuleType, SimpleNamespace

import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from dexprior import extras
from dexprior.errors import MissingExtra
from dexprior.progress import TrainingLog


@pytest.fixture
def gif(tmp_path):
    """A small moving picture."""
    frames = [Image.new("RGB", (8, 4), (k, 0, 0)) for k in (0, 250)]
    frames[0].save(tmp_path / "film.gif", save_all=True, append_images=frames[1:], loop=0)
    return tmp_path / "film.gif"


@pytest.fixture
def wandb(monkeypatch):
    """A stand-in for the package: runs by their identifiers, with what was logged."""
    module = ModuleType("wandb")
    module.__spec__ = importlib.machinery.ModuleSpec("wandb", None)
    module.runs = {}

    def init(*, id, **settings):
        rows, ended = module.runs.setdefault(id, ([], []))
        return SimpleNamespace(
            log=lambda row, step: rows.append((step, row)), finish=lambda: ended.append(settings["resume"])
        )

    module.init, module.Video = init, lambda path, format: ("video", path, format)
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_tensorboard_gets_the_losses_notes_and_pictures_and_history_the_losses(tmp_path, gif):
    history = []
    with TrainingLog(tmp_path, "train", 2, history) as log:
        log.add(1, {"loss": 2.0})
        log.note(1, {"samples_per_s": 5.0}, under="machine")
        log.picture(1, "validation/clips", gif)
        log.add(2, {"loss": 1.0})
    assert history == [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0}]
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(1, 2.0), (2, 1.0)]
    assert [e.value for e in events.Scalars("machine/samples_per_s")] == [5.0]
    (image,) = events.Images("validation/clips")
    assert (image.width, image.height) == (8, 4)
    assert image.encoded_image_string == gif.read_bytes()


def test_a_resumed_run_goes_on_in_the_same_run_of_wandb(tmp_path, gif, wandb):
    for step in (1, 2):
        with TrainingLog(tmp_path / "run", "train", 2, [], to="wandb") as log:
            log.add(step, {"loss": 2.0})
            log.picture(step, "clips", gif)
    ((rows, ended),) = wandb.runs.values()
    assert rows == [(k, row) for k in (1, 2) for row in ({"loss": 2.0}, {"clips": ("video", str(gif), "gif")})]
    assert ended == ["allow", "allow"]
    assert not (tmp_path / "run" / "tensorboard").exists()


def test_other_ranks_tell_no_tracker(tmp_path, gif):
    with TrainingLog(tmp_path, "train", 1, [], quiet=True, to="wandb") as log:
        log.add(1, {"loss": 1.0})
        log.picture(1, "clips", gif)
    assert [path.name for path in tmp_path.iterdir()] == ["film.gif"]


def test_without_wandb_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(extras.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'dexprior\[wandb\]'"):
        TrainingLog(tmp_path, "train", 1, [], to="wandb")
