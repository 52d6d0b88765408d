"""Frozen data types that travel between stages. NumPy only.

SI units; float64 monotonic seconds; the world frame is the robot's base, z up; poses are
`[x y z qw qx qy qz]`. A type checks its shapes, its units' ranges and that it is finite when it is made, so a
value that exists is valid. `dexprior.artifacts` saves and loads every one of them.
"""

from dexprior.types.collision import CollisionModel, ContactGeometry
from dexprior.types.command import Command, CommandMode
from dexprior.types.episode import Episode, View
from dexprior.types.hand import FINGERS, HAND_JOINTS, MANO_JOINTS, SIDES, HandTrajectory, Side
from dexprior.types.object import TRACKS, ContactSchedule, ObjectTrajectory
from dexprior.types.prior import Camera, ContactConfiguration, PriorCondition, VideoSample
from dexprior.types.robot import JointTrajectory, WrenchTrack
from dexprior.types.trace import Channel, ChannelKind, Trace

__all__ = [
    "FINGERS",
    "HAND_JOINTS",
    "MANO_JOINTS",
    "SIDES",
    "TRACKS",
    "Camera",
    "Channel",
    "ChannelKind",
    "CollisionModel",
    "Command",
    "CommandMode",
    "ContactConfiguration",
    "ContactGeometry",
    "ContactSchedule",
    "Episode",
    "HandTrajectory",
    "JointTrajectory",
    "ObjectTrajectory",
    "PriorCondition",
    "Side",
    "Trace",
    "VideoSample",
    "View",
    "WrenchTrack",
]
