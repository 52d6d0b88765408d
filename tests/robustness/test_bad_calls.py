"""Bad calls: every damage that `damages.py` knows, to every file that a verb reads.

Each must end in one line that names the file, without a traceback and without a trace of half a result; and the same
call on the whole file must be accepted, so that a reader that refuses everything fails too.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest
from damages import Damage, apply, damages_of
from sources import SOURCES, Source

from dexprior.cli.main import main

UNSEEN = {
    # what nothing reads, in metadata of others or of ours
    "another type in robot_type", "another type in total_episodes", "another type in total_frames",
    "another type in total_tasks", "another type in data_files_size_in_mb", "another type in video_files_size_in_mb",
    "another type in splits", "another type in splits.train", "another type in num_grasps", "another type in task_id",
    "another type in realsense.height", "another type in realsense.width", "another type in hololens",
    "another type in hololens.pv_height", "another type in hololens.pv_width", "another type in hololens.serial",
}  # fmt: skip
KEPT = {
    # documented: numbers are kept as they are recorded, what is not finite or was lost is left out and counted
    ("trace of tables", "t/command.csv", "only a header"), ("trace of tables", "t/command.csv", "1e300"),
    ("trace of tables", "t/events.csv", "only a header"), ("trace of one table", "table.csv", "not a number"),
    ("trace of one table", "table.csv", "1e300"), ("trace of one table", "table.csv", "infinite"),
    ("trace of one table", "table.csv", "1e999"), ("arm", "logs/run.csv", "not a number"),
    ("arm", "logs/run.csv", "infinite"), ("arm", "logs/run.csv", "1e999"),
    ("landmarks", "l.npz", "not a number"), ("landmarks", "l.npz", "infinite"),
    ("recording", "one/wrench.csv", "not a number"),
    ("recording", "one/wrench.csv", "infinite"), ("recording", "one/wrench.csv", "1e999"),
    ("recording", "one/episode.yaml", "nothing"),
    ("arm's folder", "logs/motion/joint_list.txt", "its first bytes only"),
    # bytes within pictures and fields without a checksum
    ("trace of ROS", "a.bag", "other bytes at its beginning"),
    ("landmarks", "clip.mp4", "other bytes at its beginning"),
    ("trace of LeRobot", "s/data/chunk-000/file-000.parquet", "other bytes at its beginning"),
    ("HOT3D", "train_aria/clip-001849.tar", "other bytes at its beginning"),
    # keys beside those that are read
    ("DexYCB", "20200709-subject-01/20200709_141750/meta.yml", "an unknown key"),
    ("HO-Cap", "subject_1/20231025_165502/meta.yaml", "an unknown key"),
}  # fmt: skip
READ = {  # of files of ours with much that is for people
    "campaign": ("header.schema", "preregistration", "trials", "inputs"),
    "plan of a round": (
        "header.schema",
        "success.simulator.k",
        "success.simulator.n",
        "success.robot.k",
        "success.robot.n",
    ),
    "rounds": ("header", "round", "policy", "panel", "paired", "success", "outcomes", "slip_gap", "actions"),
}
READ_NOT = (
    "header.producer",
    "header.versions",
    "header.seed",
    "header.config_hash",
    "header.parents",
    "success_gap.",
    "slip_gap.n",
)
REMARKS = {"a word", "1_0", "not a number", "infinite", "1e300", "1e999"}  # the last column of both is text
FILES = [(name, file) for name, source in SOURCES.items() for file in source.files]


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """Makes the folder of a source once."""
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp("whole") / "d"
            made[name].mkdir()
            SOURCES[name].make(made[name])
        return made[name]

    return folder


def expected(name: str, file: str, damage: str) -> bool:
    """Whether a damage must be refused."""
    if name in READ and damage.startswith("another type in "):
        field = damage.removeprefix("another type in ")
        return field.startswith(READ[name]) and not field.startswith(READ_NOT)
    free = file in ("filled.csv", "t/events.csv") and damage in REMARKS
    return not (free or damage in UNSEEN or (name, file, damage) in KEPT)


def fault(name: str, file: str, whole: Path, damage: Damage, work: Path, capsys) -> str | None:
    """What is wrong with the answer to one bad call; None where nothing is."""
    source: Source = SOURCES[name]
    shutil.copytree(whole, work / "d")
    (work / "o").mkdir()
    apply(damage, work / "d" / file)
    before = {path: path.stat().st_mtime_ns for path in work.rglob("*")}
    start = time.process_time()
    status = main([word.format(d=work / "d", o=work / "o") for word in source.words])
    seconds = time.process_time() - start
    out, err = capsys.readouterr()
    rejected = [line for line in out.splitlines() if line.startswith("rejected ")]
    told = rejected or [line for line in err.splitlines() if line.strip()] or out.splitlines()[:1]
    if "Traceback" in err or "unforeseen" in err:
        return f"was not foreseen: {err}"
    if status not in (0, 1, 2) or (status == 0 and not rejected):
        return f"was accepted: {out[-200:]}"
    if not rejected and len(told) != 1:
        return f"has {len(told)} lines: {told}"
    names = [source.named] if source.named is not None else [*(Path(f).name for f in source.files), "logs"]
    if not any(each in told[0] for each in names):
        return f"does not name the file: {told[0]}"
    if status and not rejected and not source.rest:
        now = {path for path in work.rglob("*") if path.stat().st_mtime_ns != before.get(path)}
        if changed := [str(path) for path in now if path.is_file()]:
            return f"wrote or changed {changed}"
    return f"took {seconds:.1f} s" if seconds > 10 else None


@pytest.mark.parametrize("name", SOURCES)
def test_the_whole_file_is_accepted(name, whole, tmp_path, capsys):
    source = SOURCES[name]
    folder = shutil.copytree(whole(name), tmp_path / "d")
    (tmp_path / "o").mkdir()
    if source.read is not None:
        source.read(folder)
        return
    status = main([word.format(d=folder, o=tmp_path / "o") for word in source.words])
    out, err = capsys.readouterr()
    assert status in (0, source.rest), err
    assert "rejected" not in out
    assert "damaged" not in out


def attacked(name: str, file: str, share: int, whole, tmp_path, capsys) -> None:
    """Every `share`-th damage of a file; over all files each kind has its turn."""
    folder = whole(name)
    known = damages_of(file, (folder / file).read_bytes())
    faults = []
    for damage, change in known.items():
        if not expected(name, file, damage) or zlib.crc32(f"{name}{file}{damage}".encode()) % share:
            continue
        work = tmp_path / str(len(list(tmp_path.iterdir())))
        work.mkdir()
        if said := fault(name, file, folder, change, work, capsys):
            faults.append(f"{damage}: {said}")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(("name", "file"), FILES, ids=[f"{name}-{Path(file).name}" for name, file in FILES])
def test_a_damaged_file_is_one_line_that_names_it(name, file, whole, tmp_path, capsys):
    attacked(name, file, 3, whole, tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "file"), FILES, ids=[f"{name}-{Path(file).name}" for name, file in FILES])
def test_every_damage_of_every_file(name, file, whole, tmp_path, capsys):
    attacked(name, file, 1, whole, tmp_path, capsys)


PROGRAMS = [
    ("motion capture", "layout.yaml", "aliases of aliases"), ("motion capture", "layout.yaml", "deep"),
    ("motion capture", "layout.yaml", "a huge integer"), ("motion capture", "drops.csv", "1e300"),
    ("motion capture", "drops.csv", "a NUL"), ("motion capture", "drops.csv", "UTF-16"),
    ("trace", "run.mcap", "zeros"), ("trace", "run.mcap", "its first bytes only"),
    ("trace out", "run.mcap", "a folder"),
    ("trace of tables", "t/trace.json", "deep"), ("trace of tables", "t/trace.json", "a key twice"),
    ("trace of LeRobot", "s/meta/info.json", "another type in features"),
    ("trace of LeRobot", "s/data/chunk-000/file-000.parquet", "noise"), ("trace of robomimic", "a.hdf5", "nothing"),
    ("VideoX-Fun", "metadata.json", "half a surrogate pair"), ("recording", "one/landmarks.npz", "a bomb"),
    ("recording", "one/object.npz", "objects"), ("ARCTIC", "raw_seqs/s01/box_grab_01.mano.npy", "a dtype with fields"),
    ("ARCTIC", "raw_seqs/s01/box_grab_01.mano.npy", "objects from bytes"),
    ("HO-3D", "train/ABF10/meta/0001.pkl", "more elements than bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "file", "damage"), PROGRAMS, ids=[f"{n}-{d}" for n, _, d in PROGRAMS])
def test_a_program_of_four_gigabytes_is_enough(name, file, damage, whole, tmp_path):
    """The same as a process of its own, with a limit of memory that a bomb would break."""
    folder = shutil.copytree(whole(name), tmp_path / "d")
    known = damages_of(file, (folder / file).read_bytes())
    apply(known[damage], folder / file)
    words = [word.format(d=folder, o=tmp_path / "o") for word in SOURCES[name].words]
    done = subprocess.run(
        [sys.executable, "-m", "dexprior", *words], capture_output=True, text=True, timeout=60, check=False,
        cwd=Path(__file__).parents[2], env=os.environ | {"OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)),  # one thread
    )  # fmt: skip
    told = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith(("rejected ", "dexprior "))]
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "unforeseen" not in done.stderr
    assert told, done.stderr
