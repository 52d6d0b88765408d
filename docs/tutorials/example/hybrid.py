"""The last step of docs/tutorials/your-own-collisions.md: a MuJoCo world with the learned collision inside."""

import sys

import mujoco

from dexprior.collision import HybridStepper, Surrogate

WORLD = """
<mujoco><option timestep="0.001"/><worldbody><geom name="floor" type="plane" size="1 1 .1"/>
  <body name="body" pos="0 0 .3"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>
    <joint type="hinge" axis="0 -1 0"/><inertial pos="0 0 0" mass=".0364" diaginertia="1e-5 1.3468e-5 1e-5"/>
    <geom name="ellipse" type="ellipsoid" size=".035 .025 .025" mass="0"/></body></worldbody></mujoco>"""

model = mujoco.MjModel.from_xml_string(WORLD)
data = mujoco.MjData(model)
data.qpos[2] = 0.5  # rad
collision = Surrogate.load(sys.argv[1])
stepper = HybridStepper(model, data, [("floor", "ellipse")], collision, collision.phi)
for _ in range(1500):
    stepper.step()
print(f"impacts answered: {stepper.counts['impacts']}, height at the end: {data.body('body').xpos[2]:.3f} m")
print("counts:", {name: count for name, count in stepper.counts.items() if count})
