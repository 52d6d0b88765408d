"""The accelerator check runs at its tiny size on a CPU and reports what it promises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_tiny_check_prints_its_json(tmp_path):
    script = Path(__file__).parents[2] / "scripts" / "gpu_check.py"
    done = subprocess.run(
        [sys.executable, str(script), "--tiny"],
        cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout)
    assert result["train"]["samples_per_s"] > 0
    assert result["train"]["flops_per_step"] > 0
    assert result["train"]["latency_s"] > 0
    assert result["stock_loop"]["clips_per_s"] > 0
    dit = result["dit"]
    assert dit["tokens"] == 8
    assert dit["times_stock"] == dit["ours"]["clips_per_s"] / dit["stock"]["clips_per_s"] > 0
    assert dit["flops_per_clip"] > 0
    assert "model_flops_utilisation" in dit
    assert set(result["train"]) >= {"model_flops_utilisation", "peak_memory_bytes", "motion_clips_per_s"}
