"""`dexprior data` on a folder of episodes: out as a LeRobot data set and back, looked at, checked."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.cli.main import main
from dexprior.data.clips import write_clip
from dexprior.data.episodes import append_index, read_episodes, write_episode
from dexprior.types import Episode


@pytest.fixture
def folder(tmp_path, example_makers):
    """Two episodes in the folder layout."""
    path = tmp_path / "episodes"
    path.mkdir()
    for number in range(2):
        write_episode(path, number, example_makers(seed=number)[Episode], producer="test")
        append_index(path, {"number": number, "kept": True})
    return path


def test_out_and_back(folder, tmp_path, capsys):
    assert main(["data", "export", f"source={folder}", f"out={tmp_path / 'set'}"]) == 0
    assert (tmp_path / "set" / "meta" / "info.json").is_file()
    back = tmp_path / "back"
    arguments = ["data", "import", "kind=lerobot", f"source={tmp_path / 'set'}", f"out={back}"]
    assert main([*arguments, "imports.licence=CC0-1.0"]) == 0
    assert "2 episodes" in capsys.readouterr().out
    for before, after in zip(read_episodes(folder), read_episodes(back), strict=True):
        np.testing.assert_allclose(after.sample.hand.joints, before.sample.hand.joints, atol=1e-6)
        assert after.condition.text == before.condition.text
    assert main([*arguments, "imports.licence=CC0-1.0"]) == 0
    assert "2 were there already" in capsys.readouterr().out


def test_an_import_of_videos_that_wrote_no_clip_has_another_status(tmp_path, capsys):
    write_clip(tmp_path / "in" / "a.mp4", np.zeros((40, 64, 96, 3), np.uint8), 20.0)
    assert main(["data", "import", f"videos={tmp_path / 'in'}", f"out={tmp_path / 'out'}"]) == 1
    shown = capsys.readouterr().out
    assert "no licence is stated" in shown
    assert "no clip was written" in shown


def test_inspect_and_validate(folder, tmp_path, capsys):
    assert main(["data", "inspect", f"source={folder}", f"out={tmp_path / 'page'}"]) == 0
    assert (tmp_path / "page" / "index.html").is_file()
    (folder / "000001.mp4").write_bytes(b"")
    assert main(["data", "validate", f"source={folder}"]) == 1
    assert "damaged" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["import"], "formats: arctic"),
        (["import", "kind=nope", "source=x"], "Known: arctic"),
        (["import", "kind=lerobot", "source=missing"], "missing"),
        (["export"], "give source="),
        (["inspect", "source=missing"], "missing"),
        (["validate", "source=missing"], "missing"),
        (["polish"], "choices: generate"),
        (["generate", "task=juggling"], "pick_place"),
        (["import", "recording=a.csv"], "layout=FILE.yaml"),
    ],
)
def test_what_is_missing_is_said(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["data", *arguments]) != 0
    assert message in capsys.readouterr().err
