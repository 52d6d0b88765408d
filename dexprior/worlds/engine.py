"""What steps many worlds of one model: MuJoCo's batch, or something around it with the same methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    import mujoco

__all__ = ["STATE", "Engine"]

STATE = (
    "time", "qpos", "qvel", "act", "qacc_warmstart", "ctrl", "qfrc_applied", "xfrc_applied", "eq_active", "mocap_pos",
    "mocap_quat", "userdata",
)  # fmt: skip
"""Fields of MjData that can be written to between two calls; others are outputs."""


class Engine(Protocol):
    """n worlds; met by `mujoco.batch.Batch`, and by what is put around it: Warp, a particle cloth, learned impacts."""

    @property
    def model(self) -> mujoco.MjModel:
        """Shared by all worlds, but for the fields that were expanded."""
        ...

    @property
    def nsim(self) -> int:
        """Number of worlds."""
        ...

    @property
    def state(self) -> np.ndarray:
        """The whole state of every world, (n, ...); writing to it takes effect at the next call."""
        ...

    def bind(self, name: str) -> np.ndarray:
        """A live array (n, ...) over a field of MjData: of the state, or an output that each call fills."""
        ...

    def expand(self, name: str) -> np.ndarray:
        """A live array (n, ...) over a field of the model, of each world."""
        ...

    def reset(self, ids: np.ndarray | None = None, **options: Any) -> None:
        """Start some worlds afresh; all by default."""
        ...

    def forward(self, ids: np.ndarray | None = None, **options: Any) -> None:
        """Outputs of the present state; it was set from outside."""
        ...

    def step(self, ids: np.ndarray | None = None, *, nstep: int = 1) -> None:
        """Advance by simulation steps."""
        ...

    def get_model(self, sim: int) -> mujoco.MjModel:
        """A copy of one world's model."""
        ...

    def get_data(self, sim: int) -> mujoco.MjData:
        """A copy of one world's state."""
        ...
