"""Policies for Gymnasium environments in a folder: prior, imitation, then PPO near the prior, a residual, or SAC."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch

from dexprior.config import Ge, Gt, config, to_plain, validate
from dexprior.errors import ArtifactError, BadInput
from dexprior.policy.actor import ActorConfig
from dexprior.policy.density import ActionDensity, DensityConfig, fit_density, save_density
from dexprior.policy.gym.cloning import CloningConfig, clone
from dexprior.policy.gym.experts import Defect, Played, defective, play, read_prior
from dexprior.policy.gym.networks import (
    ResidualActor,
    Shape,
    StateActor,
    StateCritic,
    load_state_actor,
    save_state_actor,
)
from dexprior.policy.gym.offpolicy import OffPolicyConfig, load_off_policy, train_off_policy
from dexprior.policy.gym.worlds import EnvConfig, GymWorlds
from dexprior.policy.kl import KlConfig
from dexprior.policy.optimising import Judge, Learner, Optimisation, optimise
from dexprior.policy.pairs import Pairs
from dexprior.policy.priors import DensityPrior

__all__ = ["JUDGED", "GymConfig", "evaluate_policy", "load_policy", "prior_pairs", "train_gym"]

JUDGED = 2**31
"""First seed of the episodes that policies are judged on; training draws from below."""


@config
class GymConfig:
    """Training in a Gymnasium environment."""

    kind: Literal["clone", "ppo", "residual", "sac"] = "ppo"
    """The imitation alone; PPO from it; PPO of what is learned beside it; or SAC."""
    env: EnvConfig = EnvConfig()
    """How the environment is used."""
    defect: Defect = Defect()
    """How a prior that is an expert is made worse before it is played."""
    episodes: Annotated[int, Ge(2)] = 50
    """Episodes that a prior that is an expert plays, to be learned from."""
    clone: CloningConfig = CloningConfig()
    """Imitation that training starts from."""
    density: DensityConfig = DensityConfig(width=64, blur=0.05)
    """Density that the policy is kept near."""
    residual: Annotated[float, Gt(0)] = 0.3
    """For a residual: how far it reaches from the imitation."""
    ppo: Optimisation = Optimisation(
        worlds=25, iterations=100, warmup=0, guided=0, learning_rate=5e-5, minibatch=1000, discount=0.99, entropy=0.0,
        actor=ActorConfig(log_std=-1.5), kl=KlConfig(start=0.01, end=0.001),
    )  # fmt: skip
    """PPO; its warm-up is the imitation above."""
    off_policy: OffPolicyConfig = OffPolicyConfig()
    """SAC."""
    judge_every: Annotated[int, Ge(1)] = 5
    """Iterations of PPO between two looks at the mean action..."""
    judged: Annotated[int, Ge(1)] = 25
    """...on so many episodes that training never sees."""


def prior_pairs(name: str, prior: str | Path, config: GymConfig, *, seed: int) -> tuple[Pairs, dict[str, float]]:
    """What there is to imitate: the episodes of a file, or those that its expert plays.

    Returns:
        The pairs, of single actions, and of an expert the share of its episodes that it won (`prior_success`).

    Raises:
        BadInput: see `read_prior`; or a defect of recorded episodes, which nothing can be done to.
    """
    worlds = GymWorlds(name, min(config.ppo.worlds, config.episodes), replace(config.env, chunk=1))
    try:
        found = read_prior(prior, worlds)
        if isinstance(found, Pairs):
            if config.defect.kind != "none":
                raise BadInput(
                    f"gym.defect.kind={config.defect.kind}: {prior} holds episodes, and only an expert gets worse"
                )
            return found, {}
        begin = defective(found, config.defect, worlds.actions, seed=seed)
        played = play(worlds, begin, config.episodes, seed=_SHOWN + seed * config.episodes)
        return played.pairs, {"prior_success": float(played.success.mean())}
    finally:
        worlds.close()


_SHOWN = 2**30  # first seed of the episodes that experts play


def train_gym(
    name: str,
    config: GymConfig,
    folder: Path,
    *,
    seed: int,
    prior: str | Path | None = None,
    init: Path | None = None,
    pairs: Pairs | None = None,
) -> dict[str, Any]:
    """Train a policy for an environment, or go on where an interrupted run stopped.

    Writes `policy.safetensors`, and `density.safetensors` where one is fitted.

    Args:
        name: of the environment.
        config: of the training.
        folder: exists.
        seed: of everything that is drawn.
        prior: file of recorded episodes or of an expert; None trains without a prior.
        init: folder of a policy that PPO starts from, in place of an imitation.
        pairs: what the prior shows, in place of a file.

    Returns:
        `curve`, and what is known of prior, density and imitation.

    Raises:
        BadInput: a residual without a prior or an actor to start from, a density where there is no prior, or an actor
            for another environment.
        Diverged: a loss is not finite.
    """
    torch.manual_seed(seed)
    told: dict[str, Any] = {}
    if pairs is None and prior is not None:
        pairs, told = prior_pairs(name, prior, config, seed=seed)
    needed = {"clone": False, "sac": config.off_policy.prior != "buffer"}
    needs_density = needed.get(config.kind, config.ppo.kl.start > 0)
    density: ActionDensity | None = None
    if pairs is not None and needs_density:
        density, fitted = fit_density(pairs, replace(config.density, chunk=config.env.chunk), seed=seed)
        save_density(density, folder / "density.safetensors", seed=seed, extra={"env": name})
        told["density"] = fitted
    if config.kind == "sac":
        if init is not None:
            raise BadInput(f"init={init}: SAC starts from fresh networks; take gym.kind=ppo")
        if pairs is None and config.off_policy.prior != "buffer":
            raise BadInput(f"gym.off_policy.prior={config.off_policy.prior}: there is no prior; give prior=FILE")
        rows = train_off_policy(name, config.env, config.off_policy, folder, seed=seed, pairs=pairs, density=density)
        return told | {"curve": rows}
    worlds = GymWorlds(name, config.ppo.worlds, config.env)
    learner, imitated = _learner(worlds, config, pairs, init, name, seed)
    told |= imitated
    curve: list[dict[str, float]] = []
    if config.kind == "clone":
        if pairs is None:
            raise BadInput("gym.kind=clone: there is nothing to imitate; give prior=FILE")
    else:
        judge = GymWorlds(name, min(config.judged, config.ppo.worlds), config.env)
        curve = optimise(
            worlds, learner, None if density is None else DensityPrior(density), config.ppo, folder, seed=seed,
            name=f"train {name}", demonstrations=None if pairs is None else pairs.chunks(config.env.chunk),
            judge=Judge(config.judge_every, lambda actor: _looked(actor, judge, config.judged, JUDGED)),
        )  # fmt: skip
        judge.close()
    worlds.close()
    assert isinstance(learner.actor, StateActor)
    save_state_actor(
        learner.actor.eval(), folder / "policy.safetensors", seed=seed,
        extra={"env": name, "settings": to_plain(config.env)},
    )  # fmt: skip
    return told | {"curve": curve}


def _learner(
    worlds: GymWorlds, config: GymConfig, pairs: Pairs | None, init: Path | None, name: str, seed: int
) -> tuple[Learner, dict[str, float]]:
    """Actor and critic as PPO starts: imitating pairs, as another run left its actor, or fresh."""
    networks = config.ppo.actor
    fresh = pairs is None and init is None
    if fresh:
        networks = replace(networks, log_std=config.ppo.plain_log_std)
    shape = Shape(networks=networks, size=worlds.size, actions=worlds.actions * config.env.chunk)
    actor, critic, told = StateActor(shape), StateCritic(shape), {}
    if init is not None:
        actor, extra = load_state_actor(init / "policy.safetensors")
        if (actor.shape.size, actor.shape.actions) != (shape.size, shape.actions):
            raise BadInput(
                f"init={init}: an actor of {extra.get('env')} that reads {actor.shape.size} numbers and gives "
                f"{actor.shape.actions}, {name} shows {shape.size} and takes {shape.actions}"
            )
        actor.train().requires_grad_(True)
        critic.seen.load_state_dict(actor.seen.state_dict())
    elif pairs is not None:
        off = clone(actor, critic, pairs.chunks(config.env.chunk), config.clone, seed=seed)
        told = {"imitation_off": off}
    else:
        state = _random_states(worlds, seed)
        actor.seen.fit(state)
        critic.seen.fit(state)
    if config.kind == "residual":
        if fresh:
            raise BadInput("gym.kind=residual stands on an imitation: give prior=FILE or init=FOLDER")
        if isinstance(actor, ResidualActor):
            raise BadInput(f"init={init} is a residual already; go on with it by gym.kind=ppo")
        actor = ResidualActor(replace(actor.shape, residual=config.residual), actor)
    return Learner(actor, critic), told


def _random_states(worlds: GymWorlds, seed: int) -> np.ndarray:
    """What random actions see in an episode."""
    rng = np.random.default_rng([seed, 6])
    seen = [worlds.begin(rng).observation["state"]]
    for _ in range(worlds.steps):
        action = rng.uniform(-1.0, 1.0, (worlds.n, worlds.actions * worlds.settings.chunk))
        seen.append(worlds.step(action)[0].observation["state"])
    return np.concatenate(seen)


def _looked(actor: Any, worlds: GymWorlds, episodes: int, seed: int) -> dict[str, float]:
    """What the mean action does on fixed episodes."""
    played = play(worlds, lambda: lambda state: actor.act({"state": state.astype(np.float32)}), episodes, seed=seed)
    return {"judged": float(played.success.mean()), "judged_return": float(played.returned.mean())}


def load_policy(folder: str | Path) -> tuple[Callable[[np.ndarray], np.ndarray], str, EnvConfig]:
    """What `train_gym` left: flat observations -> mean actions, the environment, and how it was used.

    Raises:
        ArtifactError: no policy there, or one of another kind.
    """
    from dexprior.artifacts import read_tensors
    from dexprior.policy.gym.offpolicy import SCHEMA as SAC

    path = Path(folder) / "policy.safetensors"
    if not path.exists():
        raise ArtifactError(f"{folder} holds no policy of a Gymnasium environment; train one: train-policy env=ID")
    meta = read_tensors(path)[1]
    if meta.get("header", {}).get("schema") == SAC:
        extra: dict[str, Any] = meta["extra"]
        model = load_off_policy(path, str(extra["env"]))

        def act(state: np.ndarray) -> np.ndarray:
            return model.predict(state.astype(np.float32), deterministic=True)[0]
    else:
        actor, extra = load_state_actor(path)

        def act(state: np.ndarray) -> np.ndarray:
            return actor.act({"state": state.astype(np.float32)})

    return act, str(extra.get("env")), validate(EnvConfig, extra.get("settings", {}), where=f"{path}: settings")


def evaluate_policy(folder: str | Path, settings: EnvConfig | None, episodes: int, *, seed: int = JUDGED) -> Played:
    """Episodes of a policy's mean action, on starts that training never drew.

    Args:
        folder: of its run.
        settings: how the environment is used; as in the training by default.
        episodes: how many.
        seed: of the first start; the others follow.
    """
    act, name, trained = load_policy(folder)
    worlds = GymWorlds(name, min(episodes, _TOGETHER), settings or trained)
    try:
        return play(worlds, lambda: act, episodes, seed=seed)
    finally:
        worlds.close()


_TOGETHER = 25  # episodes that are judged side by side
