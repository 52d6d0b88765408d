"""The moving picture of the README, from a run's folder: python scripts/picture.py RUN docs/line.gif

From left to right: a held-out demonstration, a sampled clip with the hand that the pose estimator reads from it, the
robot that follows that clip in the training world, the policy in the other world on a scoring scene. Each is shown in
the same time, however long it takes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from dexprior.artifacts import load_all
from dexprior.behavior import BehaviorPrior
from dexprior.data.stacks import load_stack, split_stack
from dexprior.envs.panel import Panel
from dexprior.envs.sim import SimBackend
from dexprior.pipeline.films import Frames, grown, rollout_frames, with_hand
from dexprior.pipeline.ladder import scoring_scenes
from dexprior.pipeline.line import Line
from dexprior.pipeline.worlds import SCORING, judging_worlds
from dexprior.policy.actor import load_actor
from dexprior.policy.rollout import actor_policy, prior_policy
from dexprior.pose.estimator import load_estimator
from dexprior.pose.fusion import read_sample
from dexprior.retarget.drawing import beside
from dexprior.types import PriorCondition, VideoSample

SIZE = 176  # [px] of one of the four
FRAMES, REST = 40, 6  # shown, and how many times the last one more
PERIOD = 100  # [ms]
DULL_COLORS, BRIGHT_COLORS = 96, 48
BRIGHT = 80  # between the largest and the smallest channel of a pixel


def main() -> None:
    """Read the arguments and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="folder of a finished `dexprior demo`")
    parser.add_argument("out", type=Path, help="GIF to write")
    parser.add_argument("--clip", type=int, default=0, help="which held-out demonstration")
    parser.add_argument("--sample", type=int, default=0, help="which of the bank's first four samples")
    parser.add_argument("--scene", type=int, default=0, help="which of the scoring scenes the policy acts in")
    chosen = parser.parse_args()
    line = Line.load(chosen.run)
    panels = [
        _demonstration(line, chosen.clip), _sampled(line, chosen.sample), _followed(line, chosen.sample),
        _policy(line, chosen.scene),
    ]  # fmt: skip
    _write(beside([_shown(panel) for panel in panels]), chosen.out)
    print(f"{chosen.out}: {chosen.out.stat().st_size / 1e6:.2f} MB")


def _demonstration(line: Line, k: int) -> Frames:
    c = line.config
    return grown(split_stack(load_stack(line.folder["01-demonstrations"], c.prior.size), c.prior.holdout)[1].seen(k))


def _sampled(line: Line, k: int) -> Frames:
    bank = line.folder["04-behavior"]
    sample = load_all(bank / "examples.safetensors", VideoSample)[k]
    condition = load_all(bank / "conditions.safetensors", PriorCondition)[k]
    reader = load_estimator(line.folder["03-estimator"] / "estimator.safetensors")
    return with_hand(sample, read_sample(sample, condition, reader, "pixels")[0])


def _followed(line: Line, k: int) -> Frames:
    bank = line.folder["04-behavior"]
    ids, panel = np.array([k]), Panel.load(bank / "panel.json")
    follow = prior_policy(BehaviorPrior.load(bank / "behavior.safetensors"), ids)
    frames, episodes = rollout_frames(follow, SimBackend(line.task, 1), panel.take(ids))
    print(f"robot: {'success' if episodes.success[0] else 'failure'}")
    return frames[0]


def _policy(line: Line, k: int) -> Frames:
    world = judging_worlds(line.task)["other"]
    panel = world.panel(scoring_scenes(line), seed=SCORING).take(np.array([k]))
    actor = load_actor(line.folder["06-policy"] / "actor.safetensors")
    backend = world.backend(1, sensors=line.config.policy.simulation.sensors)
    frames, episodes = rollout_frames(actor_policy(actor), backend, panel)
    print(f"policy: {'success' if episodes.success[0] else 'failure'}")
    return frames[0]


def _shown(frames: Frames) -> Frames:
    """So many frames of one size, the last one for a while."""
    at = np.linspace(0, len(frames) - 1, FRAMES).round().astype(int)
    small = [np.asarray(Image.fromarray(frames[k]).resize((SIZE, SIZE), Image.Resampling.LANCZOS)) for k in at]
    return np.stack([*small, *[small[-1]] * REST])


def _write(frames: Frames, path: Path) -> None:
    """A GIF with one palette for all frames, so that what stands still costs nothing."""
    pixels = frames[:: len(frames) // 6].reshape(-1, 3)
    bright = np.ptp(pixels, axis=1) > BRIGHT  # a small orange block is to keep its colour beside a large table
    colors = [_colors(pixels[~bright], DULL_COLORS), _colors(pixels[bright], BRIGHT_COLORS)]
    palette = Image.new("P", (1, 1))
    palette.putpalette(np.concatenate(colors).tobytes())
    drawn = [Image.fromarray(f).quantize(palette=palette, dither=Image.Dither.NONE) for f in frames]
    drawn[0].save(path, save_all=True, append_images=drawn[1:], duration=PERIOD, loop=0, optimize=False)


def _colors(pixels: UInt8[np.ndarray, "pixel 3"], n: int) -> UInt8[np.ndarray, "color 3"]:
    """So many colours that stand for pixels."""
    found = Image.fromarray(pixels[None]).quantize(n).getpalette()
    return np.array(found[: 3 * n], dtype=np.uint8).reshape(-1, 3)


if __name__ == "__main__":
    main()
