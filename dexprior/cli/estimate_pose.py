"""Video -> hand trajectory.

For a real clip: landmarks from a file (landmarks=FILE.npz), or from the tflite models (`dexprior data get
hand-landmarks` says how to get them). For sampled clips (samples=FILE), the learned estimator reads hand and object,
from all cameras that `dexprior sample views=` filmed them with.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from dexprior.cli.show import show, trained
from dexprior.config import Ge, config
from dexprior.errors import BadInput, ConfigError

HELP: dict[str, tuple[str, ...]] = {
    "": ("video", "landmarks", "side", "models", "start", "stop", "samples", "estimator", "out"),
}
"""What `--help` shows, of the verb and of its words; what ends in a dot, `--help all` shows."""


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
    """Run folder of the estimator for sampled clips, or `shipped`, the small one of pick_place that comes with the
    package; by default the demo's, then the one that ships."""
    out: str = "runs/pose"
    """Folder; the trajectory, or one for each sample, goes into hand.safetensors, the samples' objects into
    object.safetensors."""


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
    from dexprior.pose.estimator import load_estimator
    from dexprior.pose.evaluation import consistency, reading_errors
    from dexprior.pose.fusion import read_sample
    from dexprior.types import PriorCondition, VideoSample
    from dexprior.types.episode import View

    assert config.samples is not None
    path = trained(config.estimator, ["runs/demo/03-estimator"], "estimator", "dexprior demo")
    model = load_estimator(path)
    file = Path(config.samples)
    samples = load_all(file, VideoSample)
    beside = file.with_name("conditions.safetensors")
    if not beside.exists():
        raise BadInput(
            f"{beside} does not exist: it says where the clips' objects are; make both with `dexprior sample`"
        )
    conditions = load_all(beside, PriorCondition)
    filmed = [load_all(path, View) for path in sorted(file.parent.glob(f"{file.stem}.*.safetensors"))]
    counts = [len(conditions), *map(len, filmed)]
    if set(counts) != {len(samples)}:
        raise BadInput(
            f"{file} holds {len(samples)} clip(s), the conditions and views beside it "
            f"{' and '.join(map(str, counts))}: sample them again"
        )
    seen = list(zip(*filmed)) or [()] * len(samples)
    read = [read_sample(s, c, model, "pixels", views) for s, c, views in zip(samples, conditions, seen)]
    out = Path(config.out)
    hands, things = zip(*read)
    save(list(hands), out / "hand.safetensors", producer="estimate-pose", config=config)
    save(list(things), out / "object.safetensors", producer="estimate-pose", config=config)
    own = [read_sample(s, c, model, "motion") for s, c in zip(samples, conditions)]
    show(
        {
            "hands": str(out / "hand.safetensors"),
            "objects": str(out / "object.safetensors"),
            "clips": len(samples),
            "cameras": 1 + len(filmed),
            "against_motion_stream": reading_errors(read, own),
            "consistency": [consistency(sample, pair) for sample, pair in zip(samples, read)],
        }
    )
    return 0
