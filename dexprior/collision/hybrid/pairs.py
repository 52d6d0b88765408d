"""Which geoms belong to which watched pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
from jaxtyping import Bool, Int

from dexprior.errors import BadInput, UnknownName

__all__ = ["Side", "WatchedPairs", "watch"]

Side = str | Sequence[str]
"""One side of a pair: a geom, a body (all of its own geoms), or several of them.

A name is looked up among geoms and bodies; `geom:NAME` and `body:NAME` say which is meant.
"""


@dataclass(frozen=True)
class WatchedPairs:
    """The pairs of a model, as tables over its geoms."""

    of: Int[np.ndarray, "geom geom"]
    """Watched pair of two geoms; -1 where they are not watched."""
    first: Bool[np.ndarray, "pair geom"]
    """Whether a geom is on the first side of a pair."""

    def __len__(self) -> int:
        return len(self.first)


def watch(model: mujoco.MjModel, pairs: Sequence[tuple[Side, Side]]) -> WatchedPairs:
    """Look the names up.

    Raises:
        UnknownName: neither a geom nor a body of the model.
        BadInput: a name that means two things, a body without geoms, a geom on both sides, one watched twice, or sides
            that MuJoCo never lets touch.
    """
    of = np.full((model.ngeom, model.ngeom), -1)
    first = np.zeros((len(pairs), model.ngeom), dtype=bool)
    for k, pair in enumerate(pairs):
        if isinstance(pair, str) or len(pair) != 2:
            raise BadInput(f"pair {k} is {pair!r}; a pair has two sides, e.g. ('nut', 'bolt')")
        one, other = (_geoms(model, side) for side in pair)
        if both := np.intersect1d(one, other).tolist():
            raise BadInput(f"pair {k} {pair!r}: geom {_name(model, both[0])!r} is on both sides")
        taken = of[np.ix_(one, other)]
        if (taken >= 0).any():
            a, b = np.argwhere(taken >= 0)[0]
            raise BadInput(
                f"pair {k} {pair!r}: geoms {_name(model, one[a])!r} and {_name(model, other[b])!r} are watched by "
                f"pair {taken[a, b]} {pairs[taken[a, b]]!r} already"
            )
        if not _may_touch(model, one, other):
            raise BadInput(
                f"pair {k} {pair!r} never touches: MuJoCo keeps all its geoms apart, by contype and conaffinity, by an "
                "exclude, or as those of one body or of a body and its parent. Usually a visual geom was named instead "
                "of the one that collides"
            )
        of[np.ix_(one, other)] = of[np.ix_(other, one)] = k
        first[k, one] = True
    return WatchedPairs(of=of, first=first)


def _geoms(model: mujoco.MjModel, side: Side) -> np.ndarray:
    names = [side] if isinstance(side, str) else list(side)
    if not names:
        raise BadInput("a side of a pair names no geom and no body")
    return np.unique(np.concatenate([_geoms_of_name(model, name) for name in names]))


def _geoms_of_name(model: mujoco.MjModel, name: str) -> np.ndarray:
    kind, _, rest = name.partition(":")
    plain = rest if kind in ("geom", "body") and rest else name
    kinds = (kind,) if plain != name else ("geom", "body")
    geom = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_GEOM, plain) if "geom" in kinds else -1
    body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, plain) if "body" in kinds else -1
    if geom < 0 and body < 0:
        geoms = [model.geom(k).name for k in range(model.ngeom)] if "geom" in kinds else []
        bodies = [model.body(k).name for k in range(model.nbody)] if "body" in kinds else []
        raise UnknownName(" or ".join(kinds), plain, sorted({n for n in geoms + bodies if n}))
    of_body = np.flatnonzero(model.geom_bodyid == body)
    if geom < 0 and len(of_body) == 0:
        raise BadInput(f"body {plain!r} has no geom of its own; name the bodies or geoms that touch")
    if body >= 0 and geom >= 0 and of_body.tolist() != [geom]:
        raise BadInput(f"{plain!r} is both a geom and a body with other geoms: say 'geom:{plain}' or 'body:{plain}'")
    return of_body if geom < 0 else np.array([geom])


def _may_touch(model: mujoco.MjModel, one: np.ndarray, other: np.ndarray) -> bool:
    """Whether MuJoCo's filters let some geom of one side touch some of the other (docs: Computation, Selection)."""
    pairs = np.stack([model.pair_geom1, model.pair_geom2], axis=1)  # explicit pairs are not filtered
    if ((np.isin(pairs, one).sum(axis=1) == 1) & (np.isin(pairs, other).sum(axis=1) == 1)).any():
        return True
    kind, affinity = model.geom_contype, model.geom_conaffinity
    allowed = ((kind[one][:, None] & affinity[other]) | (kind[other] & affinity[one][:, None])) != 0
    a, b = model.geom_bodyid[one][:, None], model.geom_bodyid[other][None]
    excluded = model.exclude_signature
    allowed &= ~(np.isin((a << 16) + b, excluded) | np.isin((b << 16) + a, excluded))
    a, b = model.body_weldid[a], model.body_weldid[b]
    allowed &= a != b
    if not model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_FILTERPARENT:
        above_a, above_b = (model.body_weldid[model.body_parentid[each]] for each in (a, b))
        allowed &= ~((a != 0) & (b != 0) & ((a == above_b) | (b == above_a)))
    return bool(allowed.any())


def _name(model: mujoco.MjModel, geom: int) -> str:
    return model.geom(geom).name or f"number {geom}"
