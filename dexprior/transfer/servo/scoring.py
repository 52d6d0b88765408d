"""How well a fitted servo predicts logs that it has not seen, beside the published friction model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from dexprior.reading import as_described, read_json_object
from dexprior.transfer.servo.fitting import ServoFit
from dexprior.transfer.servo.logs import ServoLog
from dexprior.transfer.servo.model import ServoBatch, published_friction, simulate

__all__ = ["read_published", "score_servo"]


def score_servo(fit: ServoFit, logs: Sequence[ServoLog], *, published: str | Path | None = None) -> dict[str, Any]:
    """Closed-loop position errors and the band's coverage.

    Args:
        fit: of other logs.
        logs: to predict from their commands and first entries alone.
        published: JSON of a friction model M1 of the BAM project, simulated as published: nominal voltage, one step an
            entry.

    Returns:
        `logs`: a row each with `error`, the mean absolute position error [rad], `coverage` of the band and its mean
        `half_width` [rad]; `error` and `coverage`, their means; and with `published` its errors and the `ratio`.

    Raises:
        BadInput: the published file cannot be read, or is of another model.
    """
    means, halves = fit.predict(logs)
    rows = []
    for log, mean, half in zip(logs, means, halves):
        apart = np.abs(mean - log.position)
        rows.append(
            {
                "log": log.name, "error": float(apart.mean()), "coverage": float((apart <= half).mean()),
                "half_width": float(half.mean()),
            }
        )  # fmt: skip
    result: dict[str, Any] = {name: float(np.mean([row[name] for row in rows])) for name in ("error", "coverage")}
    result |= {"level": fit.level, "logs": rows}
    if published is not None:
        others = _published_errors(Path(published), logs)
        for row, other in zip(rows, others):
            row["published"] = other
        result["published"] = float(np.mean(others))
        result["ratio"] = result["error"] / result["published"]
    return result


def read_published(path: str | Path) -> Float[np.ndarray, " parameter"]:
    """Parameters of a published friction model M1 of the BAM project, from its JSON.

    Raises:
        BadInput: the file cannot be read, or is of another model.
    """
    values = read_json_object(path)
    with as_described("a friction model", path):
        return published_friction(values)


def _published_errors(path: Path, logs: Sequence[ServoLog]) -> list[float]:
    batch = ServoBatch.of(logs, nominal=True)
    runs = simulate(read_published(path)[None], batch, substeps=1)[0]
    return [float(np.abs(runs[k, : len(log)] - log.position).mean()) for k, log in enumerate(logs)]
