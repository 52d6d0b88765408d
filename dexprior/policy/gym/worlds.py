"""Gymnasium environments side by side, as worlds that a policy learns in."""

from __future__ import annotations

from typing import Annotated, Any

import gymnasium
import numpy as np
from jaxtyping import Bool, Float

from dexprior import extras
from dexprior.config import Ge, Gt, config
from dexprior.errors import BadInput, UnknownName
from dexprior.policy.collecting import Seen

__all__ = ["EnvConfig", "GymWorlds", "make"]


@config
class EnvConfig:
    """How an environment is used."""

    horizon: Annotated[int, Ge(1)] | None = None
    """Steps in an episode; None takes the environment's own."""
    success_steps: Annotated[int, Ge(1)] = 1
    """Steps of an episode in which `info["success"]` must hold for it to count as won."""
    reward_scale: Annotated[float, Gt(0)] = 1.0
    """Factor on the rewards that are learned from."""
    chunk: Annotated[int, Ge(1)] = 1
    """Actions that are decided at once, and sent one after the other."""


def make(name: str, horizon: int | None = None) -> gymnasium.Env:
    """An environment with flat observations, and actions in [-1, 1].

    Args:
        name: an id that Gymnasium knows, or MODULE:ID.
        horizon: steps in an episode, in place of its own.

    Raises:
        UnknownName: no such id.
        BadInput: actions that are not numbers between bounds, observations that cannot be made flat, no limit of steps,
            or one whose reward is known to be wrong.
        MissingExtra: an environment of gymnasium-robotics, which is not installed.
    """
    if "AdroitHand" in name or "Fetch" in name or "HandManipulate" in name:
        gymnasium.register_envs(extras.require("gymnasium_robotics", purpose=f"env={name}"))
    try:
        env = gymnasium.make(name, max_episode_steps=horizon, disable_env_checker=True)
    except (gymnasium.error.Error, ModuleNotFoundError, ValueError) as error:
        if isinstance(error, gymnasium.error.UnregisteredEnv | ModuleNotFoundError | ValueError):
            raise UnknownName("environment", name, sorted(gymnasium.registry)) from None
        raise BadInput(f"env={name} cannot be made: {' '.join(str(error).split())}") from None
    inner: Any = env.unwrapped
    if "adroit_hand" in type(inner).__module__ and not getattr(inner, "sparse_reward", True):
        raise BadInput(
            f"env={name}: the dense reward of gymnasium-robotics 1.4.2 has the wrong sign on the distance to the "
            f"object, so that a hand learns to stay away; take {_sparse(name)}"
        )
    if env.spec is None or env.spec.max_episode_steps is None:
        raise BadInput(f"env={name} has no limit of steps; set env.horizon")
    space = env.action_space
    if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1 or not np.isfinite(space.low).all():
        raise BadInput(f"env={name} takes actions of {space}; a policy gives numbers in a row, between bounds")
    if not np.isfinite(space.high).all():
        raise BadInput(f"env={name} takes actions of {space}, without an upper bound")
    if not isinstance(env.observation_space, gymnasium.spaces.Box | gymnasium.spaces.Dict):
        raise BadInput(f"env={name} shows {env.observation_space}; numbers, alone or by name, can be read")
    scaled = gymnasium.wrappers.RescaleAction(env, np.float32(-1.0), np.float32(1.0))
    return gymnasium.wrappers.DtypeObservation(gymnasium.wrappers.FlattenObservation(scaled), np.float32)


def _sparse(name: str) -> str:
    head, dash, version = name.rpartition("-")
    return f"{head.removesuffix('Dense')}Sparse{dash}{version}"


class GymWorlds:
    """n environments of one name, in lockstep; see `dexprior.policy.collecting.Worlds`.

    Args:
        name: of the environment; see `make`.
        n: how many.
        settings: how it is used.
    """

    def __init__(self, name: str, n: int, settings: EnvConfig) -> None:
        self.n, self.settings = n, settings
        self._envs = [make(name, settings.horizon) for _ in range(n)]
        spec = self._envs[0].spec
        assert spec is not None
        assert spec.max_episode_steps is not None
        if settings.chunk > spec.max_episode_steps:
            raise BadInput(
                f"env.chunk = {settings.chunk}: more actions at once than the {spec.max_episode_steps} steps of an "
                f"episode of {name}"
            )
        self.steps = spec.max_episode_steps // settings.chunk
        self.scene = np.zeros(n, dtype=int)
        self.size = int(np.prod(self._envs[0].observation_space.shape or ()))
        """Numbers in an observation."""
        self.actions = int(np.prod(self._envs[0].action_space.shape or ()))
        """Numbers in one action."""
        self._state = np.zeros((n, self.size), dtype=np.float32)
        self._over = np.zeros(n, dtype=bool)
        self.won = np.zeros(n, dtype=int)
        """Steps of each world's episode in which it was a success."""
        self.returned = np.zeros(n)
        """Sum of each world's rewards, unscaled."""
        self._tells = False

    def begin(self, rng: np.random.Generator) -> Seen:
        """See `Worlds`."""
        return self.begin_at(rng.integers(2**31, size=self.n))

    def begin_at(self, seeds: np.ndarray) -> Seen:
        """Start an episode in every world, each from a seed of its own."""
        for k, (env, seed) in enumerate(zip(self._envs, seeds)):
            self._state[k] = env.reset(seed=int(seed))[0]
        self._over[:], self.won[:], self.returned[:], self._tells = False, 0, 0.0, False
        return self._seen()

    def step(
        self, action: Float[np.ndarray, "n action"]
    ) -> tuple[Seen, Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
        """See `Worlds`; an action is a whole chunk, whose rewards are summed."""
        reward, ended = np.zeros(self.n), np.zeros(self.n, dtype=bool)
        each = np.clip(action, -1.0, 1.0).astype(np.float32).reshape(self.n, self.settings.chunk, -1)
        for k, env in enumerate(self._envs):
            for part in each[k]:
                if self._over[k]:
                    break
                state, gain, terminated, truncated, info = env.step(part)
                self._state[k], self._over[k] = state, terminated or truncated
                reward[k] += float(gain)
                self._tells |= "success" in info
                self.won[k] += bool(info.get("success", False))
                ended[k] = terminated
        self.returned += reward
        return self._seen(), reward * self.settings.reward_scale, ended

    @property
    def success(self) -> Float[np.ndarray, " n"]:
        """Whether each episode is won so far; NaN where the environment does not say."""
        won = (self.won >= self.settings.success_steps).astype(np.float64)
        return won if self._tells else np.full(self.n, np.nan)

    def told(self, alive: Bool[np.ndarray, " n"]) -> dict[str, float]:
        """See `Worlds`; with the mean `return` of episodes so far."""
        return {"success": float(self.success.mean()), "return": float(self.returned.mean())}

    def close(self) -> None:
        """See `Worlds`."""
        for env in self._envs:
            env.close()

    def _seen(self) -> Seen:
        if not np.isfinite(self._state).all():
            raise BadInput(f"the observation of {self._envs[0]} holds numbers that are not finite")
        return Seen({"state": self._state.copy()}, np.zeros((self.n, 0), np.float32), np.zeros(self.n, dtype=int))
