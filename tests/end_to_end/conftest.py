"""One smoke run of the demo for all tests that look at it or go on from it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

SMOKE = [sys.executable, "-m", "dexprior", "demo", "preset=smoke", "out=run", "threads=1"]


@pytest.fixture(scope="session")
def smoke_demo(tmp_path_factory) -> Path:
    """A folder with an uninterrupted smoke run below `run`; nobody writes into it."""
    folder = tmp_path_factory.mktemp("demo")
    started = time.monotonic()
    done = subprocess.run(SMOKE, cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    (folder / "seconds").write_text(str(time.monotonic() - started))
    return folder
