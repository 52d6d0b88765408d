"""Worlds whose robots MuJoCo steps and whose cloth the particle kernel steps, behind `mujoco.batch.Batch`'s methods.

All of a cloth's state lies in MuJoCo's own: positions are those of mocap bodies (which carry the flex that is drawn),
velocities and what the pads feel are user data. So the batch's state is the whole state, and snapshots need nothing
else. The robots move first; the cloth then follows along the way that the pads took, and its pull acts on the grippers
in the next call.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from dexprior.extras import require
from dexprior.worlds.tasks.folding.cloth import Cloth

if TYPE_CHECKING:
    import mujoco

__all__ = ["SETTINGS", "ParticleBatch"]

SETTINGS = ("friction", "young", "density", "damping")
"""What each world's `numeric_data` of the name `cloth` holds: of the fabric [1, Pa, kg/m2, s]."""
_SMALL_STEP = 0.002  # [s]
_ITERATIONS = 2  # of each small step; twice as many, or half the step, move a folded cloth by 1 to 2 mm on average


class ParticleBatch:
    """A batch of worlds with a particle cloth.

    Args:
        batch: of the robots' worlds; what is not defined here is its own.
        cloth: the fabric's geometry.
        prefixes: of the names of each robot with a parallel gripper.
        thickness: of the fabric, for its stiffness [m].
        poisson: ratio of the fabric.
        radius: half its thickness in contact [m].
        board: name of the box that it lies on.
        grain: factors of the bending stiffness of its hinges.

    Raises:
        MissingExtra: numba is not installed.
    """

    def __init__(
        self,
        batch: mujoco.batch.Batch,
        cloth: Cloth,
        prefixes: tuple[str, ...],
        *,
        thickness: float,
        poisson: float,
        radius: float,
        board: str,
        grain: Float[np.ndarray, " hinge"],
    ) -> None:
        require("numba", purpose="the particle cloth")
        from dexprior.worlds.tasks.folding.kernel import advance

        self._advance, self._batch, self._cloth, self._radius = advance, batch, cloth, radius
        self._thickness, self._poisson = thickness, poisson
        m, n, v = batch.model, batch.nsim, len(cloth.vertices)
        pads = [f"{prefix}pad_{side}" for prefix in prefixes for side in ("left", "right")]
        self._boxes = np.array([m.geom(name).id for name in (board, *pads)])
        self._servos = np.array([m.actuator(name).id for name in pads]).reshape(-1, 2)
        self._touch = np.array(
            [m.sensor(f"{prefix}touch_{side}").adr[0] for prefix in prefixes for side in ("left", "right")]
        ).reshape(-1, 2)
        self._hands = np.array([m.body(f"{prefix}pad_left").id for prefix in prefixes])
        self._half = m.geom_size[self._boxes].copy()
        # live arrays of MuJoCo's
        self._positions, user = batch.bind("mocap_pos"), batch.bind("userdata")
        self._velocities, self._pressed = user[:, : 3 * v].reshape(n, v, 3), user[:, 3 * v :]
        self._pull, self._sensed = batch.bind("xfrc_applied"), batch.bind("sensordata")
        self._centres, self._turns = batch.bind("geom_xpos"), batch.bind("geom_xmat")
        self._servo = batch.bind("actuator_force")
        self._settings, self._gravity = batch.expand("numeric_data"), batch.expand("opt.gravity")
        self._friction = batch.expand("geom_friction")
        self._sensors = np.array(self._sensed)
        # of the fabric
        self._edges, self._hinges = cloth.edges, cloth.hinges
        ends = cloth.vertices[self._edges]
        self._length = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1)
        self._coefficients, self._hinge_area = cloth.bends
        self._grain = grain
        touching = np.eye(v, dtype=bool)
        touching[self._edges[:, 0], self._edges[:, 1]] = touching[self._edges[:, 1], self._edges[:, 0]] = True
        self._neighbours = touching
        alone, lengthwise = np.repeat(np.arange(v)[:, None], 2, axis=1), self._edges
        light = 1.0 / cloth.vertex_areas[self._edges]
        # vertices come last, so that what a pad does to them stays
        self._samples = np.concatenate([lengthwise, alone])
        self._shares = np.concatenate([2.0 * light / light.sum(axis=1, keepdims=True), np.tile([1.0, 0.0], (v, 1))])
        self._threads = ThreadPoolExecutor(batch.nthread) if batch.nthread > 1 else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def bind(self, name: str) -> np.ndarray:
        """As the batch's; touch sensors hold what the pads feel of the cloth."""
        return self._sensors if name == "sensordata" else self._batch.bind(name)

    def reset(self, ids: np.ndarray | None = None, **options: Any) -> None:
        """As the batch's."""
        self._batch.reset(ids, **options)
        self._sense()

    def forward(self, ids: np.ndarray | None = None, **options: Any) -> None:
        """As the batch's."""
        self._batch.forward(ids, **options)
        self._sense()

    def step(self, ids: np.ndarray | None = None, *, nstep: int = 1) -> None:
        """Advance robots, and then the cloth between their old and their new pads."""
        import mujoco

        stage = mujoco.mjtStage.mjSTAGE_POS.value
        self._batch.forward(ids, stage=stage)
        old_boxes, old_turns = self._where()
        self._batch.step(ids, nstep=nstep, stage=stage)
        chosen = np.arange(self._batch.nsim) if ids is None else np.asarray(ids)
        self._cloths(chosen, old_boxes, old_turns, nstep * self._batch.model.opt.timestep)
        self._sense()

    def _cloths(self, ids: np.ndarray, old_boxes: np.ndarray, old_turns: np.ndarray, duration: float) -> None:
        n, grippers = self._batch.nsim, len(self._servos)
        friction, young, density, damping = self._settings.T
        new_boxes, new_turns = self._where()
        shear = young / (2.0 * (1.0 + self._poisson))
        bending = shear[:, None] * (self._grain * self._thickness**3 / (8.0 * self._hinge_area))
        diagonal = self._length > 1.2 * self._cloth.spacing
        stretching = young[:, None] * self._thickness * np.where(diagonal, 1.0 / (1.0 + self._poisson), 1.0)
        inverse_mass = 1.0 / (density[:, None] * self._cloth.vertex_areas)
        force = np.maximum(-self._servo[:, self._servos], 0.0).mean(axis=2)
        pulls, counts = np.zeros((n, grippers, 3)), np.zeros((n, grippers), dtype=np.int64)
        substeps = max(round(duration / _SMALL_STEP), 1)

        def run(part: np.ndarray) -> None:
            self._advance(
                part, self._positions, self._velocities, inverse_mass, np.ascontiguousarray(self._gravity),
                self._edges, self._length, 1.0 / stretching, self._hinges, self._coefficients, bending,
                self._cloth.triangles, self._neighbours, self._samples, self._shares, damping, friction,
                np.ascontiguousarray(self._friction[:, self._boxes[1], 0]), old_boxes, old_turns, new_boxes, new_turns,
                self._half, force, pulls, counts, self._radius, duration / substeps, substeps, _ITERATIONS,
            )  # fmt: skip

        if self._threads is None:
            run(ids)
        else:
            list(self._threads.map(run, np.array_split(ids, self._batch.nthread)))
        self._pressed[ids] = np.where(counts[ids] > 0, force[ids], 0.0)
        self._pull[ids[:, None], self._hands, :3] = pulls[ids]

    def _where(self) -> tuple[np.ndarray, np.ndarray]:
        centres = self._centres[:, self._boxes].copy()
        return centres, self._turns[:, self._boxes].reshape(*centres.shape, 3).copy()

    def _sense(self) -> None:
        self._sensors[:] = self._sensed
        self._sensors[:, self._touch] = self._pressed[:, :, None]
