"""The prior is asked for a scene, a start, a target and a sentence, and draws clips of how a hand would do it.

python examples/03_sample.py [N]     films and samples.safetensors in runs/examples/samples
"""

import sys

import numpy as np

from dexprior.artifacts import save
from dexprior.cli.places import shipped
from dexprior.data.clips import write_clip
from dexprior.data.demonstrating import condition_of
from dexprior.prior.evaluation import Motion, contact_law_violations
from dexprior.prior.sampling import load_prior
from dexprior.worlds.tasks import human_task, strategies_of

count = int(sys.argv[1]) if len(sys.argv) > 1 else 4
out = "runs/examples/samples"

prior, info = load_prior(shipped("prior") / "checkpoint")  # or runs/demo/02-prior/checkpoint
name = info["tasks"][0]
task, sentence = human_task(name, 0), strategies_of(name)[0].sentences[0]
rows = task.sample(np.random.default_rng(0), count)
scenes = [{key: value[k] for key, value in rows.items()} for k in range(count)]
size = prior.denoiser.config.size
conditions = [condition_of(task, scene, seed=k, size=size, sentence=sentence) for k, scene in enumerate(scenes)]

samples = prior(conditions, seed=0)
for k, (sample, condition) in enumerate(zip(samples, conditions)):
    path = write_clip(f"{out}/{k}.mp4", sample.frames, sample.fps)
    moved = np.linalg.norm(sample.object.points[-1].mean(axis=0) - sample.object.points[0].mean(axis=0))
    print(f"{path}: {sentence!r}, the object goes {100 * moved:.0f} cm")
    print("laws of contact that it breaks:", contact_law_violations(Motion.of(sample), condition))
save(samples, f"{out}/samples.safetensors", producer="example")
save(conditions, f"{out}/conditions.safetensors", producer="example")
