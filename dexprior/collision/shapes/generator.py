"""Simulated impacts of any two bodies: sampled, run through the contact, checked, and kept in shards on disk.

Candidates are drawn in blocks of fixed size from (seed, block), and a shard holds the accepted ones of some blocks. So
the pairs are a function of (scene, config, ranges, seed) alone: neither threads, nor shards, nor interruptions show.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float
from tqdm import tqdm

from dexprior.artifacts import RunFolder, file_hash, make_header, read_json, read_tensors, write_json, write_tensors
from dexprior.collision.parameters import PARAMETERS, ContactRanges
from dexprior.collision.shapes.contacts import CUT_OFF, MISSED, NOT_FINITE, SEPARATED, ContactWorlds, Touch
from dexprior.collision.shapes.pairs import ShapePairs, kinetic_energy_of
from dexprior.collision.shapes.scene import CollisionScene
from dexprior.collision.shapes.solids import surface_cloud
from dexprior.config import Ge, Gt, Le, config, validate
from dexprior.errors import ArtifactError, BadInput, ConfigError
from dexprior.geometry.rotations import matrix_from_quat, quat_conjugate, quat_multiply

__all__ = ["PairConfig", "ShapeRanges", "generate", "load_pairs", "load_ranges"]

_BLOCK = 2048  # candidates that are drawn from one generator
_AIMS = 4096  # surface points that rays are aimed at
_ENERGY_TOLERANCE = 1e-6  # relative gain of kinetic energy that is still rounding
_HOPELESS = 0.02  # share of accepted candidates below which the ranges are at fault
_REASONS = {CUT_OFF: "cut_off", MISSED: "missed", NOT_FINITE: "not_finite"}
_SHARD = "shard-{:05d}.safetensors"
_STAGE = "collision_pairs"
_SLOWEST_SLIDE = 1e-9  # [m/s]


@config
class ShapeRanges:
    """Where contact parameters are sampled: log-uniformly, but for the damping exponent."""

    contact: ContactRanges = ContactRanges()
    """Between the two bodies."""
    torsional_friction: tuple[float, float] = (1e-5, 1e-2)
    """Friction of the same contact against spinning about the normal [m]; a coefficient times the radius of the patch.
    Friction is regularized: where the coefficient times the spin is slow, at low `impratio`, torsion is viscous and
    weak."""
    ground_friction: tuple[float, float] = (0.05, 0.6)
    """Coulomb coefficient between a resting object and its table."""
    ground_damping_ratio: tuple[float, float] = (0.5, 2.0)
    """Damping ratio of the table's spring and damper."""
    ground_torsional_friction: tuple[float, float] = (1e-4, 2e-2)
    """Friction of each support on the table against spinning [m]."""

    def __post_init__(self) -> None:
        for name in ("torsional_friction", "ground_friction", "ground_damping_ratio", "ground_torsional_friction"):
            low, high = getattr(self, name)
            if not 0 < low < high:
                raise ConfigError(f"ranges.{name} = ({low}, {high}): needs 0 < low < high")

    def sample(self, rng: np.random.Generator, names: tuple[str, ...], n: int) -> Float[np.ndarray, "n parameter"]:
        """Draws of the parameters `names`."""
        unit = rng.uniform(-1.0, 1.0, (n, len(PARAMETERS)))
        columns = [self.contact.from_unit(np, unit)]
        for name in names[len(PARAMETERS) :]:
            low, high = np.log(getattr(self, name))
            columns.append(np.exp(rng.uniform(low, high, (n, 1))))
        return np.concatenate(columns, axis=1)

    def at_speed(
        self, parameters: Float[np.ndarray, "n parameter"], names: tuple[str, ...], speed: Float[np.ndarray, " n"]
    ) -> dict[str, Float[np.ndarray, " n"]]:
        """What the simulator is given for impacts of normal `speed` [m/s], by name."""
        given = self.contact.at_speed(np, parameters[:, : len(PARAMETERS)], speed)
        found = {name: given[:, k] for k, name in enumerate(PARAMETERS[:-1])}
        return found | {name: parameters[:, k] for k, name in enumerate(names) if k >= len(PARAMETERS)}


@config
class PairConfig:
    """What is sampled, and how it is simulated."""

    pairs: Annotated[int, Ge(1)] = 100_000
    """Accepted impacts."""
    surface: bool = False
    """Aim at points spread evenly over the struck surface, along their normals; else along random lines through the
    struck body, which meet its corners and edges as often as they stick out."""
    at_rest: bool = False
    """The object rests before the impact; else both sides share the relative velocity at random."""
    approach_speed: tuple[float, float] = (0.1, 6.0)
    """Normal speed at the contact point [m/s], log-uniform."""
    slide_ratio: Annotated[float, Ge(0)] = 5.0
    """Largest ratio s of tangential to normal speed at the contact point; uniform in s / (1 + s)."""
    spin: Annotated[float, Ge(0)] = 30.0
    """Largest angular speed of the object before the impact [rad/s], uniform, about a random axis."""
    other_spin: Annotated[float, Ge(0)] = 0.0
    """Spin of the other side."""
    impedance: Annotated[float, Gt(0), Le(0.9999)] | None = 0.005
    """MuJoCo's `solimp`: low values make the contact an explicit spring and damper; None takes MuJoCo's default."""
    resolution: Annotated[int, Ge(4)] = 12
    """Time steps per damping_ratio * time_constant."""
    cloud: Annotated[int, Ge(8)] = 256
    """Points on the object's surface, kept once per scene."""

    def __post_init__(self) -> None:
        low, high = self.approach_speed
        if not 0 < low < high:
            raise ConfigError(f"pairs.approach_speed = ({low}, {high}): needs 0 < low < high")


def generate(
    scene: CollisionScene,
    config: PairConfig,
    ranges: ShapeRanges,
    *,
    seed: int,
    folder: str | Path | None = None,
    threads: int = 1,
    blocks_per_shard: int = 4,
    progress: bool = False,
) -> ShapePairs:
    """Simulate random impacts until `config.pairs` are accepted.

    An impact that gains kinetic energy, turns into a push, diverges, or never comes to be is rejected and counted.

    Args:
        scene: the two bodies.
        config: what is sampled.
        ranges: of the contact parameters.
        seed: the pairs are a function of (scene, config, ranges, seed).
        folder: where shards are kept; a killed run goes on there. None keeps nothing.
        threads: of MuJoCo's pool.
        blocks_per_shard: of 2,048 candidates each.
        progress: show a progress bar.

    Raises:
        BadInput: nearly everything is rejected; a mesh that cannot be used.
        ArtifactError: the folder belongs to another run, or a shard in it is damaged.
    """
    store = None if folder is None else _Shards(Path(folder), scene, config, ranges, seed)
    worlds: ContactWorlds | None = None
    parts: list[dict[str, np.ndarray]] = []
    counts: dict[str, int] = {"simulated": 0, "gained_energy": 0, **dict.fromkeys(_REASONS.values(), 0)}
    found, number = 0, 0
    with tqdm(total=config.pairs, desc="pairs", unit="pair", disable=not progress) as bar:
        while found < config.pairs:
            kept = None if store is None else store.read(number, blocks_per_shard)
            if kept is None:
                worlds = worlds or ContactWorlds(scene, _BLOCK, threads=threads)
                blocks = range(number * blocks_per_shard, (number + 1) * blocks_per_shard)
                kept = _joined([_simulate_block(worlds, config, ranges, seed, block) for block in blocks])
                if store is not None:
                    store.write(number, *kept)
            arrays, rejected = kept
            parts.append(arrays)
            for name, value in rejected.items():
                counts[name] += value
            found += len(arrays["before"])
            bar.update(min(len(arrays["before"]), config.pairs - bar.n))
            number += 1
            if found < _HOPELESS * counts["simulated"]:
                raise BadInput(f"generate: only {found} of {counts['simulated']} impacts are usable: {counts}")
    joined = {name: np.concatenate([part[name] for part in parts])[: config.pairs] for name in parts[0]}
    return _with_scene(joined, scene, config, seed, counts)


def load_pairs(folder: str | Path) -> ShapePairs:
    """Read what `generate` left in a folder, finished or not.

    Raises:
        ArtifactError: no such folder, no shard yet, or a damaged one.
    """
    folder, run = Path(folder), _run_of(Path(folder))
    plain = run["config"]
    scene = validate(CollisionScene, plain["scene"], where=f"{folder}:scene")
    pair_config = validate(PairConfig, plain["config"], where=f"{folder}:config")
    ranges = validate(ShapeRanges, plain["ranges"], where=f"{folder}:ranges")
    store = _Shards(folder, scene, pair_config, ranges, run["seed"])
    parts, counts = store.read_all()
    joined = {name: np.concatenate([part[name] for part in parts])[: pair_config.pairs] for name in parts[0]}
    return _with_scene(joined, scene, pair_config, run["seed"], counts)


def load_ranges(folder: str | Path) -> ShapeRanges:
    """Ranges that the contact parameters of a folder's pairs were sampled in.

    Raises:
        ArtifactError: no such folder.
    """
    return validate(ShapeRanges, _run_of(Path(folder))["config"]["ranges"], where=f"{folder}:ranges")


def _run_of(folder: Path) -> dict[str, Any]:
    if not (folder / "run.json").is_file():
        raise ArtifactError(f"{folder}: no collision pairs there; `generate` makes them")
    run = read_json(folder / "run.json")
    stage = run.get("stage") if isinstance(run, dict) else None
    if stage != _STAGE or not {"scene", "config", "ranges"} <= set(run["config"]):
        raise ArtifactError(
            f"{folder}: a folder of the stage {stage!r}, not of pairs that `generate` makes with a scene"
        )
    return dict(run)


# --- sampling -----------------------------------------------------------------------------------------------


def _simulate_block(
    worlds: ContactWorlds, config: PairConfig, ranges: ShapeRanges, seed: int, block: int
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    rng, scene, n = np.random.default_rng([seed, block, 4]), worlds.scene, worlds.n
    touch = _sample_touch(worlds, config, rng)
    twist, speed, tangent = _sample_twist(worlds, config, touch, rng)
    parameters = ranges.sample(rng, scene.parameters, n)
    given = ranges.at_speed(parameters, scene.parameters, speed)
    after, end = worlds.run(touch.pose, twist, given, impedance=config.impedance, resolution=config.resolution)
    end[~touch.found] = MISSED

    turn = matrix_from_quat(touch.pose[0, :, 3:])
    frame = np.stack([touch.normal, tangent, np.cross(touch.normal, tangent)], axis=1)

    def inward(vectors: np.ndarray) -> np.ndarray:
        return np.einsum("nji,...nj->...ni", turn, vectors)

    relative = np.concatenate(
        [
            inward(touch.pose[1, :, :3] - touch.pose[0, :, :3]),
            quat_multiply(quat_conjugate(touch.pose[0, :, 3:]), touch.pose[1, :, 3:]),
        ],
        axis=1,
    )
    both = np.concatenate([inward(twist[..., :3]), inward(twist[..., 3:])], axis=-1).swapaxes(0, 1)
    then = np.concatenate([inward(after[..., :3]), inward(after[..., 3:])], axis=-1).swapaxes(0, 1)
    found: dict[str, np.ndarray] = {
        "before": both,
        "after": then,
        "pose": relative,
        "point": inward(touch.point - touch.pose[0, :, :3]),
        "frame": np.einsum("nci,nij->ncj", frame, turn),
        "parameters": parameters,
    }
    finite = end != NOT_FINITE
    found["after"] = np.where(finite[:, None, None], then, 0.0)
    gained, found["delassus"], found["impulse"] = _explain(worlds, found)
    keep = (end == SEPARATED) & ~gained
    counts = {"simulated": n, "gained_energy": int((gained & (end == SEPARATED)).sum())}
    counts |= {name: int((end == code).sum()) for code, name in _REASONS.items()}
    return {name: value[keep] for name, value in found.items()}, counts


def _sample_touch(worlds: ContactWorlds, config: PairConfig, rng: np.random.Generator) -> Touch:
    scene, n = worlds.scene, worlds.n
    sides = (scene.object, scene.other)
    quat: np.ndarray = np.zeros((2, n, 4))
    for k, side in enumerate(sides):
        if side.motion == "free":
            quat[k] = _directions(rng, n, 4)
        else:
            yaw = rng.uniform(-np.pi, np.pi, n) * (side.motion in ("planar", "resting"))
            quat[k, :, 0], quat[k, :, 3] = np.cos(yaw / 2), np.sin(yaw / 2)
    target = worlds.target
    solid = sides[target].solid
    if solid is None:  # a plane
        direction = np.tile([0.0, -1.0, 0.0] if scene.planar else [0.0, 0.0, -1.0], (n, 1))
        return worlds.touch(quat, np.zeros((n, 3)), direction)
    aims = surface_cloud(solid, _AIMS, seed=0, lateral=scene.planar)
    turn = matrix_from_quat(quat[target])
    first, second = rng.integers(_AIMS, size=(2, n))
    if config.surface:
        aim, direction = aims[first, :3], -np.einsum("nij,nj->ni", turn, aims[first, 3:])
    else:
        aim = (aims[first, :3] + aims[second, :3]) / 2
        direction = _directions(rng, n, 2 if scene.planar else 3)
        if scene.planar:
            direction = np.concatenate([direction, np.zeros((n, 1))], axis=1)
    return worlds.touch(quat, np.einsum("nij,nj->ni", turn, aim), direction)


def _sample_twist(
    worlds: ContactWorlds, config: PairConfig, touch: Touch, rng: np.random.Generator
) -> tuple[np.ndarray, Float[np.ndarray, " n"], Float[np.ndarray, "n 3"]]:
    """Twists of both sides, the normal speed, and the tangent along which the object slides; world axes."""
    scene, n, normal = worlds.scene, worlds.n, touch.normal
    low, high = np.log(config.approach_speed)
    speed = np.exp(rng.uniform(low, high, n))
    squashed = rng.uniform(0.0, config.slide_ratio / (1.0 + config.slide_ratio), n)
    slide = np.maximum(speed * squashed / (1.0 - squashed), _SLOWEST_SLIDE)
    if scene.planar:
        across = np.cross([0.0, 0.0, 1.0], normal) * rng.choice([-1.0, 1.0], n)[:, None]
    else:
        across = np.cross(_directions(rng, n, 3), normal)
    tangent = across / np.linalg.norm(across, axis=1, keepdims=True)
    relative = -speed[:, None] * normal + slide[:, None] * tangent

    twist: np.ndarray = np.zeros((2, n, 6))
    for k, largest in enumerate((0.0 if config.at_rest else config.spin, config.other_spin)):
        size = rng.uniform(0.0, largest, n)[:, None] if largest else np.zeros((n, 1))
        axis = _directions(rng, n, 3)
        if scene.planar:
            axis = np.sign(axis[:, 2:]) * [0.0, 0.0, 1.0]
        if worlds.bodies[k].moves[3:].any():
            twist[k, :, 3:] = size * axis
        arm = touch.point - touch.pose[k, :, :3]
        relative = relative - (1.0 if k == 0 else -1.0) * np.cross(twist[k, :, 3:], arm)
    share = rng.uniform(0.0, 1.0, n)
    if worlds.bodies[1].motion == "fixed":
        share[:] = 1.0
    elif config.at_rest:
        share[:] = 0.0
    twist[0, :, :3] = share[:, None] * relative
    twist[1, :, :3] = (share[:, None] - 1.0) * relative
    return twist, speed, tangent


def _directions(rng: np.random.Generator, n: int, dimension: int) -> np.ndarray:
    x = rng.normal(size=(n, dimension))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _explain(worlds: ContactWorlds, found: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which impacts gained energy, the Delassus operators, and the impulses that explain the changes best.

    Where a table takes part, the impulse is that which the other side has felt.
    """
    n, frame = len(found["point"]), found["frame"]
    inverse = _inverse_inertias(worlds, found["pose"])
    before, after = (
        kinetic_energy_of(found[at][:, 0], inverse[0]) + kinetic_energy_of(found[at][:, 1], inverse[1])
        for at in ("before", "after")
    )
    rows: np.ndarray = np.zeros((2, n, 4, 6))
    for k, (sign, arm) in enumerate(((1.0, found["point"]), (-1.0, found["point"] - found["pose"][:, :3]))):
        rows[k, :, :3, :3] = sign * frame
        rows[k, :, :3, 3:] = sign * np.cross(arm[:, None], frame)
        rows[k, :, 3, 3:] = sign * frame[:, 0]
    operators = rows @ inverse @ rows.swapaxes(-1, -2)
    change = found["after"] - found["before"]
    slips = np.einsum("knci,nki->knc", rows, change)
    if worlds.scene.resting:
        operator, slip = operators[1], slips[1]
    else:
        operator, slip = operators.sum(axis=0), slips.sum(axis=0)
    acting = 2 if worlds.scene.planar else 4
    impulse: np.ndarray = np.zeros((n, 4))
    impulse[:, :acting] = np.linalg.solve(operator[:, :acting, :acting], slip[:, :acting, None])[..., 0]
    gained = after > before * (1.0 + _ENERGY_TOLERANCE)
    return gained, operators.sum(axis=0)[:, :3, :3], impulse


def _inverse_inertias(worlds: ContactWorlds, pose: Float[np.ndarray, "n 7"]) -> Float[np.ndarray, "2 n 6 6"]:
    """Inverse inertias of both sides, in the object's frame."""
    n = len(pose)
    wide: np.ndarray = np.zeros((n, 6, 6))
    wide[:, :3, :3] = wide[:, 3:, 3:] = matrix_from_quat(pose[:, 3:])
    own, other = (body.inverse_inertia for body in worlds.bodies)
    return np.stack([np.broadcast_to(own, (n, 6, 6)), wide @ other @ wide.swapaxes(1, 2)])


def _joined(blocks: list[tuple[dict[str, np.ndarray], dict[str, int]]]) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    arrays = {name: np.concatenate([block[0][name] for block in blocks]) for name in blocks[0][0]}
    counts = {name: sum(block[1][name] for block in blocks) for name in blocks[0][1]}
    return arrays, counts


def _with_scene(
    arrays: dict[str, np.ndarray], scene: CollisionScene, config: PairConfig, seed: int, counts: dict[str, int]
) -> ShapePairs:
    solid = scene.object.solid
    assert solid is not None
    worlds = ContactWorlds(scene, 1)
    return ShapePairs(
        **arrays,
        names=scene.parameters,
        inverse_inertia=np.stack([body.inverse_inertia for body in worlds.bodies]),
        cloud=surface_cloud(solid, config.cloud, seed=seed, lateral=scene.planar),
        counts=counts,
    )


# --- shards -------------------------------------------------------------------------------------------------


class _Shards:
    """Shards in a folder; an index holds the hash of each, so that a damaged one is noticed."""

    def __init__(self, folder: Path, scene: CollisionScene, config: PairConfig, ranges: ShapeRanges, seed: int) -> None:
        meshes = tuple(file_hash(side.mesh) for side in (scene.object, scene.other) if side.mesh is not None)
        self._identity: dict[str, Any] = {"scene": scene, "config": config, "ranges": ranges}
        self._folder, self._seed = folder, seed
        RunFolder(folder, stage=_STAGE, config=self._identity, seed=seed, parents=meshes).open()
        self._index_path = folder / "shards.json"
        self._index: dict[str, Any] = read_json(self._index_path) if self._index_path.is_file() else {}

    def read(self, number: int, blocks: int) -> tuple[dict[str, np.ndarray], dict[str, int]] | None:
        """A shard that is there, or None.

        Raises:
            ArtifactError: its content is not what was written, or it holds another number of blocks.
        """
        name = _SHARD.format(number)
        row, path = self._index.get(name), self._folder / name
        if row is None or not path.is_file():
            return None
        if row["blocks"] != blocks:
            raise ArtifactError(
                f"{self._folder} holds shards of {row['blocks']} blocks, this run makes {blocks}: go on with those"
            )
        return self._arrays(name), row["counts"]

    def read_all(self) -> tuple[list[dict[str, np.ndarray]], dict[str, int]]:
        """All shards, in order."""
        names = sorted(self._index)
        if not names:
            raise ArtifactError(f"{self._folder}: no shard is finished yet")
        rows = [self._index[name]["counts"] for name in names]
        return [self._arrays(name) for name in names], {key: sum(row[key] for row in rows) for key in rows[0]}

    def write(self, number: int, arrays: dict[str, np.ndarray], counts: dict[str, int]) -> None:
        """Keep a shard; it counts once the index names it."""
        name = _SHARD.format(number)
        header = make_header(ShapePairs.schema, producer="collision.shapes", seed=self._seed, config=self._identity)
        write_tensors(self._folder / name, arrays, {"header": asdict(header)})
        blocks = counts["simulated"] // _BLOCK
        self._index[name] = {"hash": file_hash(self._folder / name), "blocks": blocks, "counts": counts}
        write_json(self._index_path, self._index)

    def _arrays(self, name: str) -> dict[str, np.ndarray]:
        path = self._folder / name
        if file_hash(path) != self._index[name]["hash"]:
            raise ArtifactError(
                f"{path} is damaged: its hash is not the one in shards.json. Delete it to make it again."
            )
        return read_tensors(path)[0]
