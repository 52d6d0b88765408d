"""One line that puts a collision model into a MuJoCo environment that exists already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

import gymnasium
import mujoco
import numpy as np
from jaxtyping import Float

from dexprior.collision.hybrid import HybridConfig, HybridStep, HybridStepper, Side, warn_untouched
from dexprior.envs.hybrid.backend import HybridBackend
from dexprior.envs.sim import SimBackend
from dexprior.envs.tasks import TaskEnv, TaskVectorEnv
from dexprior.errors import BadInput
from dexprior.types import CollisionModel

__all__ = ["hybridize"]


@overload
def hybridize(
    world: tuple[mujoco.MjModel, mujoco.MjData],
    pairs: Sequence[tuple[Side, Side]],
    collision_model: CollisionModel,
    phi: Float[np.ndarray, "*pair parameter"],
    config: HybridConfig | None = None,
    *,
    sample: bool = False,
    seed: int = 0,
) -> HybridStepper: ...


@overload
def hybridize(
    world: SimBackend,
    pairs: Sequence[tuple[Side, Side]],
    collision_model: CollisionModel,
    phi: Float[np.ndarray, "*pair parameter"],
    config: HybridConfig | None = None,
    *,
    sample: bool = False,
    seed: int = 0,
) -> HybridBackend: ...


@overload
def hybridize(
    world: Any,
    pairs: Sequence[tuple[Side, Side]],
    collision_model: CollisionModel,
    phi: Float[np.ndarray, "*pair parameter"],
    config: HybridConfig | None = None,
    *,
    sample: bool = False,
    seed: int = 0,
) -> Any: ...


def hybridize(
    world: Any,
    pairs: Sequence[tuple[Side, Side]],
    collision_model: CollisionModel,
    phi: Float[np.ndarray, "*pair parameter"],
    config: HybridConfig | None = None,
    *,
    sample: bool = False,
    seed: int = 0,
) -> Any:
    """Let a collision model answer the impacts of a world.

        env = hybridize(gymnasium.make("Pusher-v5"), [("r_wrist_roll_link", "object")], surrogate, phi)

    Args:
        world: one of
            - (model, data) of MuJoCo: returns its `HybridStepper`;
            - a Gymnasium environment on MuJoCo, wrapped or not (`MujocoEnv`, or a robot environment of
              gymnasium-robotics): its stepping is replaced, it is returned itself, and `env.unwrapped.hybrid` is the
              `HybridStep` with the counts; its sensors show an impact for one of its steps (`env.dt`), as a mean; its
              `close` warns of pairs that never touched (`hybrid.touched`);
            - a `SimBackend`: returns a `HybridBackend` of the same task, worlds and family;
            - `TaskEnv` or `TaskVectorEnv` on such a backend: its backend is replaced, and it is returned itself; reset
              it then.
        pairs, collision_model, phi, config, sample, seed: as for `HybridStepper`.

    Raises:
        BadInput: another kind of world, or one that is switched already.
        UnknownName: a geom or body that the world does not have.
    """
    if isinstance(world, tuple) and len(world) == 2 and isinstance(world[0], mujoco.MjModel):
        return HybridStepper(*world, pairs, collision_model, phi, config, sample=sample, seed=seed)
    if isinstance(world, HybridBackend):
        raise BadInput("hybridize: this backend is hybrid already")
    if isinstance(world, SimBackend):
        return HybridBackend(
            world.task, world.n, collision_model, phi, pairs=pairs, config=config, sample=sample, seed=seed,
            **world.options,
        )  # fmt: skip
    base = world.unwrapped if isinstance(world, gymnasium.Env | gymnasium.vector.VectorEnv) else world
    if isinstance(base, TaskEnv | TaskVectorEnv):
        vector = base.vector if isinstance(base, TaskEnv) else base
        vector.backend = hybridize(vector.backend, pairs, collision_model, phi, config, sample=sample, seed=seed)
        return world
    config, period = config or HybridConfig(), getattr(base, "dt", None)
    if isinstance(period, float):
        config = config.read_every(period)
    hybrid = HybridStep(pairs, collision_model, phi, config, sample=sample, seed=seed)
    _replace_stepping(base, hybrid)
    return world


def _replace_stepping(env: Any, hybrid: HybridStep) -> None:
    """Put `hybrid` where the environment calls `mj_step`; the rest of its method is what Gymnasium does there."""
    if isinstance(getattr(env, "hybrid", None), HybridStep):
        raise BadInput(f"hybridize: {type(env).__name__} is hybrid already")
    if not (isinstance(getattr(env, "model", None), mujoco.MjModel) and hasattr(env, "data")):
        raise BadInput(
            f"hybridize: {type(env).__name__} is not a MuJoCo world: give (MjModel, MjData), a Gymnasium environment "
            "with .model and .data, a SimBackend or a TaskEnv"
        )
    hybrid.bind(env.model, env.data)  # so that a wrong pair or phi is found now

    def step_under_control(ctrl: np.ndarray, n_frames: int) -> None:
        env.data.ctrl[:] = ctrl
        hybrid(env.model, env.data, nstep=n_frames)
        mujoco.mj_rnePostConstraint(env.model, env.data)  # as Gymnasium: forces on bodies are read afterwards

    def step_robot(action: np.ndarray) -> None:
        hybrid(env.model, env.data, nstep=env.n_substeps)

    places: dict[str, Callable[..., None]] = {
        "_step_mujoco_simulation": step_under_control,
        "_mujoco_step": step_robot,
        "do_simulation": step_under_control,
    }
    found = [name for name in places if callable(getattr(env, name, None))]
    if not found:
        raise BadInput(
            f"hybridize: {type(env).__name__} has none of the methods in which MuJoCo environments step "
            f"({', '.join(places)}); step it with HybridStep in place of mujoco.mj_step"
        )
    setattr(env, found[0], places[found[0]])
    env.hybrid = hybrid
    if callable(close := getattr(env, "close", None)):

        def closed(*args: Any, **kwargs: Any) -> Any:
            if env.data.time > 0 or hybrid.touched:
                warn_untouched(hybrid.pairs, hybrid.touched)
            return close(*args, **kwargs)

        env.close = closed
