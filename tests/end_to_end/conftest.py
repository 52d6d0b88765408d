"""One smoke run of the demo for all tests that look at it or go on from it."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from smoke import COMMAND


@pytest.fixture(scope="session")
def smoke_demo(tmp_path_factory) -> Path:
    """A folder with an uninterrupted smoke run below `run`; nobody writes into it."""
    folder = tmp_path_factory.mktemp("demo")
    started = time.monotonic()
    done = subprocess.run(
        COMMAND, cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (folder / "seconds").write_text(str(time.monotonic() - started))
    return folder
