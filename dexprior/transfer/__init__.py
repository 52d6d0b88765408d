"""The transfer ledger: what the simulator assumed, where the two worlds part, and how sure we are."""

from dexprior.transfer.divergence import Divergence, DivergenceConfig, first_divergence
from dexprior.transfer.ledger import Ledger, WorldResult, read_ledger

__all__ = ["Divergence", "DivergenceConfig", "Ledger", "WorldResult", "first_divergence", "read_ledger"]
