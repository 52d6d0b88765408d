"""Simulators of strikes against the independent engine's table: what `dexprior collision evaluate set=strikes` runs.

A cell is one shape on one table setting in one draw: a few random strikes are recorded, every method is fitted to the
same ones, and all are scored on others. Each cell is kept as plain data, strike by strike, so that a run that was
stopped goes on where it was, and so that figures, intervals and paired ratios come from the same errors.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float
from tqdm import tqdm

from dexprior.artifacts import (
    RunFolder,
    checked_header,
    file_hash,
    make_header,
    read_object,
    read_tensors,
    write_json,
    write_tensors,
)
from dexprior.collision.clash import ClashConfig, ClashModel, StateFeatures
from dexprior.collision.evaluation import THRESHOLDS
from dexprior.collision.planar.reference import ReferenceStriker, train_reference
from dexprior.collision.planar.strikes import StrikeImpacts, TuneStrikesConfig, strike_error
from dexprior.collision.residual import ResidualConfig
from dexprior.collision.shapes import StrikeSampling, simulate_strike_pairs
from dexprior.collision.stage import CollisionConfig
from dexprior.collision.surrogate import Surrogate
from dexprior.config import Ge, config, to_plain
from dexprior.envs.reality.pushing import SETTINGS, RealTable, Recordings, start_table
from dexprior.errors import ArtifactError, BadInput, ConfigError
from dexprior.stats import bootstrap_nested
from dexprior.studies.strikes.fitting import FittedStrikers, fit_strikers, recorded_velocity, strike_errors
from dexprior.worlds.pushing import PushingConfig, Strikes

__all__ = [
    "Bench",
    "StrikeStudyConfig",
    "check_counts",
    "describe",
    "evaluate_strikes",
    "open_record",
    "read_cell",
    "run_cells",
]

OURS = "hybrid"
_CLASH_PAIRS = "dexprior.clash_pairs/1"
_COLUMNS = ("velocity", "position", "orientation")
_FIGURES = (*(f"acc_{e:g}" for e in THRESHOLDS), "median", "velocity", "position", "orientation")
"""Shares of relative errors of the velocity below each threshold, its median and mean; means at rest [m], [rad]."""

Cell = tuple[str, int, int]
"""Shape, number of the setting, number of the draw."""
Shape = Literal["semi_cylinder", "square", "triangle"]
_SHAPES: tuple[Shape, ...] = ("semi_cylinder", "square", "triangle")
Method = Literal[
    "mujoco_default", "mujoco_tuned", "real_only", "clash", "clash_tuned", "closed_form", "identified", "hybrid",
    "hybrid_mujoco",
]  # fmt: skip


@config
class StrikeStudyConfig:
    """Which objects, on which tables, and what is fitted."""

    shapes: tuple[Shape, ...] = _SHAPES
    """Cross-sections of the prism that is struck."""
    settings: tuple[int, ...] = (0, 1, 2, 3, 4, 5)
    """Numbers of the table's hidden contact parameters."""
    methods: tuple[Method, ...] = (
        "mujoco_default",
        "mujoco_tuned",
        "real_only",
        "clash",
        "clash_tuned",
        "closed_form",
        "identified",
        "hybrid",
    )
    """What is fitted, see `dexprior.studies.strikes.fitting`; hybrid_mujoco can only plan."""
    test: Annotated[int, Ge(1)] = 100
    """Strikes to score on, per draw."""
    speed: tuple[float, float] = (0.2, 1.0)
    """Speed of the rod [m/s], uniform; impact points and deflections cover what the object allows."""
    tuning: TuneStrikesConfig = TuneStrikesConfig()
    """Tuning of MuJoCo, by CMA-ES."""
    residual: ResidualConfig = ResidualConfig(noise=0.03)
    """Residual of the fine-tuned network; velocities at separation are told within 1 to 4 %."""
    pairs: StrikeSampling = StrikeSampling()
    """Simulated strikes that the published reference learns from, as published."""
    pairs_tuned: StrikeSampling = StrikeSampling(time_constant=0.0008, impratio=10.0, impedance=0.005)
    """The same on the simulator that the distilled network learns from."""
    resamples: Annotated[int, Ge(10)] = 2000
    """Resamples of settings, draws and strikes, for the intervals."""

    def __post_init__(self) -> None:
        for name in ("shapes", "settings", "methods"):
            chosen = getattr(self, name)
            if not chosen or len(set(chosen)) < len(chosen):
                raise ConfigError(f"strikes.{name} = {list(chosen)}: needs at least one, each once")
        wrong = [k for k in self.settings if not 0 <= k < len(SETTINGS)]
        if wrong:
            raise ConfigError(f"strikes.settings = {wrong[0]}: the table has settings 0 to {len(SETTINGS) - 1}")
        if not 0.01 <= self.speed[0] < self.speed[1]:
            raise ConfigError(f"strikes.speed = {self.speed}: needs 0.01 <= slowest < fastest")


@dataclass(frozen=True, kw_only=True)
class Bench:
    """One table setting with one shape, and what is needed to fit to it."""

    world: PushingConfig
    table: RealTable
    setting: int
    base: Surrogate
    references: Mapping[str, ClashModel]
    study: StrikeStudyConfig
    collision: CollisionConfig
    n_real: int

    def generator(self, seed: int, draw: int) -> np.random.Generator:
        """Random numbers of one draw."""
        return np.random.default_rng([seed, _SHAPES.index(self.world.shape), self.setting, draw])

    def record(self, n: int, rng: np.random.Generator, *, turned: bool = True) -> Recordings:
        """Random strikes on objects at the origin, turned at random or not, with velocities to score by."""
        low, high = self.world.alpha_range
        strikes = Strikes(
            alpha=rng.uniform(low, high, n),
            speed=rng.uniform(*self.study.speed, n),
            beta=rng.uniform(-1.0, 1.0, n) * self.world.max_beta,
        )
        pose = np.column_stack([np.zeros((n, 2)), turned * rng.uniform(-np.pi, np.pi, n)])
        return self.table.record(pose, strikes, seed=int(rng.integers(2**31)))

    def fit(self, recordings: Recordings, rng: np.random.Generator) -> FittedStrikers:
        """Every method on the same recordings, without the velocities that only the table knows.

        Raises:
            BadInput: too few of the strikes can be read; the message names the cell.
        """
        try:
            return fit_strikers(
                self.world,
                self.base,
                replace(recordings, velocity=None),
                seed=int(rng.integers(2**31)),
                tuning=self.study.tuning,
                identification=self.collision.identify,
                residual=self.study.residual,
                references=self.references,
                threads=self.collision.threads,
            )
        except BadInput as error:
            raise BadInput(f"{self.world.shape} in setting {self.setting}: {error}") from None


def run_cells(
    study: StrikeStudyConfig,
    base: Path,
    record: RunFolder,
    *,
    collision: CollisionConfig,
    n_real: int,
    draws: int,
    make: Callable[[Bench, int], dict[str, Any]],
    read: Callable[[Path], dict[str, Any]],
    progress: bool,
) -> dict[Cell, dict[str, Any]]:
    """Every cell of a study; those whose files are there are read, before any other is made.

    Args:
        study: shapes and settings.
        base: file of the distilled network.
        record: keeps the cells.
        collision: as for `Bench`.
        n_real: as for `Bench`.
        draws: of every shape and setting.
        make: a bench and the number of a draw -> plain data.
        read: a cell's file, checked.
        progress: show a bar over the cells.
    """
    files: dict[Cell, Path] = {
        cell: record.file("{}/setting_{}/draw_{:03d}.json".format(*cell))
        for cell in itertools.product(study.shapes, study.settings, range(draws))
    }
    found = {cell: read(file) for cell, file in files.items() if file.exists()}
    missing = list(dict.fromkeys(cell[:2] for cell in files if cell not in found))
    with tqdm(total=len(files), desc="cells", disable=not progress) as bar:
        bar.update(len(found))
        for bench in _open_benches(study, base, record, collision=collision, n_real=n_real, missing=missing):
            for draw in range(draws):
                file = files[bench.world.shape, bench.setting, draw]
                if not file.exists():
                    write_json(file, make(bench, draw))
                    bar.update()
    return {cell: found[cell] if cell in found else read(file) for cell, file in files.items()}


def _open_benches(
    study: StrikeStudyConfig,
    base: Path,
    record: RunFolder,
    *,
    collision: CollisionConfig,
    n_real: int,
    missing: Sequence[tuple[str, int]],
) -> Iterator[Bench]:
    """A bench for each (shape, setting) of `missing`, one at a time; simulated strikes of the reference are kept."""
    surrogate = Surrogate.load(base)
    for shape, group in itertools.groupby(missing, key=lambda cell: cell[0]):
        world = PushingConfig(shape=shape)  # type: ignore[arg-type]
        references: dict[str, ClashModel] = {
            name: _reference(record, world, sampling, training, name, threads=collision.threads)
            for name, sampling, training in (
                ("clash", study.pairs, collision.clash),
                ("clash_tuned", study.pairs_tuned, collision.clash_tuned),
            )
            if name in study.methods
        }
        for _, setting in group:
            with RealTable(start_table(world, setting=setting, seed=record.seed, truth=True)) as table:
                yield Bench(
                    world=world,
                    table=table,
                    setting=setting,
                    base=surrogate,
                    references=references,
                    study=study,
                    collision=collision,
                    n_real=n_real,
                )


def evaluate_strikes(
    study: StrikeStudyConfig,
    base: Path,
    folder: str | Path,
    *,
    seed: int,
    n_real: int = 10,
    draws: int = 1,
    collision: CollisionConfig | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Fit on `n_real` strikes and score on others, for every shape, setting and draw; plain data.

    Args:
        study: objects, tables, methods.
        base: file of the distilled network.
        folder: keeps the cells; those that are there already, of the same configuration, are not repeated.
        seed: of strikes, noise, searches and networks.
        n_real: strikes to fit to.
        draws: how many times they are drawn anew in each setting.
        collision: settings of identification and of the reference's network, and threads.
        progress: show a bar over the cells.

    Returns:
        By shape: `methods` (name -> figures and their 95 % `intervals` over settings, draws and strikes; `velocity` is
        the mean relative error), `paired` (name -> figure -> ratio of ours to it, and its interval), `settings` (the
        figures setting by setting) and `fitted`.

    Raises:
        ArtifactError: the folder belongs to another configuration or seed; a cell in it is damaged; no such base.
        BadInput: fewer than three strikes to fit to, no draw, or a method without a velocity of its own.
        MissingExtra: the table's engine is not installed.
    """
    collision = collision or CollisionConfig()
    check_counts(n_real, draws)
    if "hybrid_mujoco" in study.methods:
        raise BadInput("strikes.methods: hybrid_mujoco strikes as hybrid does and only slides otherwise; plan with it")
    record = open_record(study, base, folder, stage="strikes", collision=collision, n_real=n_real, seed=seed)
    found = run_cells(
        study, base, record, collision=collision, n_real=n_real, draws=draws, progress=progress,
        make=lambda bench, draw: _cell(bench, seed, draw), read=lambda file: _read(file, study),
    )  # fmt: skip
    return {
        "schema": "dexprior.strike_evaluation/1",
        "study": to_plain(study),
        "seed": seed,
        "n_real": n_real,
        "n_test": study.test,
        "draws": draws,
        "shapes": {shape: _summary(study, found, shape, draws) for shape in study.shapes},
    }


def open_record(
    study: StrikeStudyConfig,
    base: Path,
    folder: str | Path,
    *,
    stage: str,
    collision: CollisionConfig,
    n_real: int,
    seed: int,
    more: Any = None,
) -> RunFolder:
    """The folder of a study's cells; which shapes, settings and draws are wanted may change from run to run."""
    apart = ("shapes", "settings", "resamples")
    identity = {
        "study": {name: value for name, value in to_plain(study).items() if name not in apart},
        "identify": collision.identify,
        "clash": (collision.clash, collision.clash_tuned),
        "n_real": n_real,
        "more": more,
    }
    return RunFolder(Path(folder), stage=stage, config=to_plain(identity), seed=seed, parents=(file_hash(base),)).open()


def read_cell(file: Path, errors: Callable[[Any], Any], shape: tuple[int, ...]) -> dict[str, Any]:
    """A cell as it was kept.

    Args:
        file: of the cell.
        errors: finds its errors in it.
        shape: that these must have.

    Raises:
        ArtifactError: damaged, or of another study.
    """
    try:
        cell = read_object(file)
        kept = np.array(errors(cell), dtype=np.float64).shape
        whole = "fitted" in cell
    except (ArtifactError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"{file} is damaged: {error!r}. Delete it to make it again.") from None
    if kept != shape or not whole:
        raise ArtifactError(
            f"{file} holds errors of the shape {kept}, this study's {shape}. Delete it to make it again."
        )
    return cell


def _read(file: Path, study: StrikeStudyConfig) -> dict[str, Any]:
    names = study.methods
    return read_cell(
        file,
        lambda cell: [[cell["errors"][name][column] for column in _COLUMNS] for name in names],
        (len(names), len(_COLUMNS), study.test),
    )


def check_counts(n_real: int, draws: int) -> None:
    """Refuse what cannot be fitted or drawn.

    Raises:
        BadInput: fewer than three strikes, or no draw.
    """
    if n_real < 3:
        raise BadInput(f"strikes: n_real = {n_real}, but at least 3 strikes are needed to fit to; ten are usual")
    if draws < 1:
        raise BadInput(f"strikes: draws = {draws}; at least 1")


def _reference(
    record: RunFolder, world: PushingConfig, sampling: StrikeSampling, training: ClashConfig, name: str, *, threads: int
) -> ClashModel:
    path = record.file(f"{world.shape}/{name}_pairs.safetensors")
    if not path.exists():
        simulated, counts = simulate_strike_pairs(sampling, world, seed=record.seed, threads=threads)
        header = make_header(_CLASH_PAIRS, producer="collision", seed=record.seed, config=sampling)
        arrays = {name: value for name, value in vars(simulated).items() if value is not None}
        write_tensors(path, arrays, {"header": asdict(header), "counts": counts})
    arrays, meta = read_tensors(path)
    checked_header(path, meta, _CLASH_PAIRS)
    return train_reference(training, sampling, world, StateFeatures(**arrays), seed=record.seed)


def _cell(bench: Bench, seed: int, draw: int) -> dict[str, Any]:
    rng = bench.generator(seed, draw)
    fit, rest = bench.record(bench.n_real, rng), bench.record(bench.study.test, rng)
    fitted = bench.fit(fit, rng)
    errors = strike_errors(fitted, rest, names=bench.study.methods)
    return {
        "errors": {name: {column: error[column].tolist() for column in _COLUMNS} for name, error in errors.items()},
        "fitted": describe(fitted) | {"measured_velocity_error": _measured_error(fitted, fit)},
    }


def describe(fitted: FittedStrikers) -> dict[str, Any]:
    """What the recordings told, as plain data."""
    plain = {
        "table_friction": asdict(fitted.friction),
        "support_share": asdict(fitted.support),
        "torsional_friction": asdict(fitted.torsion),
        "contact_time": fitted.contact_time,
        "hybrid": fitted.identified.as_dict(),
        "mujoco_tuned": dict(fitted.tuned),
    }
    for name, striker in fitted.strikers.items():
        if isinstance(striker, ReferenceStriker):
            plain[name] = striker.model.parameters
    return plain


def _measured_error(fitted: FittedStrikers, recordings: Recordings) -> list[float]:
    """Relative error of the velocities that the methods were fitted to, against those that only the table knows."""
    assert recordings.velocity is not None
    truth = StrikeImpacts(
        config=fitted.world, pose=recordings.pose, strikes=recordings.strikes, velocity=recordings.velocity
    )
    error = strike_error(recorded_velocity(fitted.standing, recordings), truth)
    return [float(x) for x in error[np.isfinite(error)]]


# --- figures ------------------------------------------------------------------------------------------------


def _summary(
    study: StrikeStudyConfig, found: dict[tuple[Any, ...], dict[str, Any]], shape: str, draws: int
) -> dict[str, Any]:
    names = study.methods
    errors = np.array(
        [
            [
                [[found[shape, setting, draw]["errors"][name][column] for column in _COLUMNS] for name in names]
                for draw in range(draws)
            ]
            for setting in study.settings
        ]
    )
    errors = np.moveaxis(errors, -1, 2)  # setting, draw, strike, method, column

    def statistic(values: np.ndarray) -> np.ndarray:
        figures = _figures_of(values)
        if OURS not in names:
            return figures.ravel()
        ours = figures[names.index(OURS)]
        return np.concatenate([figures, _ratio(ours, figures)]).ravel()

    value, low, high = (
        part.reshape(-1, len(_FIGURES)) for part in bootstrap_nested(errors, statistic, depth=3, draws=study.resamples)
    )
    count = int(np.prod(errors.shape[:3]))
    methods = {
        name: {
            **dict(zip(_FIGURES, value[k].tolist())),
            "n": count,
            "intervals": _intervals(low[k], high[k]),
        }
        for k, name in enumerate(names)
    }
    paired: dict[str, Any] = {}
    for k, name in enumerate(names):
        if OURS in names and name != OURS:
            row = len(names) + k
            ends = _intervals(low[row], high[row])
            paired[name] = {
                figure: {"ratio": _number(value[row, j]), "interval": ends[figure]} for j, figure in enumerate(_FIGURES)
            }
    return {
        "methods": methods,
        "paired": paired,
        "settings": {
            str(setting): {
                name: dict(zip(_FIGURES, row.tolist())) for name, row in zip(names, _figures_of(errors[k : k + 1]))
            }
            for k, setting in enumerate(study.settings)
        },
        "fitted": {
            str(setting): [found[shape, setting, draw]["fitted"] for draw in range(draws)] for setting in study.settings
        },
    }


def _figures_of(errors: Float[np.ndarray, "setting draw strike method 3"]) -> Float[np.ndarray, "method figure"]:
    flat = errors.reshape(-1, *errors.shape[3:])
    velocity = flat[..., 0]
    shares = [(velocity < e).mean(axis=0) for e in THRESHOLDS]
    return np.stack([*shares, np.median(velocity, axis=0), *flat.mean(axis=0).T], axis=1)


def _ratio(ours: np.ndarray, other: np.ndarray) -> np.ndarray:
    return ours / np.where(other > 0, other, np.nan)


def _intervals(low: np.ndarray, high: np.ndarray) -> dict[str, list[float] | None]:
    return {name: [float(a), float(b)] if np.isfinite(a + b) else None for name, a, b in zip(_FIGURES, low, high)}


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
