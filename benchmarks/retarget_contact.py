"""How a robot's touch follows the hand's where a gripper follows clips: when it begins, how hard it is, and what the
wrist feels.

Demonstrations of a run's ladder are followed as there; contact, wrench and poses are read without the sensors' noise,
the controller has it. Times are on the plan's clock: a hold begins when the plan reaches the clip's frame in which it
begins. Contact is looked at every 40 ms on the robot and every 80 ms on the hand; each begins half a step before it is
seen. Prints JSON lines {run, world, settling, ...}; milliseconds, percentiles over clips that succeed, their holds.

    python benchmarks/retarget_contact.py RUN [worlds=NAME,...] [settling=SECONDS,...]
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import dexprior  # noqa: F401  # before MuJoCo: chooses the off-screen OpenGL platform

import mujoco  # isort: skip
import numpy as np

from dexprior.data.shards import open_episodes
from dexprior.envs.base import Reading
from dexprior.geometry.rotations import quat_conjugate, quat_rotate
from dexprior.geometry.timing import contact_intervals
from dexprior.pipeline.following import Clip, bank_of, tool_trajectories
from dexprior.pipeline.ladder import _clips
from dexprior.pipeline.line import Line
from dexprior.pipeline.worlds import SCORING, judging_worlds
from dexprior.policy.rollout import prior_policy, run_episodes
from dexprior.retarget.gripper import ToolTrajectory
from dexprior.retarget.phases import contact_phases
from dexprior.robots.rigs import Rig
from dexprior.types import WrenchTrack
from dexprior.worlds.tasks import robot_task

WORLDS = ("training", "other", "others")
TOUCHES = 0.05  # [N] of a fingertip without noise
STEADY = 2  # steps of contact that are no knock
SLOW = 0.3  # [m/s2] of a tool that hardly accelerates
LIFTED = 0.02  # [m] by which an object is off the table
EARLIEST = 0.6  # [s] before a hold in which its contact may begin


def main(run: str, *words: str) -> None:
    """Measure and print."""
    line = Line.load(run)
    folder = line.folder["09-ladder"]
    clips = _clips(line, folder, "demonstration")
    felt = human_wrenches(line, folder, clips)
    given = dict(word.split("=", 1) for word in words)
    for settling in map(float, given.get("settling", str(line.gripper.settling)).split(",")):
        for world in given.get("worlds", ",".join(WORLDS)).split(","):
            row = measured(line, clips, felt, world, settling)
            print(json.dumps({"run": Path(run).name, "world": world, "settling": settling, **row}), flush=True)


def human_wrenches(line: Line, folder: Path, clips: list[Clip]) -> list[WrenchTrack]:
    """On the human's wrist in each demonstration, wrist frame; clips are found by their hand's path."""
    episodes = open_episodes(folder / "demonstrations")
    tracks = {}
    for k in range(len(episodes)):
        episode = episodes.read(k, views=False)
        tracks[episode.sample.hand.wrist_pose[:, :3].astype(np.float32).tobytes()] = episode.wrench
    return [tracks[clip.hand.wrist_pose[:, :3].astype(np.float32).tobytes()] for clip in clips]


def measured(line: Line, clips: list[Clip], felt: list[WrenchTrack], world: str, settling: float) -> dict[str, Any]:
    """Columns of docs/measurements/retarget.md for one world."""
    gripper = replace(line.gripper, settling=settling)
    groups: dict[str, list[int]] = {}
    for k, clip in enumerate(clips):
        groups.setdefault(repr(sorted(clip.settings.items())), []).append(k)
    rows: list[dict[str, Any]] = []
    for ids in groups.values():
        mine = [clips[k] for k in ids]
        task = robot_task(line.config.task, **mine[0].settings)
        rig, place = task.layout().rigs[0], judging_worlds(task)[world]
        scenes = {key: np.array([c.scene[key] for c in mine]) for key in mine[0].scene}
        panel = place.panel(scenes, seed=SCORING)
        plans = tool_trajectories(task, mine, gripper)
        backend = place.backend(len(mine))
        policy = prior_policy(bank_of(task, rig, plans, line.config.bank.behavior, panel.hash), np.arange(len(mine)))
        seen: list[tuple[np.ndarray, ...]] = []

        def act(observation: dict[str, np.ndarray], reading: Reading) -> np.ndarray:
            state = backend.worlds.view.rigs[0]  # noqa: B023  # called within this turn of the loop
            touch = (reading.truth or {}).get("force", state.touch)  # without what the table bears, where that is told
            seen.append((touch.copy(), state.wrench.copy(), state.tcp.copy()))  # noqa: B023
            return policy(observation, reading)  # noqa: B023

        won = run_episodes(act, backend, panel).success
        backend.close()
        touch, wrench, tcp = (np.stack(column, axis=1) for column in zip(*seen))
        t = task.control_dt * np.arange(touch.shape[1])
        for j, k in enumerate(ids):
            rows.append(one_clip(clips[k], felt[k], plans[j], rig, t, touch[j], wrench[j], tcp[j], gripper))
            rows[-1]["won"] = bool(won[j])
    return summary(rows)


def one_clip(
    clip: Clip, felt: WrenchTrack, plan: ToolTrajectory, rig: Rig, t: np.ndarray, touch: np.ndarray,
    wrench: np.ndarray, tcp: np.ndarray, gripper: Any,
) -> dict[str, Any]:  # fmt: skip
    """Onset by finger group, grip and wrench of one clip."""
    hand, dt = clip.hand, float(np.median(np.diff(clip.hand.t)))
    touching = hand.contact > 0.5
    phases = contact_phases(hand.t, touching, clip.thing.pose, moves=gripper.moves, turns=gripper.turns)
    row: dict[str, Any] = {"onset": {}, "press": {}}
    if plan.held is None or not phases:
        return row
    phase = next(p for p in phases if p.kind == "hold")
    begins = hand.t[phase.start] - hand.t[0]
    on_plan = plan.held[0]
    tips = thumb_side(rig, plan, hand, phase.start)
    for name, fingers, mine in (("thumb", [0], tips), ("fingers", [1, 2], ~tips)):
        runs = [a for a, b in contact_intervals(touching[:, fingers].any(axis=1)) if a <= phase.start + 1 < b + 1]
        if not runs:
            continue
        human = on_plan + float(hand.t[runs[-1]] - hand.t[0] - begins) - dt / 2
        for key, since in (("onset", human), ("press", on_plan)):
            row[key][name] = first_touch(t, touch[:, mine].max(axis=1), on_plan - EARLIEST) - since
    held = (t >= plan.held[0]) & (t <= plan.held[1])
    wanted, got = plan.at(t).force[held], touch.mean(axis=1)[held]
    row["grip"] = correlation(wanted, got)
    row["profile"] = float(wanted.std() / wanted.mean())
    row["peak"] = float(abs(got.max() - wanted.max()) / wanted.max())
    row["mean"] = float(abs(got.mean() - wanted.mean()) / wanted.mean())
    row["wanted"], row["got"] = wanted, got
    at = plan.at(t).clip[held]
    human = quat_rotate(hand.wrist_pose[:, 3:], felt.wrench[:, :3])
    row["human force"] = np.stack([np.interp(at, hand.t - hand.t[0], column) for column in human.T], axis=1)
    row["robot force"] = quat_rotate(tcp[held, 3:], wrench[held, :3])
    own, robot = accelerations(hand.t, hand.wrist_pose), accelerations(t, tcp)[held]
    row["slow"] = np.linalg.norm(robot, axis=1) < SLOW
    height = clip.thing.centre[:, 2] - clip.thing.centre[0, 2]
    row["air"] = np.interp(at, hand.t - hand.t[0], height) > LIFTED
    row["human inertia"] = np.concatenate([human, own], axis=1)[touching[:, 0]]
    row["robot inertia"] = np.concatenate([row["robot force"], robot], axis=1)
    row["up"] = correlation(row["human force"][:, 2], row["robot force"][:, 2])
    row["size"] = correlation(*(np.linalg.norm(row[f"{who} force"], axis=1) for who in ("human", "robot")))
    row["squeeze"] = correlation(np.linalg.norm(row["robot force"], axis=1), touch.sum(axis=1)[held])
    return row


def thumb_side(rig: Rig, plan: ToolTrajectory, hand: Any, frame: int) -> np.ndarray:
    """Which of the robot's fingertips takes the thumb's place: the one that lies nearest to where it comes from."""
    model = rig.end.model
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    sites = [int(model.sensor(name).objid[0]) for name in rig.end.touch]
    tool = data.site("tcp")
    places = (data.site_xpos[sites] - tool.xpos) @ tool.xmat.reshape(3, 3)
    grasp = plan.at(np.array([plan.held[0]])).tool[0]  # type: ignore[index]  # it holds
    tips = hand.joints[frame, 4::4]
    across = quat_rotate(quat_conjugate(grasp[3:]), tips[0] - tips[1:3].mean(axis=0))
    if np.allclose(places[:, :2], 0.0, atol=1e-3):  # pads that touch at rest: by the side on which they are
        places = np.stack([[0.0, s, 0.0] for s in (1.0, -1.0)])
    side = np.zeros(len(sites), dtype=bool)
    side[int((places[:, :2] @ across[:2]).argmax())] = True
    return side


def first_touch(t: np.ndarray, force: np.ndarray, since: float) -> float:
    """When a contact begins that lasts; not a number where none does [s]."""
    on = (force > TOUCHES) & (t >= since)
    runs = [a for a, b in contact_intervals(on) if b - a >= STEADY]
    return float(t[runs[0]] - 0.5 * (t[1] - t[0])) if runs else np.nan


def accelerations(t: np.ndarray, pose: np.ndarray) -> np.ndarray:
    """Of a frame's origin [m/s2]."""
    return np.gradient(np.gradient(pose[:, :3], t, axis=0), t, axis=0)


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Of two series; not a number where one does not vary."""
    return float(np.corrcoef(a, b)[0, 1]) if min(a.std(), b.std()) > 1e-9 else np.nan


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Percentiles over clips that succeed, and correlations of all their steps together."""
    found = [row for row in rows if row["won"] and "grip" in row]
    out: dict[str, Any] = {"clips": len(rows), "won": sum(row["won"] for row in rows)}
    for key in ("onset", "press"):
        for group in ("thumb", "fingers"):
            ms = 1000 * np.array([row[key][group] for row in found if group in row[key]])
            known = ms[np.isfinite(ms)]
            out[f"{key} {group}"] = {
                "never": int((~np.isfinite(ms)).sum()), "median": round(float(np.median(known))),
                "abs p50": round(float(np.median(np.abs(known)))),
                "abs p95": round(float(np.quantile(np.abs(known), 0.95))),
            }  # fmt: skip
    for key in ("grip", "profile", "peak", "mean", "up", "size", "squeeze"):
        values = np.array([row[key] for row in found])
        values = values[np.isfinite(values)]
        out[key] = [round(float(np.quantile(values, q)), 2) for q in (0.05, 0.5, 0.95)]
    join = lambda name: np.concatenate([row[name] for row in found])  # noqa: E731
    out["grip of all"] = round(correlation(join("wanted"), join("got")), 2)
    human, robot = join("human force"), join("robot force")
    out["up of all"] = round(correlation(human[:, 2], robot[:, 2]), 2)
    slow, air = join("slow"), join("air")
    out["up where slow"] = round(correlation(human[slow, 2], robot[slow, 2]), 2)
    out["up in the air"] = round(correlation(human[air, 2], robot[air, 2]), 2)
    out["up in the air, human and robot"] = [round(float(who[air, 2].mean()), 2) for who in (human, robot)]
    for who in ("human", "robot"):
        both = join(f"{who} inertia")
        out[f"{who} force by its own acceleration, r"] = [
            round(correlation(both[:, k], both[:, 3 + k]), 2) for k in range(3)
        ]
    out["human force, std"] = np.round(human.std(axis=0), 2).tolist()
    out["robot force, std"] = np.round(robot.std(axis=0), 2).tolist()
    return out


if __name__ == "__main__":
    main(*sys.argv[1:])
