"""Does the simulated robot touch when the human did? Replays retargeted clips in MuJoCo and compares onsets."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from dexprior.data.stacks import Stack
from dexprior.geometry.timing import resample
from dexprior.retarget.network import human_contact
from dexprior.stats import bootstrap_mean
from dexprior.types import JointTrajectory
from dexprior.worlds.arm import ARM_JOINTS, MAX_OPENING
from dexprior.worlds.insertion import TRAINING_FAMILY, InsertionConfig
from dexprior.worlds.tasks import Insertion, TaskWorlds

__all__ = ["replay_onsets"]

_SETTLE = 0.4  # [s] the arm holds the first pose before the clip starts
_TOUCH = 0.3  # [N]
_TICK = 0.008  # [s] two steps of the simulator


def replay_onsets(
    trajectories: list[JointTrajectory],
    openings: list[Float[np.ndarray, " time"]],
    stack: Stack,
    world: InsertionConfig,
    *,
    grip_gain: float,
) -> dict[str, Any]:
    """Replay clips open loop in the training simulator's nominal world.

    Joint targets follow the trajectory at 125 Hz; the onset is the first tick at which both pads press on the nut. The
    human's onset is the first frame at which thumb and an opposing finger do.

    Args:
        trajectories, openings: retargeted clips of `stack`, in its order.
        grip_gain: wanted pad force as a multiple of the human's thumb force.

    Returns:
        Absolute onset error and its bias [ms], how many clips touched, and the median relative error of the grip force
        while both press.
    """
    n = len(trajectories)
    worlds = TaskWorlds(Insertion(world), n, family=TRAINING_FAMILY)
    middle = {p.name: float(np.sqrt(p.low * p.high)) if p.low > 0 else 0.0 for p in TRAINING_FAMILY.parameters}
    nut, bolt, yaw = (np.array([row[name] for row in stack.info]) for name in ("nut", "bolt", "nut_yaw"))
    worlds.reset(np.arange(n), {"nut": nut, "yaw": yaw, "bolt": bolt}, [middle] * n)
    joints = np.stack([tr.q[:, : len(ARM_JOINTS)] for tr in trajectories])
    pads = np.clip(np.stack(openings), 0.0, MAX_OPENING)[..., None].repeat(2, axis=-1) / 2
    t = trajectories[0].t
    substeps = round(_TICK / world.timestep)
    tick = substeps * world.timestep
    duration = float(t[-1])
    lift = worlds.state()[0].q
    onset = np.full(n, np.nan)
    force = np.zeros((round(duration / tick) + 1, n))
    for k in range(round(_SETTLE / tick)):
        u = min(1.0, 1.5 * (k + 1) * tick / _SETTLE)
        worlds.follow((1 - u) * lift + u * joints[:, 0], pads[:, 0], steps=substeps)
    for k in range(len(force)):
        now = np.array([k * tick])
        q = np.stack([resample(now, t, row)[0] for row in joints])
        worlds.follow(q, np.stack([resample(now, t, row)[0] for row in pads]), steps=substeps)
        touch = worlds.state()[0].touch
        force[k] = touch.min(axis=1)
        first = np.isnan(onset) & (touch > _TOUCH).all(axis=1)
        onset[first] = (k + 1) * tick
    holds, thumb = human_contact(stack.contact, stack.force)
    human = np.array([h.argmax() / stack.fps if h.any() else np.nan for h in holds > 0.5])
    both = ~np.isnan(onset) & ~np.isnan(human)
    error = 1000 * (onset - human)[both]
    wanted = grip_gain * np.stack([np.interp(np.arange(len(force)) * tick, t, f) for f in thumb], axis=1)
    pressing = (wanted > 1.0) & (np.arange(len(force))[:, None] * tick > onset)
    relative = np.abs(force - wanted)[pressing] / wanted[pressing]
    result: dict[str, Any] = {"clips": n, "touched": int(both.sum())}
    if both.any():
        mean, low, high = bootstrap_mean(np.abs(error))
        result |= {
            "onset_error_ms": {
                "mean": mean,
                "low": low,
                "high": high,
                "median": float(np.median(np.abs(error))),
            },
            "onset_bias_ms": float(error.mean()),
            "grip_force_relative_error": float(np.median(relative)) if relative.size else None,
        }
    return result
