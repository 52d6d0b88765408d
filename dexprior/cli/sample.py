"""Sample clips from the prior, each with its hand and object motion.

Conditions are those of new scenes of a task that the prior was trained on, read from a file of `PriorCondition`s, or
made for an object of your own as `dexprior condition` does: cloud=FILE and that verb's settings. Writes
samples.safetensors, conditions.safetensors beside it, and one mp4 a sample; of further views=, samples.NAME.safetensors
and one mp4 a sample as well.

A motion is sampled for frames that are given (video=FILE of samples), or frames for motions (motion=FILE).

Sixteen samples at a time get a file under `parts`: the same command, given again, makes what is missing. By `accelerate
launch scripts/sample.py` each rank makes its share.

What the prior is not told, the rest decides. Without start, target, fingers and time the sentence chooses how it is
done, and may be one that nobody trained on:

dexprior sample sentence="first shove the block ahead, then lift it" mask=[start,target,fingers,time]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from dexprior.cli.show import show, trained
from dexprior.config import Ge, config, to_plain
from dexprior.data.own_objects.settings import OwnObjectConfig
from dexprior.progress import say

if TYPE_CHECKING:
    from dexprior.types import PriorCondition, VideoSample


HELP: dict[str, tuple[str, ...]] = {
    "": ("prior", "task", "sentence", "mask", "n", "conditions", "cloud", "text", "at", "goal", "seed", "out"),
}
"""What `--help` shows, of the verb and of its words; what ends in a dot, `--help all` shows."""


@config
class Config(OwnObjectConfig):
    """Settings of `dexprior sample`."""

    prior: str | None = None
    """Run folder of the video prior, or `shipped`, the small one of pick_place that comes with the package; by default
    that of train-prior, then the demo's, then the one that ships."""
    conditions: str | None = None
    """File of conditions; new scenes are drawn when neither it nor cloud= is given."""
    task: str | None = None
    """Whose scenes; by default the first of the tasks that the prior was trained on."""
    sentence: str | None = None
    """What is asked for in each scene of a task of the suite; drawn when it is not given. Any sentence where neither
    start, target, fingers nor time are told, else one of the task's."""
    proposed: bool = False
    """Whether the prior proposes where hands start, what they reach and when, from the object, its goal and the
    sentence, and what the conditions say of that is not used."""
    mask: tuple[str, ...] = ()
    """What the prior is not told: of start, target, fingers (the target's), time (the target's, and the clip's length),
    cloud (the object and what it is brought to) and text. Without times, clips are as long as the task's longest."""
    guidance: dict[str, float] = field(default_factory=dict)
    """How much more than the prior samples follow some of these, e.g. guidance.text=1; not those in mask."""
    video: str | None = None
    """File of samples whose frames are kept, with the motion sampled for them; their conditions are those beside it."""
    motion: str | None = None
    """File of samples whose motion is kept, with the frames sampled for it; likewise."""
    n: Annotated[int, Ge(1)] = 4
    """Scenes to draw; of an object of your own starts of the hand."""
    seed: Annotated[int, Ge(0)] = 0
    """Seed of scenes and samples."""
    out: str = "runs/samples"
    """Folder; its parts may be removed when all is done."""
    motion_steps: Annotated[int, Ge(1)] = 12
    """Euler steps of the motion stream."""
    video_steps: Annotated[int, Ge(1)] = 2
    """Euler steps of the video stream."""
    views: tuple[str, ...] = ()
    """Further cameras of the tasks that the same motions are filmed with, as [side]: a pose estimator sees depth in two
    of them, where the prior was trained on both."""


def run(config: Config, words: list[str]) -> int:
    """Sample and write."""
    from dexprior.artifacts import load_all, save
    from dexprior.data.clips import write_clip
    from dexprior.errors import BadInput, ConfigError
    from dexprior.prior.batches import sample_batches
    from dexprior.prior.distributed import make_accelerator
    from dexprior.prior.evaluation import Motion, contact_law_violations
    from dexprior.prior.sampling import load_prior
    from dexprior.types import PriorCondition, VideoSample
    from dexprior.worlds.tasks.scene import camera

    kept = {name: path for name, path in (("video", config.video), ("motion", config.motion)) if path is not None}
    if kept and (config.cloud is not None or len(kept) > 1):
        raise ConfigError("sample: give one of video=FILE, motion=FILE and cloud=FILE")
    cameras = {name: camera(name, 256) for name in config.views}  # film() fits them to its frames
    given = _own_settings(config)
    if given and config.cloud is None:
        raise ConfigError(f"sample: {', '.join(given)} say what to do with an object of your own: give cloud=FILE, too")
    if config.cloud is not None and config.conditions is not None:
        raise ConfigError("sample: give either conditions=FILE or cloud=FILE")
    found = ["runs/prior", "runs/demo/02-prior"]
    folder = trained(config.prior, found, "prior", "dexprior demo` or `dexprior train-prior")
    pipeline, info = load_prior(folder)
    clips = {name: load_all(path, VideoSample) for name, path in kept.items()}
    asked = config.conditions
    if kept and asked is None:
        asked = str(Path(*kept.values()).with_name("conditions.safetensors"))
    if asked is not None:
        conditions = load_all(asked, PriorCondition)
    elif config.cloud is not None:
        from dexprior.data.own_objects.conditions import own_conditions

        conditions = own_conditions(config, n=config.n, seed=config.seed).conditions
    else:
        task = config.task or next(iter(info["tasks"]), None)
        if task is None:
            raise BadInput(f"{folder} was trained on no task that dexprior has scenes of: give conditions=FILE")
        conditions = _drawn(config, task, pipeline.denoiser.config)
    if config.proposed:
        conditions = pipeline.propose(conditions, seed=config.seed)
    out, ranks = Path(config.out), make_accelerator(None, unused=False)
    if ranks.device.type == "cuda":
        pipeline.to(ranks.device)
    made = sample_batches(
        pipeline, folder, conditions, out / "parts", seed=config.seed, given=clips, rank=ranks.process_index,
        ranks=ranks.num_processes, motion_steps=config.motion_steps, video_steps=config.video_steps,
        hidden=config.mask, guidance=config.guidance, provenance={"checkpoint": str(folder)},
    )  # fmt: skip
    ranks.wait_for_everyone()
    if not ranks.is_main_process:
        return 0
    samples = list(made)
    if "cloud" not in config.mask:
        _say_what_is_new(samples)
    filmed = {
        name: pipeline.film(
            samples, conditions, [eye] * len(samples), name, seed=config.seed, video_steps=config.video_steps
        )
        for name, eye in cameras.items()
    }
    save(conditions, out / "conditions.safetensors", producer="sample", seed=config.seed)
    save(samples, out / "samples.safetensors", producer="sample", seed=config.seed, config=config)
    for k, sample in enumerate(samples):
        write_clip(out / f"{k:03d}.mp4", sample.frames, sample.fps)
    for name, views in filmed.items():
        save(views, out / f"samples.{name}.safetensors", producer="sample", seed=config.seed)
        for k, view in enumerate(views):
            assert view.frames is not None
            write_clip(out / f"{k:03d}.{name}.mp4", view.frames, samples[k].fps)
    show(
        {
            "samples": len(samples),
            "out": str(out),
            "laws": [contact_law_violations(Motion.of(s), c) for s, c in zip(samples, conditions)],
        }
    )
    return 0


def _own_settings(config: Config) -> list[str]:
    """Names of the settings of an object of one's own that are not their defaults."""
    default = to_plain(OwnObjectConfig())
    return [name for name, value in default.items() if to_plain(getattr(config, name)) != value]


def _say_what_is_new(samples: Sequence[VideoSample]) -> None:
    """A line for clouds that the prior has seen nothing like, or one that it cannot tell."""
    known = [float(sample.provenance.get("cloud_distance", np.nan)) for sample in samples]
    if np.isnan(known).any():
        say("this prior's checkpoint keeps nothing of its training clouds: it cannot tell whether these are like them")
        return
    if new := [k for k, distance in enumerate(known) if distance > 1.0]:
        say(
            f"warning: the cloud of {len(new)} of {len(known)} samples is unlike those that the prior was trained on, "
            f"up to {max(known):.1f} times as far from their mean as 99 % of them: it may take the object for one of "
            "those (`cloud_distance` in the samples' provenance)"
        )


def _drawn(config: Config, task: str, net: Any) -> list[PriorCondition]:
    """Conditions of new scenes."""
    from dexprior.data.demonstrating import condition_of
    from dexprior.errors import BadInput
    from dexprior.worlds.tasks import SUITE, Task, human_task, strategies_of

    rng = np.random.default_rng(config.seed)
    seeds = [config.seed + i for i in range(config.n)]
    every = max(round(1.0 / net.fps / Task.control_dt), 1)
    # ways of doing it whose clips are as long as this prior knows them
    ways = [way for way in strategies_of(task) if way.seconds * net.fps <= net.frames]
    sentences = [text for way in ways for text in way.sentences]
    asked = config.sentence
    if asked is not None and not re.search(r"[A-Za-z]{2}", asked):
        raise BadInput(f"sentence = {asked!r}: no word in it that a prior trained on English could know")
    free = asked is not None and {"start", "target", "fingers", "time"} <= set(config.mask)
    conditions = []
    for seed in seeds:
        made = human_task(task, int(rng.integers(len(SUITE[task].variants))))
        scene = {name: value[0] for name, value in made.sample(rng, 1).items()}
        drawn = sentences[int(rng.integers(len(sentences)))] if sentences else None
        text = drawn if asked is None or free else asked
        made_for = condition_of(made, scene, seed=seed, size=net.size, sentence=text, every=every)
        longest = max([made_for.seconds, *(round(way.seconds * net.fps) / net.fps for way in ways)])
        told: dict[str, Any] = {"text": asked} if free else {}
        if "time" in config.mask:
            told["seconds"] = longest
        conditions.append(replace(made_for, **told))
    return conditions
