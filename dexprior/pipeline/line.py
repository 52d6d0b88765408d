"""The line for the tasks of the suite that have demonstrations: these -> prior -> bank -> policies -> ladder, then a
collision model, the ledger of the policy, and the policy through every backend.

Every stage writes its results into a folder of its own; a finished one is not done again, an interrupted one goes on.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dexprior.artifacts import RunFolder, read_object, write_json
from dexprior.config import to_plain, validate
from dexprior.data.demonstrating import generate_demonstrations
from dexprior.errors import ArtifactError
from dexprior.pipeline import stages
from dexprior.pipeline.following import gripper_of, gripper_settings, make_bank
from dexprior.pipeline.ladder import gathered, ladder_steps
from dexprior.pipeline.settings import STAGES, LineConfig
from dexprior.pipeline.stages import run_stage
from dexprior.pipeline.steps import Step, cores_each, run_steps
from dexprior.pipeline.transfer import stage_backends, stage_ledger
from dexprior.policy.ppo import PpoConfig, warm_up_of
from dexprior.progress import say
from dexprior.worlds.tasks import robot_task, strategies_of

__all__ = ["Line"]

SCHEMA = "dexprior.line/3"
_RECORD = "line.json"


class Line:
    """The stages of one task in order.

    Args:
        config: all settings.

    Raises:
        UnknownName: a task without human demonstrations.
        BadInput: its robots are more than one, or its end effector could not follow them.
        ConfigError: settings that the task or the gripper does not have.
    """

    def __init__(self, config: LineConfig) -> None:
        strategies_of(config.task)
        self.config = config
        self.gripper = gripper_settings(config.task, config.gripper)
        self.task = robot_task(config.task, **config.settings)
        gripper_of(self.task)
        self.folder = {name: Path(config.out) / name for name in STAGES}

    @classmethod
    def load(cls, folder: str | Path, **changes: Any) -> Line:
        """The line of a run folder, with other settings where `changes` name them.

        Raises:
            ArtifactError: the folder holds no run, or one of another version.
        """
        path = Path(folder) / _RECORD
        if not path.exists():
            raise ArtifactError(f"{folder} holds no {_RECORD}; make a run with `dexprior demo out={folder}`")
        record = read_object(path)
        if record.get("schema") != SCHEMA:
            raise ArtifactError(f"{path} is of another version; make the run again with `dexprior demo out=FOLDER`")
        found = validate(LineConfig, record["config"], where=str(path))
        return cls(replace(found, out=str(folder), **changes))

    def run(self, stages: Sequence[str] = STAGES, *, say: Callable[[str], None] = say) -> dict[str, dict[str, Any]]:
        """Do what is not done yet; returns what every stage found.

        Args:
            stages: which ones are wanted; those that they need are done as well.
            say: where progress lines go; standard error by default.

        Raises:
            ArtifactError: the folder holds a run of another version, or a stage under other settings.
        """
        self._record()
        steps = _wanted(self.steps(), stages)
        began: dict[str, tuple[int, float]] = {}

        def begin(name: str) -> None:
            began[name] = len(began) + 1, time.monotonic()
            say(f"[{began[name][0]}/{len(steps)}] {name}" + (": already done" if steps[name].finished else ""))

        def end(name: str) -> None:
            number, started = began[name]
            if not steps[name].finished:
                say(f"[{number}/{len(steps)}] {name}: {time.monotonic() - started:.0f} s")

        results = run_steps(steps, jobs=self.jobs, threads=self.threads, began=begin, ended=end)
        self._record(again=True)
        return {name: results[name] for name in STAGES if name in results}

    def steps(self) -> dict[str, Step]:
        """All stages, and the parts of the ladder, each with what it needs."""
        rungs = ladder_steps(self, self.folder["09-ladder"])
        steps: dict[str, Step] = {}
        for name, needs in _NEEDS.items():
            if name == "04-behavior" and self.config.bank.source != "motion":
                needs = (*needs, "03-estimator")
            if name == "09-ladder":
                steps |= rungs
                needs = tuple(rungs)
            steps[name] = Step(
                work=functools.partial(do_stage, self.config, name), needs=needs, finished=self.finished(name)
            )
        return steps

    def do(self, stage: str) -> dict[str, Any]:
        """One stage, of which all that it needs is done, unless it is done itself; returns what it found."""
        c, d = self.config, self.folder
        stages_: dict[str, Callable[[], dict[str, Any]]] = {
            "01-demonstrations": self.demonstrations, "02-prior": self.prior, "03-estimator": self.estimator,
            "04-behavior": self.behavior,
            "05-imitation": lambda: self.policy(stage, warm_up_of(c.policy)),
            "06-policy": lambda: self.policy(stage, c.policy, warm=True),
            "07-policy-no-kl": lambda: self.policy(
                stage, replace(c.policy, kl=replace(c.policy.kl, start=0.0)), warm=True
            ),
            "08-policy-plain": lambda: self.policy(stage, c.policy, use_prior=False),
            "09-ladder": lambda: gathered(self, d[stage]),
            "10-collision": lambda: stages.stage_collision(c.collision, d[stage], seed=c.seed),
            "11-ledger": lambda: stage_ledger(c.evaluation, d["06-policy"], d[stage], seed=c.seed),
            "12-backends": lambda: stage_backends(
                c.evaluation, d["06-policy"], d["10-collision"], d[stage], seed=c.seed
            ),
        }  # fmt: skip
        return stages_[stage]()

    @property
    def jobs(self) -> int:
        """Stages that run side by side."""
        return self.config.jobs or min(os.cpu_count() or 1, 2)

    @property
    def threads(self) -> int | None:
        """Threads of torch in each of them; None leaves it to torch."""
        return self.config.threads or (None if self.jobs == 1 else cores_each(self.jobs))

    def finished(self, stage: str) -> bool:
        """Whether a stage was done."""
        return RunFolder.finished(Path(self.config.out) / stage)

    def _record(self, *, again: bool = False) -> None:
        """Write the settings beside the stages: when a run begins, and when all of them were found to fit."""
        path = Path(self.config.out) / _RECORD
        if not path.exists() and any(folder.exists() for folder in path.parent.glob("0[1-9]-*")):
            raise ArtifactError(
                f"{path.parent} holds a run of another version: make it again with `dexprior demo out=FOLDER`, in "
                "another folder or after this one was deleted"
            )
        if again or not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, {"schema": SCHEMA, "config": to_plain(self.config)})

    def demonstrations(self) -> dict[str, Any]:
        """Human demonstrations, in the other world."""
        c, folder = self.config, self.folder["01-demonstrations"]

        def work() -> dict[str, Any]:
            return dict(generate_demonstrations(c.task, c.demonstrations, folder, seed=c.seed))

        return run_stage(folder, "line-demonstrations", c.demonstrations, c.seed, work)

    def prior(self) -> dict[str, Any]:
        """The video prior."""
        c = self.config
        return stages.stage_prior(c.prior, self.folder["01-demonstrations"], self.folder["02-prior"], seed=c.seed)

    def estimator(self) -> dict[str, Any]:
        """The pose estimator."""
        c = self.config
        return stages.stage_estimator(
            c.estimator, self.folder["01-demonstrations"], self.folder["02-prior"], self.folder["03-estimator"],
            seed=c.seed, holdout=c.prior.holdout,
        )  # fmt: skip

    def behavior(self) -> dict[str, Any]:
        """The bank of training scenes."""
        c, folder, prior = self.config, self.folder["04-behavior"], self.folder["02-prior"]
        reader = None if c.bank.source == "motion" else self.folder["03-estimator"]

        def work() -> dict[str, Any]:
            return make_bank(self.task, c.bank, self.gripper, prior, folder, seed=c.seed, estimator=reader)

        parents = stages.files_of_prior(prior) + (() if reader is None else self.made("03-estimator"))
        return run_stage(folder, "line-behavior", (c.bank, self.gripper), c.seed, work, parents=parents)

    def policy(self, name: str, settings: PpoConfig, *, use_prior: bool = True, warm: bool = False) -> dict[str, Any]:
        """A policy, with the behavioral prior or without it; `warm` goes on from the imitation."""
        c, begun = self.config, self.folder["05-imitation"] if warm and settings.warmup else None
        return stages.stage_policy(
            settings, self.folder["04-behavior"] if use_prior else None, self.folder[name], seed=c.seed,
            use_prior=use_prior, warm=begun, task=self.task, scenes=c.bank.scenes,
        )  # fmt: skip

    def made(self, stage: str) -> tuple[str, ...]:
        """Checksums of what others take from a stage that is done."""
        folder = self.folder[stage]
        if stage == "02-prior":
            return stages.files_of_prior(folder)
        names = {"03-estimator": "estimator", "04-behavior": "behavior"}
        return stages.parents_of(folder / f"{names.get(stage, 'actor')}.safetensors")


def _wanted(steps: Mapping[str, Step], stages: Sequence[str]) -> dict[str, Step]:
    """Those of the steps that are stages asked for, or needed by them."""
    names, todo = set(), list(stages)
    while todo:
        name = todo.pop()
        names.add(name)
        todo += [need for need in steps[name].needs if need not in names]
    return {name: step for name, step in steps.items() if name in names}


def do_stage(config: LineConfig, stage: str) -> dict[str, Any]:
    """A stage of the line with these settings, as `Line.do`, in any process."""
    return Line(config).do(stage)


_NEEDS = {
    "01-demonstrations": (), "02-prior": ("01-demonstrations",), "10-collision": (), "08-policy-plain": (),
    "04-behavior": ("02-prior",), "03-estimator": ("01-demonstrations", "02-prior"), "05-imitation": ("04-behavior",),
    "06-policy": ("05-imitation",), "07-policy-no-kl": ("05-imitation",), "11-ledger": ("06-policy",),
    "09-ladder": (), "12-backends": ("06-policy", "10-collision"),
}  # fmt: skip
"""What each stage needs, in the order in which they are begun: what much waits for comes first. The ladder's parts say
what they need."""
