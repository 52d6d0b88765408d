"""One small trained surrogate, shared by the tests of this folder."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dexprior.collision import (
    ContactRanges,
    DistillConfig,
    GeneratorConfig,
    ImpulseNetwork,
    Surrogate,
    SurrogateConfig,
    distill,
    generate_pairs,
)


@pytest.fixture(scope="session")
def pairs():
    return generate_pairs(GeneratorConfig(pairs=3000), ContactRanges(), seed=0)


@pytest.fixture(scope="session")
def surrogate(pairs):
    return distill(
        pairs,
        DistillConfig(steps=400, batch=128),
        SurrogateConfig(width=24, depth=2),
        seed=0,
        progress=False,
    )


@pytest.fixture(scope="session")
def wild():
    """An untrained surrogate with large weights: whatever it still obeys, it obeys by construction."""
    torch.manual_seed(5)
    network = ImpulseNetwork(SurrogateConfig(width=16, depth=2))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(6.0)
    return Surrogate.from_network(network, np.array([[-3.0, 3.0], [-1.0, 1.0], [-1.0, 2.0], [-3.0, 3.0]]))
