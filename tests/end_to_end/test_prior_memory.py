"""A long training does not grow: the benchmark of its memory, over a few hundred steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_resident_memory_stays_where_it_is_after_warm_up(graphics):
    script = Path(__file__).parents[2] / "benchmarks" / "prior_memory.py"
    done = subprocess.run(
        [sys.executable, str(script), "400"],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["value"] < 1.0, found
