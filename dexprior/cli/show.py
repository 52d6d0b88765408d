"""Results on standard output: JSON, so that a shell can go on with it."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dexprior.cli.places import SHIPPED, shipped
from dexprior.errors import ArtifactError
from dexprior.progress import say

__all__ = ["first_existing", "show", "told_when_done", "trained"]


def show(result: dict[str, Any]) -> None:
    """Print a result without its learning curve, which stands in the run folder."""
    print(json.dumps({k: v for k, v in result.items() if k != "curve"}, indent=2, default=os.fspath))


@contextmanager
def told_when_done(place: str | Path) -> Iterator[None]:
    """Say that a command had been carried out before, where it changes nothing in the file or folder that it writes."""
    before = _stamps(Path(place))
    yield
    if before and _stamps(Path(place)) == before:
        say(f"{place}: already done; to do it again, give another out=, or delete this one")


def _stamps(place: Path) -> dict[Path, int]:
    """When each file was written; of no file where there are many, of which it would take long to tell."""
    files = itertools.chain((place,), place.rglob("*"))
    found = {path: path.stat().st_mtime_ns for path in itertools.islice(files, _MANY + 1) if path.is_file()}
    return found if len(found) <= _MANY else {}


_MANY = 10_000


def first_existing(given: str | None, candidates: list[str], what: str, command: str) -> Path:
    """The given path, or the first candidate that exists.

    Raises:
        ArtifactError: none exists; the message says how to make one.
    """
    for path in [given] if given else candidates:
        if Path(path).exists():
            return Path(path)
    looked = given or ", ".join(candidates)
    raise ArtifactError(f"no {what} found (looked at {looked}); make one with `{command}`, or give its path")


def trained(given: str | None, candidates: list[str], part: str, command: str) -> Path:
    """What a verb trained: by the run folder of that verb, or by what is inside of it.

    Without a folder it is the first of the `candidates` that exists, else what comes with the package; `shipped` names
    that. `part` is one of `prior`, `estimator` and `policy`.

    Raises:
        ArtifactError: the given one does not exist; the message says how to make one.
    """
    what, inside = _PARTS[part]
    if given == SHIPPED or (given is None and not any(Path(path).exists() for path in candidates)):
        path = shipped(part)
        say(f"{what}: the small one of pick_place that comes with dexprior; train your own with `{command}`")
    else:
        path = first_existing(given, candidates, what, command)
    return path / inside if (path / inside).exists() else path


_PARTS = {
    "prior": ("video prior", "checkpoint"), "estimator": ("pose estimator", "estimator.safetensors"),
    "policy": ("policy", "actor.safetensors"),
}  # fmt: skip
"""What each part is called, and its file or folder in a run."""
