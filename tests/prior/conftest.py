"""Scenes that the prior's tests share; none of them needs rendering."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.data.demonstrations import scene_condition
from dexprior.worlds.insertion import InsertionConfig, sample_scenes


@pytest.fixture(scope="session")
def conditions():
    """Conditions of four scenes, for frames of 32 px."""
    scenes = sample_scenes(np.random.default_rng(0), 4)
    return [scene_condition(InsertionConfig(), {k: v[i] for k, v in scenes.items()}, seed=i, size=32) for i in range(4)]
