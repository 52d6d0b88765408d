"""Formats by name."""

from __future__ import annotations

from dexprior.data.importers.arctic import ARCTIC
from dexprior.data.importers.base import Importer
from dexprior.data.importers.dexmv import DEXMV
from dexprior.data.importers.dexycb import DEXYCB
from dexprior.data.importers.ho3d import HO3D
from dexprior.data.importers.hocap import HOCAP
from dexprior.data.importers.hot3d import HOT3D
from dexprior.data.importers.lerobot import LEROBOT
from dexprior.data.importers.recording import RECORDING
from dexprior.data.importers.robomimic import ROBOMIMIC
from dexprior.data.importers.videox_fun import VIDEOX_FUN
from dexprior.errors import UnknownName

__all__ = ["IMPORTERS", "importer"]

IMPORTERS: dict[str, Importer] = {
    "arctic": ARCTIC,
    "dexmv": DEXMV,
    "dexycb": DEXYCB,
    "ho3d": HO3D,
    "hocap": HOCAP,
    "hot3d": HOT3D,
    "lerobot": LEROBOT,
    "recording": RECORDING,
    "robomimic": ROBOMIMIC,
    "videox-fun": VIDEOX_FUN,
}
"""What `import_dataset` knows."""


def importer(kind: str) -> Importer:
    """A format by name.

    Raises:
        UnknownName: lists the names.
    """
    if kind not in IMPORTERS:
        raise UnknownName("format of a data set", kind, IMPORTERS)
    return IMPORTERS[kind]
