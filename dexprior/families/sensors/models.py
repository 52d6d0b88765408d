"""Which sensor models of a world are on: a value, all off by default.

    SensorModels(encoder=EncoderConfig(bias=0.01), observation=TransportConfig(latency=0.05))

What they do to a world is said in `dexprior.worlds.tasks.sensing`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dexprior.config import config, validate
from dexprior.families.gaps import Gap
from dexprior.families.sensors.encoder import EncoderConfig
from dexprior.families.sensors.force_torque import ForceTorqueConfig
from dexprior.families.sensors.sight import SightConfig
from dexprior.families.sensors.tactile import TactileConfig
from dexprior.families.sensors.transport import TransportConfig
from dexprior.reading import read_json_object

__all__ = ["SENSORS", "SensorModels"]


@config
class SensorModels:
    """Which are on; each may be on alone, and all together."""

    encoder: EncoderConfig | None = None
    """Encoder of every hinge of the robots."""
    force_torque: ForceTorqueConfig | None = None
    """Sensor of force and torque at every wrist."""
    tactile: TactileConfig | None = None
    """Tactile sensor of every fingertip."""
    sight: SightConfig | None = None
    """Sight of the camera that points of objects come from: it does not see through things."""
    observation: TransportConfig | None = None
    """Link that observations take, one packet a control period."""
    command: TransportConfig | None = None
    """Link that actions take, one packet a control period."""

    @property
    def active(self) -> tuple[str, ...]:
        """Names of those that are on."""
        return tuple(name for name in SENSORS if getattr(self, name) is not None)

    @property
    def labels(self) -> bool:
        """Whether points of objects come with the body that they lie on."""
        return self.sight is None or self.sight.labels

    def updated(self, other: SensorModels) -> SensorModels:
        """These models, with those that are on in another in their place."""
        return replace(self, **{name: getattr(other, name) for name in other.active})

    @classmethod
    def read(cls, path: str | Path) -> SensorModels:
        """Those of a JSON file, as `dexprior ledger fit-noise` writes it.

        Raises:
            BadInput: a missing or damaged file.
            ConfigError: one that holds something else; named.
        """
        return validate(cls, read_json_object(path), where=str(path))


SENSORS: dict[str, Gap] = {
    "encoder": "sensor", "force_torque": "sensor", "tactile": "sensor", "sight": "visual", "observation": "sensor",
    "command": "sensor",
}  # fmt: skip
"""Name -> the gap that it belongs to."""
