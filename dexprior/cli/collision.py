"""The learned collision model: make one, fit it to measured impacts, compare it with every opponent, plan with it.

dexprior collision                 the whole stage on one draw of measured impacts (or generated ones, and says so)
dexprior collision generate        simulated impacts; with scene=NAME of that pair of geometries
dexprior collision distill         the network from them, into out/base.safetensors
dexprior collision distill         pairs=[FOLDER,FOLDER] test=FOLDER: one network for many shapes, scored on another
dexprior collision identify        contact parameters of the impacts in data=FILE, through model=base.safetensors
dexprior collision finetune        the same, and what the parameters cannot say: out/collision.safetensors
dexprior collision evaluate        set=ellipse|cube train=FILE test=FILE n_real=10 draws=20 out=RESULT.json
dexprior collision evaluate        set=strikes n_real=10 draws=5 out=RESULT.json: on tables of an independent engine
dexprior collision plan            one strike that brings an object to plan.target=[x,y,yaw], with model=FILE
dexprior collision plan            set=strikes strikes.settings=[1,4] out=RESULT.json: planned with every fitted method
dexprior collision plan            set=ellipse train=FILE test=FILE n_real=10 draws=20 out=RESULT.json: which recorded
                                   start gives a wanted velocity, chosen by every method and judged by the record

Measured ellipse impacts are looked for under $DEXPRIOR_DATA. An interrupted command goes on where it was stopped.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from dexprior.artifacts import RunFolder, file_hash, write_json
from dexprior.cli.show import first_existing, show
from dexprior.collision.shapes import PairConfig, ShapeNetworkConfig, ShapeRanges, ShapeTrainingConfig
from dexprior.collision.stage import CollisionConfig
from dexprior.config import Ge, config
from dexprior.errors import BadInput
from dexprior.policy.planning import PlanConfig
from dexprior.studies.cubes import CubeEvaluationConfig
from dexprior.studies.ellipses import evaluate_choices
from dexprior.studies.strikes import StrikeStudyConfig, evaluate_plans, evaluate_strikes
from dexprior.worlds.pushing import PushingConfig

if TYPE_CHECKING:
    from dexprior.data.impacts import PlanarImpacts

_SHOWN = ("acc_0.1", "acc_0.2", "median", "position", "orientation")
WORDS = ("generate", "distill", "identify", "finetune", "evaluate", "plan")
HELP: dict[str, tuple[str, ...]] = {
    "": (
        "data",
        "out",
        "seed",
        "n_real",
        "draws",
        "collision.generator.pairs",
        "collision.distill.steps",
        "collision.",
    ),
    "generate": (
        "out",
        "seed",
        "scene",
        "collision.generator.pairs",
        "shapes.pairs",
        "collision.threads",
        "collision.generator.",
        "collision.surrogate.ranges.",
        "shapes.",
        "ranges.",
    ),
    "distill": (
        "out",
        "seed",
        "pairs",
        "test",
        "collision.distill.steps",
        "training.steps",
        "network.width",
        "network.depth",
        "collision.generator.",
        "collision.surrogate.",
        "collision.distill.",
        "network.",
        "training.",
    ),
    "identify": ("data", "model", "out", "collision.identify.", "collision.residual."),
    "finetune": ("data", "model", "out", "seed", "collision.identify.", "collision.residual."),
    "evaluate": (
        "set",
        "train",
        "test",
        "n_real",
        "draws",
        "model",
        "out",
        "seed",
        "strikes.shapes",
        "strikes.methods",
        "collision.",
        "tosses.",
        "strikes.",
    ),
    "plan": (
        "plan.start",
        "plan.target",
        "plan.simulator",
        "plan.check",
        "model",
        "set",
        "train",
        "test",
        "n_real",
        "draws",
        "out",
        "seed",
        "plan.",
        "strikes.",
        "collision.",
    ),
}
"""What `--help` shows, of the verb and of its words; what ends in a dot, `--help all` shows."""


@config
class PlanSettings:
    """What `plan` is asked."""

    start: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Pose of the object: x, y [m], yaw [rad]."""
    target: tuple[float, float, float] = (0.1, 0.0, 0.0)
    """Where it is to come to rest."""
    simulator: Literal["planar", "mujoco"] = "planar"
    """The collision model and integrated sliding, or MuJoCo from touch to rest."""
    check: bool = True
    """Whether to strike once in MuJoCo as well, and say where the object stops there."""
    world: PushingConfig = PushingConfig()
    """Object, table and rod."""
    search: PlanConfig = PlanConfig()
    """How it is searched."""
    targets: Annotated[int, Ge(1)] = 5
    """With set=strikes: places to bring the object to, per draw; each was reached by a random strike."""
    repeats: Annotated[int, Ge(1)] = 5
    """With set=strikes: searches per target and method."""


@config
class Config:
    """Settings of `dexprior collision`."""

    data: str | None = None
    """Measured impacts: ellipse_impacts.npz, or what `dexprior data import` made; by default looked for."""
    out: str = "runs/collision"
    """Run folder; for evaluate a RESULT.json, whose parts are kept in the folder RESULT.parts beside it."""
    seed: Annotated[int, Ge(0)] = 0
    """Seed of simulation and training."""
    model: str | None = None
    """A base or collision model on disk; by default out/base.safetensors, then runs/collision."""
    set: Literal["ellipse", "cube", "strikes"] = "ellipse"
    """Measured set that evaluate compares on; strikes, by evaluate and plan, on the tables of another engine."""
    train: str | None = None
    """Measured file that evaluate, or plan with set=ellipse, draws from."""
    test: str | None = None
    """Measured file that they score on; may be the same as train, which is then split. For distill with pairs: the
    folder of a shape to score on."""
    n_real: Annotated[int, Ge(3)] = 10
    """Measured impacts (or tosses) to adapt to."""
    draws: Annotated[int, Ge(1)] = 1
    """How many times they are drawn anew."""
    collision: CollisionConfig = CollisionConfig()
    """The stage; its n_real and draws are those above."""
    tosses: CubeEvaluationConfig = CubeEvaluationConfig()
    """For evaluate with set=cube: what is fitted on each draw, and how much is played."""
    strikes: StrikeStudyConfig = StrikeStudyConfig()
    """For set=strikes: objects, tables and methods."""
    scene: str | None = None
    """For generate: a preset pair of geometries, e.g. striker_square; by default what distill needs."""
    shapes: PairConfig = PairConfig()
    """For generate with a scene: what is sampled."""
    ranges: ShapeRanges = ShapeRanges()
    """For generate with a scene: its contact parameters."""
    pairs: tuple[str, ...] = ()
    """For distill: folders that generate with a scene made, one shape each; out/shapes.safetensors answers for all."""
    network: ShapeNetworkConfig = ShapeNetworkConfig()
    """Network for distill with pairs; its ranges are those of the folders."""
    training: ShapeTrainingConfig = ShapeTrainingConfig()
    """Training for distill with pairs."""
    plan: PlanSettings = PlanSettings()
    """One strike."""


def run(config: Config, words: list[str]) -> int:
    """Dispatch."""
    steps = {
        "generate": _generate,
        "distill": _distill,
        "identify": _identify,
        "finetune": _finetune,
        "evaluate": _evaluate,
        "plan": _plan,
    }
    if not words:
        return _stage(config)
    if len(words) != 1 or words[0] not in steps:
        raise BadInput(f"collision {' '.join(words)}: choices: {', '.join(WORDS)}, or nothing")
    return steps[words[0]](config)


def _settings(config: Config) -> CollisionConfig:
    return replace(config.collision, n_real=config.n_real, draws=config.draws)


def _stage(config: Config) -> int:
    from dexprior.collision.report import plot_accuracy
    from dexprior.collision.stage import run as run_stage
    from dexprior.data.impacts import find_ellipse_impacts

    data = Path(config.data) if config.data else find_ellipse_impacts()
    finished = RunFolder.finished(Path(config.out))
    show(run_stage(_settings(config), Path(config.out), seed=config.seed, data=data))
    picture = Path(config.out) / "accuracy.png"
    if not (finished and picture.is_file()):
        plot_accuracy(config.out, picture)
    return 0


def _generate(config: Config) -> int:
    if config.scene is not None:
        from dexprior.collision.shapes import generate, preset

        found = generate(
            preset(config.scene),
            config.shapes,
            config.ranges,
            seed=config.seed,
            folder=config.out,
            threads=config.collision.threads,
            progress=True,
        )
        show({"scene": config.scene, "pairs": len(found), **found.counts, "folder": config.out})
        return 0
    from dexprior.collision.stage import open_base, simulated_pairs

    pairs = simulated_pairs(open_base(_settings(config), Path(config.out), seed=config.seed), _settings(config))
    show({"pairs": len(pairs), **pairs.counts, "file": str(Path(config.out) / "pairs.safetensors")})
    return 0


def _distill(config: Config) -> int:
    if config.pairs:
        from dexprior.collision.shapes import distill_shapes

        show(
            distill_shapes(
                config.pairs, config.out, config.network, config.training, seed=config.seed, test=config.test
            )
        )
        return 0
    from dexprior.collision.stage import open_base, train_base

    record = open_base(_settings(config), Path(config.out), seed=config.seed)
    model, pairs = train_base(record, _settings(config), progress=True)
    scatter = dict(zip(("normal", "tangential"), model.scatter.tolist()))
    show({"pairs": len(pairs), "scatter": scatter, "file": str(record.file("base.safetensors"))})
    return 0


def _identify(config: Config) -> int:
    from dexprior.collision.calibration import identify
    from dexprior.collision.surrogate import Surrogate

    base = Surrogate.load(_base(config))
    settings = config.collision
    found = identify(base, _impacts(config), settings.identify, settings.residual)
    result = found.as_dict()
    write_json(Path(config.out) / "identified.json", result)
    show(result)
    return 0


def _finetune(config: Config) -> int:
    from dexprior.collision.calibration import finetune, identify
    from dexprior.collision.surrogate import Surrogate

    source = _base(config)
    base, impacts, settings = Surrogate.load(source), _impacts(config), config.collision
    found = identify(base, impacts, settings.identify, settings.residual)
    model = finetune(base, impacts, found, settings.residual)
    path = Path(config.out) / "collision.safetensors"
    model.save(path, producer="collision", seed=config.seed, parents=(file_hash(source),))
    show({"impacts": len(impacts), "identified": found.as_dict(), "file": str(path)})
    return 0


def _evaluate(config: Config) -> int:
    if config.set != "strikes":
        _files(config)
    out = _json(config, "evaluate")
    steps = {"ellipse": _evaluate_ellipse, "cube": _evaluate_cube, "strikes": _evaluate_strikes}
    result, shown = steps[config.set](config, out.with_suffix(".parts"))
    write_json(out, result)
    print(json.dumps(shown, indent=2))
    return 0


def _json(config: Config, word: str) -> Path:
    if config.set == "strikes" and not (config.train is None and config.test is None):
        raise BadInput(f"collision {word} set=strikes: the table is struck anew; it reads no train or test file")
    if Path(config.out).suffix != ".json":
        raise BadInput(f"collision {word}: out={config.out} must name a .json file")
    if Path(config.out).is_dir():
        raise BadInput(f"collision {word}: out={config.out} is a folder; give the name of a new file")
    return Path(config.out)


def _files(config: Config) -> tuple[str, str]:
    if config.train is None or config.test is None:
        raise BadInput("collision: give train=FILE and test=FILE (they may be the same file)")
    return config.train, config.test


def _evaluate_ellipse(config: Config, parts: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    from dexprior.collision.stage import compare

    train, test = map(Path, _files(config))
    result = compare(_settings(config), parts, seed=config.seed, train=train, test=test)
    return result, {name: _short(numbers) for name, numbers in result["methods"].items()}


def _evaluate_strikes(config: Config, parts: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    result = evaluate_strikes(
        config.strikes,
        _base(config),
        parts,
        seed=config.seed,
        n_real=config.n_real,
        draws=config.draws,
        collision=config.collision,
    )
    shown = {
        shape: {name: _short(numbers) for name, numbers in found["methods"].items()}
        for shape, found in result["shapes"].items()
    }
    return result, shown


def _evaluate_cube(config: Config, parts: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    from tqdm import tqdm

    from dexprior.data.tosses import load_cube_tosses
    from dexprior.studies.cubes import evaluate_cube

    train_path, test_path = _files(config)
    train = load_cube_tosses(train_path)
    test = train if file_hash(train_path) == file_hash(test_path) else load_cube_tosses(test_path)
    with tqdm(total=config.draws, desc="draws") as bar:

        def advance(done: int, _: int) -> None:
            bar.update(done - bar.n)

        result = evaluate_cube(
            train,
            test,
            config.tosses,
            seed=config.seed,
            n_real=config.n_real,
            draws=config.draws,
            folder=parts,
            progress=advance,
        )
    return result, result["figures"]


def _plan(config: Config) -> int:
    if config.set == "strikes":
        return _plan_on_tables(config)
    if config.train is not None or config.test is not None:
        return _choose_starts(config)
    import numpy as np

    from dexprior.collision.planar import PlanarStriker
    from dexprior.collision.surrogate import Surrogate
    from dexprior.policy.planning import MujocoStriker, StrikeSimulator, plan_strikes

    ask = config.plan
    mujoco = MujocoStriker(config=ask.world)
    simulator: StrikeSimulator = mujoco
    if ask.simulator == "planar":
        candidates = [f"{config.out}/collision.safetensors", "runs/collision/collision.safetensors"]
        path = first_existing(config.model, candidates, "collision model", "dexprior collision finetune")
        model = Surrogate.load(path)
        if model.phi is None:
            raise BadInput(f"{path} has no identified contact parameters; run `dexprior collision finetune` first")
        simulator = PlanarStriker(config=ask.world, model=model, phi=model.phi)
    start, target = np.array([ask.start]), np.array([ask.target])
    plans = plan_strikes(ask.world, simulator, start, target, plan=ask.search, seed=config.seed)
    strike = {name: float(getattr(plans.strikes, name)[0]) for name in ("alpha", "speed", "beta")}
    result = {
        "strike": strike,
        "final_pose": plans.final_pose[0].tolist(),
        "cost": float(plans.cost[0]),
        "evaluations": plans.evaluations,
        "seconds": plans.seconds,
    }
    if ask.check:
        result["final_pose_in_mujoco"] = mujoco(start, plans.strikes)[0].tolist()
    write_json(Path(config.out) / "plan.json", result)
    show(result)
    return 0


def _choose_starts(config: Config) -> int:
    if config.set != "ellipse":
        raise BadInput(
            f"collision plan: set={config.set} with train and test; only set=ellipse has starts to choose among"
        )
    train, test = map(Path, _files(config))
    out = _json(config, "plan")
    result = evaluate_choices(_settings(config), out.with_suffix(".parts"), seed=config.seed, train=train, test=test)
    write_json(out, result)
    show(result["methods"])
    return 0


def _plan_on_tables(config: Config) -> int:
    out, ask = _json(config, "plan"), config.plan
    result = evaluate_plans(
        config.strikes,
        _base(config),
        out.with_suffix(".parts"),
        seed=config.seed,
        n_real=config.n_real,
        draws=config.draws,
        targets=ask.targets,
        repeats=ask.repeats,
        plan=ask.search,
        collision=config.collision,
    )
    write_json(out, result)
    show(result["shapes"])
    return 0


def _short(numbers: dict[str, object]) -> dict[str, object]:
    return {name: numbers[name] for name in _SHOWN if name in numbers}


def _base(config: Config) -> Path:
    candidates = [f"{config.out}/base.safetensors", "runs/collision/base.safetensors"]
    return first_existing(config.model, candidates, "base model", "dexprior collision distill")


def _impacts(config: Config) -> PlanarImpacts:
    from dexprior.data.impacts import find_ellipse_impacts, load_impacts

    data = Path(config.data) if config.data else find_ellipse_impacts()
    if data is None:
        raise BadInput("collision: give data=FILE, or set $DEXPRIOR_DATA to where impacts/ellipse_impacts.npz lies")
    return load_impacts(data)
