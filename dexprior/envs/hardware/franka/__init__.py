"""A Franka FR3 with its hand, by the robot's own interface (libfranka, through pylibfranka).

    gate's process -- FrankaDriver --[link: a file in memory]--> loop's process -- 1 kHz --> robot
                                                            '--> hand's process ----------> hand

driver.py   the driver that the gate calls, at the policy's rate
link.py     the file through which both processes talk, and in which the last seconds survive whatever kills them
loop.py     the process that answers the robot every millisecond: shapes, watches, stops
hand.py     the process that opens and closes the hand, whose calls block
shaping.py  from twists of a policy to twists whose jerk the robot bears
trip.py     the last seconds as a table and a picture
limits.py   what the maker publishes, and what we stay below
"""

from __future__ import annotations

from dexprior.envs.hardware.franka.driver import FrankaDriver
from dexprior.envs.hardware.franka.limits import FR3, GATE, MotionLimits
from dexprior.envs.hardware.franka.link import read_trip

__all__ = ["FR3", "GATE", "FrankaDriver", "MotionLimits", "read_trip"]
