"""Environments, and a prior from files, of a point that goes to a goal."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import point
import pytest

point.register()


@pytest.fixture(scope="session")
def expert_file(tmp_path_factory):
    """An expert whose layers bring the point to its goal: nearly linear in where it is."""
    rng, small = np.random.default_rng(0), 1e-2
    lift = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    path = tmp_path_factory.mktemp("expert") / "point.npz"
    np.savez(
        path, w0=small * lift[:, :2], b0=np.zeros(8), w1=lift, b1=np.zeros(8), w2=3.0 * (lift @ lift[:, :2]).T / small,
        b2=np.zeros(2), in_shift=np.full(2, point.GOAL), in_scale=np.ones(2), out_shift=np.zeros(2),
        out_scale=np.full(2, -1.0), log_std=np.zeros(2),
    )  # fmt: skip
    return path


@pytest.fixture(scope="session")
def episodes_file(tmp_path_factory):
    """Recorded episodes of the same, with rewards."""
    rng, rows, actions, rewards = np.random.default_rng(1), [], [], []
    for _ in range(10):
        place = rng.uniform(-0.2, 0.2, 2)
        for _ in range(12):
            action = np.clip(2.0 * (point.GOAL - place) + 0.05 * rng.normal(size=2), -1, 1)
            rows.append(place)
            actions.append(action)
            place = np.clip(place + 0.2 * action, -1, 1)
            rewards.append(1.0 - np.linalg.norm(place - point.GOAL))
    path = tmp_path_factory.mktemp("episodes") / "point.npz"
    np.savez(path, observations=rows, actions=actions, rewards=rewards, start=np.arange(0, 121, 12))
    return path


@pytest.fixture
def kill_registered(kill_at_checkpoint, monkeypatch):
    """Trains in a process of its own, which knows these environments, and is SIGKILLed right after its first
    checkpoint."""
    from gym_victim import train

    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    return lambda *args, **kwargs: kill_at_checkpoint(train, *args, **kwargs)
