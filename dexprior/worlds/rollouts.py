"""One commanded motion of a MuJoCo model under many parameter sets of a family at once, without a loop over them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput, UnknownName
from dexprior.families import ACTUATOR_DELAY, ParameterFamily

if TYPE_CHECKING:
    import mujoco

__all__ = ["ModelRollouts"]

_PROBES = (0.21, 0.47, 0.83)  # shares of a support at which its effect is looked at
_SAME = 1e-9  # relative


class ModelRollouts:
    """Sensor readings of a model that follows a command, as a function of a family's values.

    A value's effect on the model is found by trying: what `ParameterFamily.apply` changes in proportion is written to
    all worlds as arrays, and what MuJoCo derives from it is derived anew. `world/-/actuator_delay` delays the command,
    interpolated between its steps; a family's other `world/` values are not known here.

    Args:
        model: is not changed.
        family: whose values come.
        controls: of every actuator at every step of the model's timestep.
        sensors: names; their readings are what is returned, at the end of every `every`-th step.
        every: steps from one reading to the next.
        worlds: simulated at once; more come in blocks.
        threads: of MuJoCo's pool; results do not depend on it.
        qpos, qvel: where the motion starts; the model's default, at rest, if None.

    Raises:
        BadInput: controls of another shape, a `world/` value that is not known here, or parameters whose effect on the
            model is not one of proportion.
        UnknownName: no such sensor.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        family: ParameterFamily,
        controls: Float[np.ndarray, "step actuator"],
        *,
        sensors: Sequence[str],
        every: int = 1,
        worlds: int = 256,
        threads: int = 1,
        qpos: Float[np.ndarray, " position"] | None = None,
        qvel: Float[np.ndarray, " dof"] | None = None,
    ) -> None:
        import mujoco.batch

        controls = np.asarray(controls, dtype=np.float64)
        if controls.ndim != 2 or controls.shape[1] != model.nu or not 1 <= every <= len(controls):
            raise BadInput(
                f"rollouts: controls of shape {controls.shape}, read every {every} steps: expected (step, {model.nu}) "
                "and a reading within them"
            )
        known = [model.sensor(i).name for i in range(model.nsensor)]
        for name in sensors:
            if name not in known:
                raise UnknownName("sensor", name, known)
        for p in family.parameters:
            if p.target.startswith("world/") and p.target != f"world/-/{ACTUATOR_DELAY}":
                raise BadInput(
                    f"rollouts: {p.name!r} goes to {p.target!r}; of the world's values only a delay is known"
                )
        self.family, self.n = family, worlds
        self._model, self._controls, self._every = model, controls, every
        self._delay = [k for k, p in enumerate(family.parameters) if p.target.startswith("world/")]
        addresses = [model.sensor(name) for name in sensors]
        self._read = np.concatenate([s.adr[0] + np.arange(s.dim[0]) for s in addresses])
        self._batch = mujoco.batch.Batch(model, worlds, threads)
        self._start = (model.qpos0.copy() if qpos is None else qpos, np.zeros(model.nv) if qvel is None else qvel)
        self._effects: list[tuple[str, np.ndarray, int, np.ndarray, np.ndarray]] = []
        self._derives = any(p.target.startswith("body/") for p in family.parameters)
        self._probe()

    def __call__(self, values: Float[np.ndarray, "n parameter"]) -> Float[np.ndarray, "n reading"]:
        """Readings in the order of sensors, then time; NaN from where a world diverges and MuJoCo stops it."""
        values = np.asarray(values, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != len(self.family.parameters):
            raise BadInput(f"rollouts: values of shape {values.shape}, expected (n, {len(self.family.parameters)})")
        blocks = [self._block(values[k : k + self.n]) for k in range(0, len(values), self.n)]
        return (
            np.concatenate(blocks) if blocks else np.empty((0, len(self._read) * (len(self._controls) // self._every)))
        )

    def _block(self, values: Float[np.ndarray, "n parameter"]) -> Float[np.ndarray, "n reading"]:
        import mujoco

        ids = np.arange(len(values))
        self._write(values)
        self._batch.reset(ids, stage=mujoco.mjtStage.mjSTAGE_NONE.value)
        self._batch.bind("qpos")[ids], self._batch.bind("qvel")[ids] = self._start
        out = self._batch.rollout(
            len(self._controls),
            control=self._delayed(values),
            control_spec=mujoco.mjtState.mjSTATE_CTRL,
            record=["sensordata", mujoco.mjtState.mjSTATE_TIME],
            ids=ids,
        )
        stopped = np.diff(out[mujoco.mjtState.mjSTATE_TIME].reshape(len(values), -1), axis=1, prepend=-1.0) <= 0.0
        readings = np.where(stopped[..., None], np.nan, out["sensordata"][..., self._read])
        readings = readings[:, self._every - 1 :: self._every]
        return readings.transpose(0, 2, 1).reshape(len(values), -1)

    def _delayed(self, values: np.ndarray) -> Float[np.ndarray, "n step actuator"]:
        """The command as servos see it; before its first step it was what it is then."""
        steps = len(self._controls)
        delay = values[:, self._delay].sum(axis=1) / self._model.opt.timestep
        at = np.clip(np.arange(steps) - delay[:, None], 0.0, steps - 1.0)
        before = at.astype(int)
        part = (at - before)[..., None]
        after = np.minimum(before + 1, steps - 1)
        return (1.0 - part) * self._controls[before] + part * self._controls[after]

    def _write(self, values: np.ndarray) -> None:
        for name, places, k, offset, slope in self._effects:
            field = self._batch.expand(name).reshape(self.n, -1)
            field[: len(values), places] = offset + slope * values[:, k, None]
        if self._derives:
            self._batch.set_const()

    def _probe(self) -> None:
        import mujoco.batch

        names = [name for name in mujoco.batch.MODEL_FIELDS if _numeric(self._model, name)]
        before = {name: np.array(_get(self._model, name), dtype=np.float64).ravel() for name in names}
        for k, p in enumerate(self.family.parameters):
            if k in self._delay:
                continue
            at = p.at_share(np.array([0.5] if p.fixed else _PROBES))
            found = [self._applied({p.name: float(x)}, names) for x in at]
            for name in names:
                rows = np.stack([row[name] for row in found])
                places = np.flatnonzero((rows != before[name]).any(axis=0))
                if not len(places):
                    continue
                slope = np.zeros(len(places)) if p.fixed else (rows[-1] - rows[0])[places] / (at[-1] - at[0])
                self._effects.append((name, places, k, rows[0][places] - slope * at[0], slope))
        self._check(names)

    def _check(self, names: list[str]) -> None:
        """Whether the arrays say what applying a whole set of values does."""
        values = self.family.sample(np.random.default_rng(0), 1)
        self._write(values)
        want = self._applied(
            {n: v for k, (n, v) in enumerate(self.family.as_dict(values[0]).items()) if k not in self._delay}, names
        )
        model = self._batch.get_model(0)
        for name in names:
            got = np.array(_get(model, name), dtype=np.float64).ravel()
            if not np.allclose(got, want[name], rtol=_SAME, atol=1e-300, equal_nan=True):
                raise BadInput(
                    f"rollouts: what family {self.family.name!r} does to {name!r} is not in proportion to its values; "
                    "two of its parameters may write to the same place"
                )

    def _applied(self, values: dict[str, float], names: list[str]) -> dict[str, np.ndarray]:
        scratch = copy.copy(self._model)
        self.family.apply(scratch, values)
        return {name: np.array(_get(scratch, name), dtype=np.float64).ravel() for name in names}


def _get(model: mujoco.MjModel, name: str) -> Any:
    return getattr(model.opt, name[4:]) if name.startswith("opt.") else getattr(model, name, None)


def _numeric(model: mujoco.MjModel, name: str) -> bool:
    value = _get(model, name)
    return isinstance(value, int | float) or (isinstance(value, np.ndarray) and value.dtype.kind in "fiub")
