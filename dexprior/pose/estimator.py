"""A small pose estimator: a clip, and what is handled in it -> the hand and the object over time, in metres in the base
frame.

A convolutional encoder per frame, temporal convolutions over neighbouring frames. It is told the camera, by the ray of
each pixel, the object's points at the start, as numbers and drawn into each frame, and what a condition says of the
clip's ends (`dexprior.pose.told`). Hand and object lie where the rays of the cameras on which they are seen meet, so
that the calibration puts them into the base frame, and are drawn from there to what is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor, nn

from dexprior.artifacts import load_network, save_module
from dexprior.config import Ge, Gt, Le, config
from dexprior.data.objects import followed_object
from dexprior.data.stacks import resized
from dexprior.errors import BadInput
from dexprior.geometry.rotations import quat_from_matrix
from dexprior.geometry.torch_camera import camera_rows, project, rays, splat
from dexprior.geometry.torch_rotations import matrix_from_axis_angle as torch_from_axis_angle
from dexprior.geometry.torch_rotations import matrix_from_rot6d as torch_from_rot6d
from dexprior.geometry.torch_rotations import rot6d_from_matrix
from dexprior.hands.skeleton import forward, forward_torch
from dexprior.pose.told import Rest, single, what_is_told
from dexprior.types import Camera, HandTrajectory, ObjectTrajectory, PriorCondition, Side
from dexprior.types.episode import View

__all__ = [
    "EstimatorConfig",
    "PoseEstimator",
    "estimate",
    "load_estimator",
    "save_estimator",
]

SCHEMA = "dexprior.pose_estimator/3"


@config
class EstimatorConfig:
    """The estimator and its training."""

    side: Side = "right"
    """Side of the hand that it reads."""
    size: Annotated[int, Ge(16)] = 48
    """Width and height of its input [px]."""
    channels: Annotated[int, Ge(4)] = 32
    """Channels of the first layer; the others have two and three times as many."""
    width: Annotated[int, Ge(16)] = 160
    """Width of the temporal layers."""
    steps: Annotated[int, Ge(1)] = 1000
    """Optimisation steps."""
    clips: Annotated[int, Ge(1)] = 8
    """Clips in a step."""
    window: Annotated[int, Ge(1)] = 8
    """Consecutive frames of each."""
    learning_rate: Annotated[float, Gt(0)] = 1e-3
    """Peak of the one-cycle schedule."""
    noise: Annotated[float, Ge(0), Le(1)] = 0.06
    """Largest standard deviation of the pixel noise added in training (pixels range over 1)."""
    blur: Annotated[float, Ge(0), Le(1)] = 0.7
    """Share of windows that are blurred in training."""
    crop: Annotated[float, Ge(0), Le(0.9)] = 0.1
    """Largest share of width and height that windows lose in training: other focal lengths and centres."""
    hidden: Annotated[float, Ge(0), Le(1)] = 0.3
    """Share of windows in which a part of the picture is hidden in training."""
    dropped: Annotated[float, Ge(0), Le(0.9)] = 0.05
    """Share of frames in training that repeat the one before."""
    samples: Annotated[int, Ge(0)] = 96
    """Samples of the prior that it learns from beside demonstrations, where there is a prior."""
    untold: Annotated[float, Ge(0), Le(1)] = 0.15
    """Share of windows in training that are not told where the object ends, and likewise how the hand starts and how it
    lets go: as where nobody knows it."""
    checkpoint_every: Annotated[int, Ge(1)] = 100
    """Steps between checkpoints."""

    def __post_init__(self) -> None:
        for name, value, divisor in (("size", self.size, 8), ("channels", self.channels, 2)):
            if value % divisor:
                raise BadInput(f"estimator.{name} = {value}: must be a multiple of {divisor}")


MOVED = 0.003
"""How far from the start an object has moved [m]."""
WITHIN = 0.68
"""Share of errors that one claimed standard deviation covers."""
_HEADS = {
    "wrist": 3, "rotation": 6, "fingers": 45, "contact": 5, "force": 5, "way": 3, "turn": 6, "moved": 1, "height": 2,
    "resting": 3, "starting": 4, "holding": 4, "carried": 3, "log_sigma": 3 * 21,
}  # fmt: skip
_JOINTS = 21
_NEAR = 0.1  # [m] in which positions relative to the object are told and predicted
_FAR = 10.0  # times as far away, at most
_BESIDE = 0.01  # [m] from a known place, at which what is read counts as half there
_DRAWN = 0.02  # width of a point of the object as a share of the image
_LEVEL, _NEAREST = 0.05, 0.002  # how much height and nearness count beside a camera's rays
_OF_GATE = {"resting": "rest", "starting": "start", "holding": "target", "carried": "taken"}
_KNOWN = ("rest", "start", "target", "taken")
_SHUT = 0.1  # of a gate, below which it is shut, and above the rest of which it is open
_ALOOF = 2.0  # by which gates are nearer to closed before anything was learned


class PoseEstimator(nn.Module):
    """Frames of one camera or more, these, and the object at the start -> hand and object in the base frame, contact,
    force, uncertainty.

    Where joints and the object's centre are in a picture is the mean place under a map of each. Hand and object lie
    where the rays of all cameras meet; one camera leaves their depth to how high they are said to be above the object's
    start. How they are turned and bent comes from the whole pictures and the frames around. From there both are drawn
    to places that are told: the object to its start and to its rest, the hand to its start, to its target, and to where
    the object carries it that it holds as it does at the target. Gates say how far, frame by frame: along the level, up
    and down, in turn, and for fingers; where a place is not known, not at all. All this is done in a frame at the
    object's start, upright and turned as the first camera looks, so that it turns and moves with the scene.
    """

    finger_mean: Tensor
    claim: Tensor
    """What claimed standard deviations are multiplied by along the level, twice, and up and down, so that two thirds of
    the errors lie within one."""
    motion_sigma: Tensor
    """Standard deviation of a coordinate of the prior's motion stream, as far as its samples tell [m]."""

    def __init__(self, config: EstimatorConfig) -> None:
        super().__init__()
        c, w = config.channels, config.width
        self.config = config
        self.enter = nn.Sequential(nn.Conv2d(3 + 3 + 1, c, 5, stride=2, padding=2), nn.SiLU())
        self.fine = _block(c, c)
        self.middle = _block(c, 2 * c, stride=2)
        self.coarse = nn.Sequential(_block(2 * c, 2 * c, stride=2), _block(2 * c, 2 * c))
        self.whole = nn.Sequential(nn.Flatten(), nn.Linear(2 * c * (config.size // 8) ** 2, w), nn.SiLU())
        self.grow = nn.ModuleList([nn.Conv2d(2 * c, 2 * c, 1), nn.Conv2d(2 * c, c, 1)])
        self.merge = _block(c, c)
        self.maps = nn.Conv2d(c, _JOINTS + 1, 1)
        self.point = nn.Sequential(nn.Linear(3, w // 2), nn.SiLU(), nn.Linear(w // 2, w // 2))
        self.object = nn.Linear(w, w)
        self.places = nn.Linear(3 * (_JOINTS + 2), w)
        self.rest = Rest()
        self.met = nn.Linear(3 * (_JOINTS + 1) + 7 * (len(_KNOWN) + 1), w)
        self.join = nn.Sequential(nn.SiLU(), nn.Linear(w, w), nn.SiLU())
        self.time = nn.ModuleList([nn.Conv1d(w, w, 7, padding=3, padding_mode="replicate") for _ in range(2)])
        self.head = nn.Linear(w, sum(_HEADS.values()))
        nn.init.normal_(self.head.weight, std=0.01)
        self.register_buffer("finger_mean", torch.zeros(45))
        self.register_buffer("claim", torch.ones(3))
        self.register_buffer("motion_sigma", torch.tensor(0.0015))

    def forward(
        self,
        frames: Float[Tensor, "batch view time 3 size size"],
        camera: Float[Tensor, "batch view time 16"],
        told: dict[str, Tensor],
    ) -> dict[str, Tensor]:
        """Predictions in the base frame, contact as logits, force as log(1 + N), `seen` as x and y at a depth of one;
        the logarithms of claimed deviations are along the `axes`, rows of (batch, 3, 3).

        Args:
            frames: in [0, 1].
            camera: as `camera_rows` gives it.
            told: as `what_is_told` gives it.
        """
        b, views, t, _, size, _ = frames.shape
        points = told["points"]
        origin, base = points.mean(dim=1), _upright_frame(camera[:, 0, 0])
        T = camera[..., 4:].unflatten(-1, (3, 4))
        turn = torch.einsum("bij,bvtik->bvtjk", base, T[..., :3])  # camera -> the scene's frame
        eye = torch.einsum("bij,bvti->bvtj", base, T[..., 3] - origin[:, None, None])
        looks = rays(camera, size)
        ahead = torch.einsum("bvtij,bvtjyx->bvtiyx", turn, looks)
        rest = points[:, None, None].expand(-1, views, t, -1, -1).flatten(0, 1)
        drawn = splat(project(camera.flatten(0, 1), rest), size, _DRAWN).unflatten(0, (b, views))
        seen = torch.cat([frames - 0.5, ahead, drawn[:, :, :, None]], dim=3).flatten(0, 2)
        seen = seen.contiguous(memory_format=torch.channels_last)  # on a CPU convolutions then take less time
        fine = self.fine(self.enter(seen))
        middle = self.middle(fine)
        coarse = self.coarse(middle)
        up = nn.functional.interpolate(self.grow[0](coarse), scale_factor=2.0) + middle
        up = nn.functional.interpolate(self.grow[1](up), scale_factor=2.0) + fine
        weight = self.maps(self.merge(up)).flatten(2).softmax(-1)
        halved = nn.functional.avg_pool2d(looks.flatten(0, 2), 2).flatten(2)
        found = torch.einsum("nkp,nip->nki", weight, halved).unflatten(0, (b, views, t))
        toward = torch.einsum("bvtij,bvtkj->bvtki", turn, found)

        def inside(places: Float[Tensor, "batch n 3"]) -> Float[Tensor, "batch n 3"]:
            return torch.einsum("bij,bni->bnj", base, places - origin[:, None])

        local, known = inside(points), self._known(told, inside, base)
        each = self.point(local / _NEAR)
        about = self.object(torch.cat([each.amax(1), each.mean(1)], dim=-1))[:, None, None]
        placed = self.places(torch.cat([toward, eye[..., None, :]], dim=-2).flatten(-2))
        h = (self.whole(coarse).unflatten(0, (b, views, t)) + placed + about).mean(dim=1)
        h = self.join(h + self._beside(_meet_each(eye, toward), known)).transpose(1, 2)
        for layer in self.time:
            h = h + nn.functional.silu(layer(h))
        out = dict(zip(_HEADS, self.head(h.transpose(1, 2)).split(list(_HEADS.values()), -1)))
        gates = {
            name: _gate(out[name], learns=self.training) * known[where][1][:, None, None]
            for name, where in _OF_GATE.items()
        }
        upright = torch.tensor([1.0, 0, 0, 0, 1, 0], device=frames.device)
        local = local[:, None]
        # the object, on its way
        there = _meet(eye, toward[..., -1:, :], torch.zeros_like(local[..., :1, :]), _NEAR * out["height"][..., 1:])
        (end, end_turn), gate = known["rest"][0], gates["resting"]
        there = _drawn_to(there + 0.1 * _NEAR * out["way"], end, gate)
        turned = _turned(torch_from_rot6d(upright + out["turn"]), end_turn[:, None], gate[..., 2:3])
        moves = out["moved"].sigmoid()[..., None]  # what nobody moved is where it was
        moved = torch.einsum("btij,btnj->btni", turned, local.expand(-1, t, -1, -1)) + there[:, :, None]
        # the hand, by itself, and with the object
        fingers, matrix = out["fingers"] * 0.3 + self.finger_mean, torch_from_rot6d(out["rotation"] + upright)
        places = []
        for name, gate in (("start", gates["starting"]), ("target", gates["holding"])):
            place, its_turn, bend = known[name][0]
            fingers = fingers + gate[..., 3:] * (bend[:, None] - fingers)
            matrix = _turned(matrix, its_turn[:, None], gate[..., 2:3])
            places.append((place, gate))
        (place, its_turn, _), gate = known["taken"][0], gates["carried"]
        since = _turned(torch.eye(3, device=frames.device), turned, moves[..., 0])
        matrix = _turned(matrix, since @ its_turn[:, None], gate[..., 2:3])
        places.append((moves[..., 0] * there + torch.einsum("btij,bj->bti", since, place), gate))
        bent = torch_from_axis_angle(fingers.unflatten(-1, (15, 3)))
        joints = forward_torch(torch.zeros_like(out["wrist"]), matrix, bent, self.config.side)
        wrist = _meet(eye, toward[..., :-1, :], joints, _NEAR * out["height"][..., :1]) + 0.1 * _NEAR * out["wrist"]
        for place, gate in places:
            wrist = _drawn_to(wrist, place, gate)
        joints = joints + wrist[..., None, :]

        def back(x: Tensor) -> Tensor:
            return torch.einsum("bij,btnj->btni", base, x) + origin[:, None, None]

        joints, thing = back(joints), back(moves * moved + (1 - moves) * local)
        return {
            "matrix": torch.einsum("bij,btjk->btik", base, matrix),
            "fingers": fingers,
            "joints": joints,
            "seen": found[..., :2],
            "contact": out["contact"],
            "force": out["force"],
            "moved": out["moved"][..., 0],
            "points": thing,
            "log_sigma": out["log_sigma"].unflatten(-1, (_JOINTS, 3)).clamp(-4, 4) - 4.6,  # around 10 mm
            "axes": base.transpose(-1, -2),
        }

    def _known(
        self,
        told: dict[str, Tensor],
        inside: Callable[[Tensor], Tensor],
        base: Float[Tensor, "batch 3 3"],
    ) -> dict[str, tuple[tuple[Tensor, ...], Bool[Tensor, " batch"]]]:
        """Places of the object's centre and of the wrist in the scene's frame, how these are turned and fingers bent,
        and whether they are known; `taken` is the hand that has the object at its start as it has it at the target."""
        points, turn = self.rest(told)
        rests, shown = self.rest.knows(told), told["shown"]
        wrist, matrix, fingers = (
            inside(told["wrist"]),
            base[:, None].transpose(-1, -2) @ told["matrix"],
            told["fingers"],
        )
        end, turn = inside(points).mean(dim=1), base.transpose(-1, -2) @ turn @ base
        back = turn.transpose(-1, -2)  # the object starts at the origin
        taken = torch.einsum("bij,bj->bi", back, wrist[:, 1] - end), back @ matrix[:, 1], fingers[:, 1]
        return {
            "rest": ((end, turn), rests),
            "start": ((wrist[:, 0], matrix[:, 0], fingers[:, 0]), shown[:, 0]),
            "target": ((wrist[:, 1], matrix[:, 1], fingers[:, 1]), shown[:, 1]),
            "taken": (taken, rests & shown[:, 1]),
        }

    def _beside(
        self, alone: Float[Tensor, "batch time 22 3"], known: dict[str, tuple[tuple[Tensor, ...], Tensor]]
    ) -> Float[Tensor, "batch time width"]:
        """Where the rays of each joint and of the object's centre meet by themselves, and how far that is from known
        places, and from where the object has the hand at its rest."""
        which = torch.stack([known[name][1] for name in (*_KNOWN, "taken")], dim=1).to(alone)[:, None, :, None]
        places = torch.stack([known[name][0][0] for name in _KNOWN], dim=1)[:, None] - alone[:, :, [-1, 0, 0, 0]]
        held = alone[:, :, -1] - alone[:, :, 0] + (known["target"][0][0] - known["rest"][0][0])[:, None]
        gap = which * torch.cat([places, held[:, :, None]], dim=2)
        near = gap / (gap.norm(dim=-1, keepdim=True) + _BESIDE)
        parts = ((alone / _NEAR).clamp(-_FAR, _FAR), gap / _NEAR, near, which.expand(-1, alone.shape[1], -1, -1))
        return self.met(torch.cat([part.flatten(2) for part in parts], dim=-1))


def _block(into: int, out: int, *, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(into, out, 3, stride=stride, padding=1), nn.GroupNorm(4, out), nn.SiLU())


def _upright_frame(camera: Float[Tensor, "batch 16"]) -> Float[Tensor, "batch 3 3"]:
    """Axes, as columns, of a frame with the base's z, whose x is where a camera looks, as seen from above."""
    ahead = camera[:, 4:].unflatten(-1, (3, 4))[:, :2, 2]
    ahead = ahead / ahead.norm(dim=-1, keepdim=True).clamp(min=1e-6)
    x, y, none = ahead[:, 0], ahead[:, 1], torch.zeros_like(ahead[:, 0])
    return torch.stack([x, -y, none, y, x, none, none, none, none + 1], dim=-1).unflatten(-1, (3, 3))


def _meet(
    eye: Float[Tensor, "batch view time 3"],
    toward: Float[Tensor, "batch view time point 3"],
    offset: Float[Tensor, "batch time point 3"],
    height: Float[Tensor, "batch time 1"],
) -> Float[Tensor, "batch time 3"]:
    """The place whose points, at an offset from it, lie nearest to the rays on which they are seen.

    What rays leave open, as the depth that one camera sees, is settled by a height, and that by nearness to the origin.

    Args:
        eye: where rays begin.
        toward: their directions, of any length.
        offset: of each point from the place.
        height: wanted of the place.
    """
    along = nn.functional.normalize(toward, dim=-1)
    across = torch.eye(3, device=eye.device) - along[..., :, None] * along[..., None, :]
    gap = eye[..., None, :] - offset[:, None]
    up = torch.tensor([0.0, 0.0, 1.0], device=eye.device)
    left = across.mean(dim=3).sum(dim=1) + _LEVEL * torch.diag(up) + _NEAREST * torch.eye(3, device=eye.device)
    right = (across @ gap[..., None])[..., 0].mean(dim=3).sum(dim=1) + _LEVEL * up * height
    return torch.linalg.solve(left, right)


def _meet_each(
    eye: Float[Tensor, "batch view time 3"], toward: Float[Tensor, "batch view time point 3"]
) -> Float[Tensor, "batch time point 3"]:
    """Where the rays of each point meet, at the height of the origin where they leave that open."""
    points = toward.shape[3]
    one = toward.movedim(3, 1).flatten(0, 1)[..., None, :]
    offset, height = torch.zeros_like(one[:, 0]), torch.zeros_like(one[:, 0, :, 0, :1])
    return _meet(eye.repeat_interleave(points, 0), one, offset, height).unflatten(0, (-1, points)).movedim(1, 2)


def _gate(value: Tensor, *, learns: bool) -> Tensor:
    """A number in [0, 1] for any: where it is read, both ends are reached, as what is nearly known is known; while it
    learns they are not, as nothing is learned there."""
    share = (value - _ALOOF).sigmoid()
    return share if learns else ((1 + 2 * _SHUT) * share - _SHUT).clamp(0, 1)


def _drawn_to(
    read: Float[Tensor, "batch time 3"], known: Float[Tensor, "batch *time 3"], gate: Float[Tensor, "batch time gate"]
) -> Float[Tensor, "batch time 3"]:
    """A place between what is read and what is known: along the level by the first gate, up and down by the second."""
    known = known if known.ndim == 3 else known[:, None]
    return read + gate[..., [0, 0, 1]] * (known - read)


def _turned(
    read: Float[Tensor, "*batch 3 3"], known: Float[Tensor, "batch *time 3 3"], gate: Float[Tensor, "batch time 1"]
) -> Float[Tensor, "batch time 3 3"]:
    """An orientation between what is read and what is known."""
    first, last = rot6d_from_matrix(read), rot6d_from_matrix(known)
    return torch_from_rot6d(first + gate * (last - first))


@torch.no_grad()
def estimate(
    model: PoseEstimator,
    frames: UInt8[np.ndarray, "time height width 3"],
    camera: Camera,
    fps: float,
    condition: PriorCondition,
    views: Sequence[View] = (),
) -> tuple[HandTrajectory, ObjectTrajectory]:
    """What a clip shows: its hand of the model's side, and the object.

    Args:
        model: trained.
        frames: RGB, of any size; the whole picture is shrunk to the model's.
        camera: calibrated, with any intrinsics; it has a pose in each frame where it moves.
        fps: frames a second.
        condition: where the object is at the start, by its points, and by its pose unless it deforms; where the part
            stands that it is brought to, and how the hand starts and is about to let go, where that is known. Its
            sentence and its times are not looked at.
        views: what further cameras saw at the same times.

    Raises:
        BadInput: no frames, or of another shape, or another number of them in a view, or a camera with poses for
            another number of frames.
    """
    n, seen = len(frames), []
    for what, clip, eye in (("the clip", frames, camera), *((f"view {v.name!r}", v.frames, v.camera) for v in views)):
        if clip is None or clip.ndim != 4 or clip.shape[3] != 3 or len(clip) != n or not n:
            shape = None if clip is None else clip.shape
            raise BadInput(f"{what}: frames of shape {shape}; an estimator reads (time, height, width, 3), one rate")
        eye.check_frames(n, what)
        seen.append((resized(clip, model.config.size), camera_rows(eye, n)))
    pixels, cameras = (single(np.stack(rows)) for rows in zip(*seen))
    told = what_is_told([condition], model.config.side)
    out = model(pixels.permute(0, 1, 4, 2, 3)[None] / 255, cameras[None], told)
    found = {name: value[0].double().numpy() for name, value in out.items()}
    wrist_pose = np.concatenate([found["joints"][:, 0], quat_from_matrix(found["matrix"])], axis=1)
    t = np.arange(n) / fps
    hand = HandTrajectory(
        t=t,
        side=model.config.side,
        wrist_pose=wrist_pose,
        finger_pose=found["fingers"],
        betas=np.zeros(10),
        joints=forward(wrist_pose, found["fingers"], side=model.config.side),
        contact=1 / (1 + np.exp(-found["contact"])),
        force=np.maximum(np.expm1(np.clip(found["force"], 0, 6)), 0),
        valid=np.ones(n, dtype=bool),
        sigma=model.claim.numpy() * np.sqrt(np.exp(2 * found["log_sigma"]) @ np.square(found["axes"])),
        scale_known=True,
    )
    return hand, followed_object(t, found["points"], condition)


def save_estimator(model: PoseEstimator, path: Path, *, seed: int) -> Path:
    """Write a checkpoint."""
    return save_module(model, path, schema=SCHEMA, producer="pose.training", config=model.config, seed=seed)


def load_estimator(path: str | Path) -> PoseEstimator:
    """Read a checkpoint.

    Raises:
        ArtifactError: missing, damaged, or of another schema.
    """
    return load_network(path, schema=SCHEMA, config=EstimatorConfig, network=PoseEstimator)
