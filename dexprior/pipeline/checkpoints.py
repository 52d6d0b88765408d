"""What a run of the line trained, as a set that can be handed on: prior, estimator and policy, with a card and
checksums. Nothing in it is trained for retargeting, which is kinematic."""

from __future__ import annotations

import hashlib
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dexprior.artifacts import package_versions, write_atomic
from dexprior.pipeline.ladder import everywhere
from dexprior.pipeline.line import Line
from dexprior.pipeline.settings import changed_settings
from dexprior.pipeline.worlds import ABOUT_OTHER, judging_worlds
from dexprior.policy.actor import load_actor
from dexprior.policy.rollout import actor_policy
from dexprior.progress import say
from dexprior.stats import Rate

__all__ = ["CHECKSUMS", "make_checkpoints"]

CHECKSUMS = "SHA256SUMS"
"""File of a set with the checksum of every other one, as `sha256sum -c` reads it."""
_STAGES = {"prior": "02-prior", "estimator": "03-estimator", "policy": "06-policy"}
_FILES = {"prior": "checkpoint", "estimator": "estimator.safetensors", "policy": "actor.safetensors"}
_JUDGED = ("training", "other")


def make_checkpoints(line: Line, folder: Path, *, say: Callable[[str], None] = say) -> Path:
    """Train what is not trained yet, judge the policy, and write the set; returns its folder.

    Killed at any point, it goes on from the last checkpoint of the stage that was under way.

    Args:
        line: of one task; its run folder keeps what training needs to go on.
        folder: where the set goes, each part in a folder that verbs take as a run's (`prior=`, `estimator=`,
            `policy=`); what stood there before is replaced.
        say: where progress lines go; standard error by default.
    """
    results = line.run(tuple(_STAGES.values()), say=say)
    actor = load_actor(line.folder[_STAGES["policy"]] / _FILES["policy"])
    worlds = {name: world for name, world in judging_worlds(line.task).items() if name in _JUDGED}
    won = everywhere(line, worlds, actor_policy(actor))
    for part, stage in _STAGES.items():
        source, there = line.folder[stage] / _FILES[part], folder / part / _FILES[part]
        shutil.rmtree(there.parent, ignore_errors=True)
        there.parent.mkdir(parents=True)
        if source.is_dir():
            shutil.copytree(source, there, copy_function=shutil.copyfile)
        else:
            shutil.copyfile(source, there)
    rates = {name: Rate(int(w.sum()), len(w)) for name, w in won.items()}
    write_atomic(folder / "README.md", _card(line, results, rates).encode())
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != CHECKSUMS)
    sums = "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n" for path in files
    )
    write_atomic(folder / CHECKSUMS, sums.encode())
    say(f"{folder}: {sum(path.stat().st_size for path in files) / 1e6:.2f} MB")
    return folder


def _card(line: Line, results: Mapping[str, dict[str, Any]], rates: Mapping[str, Rate]) -> str:
    """What the set holds, how it was made, and what it was measured to do."""
    c = line.config
    prior, estimator = results["02-prior"], results["03-estimator"]
    command = " ".join(["dexprior demo", *map(shlex.quote, changed_settings(c))])
    rows = [
        ("demonstrations", f"{results['01-demonstrations']['successes']:.0f}, generated"),
        ("prior, object's place at the end, held-out conditions", _mm(prior["prior"]["goal_error_mm"])),
        ("the same of the training clip with the nearest condition", _mm(prior["nearest"]["goal_error_mm"])),
        ("estimator, joints on held-out clips, two cameras", _mm(estimator["joint_error_mm"])),
        ("the same on the prior's samples", _mm(estimator["samples"]["joint_error_mm"])),
        ("the same through one camera", _mm(estimator["one_camera"]["joint_error_mm"])),
        *((f"policy, success in the world {name}", f"{rate.k} of {rate.n}") for name, rate in rates.items()),
    ]  # fmt: skip
    table = "\n".join(f"| {what} | {value} |" for what, value in rows)
    versions = ", ".join(f"{name} {version}" for name, version in package_versions().items())
    return f"""# Checkpoints: {c.task}

`prior`, `estimator` and `policy` are folders that verbs take: `dexprior sample prior=FOLDER/prior`, `dexprior
estimate-pose samples=FILE estimator=FOLDER/estimator`, `dexprior play policy=FOLDER/policy`. Weights are safetensors.
Retargeting is kinematic and has none.

| what | measured |
|---|---|
{table}

Intervals are of 95 %. Policies are judged on {c.scored} scenes on which nothing was trained or chosen. {ABOUT_OTHER}

- Trained by the stages of `{command}`, seed {c.seed}.
- Versions: {versions}.
- `sha256sum -c {CHECKSUMS}` checks the files. Licence: that of dexprior, Apache-2.0.
"""


def _mm(v: Mapping[str, float]) -> str:
    return f"{v['mean']:.1f} mm [{v['low']:.1f}, {v['high']:.1f}]"
