"""The transfer ledger: success and slip in both worlds, gaps, first divergence; and fits to real logs.

dexprior ledger                fill in the ledger of a policy: ledger.json and ledger.html
dexprior ledger fit-servo      friction of a servo from logs: train=DIR test=DIR out=RESULT.json
dexprior ledger report LOGDIR  lag, backlash, noise floor and first departure of an arm's joints: out=DIR
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dexprior.cli.show import show
from dexprior.config import Ge, config
from dexprior.errors import BadInput
from dexprior.pipeline.stages import EvaluationConfig
from dexprior.transfer.arm import ArmReportConfig
from dexprior.transfer.servo import ServoFitConfig

WORDS = ("fit-servo", "report LOGDIR")


@config
class Config:
    """Settings of `dexprior ledger`."""

    policy: str = "runs/demo/07-policy"
    """Folder of a policy's run."""
    out: str = "runs/ledger"
    """Run folder; for fit-servo the JSON file of the result."""
    train: str | None = None
    """For fit-servo: folder of logs that are fitted."""
    test: str | None = None
    """For fit-servo: folder of logs that are predicted."""
    published: str | None = None
    """For fit-servo: JSON of a published friction model M1, for comparison."""
    seed: Annotated[int, Ge(0)] = 0
    """Of the search; for a policy it is recorded only, as the panel has its own."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """The panel."""
    servo: ServoFitConfig = ServoFitConfig()
    """How long is searched."""
    arm: ArmReportConfig = ArmReportConfig()
    """How an arm's logs are measured."""


def run(config: Config, words: list[str]) -> int:
    """Fill in and show."""
    if words == ["fit-servo"]:
        return _fit_servo(config)
    if words[:1] == ["report"]:
        return _report(config, words[1:])
    if words:
        raise BadInput(f"ledger {' '.join(words)}: choices: {', '.join(WORDS)}, or nothing")
    from dexprior.pipeline.transfer import stage_ledger

    show(stage_ledger(config.evaluation, Path(config.policy), Path(config.out), seed=config.seed))
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


def _report(config: Config, words: list[str]) -> int:
    from dexprior.transfer.arm import measure_arm, next_steps, write_arm_report

    if len(words) != 1:
        raise BadInput(
            f"ledger report takes one folder of logs, got {len(words)}: dexprior ledger report LOGDIR out=DIR"
        )
    ledger = measure_arm(words[0], config.arm, seed=config.seed)
    page = write_arm_report(ledger, config.out)
    show(
        {
            "page": page,
            "motions": [motion.log.name for motion in ledger.motions],
            "left_out": ledger.refused,
            "lag_s": {joint: ledger.pooled(joint)["lag_s"] for joint in ledger.joints},
            "next_steps": next_steps(ledger),
        }
    )
    return 0
