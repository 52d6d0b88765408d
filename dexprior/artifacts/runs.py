"""Run folders: what was run, with which configuration, seed and inputs, and whether it was finished."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dexprior.artifacts.files import read_json, read_object, write_json
from dexprior.artifacts.header import package_versions
from dexprior.config import config_hash, to_plain
from dexprior.errors import ArtifactError

__all__ = ["RunFolder"]

_DONE = "done.json"


@dataclass
class RunFolder:
    """A folder that can be read afterwards: composed configuration, versions, seed, commit, parents.

    `done` marks a finished run with the hash of its configuration, so that a rerun skips it, and a changed
    configuration is noticed.
    """

    path: Path
    stage: str
    config: Any
    seed: int
    parents: tuple[str, ...] = ()
    _started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.path = Path(self.path)

    def open(self) -> RunFolder:
        """Create the folder and write its record; refuses one of another configuration, seed or input."""
        self.path.mkdir(parents=True, exist_ok=True)
        record = self.path / "run.json"
        if [path.name for path in self.path.iterdir()] == ["run.json"]:
            record.unlink()  # an earlier try was refused before it made anything
        if record.exists():
            found = read_json(record)
            if not isinstance(found, dict):
                raise ArtifactError(
                    f"{record} is not the record of a run: give another output folder, or delete that one"
                )
            mine = {"config_hash": config_hash(self.config), "seed": self.seed, "parents": list(self.parents)}
            shown = {"config_hash": "configuration"}
            for name, value in mine.items():
                if found.get(name) != value:
                    raise ArtifactError(
                        f"{self.path} belongs to a run with {shown.get(name, name)} {found.get(name)}, this one has "
                        f"{value}: "
                        "give another output folder, or delete that one"
                    )
        else:
            write_json(
                record,
                {
                    "stage": self.stage,
                    "config": to_plain(self.config),
                    "config_hash": config_hash(self.config),
                    "seed": self.seed,
                    "versions": package_versions(),
                    "commit": _git_commit(),
                    "parents": list(self.parents),
                    "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                },
            )
        return self

    @staticmethod
    def finished(path: Path) -> bool:
        """Whether a folder holds a run that is complete."""
        return (path / _DONE).exists()

    @property
    def result(self) -> dict[str, Any] | None:
        """What `finish` recorded, or None while the run is not complete."""
        return self.recorded(self.path)

    @staticmethod
    def recorded(path: Path) -> dict[str, Any] | None:
        """What `finish` recorded in a folder, whatever it was made of; None where there is no run that is complete.

        Raises:
            ArtifactError: the record holds no result.
        """
        if not RunFolder.finished(path):
            return None
        path = path / _DONE
        result = read_object(path).get("result")
        if not isinstance(result, dict):
            raise ArtifactError(f"{path} holds no result of a run: delete it to make it again")
        return result

    def finish(self, result: dict[str, Any]) -> dict[str, Any]:
        """Mark the run complete."""
        seconds = time.monotonic() - self._started
        write_json(self.path / _DONE, {"result": result, "seconds": round(seconds, 3)})
        return result

    def file(self, name: str) -> Path:
        """A file's path inside the folder."""
        return self.path / name


def _git_commit() -> str | None:
    """Commit of the checkout that this package runs from; None for an installed wheel."""
    head = Path(__file__).resolve().parents[2] / ".git" / "HEAD"
    if not head.is_file():
        return None
    text = head.read_text().strip()
    if not text.startswith("ref: "):
        return text
    ref = head.parent / text[5:]
    return ref.read_text().strip() if ref.is_file() else None
