"""Conditioning a parameter family on real traces: posteriors, identifiability, and whether the family covers them."""

from dexprior.transfer.conditioning.conditioning import ConditioningConfig, condition
from dexprior.transfer.conditioning.laplace import LaplaceConfig, laplace
from dexprior.transfer.conditioning.neural import NeuralConfig, neural
from dexprior.transfer.conditioning.observations import Observations
from dexprior.transfer.conditioning.sampler import SamplerConfig, Samples, sample_posterior
from dexprior.transfer.conditioning.simulator import Simulator
from dexprior.transfer.conditioning.verdicts import Conditioned, Side, VerdictConfig

__all__ = [
    "Conditioned",
    "ConditioningConfig",
    "LaplaceConfig",
    "NeuralConfig",
    "Observations",
    "SamplerConfig",
    "Samples",
    "Side",
    "Simulator",
    "VerdictConfig",
    "condition",
    "laplace",
    "neural",
    "sample_posterior",
]
