"""`dexprior`: dispatch, help, and the one place where errors become messages."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from dexprior import __version__
from dexprior.errors import DexpriorError, UnknownName

__all__ = ["VERBS", "main", "run_script"]

VERBS: dict[str, str] = {
    "doctor": "what this machine has, what is missing, and what to do about it",
    "data": "make human demonstrations, or find measured data sets (data get NAME)",
    "play": "look at a task of the suite: its expert or random actions, counted and filmed",
    "train-prior": "train the video diffusion prior",
    "condition": "what to ask the prior for with an object of your own: from its mesh or its cloud",
    "sample": "sample clips from the prior",
    "evaluate-prior": "what a robot carries out of the prior's samples, and what each condition does",
    "estimate-pose": "video -> hand trajectory",
    "retarget": "hand trajectory -> robot trajectory",
    "build-behavior": "prior samples -> distribution over robot trajectories",
    "collision": "distil, identify and evaluate the learned collision model",
    "train-policy": "train a policy regularized to the behavioral prior",
    "evaluate": "a policy in the training world and in the other world",
    "hardware": "reach a robot, bring it home, and read why it stopped",
    "ladder": "the line for one task, and what succeeds after each of its stages",
    "ledger": "fill in the transfer ledger of a policy",
    "study": "what the KL to the prior buys: experiments that could say nothing",
    "demo": "all of it on the embedded default, ending on one page",
}
"""Verbs in the order of the flow."""
_RESUMABLE = ("data", "train-prior", "sample", "collision", "train-policy", "ladder", "study", "demo")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit status (0 done, 1 a named error, 2 wrong usage, 130 interrupted)."""
    # threads that spin while they wait starve a shared machine; NumPy's matrices here are too small to share out: with
    # two BLAS threads on a loaded machine `ledger report` took four times the processor time
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if words[0] in ("-V", "--version"):
        print(f"dexprior {__version__}")
        return 0
    verb, *rest = words
    try:
        if verb not in VERBS:
            raise UnknownName("verb", verb, VERBS)
        if "-h" in rest or "--help" in rest:
            from dexprior.cli.help import help_on

            print(help_on(verb, rest))
            return 0
        return _run(verb, importlib.import_module(f"dexprior.cli.{verb.replace('-', '_')}"), rest)
    except UnknownName as error:
        print(f"dexprior: {error}", file=sys.stderr)
        return 2 if error.kind == "verb" else 1
    except DexpriorError as error:
        print(f"dexprior {verb}: {'; '.join(str(error).splitlines())}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"dexprior {verb}: {error.strerror or error}: {error.filename or ''}".rstrip(": "), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        again = "; the same command goes on from the last checkpoint" if verb in _RESUMABLE else ""
        print(f"\ndexprior {verb}: interrupted{again}", file=sys.stderr)
        return 130
    except Exception as error:  # noqa: BLE001  # the edge: what nobody foresaw is one line, and a log to report
        print(f"dexprior {verb}: {_unforeseen(verb, words, error)}", file=sys.stderr)
        return 1


def run_script(verb: str) -> None:
    """Entry of `scripts/VERB.py`."""
    sys.exit(main([verb, *sys.argv[1:]]))


def _unforeseen(verb: str, words: Sequence[str], error: Exception) -> str:
    """One line about an error that no reader named; the traceback goes into a file that the line names."""
    kind, said = type(error).__name__, " ".join(str(error).split())[:200]
    text = "".join(traceback.format_exception(error))
    command = f"dexprior {' '.join(words)}"
    with tempfile.NamedTemporaryFile(
        "w", prefix=f"dexprior-{verb}-", suffix=".log", delete=False, encoding="utf-8", errors="replace"
    ) as log:
        log.write(f"{command}\nversion {__version__}, Python {sys.version}\n\n{text}")
    return f"unforeseen {kind}: {said}; this is a fault of dexprior, its traceback is in {log.name}"


def _run(verb: str, module: ModuleType, rest: list[str]) -> int:
    from dexprior.cli.words import is_setting

    words = [w for w in rest if not is_setting(w)]
    overrides = [w for w in rest if is_setting(w)]
    accepted: tuple[str, ...] = getattr(module, "WORDS", ())
    if words and not accepted:
        raise UnknownName("argument", words[0], [f"{verb} takes key=value only; see dexprior {verb} --help"])
    config = None
    if hasattr(module, "Config"):
        from dexprior.cli.compose import compose

        config = compose(verb, module.Config, overrides)
    elif overrides:
        raise UnknownName("argument", overrides[0], [f"{verb} takes no settings"])
    place = _written(module, config, words)
    if place is None:
        return int(module.run(config, words) or 0)
    from dexprior.artifacts.claims import claimed
    from dexprior.cli.show import told_when_done

    whole = place.suffix in _FILES or words == ["export"]  # which makes a folder that must not exist before
    with claimed(place, beside=whole), told_when_done(place):
        return int(module.run(config, words) or 0)


_FILES = (".bag", ".csv", ".hdf5", ".json", ".mcap", ".npz", ".safetensors")


def _written(module: ModuleType, config: Any, words: list[str]) -> Path | None:
    """The file or folder that a call writes; None where it only reads."""
    if hasattr(module, "writes"):
        written: Path | None = module.writes(config, words)
        return written
    return Path(config.out) if hasattr(config, "out") else None


def _overview() -> str:
    width = max(map(len, VERBS))
    lines = [f"  {verb:<{width}}  {what}" for verb, what in VERBS.items()]
    return "\n".join(
        [
            "usage: dexprior VERB [key=value ...]     dexprior VERB [WORD] --help [all]",
            "",
            *lines,
            "",
            f"version {__version__}",
        ]
    )
