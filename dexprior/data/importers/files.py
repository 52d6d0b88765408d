"""Folders, pictures and calibrations of foreign data sets, each with one clear error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from dexprior.data.importers.base import View
from dexprior.data.readers import Frames
from dexprior.errors import BadInput
from dexprior.reading import entries, numbers, read_yaml
from dexprior.types import Camera

__all__ = [
    "LONGEST",
    "decode_picture",
    "opencv_camera",
    "path_view",
    "picture_view",
    "pose_from_xyzw",
    "realsense_view",
    "rigid",
    "sequences",
    "subfolders",
]


LONGEST = 100_000
"""Frames of a recording, an hour of them: what metadata promise beyond that is no recording of a hand and an object."""


def sequences(folder: Path, marker: str) -> list[str]:
    """`SUBJECT/SEQUENCE` of every folder two levels down that holds a file."""
    return [
        f"{subject.name}/{sequence.name}"
        for subject in subfolders(folder)
        for sequence in subfolders(subject)
        if (sequence / marker).is_file()
    ]


def subfolders(folder: Path) -> list[Path]:
    """Folders in a folder, by name."""
    return sorted(p for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []


# --- pictures and cameras -----------------------------------------------------------------------------------


def decode_picture(stream: Any, where: str | Path, size: tuple[int, int] | None = None) -> np.ndarray:
    """One picture as RGB, scaled to (height, width).

    Raises:
        BadInput: not a picture, or truncated.
    """
    from PIL import Image

    try:
        with Image.open(stream) as image:
            rgb = image.convert("RGB")
            if size is not None and (rgb.height, rgb.width) != size:
                rgb = rgb.resize((size[1], size[0]), Image.Resampling.BOX)
            return np.asarray(rgb)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise BadInput(f"{where} is not a picture, or it is truncated: {error}") from None


def picture_view(
    name: str,
    count: int,
    load: Callable[[int, tuple[int, int] | None], np.ndarray],
    *,
    fps: float,
    camera: Callable[[int, int], Camera] | None = None,
    lens: str = "pinhole",
) -> View:
    """A view made of single pictures.

    Args:
        name: the camera.
        count: number of pictures.
        load: (index, size) -> RGB.
        fps: pictures per second.
        camera: calibration for pictures of (height, width).
        lens: lens model.
    """
    height, width = load(0, None).shape[:2]

    def read(size: tuple[int, int] | None, start: int, stop: int) -> Frames:
        return np.stack([load(k, size) for k in range(start, stop)])

    return View(
        name=name,
        fps=fps,
        frames=count,
        height=height,
        width=width,
        read=read,
        camera=None if camera is None else camera(height, width),
        lens=lens,
    )


def opencv_camera(
    K: Float[np.ndarray, "3 3"], T_base_cam: Float[np.ndarray, "*time 4 4"], height: int, width: int
) -> Camera:
    """Our camera from an OpenCV calibration, whose pixel centres are at integers and ours at half-integers."""
    K = np.array(K, dtype=np.float64)
    K[:2, 2] += 0.5
    return Camera(K=K, T_base_cam=rigid(T_base_cam), width=width, height=height)


def realsense_view(
    intrinsics: Path, pictures: Path, count: int, T_base_cam: Float[np.ndarray, "*time 4 4"], *, fps: float
) -> View:
    """A camera whose calibration is a YAML file with `color: {fx, fy, ppx, ppy}`, and its `color_000000.jpg` files.

    Raises:
        BadInput: no calibration, or a picture that is missing.
    """
    (colour,) = entries(read_yaml(intrinsics), ("color",), intrinsics)
    fx, fy, cx, cy = numbers(entries(colour, ("fx", "fy", "ppx", "ppy"), intrinsics), str(intrinsics), 4)
    K = np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
    paths = [pictures / f"color_{k:06d}.jpg" for k in range(count)]
    return path_view(pictures.name, paths, fps=fps, camera=partial(opencv_camera, K, T_base_cam))


def rigid(T: Float[np.ndarray, "*time rows 4"]) -> Float[np.ndarray, "*time 4 4"]:
    """The rigid transform nearest to a rounded one (3 x 4 or 4 x 4), or those nearest to one a frame.

    Raises:
        BadInput: it is far from any, or not finite.
    """
    T = np.asarray(T, dtype=np.float64)
    if T.ndim == 3:
        return np.stack([rigid(each) for each in T])
    full = np.eye(4)
    full[:3] = T[:3]
    if not np.isfinite(full).all():
        raise BadInput("a calibration holds values that are not finite")
    U, s, Vt = np.linalg.svd(full[:3, :3])
    if np.abs(s - 1).max() > 0.02 or np.linalg.det(U @ Vt) < 0:
        raise BadInput(f"a calibration's rotation has singular values {s.round(3).tolist()}, or mirrors: not rigid")
    full[:3, :3] = U @ Vt
    return full


def pose_from_xyzw(q_xyzw_t: Float[np.ndarray, "*batch 7"]) -> Float[np.ndarray, "*batch 7"]:
    """[qx qy qz qw x y z] -> [x y z qw qx qy qz], quaternion normalised."""
    a = np.asarray(q_xyzw_t, dtype=np.float64)
    quat = a[..., [3, 0, 1, 2]]
    norm = np.linalg.norm(quat, axis=-1, keepdims=True)
    return np.concatenate([a[..., 4:], quat / np.where(norm > 0, norm, np.nan)], axis=-1)


def path_view(
    name: str,
    paths: Sequence[Path],
    *,
    fps: float,
    camera: Callable[[int, int], Camera] | None = None,
    lens: str = "pinhole",
) -> View:
    """A view of picture files; arguments as `picture_view`.

    Raises:
        BadInput: a file is missing, or the first one is not a picture.
    """
    if missing := [p for p in paths if not p.is_file()]:
        raise BadInput(f"{len(missing)} of {len(paths)} pictures are missing, the first is {missing[0].name}")

    def load(k: int, size: tuple[int, int] | None) -> np.ndarray:
        return decode_picture(paths[k], paths[k], size)

    return picture_view(name, len(paths), load, fps=fps, camera=camera, lens=lens)
