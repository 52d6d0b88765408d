"""A policy is trained on with PPO, held near a bank of trajectories that the video prior's samples became.

python examples/06_fine_tune.py [SCENES] [ITERATIONS]     the run stands in runs/examples/fine-tuned
"""

import sys
from pathlib import Path

from dexprior.behavior import BehaviorConfig
from dexprior.cli.places import shipped
from dexprior.pipeline.following import gripper_settings, make_bank
from dexprior.pipeline.settings import BankConfig, LineConfig
from dexprior.pipeline.stages import stage_policy
from dexprior.policy.actor import load_actor
from dexprior.policy.ppo import PpoConfig
from dexprior.worlds.tasks import robot_task

scenes = int(sys.argv[1]) if len(sys.argv) > 1 else 32
iterations = int(sys.argv[2]) if len(sys.argv) > 2 else 8
task, out = robot_task("pick_place"), Path("runs/examples")

# samples of the prior for so many training scenes, retargeted: the behavioral prior
bank = BankConfig(scenes=scenes, behavior=BehaviorConfig(std_twist=0.025, std_end=0.025))
print(make_bank(task, bank, gripper_settings("pick_place", {}), shipped("prior"), out / "bank", seed=0))

# no warm-up: the policy that ships has imitated such a bank already, and sees through the sensors of its training
start = shipped("policy")
ppo = PpoConfig(
    worlds=scenes, iterations=iterations, warmup=0, epochs=2, simulation=LineConfig().policy.simulation,
    actor=load_actor(start / "actor.safetensors").config,
)  # fmt: skip
run = out / f"fine-tuned-{scenes}-{iterations}"
found = stage_policy(ppo, out / "bank", run, seed=0, use_prior=True, init=start, task=task)
for row in found["curve"]:
    print(f"step {row['step']}: success {row['success']:.2f}, KL to the bank {row['kl']:.2f}")
