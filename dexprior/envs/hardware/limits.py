"""What a gate lets through for one task: speeds and forces of its robot, and boxes around where its things can be.

gate = gate_config(make_task("pick_place"))
gate = gate_config(make_task("pick_place"), {"max_force": 40.0, "robot": {"watchdog": 0.04}})

The workspace ends a margin beyond the task's things and the robot's home, and its floor is above the table by what the
end effector reaches below its tool centre point, and a clearance. Contact zones are the layer over the table in which
things lie, and a box around every fixed part, as high as the tool may stand while what it holds meets that part.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from dexprior.config import to_plain, validate
from dexprior.envs.hardware.envelope import Box
from dexprior.envs.hardware.gate import GateConfig
from dexprior.envs.hardware.gripper import require_gripper
from dexprior.envs.hardware.profile import profile_of
from dexprior.errors import BadInput
from dexprior.robots.catalog import able_to_stop
from dexprior.robots.rigs import Rig, home_pose
from dexprior.worlds.tasks import ActionSpec, Task, TaskWorlds
from dexprior.worlds.tasks.parts import Part
from dexprior.worlds.tasks.scene import place_points

__all__ = ["gate_config", "why_no_gate"]

_SCENES, _TOGETHER = 128, 32  # drawn to see where things can be; their ends are found within 1 % of a uniform range
_AROUND = 0.2  # [m] from things and home to the workspace's end
_BESIDE = 0.04  # [m] from things that lie on the table to the end of the layer in which they may be touched
_OFF_CENTRE = 0.01  # [m] by which something may be held beside the tool
_CLEARANCE = 0.010  # [m] between what the tool reaches and the table, outside of contact zones
_LAYER = 0.012  # [m] the same on top of the layer: what stands at the workspace's floor has not to crawl out of it
_OVER = 0.005  # [m] between what is held and a fixed part, over which it may pass at any speed
_BELOW = -0.01  # [m] to which zones reach down: a rigid table gives way


def gate_config(task: Task, changes: Mapping[str, Any] | None = None) -> GateConfig:
    """The gate of a task: what its robot's entry in the catalog and its scene say, and then what the user says.

    Args:
        task: rigid, of one arm with a parallel gripper.
        changes: settings of `GateConfig` that differ, as plain data.

    Raises:
        BadInput: other robots; or no limits are known for this arm or these things, and `changes` does not give all.
        ConfigError: a change that is no setting, or out of range.
    """
    rig = require_gripper(ActionSpec(task.layout().rigs, "cartesian", task.control_dt)).rig
    changes = dict(changes or {})
    plain: dict[str, Any] = {}
    missing = _OF_ROBOT - _keys(changes)
    if missing:
        plain |= _of_robot(rig, missing)
    missing = _OF_CELL - _keys(changes)
    if missing:
        plain |= _of_cell(task, missing)
    robot = {**plain.get("robot", {}), **changes.pop("robot", {})}
    return validate(GateConfig, {**plain, **changes, "robot": robot}, where=f"gate of {task.name}")


def why_no_gate(task: Task) -> str | None:
    """What keeps a task from a gate by what the catalog and its scene say; None where nothing does."""
    try:
        gate_config(task)
    except BadInput as missing:
        return str(missing)
    return None


_OF_ROBOT = {
    "robot.arm", "robot.end", "robot.deceleration", "robot.angular_deceleration", "robot.lag", "max_linear_speed",
    "max_angular_speed", "contact_speed", "press_force", "max_force",
}  # fmt: skip
_OF_CELL = {"workspace_low", "workspace_high", "contact_zones"}


def _keys(changes: Mapping[str, Any]) -> set[str]:
    return set(changes) | {f"robot.{name}" for name in changes.get("robot", {})}


def _of_robot(rig: Rig, missing: set[str]) -> dict[str, Any]:
    """Speeds, forces and profile by the catalog."""
    motion = rig.arm.motion
    if motion is None:
        raise BadInput(
            f"no limits are known of the arm {rig.arm.name!r}; arms with limits: {', '.join(able_to_stop())}. "
            f"Or give them all as settings of the gate; missing: {', '.join(sorted(missing))}"
        )
    return {
        "robot": to_plain(profile_of(rig)), "max_linear_speed": motion.linear_speed,
        "max_angular_speed": motion.angular_speed, "contact_speed": motion.contact_speed,
        "press_force": motion.press_force, "max_force": motion.max_force,
    }  # fmt: skip


def _of_cell(task: Task, missing: set[str]) -> dict[str, Any]:
    """Workspace and contact zones by where things can be."""
    why = None
    if not task.parts:
        why = "it names no parts"
    elif any(part.soft or part.surface is None or part.body is None for part in task.parts):
        why = "it holds something that deforms"
    if why is not None:
        raise BadInput(
            f"no limits are known for the task {task.name!r}: {why}. Give them as settings of the gate; missing: "
            f"{', '.join(sorted(missing))}"
        )
    workspace, zones = _boxes(task)
    return {
        "workspace_low": list(workspace.low), "workspace_high": list(workspace.high),
        "contact_zones": [to_plain(zone) for zone in zones],
    }  # fmt: skip


@functools.lru_cache(maxsize=16)
def _boxes(task: Task) -> tuple[Box, tuple[Box, ...]]:
    """Workspace and contact zones of a task."""
    worlds = TaskWorlds(task, _TOGETHER, threads=1)
    rig, depth = worlds.rigs[0], worlds.rigs[0].end.depth
    rng, ids = np.random.default_rng(0), np.arange(_TOGETHER)
    fixed = {part.name: part for part in task.parts if not part.moves}
    matter, tools, wide, tall = [], [home_pose(rig.arm.name, rig.end.name)[None, :3]], 0.0, 0.0
    solid: dict[str, list[np.ndarray]] = {name: [] for name in fixed}
    for _ in range(_SCENES // _TOGETHER):
        worlds.reset(ids, task.sample(rng, _TOGETHER), [{}] * _TOGETHER)
        truth = worlds.truth()
        matter.append(task.cloud(worlds.view, truth).reshape(-1, 3))
        tools.append(worlds.view.rigs[0].tcp[:, :3])
        held = place_points(_vertices(task.manipulated), truth["object"])
        sides = np.abs(held - truth["object"][:, None, :3])
        wide, tall = max(wide, float(sides[..., :2].max())), max(tall, float(np.ptp(held[..., 2], axis=1).max()))
        for name, part in fixed.items():
            assert part.body is not None  # `_of_cell` has looked
            solid[name].append(place_points(_vertices(part), worlds.view.body_pose(part.body)).reshape(-1, 3))
    things = np.concatenate(matter)
    every = np.concatenate([things, *tools])
    low, high = every.min(axis=0) - _AROUND, every.max(axis=0) + _AROUND
    low[2] = depth + _CLEARANCE
    beside = things[:, :2].min(axis=0) - _BESIDE, things[:, :2].max(axis=0) + _BESIDE
    zones = [_box((*beside[0], _BELOW), (*beside[1], depth + _LAYER))]
    for points in solid.values():
        corner, opposite = np.concatenate(points).min(axis=0), np.concatenate(points).max(axis=0)
        margin = wide + _OFF_CENTRE
        hangs = max(tall - depth, depth)  # below the tool, where the pads hold it over their whole height, or are empty
        above = opposite[2] + hangs + _OVER
        zones.append(_box((*(corner[:2] - margin), _BELOW), (*(opposite[:2] + margin), above)))
    return _box(low, high), tuple(zones)


def _box(low: Any, high: Any) -> Box:
    """The box to the millimetre, outwards."""
    inner, outer = np.floor(np.asarray(low) * 1e3 + 1e-6) / 1e3, np.ceil(np.asarray(high) * 1e3 - 1e-6) / 1e3
    return Box(low=tuple(inner.tolist()), high=tuple(outer.tolist()))


def _vertices(part: Part) -> Float[np.ndarray, "vertex 3"]:
    assert part.surface is not None  # `_of_cell` has looked
    return part.surface()[0]
