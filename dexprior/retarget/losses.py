"""Contact-consistency losses: what a robot's gripper must keep of a human hand's motion.

All of them are plain functions of trajectories; none knows who estimated the hand. A parallel gripper holds an object
of width w. Commanded to an opening o, its pads touch when o reaches w, and then press with stiffness (w - o) / 2 each.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from dexprior.worlds.arm import PAD_STIFFNESS

__all__ = [
    "GRIPPER_SPEED",
    "clearance_loss",
    "contact_logit",
    "contact_timing_loss",
    "follow_gripper",
    "force_profile_loss",
    "grip_force",
    "limit_loss",
    "position_loss",
    "smoothness_loss",
]

GRIPPER_SPEED = 0.30
"""[m/s] fastest change of the opening that the built-in gripper follows."""
_CLEARANCE = 0.035  # [m] half the object's and half the pads' height, and some
_SOFT = 0.0015  # [m] width of the soft contact


def follow_gripper(commanded: Float[Tensor, "batch time"], dt: float) -> Float[Tensor, "batch time"]:
    """The opening that a gripper of limited speed reaches [m]: it cannot close at once, so it must start early.

    Below the object's width a command is a force and not a motion: `grip_force` takes it from the commanded opening.
    """
    opening, reach = commanded[:, 0], GRIPPER_SPEED * dt
    steps = [opening]
    for k in range(1, commanded.shape[1]):
        opening = opening + reach * torch.tanh((commanded[:, k] - opening) / reach)
        steps.append(opening)
    return torch.stack(steps, dim=1)


def contact_logit(opening: Float[Tensor, "batch time"], width: float) -> Float[Tensor, "batch time"]:
    """Log odds that the pads touch an object of that width [m] between them."""
    return (width - opening) / _SOFT


def grip_force(opening: Float[Tensor, "batch time"], width: float) -> Float[Tensor, "batch time"]:
    """Normal force of each pad [N] at a commanded opening."""
    return PAD_STIFFNESS * torch.nn.functional.softplus((width - opening) / 2, beta=4000.0)


def position_loss(
    tool: Float[Tensor, "batch time 3"],
    pinch: Float[Tensor, "batch time 3"],
    held: Float[Tensor, "batch time 3"],
    contact: Float[Tensor, "batch time"],
) -> Float[Tensor, ""]:
    """Distance of the tool to the hand's pinch before contact, and to where it must carry the object during it [cm2].

    Args:
        tool: tool centre point [m].
        pinch: middle between thumb and opposing fingers [m].
        held: tool position that keeps the object on its recorded path [m].
        contact: human contact in [0, 1].
    """
    c = contact[..., None]
    target = (1 - c) * pinch + c * held
    return (100 * (tool - target)).square().sum(-1).mean()


def clearance_loss(
    tool: Float[Tensor, "batch time 3"],
    held: Float[Tensor, "batch time 3"],
    contact: Float[Tensor, "batch time"],
) -> Float[Tensor, ""]:
    """How far open pads come below the object's top before they straddle it, squared [(5 mm)2].

    Human fingers reach around an object from the side; pads that are parallel and open would knock it over.

    Args:
        tool: tool centre point [m].
        held: where the tool holds the object [m].
        contact: human contact in [0, 1]; no clearance is asked for during it.
    """
    aside = (tool - held)[..., :2].norm(dim=-1)
    wanted = held[..., 2] + _CLEARANCE * ((aside - 0.004) / 0.010).clamp(0, 1)
    return (((wanted - tool[..., 2]) / 0.005).clamp(min=0).square() * (1 - contact)).mean()


def smoothness_loss(position: Float[Tensor, "batch time d"], dt: float) -> Float[Tensor, ""]:
    """Mean squared acceleration [(m/s2)^2 and the like]."""
    return (position.diff(n=2, dim=1) / dt**2).square().sum(-1).mean()


def contact_timing_loss(
    robot_logit: Float[Tensor, "batch time"], human: Float[Tensor, "batch time"]
) -> Float[Tensor, ""]:
    """Cross-entropy between who touches when: log odds of the robot's contact against the human's contact."""
    return torch.nn.functional.binary_cross_entropy_with_logits(robot_logit, human)


def force_profile_loss(
    robot: Float[Tensor, "batch time"],
    human: Float[Tensor, "batch time"],
    contact: Float[Tensor, "batch time"],
) -> Float[Tensor, ""]:
    """Mean relative squared difference of normal forces while the human touches [1]."""
    scale = human.max(dim=1, keepdim=True).values.clamp(min=0.5)
    error = ((robot - human) / scale).square() * contact
    return error.sum() / contact.sum().clamp(min=1.0)


def limit_loss(
    tool: Float[Tensor, "batch time 3"],
    opening: Float[Tensor, "batch time"],
    *,
    dt: float,
    max_speed: float,
    max_opening: float,
    floor: float,
) -> Float[Tensor, ""]:
    """How far speed, opening and height leave their limits, squared, in units of the limits' scale."""
    speed = tool.diff(dim=1).norm(dim=-1) / dt
    fast = (speed / max_speed - 1).clamp(min=0)
    wide = ((opening - max_opening) / 0.01).clamp(min=0) + (-opening / 0.01).clamp(min=0)
    low = ((floor - tool[..., 2]) / 0.005).clamp(min=0)
    return fast.square().mean() + wide.square().mean() + low.square().mean()
