"""The whole line at smoke size: it ends on a report, survives SIGKILL in every stage, and repeats itself exactly."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image
from smoke import COMMAND

from dexprior.pipeline.checkpoints import make_checkpoints
from dexprior.pipeline.line import Line
from dexprior.pipeline.settings import STAGES
from dexprior.policy.actor import load_actor
from dexprior.pose.estimator import load_estimator
from dexprior.prior.sampling import load_prior

pytestmark = pytest.mark.slow


def _environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def finished(smoke_demo) -> Path:
    return smoke_demo


def test_it_ends_on_a_self_contained_report(finished):
    page = (finished / "run" / "report.html").read_text()
    assert not re.findall(r"""(?:src|href)=['"](?!data:)""", page)
    assert page.count("data:video/mp4") >= 4
    assert page.count("data:image/png") >= 4
    for word in ("most is lost between", "nearest condition", "Transfer ledger", "Collision model", "hardware"):
        assert word in page


def test_what_it_trained_becomes_a_set_with_a_card_and_checksums(finished, tmp_path):
    shutil.copytree(finished / "run", tmp_path / "run")
    folder = make_checkpoints(Line.load(tmp_path / "run"), tmp_path / "set")
    subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=folder, check=True)
    load_prior(folder / "prior" / "checkpoint")
    load_estimator(folder / "estimator" / "estimator.safetensors")
    load_actor(folder / "policy" / "actor.safetensors")
    card = (folder / "README.md").read_text()
    assert "policy, success in the world other |" in card
    assert "dexprior demo demonstrations.n=36" in card.replace("threads=1 ", "")


def test_its_folder_becomes_the_picture_of_the_readme(finished, tmp_path):
    script = Path(__file__).resolve().parents[2] / "scripts" / "picture.py"
    command = [sys.executable, str(script), str(finished / "run"), str(tmp_path / "line.gif")]
    subprocess.run(command, env=_environment(), check=True, capture_output=True)
    with Image.open(tmp_path / "line.gif") as picture:
        assert picture.n_frames > 30  # frames that are alike are one
        assert picture.size == (704, 176)


def test_every_stage_left_a_readable_record(finished):
    for name in STAGES:
        record = json.loads((finished / "run" / name / "run.json").read_text())
        assert record["config"]
        assert record["versions"]["mujoco"]
        assert json.loads((finished / "run" / name / "done.json").read_text())["result"]


def test_all_four_backends_ran_the_policy(finished):
    result = json.loads((finished / "run" / "12-backends" / "done.json").read_text())["result"]
    assert set(result) == {"mujoco", "hybrid", "reality", "hardware"}


def test_running_it_again_redoes_no_stage(finished):
    before = {name: (finished / "run" / name / "done.json").stat().st_mtime_ns for name in STAGES}
    done = subprocess.run(COMMAND, cwd=finished, env=_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr.count("already done") == len(Line.load(finished / "run").steps())
    assert before == {name: (finished / "run" / name / "done.json").stat().st_mtime_ns for name in STAGES}


@pytest.mark.parametrize("stage", STAGES)
def test_killed_in_a_stage_it_finishes_it_and_equals_the_uninterrupted_run(stage, finished, tmp_path):
    """Everything that does not wait for the stage is taken over as finished; the run is killed while the stage works,
    and again when the stage is done: what comes after depends on its files alone."""
    steps = Line.load(finished / "run").steps()
    late = {stage} | ({name for name in steps if name.startswith(f"{stage}/")} if stage == "09-ladder" else set())
    for name, step in steps.items():  # each after what it needs, but for the parts below a stage
        late |= {name} if late & set(step.needs) else set()
    (tmp_path / "run").mkdir()
    shutil.copy(finished / "run" / "line.json", tmp_path / "run")
    kept = {}
    for name in steps.keys() - late:
        parts = [other.removeprefix(f"{name}/") for other in steps if other.startswith(f"{name}/")]
        shutil.copytree(
            finished / "run" / name, tmp_path / "run" / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*parts)
        )
        kept[name] = (tmp_path / "run" / name / "done.json").stat().st_mtime_ns
    folder = tmp_path / "run" / stage
    if stage == "09-ladder":  # in its parts, side by side: one is finished, others are under way
        one = folder / "expert" / "done.json"
        _run_until(one, tmp_path, longer=0.4)
        kept[f"{stage}/expert"] = one.stat().st_mtime_ns
        _run_until(folder / "done.json", tmp_path)
    else:
        _run_until(folder / "run.json", tmp_path, "jobs=1", longer=0.4)  # into the stage's work
        _run_until(folder / "done.json", tmp_path, "jobs=1")
    for name, stamp in kept.items():
        assert (tmp_path / "run" / name / "done.json").stat().st_mtime_ns == stamp, f"{name} was done again"
    if stage == "12-backends":  # processes with clocks of their own: outcomes, not bits
        return
    mine, theirs = (json.loads((r / "run" / stage / "done.json").read_text())["result"] for r in (tmp_path, finished))
    assert mine == theirs


def _run_until(file: Path, folder: Path, *words: str, longer: float = 0.0) -> None:
    """Go on with the demo, and kill it with all its processes once a file is there."""
    said = folder / "said.txt"
    with said.open("w") as stream:
        process = subprocess.Popen(
            [*COMMAND, *words], cwd=folder, env=_environment(), stdout=subprocess.DEVNULL, stderr=stream,
            start_new_session=True,
        )  # fmt: skip
    deadline = time.monotonic() + 240
    while not file.exists():
        assert process.poll() is None or file.exists(), said.read_text()[-3000:]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(longer)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
