"""Folders laid out as foreign data sets are, with made-up content whose truth is known.

Hands come from `smplx.MANO` set up as each data set's own toolkit sets MANO up: what an importer finds must agree
with a program that it does not use.
"""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image

from dexprior.data.importers.dexycb import YCB
from dexprior.geometry.rotations import axis_angle_from_matrix, matrix_from_axis_angle, quat_from_matrix
from dexprior.hands.mano import read_mano, write_synthetic_mano

N, HEIGHT, WIDTH = 6, 48, 64
TIPS = (744, 320, 443, 554, 671)  # thumb to little finger
TO_MEDIAPIPE = (0, 13, 14, 15, 16, 1, 2, 3, 17, 4, 5, 6, 18, 10, 11, 12, 19, 7, 8, 9, 20)
K = np.array([[55.0, 0.0, 31.0], [0.0, 56.0, 23.0], [0.0, 0.0, 1.0]])
SIGN = {"right": 1.0, "left": -1.0}
DIST8 = np.array([0.05, -0.02, 0.002, -0.001, 0.01, 0.04, -0.01, 0.005])
FISHEYE = np.array([30.0, 31.0, 23.0, 0.05, -0.02, 0.01, -0.003, 0.001, 0.0, 1e-3, -5e-4, 2e-4, -1e-4, 1e-4, 1e-4])
"""f, cx, cy, and what FISHEYE624 has to say of the lens."""


# --- a MANO file with nothing of MANO in it, whose conventions all matter -----------------------------------------


def write_mano(folder: Path) -> dict[str, Path]:
    """MANO_RIGHT and MANO_LEFT with a wrist away from the origin, principal components, and a bent mean pose.

    As in the official files, the left hand's shape directions are the right one's (smplx issue 48).
    """
    folder.mkdir(parents=True, exist_ok=True)
    arrays = dict(read_mano(write_synthetic_mano(folder / "plain.npz", seed=3)))
    rng = np.random.default_rng(5)
    arrays["v_template"] = arrays["v_template"] + np.array([0.09, -0.01, 0.02])
    arrays["posedirs"] = np.zeros_like(arrays["posedirs"])
    arrays["shapedirs"][:, :, 2] = np.array([0.004, -0.003, 0.005])  # moves the wrist with betas[2]
    arrays["hands_components"] = np.linalg.qr(rng.standard_normal((45, 45)))[0]
    mean = 0.05 * rng.standard_normal((15, 3))
    mean[:12, 2] += 0.35
    paths = {}
    for side, sign in SIGN.items():
        own = dict(arrays)
        own["v_template"] = arrays["v_template"] * [sign, 1, 1]
        own["hands_mean"] = (mean * [1, sign, sign]).ravel()
        paths[side] = folder / f"MANO_{side.upper()}.npz"
        np.savez(paths[side], **own)
    return paths


def model(path: Path, side: str, *, coefficients: int | None, flat: bool, mirrored: bool = False) -> Any:
    """smplx's MANO, as a toolkit configures it: so many PCA coefficients (None: angles), flat or mean pose at zero."""
    import smplx
    import torch
    from smplx.utils import Struct

    arrays = dict(read_mano(path))
    if mirrored and side == "left":
        arrays["shapedirs"] = arrays["shapedirs"] * np.array([-1.0, 1, 1])[None, :, None]
    return smplx.MANO(
        model_path="", data_struct=Struct(**arrays), is_rhand=side == "right", use_pca=coefficients is not None,
        num_pca_comps=coefficients or 6, flat_hand_mean=flat, dtype=torch.float64,
    )  # fmt: skip


@dataclass
class Hand:
    """Parameters in one convention, and the 21 joints that they mean."""

    side: str
    rotation: np.ndarray
    fingers: np.ndarray
    translation: np.ndarray
    betas: np.ndarray
    joints: np.ndarray

    @property
    def flat(self) -> np.ndarray:
        return np.concatenate([self.rotation, self.fingers, self.translation], axis=1)


def make_hand(
    paths: dict[str, Path], side: str, *, coefficients: int | None, flat: bool, mirrored: bool = False, seed: int = 0
) -> Hand:
    """A moving hand half a metre in front of the origin."""
    import torch

    rng = np.random.default_rng(seed)
    arrays = read_mano(paths[side])
    angles = 0.05 * rng.standard_normal((N, 15, 3))
    angles[:, :12, 2] += 0.35 * SIGN[side]
    angles = angles.reshape(N, 45)
    rest = angles if flat else angles - arrays["hands_mean"]
    fingers = rest if coefficients is None else rest @ arrays["hands_components"][:coefficients].T
    rotation = rng.standard_normal(3) + 0.05 * rng.standard_normal((N, 3))
    translation = np.array([0.05, -0.02, 0.5]) + 0.03 * rng.standard_normal((N, 3))
    betas = np.array([0.6, -0.4, 1.5, *np.zeros(7)])
    # smplx takes 45 coefficients for angles; manopth, which DexYCB and HO-Cap use, does not
    whole = coefficients == 45
    layer = model(paths[side], side, coefficients=None if whole else coefficients, flat=flat, mirrored=mirrored)
    with torch.no_grad():
        out = layer(
            betas=torch.tensor(betas)[None].expand(N, 10), global_orient=torch.tensor(rotation),
            hand_pose=torch.tensor(rest if whole else fingers), transl=torch.tensor(translation),
        )  # fmt: skip
    joints = np.concatenate([out.joints[:, :16].numpy(), out.vertices[:, list(TIPS)].numpy()], axis=1)
    return Hand(side, rotation, fingers, translation, betas, joints[:, TO_MEDIAPIPE])


# --- geometry, pictures, files ----------------------------------------------------------------------------------


def rigid(seed: int, reach: float = 0.2, turn: float = 0.4) -> np.ndarray:
    """A small random rigid transform."""
    rng = np.random.default_rng(seed)
    T = np.eye(4)
    T[:3, :3] = matrix_from_axis_angle(turn * rng.standard_normal(3))
    T[:3, 3] = reach * rng.standard_normal(3)
    return T


def move(T: np.ndarray, points: np.ndarray) -> np.ndarray:
    """By one transform, or by one a frame."""
    return points @ np.swapaxes(T[..., :3, :3], -1, -2) + (T[:3, 3] if T.ndim == 2 else T[:, None, :3, 3])


def moving(seed: int) -> np.ndarray:
    """(frame, 4, 4): a camera on a head that nods and drifts."""
    T = np.tile(rigid(seed, 0.1, 0.2), (N, 1, 1))
    T[:, 0, 3] += 0.01 * np.arange(N)
    for k in range(N):
        T[k, :3, :3] = T[k, :3, :3] @ matrix_from_axis_angle(np.array([0.02 * k, -0.01 * k, 0.005 * k]))
    return T


def opencv_pixels(points_cam: np.ndarray) -> np.ndarray:
    """OpenCV's projection: pixel centres at integers."""
    p = points_cam @ K.T
    return p[..., :2] / p[..., 2:]


def object_poses(seed: int) -> np.ndarray:
    """(frame, 4, 4): an object that is carried."""
    T = np.tile(rigid(seed), (N, 1, 1))
    T[:, :3, 3] = [0.02, 0.03, 0.55]
    T[:, 0, 3] += np.linspace(0, 0.1, N)
    return T


def xyzw(T: np.ndarray) -> np.ndarray:
    q = quat_from_matrix(T[..., :3, :3])
    return np.concatenate([q[..., [1, 2, 3, 0]], T[..., :3, 3]], axis=-1)


def picture(k: int) -> np.ndarray:
    """Frame k: a ramp whose mean tells k."""
    x = np.linspace(0, 60, WIDTH)[None, :, None] + np.zeros((HEIGHT, 1, 3))
    return (x + 20 * k + 20).astype(np.uint8)


def save_picture(path: Path, k: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture(k)).save(path, quality=95)


def jpeg(k: int) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(picture(k)).save(stream, "JPEG", quality=95)
    return stream.getvalue()


def write_yaml(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(value))


def write_box(path: Path, size: tuple[float, float, float] = (0.06, 0.04, 0.1)) -> None:
    """A box as OBJ."""
    path.parent.mkdir(parents=True, exist_ok=True)
    corners = [(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    quads = [(1, 2, 4, 3), (5, 7, 8, 6), (1, 5, 6, 2), (3, 4, 8, 7), (1, 3, 7, 5), (2, 6, 8, 4)]
    lines = [f"v {x * size[0] / 2} {y * size[1] / 2} {z * size[2] / 2}" for x, y, z in corners]
    lines += [f"f {a} {b} {c}\nf {a} {c} {d}" for a, b, c, d in quads]
    path.write_text("\n".join(lines) + "\n")


# --- the data sets ------------------------------------------------------------------------------------------------


@dataclass
class Made:
    """A folder, and what is true in it."""

    folder: Path
    hands: list[Hand]
    T_base_world: np.ndarray
    T_world_cam: dict[str, np.ndarray]
    T_world_object: np.ndarray


def make_dexycb(root: Path, mano: dict[str, Path], side: str = "right", sequences: int = 2) -> Made:
    hand = make_hand(mano, side, coefficients=45, flat=False)
    cameras = {"836212060125": np.eye(4), "839512060362": rigid(2)}
    tag, things = rigid(3, 0.5), object_poses(4)
    for k in range(sequences):
        sequence = root / "20200709-subject-01" / f"20200709_14175{k}"
        write_yaml(
            sequence / "meta.yml",
            {
                "serials": list(cameras), "num_frames": N, "num_grasps": 1, "extrinsics": "20200702_151821",
                "mano_calib": ["20200514-subject-01_" + side], "mano_sides": [side], "ycb_ids": [3, 6],
                "ycb_grasp_ind": 1,
            },
        )  # fmt: skip
        still = np.tile(xyzw(rigid(9)), (N, 1))
        pose_y = np.stack([still, xyzw(things)], axis=1).astype(np.float32)
        pose_y[0, 0] = [0, 0, 0, 1, 0, 0, 0]  # not annotated in the first frame
        np.savez(sequence / "pose.npz", pose_y=pose_y, pose_m=hand.flat[:, None].astype(np.float32))
        for serial, T in cameras.items():
            local = move(np.linalg.inv(T), hand.joints)
            for i in range(N):
                save_picture(sequence / serial / f"color_{i:06d}.jpg", i)
                np.savez_compressed(
                    sequence / serial / f"labels_{i:06d}.npz",
                    seg=np.zeros((HEIGHT, WIDTH), np.uint8), pose_m=hand.flat[i][None].astype(np.float32),
                    joint_3d=local[i][None].astype(np.float32),
                    joint_2d=opencv_pixels(local[i])[None].astype(np.float32),
                )  # fmt: skip
    extrinsics = {serial: T[:3].ravel().tolist() for serial, T in cameras.items()} | {
        "apriltag": tag[:3].ravel().tolist()
    }
    where = root / "calibration"
    write_yaml(
        where / "extrinsics_20200702_151821" / "extrinsics.yml", {"master": "836212060125", "extrinsics": extrinsics}
    )
    write_yaml(where / f"mano_20200514-subject-01_{side}" / "mano.yml", {"betas": hand.betas.tolist()})
    for serial in cameras:
        colour = {"fx": float(K[0, 0]), "fy": float(K[1, 1]), "ppx": float(K[0, 2]), "ppy": float(K[1, 2])}
        write_yaml(where / "intrinsics" / f"{serial}_640x480.yml", {"color": colour, "depth": colour})
    write_box(root / "models" / YCB[5] / "textured_simple.obj")
    write_box(root / "models" / YCB[2] / "textured_simple.obj")
    return Made(root, [hand], np.linalg.inv(tag), cameras, things)


def make_hocap(root: Path, mano: dict[str, Path]) -> Made:
    hands = [make_hand(mano, side, coefficients=45, flat=False, seed=k) for k, side in enumerate(("right", "left"))]
    tag, things = rigid(3, 0.05, 0.1), object_poses(4)
    T_master_cam = {"037522251142": np.eye(4), "043422252387": rigid(2, 0.1, 0.2)}
    cameras = {serial: np.linalg.inv(tag) @ T for serial, T in T_master_cam.items()}  # world: tag 1
    worn = {"hololens_kv5h72": moving(6)}
    sequence = root / "subject_1" / "20231025_165502"
    write_yaml(
        sequence / "meta.yaml",
        {
            "num_frames": N, "object_ids": ["G01_1", "G01_2"], "mano_sides": ["right", "left"], "task_id": 1,
            "subject_id": "subject_1", "extrinsics": "extrinsics_20231014.yaml",
            "realsense": {"serials": list(cameras), "width": WIDTH, "height": HEIGHT},
            "hololens": {"serial": "hololens_kv5h72", "pv_width": 1280, "pv_height": 720},
        },
    )  # fmt: skip
    np.save(sequence / "poses_m.npy", np.stack([hand.flat for hand in hands]).astype(np.float32))
    lying = np.full((N, 7), -1.0)
    np.save(sequence / "poses_o.npy", np.stack([xyzw(things), lying]).astype(np.float32))
    np.save(sequence / "poses_pv.npy", xyzw(worn["hololens_kv5h72"]).astype(np.float32))
    for i in range(N):
        save_picture(sequence / "hololens_kv5h72" / f"color_{i:06d}.jpg", i)
    for serial, T in cameras.items():
        for i in range(N):
            save_picture(sequence / serial / f"color_{i:06d}.jpg", i)
            local = np.stack([move(np.linalg.inv(T), hand.joints[i]) for hand in hands])
            np.savez(sequence / serial / f"label_{i:06d}.npz", cam_K=K, hand_joints_3d=local.astype(np.float32))
    where = root / "calibration"
    for serial in cameras | worn:
        colour = {"fx": float(K[0, 0]), "fy": float(K[1, 1]), "ppx": float(K[0, 2]), "ppy": float(K[1, 2])}
        write_yaml(where / "intrinsics" / f"{serial}.yaml", {"color": colour})
    extrinsics = {serial: T[:3].ravel().tolist() for serial, T in T_master_cam.items()}
    extrinsics |= {"tag_0": rigid(8)[:3].ravel().tolist(), "tag_1": tag[:3].ravel().tolist()}
    write_yaml(
        where / "extrinsics" / "extrinsics_20231014.yaml", {"rs_master": "037522251142", "extrinsics": extrinsics}
    )
    write_yaml(where / "mano" / "subject_1.yaml", {"betas": hands[0].betas.tolist()})
    write_box(root / "models" / "G01_1" / "textured_mesh.obj")
    return Made(root, hands, np.eye(4), cameras | worn, things)


def make_ho3d(root: Path, mano: dict[str, Path], version: int = 3) -> Made:
    import pickle

    hand = make_hand(mano, "right", coefficients=None, flat=True)  # in OpenCV's camera frame, like everything here
    gl = np.diag([1.0, -1.0, -1.0, 1.0])
    # the same hand in OpenGL's frame: rotate joints; the model's rotation and translation follow
    joints = move(gl, hand.joints)
    rotation = axis_angle_from_matrix(gl[:3, :3] @ matrix_from_axis_angle(hand.rotation))
    arrays = read_mano(mano["right"])
    rest_wrist = arrays["J_regressor"][0] @ (arrays["v_template"] + arrays["shapedirs"] @ hand.betas)
    translation = joints[:, 0] - rest_wrist
    things = np.array([gl @ T for T in object_poses(4)])
    back = np.argsort(TO_MEDIAPIPE)
    sequence = root / "train" / "ABF10"
    for i in range(N):
        save_picture(sequence / "rgb" / (f"{i:04d}.png" if version == 2 else f"{i:04d}.jpg"), i)
        meta = {
            "handPose": np.concatenate([rotation[i], hand.fingers[i]]), "handTrans": translation[i],
            "handBeta": hand.betas,
            "handJoints3D": joints[i][back], "camMat": K, "objName": "010_potted_meat_can", "objLabel": 10,
            "objRot": axis_angle_from_matrix(things[i, :3, :3])[:, None], "objTrans": things[i, :3, 3],
            "objCorners3D": np.zeros((8, 3)), "handVertContact": None,
        }  # fmt: skip
        if i == 2:  # a frame without annotation, as version 3 has
            meta |= dict.fromkeys(("handPose", "handTrans", "handBeta", "handJoints3D", "objRot", "objTrans"))
        path = sequence / "meta" / f"{i:04d}.pkl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(meta, protocol=2))
    write_box(root / "models" / "010_potted_meat_can" / "textured_simple.obj")
    return Made(root, [hand], np.eye(4), {"rgb": np.eye(4)}, object_poses(4))


def make_arctic(root: Path, mano: dict[str, Path], *, processed: bool = True) -> Made:
    hands = [make_hand(mano, side, coefficients=None, flat=False, seed=k) for k, side in enumerate(("left", "right"))]
    things = object_poses(4)
    raw = root / "raw_seqs" / "s01"
    raw.mkdir(parents=True)
    stored = {
        hand.side: {
            "rot": hand.rotation, "pose": hand.fingers, "trans": hand.translation, "shape": hand.betas,
            "fitting_err": np.zeros(N),
        }
        for hand in hands
    }  # fmt: skip
    np.save(raw / "box_grab_01.mano.npy", stored, allow_pickle=True)
    params = np.concatenate(
        [np.linspace(0, 0.5, N)[:, None], axis_angle_from_matrix(things[:, :3, :3]), 1000 * things[:, :3, 3]], axis=1
    )
    np.save(raw / "box_grab_01.object.npy", params.astype(np.float32))
    cameras = {str(k + 1): rigid(20 + k) for k in range(8)}
    misc = {
        "s01": {
            "intris_mat": [K.tolist()] * 8, "world2cam": [np.linalg.inv(T).tolist() for T in cameras.values()],
            "image_size": [[2800, 2000], *[[WIDTH, HEIGHT]] * 8], "ioi_offset": 3, "gender": "female",
        }
    }  # fmt: skip
    worn = moving(7)
    T_cam_world = np.linalg.inv(worn)
    ego = {
        "R_k_cam_np": T_cam_world[:, :3, :3], "T_k_cam_np": T_cam_world[:, :3, 3:], "intrinsics": K, "dist8": DIST8,
        "R0": np.eye(3), "T0": np.zeros((3, 1)),
    }  # fmt: skip
    np.save(raw / "box_grab_01.egocam.dist.npy", ego, allow_pickle=True)
    (root / "meta").mkdir()
    (root / "meta" / "misc.json").write_text(json.dumps(misc))
    for name in ("0", "1", "4"):
        for i in range(N + 3):
            save_picture(root / "images" / "s01" / "box_grab_01" / name / f"{i:05d}.jpg", i - 3)
    if processed:
        back = np.argsort(TO_MEDIAPIPE)
        world = {f"joints.{hand.side}": hand.joints[:, back].astype(np.float32) for hand in hands}
        (root / "processed_seqs" / "s01").mkdir(parents=True)
        np.save(root / "processed_seqs" / "s01" / "box_grab_01.npy", {"world_coord": world}, allow_pickle=True)
    write_box(root / "meta" / "object_vtemplates" / "box" / "mesh.obj", (60.0, 40.0, 100.0))
    return Made(root, hands, np.eye(4), cameras | {"worn": worn}, things)


def se3(T: np.ndarray) -> dict[str, list[float]]:
    return {"quaternion_wxyz": quat_from_matrix(T[:3, :3]).tolist(), "translation_xyz": T[:3, 3].tolist()}


def fisheye_pinhole_pixels(points_cam: np.ndarray) -> np.ndarray:
    """Of a pinhole with the fisheye's focal length and centre."""
    return FISHEYE[0] * points_cam[..., :2] / points_cam[..., 2:] + FISHEYE[1:3]


def make_hot3d(root: Path, mano: dict[str, Path], lens: str = "CameraModelType.FISHEYE624") -> Made:
    hands = [
        make_hand(mano, side, coefficients=15, flat=False, mirrored=True, seed=k)
        for k, side in enumerate(("left", "right"))
    ]
    things, cameras = object_poses(4), moving(2)
    path = root / "train_aria" / "clip-001849.tar"
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w") as archive:

        def add(name: str, data: Any) -> None:
            raw = data if isinstance(data, bytes) else json.dumps(data).encode()
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            archive.addfile(info, io.BytesIO(raw))

        for i in range(N):
            T = cameras[i]
            calibration = {
                "label": "camera-rgb", "stream_id": "214-1", "image_width": WIDTH, "image_height": HEIGHT,
                "projection_model_type": lens, "projection_params": FISHEYE.tolist(),
                "T_device_from_camera": se3(np.eye(4)),
            }  # fmt: skip
            poses = {
                hand.side: {
                    "mano_pose": {
                        "thetas": hand.fingers[i].tolist(),
                        "wrist_xform": [*hand.rotation[i].tolist(), *hand.translation[i].tolist()],
                    }
                }
                for hand in hands
                if not (hand.side == "left" and i == 1)
            }
            add(f"{i:06d}.image_214-1.jpg", jpeg(i))
            add(f"{i:06d}.cameras.json", {"214-1": {"calibration": calibration, "T_world_from_camera": se3(T)}})
            add(f"{i:06d}.hands.json", poses)
            add(f"{i:06d}.objects.json", {"5": [{"object_bop_id": 5, "T_world_from_object": se3(things[i])}]})
            add(f"{i:06d}.info.json", {"device": "Aria", "participant_id": "P0001", "sequence_id": "P0001_1"})
        add("__hand_shapes.json__", {"mano": hands[0].betas.tolist(), "umetrack": {}})
    (root / "object_models_eval").mkdir()
    (root / "object_models_eval" / "obj_000005.glb").write_bytes(b"")
    return Made(root, hands, np.eye(4), {"214-1": cameras}, things)
