"""Which sensor models of a world are on: a value, all off by default.

    SensorModels(encoder=EncoderConfig(bias=0.01), observation=TransportConfig(latency=0.05))

What they do to a world is said in `dexprior.worlds.tasks.sensing`.
"""

from __future__ import annotations

from dexprior.config import config
from dexprior.families.gaps import Gap
from dexprior.families.sensors.encoder import EncoderConfig
from dexprior.families.sensors.force_torque import ForceTorqueConfig
from dexprior.families.sensors.tactile import TactileConfig
from dexprior.families.sensors.transport import TransportConfig

__all__ = ["SENSORS", "SensorModels"]


@config
class SensorModels:
    """Which are on; each may be on alone, and all together."""

    encoder: EncoderConfig | None = None
    """Of every hinge of the robots."""
    force_torque: ForceTorqueConfig | None = None
    """At every wrist."""
    tactile: TactileConfig | None = None
    """Of every fingertip."""
    observation: TransportConfig | None = None
    """On the way of observations, one packet a control period."""
    command: TransportConfig | None = None
    """On the way of actions, one packet a control period."""

    @property
    def active(self) -> tuple[str, ...]:
        """Names of those that are on."""
        return tuple(name for name in SENSORS if getattr(self, name) is not None)


SENSORS: dict[str, Gap] = {
    "encoder": "sensor", "force_torque": "sensor", "tactile": "sensor", "observation": "sensor", "command": "sensor",
}  # fmt: skip
"""Name -> the gap that it belongs to."""
