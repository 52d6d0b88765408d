"""The process that opens and closes a Franka Hand: `python -m dexprior.envs.hardware.franka.hand`.

Its calls return when a motion is over, up to a second later; beside the arm's loop they would cost cycles.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from dexprior import extras
from dexprior.envs.hardware.franka.link import HAND_ASKED, HAND_STATE, Link

__all__ = ["main"]

_SPEED, _FORCE = 0.1, 20.0  # [m/s], [N] of closing
_SAME = 1e-3  # [m] by which an opening that is asked for must differ from the last one
_ANY = 0.08  # [m] by which what is held may be thinner or thicker than was asked for


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what the link asks for, until the process that started this one is gone."""
    parser = argparse.ArgumentParser(prog="python -m dexprior.envs.hardware.franka.hand", description=__doc__)
    parser.add_argument("--address", required=True, help="of the robot's control unit")
    parser.add_argument("--link", type=Path, required=True, help="file through which the driver talks")
    chosen = parser.parse_args(arguments)
    parent = os.getppid()
    franka = extras.require("pylibfranka")
    link = Link(chosen.link)
    try:
        hand = franka.Gripper(chosen.address)
        target = hand.read_once().width
        while os.getppid() == parent:
            row = link.hand_asked.last()
            width = target if row is None else float(HAND_ASKED.read(row)["width"])
            if abs(width - target) > _SAME:
                if width < target:
                    hand.grasp(width, _SPEED, _FORCE, _ANY, _ANY)
                else:
                    hand.move(width, _SPEED)
                target = width
            state = hand.read_once()
            link.hand_state.add(HAND_STATE.row(host=time.monotonic(), width=state.width, widest=state.max_width))
    except RuntimeError as error:  # the base of what libfranka raises
        print(f"Franka Hand at {chosen.address}: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
