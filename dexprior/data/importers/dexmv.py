"""DexMV's example (see `dexprior.data.dexmv`): hand and object, without pictures."""

from __future__ import annotations

from pathlib import Path

from dexprior.data.dexmv import read_dexmv
from dexprior.data.importers.base import ImportContext, Imported, Importer

__all__ = ["DEXMV"]


def _files(folder: Path) -> list[Path]:
    return [folder] if folder.is_file() else sorted(folder.glob("dexmv*.npz"))


def _episodes(folder: Path) -> list[str]:
    return [path.name for path in _files(folder)]


def _read(folder: Path, name: str, context: ImportContext) -> Imported:
    hand, thing = read_dexmv(folder if folder.is_file() else folder / name)
    return Imported(
        kind="dexmv",
        episode=name,
        licence=DEXMV.licence,
        source="https://github.com/yzqin/dexmv-sim",
        hands=(hand,),
        objects=(thing,),
        target=thing.object,
        text=("pick up the mustard bottle, carry it and put it down.",),
        problems=(
            "hand and object are estimates of one camera each, 10-20 mm apart",
            "contact was not recorded: it is estimated from the distance of fingertips and object",
        ),
    )


DEXMV = Importer(
    title="DexMV's example: one hand carries a mustard bottle",
    licence="Apache-2.0",
    episodes=_episodes,
    read=_read,
)
