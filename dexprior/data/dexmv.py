"""DexMV's published example (Qin et al. 2022): a hand moves a bottle, as MANO parameters and object poses.

Two cameras recorded it. The hand is given in one camera's frame and the object in the other's; `examples/
visualize_retargeting.py` of the original repository holds the transform between them. Without it the fingers
seem to pass 60-130 mm beside the bottle, and to move away from it as it is carried; with it they close around
its axis, within the 10-20 mm that monocular estimates of hand and object err.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float

from dexprior.data.objects import rigid_object
from dexprior.errors import BadInput
from dexprior.geometry.rotations import matrix_from_quat, quat_from_matrix
from dexprior.geometry.timing import hysteresis
from dexprior.geometry.transforms import invert_pose, pose_from_matrix, pose_multiply, transform_points
from dexprior.reading import numbers, read_npz
from dexprior.types import HandTrajectory, ObjectTrajectory

__all__ = ["BOTTLE_HALF_SIZE", "T_OBJECTCAM_HANDCAM", "read_dexmv"]

T_OBJECTCAM_HANDCAM = np.array(
    [
        [-0.0178, -0.7087, -0.7053, 0.4976],
        [0.7386, 0.4662, -0.4870, 0.3935],
        [0.6739, -0.5296, 0.5151, 0.3154],
        [0.0, 0.0, 0.0, 1.0],
    ]
)
"""The hand's camera seen from the object's (a checkerboard's calibration, rounded to four digits) [m]."""

BOTTLE_HALF_SIZE = (0.048, 0.029, 0.095)
"""Half extents of the mustard bottle (YCB object 006), its origin at the centre, z along its height [m]."""

_FPS = 25.0  # `collect_time_step` in the original's relocation_demo.py
_STILL = slice(10, 60)  # frames before the bottle moves; the original skips the first ten as badly estimated
_TOUCH_ON, _TOUCH_OFF = 0.055, 0.065  # [m] distance of a fingertip from the bottle's axis
_SHAPES = {"joints": (21, 3), "mano": (61,), "hand_transforms": (16, 4, 4), "object_T_cam": (3, 4)}


def read_dexmv(path: str | Path) -> tuple[HandTrajectory, ObjectTrajectory]:
    """The hand and the bottle, frame by frame, in a base frame with z up.

    Base frame: origin at the bottle's first position; z along the standing bottle's axis; x horizontal, from
    the hand's first position towards the bottle. The bottle's turn about its own axis jumps in the record, as
    it looks the same from two sides: do not read a spin from it.

    The record has no contact. A finger counts as touching here while its tip is near the bottle's axis (below
    55 mm, until 65 mm, and between top and bottom): an estimate, as good as the poses.

    Args:
        path: `dexmv_mustard.npz` with `joints` (time, 21, 3), `mano` (time, 61: wrist and finger axis-angle,
            shape, translation), `hand_transforms` (time, 16, 4, 4: wrist, then thumb to little finger),
            `object_T_cam`, and the frame numbers `hand_frame` and `object_frame`.

    Raises:
        BadInput: no such file, a missing or misshapen field, or no frame that both tracks have.
    """
    raw = _read(Path(path))
    frames, at_hand, at_object = np.intersect1d(raw["hand_frame"], raw["object_frame"], return_indices=True)
    if len(frames) < 2:
        raise BadInput(f"{path}: hand and object share {len(frames)} frames; expected at least two")
    joints = raw["joints"][at_hand].astype(np.float64)
    mano = raw["mano"][at_hand].astype(np.float64)
    R_cam_wrist = raw["hand_transforms"][at_hand, 0, :3, :3].astype(np.float64)
    wrist = np.concatenate([joints[:, 0], quat_from_matrix(R_cam_wrist)], axis=1)
    object_pose = pose_multiply(
        invert_pose(pose_from_matrix(_orthonormal(T_OBJECTCAM_HANDCAM))),
        _poses(raw["object_T_cam"][at_object].astype(np.float64)),
    )
    base = _base_frame(object_pose, wrist)  # seen from the hand's camera
    to_base = invert_pose(base)
    wrist, object_pose = pose_multiply(to_base, wrist), pose_multiply(to_base, object_pose)
    joints = transform_points(to_base, joints.reshape(-1, 3)).reshape(joints.shape)
    n, t = len(frames), (frames - frames[0]) / _FPS
    hand = HandTrajectory(
        t=t,
        side="right",
        wrist_pose=wrist,
        finger_pose=mano[:, 3:48],
        betas=np.median(mano[:, 48:58], axis=0),
        joints=joints,
        contact=_touching(joints[:, 4::4], object_pose).astype(np.float64),
        force=np.zeros((n, 5)),
        valid=np.ones(n, dtype=bool),
        sigma=np.full((n, 21), 0.01),
        scale_known=True,
    )
    bottle = rigid_object("mustard_bottle", t, object_pose, local=_bottle_points())
    return hand, bottle


def _bottle_points() -> Float[np.ndarray, "corner 3"]:
    """Corners and middles of edges of the bottle's box [m]."""
    signs = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    return signs[np.abs(signs).sum(axis=1) >= 2] * BOTTLE_HALF_SIZE


def _read(path: Path) -> dict[str, np.ndarray]:
    names = (*_SHAPES, "hand_frame", "object_frame")
    raw = read_npz(path, names, absent="`dexprior data get dexmv-mustard` says how to get DexMV's file.")
    raw = {name: numbers(raw[name], f"{path}: {name}", finite=False) for name in names}
    for name, shape in _SHAPES.items():
        frames = raw["object_frame" if name == "object_T_cam" else "hand_frame"]
        if raw[name].shape != (len(frames), *shape):
            raise BadInput(f"{path}: {name} has shape {raw[name].shape}, expected {(len(frames), *shape)}")
        if not np.isfinite(raw[name]).all():
            raise BadInput(f"{path}: {name} holds values that are not finite")
    return raw


def _poses(T: Float[np.ndarray, "time 3 4"]) -> Float[np.ndarray, "time 7"]:
    return np.concatenate([T[:, :, 3], quat_from_matrix(T[:, :, :3])], axis=1)


def _orthonormal(T: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, "4 4"]:
    """The rigid transform closest to a rounded one."""
    U, _, Vt = np.linalg.svd(T[:3, :3])
    rigid = T.copy()
    rigid[:3, :3] = U @ Vt
    return rigid


def _base_frame(bottle: Float[np.ndarray, "time 7"], wrist: Float[np.ndarray, "time 7"]) -> Float[np.ndarray, " 7"]:
    """Pose of the base frame: bottle upright, hand reaching along x."""
    still = bottle[_STILL] if len(bottle) > _STILL.stop else bottle
    z = matrix_from_quat(still[:, 3:])[:, :, 2].mean(axis=0)
    z /= np.linalg.norm(z)
    origin = np.median(still[:, :3], axis=0)
    x = origin - wrist[0, :3]
    x -= (x @ z) * z
    x /= np.linalg.norm(x)
    return np.concatenate([origin, quat_from_matrix(np.stack([x, np.cross(z, x), z], axis=1))])


def _touching(tips: np.ndarray, bottle: np.ndarray) -> np.ndarray:
    local = transform_points(invert_pose(bottle), tips)
    beside = np.abs(local[..., 2]) < BOTTLE_HALF_SIZE[2] + 0.01
    nearness = 1.0 - np.where(beside, np.linalg.norm(local[..., :2], axis=-1), 1.0)
    return hysteresis(nearness, on=1.0 - _TOUCH_ON, off=1.0 - _TOUCH_OFF)
