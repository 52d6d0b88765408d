"""When does a real robot first do what no simulated one of the family does, and in which signal?

signals -> band over the family -> running statistic -> conformal threshold -> Holm over channels -> onset

detector = DivergenceDetector.fit(signals_of(reference, channels))      # groups of simulated repeats
for found in detector.compare(signals_of([real], channels)): ...
"""

from dexprior.transfer.divergence.detector import Divergence, DivergenceDetector, first_divergence, groups_needed
from dexprior.transfer.divergence.drawing import draw_divergence
from dexprior.transfer.divergence.settings import DivergenceConfig
from dexprior.transfer.divergence.signals import Signals, distance, signals_of

__all__ = [
    "Divergence",
    "DivergenceConfig",
    "DivergenceDetector",
    "Signals",
    "distance",
    "draw_divergence",
    "first_divergence",
    "groups_needed",
    "signals_of",
]
