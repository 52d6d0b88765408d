"""MuJoCo worlds as a backend: the world's truth plus each instance's sensor noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float

from dexprior.data.clouds import local_clouds, place
from dexprior.envs.line.base import Reading, Truth
from dexprior.envs.line.panel import Instance
from dexprior.envs.noise import noisy_touch, noisy_wrench, normals
from dexprior.errors import BadInput
from dexprior.families import ParameterFamily
from dexprior.worlds.insertion import InsertionConfig
from dexprior.worlds.stepping import InsertionWorlds, Stepper

__all__ = ["SimBackend"]


class SimBackend:
    """n simulated worlds; see `dexprior.envs.line.base.Backend`.

    Noise is drawn from (instance seed, step), so a world's readings depend neither on its neighbours nor on when a run
    was interrupted.
    """

    def __init__(
        self,
        n: int,
        *,
        family: ParameterFamily,
        world: InsertionConfig | None = None,
        cone: Literal["pyramidal", "elliptic"] = "pyramidal",
        threads: int = 0,
        stepper: Stepper | None = None,
    ) -> None:
        self._world = world or InsertionConfig()
        self.worlds = InsertionWorlds(self._world, n, family=family, cone=cone, threads=threads, stepper=stepper)
        self._nut_cloud, self._bolt_cloud = local_clouds(self._world)
        self._noise = np.zeros((2, n))
        self._seeds = np.zeros(n, dtype=np.int64)
        self._steps = 0
        self._instances: list[Instance] = []

    @property
    def n(self) -> int:
        """Number of worlds."""
        return self.worlds.n

    @property
    def world(self) -> InsertionConfig:
        """Sizes of nut and bolt."""
        return self._world

    def reset(self, instances: Sequence[Instance]) -> Reading:
        """Start one instance in each world.

        Raises:
            BadInput: not exactly one instance a world.
        """
        self._adopt(instances)
        self.worlds.reset(
            np.arange(self.n),
            nut=np.array([i.nut for i in instances]),
            nut_yaw=np.array([[i.nut_yaw] for i in instances]),
            bolt=np.array([i.bolt for i in instances]),
            parameters=[i.parameters for i in instances],
        )
        self._steps = 0
        return self._read()

    def step(self, twist: Float[np.ndarray, "n 6"], opening: Float[np.ndarray, " n"]) -> Reading:
        """Advance all worlds by one control period.

        Raises:
            BadInput: a command that is not finite.
        """
        bad = int((~np.isfinite(twist)).sum() + (~np.isfinite(opening)).sum())
        if bad:
            raise BadInput(f"commands hold {bad} value(s) that are not finite")
        self.worlds.step(twist, opening)
        self._steps += 1
        return self._read()

    def snapshot(self) -> dict[str, np.ndarray]:
        """Everything that `restore` needs, the full MuJoCo state included."""
        return self.worlds.snapshot() | {"steps": np.array(self._steps)}

    def restore(self, snapshot: Mapping[str, np.ndarray], instances: Sequence[Instance]) -> Reading:
        """Go on from a snapshot of the same instances."""
        self._adopt(instances)
        self.worlds.restore(snapshot, [i.parameters for i in instances])
        self._steps = int(snapshot["steps"])
        return self._read()

    def close(self) -> None:
        """Nothing to let go of."""

    def _adopt(self, instances: Sequence[Instance]) -> None:
        if len(instances) != self.n:
            raise BadInput(f"{len(instances)} instances for {self.n} worlds")
        self._instances = list(instances)
        self._noise = np.array(
            [[i.parameters.get(name, 0.0) for i in instances] for name in ("wrench_noise", "cloud_noise")]
        )
        self._seeds = np.array([i.seed for i in instances])

    def _read(self) -> Reading:
        state = self.worlds.state()
        wrench_noise, cloud_noise = self._noise
        points = len(self._nut_cloud) + len(self._bolt_cloud)
        drawn = normals(self._seeds, self._steps, 6 + 2 + points * 3)
        bolt = np.concatenate([state.bolt, np.tile([1.0, 0.0, 0.0, 0.0], (self.n, 1))], axis=1)
        cloud = np.concatenate([place(self._nut_cloud, state.nut), place(self._bolt_cloud, bolt)], axis=1)[..., :3]
        return Reading(
            t=state.t,
            q=state.q,
            qd=state.qd,
            tcp=state.tcp,
            opening=state.opening,
            wrench=noisy_wrench(state.wrench, wrench_noise[:, None], drawn[:, :6]),
            touch=noisy_touch(state.touch, wrench_noise[:, None], drawn[:, 6:8]),
            cloud=cloud + cloud_noise[:, None, None] * drawn[:, 8:].reshape(self.n, points, 3),
            truth=Truth(nut=state.nut, bolt=state.bolt, slip=state.slip, held=state.held),
        )
