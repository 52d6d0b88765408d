"""Models of sensors and of what carries their readings: configurations in SI units, and samplers for many worlds."""

from dexprior.families.sensors.allan import allan_terms, allan_variance, averaging
from dexprior.families.sensors.depth import DepthConfig, sense_depth
from dexprior.families.sensors.encoder import Encoder, EncoderConfig
from dexprior.families.sensors.force_torque import ForceTorque, ForceTorqueConfig
from dexprior.families.sensors.images import (
    FlareConfig,
    RollingShutterConfig,
    lens_flare,
    rolling_shutter,
    row_times,
    sheared,
)
from dexprior.families.sensors.imu import Imu, ImuConfig, InertialConfig
from dexprior.families.sensors.models import SENSORS, SensorModels
from dexprior.families.sensors.native import write_latency
from dexprior.families.sensors.sampler import Sampler
from dexprior.families.sensors.sight import SightConfig
from dexprior.families.sensors.tactile import Tactile, TactileConfig
from dexprior.families.sensors.transport import Transport, TransportConfig, newest

__all__ = [
    # of a robot
    "Encoder",
    "EncoderConfig",
    "ForceTorque",
    "ForceTorqueConfig",
    "Imu",
    "ImuConfig",
    "InertialConfig",
    "Tactile",
    "TactileConfig",
    "Sampler",
    # of cameras
    "DepthConfig",
    "FlareConfig",
    "RollingShutterConfig",
    "SightConfig",
    "lens_flare",
    "rolling_shutter",
    "row_times",
    "sense_depth",
    "sheared",
    # of links
    "Transport",
    "TransportConfig",
    "newest",
    "write_latency",
    # which are on
    "SENSORS",
    "SensorModels",
    # Allan variance
    "allan_terms",
    "allan_variance",
    "averaging",
]
