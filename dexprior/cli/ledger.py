"""The transfer ledger: what the simulator promised, what the robot did, where they part and why; fits to real logs.

dexprior ledger                   fill in the ledger of a policy: ledger.json and ledger.html
dexprior ledger new DIR           a round to fill in by hand: round.yaml and trials.csv
dexprior ledger add DIR           check it, compare its traces, write ledger.json and ledger.html
dexprior ledger probe task=wipe   a motion to replay on the robot: probe.json, command.csv; out=DIR
dexprior ledger compare A B       several rounds, in order: is the gap closing? out=DIR
dexprior ledger plan ROUND        which real data to collect next, by a round's diagnosis and rates: out=DIR
dexprior ledger plan              the same by a diagnosis and rates of your own: diagnosis=FILE plan.sim=.9 plan.real=.6
dexprior ledger plan results=CSV  the filled sheet read back; recordings=DIR names what to train on
dexprior ledger fit-servo         friction of a servo from logs: train=DIR test=DIR out=RESULT.json
dexprior ledger fit-noise LOG     noise, steps, drift, play and timing of sensors from logs: out=RESULT.json
dexprior ledger report LOGDIR     lag, backlash, noise floor and first departure of an arm's joints: out=DIR
dexprior ledger lab               the mini-lab: a gap on a held-out friction, and both answers to it: out=DIR
dexprior ledger update ROUND      fit its family to its replays, train its policy again, begin the next: out=DIR
dexprior ledger update ROUND      of the mini-lab: also train and play again, by=family or by=recovery
"""

from __future__ import annotations

from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any

from dexprior.cli.compose import files
from dexprior.cli.show import show
from dexprior.config import Ge, config
from dexprior.errors import ArtifactError, BadInput
from dexprior.pipeline.stages import EvaluationConfig
from dexprior.pipeline.updating import RetrainConfig
from dexprior.reading import as_described, entries, integer, mapping
from dexprior.studies.mini_lab import By, LabConfig
from dexprior.transfer import DivergenceConfig, read_ledger
from dexprior.transfer.arm import Angle, ArmReportConfig
from dexprior.transfer.collection import PlanConfig
from dexprior.transfer.diagnosis import BankConfig
from dexprior.transfer.noise import NoiseFitConfig
from dexprior.transfer.rounds import AnswerConfig
from dexprior.transfer.servo import ServoFitConfig

WORDS = (
    "new DIR", "add DIR", "probe", "compare DIR DIR ...", "plan ROUND", "fit-servo", "fit-noise LOG", "report LOGDIR",
    "lab", "update ROUND",
)  # fmt: skip
HELP: dict[str, tuple[str, ...]] = {
    "": ("policy", "family", "out", "seed", "evaluation.instances", "evaluation.backend.kind", "evaluation."),
    "new": (),
    "add": ("seed", "divergence.", "bank."),
    "probe": ("task", "settings", "seed", "out"),
    "compare": ("out",),
    "plan": (
        "diagnosis",
        "plan.sim",
        "plan.real",
        "plan.instances",
        "plan.budget",
        "protocols",
        "results",
        "recordings",
        "partial.",
        "registered.",
        "policy",
        "out",
        "seed",
        "plan.",
    ),
    "fit-servo": ("train", "test", "published", "out", "seed", "servo."),
    "fit-noise": ("units", "out", "seed", "noise.", "arm."),
    "report": ("units", "out", "seed", "arm."),
    "lab": ("out", "seed", "lab.panel", "lab.seconds", "lab.training.generations", "lab."),
    "update": (
        "by",
        "out",
        "seed",
        "answer.player",
        "answer.panel",
        "training.iterations",
        "training.behavior",
        "answer.",
        "training.",
        "evaluation.",
    ),
}
"""What `--help` shows, of the verb and of its words; what ends in a dot, `--help all` shows."""


@config
class Config:
    """Settings of `dexprior ledger`."""

    policy: str = "runs/demo/06-policy"
    """Folder of a policy's run."""
    family: str | tuple[str, ...] = ()
    """For a policy: FILE or FILE,FILE with parameters that the simulator takes in place of the task's own."""
    out: str = "runs/ledger"
    """Run folder; for fit-servo and fit-noise the JSON file of the result."""
    task: str = "wipe"
    """For probe: task of the suite."""
    settings: dict[str, Any] = field(default_factory=dict)
    """For probe: fields of the task's configuration that differ from the defaults."""
    train: str | None = None
    """For fit-servo: folder of logs that are fitted."""
    test: str | None = None
    """For fit-servo: folder of logs that are predicted."""
    published: str | None = None
    """For fit-servo: JSON of a published friction model M1, for comparison."""
    diagnosis: str | None = None
    """For plan without a round: JSON with the probability of every gap and of `unknown`, alone or under
    `probabilities`."""
    protocols: str | None = None
    """For plan: YAML that overrides fields of protocols."""
    results: str | None = None
    """For plan: the filled trial sheet of the plan in `out`."""
    partial: bool = False
    """For plan with results: whether pairs that were not run yet may remain."""
    registered: str | None = None
    """For plan with results: the preregistration's hash as it was published."""
    recordings: str | None = None
    """For plan with results: folder of the recorded episodes."""
    units: Angle = "rad"
    """For report and fit-noise: unit of the angles in CSVs, rad or deg."""
    seed: Annotated[int, Ge(0)] = 0
    """Seed of the search; for a policy it is recorded only, as the panel has its own."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """The panel."""
    divergence: DivergenceConfig = DivergenceConfig()
    """For add: how a first divergence is looked for."""
    bank: BankConfig = BankConfig()
    """For add: how much is simulated for a diagnosis."""
    servo: ServoFitConfig = ServoFitConfig()
    """How long is searched."""
    arm: ArmReportConfig = ArmReportConfig()
    """How an arm's logs are measured."""
    noise: NoiseFitConfig = NoiseFitConfig()
    """How sensors' noise is."""
    plan: PlanConfig = PlanConfig()
    """What is collected next."""
    lab: LabConfig = LabConfig()
    """Sizes of the mini-lab; an update keeps those of its round."""
    answer: AnswerConfig = AnswerConfig()
    """For update of a round of your own: how its family is fitted."""
    training: RetrainConfig = RetrainConfig()
    """For update of a round of your own: how its policy is trained again, where it is a folder of a policy."""
    by: By = "family"
    """For update of a round of the mini-lab: fit the family and train again, or back off and retry by a second gait."""


def writes(config: Config, words: list[str]) -> Path:
    """What a word writes: the folder of a round of your own, or `out`."""
    return Path(words[1]) if words[:1] in (["new"], ["add"]) and len(words) == 2 else Path(config.out)


def run(config: Config, words: list[str]) -> int:
    """Fill in and show."""
    if words[:1] in (["new"], ["add"]):
        return _round(config, words)
    if words == ["probe"]:
        return _probe(config)
    if words[:1] == ["compare"]:
        return _compare(config, words[1:])
    if words == ["fit-servo"]:
        return _fit_servo(config)
    if words[:1] == ["fit-noise"]:
        return _fit_noise(config, words[1:])
    if words[:1] == ["report"]:
        return _report(config, words[1:])
    if words[:1] == ["plan"]:
        return _plan(config, words[1:]) if config.results is None else _read_back(config, config.results)
    if words == ["lab"]:
        return _lab(config)
    if words[:1] == ["update"]:
        return _update(config, words[1:])
    if words:
        raise BadInput(f"ledger {' '.join(words)}: choices: {', '.join(WORDS)}, or nothing")
    from dexprior.pipeline.transfer import stage_ledger

    result = stage_ledger(
        config.evaluation, Path(config.policy), Path(config.out), seed=config.seed, family=files(config.family)
    )
    show(result)
    return 0


def _round(config: Config, words: list[str]) -> int:
    from dexprior.transfer.rounds import add_round, write_template

    if len(words) != 2:
        raise BadInput(f"ledger {words[0]} takes one folder, got {len(words) - 1}: dexprior ledger {words[0]} DIR")
    if words[0] == "new":
        settings, trials = write_template(words[1])
        show({"fill in": [settings, trials], "then": f"dexprior ledger add {words[1]}"})
        return 0
    data = add_round(words[1], divergence=config.divergence, bank=config.bank, seed=config.seed)
    keys = ("success", "success_gap", "slip_gap", "timing_gap", "distance", "diagnosis", "signatures", "cases", "notes")
    show({"page": Path(words[1]) / "ledger.html"} | {key: data[key] for key in keys})
    return 0


def _probe(config: Config) -> int:
    import numpy as np

    from dexprior.artifacts import write_atomic
    from dexprior.transfer.diagnosis import identified
    from dexprior.transfer.replay import probe_of
    from dexprior.worlds.tasks import make_task

    task = make_task(config.task, **config.settings)
    family = identified(task)
    probe = probe_of(task, family, seed=config.seed)
    out = Path(config.out)
    out.mkdir(parents=True, exist_ok=True)
    t, q = probe.commands(family)
    head = ",".join(["t", *(f"joint{k + 1}_command" for k in range(q.shape[1]))])
    rows = [",".join(f"{value:.6f}" for value in row) for row in np.column_stack([t, q])]
    write_atomic(out / "command.csv", ("\n".join([head, *rows]) + "\n").encode())
    path = probe.save(out / "probe.json", settings=config.settings)
    show({"probe": path, "command [s, rad]": out / "command.csv", "seconds": len(t) * task.control_dt})
    return 0


def _compare(config: Config, words: list[str]) -> int:
    from dexprior.transfer.rounds import compare_rounds

    show(compare_rounds(words, config.out))
    return 0


def _fit_servo(config: Config) -> int:
    from dexprior.artifacts import write_json
    from dexprior.transfer.servo import fit_servo, read_published, read_servo_logs, score_servo

    if config.train is None or config.test is None or not config.out.endswith(".json"):
        raise BadInput("ledger fit-servo: give train=DIR test=DIR out=RESULT.json")
    train, test = read_servo_logs(config.train), read_servo_logs(config.test)
    if config.published is not None:
        read_published(config.published)  # before minutes are spent on a fit that nothing is compared with
    out = Path(config.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    fit = fit_servo(train, config.servo, seed=config.seed)
    fit.save(out.with_name(f"{out.stem}-fit.json"))
    result = score_servo(fit, test, published=config.published) | {"parameters": fit.identified(), "seed": config.seed}
    write_json(out, result)
    show(result)
    return 0


def _fit_noise(config: Config, words: list[str]) -> int:
    from dexprior.artifacts import write_json
    from dexprior.config import to_plain
    from dexprior.transfer.noise import fit_noise

    if len(words) != 1 or not config.out.endswith(".json"):
        raise BadInput(
            "ledger fit-noise: give one log or folder of logs: dexprior ledger fit-noise LOG out=RESULT.json"
        )
    fit = fit_noise(words[0], config.noise, config.arm, units=config.units, seed=config.seed)
    out = Path(config.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    family, models = fit.family(), fit.models()
    write_json(out, fit.as_dict() | {"seed": config.seed})
    write_json(out.with_name(f"{out.stem}-family.json"), family.to_json())
    write_json(out.with_name(f"{out.stem}-sensors.json"), to_plain(models))
    show(
        {
            "result": out,
            "logs": [log.name for log in fit.logs],
            "left_out": fit.refused,
            "family": {p.name: [p.mean, p.low, p.high] for p in family.parameters},
            "sensors": models.active,
        }
    )
    return 0


def _lab(config: Config) -> int:
    from dexprior.studies.mini_lab import run_lab

    show(run_lab(config.lab, config.out, seed=config.seed))
    return 0


def _update(config: Config, words: list[str]) -> int:
    if len(words) != 1:
        raise BadInput(
            f"ledger update takes one folder of a round, got {len(words)}: dexprior ledger update ROUND out=DIR"
        )
    if Path(config.out).resolve() == Path(words[0]).resolve():
        raise BadInput(f"ledger update: out={config.out} is the round itself; choose another folder")
    if (Path(words[0]) / "round.yaml").is_file():
        return _answer(config, words[0])
    from dexprior.studies.mini_lab import update_folder

    if any((Path(config.out) / name).exists() for name in ("round.yaml", "ledger.json")):
        raise BadInput(f"ledger update: out={config.out} holds a round already; choose another folder")
    show(update_folder(words[0], config.out, by=config.by).as_dict())
    return 0


def _answer(config: Config, folder: str) -> int:
    from dexprior.pipeline.updating import update_round

    if config.by != "family":
        raise BadInput(
            f"ledger update: by={config.by} answers rounds of the mini-lab, whose gait can be trained; a round of "
            "your own is answered by=family"
        )
    answer = update_round(folder, config.out, config.answer, config.training, config.evaluation, seed=config.seed)
    keys = ("blamed", "actions", "player", "success", "left_to_do")
    show({"family": Path(config.out) / "family.json"} | {key: answer[key] for key in keys})
    return 0


def _report(config: Config, words: list[str]) -> int:
    from dexprior.transfer.arm import measure_arm, next_steps, write_arm_report

    if len(words) != 1:
        raise BadInput(
            f"ledger report takes one folder of logs, got {len(words)}: dexprior ledger report LOGDIR out=DIR"
        )
    ledger = measure_arm(words[0], config.arm, units=config.units, seed=config.seed)
    page = write_arm_report(ledger, config.out)
    show(
        {
            "page": page,
            "motions": [motion.log.name for motion in ledger.motions],
            "left_out": ledger.refused,
            "notes": {motion.log.name: list(motion.log.notes) for motion in ledger.motions if motion.log.notes},
            "lag_s": {joint: ledger.pooled(joint)["lag_s"] for joint in ledger.joints},
            "next_steps": next_steps(ledger),
        }
    )
    return 0


def _plan(config: Config, words: list[str]) -> int:
    from dexprior.transfer.collection import plan_collection, read_probabilities, read_protocols, write_plan

    if len(words) > 1 or (config.diagnosis is None) == (not words):
        raise BadInput(
            "ledger plan: give one folder of a round, dexprior ledger plan ROUND, or diagnosis=FILE.json with plan.sim "
            "and plan.real, or results=trials.csv of a plan that was made"
        )
    diagnosis = Path(words[0]) / "diagnosis.json" if words else Path(str(config.diagnosis))
    settings = _rates_of(words[0], config.plan) if words else config.plan
    plan = plan_collection(
        read_probabilities(diagnosis),
        None,
        settings.budget,
        read_protocols(config.protocols),
        config.seed,
        settings,
    )
    page = write_plan(plan, config.out)
    show(
        {
            "page": page,
            "rates": {"sim": settings.sim, "real": settings.real, "instances": settings.instances},
            "pairs": plan.pairs,
            "hours": plan.hours,
            "expected_width": plan.steps[-1].expected_width if plan.steps else plan.width_before,
            "preregistration": plan.preregistration_hash,
        }
    )
    return 0


def _rates_of(folder: str, plan: PlanConfig) -> PlanConfig:
    """The plan's settings with the success rates that a round measured, in the simulator and on the robot.

    Raises:
        ArtifactError: no ledger in the folder, or none with the trials of two worlds.
        BadInput: a rate is given as well.
    """
    given = [
        f"plan.{name}" for name in ("sim", "real", "instances") if getattr(plan, name) != getattr(PlanConfig(), name)
    ]
    if given:
        raise BadInput(
            f"ledger plan {folder}: {', '.join(given)} is given, and measured by the round; give one of both"
        )
    path = Path(folder) / "ledger.json"
    ledger = read_ledger(path)
    with as_described("a ledger", path, ArtifactError):
        success = mapping(ledger["success"], f"{path}: success")
        if len(success) != 2:
            raise BadInput(f"{path}: success of {', '.join(success) or 'no world'}: expected a simulator and a robot")
        rates = []
        for world, rate in success.items():
            k, n = entries(rate, ("k", "n"), f"{path}: success.{world}")
            n = integer(n, f"{path}: success.{world}.n", low=1)
            rates.append((integer(k, f"{path}: success.{world}.k", high=n), n))
    (k_sim, n_sim), (k_real, n_real) = rates
    return replace(plan, sim=k_sim / n_sim, real=k_real / n_real, instances=min(n_sim, n_real))


def _read_back(config: Config, results: str) -> int:
    from dexprior.artifacts import write_json
    from dexprior.transfer.collection import read_back, read_plan, write_manifest

    out = Path(config.out)
    plan = read_plan(out / "plan.json", registered=config.registered)
    reading = read_back(plan, results, partial=config.partial)
    manifest = None
    if config.recordings is not None:
        manifest = write_manifest(reading, config.recordings, out / "train.json", init=config.policy)
    result = reading.to_json()
    write_json(out / "result.json", result)
    show(
        {
            "result": out / "result.json",
            "train": manifest,
            "closable_gap": {when: gap["interval"] for when, gap in result["closable_gap"].items()},
            "voided": sum(reading.voided.values()),
            "unrun": reading.unrun,
            "next": next(iter(reading.promise)),
            "verdict": None if reading.verdict is None else reading.verdict.outcome,
        }
    )
    return 0
