"""How each gap is measured and closed: what is recorded, how much, under which conditions, and when it is done.

A protocol is data. Its collection (`amount`) is made once and costs setup and collection hours; what it is worth is
then measured in pairs of runs of one instance, one by the policy without it, one by the policy trained with it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from dexprior.errors import BadInput, UnknownName
from dexprior.families import GAPS, Gap
from dexprior.reading import as_described, read_yaml

__all__ = ["PROTOCOLS", "Protocol", "Recorded", "read_protocols"]


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A channel that is recorded."""

    name: str
    unit: str
    """SI unit; `1` for pure numbers, `px` for pictures."""
    rate: float
    """Smallest rate [Hz]."""


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """What a data team does for one gap."""

    name: str
    gap: Gap
    what: str
    """One sentence: what is collected."""
    records: tuple[Recorded, ...]
    amount: str
    """How much is collected before the pairs are run."""
    setup_hours: float
    """Hours of a robot that is being fitted, calibrated or moved [h]."""
    collection_hours: float
    """Hours of the collection [h]."""
    pair_hours: float
    """Hours of one pair of runs, or of three where there is a comparison, resets included [h]."""
    pairing: float
    """Correlation of the outcomes of a pair that is planned with."""
    conditions: dict[str, tuple[str, ...]]
    """What varies from pair to pair; every combination is run about equally often."""
    minimum_pairs: int = 20
    """Fewer pairs are not planned."""
    required_with_force: bool = False
    """Whether a task that regulates force may not go without it."""
    requires: tuple[str, ...] = ()
    """What must be true before the first recording."""
    comparison: str = ""
    """What the policy of a third run of each instance is trained on instead, where there is one."""
    done: str
    """What counts as done."""

    def __post_init__(self) -> None:
        if self.gap not in GAPS:
            raise UnknownName("gap", self.gap, GAPS)
        for name in ("setup_hours", "collection_hours", "pair_hours", "pairing"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not 0.0 <= value < float("inf"):
                raise BadInput(f"protocol {self.name!r}: {name} = {value!r}: a finite number, at least 0")
        if self.pair_hours <= 0 or self.pairing >= 1:
            raise BadInput(f"protocol {self.name!r}: pair_hours must exceed 0, pairing lie below 1")
        if not isinstance(self.minimum_pairs, int) or self.minimum_pairs < 1:
            raise BadInput(f"protocol {self.name!r}: minimum_pairs = {self.minimum_pairs!r}: at least 1")
        empty = [name for name, values in self.conditions.items() if not values]
        if empty:
            raise BadInput(f"protocol {self.name!r}: condition {empty[0]!r} has no values")

    @property
    def opening_hours(self) -> float:
        """Before the first pair [h]."""
        return self.setup_hours + self.collection_hours


def _motion(*more: Recorded) -> tuple[Recorded, ...]:
    return (
        Recorded(name="joint_command", unit="rad", rate=100.0),
        Recorded(name="joint_position", unit="rad", rate=100.0),
        Recorded(name="joint_velocity", unit="rad/s", rate=100.0),
        *more,
    )


PROTOCOLS: dict[str, Protocol] = {
    p.name: p
    for p in (
        Protocol(
            name="contact_force",
            gap="contact",
            what="Demonstrations with the force at the wrist or the touch at the fingertips recorded.",
            records=_motion(
                Recorded(name="wrench", unit="N, N m", rate=500.0),
                Recorded(name="touch", unit="N", rate=100.0),
                Recorded(name="camera", unit="px", rate=30.0),
            ),
            amount="150 demonstrations, at least half with sliding contact",
            setup_hours=4.0,
            collection_hours=8.0,
            pair_hours=0.1,
            pairing=0.3,
            conditions={"approach": ("slow", "fast"), "surface": ("dry", "wiped", "worn")},
            required_with_force=True,
            done="every demonstration has a wrench whose offset was taken before contact and clocks within 5 ms",
        ),
        Protocol(
            name="egocentric_video",
            gap="visual",
            what="Footage by the cameras of the deployment, where they will sit, with their calibration.",
            records=_motion(
                Recorded(name="head_camera", unit="px", rate=30.0),
                Recorded(name="wrist_camera", unit="px", rate=30.0),
                Recorded(name="camera_pose", unit="m, 1", rate=30.0),
            ),
            amount="10 h of footage; intrinsics and extrinsics before and after each day",
            setup_hours=3.0,
            collection_hours=10.0,
            pair_hours=0.08,
            pairing=0.3,
            conditions={"light": ("day", "lamp", "dim"), "background": ("plain", "busy")},
            done="reprojection error below 1 px before and after, and no day without its calibration",
        ),
        Protocol(
            name="scripted_motion",
            gap="sensor",
            what="Scripted motion of every joint without an object, so that sensors and servos can be fitted.",
            records=_motion(
                Recorded(name="motor_current", unit="A", rate=100.0),
                Recorded(name="wrench", unit="N, N m", rate=500.0),
                Recorded(name="temperature", unit="K", rate=1.0),
            ),
            amount="50 to 100 h; planned with 50",
            setup_hours=1.0,
            collection_hours=50.0,
            pair_hours=0.08,
            pairing=0.4,
            conditions={"speed": ("slow", "fast"), "load": ("none", "half", "full")},
            done="each joint crosses its range in both directions at every speed and load, 20 repeats each",
        ),
        Protocol(
            name="actual_objects",
            gap="object",
            what="The objects of the deployment themselves: measured, scanned and handled.",
            records=_motion(
                Recorded(name="wrench", unit="N, N m", rate=500.0),
                Recorded(name="object_pose", unit="m, 1", rate=60.0),
                Recorded(name="mass", unit="kg", rate=0.0),
            ),
            amount="5 of each kind of object, 20 demonstrations of each",
            setup_hours=3.0,
            collection_hours=5.0,
            pair_hours=0.1,
            pairing=0.3,
            conditions={"specimen": ("1", "2", "3", "4", "5"), "pose": ("upright", "lying")},
            done="mass to 1 %, a mesh to 1 mm, and friction on the deployment's surface of every specimen",
        ),
        Protocol(
            name="on_site",
            gap="environment",
            what="Demonstrations where the robot will work, with light, surface and clutter varied.",
            records=_motion(
                Recorded(name="camera", unit="px", rate=30.0),
                Recorded(name="depth", unit="m", rate=30.0),
                Recorded(name="wrench", unit="N, N m", rate=500.0),
            ),
            amount="200 demonstrations",
            setup_hours=6.0,
            collection_hours=10.0,
            pair_hours=0.15,
            pairing=0.3,
            conditions={
                "light": ("day", "lamp", "dim"),
                "surface": ("wood", "steel", "cloth"),
                "clutter": ("none", "some", "much"),
            },
            comparison="the same policy trained on 10,000 more simulated episodes instead of the demonstrations",
            done="200 demonstrations in which every combination of light, surface and clutter occurs at least 7 times",
        ),
        Protocol(
            name="people",
            gap="human",
            what="People who hand over and take, diverse in age, body and style of movement.",
            records=_motion(
                Recorded(name="body_pose", unit="m, 1", rate=60.0),
                Recorded(name="camera", unit="px", rate=30.0),
                Recorded(name="wrench", unit="N, N m", rate=500.0),
            ),
            amount="24 participants, 1 h each: three age groups, three statures, both hands",
            setup_hours=8.0,
            collection_hours=24.0,
            pair_hours=0.12,
            pairing=0.2,
            conditions={
                "age": ("18-39", "40-64", "65+"),
                "stature": ("below 1.60 m", "1.60 to 1.80 m", "above 1.80 m"),
                "style": ("steady", "hesitant", "hurried"),
            },
            requires=(
                "informed consent in writing, which can be withdrawn, and whose withdrawal deletes the recordings",
                "data protection: a legal basis, a named controller, pseudonyms instead of names, faces blurred or "
                "kept encrypted, and a date of deletion",
                "approval by the ethics board that is in charge, and a risk assessment of the robot near people",
            ),
            done="no cell of age, stature and style without a participant, and a consent form for each of them",
        ),
    )
}
"""Protocols by name; one a gap."""


def read_protocols(path: str | Path | None) -> dict[str, Protocol]:
    """The table, with values that a YAML file overrides: `NAME: {field: value}`.

    Raises:
        UnknownName: a protocol or a field that there is not.
        BadInput: no such file, no YAML, or a value that cannot be.
    """
    if path is None:
        return dict(PROTOCOLS)
    given = read_yaml(path)
    if not isinstance(given, dict):
        raise BadInput(f"{path}: expected a mapping from protocols to fields")
    table = dict(PROTOCOLS)
    for name, values in given.items():
        if name not in table:
            raise UnknownName(f"protocol in {path}", name, table)
        if not isinstance(values, dict):
            raise BadInput(f"{path}: protocol {name!r} = {values!r}: expected a mapping from fields to values")
        known = [f.name for f in fields(Protocol) if f.name not in ("name", "gap")]
        for key in values:
            if key not in known:
                raise UnknownName(f"field of protocol {name!r} in {path}", key, known)
        with as_described("a table of protocols", path):
            table[name] = replace(table[name], **{k: _typed(name, k, v) for k, v in values.items()})
    return table


def _typed(protocol: str, key: str, value: Any) -> Any:
    kinds = {f.name: f.type for f in fields(Protocol)}
    if key == "records":
        try:
            return tuple(Recorded(**row) for row in value)
        except TypeError as error:
            raise BadInput(f"protocol {protocol!r}: records: {error}; each is name, unit, rate") from None
    if key == "conditions":
        if not isinstance(value, dict) or not all(isinstance(v, list) for v in value.values()):
            raise BadInput(f"protocol {protocol!r}: conditions = {value!r}: expected lists of values by name")
        return {str(k): tuple(str(x) for x in v) for k, v in value.items()}
    if key == "requires":
        return tuple(str(x) for x in value)
    right = {"str": str, "int": int, "bool": bool, "float": (int, float)}[str(kinds[key])]
    if not isinstance(value, right) or (isinstance(value, bool) and right is not bool):  # type: ignore[arg-type]
        raise BadInput(f"protocol {protocol!r}: {key} = {value!r}: expected {kinds[key]}")
    return value
