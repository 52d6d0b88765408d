"""What each injector of `dexprior.families.INJECTORS` does to a scene, its pictures and its parameters."""

from dexprior.worlds.injectors.base import Injector, Stage
from dexprior.worlds.injectors.table import make_injectors

__all__ = ["Injector", "Stage", "make_injectors"]
