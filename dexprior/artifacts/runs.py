"""Run folders: what was run, with which configuration, seed and inputs, and whether it was finished."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dexprior.artifacts.claims import Claim
from dexprior.artifacts.files import read_json, read_object, write_json
from dexprior.artifacts.header import package_versions
from dexprior.children import rank, ranks
from dexprior.config import config_hash, difference, to_plain
from dexprior.errors import ArtifactError

__all__ = ["RunFolder"]

_DONE = "done.json"


@dataclass
class RunFolder:
    """A folder that can be read afterwards: composed configuration, versions, seed, commit, parents.

    `done.json` marks a finished run, so that a rerun skips it; a changed configuration is noticed. A finished run can
    be continued in its folder: run.json has an entry for each continuation, with what was found before it.
    """

    path: Path
    stage: str
    config: Any
    seed: int
    parents: tuple[str, ...] = ()
    more: tuple[int, ...] = ()
    """How much each continuation of the finished run adds, in order."""
    _started: float = field(default_factory=time.monotonic)
    _claim: Claim | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.path = Path(self.path)

    def open(self) -> RunFolder:
        """Create the folder, have it alone until the run is finished, and write its record.

        Raises:
            ArtifactError: another process writes the folder; it belongs to a run of another stage, configuration or
                seed, or with other inputs, and the message names the first setting that differs; or there is nothing
                that `more` could continue.
        """
        if self.more or not self.finished(self.path):
            self._claim = Claim(self.path)
        record = self.path / "run.json"
        found = read_json(record) if record.exists() else None
        alone = [path.name for path in self.path.iterdir() if not path.name.startswith(".")] == ["run.json"]
        if alone and isinstance(found, dict) and "continued" not in found:
            found = None  # an earlier try was refused before it made anything
        if found is None:
            if self.more:
                raise ArtifactError(
                    f"more={_row(self.more)}: {self.path} holds no finished run to go on from; make one without more="
                )
            if not rank():
                write_json(record, self._record())
            return self
        if not isinstance(found, dict):
            raise ArtifactError(f"{record} is not the record of a run: give another output folder, or delete that one")
        if differs := self._differs(found):
            name, there, here = differs
            raise ArtifactError(
                f"{self.path} belongs to another run: {name} is {there} there, {here} here; give another output "
                "folder, or delete that one"
            )
        if not rank():
            self._continue(record, found)
        return self

    def _record(self) -> dict[str, Any]:
        return {
            "stage": self.stage, "config": to_plain(self.config), "config_hash": config_hash(self.config),
            "seed": self.seed, "parents": list(self.parents), **_made_now(),
        }  # fmt: skip

    def _continue(self, record: Path, found: dict[str, Any]) -> None:
        """Put on record what this call adds to a finished run, which is then unfinished until that is done.

        Raises:
            ArtifactError: the run is not finished, or it was continued in another way.
        """
        known = found.get("continued", [])
        begun = tuple(entry["more"] for entry in known)
        finished = self.finished(self.path)
        if self.more[: len(begun)] != begun[: len(self.more)] or (len(self.more) < len(begun) and not finished):
            way = f"more={_row(begun)}" + ("" if finished else ", which is not finished")
            raise ArtifactError(
                f"{self.path} holds a run that was continued with {way}: give more={_row(begun)} to go on with that, "
                "or another output folder"
            )
        added = self.more[len(begun) :]
        if not added:
            return
        if not finished:
            raise ArtifactError(
                f"more={_row(self.more)}: the run in {self.path} is not finished; finish it with "
                + (f"more={_row(begun)}" if begun else "the same command without more=")
            )
        before = [{"more": added[0], "before": self.recorded(self.path), **_made_now()}]
        write_json(record, found | {"continued": known + before + [{"more": n, **_made_now()} for n in added[1:]]})
        (self.path / _DONE).unlink()

    def _differs(self, found: dict[str, Any]) -> tuple[str, str, str] | None:
        """The first setting in which this run is not the one on record: its name, and its value there and here."""
        apart = ("stage", "seed")
        mine = {name: getattr(self, name) for name in apart}
        theirs = {name: found.get(name) for name in apart}
        if differs := difference(theirs, mine):
            return differs
        if found.get("config_hash") != config_hash(self.config):
            settled = difference(found.get("config"), self.config)
            return settled or ("configuration", str(found.get("config_hash")), config_hash(self.config))
        inputs = found.get("parents")
        if not isinstance(inputs, list) or len(inputs) != len(self.parents):
            return "the list of inputs", json.dumps(inputs), json.dumps(self.parents)
        return difference(
            {f"input {k}": parent for k, parent in enumerate(inputs, start=1)},
            {f"input {k}": parent for k, parent in enumerate(self.parents, start=1)},
        )

    @staticmethod
    def finished(path: Path) -> bool:
        """Whether a folder holds a run that is complete."""
        return (path / _DONE).exists()

    @property
    def result(self) -> dict[str, Any] | None:
        """What `finish` recorded, or None while the run, with its continuations, is not complete."""
        if not self.finished(self.path):
            return None
        continued = tuple(read_object(self.path / _DONE).get("more", []))
        return self.recorded(self.path) if continued[: len(self.more)] == self.more else None

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
        done = {"result": result, "seconds": round(seconds, 3)}
        write_json(self.path / _DONE, done | ({"more": list(self.more)} if self.more else {}))
        if self._claim is not None:
            self._claim.release()
        return result

    def file(self, name: str) -> Path:
        """A file's path inside the folder."""
        return self.path / name


def _row(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def _made_now() -> dict[str, Any]:
    """Versions that something is made with, and when it is."""
    return {
        "versions": package_versions(), "commit": _git_commit(), "ranks": ranks(),
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }  # fmt: skip


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
