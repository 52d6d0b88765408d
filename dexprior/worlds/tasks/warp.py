"""Worlds that MuJoCo Warp steps, on a GPU where there is one, behind `mujoco.batch.Batch`'s methods.

The batch stays, as the host's memory: states and each world's own fields of the model lie in its arrays. A call sends
them to the device, steps there in single precision, and takes back the state and those outputs that somebody reads. So
whatever writes to the arrays of a `View` writes here too, and a snapshot of the batch is the whole state.

A call for some worlds computes all of them and takes back the chosen ones. What the device has too little room for
(contacts, constraint rows) is noticed before anything is taken back; the call is then repeated with twice the room.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dexprior.errors import BadInput
from dexprior.extras import require
from dexprior.worlds.engine import STATE

if TYPE_CHECKING:
    import mujoco

__all__ = ["OUTPUTS", "WARP_TASKS", "WarpBatch"]

WARP_TASKS = ("cube_in_hand", "handover", "insertion", "nut_bolt", "peg", "pick_place", "wipe")
"""Tasks that it steps; all but the insertion are held against `mujoco.batch` in docs/measurements/worlds.md."""
OUTPUTS = (
    "sensordata", "xpos", "xquat", "xmat", "xipos", "ximat", "geom_xpos", "geom_xmat", "site_xpos", "site_xmat",
    "subtree_com", "cvel", "ten_length", "ten_velocity", "actuator_length", "actuator_velocity", "actuator_force",
    "qacc", "qfrc_actuator", "qfrc_constraint",
)  # fmt: skip
"""Fields of MjData that can be read, beside those of the state."""
_STEPPED = ("qpos", "qvel", "act", "qacc_warmstart")
_GIVEN = ("ctrl", "qfrc_applied", "xfrc_applied", "eq_active", "mocap_pos", "mocap_quat")
_CONSTANT = ("dof_M0",)
"""Parameters that MuJoCo Warp has no field for: three times their value moves a step by rounding (1e-13)."""


class WarpBatch:
    """A batch whose worlds MuJoCo Warp steps.

    Args:
        batch: of the worlds; what is not defined here is its own.
        task: name, for messages.

    Raises:
        BadInput: MuJoCo Warp cannot step such a model; the message says what is in the way, and which tasks it steps.
        MissingExtra: mujoco_warp is not installed.
    """

    def __init__(self, batch: mujoco.batch.Batch, task: str) -> None:
        self._batch, self._task = batch, task
        in_the_way = _in_the_way(batch)
        if in_the_way:
            raise self._refusal(in_the_way)
        self._mjw = require("mujoco_warp", purpose=f"task {task!r} with physics='warp'")
        try:
            self._shared = _with_analytic_boxes(batch.model)
            self._model = self._mjw.put_model(self._shared)
        except (NotImplementedError, ValueError) as error:
            raise self._refusal(str(error).rstrip(".")) from None
        sized = {name: batch.bind(name) for name in STATE}
        self._state = {name: rows for name, rows in sized.items() if rows.size}
        batched = (field for field in dataclasses.fields(self._mjw.Model) if _leads(field.type, "*"))
        self._batched = {field.name for field in batched}
        self._rows: dict[str, np.ndarray] = {}
        self._sent: dict[str, np.ndarray] = {}
        self._outputs: dict[str, np.ndarray] = {}
        self._data: Any = None
        """None where model and data are to be made anew."""
        self._graph: Any = None
        self._room: tuple[int, int] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def bind(self, name: str) -> np.ndarray:
        """As the batch's: a live array (n, ...) over the state, or over an output that the next call fills.

        Raises:
            BadInput: not of the state, and not one of `OUTPUTS`.
        """
        import mujoco

        if name in STATE:
            return self._batch.bind(name)
        if name not in OUTPUTS:
            raise self._refusal(f"it hands {name!r} not out, only {', '.join(OUTPUTS)} and the state")
        if name not in self._outputs:
            shape = np.shape(getattr(mujoco.MjData(self._batch.model), name))
            self._outputs[name] = np.zeros((self._batch.nsim, *shape))
        return self._outputs[name]

    def expand(self, name: str) -> np.ndarray:
        """As the batch's: a live array (n, ...) over a field of the model, of each world.

        Raises:
            BadInput: MuJoCo Warp has one value of it for all worlds.
        """
        if name in _CONSTANT or name in self._rows:
            return self._batch.expand(name)
        if name not in self._batched:
            raise self._refusal(f"it has no {name!r} of each world")
        shared = np.ravel(getattr(self._batch.model, name))
        stored = np.ravel(getattr(self._model, name).numpy()[0])
        if stored.shape != shared.shape or not np.allclose(stored, shared, rtol=1e-6):
            raise self._refusal(f"it keeps {name!r} in another form")
        self._rows[name] = self._batch.expand(name)
        self._data = None
        return self._rows[name]

    def reset(self, ids: np.ndarray | None = None, **options: Any) -> None:
        """As the batch's, of the state alone; outputs are those of the next call."""
        self._batch.reset(ids, **options)

    def forward(self, ids: np.ndarray | None = None, **options: Any) -> None:
        """As the batch's: outputs of the present state, all of them."""
        self._call(ids, lambda: self._mjw.forward(self._model, self._data), stepped=())

    def step(self, ids: np.ndarray | None = None, *, nstep: int = 1) -> None:
        """As the batch's: `nstep` simulation steps."""
        self._call(ids, lambda: self._steps(nstep), stepped=_STEPPED)
        chosen = slice(None) if ids is None else ids
        self._state["time"][chosen] += nstep * self._batch.model.opt.timestep  # in double precision

    def _call(self, ids: np.ndarray | None, work: Callable[[], None], stepped: tuple[str, ...]) -> None:
        while True:
            self._send()
            work()
            if not self._full():
                break
            contacts, constraints = self._data.naconmax // self._batch.nsim, self._data.njmax
            self._room, self._data = (2 * contacts, 2 * constraints), None
        taken = self._outputs | {name: rows for name, rows in self._state.items() if name in stepped}
        chosen = slice(None) if ids is None else ids
        for name, rows in taken.items():
            rows[chosen] = getattr(self._data, name).numpy().reshape(rows.shape)[chosen]

    def _send(self) -> None:
        """Models and states, to the device."""
        if self._data is None:
            n, model = self._batch.nsim, self._shared
            contacts, constraints = self._room or (None, None)
            self._model = self._mjw.put_model(model, batch_sizes=dict.fromkeys(self._rows, n))
            self._model.opt.warn_overflow = 0  # `_full` looks itself
            self._data = self._mjw.make_data(model, nworld=n, nconmax=contacts, njmax=constraints)
            self._sent, self._graph = {}, None
        for name, rows in self._rows.items():
            if name not in self._sent or not np.array_equal(self._sent[name], rows):
                _assign(getattr(self._model, name), rows)
                self._sent[name] = rows.copy()
        for name in (*_STEPPED, *_GIVEN):
            if name in self._state:
                _assign(getattr(self._data, name), self._state[name])
        self._data.overflow.zero_()

    def _steps(self, nstep: int) -> None:
        import warp

        if not warp.get_device().is_cuda:
            for _ in range(nstep):
                self._mjw.step(self._model, self._data)
            return
        if self._graph is None:
            self._mjw.step(self._model, self._data)  # compiles its kernels, which cannot happen while it is captured
            with warp.ScopedCapture() as capture:
                self._mjw.step(self._model, self._data)
            self._graph = capture.graph
            self._send()  # from the start again
        for _ in range(nstep):
            warp.capture_launch(self._graph)

    def _full(self) -> bool:
        """Whether the device had too little room in the last call."""
        flag, data = self._mjw.OverflowType, self._data
        found = flag(int(np.bitwise_or.reduce(data.overflow.numpy())))
        more = flag.NEFC | flag.NJMAX_NNZ | flag.BROADPHASE | flag.NARROWPHASE | flag.CCD
        limits = flag.HFIELD | flag.CONTACT_MATCH | flag.NVMAX | flag.EPA_HORIZON | flag.TACTILE
        if found & limits:
            raise self._refusal(f"beyond a limit of its own ({(found & limits)!r})")
        pairs = max(int(data.nacon.numpy()[0]), int(data.ncollision.numpy()[0]))
        return bool(found & more) or pairs > data.naconmax or int(data.nefc.numpy().max()) > data.njmax

    def _refusal(self, reason: str) -> BadInput:
        return BadInput(
            f"task {self._task!r} cannot be stepped by MuJoCo Warp: {reason}. Tasks that can: {', '.join(WARP_TASKS)}; "
            "physics='mujoco' steps every task"
        )


def _in_the_way(batch: Any) -> str:
    """What MuJoCo Warp would leave out of a model, or a worlds' engine; empty if nothing."""
    import mujoco.batch

    if not isinstance(batch, mujoco.batch.Batch):
        return f"part of it is stepped by {type(batch).__name__}"
    model = batch.model
    found = {
        "a flex": model.nflex,
        "delays in MuJoCo's history buffers": model.nhistory,
        "plugins": model.nplugin,
    }
    return " and ".join(name for name, there in found.items() if there)


def _with_analytic_boxes(model: mujoco.MjModel) -> mujoco.MjModel:
    """A copy in which MuJoCo Warp finds contacts of two boxes as MuJoCo does.

    It has MuJoCo's own function for boxes, but takes it only where native convex collision is off, and otherwise keeps
    four contacts of the eight that there may be. The flag changes nothing else in it.
    """
    import mujoco

    found = copy.copy(model)
    found.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_NATIVECCD
    return found


def _leads(spec: Any, axis: str) -> bool:
    """Whether an array's annotation begins with this axis."""
    shape = list(getattr(spec, "shape", ()))
    return shape[:1] == [axis]


def _assign(array: Any, values: np.ndarray) -> None:
    """Write doubles of MuJoCo's layout into an array of scalars, vectors or matrices."""
    array.assign(values.reshape(*array.shape, *getattr(array.dtype, "_shape_", ())))
