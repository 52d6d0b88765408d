"""A table on which another engine, Bullet, strikes prisms, behind the reality server's socket.

What the contact is like, the table keeps to itself: a client strikes and sees what a motion capture sees.
"""

from dexprior.envs.reality.pushing.client import RealTable, start_table
from dexprior.envs.reality.pushing.recording import CaptureConfig, Recordings
from dexprior.envs.reality.pushing.table import SETTINGS, BulletTable, TableSetting

__all__ = ["SETTINGS", "BulletTable", "CaptureConfig", "RealTable", "Recordings", "TableSetting", "start_table"]
