"""`dexprior data import|export|inspect traces=...`: a round trip a format, and errors that are named."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from dexprior.cli.main import main
from dexprior.data.traces import read_trace, write_trace
from dexprior.types import Channel, Trace


@pytest.fixture
def recording(tmp_path):
    """One trace of an arm, as a file."""
    t = np.arange(100) * 0.01
    value = np.random.default_rng(0).normal(size=(100, 2))
    channels = {
        name: Channel(t=t, t_host=t + 50, value=value, unit="rad", frame="joint", kind=kind)
        for name, kind in (("command", "commanded"), ("measured", "measured"))
    }
    info = {"joints": ["a", "b"], "events": [[0.5, 50.5, "contact"]]}
    return write_trace(Trace(channels=channels, panel_hash="p", info=info), tmp_path / "run.mcap")


@pytest.mark.parametrize(
    ("format", "name"),
    [
        ("csv", "folder"), ("csv", "motion.csv"), ("lerobot", "set"), ("robomimic", "demos.hdf5"),
        ("rosbag", "one.bag"), ("rosbag", "two"),
    ],
)  # fmt: skip
def test_out_and_back(format, name, recording, tmp_path, capsys):
    if format == "rosbag":
        pytest.importorskip("rosbags")
    out, back = tmp_path / name, tmp_path / "back.mcap"
    assert main(["data", "export", f"traces={recording}", f"format={format}", f"out={out}"]) == 0
    assert main(["data", "import", f"traces={out}", f"format={format}", f"out={back}"]) == 0
    assert "100 samples of command [rad]" in capsys.readouterr().out
    before, after = read_trace(recording), read_trace(back)
    for channel in ("command", "measured"):
        np.testing.assert_array_equal(after[channel].value, before[channel].value)
        np.testing.assert_allclose(after[channel].t, before[channel].t, rtol=0, atol=1e-9)
        assert after[channel].kind == before[channel].kind
    if name != "motion.csv":  # which has no place for it, and says so
        assert after.panel_hash == "p"
        assert after.info["events"] == before.info["events"]
    assert main(["data", "inspect", f"traces={back}"]) == 0
    assert "100.0 Hz" in capsys.readouterr().out


def test_several_episodes_are_a_folder_of_traces(recording, tmp_path, capsys):
    folder = tmp_path / "traces"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.mcap").write_bytes(recording.read_bytes())
    out, back = tmp_path / "set", tmp_path / "back"
    assert main(["data", "export", f"traces={folder}", "format=lerobot", "fps=50", f"out={out}"]) == 0
    arguments = ["data", "import", f"traces={out}", "format=lerobot"]
    assert main([*arguments, f"out={back}"]) == 0
    assert sorted(p.name for p in back.iterdir()) == ["episode-000000.mcap", "episode-000001.mcap"]
    assert main([*arguments, "episode=episode-000001", f"out={tmp_path / 'one.mcap'}"]) == 0
    capsys.readouterr()
    assert main([*arguments, f"out={tmp_path / 'two.mcap'}"]) == 1
    assert "holds 2 episodes: give episode=" in capsys.readouterr().err


def test_one_bad_episode_or_file_does_not_refuse_the_others(recording, tmp_path, capsys):
    folder = tmp_path / "traces"
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / f"{name}.mcap").write_bytes(recording.read_bytes())
    demos = tmp_path / "demos.hdf5"
    assert main(["data", "export", f"traces={folder}", "format=robomimic", f"out={demos}"]) == 0
    with h5py.File(demos, "a") as file:
        for name in ("demo_0", "demo_1"):
            del file[f"data/{name}/trace"]
        file["data/demo_1/actions"][:] = np.nan
        del file["data/demo_1/obs"]
    words = ["data", "import", f"traces={demos}", "format=robomimic"]
    assert main([*words, f"out={tmp_path / 'back'}"]) == 0
    assert sorted(p.name for p in (tmp_path / "back").iterdir()) == ["demos.hdf5-demo_0.mcap", "demos.hdf5-demo_2.mcap"]
    assert "rejected demos.hdf5/demo_1" in capsys.readouterr().out
    assert main([*words, f"out={tmp_path / 'back'}"]) == 1  # all are there already, and none is overwritten
    (folder / "b.mcap").write_bytes(b"nothing")
    assert main(["data", "inspect", f"traces={folder}"]) == 0
    assert "b.mcap cannot be read" in capsys.readouterr().out


def test_a_layout_names_the_columns_of_a_table(tmp_path, capsys):
    table, layout = tmp_path / "log.csv", tmp_path / "layout.yaml"
    table.write_text("t,ft.x,ft.y\n" + "".join(f"{0.01 * k},{k},0\n" for k in range(20)))
    arguments = ["data", "import", f"traces={table}", "format=csv", f"out={tmp_path / 'log.mcap'}"]
    assert main(arguments) == 1
    assert "channel 'ft': nothing says its unit" in capsys.readouterr().err
    layout.write_text("push: {unit: N, frame: sensor, kind: measured, source: ft}\n")
    assert main([*arguments, f"layout={layout}"]) == 0
    push = read_trace(tmp_path / "log.mcap")["push"]
    assert (push.unit, push.value.shape) == ("N", (20, 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["import", "traces=RUN"], "give format=NAME; formats: csv, lerobot, robomimic, rosbag"),
        (["import", "traces=RUN", "format=nope"], "Known: csv, lerobot"),
        (["import", "traces=missing", "format=csv", "out=x.mcap"], "missing: no such"),
        (["import", "traces=RUN", "format=robomimic", "out=x.mcap"], "damaged"),
        (["export", "traces=RUN"], "give format=NAME"),
        (["export", "traces=RUN", "format=csv", "fps=10", "out=x"], "leave fps=10 out"),
        (["export", "traces=RUN", "format=csv", "out=RUN"], "exists"),
        (["export", "traces=missing", "format=csv"], "missing: no such file"),
        (["inspect", "traces=missing"], "missing: no such file"),
        (["inspect", "traces=EMPTY"], "is no MCAP file"),
    ],
)
def test_what_is_wrong_is_one_line(arguments, message, recording, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "EMPTY").write_bytes(b"")
    words = [word.replace("RUN", str(recording)) for word in arguments]
    assert main(["data", *words]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
