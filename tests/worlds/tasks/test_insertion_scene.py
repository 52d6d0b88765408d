"""The scene: named, sized so that the nut fits, and two families that share no value."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dexprior.config import validate
from dexprior.errors import BadInput, ConfigError
from dexprior.geometry.rotations import quat_from_axis_angle
from dexprior.geometry.transforms import project
from dexprior.worlds.tasks.insertion import Insertion, InsertionConfig, _points, engaged_depth
from dexprior.worlds.tasks.scene import camera

CONFIG = InsertionConfig()
TASK = Insertion(CONFIG)
TRAINING_FAMILY, OTHER_FAMILY = TASK.family, TASK.reality
BOLT = np.array([0.45, 0.1, 0.0])


def nut_at(x=0.0, y=0.0, z=0.0, tilt=0.0) -> np.ndarray:
    """A nut whose centre is (x, y, z) from the bolt's foot."""
    return np.concatenate([BOLT + np.array([x, y, z]), quat_from_axis_angle(np.array([tilt, 0.0, 0.0]))])


# --- the model ----------------------------------------------------------------------------------------------


def succeeded(nut, bolt):
    """The task's verdict."""
    return TASK.success({"object": nut, "bolt": bolt})


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    """With the robot of the task."""
    return TASK.layout().spec.compile()


def test_what_others_refer_to_has_a_name(model):
    kinds = {
        "body": model.nbody,
        "joint": model.njnt,
        "actuator": model.nu,
        "sensor": model.nsensor,
        "site": model.nsite,
    }
    for kind, count in kinds.items():
        names = [getattr(model, kind)(k).name for k in range(count)]
        assert all(names), (kind, names)
        assert len(set(names)) == count
    solid = [k for k in range(model.ngeom) if model.geom_contype[k] or model.geom_conaffinity[k]]
    assert all(model.geom(k).name for k in solid)
    assert all(model.geom(k).name for k in range(model.ngeom))


def test_nothing_touches_at_rest_but_nut_and_table(model):
    data = mujoco.MjData(model)
    data.mocap_pos[model.body("bolt").mocapid[0]] = BOLT
    mujoco.mj_forward(model, data)
    pairs = {tuple(sorted(model.geom(g).name for g in data.contact[k].geom)) for k in range(data.ncon)}
    assert all(a.startswith("nut") and b == "table" for a, b in pairs), pairs


def test_the_nut_weighs_what_it_should(model):
    assert model.body("nut").mass[0] == pytest.approx(CONFIG.mass)
    assert model.opt.timestep == CONFIG.timestep


def test_a_nut_dropped_over_the_bolt_slides_down_and_a_nut_beside_it_does_not(model):
    """The hole is wider than the bolt in the compiled model as well, not only in the configuration."""
    for x, fits in ((0.0, True), (0.0015, True), (0.016, False)):
        data = mujoco.MjData(model)
        data.mocap_pos[model.body("bolt").mocapid[0]] = BOLT
        nut = model.joint("nut").qposadr[0]
        data.qpos[nut : nut + 7] = nut_at(x=x, z=CONFIG.bolt_height + CONFIG.height / 2 + 0.002)
        for _ in range(100):
            mujoco.mj_step(model, data)
        assert bool(succeeded(data.qpos[nut : nut + 7], BOLT)) is fits


# --- sizes --------------------------------------------------------------------------------------------------


def test_the_bolt_is_narrower_than_the_hole():
    assert CONFIG.bolt_radius < CONFIG.hole_radius < CONFIG.outer_radius
    assert CONFIG.success_depth < CONFIG.bolt_height


@pytest.mark.parametrize(
    "sizes", [{"bolt_radius": 0.010}, {"bolt_radius": 0.011}, {"hole_radius": 0.018}, {"outer_radius": 0.009}]
)
def test_sizes_that_do_not_fit_are_refused(sizes):
    with pytest.raises(BadInput, match=r"^insertion: bolt_radius .* < hole_radius .* < outer_radius .* must hold$"):
        InsertionConfig(**sizes)
    with pytest.raises(ConfigError, match="must hold"):
        validate(InsertionConfig, sizes)


@pytest.mark.parametrize("name", ["outer_radius", "height", "mass", "bolt_height", "timestep", "success_depth"])
@pytest.mark.parametrize("value", [0.0, -0.01])
def test_sizes_are_positive(name, value):
    with pytest.raises(ConfigError, match=f"config.{name} = {value}: input should be greater than 0"):
        validate(InsertionConfig, {name: value})


# --- success ------------------------------------------------------------------------------------------------


def test_depth_grows_as_the_nut_goes_down():
    heights = np.linspace(0.1, CONFIG.height / 2, 50)
    poses = np.stack([nut_at(z=z) for z in heights])
    depth = engaged_depth(CONFIG, poses, np.tile(BOLT, (50, 1)))
    assert (np.diff(depth) >= 0).all()
    assert depth[0] == 0
    assert depth[-1] == pytest.approx(CONFIG.bolt_height)
    np.testing.assert_array_equal(succeeded(poses, np.tile(BOLT, (50, 1))), depth >= CONFIG.success_depth)
    assert engaged_depth(CONFIG, nut_at(z=0.05), BOLT) == pytest.approx(CONFIG.height / 2)


@given(st.floats(-0.1, 0.1), st.floats(-0.1, 0.1), st.floats(0, 0.2), st.floats(-3, 3))
@settings(deadline=None)
def test_depth_stays_within_the_bolt_and_needs_the_bolt_inside_the_hole(x, y, z, tilt):
    depth = float(engaged_depth(CONFIG, nut_at(x, y, z, tilt), BOLT))
    assert 0 <= depth <= CONFIG.bolt_height
    if np.hypot(x, y) > CONFIG.hole_radius or abs(np.cos(tilt)) < 0.9:
        assert depth == 0


def test_a_nut_has_two_faces():
    assert succeeded(nut_at(z=0.02, tilt=np.pi), BOLT)
    assert not succeeded(nut_at(z=0.02, tilt=np.pi / 2), BOLT)


def test_success_moves_with_the_bolt():
    shift = np.array([0.1, -0.2, 0.3])
    pose = nut_at(z=0.03)
    pose[:3] += shift
    np.testing.assert_allclose(
        engaged_depth(CONFIG, pose, BOLT + shift), engaged_depth(CONFIG, nut_at(z=0.03), BOLT), atol=1e-12
    )


# --- families -----------------------------------------------------------------------------------------------


def test_no_value_of_the_other_world_lies_in_the_training_family():
    values = OTHER_FAMILY.sample(np.random.default_rng(0), 3)
    other = OTHER_FAMILY.as_dict(values[0])
    assert (values == values[0]).all()  # one world
    for p in TRAINING_FAMILY.parameters:
        assert not p.low <= other[p.name] <= p.high, p.name
    assert {p.name for p in TRAINING_FAMILY.parameters} < set(other)


@pytest.mark.parametrize("family", [TRAINING_FAMILY, OTHER_FAMILY], ids=lambda f: f.name)
def test_families_find_their_targets(family):
    model = TASK.layout().spec.compile()
    values = family.as_dict(family.sample(np.random.default_rng(0), 1)[0])
    left = family.apply(model, values)
    assert set(left) == {"wrench_noise", "cloud_noise"}
    assert model.geom("bolt").friction[0] == values["bolt_friction"]
    assert model.geom("robot/pad_left").solref[0] == model.geom("robot/pad_right").solref[0] == values["pad_timeconst"]
    assert model.body("nut").mass[0] == pytest.approx(values["nut_mass"] * CONFIG.mass)


# --- scenes, clouds and camera ------------------------------------------------------------------------------


def test_scenes_leave_room_between_nut_and_bolt_and_repeat():
    scenes = TASK.sample(np.random.default_rng(0), 500)
    gap = np.linalg.norm(scenes["nut"] - scenes["bolt"], axis=1)
    assert gap.min() > CONFIG.outer_radius + CONFIG.bolt_radius + 0.05
    assert (scenes["nut"][:, 2] == 0).all()
    assert (scenes["bolt"][:, 2] == 0).all()
    again = TASK.sample(np.random.default_rng(0), 500)
    for name in scenes:
        np.testing.assert_array_equal(scenes[name], again[name])
    assert scenes["yaw"].shape == (500,)


def test_clouds_lie_evenly_on_the_surfaces_and_are_always_the_same():
    nut, bolt = _points(CONFIG)
    assert (len(nut), len(bolt)) == TASK.bodies
    radius = np.linalg.norm(nut[:, :2], axis=1)
    outer = np.isclose(radius, CONFIG.outer_radius)
    inner = np.isclose(radius, CONFIG.hole_radius)
    top = np.isclose(nut[:, 2], CONFIG.height / 2)
    assert (outer | inner | top).all()
    assert min(outer.sum(), inner.sum(), top.sum()) > 3
    assert (np.abs(nut[:, 2]) <= CONFIG.height / 2 + 1e-12).all()
    np.testing.assert_allclose(np.linalg.norm(bolt[:, :2], axis=1), CONFIG.bolt_radius)
    assert ((bolt[:, 2] >= 0) & (bolt[:, 2] <= CONFIG.bolt_height)).all()
    for cloud, again in zip((nut, bolt), _points.__wrapped__(CONFIG)):
        np.testing.assert_array_equal(cloud, again)
        apart = np.linalg.norm(cloud[:, None] - cloud[None], axis=-1) + np.eye(len(cloud))
        assert apart.min() > 0.003


def test_the_camera_sees_every_scene():
    scenes = TASK.sample(np.random.default_rng(0), 300)
    seen = camera("front", 96)
    for name, height in (("nut", 0.0), ("nut", CONFIG.height), ("bolt", 0.0), ("bolt", CONFIG.bolt_height)):
        pixels = project(seen.K, seen.T_base_cam, scenes[name] + [0, 0, height])
        assert ((pixels > 0) & (pixels < 96)).all(), name
