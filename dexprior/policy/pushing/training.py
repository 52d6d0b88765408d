"""Soft actor-critic on one segment, with Stable-Baselines3's defaults, over a batch of worlds.

Training runs in chunks. At the start of each, random numbers are seeded by (seed, steps done) and all worlds restart,
so that a run that resumes from a chunk's end equals an uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from stable_baselines3 import SAC
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.sac.policies import SACPolicy

from dexprior.artifacts import (
    load_module,
    load_training_state,
    save_module,
    save_training_state,
    write_json,
)
from dexprior.collision.planar import PlanarStriker
from dexprior.collision.surrogate import Surrogate
from dexprior.config import Ge, Gt, Le, config, validate
from dexprior.envs.pushing import ACTION_SPACE, OBSERVATION_SPACE, PushingTask, PushingWorlds, Striker
from dexprior.errors import ArtifactError, ConfigError
from dexprior.policy.planning import MujocoStriker
from dexprior.policy.pushing.vector import PushingVecEnv
from dexprior.progress import TrainingLog
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
    """For `hybrid` [m], where it is not the world's."""
    contact_time: Annotated[float, Ge(0)] | None = None
    """For `hybrid`: how long the rod touches [s]; None estimates it."""
    threads: Annotated[int, Ge(1)] = 1
    """Of MuJoCo's pool; the result does not depend on it."""

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
    model.set_logger(Logger(folder=None, output_formats=[]))
    checkpoint, identity = folder / "checkpoint.safetensors", {"push": config, "seed": seed}
    curve: list[dict[str, float]] = []
    if checkpoint.exists():
        curve = _restore(model, checkpoint, identity)
        if finished.exists() and model.num_timesteps >= config.steps:
            return load_push_policy(finished)[0]
    with TrainingLog(folder, "push", config.steps, curve, quiet=quiet) as log:
        while model.num_timesteps < config.steps:
            _begin_chunk(model, worlds, seed)
            env.episodes.clear()
            model.learn(min(config.checkpoint_every, config.steps - model.num_timesteps), reset_num_timesteps=False)
            log.add(model.num_timesteps, _summary(env.episodes), show=("success", "return"))
            _store(model, checkpoint, identity, curve)
            write_json(folder / "curve.json", curve)
    write_json(folder / "curve.json", curve)  # it may have been killed between a checkpoint and its row
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


def _begin_chunk(model: SAC, worlds: PushingWorlds, seed: int) -> None:
    """Random numbers and episodes as a function of (seed, steps done) alone."""
    words = np.random.SeedSequence([seed, model.num_timesteps]).generate_state(3)
    set_random_seed(int(words[0]))
    model.action_space.seed(int(words[1]))
    worlds.seed(int(words[2]))
    model._last_obs = None  # learn() then resets the worlds


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


_BUFFER = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def _parts(model: SAC) -> tuple[dict[str, torch.nn.Module], dict[str, torch.optim.Optimizer]]:
    assert model.ent_coef_optimizer is not None  # the temperature is learned
    optimizers = {
        "actor": model.actor.optimizer,
        "critic": model.critic.optimizer,
        "temperature": model.ent_coef_optimizer,
    }
    return {"policy": model.policy}, optimizers


def _store(model: SAC, path: Path, identity: Mapping[str, Any], curve: list[dict[str, float]]) -> None:
    modules, optimizers = _parts(model)
    buffer: Any = model.replay_buffer
    arrays = {name: getattr(buffer, name)[: buffer.pos] for name in _BUFFER}
    arrays["log_temperature"] = model.log_ent_coef.detach().numpy()  # type: ignore[union-attr]
    progress = {"step": model.num_timesteps, "updates": model._n_updates, "curve": curve}
    save_training_state(
        path, modules=modules, optimizers=optimizers, progress=progress, config=dict(identity), arrays=arrays
    )


def _restore(model: SAC, path: Path, identity: Mapping[str, Any]) -> list[dict[str, float]]:
    modules, optimizers = _parts(model)
    progress, arrays = load_training_state(path, modules=modules, optimizers=optimizers, config=dict(identity))
    buffer: Any = model.replay_buffer
    for name in _BUFFER:
        getattr(buffer, name)[: len(arrays[name])] = arrays[name]
    buffer.pos = len(arrays["actions"])
    model.log_ent_coef.data[:] = torch.from_numpy(arrays["log_temperature"])  # type: ignore[union-attr]
    model.num_timesteps, model._n_updates = int(progress["step"]), int(progress["updates"])
    return progress["curve"]
