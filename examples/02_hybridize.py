"""A learned collision model answers the impacts of a MuJoCo environment that somebody else wrote.

python examples/02_hybridize.py [PAIRS]

The model is distilled here from PAIRS simulated impacts; docs/tutorials/your-own-collisions.md fits one to ten measured
impacts of an object of yours.
"""

import sys

import gymnasium
import numpy as np

from dexprior.collision import SurrogateConfig
from dexprior.collision.distill import DistillConfig
from dexprior.collision.generator import GeneratorConfig
from dexprior.collision.stage import CollisionConfig, open_base, train_base
from dexprior.envs.hybrid import hybridize

pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
settings = CollisionConfig(
    generator=GeneratorConfig(pairs=pairs),
    surrogate=SurrogateConfig(width=24, depth=2),
    distill=DistillConfig(steps=400),
)
folder = open_base(settings, f"runs/examples/collision-{pairs}", seed=0)
collision, _ = train_base(folder, settings, progress=True)
phi = np.array([0.3, 0.5, 0.001, 1.0, 0.0])  # friction, restitution and how they come about: see `dexprior.collision`

env = hybridize(gymnasium.make("HalfCheetah-v5"), [("floor", "ffoot"), ("floor", "bfoot")], collision, phi)
env.reset(seed=0)
rng = np.random.default_rng(0)
for _ in range(200):
    env.step(rng.uniform(env.action_space.low, env.action_space.high))
print("answered:", {name: count for name, count in env.unwrapped.hybrid.counts.items() if count})
env.close()
