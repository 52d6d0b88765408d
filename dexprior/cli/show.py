"""Results on standard output: JSON, so that a shell can go on with it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from dexprior.errors import ArtifactError

__all__ = ["first_existing", "show", "trained"]


def show(result: dict[str, Any]) -> None:
    """Print a result without its learning curve, which stands in the run folder."""
    print(json.dumps({k: v for k, v in result.items() if k != "curve"}, indent=2, default=os.fspath))


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


def trained(given: str | None, candidates: list[str], inside: str, what: str, command: str) -> Path:
    """What a verb trained, by the run folder of that verb; what lies `inside` of it may be given as well.

    Raises:
        ArtifactError: none exists; the message says how to make one.
    """
    path = first_existing(given, candidates, what, command)
    return path / inside if (path / inside).exists() else path
