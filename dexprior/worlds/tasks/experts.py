"""Scripted experts: they know the truth, and show that each task can be solved with the actions that policies have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from dexprior.errors import BadInput, UnknownName
from dexprior.geometry.rotations import (
    axis_angle_from_matrix,
    matrix_from_quat,
    quat_from_yaw,
    quat_rotate,
    wrap_angle,
    yaw_of,
)
from dexprior.worlds.claw import PALM_TOP, TIP_RADIUS, claw_action, claw_joints
from dexprior.worlds.tasks.base import Truth
from dexprior.worlds.tasks.worlds import MAX_TWIST, RigState, TaskWorlds
from dexprior.worlds.tendon_hands import HAND_FINGERS, MAX_TENSION, preshape

__all__ = ["EXPERTS", "Expert", "expert_of", "register_expert", "run_expert"]

Expert = Callable[[Truth, tuple[RigState, ...], float, "np.ndarray"], Float[np.ndarray, "n action"]]
"""(truth, robots, seconds since reset, memory) -> action; `memory` (n, 4) starts at zero and is the expert's own."""


def run_expert(worlds: TaskWorlds, expert: Expert) -> tuple[np.ndarray, Truth]:
    """Let an expert act for an episode from where the worlds are.

    Returns:
        Whether each world was ever successful, and the truth at the end.
    """
    memory, done = np.zeros((worlds.n, 4)), np.zeros(worlds.n, dtype=bool)
    for k in range(round(worlds.task.horizon / worlds.task.control_dt)):
        truth = worlds.truth()
        worlds.step(expert(truth, worlds.view.rigs, k * worlds.task.control_dt, memory))
        done |= worlds.task.success(worlds.truth())
    return done, worlds.truth()


def register_expert(task: str, expert: Expert) -> None:
    """Add an expert for a task.

    Raises:
        BadInput: the task has another one.
    """
    if EXPERTS.setdefault(task, expert) is not expert:
        raise BadInput(f"task {task!r} has an expert already")


def expert_of(task: str) -> Expert:
    """An expert by the task's name.

    Raises:
        UnknownName: the task has none.
    """
    if task not in EXPERTS:
        raise UnknownName("expert", task, tuple(EXPERTS))
    return EXPERTS[task]


def _action(linear: np.ndarray, angular: np.ndarray, end: np.ndarray) -> Float[np.ndarray, "n 7"]:
    twist = np.concatenate([linear, angular], axis=1) / MAX_TWIST
    return np.concatenate([np.clip(twist, -1.0, 1.0), end[:, None]], axis=1)


def pick_place(truth: Truth, rigs: tuple[RigState, ...], t: float, memory: np.ndarray) -> np.ndarray:
    """Over the cube, down, close, up, across, down."""
    cube, tool, goal, n = truth["object"][:, :3], truth["tool"], truth["goal"], len(memory)
    turn = np.zeros((n, 3))
    end = np.full(n, 1.0 if t < 1.0 else -1.0)
    if t < 1.0:
        high = np.array([0.0, 0.0, 0.08 if t < 0.5 else 0.0])
        move = 5.0 * (cube + high - tool)
        turn[:, 2] = 3.0 * wrap_angle(yaw_of(truth["object"][:, 3:]) - yaw_of(rigs[0].tcp[:, 3:]), np.pi / 2)
    elif t < 1.4:
        move = np.zeros((n, 3))
    elif t < 2.0:
        move = np.tile([0.0, 0.0, 0.18], (n, 1))
    else:
        low = 5.0 * (0.02 - cube[:, 2]) if t > 3.1 else np.zeros(n)
        move = np.column_stack([4.0 * (goal[:, :2] - cube[:, :2]), low])
    return _action(move, turn, end)


def peg(truth: Truth, rigs: tuple[RigState, ...], t: float, memory: np.ndarray) -> np.ndarray:
    """Bring the peg's end over the hole, level it, and push gently, with a small search when it does not go in."""
    n = len(memory)
    error = truth["hole"][:, :2] - truth["end"][:, :2]
    yaw = wrap_angle(yaw_of(truth["hole"][:, 3:]) - yaw_of(truth["object"][:, 3:]), np.pi / 2)
    turn = np.concatenate([2.0 * _level(truth["object"][:, 3:]), 3.0 * yaw[:, None]], axis=1)
    ready = (np.linalg.norm(error, axis=1) < 0.0008) & (np.abs(yaw) < 0.01) & (truth["tilt"] < 0.015)
    memory[:, 0] = np.where(ready | (truth["depth"] > 0.001), 1.0, memory[:, 0])
    down = np.where(memory[:, 0] > 0, np.where(np.abs(truth["wrench"][:, 2]) > 12.0, 0.004, -0.025), 0.0)
    # the end moves with the tool and turns about it
    arm = truth["end"] - truth["tool"]
    move = np.column_stack([5.0 * error, down]) - np.cross(turn, arm)
    return _action(move, turn, np.full(n, -1.0))


def nut_bolt(truth: Truth, rigs: tuple[RigState, ...], t: float, memory: np.ndarray) -> np.ndarray:
    """Centre and level the nut, lower it onto the bolt, and turn; at the end of the wrist's range, regrip 240 deg back.

    Where the threads have not met by then, the nut rests on the two chamfers while the gripper is open.

    `memory` holds: whether it came down, whether it touched, the phase of the grip (0 turning, 1 opening, 2 turning
    back, 3 closing) and when that phase began.
    """
    error = truth["bolt"][:, :2] - truth["object"][:, :2]
    ready = (np.linalg.norm(error, axis=1) < 0.0005) & (truth["tilt"] < 0.02)
    memory[:, 0] = np.where(ready, 1.0, memory[:, 0])
    memory[:, 1] = np.where((truth["depth"] > -0.0005) & (memory[:, 0] > 0), 1.0, memory[:, 1])
    wrist = rigs[0].q[:, -1]
    phase, since = memory[:, 2].copy(), t - memory[:, 3]
    over = np.select(
        [phase == 0, phase == 1, phase == 2, phase == 3],
        [(wrist > 2.7) & (truth["depth"] > 0.001), since > 0.2, wrist < 2.7 - 4 * np.pi / 3, since > 0.3],
    )
    memory[:, 3] = np.where(over, t, memory[:, 3])
    memory[:, 2] = phase = np.where(over, (phase + 1) % 4, phase)
    turning, back = (phase == 0) & (memory[:, 1] > 0), phase == 2
    spin = np.where(turning, -2.0, np.where(back, 2.0, 0.0))
    gripped = (phase == 0) | (phase == 3)
    level = np.where(gripped[:, None], 2.0 * _level(truth["object"][:, 3:]), 0.0)
    turn = np.concatenate([level, spin[:, None]], axis=1)
    sink = np.where(turning, -0.0018, np.where((memory[:, 0] > 0) & (phase == 0), -0.03, 0.0))
    arm = truth["object"][:, :3] - truth["tool"]
    # a nut on the bolt is followed, one in the air is moved
    free = gripped & (truth["depth"] < 0.001)
    sideways = np.where(free[:, None], 4.0 * error, 4.0 * arm[:, :2])
    sink = np.where(gripped, sink, 4.0 * arm[:, 2])
    move = np.column_stack([sideways, sink]) - np.where(free[:, None], np.cross(turn, arm), 0.0)
    return _action(move, turn, np.where(gripped, -1.0, 0.2))


def soft_grasp(truth: Truth, rigs: tuple[RigState, ...], t: float, memory: np.ndarray) -> np.ndarray:
    """Over the fruit, down, pull the tendons until the flesh bears three quarters of its yield, lift, hold.

    A hand with a thumb comes down shaped to the fruit: from wide open its fingertips would swing through the table.
    """
    fruit, tool, n = truth["object"][:, :3], truth["tool"], len(memory)
    high = 0.05 if t < 0.5 else 0.004
    move = 5.0 * (fruit + np.array([0.0, 0.0, high]) - tool) if t < 1.1 else np.zeros((n, 3))
    if t >= 1.9:
        move[:, 2] = np.where(tool[:, 2] < 0.15, 0.14, 0.0)
    if rigs[0].touch.shape[1] == len(HAND_FINGERS):
        memory[:, 0] = np.maximum(memory[:, 0], preshape(truth["width"]) * 2.0 / MAX_TENSION)
    if t >= 1.1:  # integrate towards the wanted load, faster while fewer than two fingertips feel the fruit
        gain = np.where((truth["force"] > 0.02).sum(axis=1) < 2, 0.08, 0.02)
        memory[:, 0] = np.clip(memory[:, 0] + gain * (0.75 - truth["load"]), 0.0, 2.0)
    end = np.tile((1.0 - memory[:, 0])[:, None], (1, rigs[0].touch.shape[1]))
    twist = np.concatenate([move, np.zeros((n, 3))], axis=1) / MAX_TWIST
    return np.concatenate([np.clip(twist, -1.0, 1.0), np.clip(end, -1.0, 1.0)], axis=1)


def cube_in_hand(truth: Truth, rigs: tuple[RigState, ...], t: float, memory: np.ndarray) -> np.ndarray:
    """Grasp, twist, release, return: the four fingertips turn together about the palm's axis, the wrist stays.

    `memory` holds: the phase (0 going open to where they close, 1 closing, 2 twisting, 3 opening), when it began, and
    the commanded angle of the fingertips about the palm's axis [rad].
    """
    error = truth["error"]
    phase, since, angle = memory[:, :3].T.copy()
    if t == 0.0:
        angle = _grip_angle(truth)
    twisting = phase == 2
    angle = np.where(twisting, np.clip(angle + 0.04 * np.clip(4.0 * error, -1.8, 1.8), -_REACH, _REACH), angle)
    stuck = (np.abs(error) > 0.05) & (angle * np.sign(error) >= _REACH)  # at the end of the fingers' range
    over = np.where(twisting, stuck, t - since > np.select([phase == 0, phase == 1], [0.28, 0.20], 0.16))
    back = over & (phase == 3)
    radius = np.select(
        [phase == 0, phase == 3],
        [_OPEN, _OPEN],
        0.025 / np.cos(wrap_angle(truth["angle"] - angle, np.pi / 2)) + TIP_RADIUS - _SQUEEZE,
    )
    around = angle[:, None] + np.arange(4) * np.pi / 2
    high = np.full_like(around, PALM_TOP + 0.024)
    tips = np.stack([radius[:, None] * np.cos(around), radius[:, None] * np.sin(around), high], axis=-1)
    memory[:, 0] = np.where(over, (phase + 1) % 4, phase)
    memory[:, 1] = np.where(over, t, since)
    memory[:, 2] = np.where(back, _grip_angle(truth), angle)
    return claw_action(claw_joints(tips))


def _grip_angle(truth: Truth) -> Float[np.ndarray, " n"]:
    """Angle at which fingertips close on the cube's sides [rad], with the longest stroke ahead of them."""
    way = np.sign(truth["error"])
    sides = (wrap_angle(truth["angle"], np.pi / 2) * way)[:, None] + np.array([-np.pi / 2, 0.0, np.pi / 2])
    grip = np.clip(sides - _OFF_CENTRE, -_REACH, None)
    off = np.abs(grip - sides) > _OFF_CENTRE + 1e-9
    return way * np.where(off | (grip > _REACH), np.inf, grip).min(axis=1)


_REACH = 0.60  # [rad] how far the claw's fingertips turn about the palm's axis
_OFF_CENTRE = 0.26  # [rad] how far from the middle of a side they may close: well inside the cone of friction
_OPEN = 0.050  # [m] radius at which they pass a corner of the cube
_SQUEEZE = 0.010  # [m] by which a fingertip's goal lies inside the cube


def handover(truth: Truth, rigs: tuple[RigState, ...], t: float, memory: np.ndarray) -> np.ndarray:
    """Over the free end, down when it is still, close, hold until the person has let go, lift a little.

    `memory` holds the phase (0 over, 1 down, 2 closing), when it began, and when the bar was last held.
    """
    grip, tool = truth["grip"], truth["tool"]
    bar = truth["object"][:, 3:]
    yaw = wrap_angle(yaw_of(bar) - yaw_of(rigs[0].tcp[:, 3:]), np.pi)
    phase, since = memory[:, 0].copy(), t - memory[:, 1]
    above = grip + np.array([0.0, 0.0, 0.06])
    error = np.where((phase == 0)[:, None], above, grip) - tool
    calm = np.linalg.norm(truth["velocity"], axis=1) < 0.03
    close = np.linalg.norm(error, axis=1) < np.where(phase == 0, 0.012, 0.006)
    over = np.select([phase == 0, phase == 1], [close & calm & (np.abs(yaw) < 0.08) & (since > 0.2), close])
    memory[:, 2] = np.where(truth["held"] | (phase < 2), t, memory[:, 2])
    lost = (phase == 2) & (t - memory[:, 2] > 0.6)
    memory[:, 1] = np.where((over > 0) | lost, t, memory[:, 1])
    memory[:, 0] = phase = np.where(lost, 0.0, phase + over)
    move = 5.0 * error + np.where((phase < 2)[:, None], truth["velocity"], 0.0)
    up = np.array([0.0, 0.0, 0.06]) * ((truth["released"] > 0.3) & (truth["released"] < 0.9))[:, None]
    move = np.where((phase == 2)[:, None], np.where(truth["held"][:, None], up, move), move)
    turn = np.zeros_like(move)
    turn[:, 2] = np.where(phase == 2, 0.0, 3.0 * yaw)
    return _action(move, turn, np.where(phase == 2, -1.0, 0.4))


def folding(truth: Truth, rigs: tuple[RigState, ...], t: float, memory: np.ndarray) -> np.ndarray:
    """Turn the tools towards the hem, pinch it, carry it over the fold line in half a circle, let go and draw back.

    The tools turn with the fabric: they point inwards at first and come out on the other side.
    """
    n = len(memory)
    swing = float(np.clip((t - 1.9) / 2.0, 0.0, 1.0))
    swing = np.pi * swing * swing * (3.0 - 2.0 * swing)
    outwards = quat_rotate(quat_from_yaw(truth["yaw"]), np.broadcast_to([1.0, 0.0, 0.0], (n, 3)))
    along = np.cross([0.0, 0.0, 1.0], outwards)
    lean = np.pi / 2 - swing  # of the tools from pointing down, about `along`
    actions = []
    for k, rig in enumerate(rigs):
        tool, grip, hinge, goal = rig.tcp[:, :3], truth["grip"][:, k], truth["hinge"][:, k], truth["goal"][:, k]
        reach = np.linalg.norm(goal - hinge, axis=1, keepdims=True)
        if t < 1.9:  # in front of the hem, then around it; while the pads close, where the hem was found
            wanted = grip + (0.04 if t < 0.9 else 0.0) * outwards if t < 1.4 else tool
        else:
            # the pad under the hem comes to lie between the layers; when it opens, it must not press on the lower one
            landed = _PAD * (swing / np.pi) + 0.004 * np.clip((t - 4.0) / 0.2, 0.0, 1.0)
            height = 0.9 * reach * np.sin(swing) + landed  # some slack: the cloth bends in a curve, not in an edge
            wanted = hinge + reach * np.cos(swing) * outwards + height * [0.0, 0.0, 1.0]
        if t > 4.4:  # fast, so that friction has little time to take the hem along
            wanted = wanted - 0.15 * outwards
        x = quat_rotate(rig.tcp[:, 3:], np.broadcast_to([1.0, 0.0, 0.0], (n, 3)))
        side = np.where((x * along).sum(axis=1, keepdims=True) < 0, -1.0, 1.0) * along
        points = -np.sin(lean) * outwards - np.cos(lean) * np.array([0.0, 0.0, 1.0])
        R = np.stack([side, np.cross(points, side), points], axis=2)
        turn = axis_angle_from_matrix(R @ matrix_from_quat(rig.tcp[:, 3:]).transpose(0, 2, 1))
        opening = float(np.interp(t, [1.4, 1.8, 4.0, 4.2], [-0.4, -1.0, -1.0, -0.65]))
        actions.append(_action(6.0 * (wanted - tool), 6.0 * turn, np.full(n, opening)))
    return np.concatenate(actions, axis=1)


def _level(quat: np.ndarray) -> Float[np.ndarray, "n 2"]:
    """Turn about x and y that brings a body's z axis upright [rad]."""
    axis = quat_rotate(quat, np.broadcast_to([0.0, 0.0, 1.0], (len(quat), 3)))
    axis = axis * np.where(axis[:, 2:] < 0, -1.0, 1.0)
    return np.cross(axis, [0.0, 0.0, 1.0])[:, :2]


_PAD = 0.017  # [m] thickness of a gripper's pad and of two layers of cloth, with some room

EXPERTS: dict[str, Expert] = {
    "cube_in_hand": cube_in_hand,
    "folding": folding,
    "handover": handover,
    "nut_bolt": nut_bolt,
    "peg": peg,
    "pick_place": pick_place,
    "soft_grasp": soft_grasp,
}
"""By the task's name."""
