"""The one-line switch: existing environments with a collision model inside."""

from __future__ import annotations

import warnings

import gymnasium
import mujoco
import numpy as np
import pytest

from dexprior.collision import HybridConfig, HybridStepper, RestitutionFriction
from dexprior.envs.hybrid import HybridBackend, hybridize
from dexprior.envs.panel import Panel
from dexprior.envs.sim import SimBackend
from dexprior.envs.tasks import TaskEnv, TaskVectorEnv
from dexprior.errors import BadInput, UnknownName
from dexprior.worlds.tasks import make_task

PHI = np.array([0.5, 0.3])
PUSHER = [("r_wrist_roll_link", "object")]
NEVER = HybridConfig(min_approach=1e6)


def swing(env, steps=40, seed=3):
    """Observations under the same random actions."""
    env.reset(seed=seed)
    rng = np.random.default_rng(seed)
    low, high = env.action_space.low, env.action_space.high
    return np.array([env.step(rng.uniform(low, high).astype(np.float32))[0] for _ in range(steps)])


def reach(env):
    """Lower the arm to the table, put Pusher's object beside it, and swing."""
    env.reset(seed=0)
    base = env.unwrapped
    qpos, qvel = np.zeros_like(base.init_qpos), np.zeros_like(base.init_qvel)
    joint = {name: base.model.joint(f"r_{name}_joint") for name in ("shoulder_pan", "shoulder_lift", "wrist_flex")}
    qpos[joint["shoulder_lift"].qposadr], qpos[joint["wrist_flex"].qposadr] = 0.34, -0.34
    base.set_state(qpos, qvel)
    fork = base.data.geom_xpos[base.model.geom("wf").id] + [0.05, 0.1, 0.0]
    place = base.model.body("object").pos
    for axis, name in enumerate(("obj_slidex", "obj_slidey")):
        qpos[base.model.joint(name).qposadr] = fork[axis] + 0.15 * axis - place[axis]
    qvel[joint["shoulder_pan"].dofadr] = 2.0
    base.set_state(qpos, qvel)
    for _ in range(10):
        env.step(np.zeros(env.action_space.shape, dtype=np.float32))


def test_a_gymnasium_environment_whose_model_is_never_asked_is_unchanged():
    plain = gymnasium.make("Pusher-v5")
    hybrid = hybridize(gymnasium.make("Pusher-v5"), PUSHER, RestitutionFriction(), PHI, NEVER)
    np.testing.assert_array_equal(swing(plain), swing(hybrid))
    np.testing.assert_array_equal(swing(plain, seed=4), swing(hybrid, seed=4))  # over a reset
    np.testing.assert_array_equal(plain.unwrapped.data.cfrc_ext, hybrid.unwrapped.data.cfrc_ext)


def test_a_gymnasium_environment_asks_the_model_about_its_impacts():
    env = hybridize(gymnasium.make("Pusher-v5"), PUSHER, RestitutionFriction(), PHI)
    reach(env)
    once = env.unwrapped.hybrid.counts["impacts"]
    assert once >= 1
    reach(env)
    assert env.unwrapped.hybrid.counts["impacts"] == 2 * once  # counts go on over a reset, which it repeats


def test_sensors_of_an_environment_show_an_impact_for_one_of_its_steps():
    env = gymnasium.make("Pusher-v5")
    for config, shown in ((None, env.unwrapped.dt), (HybridConfig(sensing_time=0.5), 0.5)):
        switched = hybridize(gymnasium.make("Pusher-v5"), PUSHER, RestitutionFriction(), PHI, config)
        assert switched.unwrapped.hybrid.stepper.config.sensing_time == shown


def test_mistakes_in_a_gymnasium_environment_are_found_at_once():
    env = gymnasium.make("Pusher-v5")
    with pytest.raises(UnknownName, match="did you mean 'object'"):
        hybridize(env, [("r_wrist_roll_link", "objekt")], RestitutionFriction(), PHI)
    with pytest.raises(BadInput, match=r"\('tips_arm', 'object'\) never touches"):
        hybridize(env, [("tips_arm", "object")], RestitutionFriction(), PHI)
    hybridize(env, PUSHER, RestitutionFriction(), PHI)
    with pytest.raises(BadInput, match="hybrid already"):
        hybridize(env, PUSHER, RestitutionFriction(), PHI)
    with pytest.raises(BadInput, match="not a MuJoCo world"):
        hybridize(gymnasium.make("CartPole-v1"), PUSHER, RestitutionFriction(), PHI)


class OneMethod:
    """An environment in the manner of older code: a model, data, and `do_simulation`."""

    def __init__(self, xml):
        self.model = mujoco.MjModel.from_xml_string(xml)
        self.data = mujoco.MjData(self.model)

    def do_simulation(self, ctrl, n_frames):
        self.data.ctrl[:] = ctrl
        mujoco.mj_step(self.model, self.data, nstep=n_frames)


class RobotLike(OneMethod):
    """An environment in the manner of gymnasium-robotics."""

    n_substeps = 20

    def _mujoco_step(self, action):
        mujoco.mj_step(self.model, self.data, nstep=self.n_substeps)


FALL = """
<mujoco><worldbody>
  <geom name="floor" type="plane" size="1 1 1"/>
  <body name="ball" pos="0 0 0.1"><freejoint/><geom name="ball" size="0.02"/></body>
</worldbody></mujoco>
"""


def test_plain_worlds_and_older_environments():
    env = hybridize(OneMethod(FALL), [("ball", "floor")], RestitutionFriction(), PHI)
    stepper = hybridize((env.model, mujoco.MjData(env.model)), [("ball", "floor")], RestitutionFriction(), PHI)
    assert isinstance(stepper, HybridStepper)
    env.do_simulation(np.zeros(0), 100)
    stepper.step(100)
    np.testing.assert_array_equal(env.data.qpos, stepper.data.qpos)
    assert env.hybrid.counts["impacts"] == stepper.counts["impacts"] == 1
    env.data = mujoco.MjData(env.model)  # a new state is followed
    env.do_simulation(np.zeros(0), 100)
    np.testing.assert_array_equal(env.data.qpos, stepper.data.qpos)
    assert env.hybrid.counts["impacts"] == 2

    robot = hybridize(RobotLike(FALL), [("ball", "floor")], RestitutionFriction(), PHI)
    for _ in range(5):
        robot._mujoco_step(None)
    np.testing.assert_array_equal(robot.data.qpos, stepper.data.qpos)

    class Stepless:
        model, data = env.model, env.data

    with pytest.raises(BadInput, match="none of the methods"):
        hybridize(Stepless(), [("ball", "floor")], RestitutionFriction(), PHI)


NEVER_TOUCHES = """
<mujoco><contact><exclude body1="ball" body2="cup"/></contact><worldbody>
  <geom name="floor" type="plane" size="1 1 1"/>
  <body name="ball" pos="0 0 0.1"><freejoint/><geom name="ball" size="0.02"/></body>
  <body name="cup" pos="0.5 0 0.1"><freejoint/><geom name="cup" size="0.02"/>
    <body name="lid"><joint/><geom name="lid" size="0.02"/></body><body name="rim"><geom name="rim" size="0.02"/></body>
  </body>
</worldbody></mujoco>
"""


@pytest.mark.parametrize("pair", [("ball", "cup"), ("geom:cup", "geom:lid"), ("geom:cup", "geom:rim")])
def test_pairs_that_mujoco_keeps_apart_are_refused(pair):
    """An exclude, a body and its parent, two bodies that are one; what the filters let through is taken."""
    model = mujoco.MjModel.from_xml_string(NEVER_TOUCHES)
    with pytest.raises(BadInput, match="never touches: MuJoCo keeps all its geoms apart"):
        hybridize((model, mujoco.MjData(model)), [pair], RestitutionFriction(), PHI)
    hybridize((model, mujoco.MjData(model)), [("ball", "geom:lid"), ("floor", "ball")], RestitutionFriction(), PHI)


def test_a_pair_that_never_touched_is_said_when_the_environment_is_closed():
    pairs = [("ball", "floor"), ("ball", "geom:lid")]
    env = OneMethod(NEVER_TOUCHES)
    env.close = lambda: "closed"
    hybridize(env, pairs, RestitutionFriction(), PHI)
    env.do_simulation(np.zeros(0), 100)
    assert env.hybrid.touched == {0}
    with pytest.warns(UserWarning, match=r"pair \('ball', 'geom:lid'\) never touched") as caught:
        assert env.close() == "closed"
    assert len(caught) == 1
    task = make_task("pick_place")
    for asked, warned in (([("cube", "table")], 0), ([("geom:robot/pad_left", "table")], 1)):
        env = TaskVectorEnv(task, 1, threads=1)
        hybridize(env, asked, RestitutionFriction(), PHI)
        env.reset(seed=0)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(4):
                env.step(np.zeros(env.action_space.shape, dtype=np.float32))
            env.close()
        assert sum("never touched" in str(one.message) for one in said) == warned


def test_a_backend_keeps_task_family_and_worlds():
    task = make_task("insertion", mass=0.06, cone="elliptic")
    plain = SimBackend(task, 2, family=task.reality, threads=1)
    hybrid = hybridize(plain, task.struck, RestitutionFriction(), PHI, NEVER)
    assert isinstance(hybrid, HybridBackend)
    assert (hybrid.task, hybrid.n, hybrid.worlds.family) == (task, 2, task.reality)
    assert hybrid.worlds.model.opt.cone == plain.worlds.model.opt.cone
    panel = Panel.sample("test", task, 2, seed=0, family=task.reality)
    poses = []
    for backend in (plain, hybrid):
        backend.reset(panel)
        backend.worlds.view.pose("nut")[:, 2] += 0.05
        for _ in range(8):
            reading = backend.step(backend.actions.commands(np.zeros((2, 7))))
        poses.append(reading.truth["object"])
    np.testing.assert_allclose(*poses, rtol=0, atol=1e-12)
    with pytest.raises(BadInput, match="hybrid already"):
        hybridize(hybrid, task.struck, RestitutionFriction(), PHI)


@pytest.mark.parametrize("single", [True, False])
def test_an_environment_of_the_suite_is_switched_in_place(single):
    task = make_task("pick_place")
    env = TaskEnv(task, threads=1) if single else TaskVectorEnv(task, 2, threads=1)
    assert hybridize(env, [("cube", "table")], RestitutionFriction(), PHI) is env
    vector = env.vector if single else env
    assert isinstance(vector.backend, HybridBackend)
    env.reset(seed=0)
    vector.worlds.view.pose("cube")[:, 2] += 0.05
    for _ in range(6):
        observation = env.step(env.action_space.sample())[0]
    assert np.isfinite(observation["proprio"]).all()
    assert vector.backend.counts["impacts"] >= 1
