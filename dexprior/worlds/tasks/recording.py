"""What sensors would log while worlds step, between control periods too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Float

from dexprior.worlds.tasks.worlds import TaskWorlds

__all__ = ["Recording", "record"]


@dataclass(frozen=True, kw_only=True)
class Recording:
    """n worlds over time, of their first robot; sensors are ideal."""

    t: Float[np.ndarray, " time"]
    """Seconds since reset."""
    command: Float[np.ndarray, "n time joint"]
    """Targets of the arm's joints, before any delay [rad]."""
    q: Float[np.ndarray, "n time joint"]
    """Joints of the arm [rad]."""
    tcp: Float[np.ndarray, "n time 7"]
    """Tool centre point in the world [m, quaternion]."""
    wrench: Float[np.ndarray, "n time 6"]
    """Wrench of the environment on the tool, wrist frame, tared at reset [N, N m]."""
    touch: Float[np.ndarray, "n time fingertip"]
    """Normal force on each fingertip [N]."""
    object: Float[np.ndarray, "n time 7"]
    """Pose of what is manipulated [m, quaternion]."""
    slip: Float[np.ndarray, "n time 1"]
    """Its speed relative to what holds it [m/s]."""


def record(
    worlds: TaskWorlds, act: Callable[[int], Float[np.ndarray, "n action"]], steps: int, *, every: int = 2
) -> Recording:
    """Let worlds act from where they are, and log them every so many simulation steps.

    Args:
        worlds: reset already.
        act: number of the control period -> actions; it may read the worlds.
        steps: control periods.
        every: simulation steps between two samples; a divisor of a control period's.

    Raises:
        BadInput: `every` does not divide a control period.
    """
    rows: dict[str, list[np.ndarray]] = {f.name: [] for f in fields(Recording) if f.name != "t"}

    def look() -> None:
        truth = worlds.truth()
        rig = worlds.view.rigs[0]
        now = {"command": worlds.target.copy(), "object": truth["object"], "slip": truth["slip"][:, None]}
        for name in rows:
            rows[name].append(now[name] if name in now else getattr(rig, name))

    worlds.watch(every, look)
    try:
        for k in range(steps):
            worlds.step(act(k))
    finally:
        worlds.watch(every, None)
    dt = every * worlds.model.opt.timestep
    t = dt * np.arange(1, len(rows["q"]) + 1)
    return Recording(t=t, **{name: np.stack(row, axis=1) for name, row in rows.items()})
