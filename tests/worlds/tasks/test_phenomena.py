"""Each contact phenomenon obeys its law, in a world made for it and in the suite's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import mujoco
import numpy as np
import pytest

from dexprior.config import validate
from dexprior.errors import BadInput, ConfigError, UnknownName
from dexprior.families import (
    GAPS,
    PHENOMENA,
    Anisotropy,
    Dissipation,
    Hysteresis,
    Parameter,
    ParameterFamily,
    Phenomena,
    Stribeck,
    TendonCompliance,
    ToeStiffness,
)
from dexprior.worlds.contact_laws import bouc_wen, capstan, ellipse_radius, tendon_tension, toe_secant
from dexprior.worlds.tasks import Layout, Task, TaskWorlds, episode, expert_of, make_task

_G = 9.81
ALL = Phenomena(
    anisotropy=Anisotropy(),
    stribeck=Stribeck(),
    toe_stiffness=ToeStiffness(ratio=10.0),
    dissipation=Dissipation(),
    hysteresis=Hysteresis(),
)


@dataclass(frozen=True)
class Bench(Task):
    """A body on a plane, without a robot: the laws of contact alone."""

    shape: str = "box"

    name: ClassVar[str] = "bench"
    horizon: ClassVar[float] = 1.0
    family: ClassVar[ParameterFamily] = ParameterFamily(
        "bench", (Parameter(name="friction", unit="1", low=0.4, high=0.6, target="geom/plane/friction/0"),)
    )
    weights: ClassVar[dict[str, float]] = {}

    def layout(self) -> Layout:
        spec = mujoco.MjSpec()
        spec.option.timestep, spec.option.cone = 0.001, mujoco.mjtCone.mjCONE_ELLIPTIC
        spec.option.impratio = 10.0
        spec.worldbody.add_geom(
            name="plane", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[1, 1, 0.1], solimp=[0.9, 0.9, 0.001, 0.5, 2.0],
            solref=[0.01, 1.0], friction=[0.5, 0.0, 0.0],
        )  # fmt: skip
        body = spec.worldbody.add_body(name="body", pos=[0, 0, 0.02])
        body.add_freejoint(name="body")
        kind = mujoco.mjtGeom.mjGEOM_BOX if self.shape == "box" else mujoco.mjtGeom.mjGEOM_SPHERE
        body.add_geom(
            name="body", type=kind, size=[0.04, 0.04, 0.02] if self.shape == "box" else [0.02, 0, 0], mass=0.1
        )
        return Layout(spec=spec, rigs=())

    def sample(self, rng, n):
        return {}

    def place(self, view, ids, scenes):
        pass

    def measure(self, view) -> dict[str, Any]:
        return {}

    def cloud(self, view, truth):
        return np.zeros((view.n, 0, 3))

    def terms(self, truth):
        return {}

    def success(self, truth):
        return np.zeros(0, dtype=bool)


def _bench(n: int, phenomena: Phenomena | None, *, shape: str = "box", friction: float = 0.5) -> TaskWorlds:
    worlds = TaskWorlds(Bench(shape=shape), n, phenomena=phenomena, threads=1)
    worlds.reset(np.arange(n), {}, [{"friction": friction}] * n)
    return worlds


def _tilt(worlds: TaskWorlds, slope: np.ndarray, heading: np.ndarray) -> None:
    """Gravity as on an incline."""
    gravity = worlds.view.model_field("opt.gravity")
    side = np.column_stack([np.cos(heading), np.sin(heading)]) * np.sin(slope)[:, None]
    gravity[:] = _G * np.column_stack([side, -np.cos(slope)])


def _run(worlds: TaskWorlds, seconds: float) -> None:
    for _ in range(round(seconds / worlds.task.control_dt)):
        worlds.step(np.zeros((worlds.n, 0)))


def _on_plane(**switched: Any) -> Phenomena:
    return Phenomena(surfaces="plane", **switched)


def test_a_block_slides_along_the_grain_and_holds_across_it():
    """tan(slope) = .31 lies between the coefficients .2 and .5; along the grain it accelerates by g (sin - .2 cos)."""
    worlds = _bench(3, _on_plane(anisotropy=Anisotropy(axis=(1.0, 0.0, 0.0), ratio=0.4)))
    slope = np.full(3, 0.3)
    _run(worlds, 0.2)
    _tilt(worlds, slope, np.array([0.0, np.pi / 2, np.pi / 4]))
    _run(worlds, 0.4)
    speed = np.linalg.norm(worlds.view.velocity("body")[:, :2], axis=1)
    diagonal = 1 / np.sqrt(0.5 / 0.2**2 + 0.5 / 0.5**2)
    expected = 0.4 * _G * (np.sin(0.3) - np.array([0.2, np.inf, diagonal]) * np.cos(0.3))
    np.testing.assert_allclose(speed[[0, 2]], expected[[0, 2]], rtol=0.05)
    assert speed[1] < 0.002
    plain = _bench(1, None)
    _tilt(plain, slope[:1], np.zeros(1))
    _run(plain, 0.4)
    assert np.linalg.norm(plain.view.velocity("body")[0, :2]) < 0.002


def test_kinetic_friction_is_lower_than_static_friction():
    """On a slope between the two, a block at rest stays, and a pushed one goes on with g (sin - mu_k cos)."""
    worlds = _bench(2, _on_plane(stribeck=Stribeck(kinetic=0.6, speed=0.01)))
    slope = np.full(2, np.arctan(0.4))
    _run(worlds, 0.2)
    _tilt(worlds, slope, np.zeros(2))
    _run(worlds, 0.2)
    worlds.view.qvel[1, 0] = 0.2
    _run(worlds, 0.4)
    speed = worlds.view.velocity("body")[:, 0]
    assert abs(speed[0]) < 0.002
    assert speed[1] == pytest.approx(0.2 + 0.4 * _G * (np.sin(slope[1]) - 0.3 * np.cos(slope[1])), rel=0.05)


def test_stiffness_grows_with_the_load_by_the_law():
    """Secant stiffness over two decades of load: a factor of twenty, within a tenth of x / ln(1 + x)."""
    loads = np.array([0.01, 0.1, 1.0])  # [N]
    law = ToeStiffness(ratio=100.0, load=0.01)
    secant = {}
    for name, phenomena in (
        ("toe", _on_plane(toe_stiffness=law)),
        ("plain", _on_plane(hysteresis=Hysteresis(loss=1e-9))),
    ):
        worlds = _bench(3, phenomena)
        worlds.view.model_field("opt.gravity")[:] = np.column_stack([np.zeros((3, 2)), -loads / 0.1])
        _run(worlds, 3.0)
        np.testing.assert_allclose(worlds.view.memory["phenomena/load"][:, 0], loads, rtol=0.02)
        secant[name] = loads / worlds.view.memory["phenomena/depth"][:, 0]
    np.testing.assert_allclose(secant["plain"], secant["plain"][0], rtol=0.02)
    np.testing.assert_allclose(secant["toe"] / secant["plain"], toe_secant(loads, 100.0, 0.01), rtol=0.1)
    assert secant["toe"][2] / secant["toe"][0] > 10


def test_faster_impacts_rebound_less():
    """Hunt and Crossley: e = 1 - 2/3 lambda v at low speeds."""
    speeds = np.array([0.05, 0.1, 0.2, 0.05])
    damping = 1.0
    worlds = _bench(4, _on_plane(dissipation=Dissipation(damping=damping, kept=0.0)), shape="ball")
    worlds.view.model_field("opt.gravity")[:] = 0.0
    worlds.view.pose("body")[:, 2] = 0.0201
    worlds.view.qvel[:, 2] = -speeds
    _run(worlds, 0.12)
    rebound = worlds.view.qvel[:, 2] / speeds
    np.testing.assert_allclose(1 - rebound[:3], 2 / 3 * damping * speeds[:3], rtol=0.25, atol=0.01)
    assert (np.diff(rebound[:3]) < 0).all()
    assert rebound[0] == rebound[3]


@pytest.mark.parametrize("switch", [Phenomena(dissipation=Dissipation()), Phenomena(toe_stiffness=ToeStiffness()), ALL])
def test_a_gripper_still_holds(switch):
    """Springs and dampers of the normal force leave friction its own: what is held does not creep away."""
    task = make_task("peg")
    worlds = TaskWorlds(task, 2, phenomena=switch, threads=1)
    rows = [task.family.as_dict(row) for row in task.family.sample(np.random.default_rng(0), 2)]
    worlds.reset(np.arange(2), task.sample(np.random.default_rng(1), 2), rows)
    start = worlds.truth()["object"][:, 2] - worlds.truth()["tool"][:, 2]
    for k in range(20):
        worlds.step(np.tile([0, 0, 0.3 * np.sin(0.6 * k), 0, 0, 0, -1.0], (2, 1)))
    truth = worlds.truth()
    assert truth["held"].all()
    np.testing.assert_allclose(truth["object"][:, 2] - truth["tool"][:, 2], start, atol=0.001)


def test_phenomena_are_added_to_others_and_take_their_place():
    toe, rubs = Phenomena(toe_stiffness=ToeStiffness(ratio=1000.0)), Phenomena(stribeck=Stribeck(), every=2)
    both = toe.updated(rubs)
    assert (both.active, both.every) == (("stribeck", "toe_stiffness"), 2)
    assert both.toe_stiffness == toe.toe_stiffness
    assert both.updated(Phenomena(toe_stiffness=ToeStiffness())).toe_stiffness == ToeStiffness()
    assert toe.updated(None) == toe.updated(Phenomena()) == toe


def test_covers_of_the_other_world_stiffen_where_a_setting_says_so():
    task = make_task("soft_grasp", other_toe=1000.0)
    assert (task.phenomena.active, task.other().phenomena.active) == ((), ("toe_stiffness",))
    assert task.other().other() == task.other()
    assert make_task("soft_grasp").other().phenomena.active == ()
    with pytest.raises(ConfigError, match=r"task soft_grasp.other_toe = 0.5"):
        make_task("soft_grasp", other_toe=0.5)


def test_the_lightest_fruit_is_held_with_covers_that_stiffen_over_three_decades():
    """The expert's grapes of 70 mN, through the shake; beside other laws as well, each has its say."""
    task = make_task("soft_grasp", fruit="grape", timestep=0.004, other_toe=1000.0).other()
    worlds = TaskWorlds(task, 2, family=task.reality, phenomena=Phenomena(stribeck=Stribeck()), threads=1)
    rows = [task.reality.as_dict(row) for row in task.reality.sample(np.random.default_rng(0), 2)]
    worlds.reset(np.arange(2), task.sample(np.random.default_rng(1), 2), rows)
    assert {"phenomena/load", "phenomena/friction"} <= set(worlds.view.memory)
    worlds = TaskWorlds(task, 2, family=task.reality, threads=1)
    worlds.reset(np.arange(2), task.sample(np.random.default_rng(1), 2), rows)
    for step in episode(worlds, expert_of("soft_grasp"), seconds=task.horizon):
        truth = step.truth
    assert task.success(truth).all()
    load, depth = (worlds.view.memory[f"phenomena/{name}"] for name in ("load", "depth"))
    assert (load > 0.05).any(axis=1).all()
    assert (depth[load > 0.05] > 1e-4).all()


@pytest.mark.parametrize("period", [0.8, 1.6])
def test_a_cycle_of_load_encloses_an_area_whatever_its_speed(period):
    """Load over depth runs round a loop of about eta k R^2, and along one line without hysteresis."""

    def loop(loss: float) -> tuple[float, float]:
        worlds = _bench(1, _on_plane(hysteresis=Hysteresis(loss=loss, depth=2e-6)))
        gravity, path = worlds.view.model_field("opt.gravity"), []
        steps = round(period / 0.04)
        for k in range(2 * steps):
            gravity[0, 2] = -_G * (1.0 - 0.9 * np.cos(2 * np.pi * k / steps))
            worlds.step(np.zeros((1, 0)))
            path.append((worlds.view.memory["phenomena/depth"][0, 0], worlds.view.memory["phenomena/load"][0, 0]))
        depth, load = np.array(path[steps:]).T
        area = 0.5 * abs(np.sum(depth * np.roll(load, -1) - load * np.roll(depth, -1)))
        return area / (depth.max() * load.max()), depth.max()

    area, _ = loop(0.3)
    flat, _ = loop(1e-6)
    assert flat < 0.03  # the damper's
    assert 0.7 * 0.3 / 1.3 < area < 1.2 * 0.3 / 1.3  # eta k R^2 over R (1 + eta) k R


@pytest.mark.parametrize("stiffness", [2e3, 1e4])
def test_a_tendon_gives_less_when_pulling_than_when_letting_go(stiffness):
    """Pulling, exp(-mu theta) of the tension arrives; letting go, more than the motor pulls with; then fingers rest."""
    task, law = make_task("soft_grasp"), TendonCompliance(friction=0.2, wrap=1.0, reel=0.025, stiffness=stiffness)
    worlds = TaskWorlds(task, 1, phenomena=Phenomena(tendon_compliance=law), threads=1)
    force = worlds.view.field("actuator_force")
    scenes = task.sample(np.random.default_rng(0), 1)
    worlds.reset(np.arange(1), scenes, [task.family.as_dict(task.family.sample(np.random.default_rng(0), 1)[0])])
    pulls = [worlds.model.actuator(f"robot/tendon{k}").id for k in range(3)]
    joints = [worlds.view.dof_address(f"robot/{part}{k}") for k in range(3) for part in ("proximal", "distal")]
    arrived = []
    for pull in (0.4, 0.8, 0.4):  # of 25 N
        for _ in range(30):
            worlds.step(np.array([[0, 0, 0, 0, 0, 0, *[1 - 2 * pull] * 3]]))
        np.testing.assert_allclose(worlds.view.memory["phenomena/tension"][0], 25 * pull, rtol=0.01)
        assert np.abs(worlds.view.qvel[0, joints]).max() < 0.02
        friction = law.friction * (law.wrap + worlds.view.memory["phenomena/bend"][0])
        arrived.append(np.log(-force[0, pulls] / (25 * pull)) / friction)
    np.testing.assert_allclose(arrived[:2], -1.0, rtol=0.02)
    assert (arrived[2] > 0.1).all()
    assert (arrived[2] < 1.0).all()
    worlds.step(np.array([[0, 0, 0, 0, 0, 0, -1.0, -1.0, -1.0]]))
    reached = 10.0 + 0.025 * 0.04 * stiffness * (1 + 25.0 / law.stiffening)
    assert (worlds.view.memory["phenomena/tension"][0] <= min(reached, 25.0)).all()  # the reel is not faster


def test_laws_at_their_ends():
    normal, axis = np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0])
    directions = np.array([[1.0, 0, 0], [0, 2.0, 0], [0, 0, 0], [-3.0, 0, 0]])
    np.testing.assert_allclose(ellipse_radius(directions, axis, normal, 0.4), [0.4, 1.0, 1.0, 0.4])
    assert ellipse_radius(directions[0], normal, normal, 0.4) == 1.0
    np.testing.assert_allclose(toe_secant(np.array([0.0, 1e9]), 50.0, 0.01), [1 / 50, 1.0])
    z = np.zeros(1)
    for _ in range(100):
        z = bouc_wen(z, np.array([1e-5]), 1e-4)
    np.testing.assert_allclose(bouc_wen(np.zeros(1), np.array([1e-3]), 1e-4), z, rtol=1e-9)  # the path alone counts
    slide = np.array([-1.0, 0.0, 1.0])
    np.testing.assert_allclose(capstan(np.full(3, 5.0), 0.1, np.full(3, 2.0), slide), 5 * np.exp([-0.2, 0.0, 0.2]))
    for reel, tension in ((1e-3, 12.0), (1.0, 20.0)):
        wound = tendon_tension(
            np.array([10.0]), np.array([20.0]), np.zeros(1), stiffness=1e3, stiffening=10.0, reel=reel
        )
        np.testing.assert_allclose(wound, tension)
    stretched = tendon_tension(
        np.array([10.0]), np.array([10.0]), np.array([1e-3]), stiffness=1e3, stiffening=10.0, reel=0.0
    )
    np.testing.assert_allclose(stretched, 12.0)  # twice as stiff as slack


@pytest.mark.parametrize("name", ["peg", "soft_grasp"])
def test_alone_or_in_a_batch_and_after_a_snapshot_the_bits_are_the_same(name):
    task = make_task(name)
    on = (
        ALL
        if name == "peg"
        else Phenomena(stribeck=Stribeck(), tendon_compliance=TendonCompliance(), hysteresis=Hysteresis(), every=2)
    )
    many, one, other = (TaskWorlds(task, n, threads=t, phenomena=on) for n, t in ((3, 2), (1, 1), (3, 1)))
    rows = [task.family.as_dict(row) for row in task.family.sample(np.random.default_rng(0), 3)]
    scenes = task.sample(np.random.default_rng(1), 3)
    many.reset(np.array([0, 2]), {k: v[[0, 2]] for k, v in scenes.items()}, [rows[0], rows[2]])
    many.reset(np.array([1]), {k: v[1:2] for k, v in scenes.items()}, rows[1:2])
    one.reset(np.arange(1), {k: v[1:2] for k, v in scenes.items()}, rows[1:2])
    actions = np.random.default_rng(2).uniform(-1, 1, (10, 3, many.action_size))
    for action in actions[:5]:
        many.step(action)
        one.step(action[1:2])
    np.testing.assert_array_equal(many.view.qpos[1], one.view.qpos[0])
    kept = many.snapshot()
    other.restore(kept, rows)
    for action in actions[5:]:
        many.step(action)
        other.step(action)
    np.testing.assert_array_equal(many.view.qpos, other.view.qpos)


def test_nothing_switched_on_changes_nothing():
    task = make_task("pick_place")
    plain, off = (TaskWorlds(task, 1, threads=1, phenomena=p) for p in (None, Phenomena()))
    rows = [task.family.as_dict(task.family.sample(np.random.default_rng(0), 1)[0])]
    for worlds in (plain, off):
        worlds.reset(np.arange(1), task.sample(np.random.default_rng(1), 1), rows)
        for action in np.random.default_rng(2).uniform(-1, 1, (8, 1, 7)):
            worlds.step(action)
    np.testing.assert_array_equal(plain.view.qpos, off.view.qpos)
    assert off.model.nsensor == task.layout().spec.compile().nsensor
    assert Phenomena().active == ()
    assert ALL.active == ("anisotropy", "stribeck", "toe_stiffness", "dissipation", "hysteresis")
    assert set(PHENOMENA.values()) <= set(GAPS)


def test_what_cannot_be_is_refused():
    with pytest.raises(UnknownName, match="cube"):
        TaskWorlds(make_task("pick_place"), 1, phenomena=Phenomena(surfaces="moon", stribeck=Stribeck()))
    with pytest.raises(BadInput, match="no actuator of this robot pulls"):
        TaskWorlds(make_task("pick_place"), 1, phenomena=Phenomena(tendon_compliance=TendonCompliance()))
    with pytest.raises(BadInput, match="dissipation: the scene holds a flex"):
        TaskWorlds(make_task("soft_grasp"), 1, phenomena=Phenomena(dissipation=Dissipation()))
    with pytest.raises(BadInput, match="no direction"):
        Anisotropy(axis=(0.0, 0.0, 0.0))
    with pytest.raises(ConfigError, match="kinetic"):
        validate(Phenomena, {"stribeck": {"kinetic": 1.5}})
    assert validate(Phenomena, {"stribeck": {}}).stribeck == Stribeck()
