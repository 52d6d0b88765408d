"""Every example runs, one after the other in one folder, at a size that teaches nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SMALL = {
    # what each is called with, what it must say, what it must leave in runs/examples
    "01_stable_baselines3": (["200"], "after 200 steps", None),
    "02_hybridize": (["400"], "answered: {'impacts'", None),
    "03_sample": (["1"], "the object goes", "samples/0.mp4"),
    "04_retarget": ([], "of the frames reached", "hand.mp4"),
    "05_read_artifacts": ([], "made by example", None),
    "06_fine_tune": (["4", "1"], "KL to the bank", "fine-tuned-4-1/actor.safetensors"),
    "07_ledger_from_csv": ([], "policy grasp, panel kitchen", "round/ledger.html"),
}


def test_every_example_has_a_line_here():
    assert [path.stem for path in sorted((ROOT / "examples").glob("*.py"))] == list(SMALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("examples")


@pytest.mark.slow
@pytest.mark.usefixtures("graphics")
@pytest.mark.parametrize("name", SMALL)
def test_it_runs(name, folder):
    words, said, left = SMALL[name]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py"), *words],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert said in done.stdout
    assert left is None or (folder / "runs" / "examples" / left).is_file()
