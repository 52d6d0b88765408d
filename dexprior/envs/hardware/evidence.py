"""What a gate decided, kept: one entry a decision, in a ring buffer that can be saved and read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from dexprior.artifacts import save, write_json
from dexprior.envs import wire
from dexprior.errors import BadInput
from dexprior.reading import as_described, integer, listed, read_json_object, text
from dexprior.types import Channel, ChannelKind, Trace

__all__ = [
    "Evidence",
    "Rule",
    "Verdict",
    "evidence_from_plain",
    "evidence_to_plain",
    "load_evidence",
    "save_evidence",
    "trace_of",
]

Verdict = Literal["pass", "refuse", "stop"]
Rule = Literal[
    "all", "session", "type", "finite", "saturated", "mode", "sequence", "age", "state_age", "unread", "linear_speed",
    "angular_speed", "opening", "contact_speed", "workspace", "joint_limits", "refusals", "force", "state", "frozen",
    "robot", "connection", "watchdog", "failures", "emergency_stop", "reset",
]  # fmt: skip

_SCHEMA = "dexprior.gate_evidence/1"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One decision: what was judged, by which rule, with which value against which limit."""

    t: float
    """Monotonic seconds of the host."""
    t_device: float | None
    """Time on the device's clock, of the state that was known; None before the first."""
    verdict: Verdict
    rule: Rule
    """The rule that decided; `all` where every rule was kept."""
    value: float | None
    """What was measured or asked for; None where the rule has no number."""
    limit: float | None
    unit: str
    message: str
    seq: int | None = None
    """Number of the command, as its sender counts; None for a decision about a state."""
    command: tuple[float, ...] | None = None
    """The command's numbers as asked for, not finite ones included."""
    gripper: float | None = None
    tcp: tuple[float, ...] | None = None
    """Tool position in the state that was known [m]."""
    wrench: tuple[float, ...] | None = None
    """[N, N m]"""


def trace_of(evidence: Iterable[Evidence], panel_hash: str = "") -> Trace:
    """The evidence as signals: finite commands, tool positions, wrenches, verdicts.

    A verdict is 0 for pass, 1 for refuse and 2 for stop.

    Raises:
        BadInput: nothing was decided yet.
    """
    verdicts = {name: float(k) for k, name in enumerate(get_args(Verdict))}
    rows = list(evidence)
    channels = {
        "verdict": _channel([(e.t, e.t, (verdicts[e.verdict],)) for e in rows], "1", "-", "commanded"),
        "twist": _channel([(e.t, e.t, e.command) for e in rows], "m/s, rad/s", "base", "commanded"),
        "tcp": _channel([(e.t_device, e.t, e.tcp) for e in rows], "m", "base", "measured"),
        "wrench": _channel([(e.t_device, e.t, e.wrench) for e in rows], "N, N m", "sensor", "measured"),
    }
    found = {name: channel for name, channel in channels.items() if channel is not None}
    return Trace(channels=found, panel_hash=panel_hash, info={"source": "safety gate"})


def save_evidence(
    folder: str | Path, evidence: Iterable[Evidence], *, config: Any, latched: Evidence | None, panel_hash: str = ""
) -> Path:
    """Write `evidence.json` (every decision) and `evidence.safetensors` (the `Trace`) into a folder."""
    folder, rows = Path(folder), list(evidence)
    write_json(folder / "evidence.json", {
        "schema": _SCHEMA,
        "config": config,
        "latched": None if latched is None else evidence_to_plain(latched),
        "evidence": [evidence_to_plain(e) for e in rows],
    })  # fmt: skip
    if rows:
        trace = trace_of(rows, panel_hash)
        save(trace, folder / "evidence.safetensors", producer="safety gate", config=config)
    return folder


def load_evidence(folder: str | Path) -> tuple[Evidence, ...]:
    """The decisions that `save_evidence` wrote.

    Raises:
        BadInput: no such file, or another kind of file.
    """
    path = Path(folder) / "evidence.json"
    data = read_json_object(path)
    try:
        if data["schema"] != _SCHEMA:
            raise BadInput(f"{path} holds {str(data['schema'])[:80]!r}, expected {_SCHEMA!r}")
        return tuple(evidence_from_plain(entry) for entry in data["evidence"])
    except (KeyError, TypeError) as error:
        raise BadInput(f"{path} holds no gate evidence: {error!r:.200}") from None


_NUMBERS = ("t", "t_device", "value", "limit", "gripper")
_ROWS = ("command", "tcp", "wrench")


def evidence_to_plain(entry: Evidence) -> dict[str, Any]:
    """Strict JSON data: numbers that are not finite become text, as on the wire."""
    plain = asdict(entry)
    for name in _NUMBERS:
        plain[name] = None if plain[name] is None else wire.number_to_plain(plain[name])
    for name in _ROWS:
        plain[name] = None if plain[name] is None else [wire.number_to_plain(v) for v in plain[name]]
    return plain


def evidence_from_plain(plain: Mapping[str, Any]) -> Evidence:
    """Inverse of `evidence_to_plain`.

    Raises:
        BadInput: a field is missing, unknown, or of the wrong kind.
    """
    with as_described("gate evidence", "an entry"):
        kinds = {
            "t": wire.number_from_plain(plain["t"]),
            "verdict": text(plain["verdict"], "verdict", choices=get_args(Verdict)),
            "rule": text(plain["rule"], "rule", choices=get_args(Rule)),
            "unit": text(plain["unit"], "unit"),
            "message": text(plain["message"], "message"),
            "seq": None if plain["seq"] is None else integer(plain["seq"], "seq", low=-(2**63), high=2**63 - 1),
        }
        for name in _NUMBERS[1:]:
            kinds[name] = None if plain[name] is None else wire.number_from_plain(plain[name])
        for name in _ROWS:
            row = None if plain[name] is None else listed(plain[name], name, empty=True)
            kinds[name] = None if row is None else tuple(map(wire.number_from_plain, row))
        return Evidence(**(dict(plain) | kinds))


def _channel(
    rows: list[tuple[float | None, float, tuple[float, ...] | None]], unit: str, frame: str, kind: ChannelKind
) -> Channel | None:
    """The rows (t, t_host, value) that a channel can hold: finite, of one width, at increasing times."""
    kept: list[tuple[float, float, tuple[float, ...]]] = []
    for t, t_host, value in rows:
        if t is None or value is None or not np.isfinite(value).all():
            continue
        if not kept or (t > kept[-1][0] and len(value) == len(kept[0][2])):
            kept.append((t, t_host, value))
    if not kept:
        return None
    t_device, t_seen, values = (np.array(column) for column in zip(*kept))
    return Channel(t=t_device, t_host=t_seen, value=values, unit=unit, frame=frame, kind=kind)
