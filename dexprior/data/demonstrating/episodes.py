"""What makes an episode of a rolled-out demonstration and its film."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float32, UInt8

from dexprior.data.contacts import CONTACT_OFF, CONTACT_ON, contact_schedule
from dexprior.data.demonstrating.conditions import frame_before
from dexprior.data.demonstrating.surfaces import local_cloud, scene_cloud
from dexprior.data.objects import rigid_object
from dexprior.geometry.sampling import farthest_points
from dexprior.geometry.timing import hysteresis
from dexprior.hands.mano import contact_configuration
from dexprior.hands.skeleton import forward
from dexprior.robots.human_hand import finger_pose_from_hinges
from dexprior.types import TRACKS, Episode, HandTrajectory, ObjectTrajectory, PriorCondition, VideoSample, WrenchTrack
from dexprior.types.episode import View
from dexprior.worlds.human_rig import wrist_from_gantry
from dexprior.worlds.tasks import Task
from dexprior.worlds.tasks.scene import camera
from dexprior.worlds.tasks.strategies import Rollout

__all__ = ["episode_of"]


def episode_of(
    task: Task,
    rollout: Rollout,
    world: int,
    colour: Mapping[str, UInt8[np.ndarray, "time size size 3"]],
    depth: Mapping[str, Float32[np.ndarray, "time size size"]],
    *,
    text: str,
    points: int,
    info: Mapping[str, Any],
) -> Episode:
    """One world's demonstration.

    The hand starts where the first frame shows it; the target is the last frame before the plan opens the fingers for
    good, or the last of all.

    Args:
        task: in which it was done.
        rollout: of all worlds.
        world: whose it is.
        colour: frames by camera; the first one is the sample's own, the others become views.
        depth: by camera [m].
        text: the sentence.
        points: in the object cloud.
        info: plain data that goes into the episode's `info`.
    """
    wrist = wrist_from_gantry(rollout.arm[:, world])
    fingers = finger_pose_from_hinges(rollout.hinges[:, world])
    n = len(rollout.t)
    touching = hysteresis(rollout.touch[:, world], on=CONTACT_ON, off=CONTACT_OFF)
    hand = HandTrajectory(
        t=rollout.t,
        side="right",
        wrist_pose=wrist,
        finger_pose=fingers,
        betas=np.zeros(10),
        joints=forward(wrist, fingers),
        contact=touching.astype(np.float64),
        force=rollout.touch[:, world],
        valid=np.ones(n, dtype=bool),
        sigma=np.zeros((n, 21)),
        scale_known=True,
    )
    part, matter, pose = task.manipulated, rollout.cloud[:, world], rollout.object[:, world]
    if part.soft:
        followed = farthest_points(matter[0], TRACKS)
        thing = ObjectTrajectory(
            object=part.name, t=rollout.t, points=matter[:, followed], valid=np.ones(n, dtype=bool)
        )
    else:
        local = local_cloud(task, part.name, points)[:, :3]
        thing = rigid_object(part.name, rollout.t, pose, local=local)
    (main, frames), *others = colour.items()
    size = frames.shape[1]
    cloud, moves = scene_cloud(task, pose[0], rollout.fixed[world], matter[0], points)
    fps = float(1.0 / (rollout.t[1] - rollout.t[0]))
    target = frame_before(float(rollout.held_until[world]), fps)
    condition = PriorCondition(
        cloud=cloud,
        moves=moves,
        points=thing.points[0],
        start=(contact_configuration(hand, 0),),
        target=(contact_configuration(hand, target),),
        target_at=target / fps,
        seconds=n / fps,
        camera=camera(main, size),
        text=text,
        pose=None if part.soft else pose[0],
        goal=rollout.fixed[world, 0] if rollout.fixed.shape[1] else None,
    )
    sample = VideoSample(
        frames=frames,
        fps=fps,
        camera=camera(main, size),
        hands=(hand,),
        object=thing,
        contact=contact_schedule([hand], thing),
        provenance={"source": "demonstration", "seed": info["seed"], "world": task.reality.name},
    )
    views = [
        View(name=name, camera=camera(name, size), frames=pixels, depth=depth.get(name)) for name, pixels in others
    ]
    if main in depth:
        views.append(View(name=f"{main}_depth", camera=camera(main, size), depth=depth[main]))
    wrench = WrenchTrack(t=rollout.t, wrench=rollout.wrench[:, world], tared=True, gravity_compensated=True)
    success = bool(rollout.success[world])
    return Episode(
        sample=sample, condition=condition, wrench=wrench, views=tuple(views),
        info={"task": task.name, "success": success, **info},
    )  # fmt: skip
