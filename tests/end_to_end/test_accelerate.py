"""Ranks that `accelerate launch` starts train one model, that of one rank, also when they are killed on the way; two
ranks of `scripts/sample.py` sample it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dexprior.artifacts import load_all, read_tensors
from dexprior.cli.places import config_folder
from dexprior.data.demonstrating import TaskDemonstrationConfig, generate_demonstrations
from dexprior.data.stacks import load_stack, split_stack
from dexprior.prior.sampling import load_prior
from dexprior.prior.training import PriorConfig, train_prior
from dexprior.types import VideoSample

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[2] / "scripts" / "train_prior.py"
TINY = {
    "size": 32, "width": 32, "layers": 1, "heads": 2, "channels": 10, "batch": 2, "video_clips": 1, "video_window": 4,
    "steps": 4, "checkpoint_every": 2, "ema": 0.9, "precision": "no",
}  # fmt: skip
VICTIM = """
import os, signal
import dexprior.prior.training as training
from dexprior.children import rank
from dexprior.cli.main import run_script
def and_die(work, last, mine):
    def do(*args, **kwargs):
        done = work(*args, **kwargs)
        if mine(args):
            os.kill(os.getpid(), signal.SIGKILL)
        return done
    return do
"""
AT_CHECKPOINT = f"""{VICTIM}
training.save_training_state = and_die(training.save_training_state, None, lambda args: rank() == 0)
run_script("train-prior")
"""
SECOND_RANK = f"""{VICTIM}
training.draw_batch = and_die(training.draw_batch, None, lambda args: rank() == 1 and args[3] == 2)
run_script("train-prior")
"""


@pytest.fixture(scope="module")
def demonstrations(graphics, tmp_path_factory):
    """A folder of some clips."""
    folder = tmp_path_factory.mktemp("launched") / "demonstrations"
    few = TaskDemonstrationConfig(n=8, size=32, cameras=("front",), depth=(), workers=1)
    generate_demonstrations("pick_place", few, folder, seed=0)
    return folder


def words(demonstrations: Path, out: Path) -> list[str]:
    return [f"demonstrations={demonstrations}", f"out={out}", *(f"prior.{key}={value}" for key, value in TINY.items())]


def launch(name: str, script: Path, demonstrations: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Two ranks that train, by a configuration that ships."""
    return launched(name, script, words(demonstrations, out))


def launched(name: str, script: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Two ranks of a script, by a configuration that ships."""
    command = [
        sys.executable, "-m", "accelerate.commands.launch", "--config_file",
        str(config_folder() / "accelerate" / f"{name}.yaml"), "--num_processes", "2", str(script), *words,
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def one_rank(demonstrations, tmp_path_factory):
    """The state of one process that computes both parts of every step."""
    folder = tmp_path_factory.mktemp("one")
    train, _ = split_stack(load_stack(demonstrations, TINY["size"]), PriorConfig().holdout)
    train_prior(train, PriorConfig(**TINY, accumulate=2), folder, seed=0)
    return read_tensors(folder / "state.safetensors")[0]


@pytest.fixture(scope="module")
def two_ranks(demonstrations, tmp_path_factory):
    """A run of two ranks that nobody interrupts."""
    out = tmp_path_factory.mktemp("two") / "prior"
    done = launch("ddp", SCRIPT, demonstrations, out)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "train prior: 2 ranks, each with 2 clips a step, 4 steps" in done.stderr
    return out


def same_training(folder: Path, state: dict[str, np.ndarray]) -> None:
    """Weights, their average and the optimizer's moments, to what the order of sums leaves."""
    found = read_tensors(folder / "state.safetensors")[0]
    assert found.keys() == state.keys()
    for name, value in state.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-5, err_msg=name)


def test_two_ranks_train_the_model_of_one(two_ranks, one_rank):
    same_training(two_ranks, one_rank)
    load_prior(two_ranks / "checkpoint")
    assert json.loads((two_ranks / "run.json").read_text())["ranks"] == 2
    assert not (two_ranks / ".lock").exists()


def test_two_ranks_share_the_batches_of_samples(two_ranks, tmp_path):
    words = [f"prior={two_ranks}", f"out={tmp_path / 'samples'}", "n=18", "motion_steps=1", "video_steps=1"]
    done = launched("cpu", SCRIPT.with_name("sample.py"), words)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(load_all(tmp_path / "samples" / "samples.safetensors", VideoSample)) == 18
    assert len(list((tmp_path / "samples" / "parts").iterdir())) == 2
    assert done.stderr.count(" of 18\n") == 2  # each batch once, by the rank whose it is


def test_two_ranks_that_share_out_the_weights_train_it_as_well(demonstrations, one_rank, tmp_path):
    """FSDP2: a run that was killed goes on with its shards, and what it wrote loads and trains on one rank."""
    (tmp_path / "victim.py").write_text(AT_CHECKPOINT)
    assert launch("fsdp2", tmp_path / "victim.py", demonstrations, tmp_path / "prior").returncode != 0
    done = launch("fsdp2", SCRIPT, demonstrations, tmp_path / "prior")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "4 steps, weights shared out among the ranks" in done.stderr
    same_training(tmp_path / "prior", one_rank)
    load_prior(tmp_path / "prior" / "checkpoint")
    train, _ = split_stack(load_stack(demonstrations, TINY["size"]), PriorConfig().holdout)
    shutil.copytree(tmp_path / "prior", tmp_path / "alone")
    train_prior(train, PriorConfig(**TINY), tmp_path / "alone", seed=0, more=(1,))
    assert read_tensors(tmp_path / "alone" / "state.safetensors")[1]["progress"]["step"] == 5


def test_two_killed_ranks_go_on_as_if_nothing_had_happened(demonstrations, two_ranks, tmp_path):
    (tmp_path / "victim.py").write_text(AT_CHECKPOINT)
    assert launch("cpu", tmp_path / "victim.py", demonstrations, tmp_path / "prior").returncode != 0
    assert read_tensors(tmp_path / "prior" / "state.safetensors")[1]["progress"]["step"] == 2
    done = launch("cpu", SCRIPT, demonstrations, tmp_path / "prior")
    assert done.returncode == 0, done.stderr[-3000:]
    (whole, meta), (killed, again) = (read_tensors(p / "state.safetensors") for p in (two_ranks, tmp_path / "prior"))
    assert meta["progress"] == again["progress"]
    for name, value in whole.items():
        np.testing.assert_array_equal(killed[name], value, err_msg=name)


def test_a_rank_that_loses_another_says_so_and_ends(demonstrations, tmp_path):
    """Started as a cluster's scheduler does it, without a launcher that would end them."""
    (tmp_path / "victim.py").write_text(SECOND_RANK)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = []
    for rank in range(2):
        environment = {
            **os.environ, "OMP_NUM_THREADS": "1", "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2",
            "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        }  # fmt: skip
        command = [sys.executable, str(tmp_path / "victim.py"), *words(demonstrations, tmp_path / "prior")]
        ranks.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
    first, second = (process.communicate(timeout=240)[1] for process in ranks)
    assert ranks[1].returncode == -9, second[-2000:]
    assert ranks[0].returncode == 1
    assert "train-prior: another of the 2 ranks has ended, and this one ends with it" in first
