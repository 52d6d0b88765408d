"""Joint densities of a family's parameters: independent, a Gaussian copula, weighted particles, a triangular flow.

All are normalised over the support. Particles and flow live on the line of each parameter (`Parameter.to_line`), where
a support has no ends, and are brought back by the slope of that map.
"""

from dexprior.families.densities.base import INDEPENDENT, Density, DensityKind, Independent
from dexprior.families.densities.copula import Copula
from dexprior.families.densities.fitting import density_from_json, fit_density
from dexprior.families.densities.flow import Flow, FlowComponent
from dexprior.families.densities.particles import Particles

__all__ = [
    "INDEPENDENT",
    "Copula",
    "Density",
    "DensityKind",
    "Flow",
    "FlowComponent",
    "Independent",
    "Particles",
    "density_from_json",
    "fit_density",
]
