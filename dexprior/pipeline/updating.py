"""The answer to a round whose policy was trained here: its family fitted, and the policy trained again over it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from dexprior.artifacts import file_hash, read_object, read_tensors
from dexprior.config import Ge, config, validate
from dexprior.envs.factory import BackendConfig
from dexprior.errors import ArtifactError, BadInput
from dexprior.families import ParameterFamily
from dexprior.pipeline.rounds import REAL, SIM
from dexprior.pipeline.stages import EvaluationConfig, run_world, stage_policy, trained_sensors, trained_task
from dexprior.pipeline.worlds import ABOUT_OTHER
from dexprior.policy.actor import load_actor
from dexprior.policy.ppo import PpoConfig
from dexprior.policy.rollout import actor_policy
from dexprior.reading import as_described
from dexprior.stats import Rate, compare_pairs
from dexprior.transfer.replay import Probe
from dexprior.transfer.rounds import AnswerConfig, answer_round, read_round
from dexprior.worlds.tasks import Task, learned_family

__all__ = ["RetrainConfig", "update_round"]

_POLICY = "policy"


@config
class RetrainConfig:
    """How the policy of a round is trained again; what is not here is as it was trained before."""

    iterations: Annotated[int, Ge(0)] = 8
    """Rollout and update rounds that go on from the old actor, without a warm-up; 0 trains nothing."""
    behavior: str | None = None
    """Folder of the behavioral prior's run; by default that of the policy's own run, where it was trained with one."""


def update_round(
    folder: str | Path,
    out: str | Path,
    settings: AnswerConfig | None = None,
    training: RetrainConfig | None = None,
    evaluation: EvaluationConfig | None = None,
    *,
    seed: int = 0,
) -> dict[str, Any]:
    """Answer a round; where its policy is a folder of `train-policy` or of a run, train it again over the new family.

    `out/policy` is then the new policy, and `update.json` compares both policies on one panel, in the simulator with
    the new family and in the task's other world, through the sensors that they were trained with.

    Args:
        folder: of the round; its `policy` is relative to it, or to where this runs.
        out: of the next round; new.
        settings: of the fit.
        training: of the policy.
        evaluation: panel on which both policies are judged.
        seed: of fit and training.

    Raises:
        BadInput: what `answer_round` refuses; a policy of another task; a behavioral prior that is not found.
        ArtifactError: the policy's record is missing or damaged.
    """
    training, evaluation = training or RetrainConfig(), evaluation or EvaluationConfig()
    given = read_round(folder).settings
    policy = _policy_of(Path(folder), given.policy)
    if policy is None or not training.iterations:
        return answer_round(folder, out, settings, seed=seed)
    task = trained_task({"policy": policy})
    if given.probe is not None and Probe.read(Path(folder) / given.probe).task != task:
        raise BadInput(f"{folder}: its policy {policy} was trained for {task!r}, its probe is of another task")
    ppo, behavior = _trained_with(policy, training)

    def retrain(family: Path) -> dict[str, Any]:
        new = family.parent / _POLICY
        stage_policy(
            ppo, behavior, new, seed=seed, use_prior=behavior is not None, init=policy, task=task, family=[family]
        )
        judged = replace(evaluation, backend=BackendConfig(simulation=ppo.simulation))
        return _before_and_after(policy, new, task, learned_family(task, [family]), judged) | {
            "policy": _POLICY, "player": _POLICY,
            "left_to_do": f"try {new} on the robot and fill in {family.parent}", "other": ABOUT_OTHER,
        }  # fmt: skip

    return answer_round(folder, out, settings, retrain=retrain, seed=seed)


def _policy_of(folder: Path, name: str) -> Path | None:
    """Folder of the policy that a round names; None for an expert, or a robot's own."""
    places = (folder / name, Path(name))
    return next((path for path in places if (path / "actor.safetensors").is_file()), None)


def _trained_with(policy: Path, training: RetrainConfig) -> tuple[PpoConfig, Path | None]:
    """Settings for going on, and the behavioral prior that the policy was trained with."""
    path = policy / "run.json"
    record = read_object(path, "the record of a policy's run", absent="`dexprior train-policy` writes it.")
    with as_described("the record of a policy's run", path, ArtifactError):
        ppo, parents = validate(PpoConfig, record["config"], where=str(path)), list(record["parents"])
    ppo = replace(ppo, iterations=training.iterations, warmup=0)
    if training.behavior is not None:
        return ppo, Path(training.behavior)
    if not read_tensors(policy / "actor.safetensors")[1]["extra"]["prior"]:
        return ppo, None
    for known in (policy.parent / "04-behavior", Path("runs/behavior")):
        file = known / "behavior.safetensors"
        if file.is_file() and file_hash(file) in parents:
            return ppo, known
    raise BadInput(
        f"{policy} was trained with a behavioral prior that does not lie beside it: give training.behavior=FOLDER"
    )


def _before_and_after(
    old: Path, new: Path, task: Task, family: ParameterFamily, config: EvaluationConfig
) -> dict[str, Any]:
    """Both policies on one panel in both worlds."""
    success: dict[str, Any] = {}
    comparison: dict[str, Any] = {}
    for world, name in (("sim", SIM), ("other", REAL)):
        wins = {}
        for when, path in (("before", old), ("after", new)):
            act = actor_policy(load_actor(path / "actor.safetensors"))
            episodes, panel = run_world(act, world, config, task=task, assumed=family, sensors=trained_sensors(path))
            wins[when] = episodes.success
        success[name] = {when: Rate(int(won.sum()), len(won)).as_dict() for when, won in wins.items()}
        comparison[name] = compare_pairs(
            wins["after"], wins["before"], names=("after", "before"), panel=panel.hash
        ).as_dict()
    return {"success": success, "comparison": comparison}
