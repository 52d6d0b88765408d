"""Soft actor-critic on one segment, with Stable-Baselines3's defaults, over a batch of worlds."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from stable_baselines3 import SAC
from stable_baselines3.sac.policies import SACPolicy

from dexprior.artifacts import load_module, save_module, write_json
from dexprior.collision.planar import PlanarStriker
from dexprior.collision.surrogate import Surrogate
from dexprior.config import Ge, Gt, Le, config, validate
from dexprior.envs.pushing import ACTION_SPACE, OBSERVATION_SPACE, PushingTask, PushingWorlds, Striker
from dexprior.errors import ArtifactError, ConfigError
from dexprior.policy.chunked_sac import learn_in_chunks
from dexprior.policy.planning import MujocoStriker
from dexprior.policy.pushing.vector import PushingVecEnv
from dexprior.worlds.pushing import PushingConfig

__all__ = ["SCHEMA", "PushConfig", "StrikerConfig", "load_push_policy", "make_striker", "train"]

SCHEMA = "dexprior.push_policy/1"


@config
class StrikerConfig:
    """The simulator of strikes that a policy is trained in."""

    kind: Literal["mujoco", "hybrid"] = "mujoco"
    """MuJoCo from touch to rest, or the network at the impact and the planar rollout after it."""
    surrogate: str | None = None
    """File of an identified `Surrogate`, for `hybrid`."""
    parameters: dict[str, float] = field(default_factory=dict)
    """For `mujoco`: values other than the world's, by names of `PUSHING_PARAMETERS`."""
    table_friction: Annotated[float, Gt(0)] | None = None
    """For `hybrid`: Coulomb coefficient on the table, where it is not the world's."""
    torsional_friction: Annotated[float, Ge(0)] | None = None
    """Torsional friction for `hybrid` [m], where it is not the world's."""
    contact_time: Annotated[float, Ge(0)] | None = None
    """For `hybrid`: how long the rod touches [s]; None estimates it."""
    threads: Annotated[int, Ge(1)] = 1
    """Threads of MuJoCo's pool; the result does not depend on it."""

    def __post_init__(self) -> None:
        if (self.kind == "hybrid") != (self.surrogate is not None):
            raise ConfigError(f"striker.kind = {self.kind!r} with surrogate = {self.surrogate!r}: hybrid needs one")


@config
class PushConfig:
    """Training of a pushing policy."""

    world: PushingConfig = PushingConfig()
    """What is struck."""
    task: PushingTask = PushingTask()
    """Segment, limits and rewards."""
    striker: StrikerConfig = StrikerConfig()
    """What answers the strikes."""
    steps: Annotated[int, Ge(1)] = 200_000
    """Strikes in all; rounded up to whole rounds of the worlds."""
    worlds: Annotated[int, Ge(1)] = 50
    """Struck at once; each strike still has one gradient step."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of actor and critics; SB3's default."""
    learning_rate: Annotated[float, Gt(0)] = 3e-4
    """Adam's; SB3's default."""
    batch: Annotated[int, Ge(1)] = 256
    """Strikes per gradient step; SB3's default."""
    gamma: Annotated[float, Gt(0), Le(1)] = 0.99
    """Discount; SB3's default."""
    learning_starts: Annotated[int, Ge(0)] = 100
    """Random strikes before the first gradient step; SB3's default."""
    checkpoint_every: Annotated[int, Ge(1)] = 5000
    """Strikes between checkpoints, and rows of the learning curve."""

    def __post_init__(self) -> None:
        if self.checkpoint_every % self.worlds:
            raise ConfigError(
                f"push.checkpoint_every = {self.checkpoint_every} is not a whole number of rounds of "
                f"{self.worlds} worlds"
            )


def make_striker(striker: StrikerConfig, world: PushingConfig) -> Striker:
    """The simulator that a configuration names.

    Raises:
        ArtifactError: no such surrogate, or one that was not identified on measured strikes.
    """
    if striker.kind == "mujoco":
        return MujocoStriker(config=world, parameters=striker.parameters, threads=striker.threads)
    assert striker.surrogate is not None  # checked at construction
    surrogate = Surrogate.load(striker.surrogate)
    if surrogate.phi is None:
        raise ArtifactError(f"{striker.surrogate} holds no identified parameters: fit it to measured strikes first")
    return PlanarStriker(
        config=world,
        model=surrogate,
        phi=surrogate.phi,
        table_friction=striker.table_friction,
        torsional_friction=striker.torsional_friction,
        contact_time=striker.contact_time,
    )


def train(config: PushConfig, folder: Path, seed: int, *, quiet: bool = False) -> SACPolicy:
    """Train a policy, or go on where an interrupted run stopped; a function of (config, seed) on one machine.

    Writes `checkpoint.safetensors`, `curve.json` (a row per checkpoint: return, success and strikes of the episodes
    since the last) and at the end `policy.safetensors` into `folder`. Seeds torch, NumPy and `random` globally, as SB3
    does.

    Args:
        config: all settings.
        folder: created where it does not exist.
        seed: of networks, exploration, starts and sub-goals.
        quiet: neither progress bar nor TensorBoard.

    Raises:
        ArtifactError: the folder holds a checkpoint of another configuration or seed.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    finished = folder / "policy.safetensors"
    worlds = PushingWorlds(config.world, config.task, make_striker(config.striker, config.world), config.worlds)
    env = PushingVecEnv(worlds)
    model = SAC(
        "MlpPolicy",
        env,
        learning_rate=config.learning_rate,
        batch_size=config.batch,
        gamma=config.gamma,
        learning_starts=config.learning_starts,
        buffer_size=config.steps + config.worlds,
        gradient_steps=-1,  # as many as strikes
        policy_kwargs={"net_arch": list(config.hidden)},
        seed=seed,
        device="cpu",
    )

    def row() -> dict[str, float]:
        told = _summary(env.episodes)
        env.episodes.clear()
        return told

    before = finished.exists() and (folder / "checkpoint.safetensors").exists()
    curve = learn_in_chunks(
        model, folder, steps=config.steps, every=config.checkpoint_every, identity={"push": config, "seed": seed},
        seed=seed, seed_worlds=worlds.seed, row=row, name="push", show=("success", "return"), quiet=quiet,
    )  # fmt: skip
    write_json(folder / "curve.json", curve)  # it may have been killed between a checkpoint and its row
    if before:
        return load_push_policy(finished)[0]
    save_module(model.policy, finished, schema=SCHEMA, producer="push", config=config, seed=seed)
    model.policy.set_training_mode(False)
    return model.policy


def load_push_policy(path: str | Path) -> tuple[SACPolicy, PushConfig]:
    """The policy that `train` wrote, to act with, and its configuration.

    Raises:
        ArtifactError: missing, damaged or foreign file.
    """
    state, plain, _ = load_module(path, schema=SCHEMA)
    trained = validate(PushConfig, plain, where=str(path))
    policy = SACPolicy(OBSERVATION_SPACE, ACTION_SPACE, lambda _: trained.learning_rate, net_arch=list(trained.hidden))
    try:
        policy.load_state_dict(state)
    except RuntimeError as error:
        raise ArtifactError(f"{path}: the weights do not fit their own configuration: {error}") from None
    policy.set_training_mode(False)
    return policy, trained


def _summary(episodes: list[tuple[float, int, bool, float]]) -> dict[str, float]:
    if not episodes:
        return {"episodes": 0.0}
    returns, strikes, reached, deviation = (np.array(column, dtype=float) for column in zip(*episodes))
    found = reached > 0
    row = {
        "episodes": float(len(episodes)),
        "return": float(returns.mean()),
        "success": float(reached.mean()),
        "strikes": float(strikes.mean()),
    }
    return row | ({"deviation": float(deviation[found].mean())} if found.any() else {})
