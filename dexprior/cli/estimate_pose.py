"""Video -> hand trajectory.

For a real clip: landmarks from a file (landmarks=FILE.npz), or from the tflite models (`dexprior data get
hand-landmarks` says how to get them). For a sampled clip (samples=FILE), the learned estimator reads the hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from dexprior.cli.show import show, trained
from dexprior.config import Ge, config
from dexprior.errors import ConfigError


@config
class Config:
    """Settings of `dexprior estimate-pose`."""

    video: str | None = None
    """A real clip."""
    landmarks: str | None = None
    """Landmark file of the clip; by default the clip's own `human_joint_SIDE.npz` beside it, then the detector."""
    side: Literal["left", "right"] = "right"
    """Which hand."""
    models: str | None = None
    """Folder of the tflite models."""
    start: Annotated[int, Ge(0)] = 0
    """First frame."""
    stop: Annotated[int, Ge(1)] | None = None
    """Frame after the last."""
    samples: str | None = None
    """File of sampled clips, instead of a video."""
    estimator: str | None = None
    """Run folder of the estimator for sampled clips; by default the demo's."""
    out: str = "runs/pose"
    """Folder; the trajectory, or one for each sample, goes into hand.safetensors."""


def run(config: Config, words: list[str]) -> int:
    """Estimate and write."""
    if (config.video is None) == (config.samples is None):
        raise ConfigError("estimate-pose: give either video=CLIP or samples=FILE")
    return _real(config) if config.video is not None else _sampled(config)


def _real(config: Config) -> int:
    from dexprior.artifacts import save
    from dexprior.pose.real_video import estimate_from_clip

    assert config.video is not None
    beside = Path(config.video).with_name(f"human_joint_{config.side}.npz")
    landmarks = Path(config.landmarks) if config.landmarks else (beside if beside.is_file() else None)
    estimate = estimate_from_clip(
        Path(config.video),
        landmarks,
        side=config.side,
        models_dir=Path(config.models) if config.models else None,
        start=config.start,
        stop=config.stop,
    )
    path = save(estimate.hand, Path(config.out) / "hand.safetensors", producer="estimate-pose", config=config)
    show(
        {
            "hand": str(path),
            "frames": len(estimate.hand),
            "valid": int(estimate.hand.valid.sum()),
            "fps": estimate.fps,
            "source": str(landmarks) if landmarks else "detector",
            "scale_known": estimate.hand.scale_known,
        }
    )
    return 0


def _sampled(config: Config) -> int:
    from dexprior.artifacts import load_all, save
    from dexprior.pose.estimator import estimate, joint_error, load_estimator
    from dexprior.types import VideoSample

    assert config.samples is not None
    path = trained(
        config.estimator, ["runs/demo/03-estimator"], "estimator.safetensors", "pose estimator", "dexprior demo"
    )
    model = load_estimator(path)
    samples = load_all(config.samples, VideoSample)
    hands = [estimate(model, s.frames, s.camera, s.fps) for s in samples]
    out = save(hands, Path(config.out) / "hand.safetensors", producer="estimate-pose", config=config)
    apart = [float(1000 * joint_error(h, s.of_side(h.side)).mean()) for h, s in zip(hands, samples)]
    show({"hands": str(out), "clips": len(hands), "disagreement_with_motion_stream_mm": apart})
    return 0
