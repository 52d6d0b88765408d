"""MANO (Romero et al. 2017, "Embodied Hands") through the optional `smplx` package.

The weights are research-only and are never shipped: a user gets them from mano.is.tue.mpg.de. Official files
are pickles of `chumpy` objects; `read_mano` opens them with an allow-list, so that neither `chumpy` nor
trust in the file is needed. The licence-free hand with the same tree of joints is `dexprior.hands.skeleton`.
"""

from __future__ import annotations

import io
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from dexprior import extras
from dexprior.artifacts import write_atomic
from dexprior.errors import BadInput
from dexprior.geometry.rotations import axis_angle_from_quat
from dexprior.hands.skeleton import MANO_FROM_MEDIAPIPE, PARENTS, TIP_OFFSETS, rest_offsets
from dexprior.reading import Stub, as_described, numbers, read_npz, read_pickle
from dexprior.types import ContactConfiguration, HandTrajectory, Side

__all__ = [
    "MANO_SHAPES",
    "TIP_VERTICES",
    "ManoHand",
    "contact_configuration",
    "read_mano",
    "write_synthetic_mano",
]

TIP_VERTICES = {"thumb": 744, "index": 320, "middle": 443, "ring": 554, "little": 671}
"""Vertices at the fingertips (from `smplx.vertex_ids`): MANO's own 16 joints end at the last knuckles."""

MANO_SHAPES: dict[str, tuple[int | None, ...]] = {
    "v_template": (778, 3),
    "shapedirs": (778, 3, 10),
    "posedirs": (778, 3, 135),
    "J_regressor": (16, 778),
    "weights": (778, 16),
    "kintree_table": (2, 16),
    "f": (None, 3),
    "hands_components": (45, 45),
    "hands_mean": (45,),
}
"""The arrays of a MANO file, and their shapes (None: any)."""
_VERTICES = range(778)

_TIP_ORDER = ("index", "middle", "little", "ring", "thumb")  # the order of skeleton.TIP_OFFSETS


# --- reading ----------------------------------------------------------------------------------------------


def read_mano(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of a MANO file: an official `.pkl`, or an `.npz` with the same names.

    A pickle can run any program that its writer liked. This reader lets it build NumPy arrays, SciPy sparse
    matrices and the two `chumpy` wrappers around arrays, and nothing else.

    Raises:
        BadInput: no such file, a forbidden global in the pickle (the message names it), or a missing or
            misshapen array.
    """
    path = Path(path)
    if not path.is_file():
        raise BadInput(
            f"no MANO file at {path}: register at https://mano.is.tue.mpg.de, accept the licence, and give "
            "the path of MANO_RIGHT.pkl or MANO_LEFT.pkl"
        )
    if path.suffix == ".npz":
        raw: dict[str, Any] = dict(read_npz(path))
    elif path.suffix == ".pkl":
        raw = read_pickle(path, stubs=_STUBS)
        if not isinstance(raw, dict):
            raise BadInput(f"{path} holds a {type(raw).__name__}, a MANO file holds a dict of arrays")
    else:
        raise BadInput(f"{path}: a MANO file ends in .pkl or .npz")
    return {name: _checked(path, name, raw, shape) for name, shape in MANO_SHAPES.items()}


def _checked(path: Path, name: str, raw: dict[str, Any], shape: tuple[int | None, ...]) -> np.ndarray:
    if name not in raw:
        raise BadInput(f"{path} holds no {name!r}; it has: {', '.join(map(str, raw))}")
    with as_described("a MANO file", f"{path}: {name}"):
        array = numbers(_plain(raw[name]), f"{path}: {name}")
    if name in ("kintree_table", "f"):
        array = array.astype(np.int64)
    if array.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, array.shape)):
        raise BadInput(f"{path}: {name} has shape {array.shape}, MANO's is {shape}")
    if name == "f" and len(array) and not (array.min() >= 0 and array.max() < len(_VERTICES)):
        raise BadInput(f"{path}: f names the vertices {array.min()} to {array.max()}, MANO has {len(_VERTICES)}")
    return array


class _Ch(Stub):
    """`chumpy.ch.Ch`: a differentiable wrapper around the array `x`."""


class _Select(Stub):
    """`chumpy.reordering.Select`: entries `idxs` of the flattened array `a`."""


class _Sparse(Stub):
    """A compressed sparse matrix of any SciPy version."""


class _Csc(_Sparse):
    pass


class _Csr(_Sparse):
    pass


def _plain(value: Any) -> np.ndarray:
    """The dense array behind an array, a chumpy stub or a sparse stub."""
    if isinstance(value, _Ch):
        return _plain(value.state["x"])
    if isinstance(value, _Select):
        chosen = _plain(value.state["a"]).ravel()[np.asarray(value.state["idxs"], dtype=np.int64)]
        shape = value.state.get("preferred_shape")
        return chosen if shape is None else chosen.reshape(shape)
    if isinstance(value, _Sparse):
        return _dense(value)
    return np.asarray(value)


def _dense(value: _Sparse) -> np.ndarray:
    """Entry by entry: SciPy's loops in C trust the places that a file states."""
    s = value.state
    shape = tuple(int(n) for n in (s["_shape"] if "_shape" in s else s["shape"]))
    if len(shape) != 2 or min(shape) < 0 or math.prod(shape) > _LARGEST:
        raise BadInput(f"a sparse matrix of shape {shape}: not a part of a MANO file")
    data, minor = np.asarray(s["data"]), np.asarray(s["indices"])
    start = np.asarray(s["indptr"], dtype=np.int64)
    counts = start[1:] - start[:-1]
    if len(counts) != shape[isinstance(value, _Csc)] or (counts < 0).any() or counts.sum() != len(data):
        raise BadInput(f"a sparse matrix of shape {shape} whose rows do not add up")
    major = np.repeat(np.arange(len(counts)), counts)
    dense = np.zeros(shape)
    place = (minor, major) if isinstance(value, _Csc) else (major, minor)
    np.add.at(dense, place, data)
    return dense


_LARGEST = 1 << 20  # entries of a sparse matrix; MANO's has 16 x 778
_STUBS: dict[tuple[str, str], type[Stub]] = {
    ("chumpy.ch", "Ch"): _Ch,
    ("chumpy.reordering", "Select"): _Select,
    **{
        (f"scipy.sparse.{under}{name}", f"{name}_matrix"): stub
        for name, stub in (("csc", _Csc), ("csr", _Csr))
        for under in ("", "_")
    },
}


# --- the hand ---------------------------------------------------------------------------------------------


class ManoHand:
    """A MANO hand of one side; a flat hand is zero, the wrist joint is the origin of `wrist_pose`."""

    def __init__(self, path: str | Path, side: Side = "right") -> None:
        """Read the model.

        Args:
            path: see `read_mano`.
            side: which hand the file holds; MANO has one file for each.

        Raises:
            MissingExtra: `smplx` is not installed.
            BadInput: not a MANO file, or an unknown side.
        """
        if side not in ("left", "right"):
            raise BadInput(f"side = {side!r}; choices: left, right")
        smplx = extras.require("smplx")
        import torch
        from smplx.utils import Struct

        self.side: Side = side
        self.arrays = read_mano(path)
        self.faces = self.arrays["f"]
        self.layer = smplx.MANO(
            model_path="",
            data_struct=Struct(**self.arrays),
            is_rhand=side == "right",
            use_pca=False,
            flat_hand_mean=True,
            dtype=torch.float64,
        )
        self.layer.requires_grad_(False)

    def forward(
        self,
        wrist_pose: Float[np.ndarray, "time 7"],
        finger_pose: Float[np.ndarray, "time 45"],
        betas: Float[np.ndarray, " 10"],
    ) -> Float[np.ndarray, "time 21 3"]:
        """Joint positions in the base frame, MediaPipe order, with MANO's fingertip vertices [m]."""
        vertices, joints = self._pose(wrist_pose, finger_pose, betas)
        return _landmarks(vertices, joints)

    def vertices(
        self,
        wrist_pose: Float[np.ndarray, "time 7"],
        finger_pose: Float[np.ndarray, "time 45"],
        betas: Float[np.ndarray, " 10"],
    ) -> Float[np.ndarray, "time 778 3"]:
        """The skin in the base frame [m]; `faces` connects it."""
        return self._pose(wrist_pose, finger_pose, betas)[0].numpy()

    def trajectory(
        self,
        t: Float[np.ndarray, " time"],
        wrist_pose: Float[np.ndarray, "time 7"],
        finger_pose: Float[np.ndarray, "time 45"],
        betas: Float[np.ndarray, " 10"],
        *,
        contact: Float[np.ndarray, "time 5"] | None = None,
        sigma: float = 0.0,
    ) -> HandTrajectory:
        """A trajectory whose joints are MANO's; without `contact` no finger touches.

        Args:
            t: seconds.
            wrist_pose: pose of the wrist frame in the base frame.
            finger_pose: axis-angle, MANO's order [rad].
            betas: shape.
            contact: probability that each finger touches.
            sigma: standard deviation of a joint's position [m].
        """
        n = len(t)
        return HandTrajectory(
            t=t,
            side=self.side,
            wrist_pose=wrist_pose,
            finger_pose=finger_pose,
            betas=betas,
            joints=self.forward(wrist_pose, finger_pose, betas),
            contact=np.zeros((n, 5)) if contact is None else contact,
            force=np.zeros((n, 5)),
            valid=np.ones(n, dtype=bool),
            sigma=np.full((n, 21), sigma),
            scale_known=True,
        )

    def fit_contacts(
        self,
        start: ContactConfiguration,
        points: Float[np.ndarray, "5 3"],
        touching: Bool[np.ndarray, " 5"],
        *,
        stiffness: float = 1e-6,
    ) -> ContactConfiguration:
        """Bend the fingers of `start` until the touching fingertips reach their points.

        Minimises  sum_touching |tip - point|^2 + stiffness |pose - start|^2  over the finger pose (L-BFGS).

        Args:
            start: wrist pose, shape and initial finger pose.
            points: wanted contact points, base frame, thumb to little finger [m].
            touching: which of them count.
            stiffness: price of leaving the initial pose [m^2 / rad^2].
        """
        import torch

        points, touching = np.asarray(points, dtype=np.float64), np.asarray(touching, dtype=bool)
        if points.shape != (5, 3) or touching.shape != (5,):
            raise BadInput(f"points {points.shape} and touching {touching.shape}: expected (5, 3) and (5,)")
        first = torch.tensor(start.finger_pose[None])
        pose = first.clone().requires_grad_(True)
        wrist, betas = torch.tensor(start.wrist_pose[None]), torch.tensor(start.betas)
        goal, counts = torch.tensor(points), torch.tensor(touching, dtype=torch.float64)
        tips = list(TIP_VERTICES.values())
        optimizer = torch.optim.LBFGS([pose], max_iter=100, line_search_fn="strong_wolfe")

        def loss() -> torch.Tensor:
            optimizer.zero_grad()
            vertices, _ = self._pose_torch(wrist, pose, betas)
            reach = ((vertices[0, tips] - goal).square().sum(-1) * counts).sum()
            value = 1e4 * (reach + stiffness * (pose - first).square().sum())  # 1e4: squared centimetres
            value.backward()
            return value

        optimizer.step(loss)
        return ContactConfiguration(
            side=self.side,
            wrist_pose=start.wrist_pose,
            finger_pose=pose.detach().numpy()[0],
            betas=start.betas,
            touching=touching,
            points=np.where(touching[:, None], points, 0.0),
        )

    def _pose(self, wrist_pose: Any, finger_pose: Any, betas: Any) -> tuple[Any, Any]:
        import torch

        wrist_pose, finger_pose, betas = (np.asarray(a, dtype=np.float64) for a in (wrist_pose, finger_pose, betas))
        if (
            wrist_pose.ndim != 2
            or wrist_pose.shape[1] != 7
            or finger_pose.shape != (len(wrist_pose), 45)
            or betas.shape != (10,)
        ):
            raise BadInput(
                f"wrist_pose {wrist_pose.shape}, finger_pose {finger_pose.shape}, betas {betas.shape}: "
                "expected (time, 7), (time, 45), (10,)"
            )
        with torch.no_grad():
            return self._pose_torch(torch.tensor(wrist_pose), torch.tensor(finger_pose), torch.tensor(betas))

    def _pose_torch(self, wrist_pose: Any, finger_pose: Any, betas: Any) -> tuple[Any, Any]:
        """Vertices and MANO's 16 joints, shifted so that the wrist joint is at the pose."""
        import torch

        n = len(wrist_pose)
        out = self.layer(
            betas=betas[None].expand(n, 10),
            global_orient=torch.tensor(axis_angle_from_quat(wrist_pose[:, 3:].numpy())),
            hand_pose=finger_pose,
            transl=torch.zeros(n, 3, dtype=torch.float64),
        )
        shift = (wrist_pose[:, :3] - out.joints[:, 0])[:, None]
        return out.vertices + shift, out.joints[:, :16] + shift


def _landmarks(vertices: Any, joints: Any) -> np.ndarray:
    tips = vertices[:, [TIP_VERTICES[f] for f in _TIP_ORDER]].numpy()
    return np.concatenate([joints.numpy(), tips], axis=1)[:, MANO_FROM_MEDIAPIPE]


def contact_configuration(hand: HandTrajectory, frame: int, *, threshold: float = 0.5) -> ContactConfiguration:
    """The pose of one frame, with the fingertips of the touching fingers as contact points.

    Args:
        hand: any hand trajectory (of MANO or of the skeleton).
        frame: index.
        threshold: contact probability from which a finger counts as touching.
    """
    if not -len(hand) <= frame < len(hand):
        raise BadInput(f"frame {frame} of a trajectory of {len(hand)} frames")
    touching = hand.contact[frame] >= threshold
    return ContactConfiguration(
        side=hand.side,
        wrist_pose=hand.wrist_pose[frame],
        finger_pose=hand.finger_pose[frame],
        betas=hand.betas,
        touching=touching,
        points=np.where(touching[:, None], hand.joints[frame, 4::4], 0.0),
    )


# --- a file of the same shape -----------------------------------------------------------------------------

_RING = 8  # vertices around a bone


def write_synthetic_mano(path: str | Path, *, seed: int = 0) -> Path:
    """Write an `.npz` with MANO's arrays and nothing of MANO in it: tubes around the skeleton hand's bones.

    Its joints and fingertips are those of `skeleton.forward`, also for betas[0] or betas[1] alone (the pose
    blend shapes are noise of 0.1 mm that leaves the fingertips alone). For tests, and for trying a program
    before the licence is signed.
    """
    rng = np.random.default_rng(seed)
    joints = _rest_joints(np.zeros(10))
    vertices = np.zeros((778, 3))
    owner = np.zeros(778, dtype=np.int64)
    weights = np.zeros((778, 16))
    regressor = np.zeros((16, 778))
    free = [k for k in range(778) if k not in TIP_VERTICES.values()]

    angles = 2 * np.pi * np.arange(_RING) / _RING
    ring = 0.008 * np.stack([np.zeros(_RING), np.cos(angles), np.sin(angles)], axis=-1)
    bones = [(PARENTS[k], k) for k in range(1, 16)] + [(p, 16 + i) for i, p in enumerate((3, 6, 9, 12, 15))]
    faces: list[np.ndarray] = []

    def add_ring(centre: np.ndarray, joint: int) -> np.ndarray:
        taken = np.array([free.pop(0) for _ in range(_RING)])
        vertices[taken], owner[taken] = centre + ring, joint
        weights[taken, joint] = 1.0
        return taken

    for k in range(16):
        regressor[k, add_ring(joints[k], k)] = 1.0 / _RING
    fractions = np.linspace(0, 1, 6)[1:-1]
    for parent, child in bones:
        rings = [add_ring((1 - u) * joints[parent] + u * joints[child], parent) for u in fractions]
        for a, b in itertools.pairwise(rings):
            a1, b1 = np.roll(a, -1), np.roll(b, -1)
            faces += [np.stack([a, b, b1], axis=1), np.stack([a, b1, a1], axis=1)]
    for finger, vertex in TIP_VERTICES.items():
        at = _TIP_ORDER.index(finger)
        owner[vertex], vertices[vertex] = 16 + at, joints[16 + at]
        weights[vertex, 3 * at + 3] = 1.0
    rest = np.array(free)  # what is left over: points inside the wrist
    weights[rest, 0], vertices[rest] = 1.0, 0.004 * rng.standard_normal((len(rest), 3))

    shapedirs = np.zeros((778, 3, 10))
    for beta in (0, 1):
        unit = np.eye(10)[beta]
        shapedirs[:, :, beta] = (_rest_joints(unit) - joints)[owner]
    posedirs = 1e-4 * rng.standard_normal((778, 3, 135))
    posedirs[list(TIP_VERTICES.values())] = 0.0
    stream = io.BytesIO()
    np.savez_compressed(
        stream,
        v_template=vertices,
        shapedirs=shapedirs,
        posedirs=posedirs,
        J_regressor=regressor,
        weights=weights,
        kintree_table=np.array([PARENTS, range(16)]),
        f=np.concatenate(faces),
        hands_components=np.eye(45),
        hands_mean=0.1 * rng.standard_normal(45),  # must not matter: a flat hand is zero
    )
    return write_atomic(path, stream.getvalue())


def _rest_joints(betas: np.ndarray) -> np.ndarray:
    """The 16 joints and five tips of the flat skeleton hand, wrist at the origin [m]."""
    offsets = rest_offsets(betas)
    places = np.zeros((21, 3))
    for k in range(1, 16):
        places[k] = places[PARENTS[k]] + offsets[k]
    for i in range(len(TIP_OFFSETS)):
        places[16 + i] = places[3 * i + 3] + offsets[16 + i]
    return places
