"""Stable-Baselines3 trains on a task of the suite, which is a Gymnasium environment like any other.

python examples/01_stable_baselines3.py [STEPS]

PPO from scratch does not solve these tasks in a few thousand steps (docs/measurements/line.md): what it starts from is
what the rest of the project is about.
"""

import sys

import gymnasium
import numpy as np
from stable_baselines3 import PPO

import dexprior.envs  # noqa: F401  # registers the names

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000

env = gymnasium.make("dexprior/PickPlace-v0")
print("sees", {name: space.shape for name, space in env.observation_space.items()}, "acts", env.action_space.shape)

model = PPO("MultiInputPolicy", env, n_steps=min(steps, 500), batch_size=100, device="cpu", seed=0)
model.learn(steps)

observation, info = env.reset(seed=1)
total, over = 0.0, False
while not over:
    action, _ = model.predict(observation, deterministic=True)
    observation, reward, lost, late, info = env.step(action)
    total, over = total + float(reward), lost or late
print(f"after {model.num_timesteps} steps: return {total:.1f}, solved {bool(np.all(info['success']))}")
env.close()
