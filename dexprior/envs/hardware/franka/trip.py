"""What the last seconds of a Franka's loop looked like: a table and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dexprior.envs.hardware.franka.link import STATE, STATUS, read_trip

__all__ = ["draw_trip"]

_SHOWN = 1.0  # [s] before the end


def draw_trip(link: str | Path, folder: Path) -> dict[str, Any]:
    """Write `trip.csv`, all rows of a record, and `trip.png`, its last second.

    Args:
        link: file of the record.
        folder: gets both; made where it is not there.

    Returns:
        `why` it stopped (empty where nothing did), `status` at the end, `seconds` in the record, `speed_m_s` and
        `force_N` at the end, `largest_force_N`, and both files.

    Raises:
        ArtifactError: no such record, or an empty one.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows, why = read_trip(link)
    folder.mkdir(parents=True, exist_ok=True)
    names = [
        name if where.stop - where.start == 1 else f"{name}.{k}"
        for name, where in STATE.slices.items()
        for k in range(where.stop - where.start)
    ]
    columns = [np.reshape(rows[name], (len(rows["t"]), -1)) for name in STATE.slices]
    table, picture = folder / "trip.csv", folder / "trip.png"
    np.savetxt(table, np.concatenate(columns, axis=1), delimiter=",", header=",".join(names), comments="", fmt="%.9g")
    t = rows["t"] - rows["t"][-1]
    last = t >= -_SHOWN
    speed, asked = (np.linalg.norm(rows[name][:, :3], axis=1) for name in ("sent", "asked"))
    force = np.linalg.norm(rows["wrench"][:, :3], axis=1)
    figure, axes = pyplot.subplots(3, 1, sharex=True, figsize=(8, 7), layout="constrained")
    axes[0].plot(t[last], asked[last], label="asked for", color="0.6")
    axes[0].plot(t[last], speed[last], label="sent")
    axes[0].set_ylabel("speed [m/s]")
    axes[0].legend(loc="upper left")
    axes[1].plot(t[last], force[last], color="tab:red")
    axes[1].set_ylabel("force on the tool [N]")
    axes[2].plot(t[last], rows["qd"][last])
    axes[2].set_ylabel("joints [rad/s]")
    axes[2].set_xlabel("time before the end of the record [s]")
    figure.suptitle(why or "nothing stopped it")
    figure.savefig(picture, dpi=120)
    pyplot.close(figure)
    return {
        "why": why, "status": STATUS[int(rows["status"][-1])], "seconds": round(float(-t[0]), 3),
        "speed_m_s": round(float(speed[-1]), 4), "force_N": round(float(force[-1]), 2),
        "largest_force_N": round(float(force.max()), 2), "table": str(table), "picture": str(picture),
    }  # fmt: skip
