"""What import_dataset writes: every attempt in the index, nothing twice, long recordings in pieces."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from test_plain_formats import FPS, N, bending, cut, make_moving, make_recording, make_videox, squeeze

from dexprior.cli.main import main
from dexprior.data.episodes import append_index, read_episode, read_index
from dexprior.data.importers import IMPORTERS, ImportSettings, import_dataset, import_episodes, read_record
from dexprior.errors import ArtifactError, BadInput, UnknownName


@pytest.fixture
def source(tmp_path):
    root = tmp_path / "source"
    for name in ("a", "b", "c"):
        make_recording(root / name, notes={"text": f"squeeze {name}", "licence": "CC-BY-4.0"})
    cut(root / "b" / "video.mp4")
    return root


def test_what_is_written(source, tmp_path, fit):
    out = tmp_path / "out"
    summary = import_dataset("recording", source, out, fit=fit)
    assert (summary.episodes, summary.records, summary.skipped) == (2, 0, 0)
    assert [(r.episode, "truncated" in r.reason) for r in summary.rejected] == [("b", True)]
    index = read_index(out)
    assert [(row["number"], row["kept"], row["source"]) for row in index] == [
        (0, True, "recording:a"), (1, False, "recording:b"), (2, True, "recording:c"),
    ]  # fmt: skip
    assert index[0]["licence"] == "CC-BY-4.0"
    assert "truncated" in index[1]["reason"]
    episode = read_episode(out, 2)
    assert episode.condition.text == "squeeze c"
    np.testing.assert_array_equal(episode.sample.hand.joints, bending())


def test_a_second_run_reads_only_what_is_missing(source, tmp_path, fit):
    out = tmp_path / "out"
    first = import_dataset("recording", source, out, fit=fit, limit=1)
    assert (first.episodes, first.rejected) == (1, ())
    second = import_dataset("recording", source, out, fit=fit)
    assert (second.episodes, second.skipped, len(second.rejected)) == (1, 1, 1)
    before = (out / "index.jsonl").read_bytes()
    third = import_dataset("recording", source, out, fit=fit)
    assert (third.episodes, third.skipped, len(third.rejected)) == (0, 2, 1)
    assert (out / "index.jsonl").read_bytes() == before, "the same rejection is told once"


def test_another_data_set_with_the_same_names_is_not_taken_for_the_first(source, tmp_path, fit, capsys):
    make_recording(tmp_path / "other" / "a")
    out = tmp_path / "out"
    import_dataset("recording", source, out, fit=fit)
    summary = import_dataset("recording", tmp_path / "other", out, fit=fit)
    assert (summary.episodes, summary.records, summary.skipped) == (0, 0, 0)
    ((note, count),) = summary.notes.items()
    assert count == 1
    assert f"from {source}: give each data set a folder" in note
    words = ["data", "import", "kind=recording", f"source={tmp_path / 'other'}", f"out={out}"]
    assert main(words) == 1
    assert "give each data set a folder" in capsys.readouterr().out


def test_an_episode_that_holds_nothing_is_no_record(tmp_path, capsys):
    """A demonstration of which every stream is left out: the import wrote nothing, and its status says so."""
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        demo = file.create_group("data/demo_0")
        demo["actions"] = np.full((5, 2), np.nan)
        demo["obs/short"] = np.zeros((3, 2))
    out = tmp_path / "out"
    assert main(["data", "import", "kind=robomimic", f"source={tmp_path / 'a.hdf5'}", f"out={out}"]) == 1
    shown = capsys.readouterr().out
    assert "rejected a.hdf5/demo_0" in shown
    assert "holds nothing that is imported" in shown
    assert "action holds values that are not finite" in shown
    assert "0 episodes, 0 records" in shown


def test_a_repaired_episode_is_taken_up(source, tmp_path, fit):
    out = tmp_path / "out"
    import_dataset("recording", source, out, fit=fit)
    (source / "b" / "video.mp4").write_bytes((source / "a" / "video.mp4").read_bytes())
    summary = import_dataset("recording", source, out, fit=fit)
    assert (summary.episodes, summary.skipped, summary.rejected) == (1, 2, ())
    assert sorted(row["source"] for row in read_index(out) if row["kept"]) == [f"recording:{k}" for k in "abc"]


def test_numbers_go_on_in_a_folder_that_holds_episodes(source, tmp_path, fit):
    append_index(tmp_path, {"number": 41, "kept": False, "seed": 3})
    import_dataset("recording", source, tmp_path, fit=fit, limit=1)
    assert [row["number"] for row in read_index(tmp_path)] == [41, 42]


def test_long_recordings_are_cut_and_nothing_is_lost(tmp_path, fit):
    make_recording(tmp_path / "source" / "a")
    settings = ImportSettings(max_frames=15)
    out = tmp_path / "out"
    summary = import_dataset("recording", tmp_path / "source", out, fit=fit, settings=settings)
    assert summary.episodes == 3
    pieces = [read_episode(out, k) for k in range(3)]
    lengths = [len(p.sample.frames) for p in pieces]
    assert sum(lengths) == N
    assert max(lengths) <= 15
    np.testing.assert_array_equal(np.concatenate([p.sample.hand.joints for p in pieces]), bending())
    wrench = np.concatenate([p.wrench.wrench for p in pieces])[:, 2]
    assert np.abs(wrench - squeeze(np.arange(N) / FPS)).mean() < 0.1
    for piece in pieces:
        assert piece.sample.hand.t[0] == piece.wrench.t[0] == 0
    assert [row["piece"] for row in read_index(out)] == [f"recording:a#{k:04d}" for k in range(3)]
    assert import_dataset("recording", tmp_path / "source", out, fit=fit, settings=settings).skipped == 1


def test_the_pieces_of_a_recording_have_the_path_of_its_camera(tmp_path, fit):
    path = make_moving(make_recording(tmp_path / "source" / "a"))
    out = tmp_path / "out"
    import_dataset("recording", tmp_path / "source", out, fit=fit, settings=ImportSettings(max_frames=15))
    pieces = [read_episode(out, k) for k in range(3)]
    for of in ("sample", "condition"):
        cameras = [getattr(piece, of).camera for piece in pieces]
        np.testing.assert_allclose(np.concatenate([c.T_base_cam for c in cameras]), path, atol=1e-12)


def test_a_run_that_was_killed_between_pieces_goes_on(tmp_path, fit):
    make_recording(tmp_path / "source" / "a")
    settings, out = ImportSettings(max_frames=15), tmp_path / "out"
    import_dataset("recording", tmp_path / "source", out, fit=fit, settings=settings)
    lines = (out / "index.jsonl").read_text().splitlines(keepends=True)
    (out / "index.jsonl").write_text(lines[0])
    summary = import_dataset("recording", tmp_path / "source", out, fit=fit, settings=settings)
    assert (summary.episodes, summary.skipped) == (2, 0)
    assert [row["piece"][-1] for row in read_index(out)] == ["0", "1", "2"]


def test_pictures_alone_become_a_record(tmp_path):
    rows = [{"file_path": "1.mp4", "text": "tea", "type": "video"}]
    root = make_videox(tmp_path / "set", rows)
    summary = import_dataset("videox-fun", root, tmp_path / "out", settings=ImportSettings(height=24))
    assert (summary.episodes, summary.records) == (0, 1)
    record = read_record(tmp_path / "out", 0)
    assert (record["text"], record["lens"], record["camera"]) == (["tea"], "unknown", None)
    from dexprior.data.clips import read_clip

    assert read_clip(record["video"])[0].shape == (8, 24, 32, 3)
    with pytest.raises(ArtifactError, match="no such file"):
        read_record(tmp_path / "out", 7)


def test_a_camera_that_is_not_there(source, fit):
    from dexprior.data.importers import to_episode

    found = next(iter(import_episodes("recording", source, fit=fit)))
    with pytest.raises(BadInput, match="a has no camera 'left'; it has: video"):
        to_episode(found, ImportSettings(view="left"))


def test_unknown_formats_and_folders(tmp_path):
    with pytest.raises(UnknownName, match="unknown format of a data set 'dex-ycb'; did you mean 'dexycb'"):
        import_dataset("dex-ycb", tmp_path, tmp_path / "out")
    with pytest.raises(BadInput, match="no such folder"):
        import_dataset("dexycb", tmp_path / "nowhere", tmp_path / "out")


def test_every_format_states_a_licence():
    assert all(entry.licence and entry.title for entry in IMPORTERS.values())
