"""The tutorial's own shell lines, run as they stand, with a small base network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = ROOT / "docs" / "tutorials" / "your-own-collisions.md"
SMALL = (
    "collision.generator.pairs=3000 collision.distill.steps=400 collision.surrogate.width=24 "
    "collision.surrogate.depth=2"
)


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", TUTORIAL.read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


def test_the_python_in_the_tutorial_is_the_file_that_it_runs():
    assert (TUTORIAL.parent / "example" / "hybrid.py").read_text().endswith(block("python"))


@pytest.mark.slow
def test_the_shell_lines_go_from_a_recording_to_a_hybrid_simulator(tmp_path):
    environment = dict(os.environ, OUT=str(tmp_path / "mine"), SIZE=SMALL)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    lines = block("sh")
    assert len(lines.strip().splitlines()) <= 10
    done = subprocess.run(
        ["bash", "-euc", lines], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(re.search(r"impacts answered: (\d+)", done.stdout).group(1)) > 0
    height = float(re.search(r"height at the end: (\S+) m", done.stdout).group(1))
    assert 0.02 < height < 0.06  # it lies on the floor
