"""`accelerate launch scripts/train_prior.py` with two processes trains one model, and writes one checkpoint; two ranks
of `scripts/sample.py` sample it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dexprior.artifacts import load_all, read_tensors
from dexprior.data.demonstrating import TaskDemonstrationConfig, generate_demonstrations
from dexprior.prior.sampling import load_prior
from dexprior.types import VideoSample

pytestmark = pytest.mark.slow


def test_two_ranks_train_one_model(tmp_path):
    few = TaskDemonstrationConfig(n=6, size=48, cameras=("front",), depth=(), workers=1)
    generate_demonstrations("pick_place", few, tmp_path / "demonstrations", seed=0)
    tiny = (
        "prior.steps=4 prior.batch=2 prior.video_clips=1 prior.width=32 prior.layers=1 prior.heads=2 prior.channels=10"
    )
    done = _two_ranks(
        "train_prior", f"demonstrations={tmp_path / 'demonstrations'}", f"out={tmp_path / 'prior'}", *tiny.split()
    )
    assert read_tensors(tmp_path / "prior" / "state.safetensors")[1]["progress"]["step"] == 4
    load_prior(tmp_path / "prior" / "checkpoint")
    assert "train prior: 2 ranks, each with 2 clips a step, 4 steps" in done.stderr
    record = json.loads((tmp_path / "prior" / "run.json").read_text())
    assert record["ranks"] == 2
    assert not (tmp_path / "prior" / ".lock").exists()
    done = _two_ranks(
        "sample",
        f"prior={tmp_path / 'prior'}",
        f"out={tmp_path / 'samples'}",
        "n=18",
        "motion_steps=1",
        "video_steps=1",
    )
    assert len(load_all(tmp_path / "samples" / "samples.safetensors", VideoSample)) == 18
    assert len(list((tmp_path / "samples" / "parts").iterdir())) == 2
    assert done.stderr.count(" of 18\n") == 2  # each batch once, by the rank whose it is


def _two_ranks(verb: str, *words: str) -> subprocess.CompletedProcess:
    """A verb's script under accelerate, on a CPU."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2",
        "--num_machines", "1",
        "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", str(port),
        str(Path(__file__).parents[2] / "scripts" / f"{verb}.py"), *words,
    ]  # fmt: skip
    environment = {**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done
