"""Bring a robot up: reach it, bring it home, and read what the last seconds before a stop were.

dexprior hardware check hardware.driver=franka hardware.address=NAME   reach it; nothing moves
dexprior hardware home hardware.driver=franka hardware.address=NAME    open the hand and go home, behind the gate
dexprior hardware trip link=runs/hardware/franka.link                  why it stopped: a picture, and a table of it
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from dexprior.cli.show import show
from dexprior.config import Ge, config, to_plain
from dexprior.envs.hardware.options import HardwareOptions
from dexprior.errors import UnknownName

WORDS = ("check", "home", "trip")
HELP: dict[str, tuple[str, ...]] = {
    "": (
        "task",
        "hardware.driver",
        "hardware.address",
        "hardware.gate",
        "hardware.realtime_kernel",
        "link",
        "seed",
        "out",
        "hardware.",
    ),
    "check": (
        "task",
        "hardware.driver",
        "hardware.address",
        "hardware.gate",
        "hardware.realtime_kernel",
        "out",
        "hardware.",
    ),
    "home": (
        "task",
        "hardware.driver",
        "hardware.address",
        "hardware.gate",
        "hardware.realtime_kernel",
        "seed",
        "out",
        "hardware.",
    ),
    "trip": ("link", "out"),
}
"""What `--help` shows, of the verb and of its words; what ends in a dot, `--help all` shows."""


@config
class Config:
    """Settings of `dexprior hardware`."""

    task: str = "pick_place"
    """Task whose robot and scene the gate's limits come from."""
    hardware: HardwareOptions = HardwareOptions()
    """Which robot, and what its gate lets through."""
    link: str = "runs/hardware/franka.link"
    """For trip: record of a Franka's last seconds, which `hardware.keep` holds."""
    seed: Annotated[int, Ge(0)] = 0
    """Seed of where the objects are said to stand."""
    out: str = "runs/hardware"
    """Folder of the gate's evidence and of a trip's picture."""


def writes(config: Config, words: list[str]) -> Path | None:
    """Nothing that is done once: a robot is asked anew each time."""
    return None


def run(config: Config, words: list[str]) -> int:
    """Do what the word says."""
    if len(words) != 1 or words[0] not in WORDS:
        raise UnknownName("word", " ".join(words), WORDS)
    if words == ["trip"]:
        from dexprior.envs.hardware.franka.trip import draw_trip

        show(draw_trip(config.link, Path(config.out)))
        return 0
    from dexprior.envs.hardware import HardwareBackend, start_gate
    from dexprior.envs.panel import Panel
    from dexprior.worlds.tasks import make_task

    keep = config.hardware.keep or config.out
    task = make_task(config.task).other()
    backend = HardwareBackend(start_gate(replace(config.hardware, keep=keep), task=task))
    try:
        told = {"driver": config.hardware.driver, "address": config.hardware.address, "gate": to_plain(backend.config)}
        if words == ["home"]:
            reading = backend.reset(Panel.sample("home", task, 1, seed=config.seed))
            robot = reading.robots[0]
            told = {
                "joints_rad": robot.q[0].round(4).tolist(), "tool_m": robot.tcp[0, :3].round(4).tolist(),
                "opening_m": round(float(robot.end.sum()), 4), "points": reading.cloud.shape[1], "evidence": keep,
            }  # fmt: skip
        show(told)
    finally:
        backend.close()
    return 0
