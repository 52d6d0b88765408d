"""A task with injectors: the same task in a scene that differs where its switches say.

task = make_task("pick_place", injectors={"light": 0.7, "clutter": 0.5}, injector_seed=3)
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, UInt8

from dexprior.errors import BadInput
from dexprior.families import Injectors
from dexprior.worlds.injectors import Injector, Stage, make_injectors
from dexprior.worlds.tasks.base import Layout, Scenes, Task, Truth

if TYPE_CHECKING:
    import mujoco

    from dexprior.worlds.tasks.view import View

__all__ = ["inject"]


def inject(task: Task, strengths: Mapping[str, float], seed: int = 0) -> Task:
    """The task with injectors; itself where all strengths are 0.

    Two are equal if task, strengths and seed are. Scenes of the task itself are drawn as without injectors.

    Args:
        task: without injectors.
        strengths: by name of `dexprior.families.INJECTORS`, in [0, 1].
        seed: of what they draw.

    Raises:
        UnknownName: no such injector.
        BadInput: a strength outside [0, 1], an injector that this task has no use for, or a task with injectors.
    """
    values = Injectors.of(strengths, seed)
    if not values.strengths:
        return task
    return _injected(type(task))._from(task, values)


class _Injected(Task):
    """Goes before a task's class: each hook asks the task, and then the injectors."""

    injectors: Injectors
    plain: Task
    _kinds: tuple[Injector, ...]
    _drawn: frozenset[str]
    """Names of scenes that the injectors draw."""

    @classmethod
    def _from(cls, task: Task, values: Injectors) -> _Injected:
        new = cls.__new__(cls)
        for name, value in vars(task).items():
            object.__setattr__(new, name, value)
        object.__setattr__(new, "plain", task)
        object.__setattr__(new, "injectors", values)
        kinds = make_injectors(values)
        settings = getattr(task, "config", None)
        for kind in kinds:
            settings = kind.configure(settings)
        object.__setattr__(new, "config", settings)
        object.__setattr__(new, "_kinds", kinds)
        drawn = {name for kind in kinds for name in kind.sample(np.random.default_rng(0), 1)}
        object.__setattr__(new, "_drawn", frozenset(drawn))
        for name in ("family", "reality"):
            family = getattr(task, name)
            for kind in kinds:
                family = kind.parameters(family)
            object.__setattr__(new, name, family)
        return new

    def layout(self) -> Layout:
        layout = super().layout()  # type: ignore[safe-super]
        for kind in self._kinds:
            kind.build(Stage(layout.spec, layout.rigs))
        return layout

    def other(self) -> Task:
        return inject(self.plain.other(), self.injectors.as_dict(), self.injectors.seed)

    def sample(self, rng: np.random.Generator, n: int) -> Scenes:
        scenes = dict(super().sample(rng, n))  # type: ignore[safe-super]
        for kind in self._kinds:
            scenes |= kind.sample(rng, n)
        return scenes

    def place(self, view: View, ids: np.ndarray, scenes: Scenes) -> None:
        super().place(view, ids, scenes)  # type: ignore[safe-super]
        missing = self._drawn - set(scenes)
        if missing:
            raise BadInput(
                f"scenes without {', '.join(sorted(missing))}: a task without these injectors drew them; draw them "
                "with this one, since tasks leave out what they do not know"
            )
        for kind in self._kinds:
            kind.place(view, ids, scenes)

    def cloud(self, view: View, truth: Truth) -> Float[np.ndarray, "n point 3"]:
        points = super().cloud(view, truth)  # type: ignore[safe-super]
        for kind in self._kinds:
            points = kind.cloud(points)
        return points

    def dress(self, model: mujoco.MjModel, look: int) -> None:
        super().dress(model, look)
        for kind in self._kinds:
            kind.dress(model, look)

    def develop(self, image: UInt8[np.ndarray, "height width 3"]) -> UInt8[np.ndarray, "height width 3"]:
        image = super().develop(image)
        for kind in self._kinds:
            image = kind.develop(image)
        return image

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Injected) and (self.plain, self.injectors) == (other.plain, other.injectors)

    def __hash__(self) -> int:
        return hash((type(self), self.injectors))

    def __repr__(self) -> str:
        return f"inject({self.plain!r}, {self.injectors.as_dict()}, seed={self.injectors.seed})"

    def __reduce__(self) -> Any:
        return inject, (self.plain, self.injectors.as_dict(), self.injectors.seed)


@functools.cache
def _injected(kind: type[Task]) -> type[_Injected]:
    if issubclass(kind, _Injected):
        raise BadInput(f"{kind.__name__} has injectors already; name all of them at once")
    return type(f"Injected{kind.__name__}", (_Injected, kind), {})
