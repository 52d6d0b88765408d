"""What retargeting to a gripper uses of a person's clip, and what each part is worth: success of the replay without it.

Follows the demonstrations of a run's ladder (or its samples) in the judging worlds, as they are and with one part of
the clip taken away: how hard the hand pressed, when it touched, what the object did, where the fingertips pinched.
Prints JSON lines {name, run, rung, WORLD: won, of}. Further words are settings of the task, as another arm or hand;
then `reach` says what inverse kinematics alone finds of the plans: the share of frames that are reached, and for how
long which joint is at its limit where they are not.

    python benchmarks/retarget_ablation.py RUN [demonstration|sample] [only=NAME,...] [worlds=NAME,...] [arm=arm7 ...]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

import dexprior  # noqa: F401  # before MuJoCo: chooses the off-screen OpenGL platform
from dexprior.geometry.transforms import fit_rigid, invert_pose, pose_multiply, transform_points
from dexprior.pipeline.following import Clip, follow, gripper_of, tool_trajectories
from dexprior.pipeline.ladder import _clips
from dexprior.pipeline.line import Line
from dexprior.pipeline.worlds import SCORING
from dexprior.retarget.arm_ik import missed, solve_arm
from dexprior.worlds.tasks import robot_task

WORLDS = ("training", "other", "others")
STILL = 0.02  # [m/s] below which an object lies


def holding(clip: Clip) -> np.ndarray:
    """Frames in which thumb and an opposing finger touch."""
    touching = clip.hand.contact > 0.5
    return touching[:, 0] & touching[:, 1:3].any(axis=1)


# --- how hard ---------------------------------------------------------------------------------------------------------


def constant_force(clip: Clip) -> Clip:
    """Each finger presses with its mean over the hold."""
    held = holding(clip)
    if not held.any():
        return clip
    force = np.where(held[:, None], clip.hand.force[held].mean(axis=0), clip.hand.force)
    return replace(clip, hand=replace(clip.hand, force=force))


def one_force(clips: list[Clip]) -> list[Clip]:
    """All clips' hands press with the mean of all of them."""
    mean = np.concatenate([c.hand.force[holding(c)] for c in clips]).mean(axis=0)
    return [replace(c, hand=replace(c.hand, force=np.broadcast_to(mean, c.hand.force.shape))) for c in clips]


# --- when -------------------------------------------------------------------------------------------------------------


def onset_by_motion(clip: Clip) -> Clip:
    """The hand touches from when the object first moves."""
    held, centre = holding(clip), clip.thing.centre
    speed = np.linalg.norm(np.gradient(centre, clip.hand.t, axis=0), axis=1)
    start = int(held.argmax())
    moving = np.flatnonzero((speed > STILL) & (np.arange(len(speed)) >= start))
    if not held.any() or not len(moving):
        return clip
    contact = clip.hand.contact.copy()
    contact[: moving[0]] = 0.0
    return replace(clip, hand=replace(clip.hand, contact=contact))


def shifted(frames: int) -> Callable[[Clip], Clip]:
    """Touch and force come so many frames later than they did; the motion as it was."""

    def made(clip: Clip) -> Clip:
        at = np.clip(np.arange(len(clip.hand)) - frames, 0, len(clip.hand) - 1)
        return replace(clip, hand=replace(clip.hand, contact=clip.hand.contact[at], force=clip.hand.force[at]))

    return made


def stretched(by: float) -> Callable[[Clip], Clip]:
    """The whole clip takes so much longer."""

    def made(clip: Clip) -> Clip:
        return replace(
            clip, hand=replace(clip.hand, t=by * clip.hand.t), thing=replace(clip.thing, t=by * clip.thing.t)
        )

    return made


# --- the object -------------------------------------------------------------------------------------------------------


def without_pose(clip: Clip) -> Clip:
    """The tool goes with the fingers alone."""
    return replace(clip, thing=replace(clip.thing, pose=None))


def with_pose(clip: Clip) -> Clip:
    """The tool goes with the object, as rigidly as that moves: a pose for what deforms."""
    thing = clip.thing
    moved = fit_rigid(np.broadcast_to(thing.points[0], thing.points.shape), thing.points)
    start = np.array([*thing.centre[0], 1.0, 0.0, 0.0, 0.0])
    return replace(clip, thing=replace(thing, pose=pose_multiply(moved, np.broadcast_to(start, moved.shape))))


# --- where ------------------------------------------------------------------------------------------------------------


def without_surface(clips: list[Clip]) -> list[Clip]:
    """Not squared to the surface, and as wide as the fingers are apart."""
    return [replace(c, surface=None) for c in clips]  # type: ignore[arg-type]  # what it is without


def at_centre(clip: Clip) -> Clip:
    """The fingertips pinch around the object's centre."""
    joints = clip.hand.joints.copy()
    middle = 0.5 * (joints[:, 4] + joints[:, 8:13:4].mean(axis=1))
    joints += (clip.thing.centre - middle)[:, None]
    return replace(clip, hand=replace(clip.hand, joints=joints))


def at_wrist(clips: list[Clip]) -> list[Clip]:
    """The hand's joints stand where they do on average in the wrist's frame: the pinch is a constant offset."""
    held = [(c, np.flatnonzero(holding(c))[:4]) for c in clips if holding(c).any()]
    local = [
        transform_points(invert_pose(c.hand.wrist_pose[k]), c.hand.joints[k]) for c, frames in held for k in frames
    ]
    mean = np.mean(local, axis=0)
    return [replace(c, hand=replace(c.hand, joints=transform_points(c.hand.wrist_pose, mean))) for c in clips]


def each(change: Callable[[Clip], Clip]) -> Callable[[list[Clip]], list[Clip]]:
    """A change of one clip as one of all."""
    return lambda clips: [change(c) for c in clips]


CHANGES: dict[str, Callable[[list[Clip]], list[Clip]]] = {
    "as it is": list,
    "force: mean of the hold": each(constant_force),
    "force: mean of all clips": one_force,
    "onset: object moves": each(onset_by_motion),
    "onset: 160 ms early": each(shifted(-2)),
    "onset: 320 ms late": each(shifted(4)),
    "time: 1.25 as long": each(stretched(1.25)),
    "object: hand alone": each(without_pose),
    "object: rigid fit": each(with_pose),
    "place: no surface": without_surface,
    "place: object's centre": each(at_centre),
    "place: wrist offset": at_wrist,
}
"""What is taken away -> the clips without it. Frames are 80 ms apart."""
SETTINGS: dict[str, dict[str, float]] = {
    "force: least_force alone": {"force_gain": 1e-9},
    "settling: none": {"settling": 0.0},
}
"""The same by settings of the gripper."""


_ALL = (*CHANGES, *SETTINGS)


def main(run: str, *words: str) -> None:
    """Measure and print."""
    line = Line.load(run)
    rung = next((word for word in words if word in ("demonstration", "sample")), "demonstration")
    given = dict(word.split("=", 1) for word in words if "=" in word)
    chosen, worlds = (given.pop(k, ",".join(a)).split(",") for k, a in (("only", _ALL), ("worlds", WORLDS)))
    clips = _clips(line, line.folder["09-ladder"], rung)
    if given:
        clips = [replace(c, settings={**c.settings, **given}) for c in clips]
        print(
            json.dumps({"name": "reach", "run": Path(run).name, "rung": rung, **given, **reach(line, clips)}),
            flush=True,
        )
    made = {"seed": SCORING, "behavior": line.config.bank.behavior}
    for name in chosen:
        gripper = replace(line.gripper, **SETTINGS.get(name, {}))
        changed = CHANGES.get(name, list)(clips)
        if name == "object: hand alone" and clips[0].thing.pose is None:
            continue
        if name == "object: rigid fit" and clips[0].thing.pose is not None:
            continue
        won = follow(line.config.task, changed, worlds, gripper=gripper, **made)
        row = {world: int(found.sum()) for world, found in won.items()}
        print(json.dumps({"name": name, "run": Path(run).name, "rung": rung, **row, "of": len(clips)}), flush=True)


def reach(line: Line, clips: list[Clip]) -> dict[str, Any]:
    """What the arm of the clips' task reaches of their plans, every 40 ms."""
    task = robot_task(line.config.task, **clips[0].settings)
    rig = gripper_of(task)
    moved = [
        solve_arm(rig.arm.name, rig.end.name, plan.at(np.arange(0.0, plan.t[-1], 0.04)))
        for plan in tool_trajectories(task, clips, line.gripper)
    ]
    seconds: dict[str, float] = {}
    misses = [miss for one in moved for miss in missed(one)]
    for miss in misses:
        for joint in miss.joints or ("none",):
            seconds[joint] = round(seconds.get(joint, 0.0) + miss.stop - miss.start + 0.04, 2)
    feasible = np.array([one.feasible.mean() for one in moved])
    return {
        "feasible": round(float(feasible.mean()), 4), "whole": int((feasible == 1.0).sum()), "of": len(moved),
        "seconds at limits": seconds, "first misses": [asdict(miss) for miss in misses[:3]],
    }  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
