"""Hand landmarks in a video, by MediaPipe's two networks run with `ai-edge-litert` (no MediaPipe needed).

A palm detector looks at the whole frame once; after that the landmarks of the last frame say where to crop
for the next one, and the detector runs again only when the hand is lost. Both networks see an upright hand:
the crop is rotated. Zhang et al. 2020, "MediaPipe Hands: On-device Real-time Hand Tracking"; the constants
are those of MediaPipe's graphs (`modules/palm_detection`, `modules/hand_landmark`, Apache-2.0).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8

from dexprior import extras
from dexprior.data import catalog
from dexprior.errors import BadInput

__all__ = ["PALM_MODEL", "DetectedLandmarks", "detect_landmarks", "find_landmark_models"]

PALM_MODEL = "palm_detection_full.tflite"
LANDMARK_MODELS = {False: "hand_landmark_full.tflite", True: "hand_landmark_lite.tflite"}  # by `lite`

_PALM_SIZE, _HAND_SIZE = 192, 224  # [pixel] network inputs
_OVERLAP = 0.3  # detections that overlap more than this are one palm
_PALM_TO_CROP = (2.6, -0.5)  # scale of the palm's box, and its shift along the hand in box heights
_HAND_TO_CROP = (2.0, -0.1)  # the same for the box around the last frame's landmarks
_STABLE = np.array([0, 1, 2, 3, 5, 6, 9, 10, 13, 14, 17, 18])  # landmarks that span the next crop: no tips


@dataclass(frozen=True)
class DetectedLandmarks:
    """What was seen in each frame; NaN where no hand was found."""

    joints: Float[np.ndarray, "time 21 3"]
    """Wrist at the origin; x right, y down, z away from the camera [m of an average hand]."""
    image: Float[np.ndarray, "time 21 2"]
    """(column, row) as fractions of the frame's width and height."""
    confidence: Float[np.ndarray, " time"]
    """Probability that there is a hand; zero where none was found."""
    right: Float[np.ndarray, " time"]
    """Probability that it is a right hand, in an image that is not mirrored."""


def find_landmark_models(models_dir: str | Path | None = None) -> Path:
    """The folder with the networks: the given one, `$DEXPRIOR_DATA/hand-landmarks`, or the user's cache.

    Raises:
        BadInput: a file is missing; the message says how to get it.
    """
    folder = Path(models_dir) if models_dir is not None else catalog.get("hand-landmarks")
    for name in (PALM_MODEL, LANDMARK_MODELS[False]):
        if not (folder / name).is_file():
            raise BadInput(
                f"{folder} holds no {name}: `dexprior data get hand-landmarks` tells how to take it from the "
                "mediapipe wheel"
            )
    return folder


def detect_landmarks(
    frames: UInt8[np.ndarray, "time height width 3"],
    models_dir: str | Path | None = None,
    *,
    min_palm: float = 0.5,
    min_hand: float = 0.5,
    lite: bool = False,
) -> DetectedLandmarks:
    """Find one hand in every frame.

    Args:
        frames: RGB, in order; 360 rows are enough for a hand at arm's length.
        models_dir: see `find_landmark_models`.
        min_palm: probability from which a palm counts as detected.
        min_hand: probability below which a tracked hand counts as lost.
        lite: use the smaller landmark network (half the time).

    Raises:
        MissingExtra: `ai_edge_litert` is not installed.
        BadInput: the networks are missing, or wrong frames.
    """
    frames = np.asarray(frames)
    if frames.ndim != 4 or frames.shape[-1] != 3 or frames.dtype != np.uint8:
        raise BadInput(f"frames are {frames.dtype} {frames.shape}; expected uint8 (time, height, width, 3)")
    folder = find_landmark_models(models_dir)
    if lite and not (folder / LANDMARK_MODELS[True]).is_file():
        raise BadInput(f"{folder} holds no {LANDMARK_MODELS[True]}; leave out `lite`, or add it")
    palm = _Network(folder / PALM_MODEL)
    hand = _Network(folder / LANDMARK_MODELS[lite])
    n = len(frames)
    joints, image = np.full((n, 21, 3), np.nan), np.full((n, 21, 2), np.nan)
    confidence, right = np.zeros(n), np.full(n, 0.5)
    crop: _Crop | None = None
    for k, frame in enumerate(frames):
        tracked = crop is not None
        for _ in range(2):  # the second time after the track was lost in this very frame
            if crop is None:
                crop = _detect_palm(palm, frame, min_palm)
            if crop is None:
                break
            seen, pixels, score, handed = _read_hand(hand, frame, crop)
            if score >= min_hand:
                joints[k], confidence[k], right[k] = seen - seen[:1], score, handed
                image[k] = pixels / [frame.shape[1], frame.shape[0]]
                crop = _crop_of_landmarks(pixels)
                break
            crop = None
            if not tracked:
                break
    return DetectedLandmarks(joints, image, confidence, right)


# --- crops ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Crop:
    """A rotated square in the image: centre and side [pixel], angle of its rows [rad, clockwise]."""

    centre: np.ndarray
    side: float
    angle: float

    def to_image(self, points: np.ndarray) -> np.ndarray:
        """Pixels of points given in fractions of the square."""
        c, s = np.cos(self.angle), np.sin(self.angle)
        return self.centre + self.side * (points - 0.5) @ np.array([[c, s], [-s, c]])

    def cut(self, frame: np.ndarray, size: int) -> np.ndarray:
        """The square as an image of size x size, in [0, 1]; black outside the frame."""
        from PIL import Image

        origin, right, down = self.to_image(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
        dx, dy = (right - origin) / size, (down - origin) / size
        inverse = (dx[0], dy[0], origin[0], dx[1], dy[1], origin[1])
        picture = Image.fromarray(frame).transform(
            (size, size), Image.Transform.AFFINE, inverse, resample=Image.Resampling.BILINEAR
        )
        return np.asarray(picture, dtype=np.float32) / 255


def _upright(start: np.ndarray, end: np.ndarray) -> float:
    """Angle of a crop in which the direction from start to end points up."""
    dx, dy = end - start
    return float(np.pi / 2 - np.arctan2(-dy, dx))


def _around(points: np.ndarray, angle: float, scale: float, shift: float) -> _Crop:
    """The crop at an angle around points: their box, made square, scaled, shifted down by `shift` heights."""
    c, s = np.cos(angle), np.sin(angle)
    turn = np.array([[c, -s], [s, c]])  # image to crop axes, for row vectors
    local = points @ turn
    low, high = local.min(axis=0), local.max(axis=0)
    width, height = high - low
    middle = (low + high) / 2 + np.array([0.0, shift * height])
    return _Crop(middle @ turn.T, scale * float(max(width, height)), angle)


def _crop_of_landmarks(pixels: np.ndarray) -> _Crop:
    """Where to look in the next frame: along the line from the wrist to the middle knuckles."""
    knuckles = 0.5 * (0.5 * (pixels[6] + pixels[14]) + pixels[10])
    return _around(pixels[_STABLE], _upright(pixels[0], knuckles), *_HAND_TO_CROP)


# --- networks ---------------------------------------------------------------------------------------------


class _Network:
    """A tflite model with one image as input."""

    def __init__(self, path: Path) -> None:
        extras.require("ai_edge_litert", purpose="finding hand landmarks in a video")
        from ai_edge_litert.interpreter import Interpreter

        self.model = Interpreter(str(path), num_threads=1)
        self.model.allocate_tensors()
        self.input = self.model.get_input_details()[0]["index"]
        self.outputs = [d["index"] for d in self.model.get_output_details()]

    def __call__(self, image: np.ndarray) -> list[np.ndarray]:
        self.model.set_tensor(self.input, image[None].astype(np.float32))
        self.model.invoke()
        return [self.model.get_tensor(k)[0] for k in self.outputs]


def _read_hand(network: _Network, frame: np.ndarray, crop: _Crop) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Metric landmarks, pixels, presence, and probability of a right hand."""
    screen, presence, handed, world = network(crop.cut(frame, _HAND_SIZE))
    pixels = crop.to_image(screen.reshape(21, 3)[:, :2] / _HAND_SIZE)
    c, s = np.cos(crop.angle), np.sin(crop.angle)
    joints = world.reshape(21, 3).astype(np.float64)
    joints[:, :2] = joints[:, :2] @ np.array([[c, s], [-s, c]])
    return joints, pixels, float(presence[0]), float(handed[0])


def _palm_anchors() -> Float[np.ndarray, "2016 2"]:
    """Centres of the detector's anchors [fraction]: two in each of 24 x 24 cells, six in each of 12 x 12."""
    grids = []
    for cells, count in ((24, 2), (12, 6)):
        row, column = np.meshgrid(np.arange(cells), np.arange(cells), indexing="ij")
        centres = (np.stack([column, row], axis=-1).reshape(-1, 2) + 0.5) / cells
        grids.append(np.repeat(centres, count, axis=0))
    return np.concatenate(grids)


_ANCHORS = _palm_anchors()


def _detect_palm(network: _Network, frame: np.ndarray, threshold: float) -> _Crop | None:
    """A crop around the most certain palm, or None."""
    height, width = frame.shape[:2]
    square = _Crop(np.array([width / 2, height / 2]), float(max(height, width)), 0.0)
    raw, logits = network(_letterbox(frame, _PALM_SIZE))
    score = 1 / (1 + np.exp(-np.clip(logits[:, 0], -100, 100)))
    keep = score >= threshold
    if not keep.any():
        return None
    raw, anchors, score = raw[keep].astype(np.float64), _ANCHORS[keep], score[keep]
    centre, size = raw[:, :2] / _PALM_SIZE + anchors, raw[:, 2:4] / _PALM_SIZE
    points = raw[:, 4:].reshape(-1, 7, 2) / _PALM_SIZE + anchors[:, None]
    best = int(score.argmax())
    same = _overlaps(centre, size, best) > _OVERLAP
    weight = score[same] / score[same].sum()  # the detections of one palm are averaged, not only suppressed
    box, marks = np.concatenate([centre, size], axis=1)[same], points[same]
    centre, size = (weight @ box)[:2], (weight @ box)[2:]
    marks = square.to_image(np.einsum("k,kij->ij", weight, marks))
    corners = square.to_image(centre + size * (np.array([[-1, -1], [1, -1], [-1, 1], [1, 1]]) / 2))
    angle = _upright(marks[0], marks[2])  # the wrist's middle, the middle finger's first knuckle
    side = float(np.ptp(corners, axis=0).max())
    scale, shift = _PALM_TO_CROP
    up = np.array([-np.sin(angle), np.cos(angle)])
    return _Crop(corners.mean(axis=0) + shift * side * up, scale * side, angle)


def _letterbox(frame: np.ndarray, size: int) -> np.ndarray:
    """The whole frame, scaled into a square with black bars, in [0, 1]."""
    from PIL import Image

    height, width = frame.shape[:2]
    factor = size / max(height, width)
    shape = max(round(width * factor), 1), max(round(height * factor), 1)
    small = np.asarray(Image.fromarray(frame).resize(shape, Image.Resampling.BILINEAR))
    square = np.zeros((size, size, 3), dtype=np.float32)
    top, left = (size - shape[1]) // 2, (size - shape[0]) // 2
    square[top : top + shape[1], left : left + shape[0]] = small / 255
    return square


def _overlaps(centre: np.ndarray, size: np.ndarray, best: int) -> np.ndarray:
    """Intersection over union of every box with the best one."""
    low, high = centre - size / 2, centre + size / 2
    inner = np.clip(np.minimum(high, high[best]) - np.maximum(low, low[best]), 0, None).prod(axis=1)
    area = size.prod(axis=1)
    return inner / (area + area[best] - inner)
