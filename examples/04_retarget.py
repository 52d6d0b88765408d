"""A clip of a hand becomes motions of robots: a hand follows the fingers, an arm with a gripper follows the contacts.

python examples/04_retarget.py [SAMPLES]     a file of example 03 or of `dexprior sample`; by default that of example 03
"""

import sys
from pathlib import Path

from dexprior.artifacts import load_all
from dexprior.data.clips import write_clip
from dexprior.retarget.arm_ik import solve_arm
from dexprior.retarget.drawing import draw_retargeting
from dexprior.retarget.gripper import GripperConfig, retarget_to_gripper
from dexprior.retarget.grips import Follower
from dexprior.retarget.hand_kinematic import retarget_hand
from dexprior.robots import catalog
from dexprior.types import PriorCondition, VideoSample

file = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/examples/samples/samples.safetensors")
sample = load_all(file, VideoSample)[0]
condition = load_all(file.with_name("conditions.safetensors"), PriorCondition)[0]

found = retarget_hand(sample.hand, catalog.end_effector("builtin-hand"))
print(f"hand: {found.trajectory.q.shape[1]} joints, fingertips {1000 * found.tip_error.mean():.1f} mm off")
film = draw_retargeting(sample.hand.joints, found.trajectory, every=4)
print(write_clip("runs/examples/hand.mp4", film, sample.fps / 4))

surface = condition.cloud[condition.moves]
robot = Follower.of("arm7", "parallel")
plan = retarget_to_gripper(sample.hand, sample.object, robot, GripperConfig(), surface=surface)
arm = solve_arm("arm7", "parallel", plan)
print(f"arm: {arm.t[-1]:.1f} s, {arm.feasible.mean():.0%} of the frames reached, joints", ", ".join(arm.names))
