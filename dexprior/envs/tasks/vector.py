"""Gymnasium environments over the task suite: `TaskVectorEnv` for many worlds, `TaskEnv` for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, SupportsFloat, get_args

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from dexprior.config import validate
from dexprior.envs.base import Backend, FirstLook, ObservationSpec, Reading
from dexprior.envs.copies import NotCopied
from dexprior.envs.panel import Panel
from dexprior.envs.sim.backend import SimBackend
from dexprior.envs.single import SingleEnv
from dexprior.envs.tasks.pictures import Pictures
from dexprior.errors import BadInput, UnknownName
from dexprior.families import EventFamily, ParameterFamily, Phenomena, SensorModels
from dexprior.worlds.tasks import ArmAction, Physics, Task, TaskWorlds, make_task
from dexprior.worlds.viewer import Viewer

__all__ = ["Reward", "TaskEnv", "TaskVectorEnv", "make_env", "make_vec_env"]

Reward = Literal["dense", "sparse"]


class TaskVectorEnv(NotCopied, gymnasium.vector.VectorEnv):
    """n worlds of a task, each with an instance of its own; an episode lasts the task's horizon.

    Observations (float32): `proprio` (arm positions, velocities, tool pose as position and two rows of its rotation,
    end effector; robot by robot), `wrench`, `touch`, `cloud` (object points with noise), `first_cloud` (what a
    `FirstLook` has seen of them), `time`; `object`, the true pose, only with `tracker`. `info` holds the `reading`, and
    where something tracks the object the reward `terms`, `success`, `privileged` for a critic, and the `truth`; beside
    clouds without labels `bodies`, which say what each of their points lies on.
    An episode ends early (`terminated`) when the task says that it is lost.

    Args:
        task: what is done.
        num_envs: worlds.
        family: of the parameters; the task's training family by default.
        events: of what may happen while an episode runs, without a panel (which has its own); nothing by default.
        phenomena: of contact, that the engine leaves out, or their plain values (`{"stribeck": {}}`); none by default.
        sensors: models of the robots' sensors and links, or their plain values (`{"encoder": {"bias": 0.01}}`); none by
            default. Seeded by the instance.
        panel: of instances; without one, each reset draws new ones.
        reward: the weighted terms, or the verdict.
        arm_action: twists or joint speeds.
        tracker: whether policies may see the object's pose.
        threads: of MuJoCo's pool; 0 takes all cores. Results do not depend on it.
        physics: `warp` steps rigid tasks on a GPU, in single precision (`dexprior[warp]`).
        autoreset: a world whose episode is over restarts with the next step (Gymnasium's default); otherwise it is
            the caller who resets all, or some (`reset_mask`).
        render_mode: `rgb_array`, which `render` gives in any case.
        backend: of these worlds, in place of simulated ones; family, phenomena, sensors, arm_action, threads and
            physics are then its own.

    Raises:
        BadInput: a panel or a backend of another task.
        UnknownName: another render mode.
    """

    def __init__(
        self,
        task: Task,
        num_envs: int,
        *,
        family: ParameterFamily | None = None,
        events: EventFamily | None = None,
        phenomena: Phenomena | Mapping[str, Any] | None = None,
        sensors: SensorModels | Mapping[str, Any] | None = None,
        panel: Panel | None = None,
        reward: Reward = "dense",
        arm_action: ArmAction = "cartesian",
        tracker: bool = False,
        threads: int = 0,
        physics: Physics = "mujoco",
        autoreset: bool = True,
        render_mode: str | None = None,
        backend: Backend | None = None,
    ) -> None:
        if panel is not None and panel.task != task.name:
            raise BadInput(f"panel {panel.name!r} is of task {panel.task!r}, not {task.name!r}")
        if reward not in get_args(Reward):
            raise UnknownName("reward", reward, get_args(Reward))
        if render_mode not in (None, "rgb_array"):
            raise UnknownName("render mode of many worlds", render_mode, ("rgb_array",))
        self.render_mode = render_mode
        self.task, self.num_envs, self.reward, self.panel = task, num_envs, reward, panel
        self.family = panel.family if panel is not None else (task.family if family is None else family)
        if isinstance(phenomena, Mapping):
            phenomena = validate(Phenomena, dict(phenomena), where="phenomena")
        if isinstance(sensors, Mapping):
            sensors = validate(SensorModels, dict(sensors), where="sensors")
        if backend is not None and (backend.task.name, backend.n) != (task.name, num_envs):
            raise BadInput(
                f"a backend of {backend.n} worlds of {backend.task.name!r}, expected {num_envs} of {task.name!r}"
            )
        self.backend: Backend = backend or SimBackend(
            task, num_envs, family=self.family, phenomena=phenomena, sensors=sensors, arm_action=arm_action,
            threads=threads, physics=physics,
        )  # fmt: skip
        self._pictures: Pictures | None = None
        self.metadata = {
            "autoreset_mode": AutoresetMode.NEXT_STEP if autoreset else AutoresetMode.DISABLED,
            "render_modes": ["rgb_array"],
            "render_fps": round(1.0 / task.control_dt),
        }
        self._horizon = task.steps
        self._steps = np.zeros(num_envs, dtype=int)
        self._over = np.zeros(num_envs, dtype=bool)
        self._seeds = np.zeros(num_envs, dtype=np.int64)
        self._look = FirstLook(labels=self.backend.labels)
        self._next = 0
        self._happens = events
        self._own: dict[int, np.random.Generator] = {}
        self.actions, self.observations = self.backend.actions, ObservationSpec.of(self.backend, tracker=tracker)
        self.single_action_space = gymnasium.spaces.Box(-1.0, 1.0, (self.actions.size,), np.float32)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        shapes = self.observations.shapes
        self.single_observation_space = gymnasium.spaces.Dict(
            {name: gymnasium.spaces.Box(-np.inf, np.inf, shape, np.float32) for name, shape in shapes.items()}
        )
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)

    @property
    def worlds(self) -> TaskWorlds:
        """What is simulated.

        Raises:
            BadInput: the backend simulates nothing here.
        """
        if not isinstance(self.backend, SimBackend):
            raise BadInput(f"{type(self.backend).__name__} has no worlds in this process: it cannot be looked into")
        return self.backend.worlds

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Start an episode in every world, or in some.

        Args:
            seed: of the instances drawn from now on, without a panel; with one it picks instances at random. One number
                is of all worlds together; a list gives each world its own, with which it shows what one world of that
                seed does, and None leaves a world as it is.
            options: `instances`, indices into the panel; by default its first ones, and then the next. `reset_mask`:
                the worlds that start an episode, while the others stay in theirs.

        Raises:
            BadInput: `instances` without a panel, or not one a world; not one seed a world; no mask of the worlds.
        """
        options, n = options or {}, self.num_envs
        ids = self._masked(options["reset_mask"]) if options.get("reset_mask") is not None else np.arange(n)
        super().reset(seed=seed if isinstance(seed, (int, np.integer)) else None)
        seeded = self._seed_worlds(seed, ids)
        chosen = options.get("instances")
        if chosen is not None:
            if self.panel is None or len(chosen) != n:
                raise BadInput(f"options['instances'] = {chosen}: needs a panel and {n} indices")
            panel = self.panel.take(np.asarray(chosen)[ids])
        elif self.panel is not None and seeded:
            panel = self.panel.take(self._picked(len(self.panel), ids))
        else:
            if seeded or (self.panel is not None and len(ids) == n):
                self._next = 0
            panel = self._instances(ids)
        return self._shown(self._begin(ids, panel))

    def _seed_worlds(self, seed: int | list[int | None] | None, ids: np.ndarray) -> bool:
        """Whether seeds were given; those of worlds that start are taken over."""
        if seed is None:
            return False
        if isinstance(seed, (int, np.integer)):
            self._own.clear()
            return True
        if len(seed) != self.num_envs:
            raise BadInput(f"seed = {seed}: {len(seed)} seeds for {self.num_envs} worlds")
        given = {int(k): seed[k] for k in ids if seed[k] is not None}
        self._own |= {k: gymnasium.utils.seeding.np_random(value)[0] for k, value in given.items()}
        return bool(given)

    def _masked(self, mask: Any) -> np.ndarray:
        mask = np.asarray(mask)
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_ or not mask.any():
            raise BadInput(
                f"options['reset_mask'] = {mask}: expected {self.num_envs} times true or false, and one of them true"
            )
        return np.flatnonzero(mask)

    def _picked(self, many: int, worlds: np.ndarray) -> np.ndarray:
        """One of so many instances, at random, for each of some worlds."""
        if not self._own:
            return self.np_random.integers(many, size=len(worlds))
        return np.concatenate([self._generator(k).integers(many, size=1) for k in worlds])

    def _generator(self, world: int) -> np.random.Generator:
        """What draws a world's instances: its own, where it was given a seed, or that of all."""
        return self._own.get(int(world), self.np_random)

    def step(
        self, actions: np.ndarray
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Send one action to each world.

        A world whose episode was over before this call restarts instead: its reward is 0 and its action is not used.
        Where nothing tracks the object, rewards are 0 and no episode is lost.
        """
        restarting = self._over & (self.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP)
        restart = np.flatnonzero(restarting)
        reading = self.backend.step(self.actions.commands(actions))
        self._steps += 1
        if len(restart):
            reading = self._begin(restart, self._instances(restart))
        observation, info = self._shown(reading)
        reward, terminated = np.zeros(self.num_envs), np.zeros(self.num_envs, dtype=bool)
        if reading.truth is not None:
            reward = info["terms"]["total" if self.reward == "dense" else "sparse"].copy()
            terminated = self.task.failure(reading.truth)
        truncated = self._steps >= self._horizon
        if len(restart):
            reward[restart], terminated[restart], truncated[restart] = 0.0, False, False
        self._over = terminated | truncated
        return observation, reward, terminated, truncated & ~terminated, info

    def render(self) -> tuple[np.ndarray, ...]:  # type: ignore[override]
        """One RGB frame (480, 480, 3) of every world, through the front camera."""
        return tuple(self.frame(k) for k in range(self.num_envs))

    def frame(self, world: int, *, camera: str = "front", size: int = 480) -> np.ndarray:
        """One RGB frame of a world.

        Raises:
            NoGraphics: nothing can be rendered here.
        """
        if self._pictures is None:
            self._pictures = Pictures(self.worlds)
        look = int(self._seeds[world])
        return self.task.develop(self._pictures.frame(world, look=look, camera=camera, size=size))

    def close_extras(self, **kwargs: Any) -> None:
        """Give off-screen contexts back, and close the backend."""
        if self._pictures is not None:
            self._pictures.close()
        self.backend.close()

    def _instances(self, worlds: np.ndarray) -> Panel:
        """The next instance of each of some worlds."""
        n = len(worlds)
        if self.panel is not None:
            ids = (self._next + np.arange(n)) % len(self.panel)
            self._next += n
            return self.panel.take(ids)
        if not self._own:
            return self._draw(self.np_random, n)
        return Panel.joined([self._draw(self._generator(k), 1) for k in worlds])

    def _draw(self, rng: np.random.Generator, n: int) -> Panel:
        scenes, parameters = self.task.sample(rng, n), self.family.sample(rng, n)
        seeds = rng.integers(2**31, size=n)
        events = () if self._happens is None else self._happens.sample(rng, n)
        return Panel("drawn", self.task.name, self.family, scenes, parameters, seeds, events)

    def _begin(self, ids: np.ndarray, panel: Panel) -> Reading:
        if self._pictures is not None:
            self._pictures.refresh(ids.tolist())
        self._seeds[ids] = panel.seeds
        self._steps[ids], self._over[ids] = 0, False
        return self.backend.reset(panel, ids)

    def _shown(self, reading: Reading) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        info: dict[str, Any] = {"reading": reading}
        if reading.truth is not None:
            truth, task = reading.truth, self.task
            info |= {
                "terms": task.reward(truth), "success": task.success(truth),
                "privileged": task.privileged(truth).astype(np.float32), "truth": truth,
            }  # fmt: skip
        observation = self.observations.observe(reading, self._look.see(reading))
        if reading.bodies is not None:
            info["bodies"] = {"cloud": reading.bodies, "first_cloud": self._look.bodies}
        return observation, info


class TaskEnv(SingleEnv[TaskVectorEnv]):
    """One world behind the standard interface; see `TaskVectorEnv`.

    Args:
        task: what is done.
        render_mode: `rgb_array` for frames, `human` for MuJoCo's viewer, which follows each step in real time.
        options: of `TaskVectorEnv`.

    Raises:
        UnknownName: another render mode.
    """

    metadata = {"render_modes": ["rgb_array", "human"], "render_fps": 25}  # noqa: RUF012  # Gymnasium's own

    def __init__(self, task: Task, *, render_mode: str | None = None, **options: Any) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise UnknownName("render mode", render_mode, self.metadata["render_modes"])
        self.render_mode, self.task = render_mode, task
        self._viewer: Viewer | None = None
        super().__init__(TaskVectorEnv(task, 1, autoreset=False, **options))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Start an episode; `options["instance"]` picks one of the panel."""
        result = super().reset(seed=seed, options=options)
        self._follow()
        return result

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], SupportsFloat, bool, bool, dict[str, Any]]:
        """Send one action."""
        result = super().step(action)
        self._follow()
        return result

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        """One RGB frame, with `render_mode="rgb_array"`."""
        return self.vector.frame(0) if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Close the worlds, and the viewer where one is open."""
        if self._viewer is not None:
            self._viewer.close()
            self._viewer = None
        super().close()

    def _follow(self) -> None:
        if self.render_mode != "human":
            return
        model, data = self.vector.worlds.data(0)
        if self._viewer is None:
            self._viewer = Viewer(model)
        self._viewer.show(data)


def make_env(task: str = "pick_place", *, settings: dict[str, Any] | None = None, **options: Any) -> TaskEnv:
    """One world of a task by name; what `gymnasium.make` calls.

    Args:
        task: one of `dexprior.worlds.tasks.SUITE`.
        settings: of the task's configuration.
        options: of `TaskEnv`.
    """
    return TaskEnv(make_task(task, **(settings or {})), **options)


def make_vec_env(
    task: str = "pick_place", *, num_envs: int = 1, settings: dict[str, Any] | None = None, **options: Any
) -> TaskVectorEnv:
    """Many worlds of a task by name; what `gymnasium.make_vec` calls."""
    return TaskVectorEnv(make_task(task, **(settings or {})), num_envs, **options)
