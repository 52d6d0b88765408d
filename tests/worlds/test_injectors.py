"""Injectors: each does what it says, alone, and nothing else."""

from __future__ import annotations

import pickle

import mujoco
import numpy as np
import pytest

from dexprior.errors import BadInput, UnknownName
from dexprior.families import GAPS, INJECTORS, Injectors
from dexprior.geometry.rotations import quat_multiply
from dexprior.worlds.injectors import make_injectors
from dexprior.worlds.injectors.objects import lopsided
from dexprior.worlds.injectors.table import KINDS
from dexprior.worlds.injectors.visual import Blur, Lens
from dexprior.worlds.render import FrameRenderer
from dexprior.worlds.tasks import PickPlace, TaskWorlds, inject, make_task

_PLAIN = make_task("pick_place")
_ONLY_SEEN = ("textures", "light", "background", "blur", "lens", "occlusion", "reflections")


def _worlds(strengths: dict[str, float], *, n: int = 2, seed: int = 0, task: str = "pick_place") -> TaskWorlds:
    made = make_task(task, injectors=strengths, injector_seed=seed)
    worlds = TaskWorlds(made, n, threads=1)
    rows = [made.family.as_dict(row) for row in made.family.sample(np.random.default_rng(0), n)]
    worlds.reset(np.arange(n), made.sample(np.random.default_rng(1), n), rows)
    return worlds


def _frame(worlds: TaskWorlds, *, look: int = 0) -> np.ndarray:
    model, data = worlds.data(0, look=look)
    with FrameRenderer(model, camera="front", width=96, height=96) as renderer:
        return worlds.task.develop(renderer.render(data))


def test_every_name_is_made_and_has_a_gap():
    assert list(KINDS) == list(INJECTORS)
    assert set(INJECTORS.values()) <= set(GAPS)
    made = make_injectors(Injectors.of(dict.fromkeys(INJECTORS, 0.5), seed=1))
    assert [kind.name for kind in made] == list(INJECTORS)


def test_a_task_with_injectors_is_a_value():
    task = make_task("pick_place", injectors={"light": 0.5, "clutter": 0.0}, injector_seed=2)
    assert isinstance(task, PickPlace)
    assert task.injectors.as_dict() == {"light": 0.5}
    again = pickle.loads(pickle.dumps(task))  # noqa: S301  # its own
    assert again == task
    assert hash(again) == hash(task)
    assert task != make_task("pick_place", injectors={"light": 0.5})
    assert task != _PLAIN
    assert task != _PLAIN
    assert make_task("pick_place", injectors={"light": 0.0}) == _PLAIN
    assert "light" in repr(task)
    scenes = make_task("pick_place", injectors={"clutter": 1.0}).sample(np.random.default_rng(3), 4)
    for name, value in _PLAIN.sample(np.random.default_rng(3), 4).items():
        np.testing.assert_array_equal(scenes[name], value)


@pytest.mark.parametrize("name", _ONLY_SEEN)
def test_what_is_only_seen_moves_nothing_and_changes_the_picture(name):
    plain, seen = _worlds({}), _worlds({name: 1.0})
    for action in np.random.default_rng(2).uniform(-1, 1, (4, 2, 7)):
        plain.step(action)
        seen.step(action)
    np.testing.assert_array_equal(plain.view.qpos, seen.view.qpos)
    before, after = _frame(plain).astype(int), _frame(seen).astype(int)
    assert (np.abs(before - after).max(axis=2) > 8).mean() > 0.02
    np.testing.assert_array_equal(_frame(seen), after)
    if name in ("textures", "light", "background"):
        assert np.abs(_frame(seen, look=7) - after).max() > 8  # every instance looks different
    start, weak, strong = (_frame(_worlds(s)).astype(int) for s in ({}, {name: 0.1}, {name: 1.0}))
    assert np.abs(weak - start).mean() < np.abs(strong - start).mean()


def test_a_lens_moves_pixels_where_it_says():
    lens = Lens(0.8, 0)
    image = np.zeros((101, 101, 3), dtype=np.uint8)
    dots = np.array([[50, 50], [70, 60], [30, 20]])
    for column, row in dots:
        image[row - 1 : row + 2, column - 1 : column + 2] = 255
    seen = lens.develop(image)[..., 0].astype(float)
    for expected in lens.distorted(dots.astype(float), 101):
        near = np.hypot(*(np.mgrid[:101, :101][::-1] - expected[:, None, None])) < 5
        centre = [(seen * near * grid).sum() / (seen * near).sum() for grid in np.mgrid[:101, :101][::-1]]
        np.testing.assert_allclose(centre, expected, atol=0.5)
    assert np.linalg.norm(lens.distorted(dots[2].astype(float), 101) - dots[2]) > 2


def test_a_blur_keeps_the_light_and_takes_the_edges():
    image = np.random.default_rng(0).integers(0, 255, (60, 60, 3), dtype=np.uint8)
    blurred = Blur(1.0, 0).develop(image)
    assert blurred.mean() == pytest.approx(image.mean(), rel=0.02)
    assert blurred.std() < 0.7 * image.std()


def test_clutter_lies_still_beside_the_work_and_can_be_hit():
    worlds = _worlds({"clutter": 1.0}, n=3)
    start = np.stack([worlds.view.pose(f"clutter{k}").copy() for k in range(6)], axis=1)
    assert (np.abs(start[:, :, 1]) > 0.18).all()
    assert np.abs(start[0] - start[1]).max() > 0.01
    near = np.linalg.norm(start[:, :, None, :2] - start[:, None, :, :2], axis=-1) + np.eye(6)
    assert near.min() > 0.06
    for _ in range(5):
        worlds.step(np.zeros((3, 7)))
    rest = np.stack([worlds.view.pose(f"clutter{k}").copy() for k in range(6)], axis=1)
    np.testing.assert_allclose(rest, start, atol=1e-3)
    worlds.view.pose("cube")[:, :3] = rest[:, 0, :3] + [0, 0, 0.08]
    for _ in range(10):
        worlds.step(np.zeros((3, 7)))
    assert (worlds.view.pose("cube")[:, 2] > 0.025).any() or np.abs(
        worlds.view.pose("clutter0") - rest[:, 0]
    ).max() > 1e-3


def test_no_point_is_seen_through_the_board():
    worlds = _worlds({"occlusion": 1.0}, n=4)
    worlds.view.pose("cube")[:, :3] = [[0.45, 0.0, 0.06], [0.45, 0.03, 0.06], [0.3, 0.3, 0.02], [0.48, 0.0, 0.02]]
    board = worlds.task._kinds[0]
    whole, seen = _PLAIN.cloud(worlds.view, worlds.truth()), worlds.task.cloud(worlds.view, worlds.truth())
    hidden = board.hidden(whole)
    assert hidden.any(axis=1).tolist()[2] is False
    assert hidden.any(axis=1)[:2].any()
    for k in range(4):
        np.testing.assert_array_equal(seen[k, ~hidden[k]], whole[k, ~hidden[k]])
        if hidden[k].all():
            np.testing.assert_array_equal(seen[k], np.tile(board._centre, (64, 1)))
        else:
            assert not board.hidden(seen[k : k + 1]).any()
    model, data = worlds.data(0)
    towards = whole[0, 0] - board._eye
    geom = np.zeros(1, dtype=np.int32)
    mujoco.mj_ray(model, data, board._eye, towards, None, 1, -1, geom)
    assert (model.geom(int(geom[0])).name == "occlusion") == hidden[0, 0]


def test_a_cable_pulls_on_the_wrist_by_its_stretch():
    plain, tied = _worlds({}), _worlds({"cables": 1.0})
    length = tied.view.field("ten_length")
    assert (length > 0.25).all()
    away = np.sign(tied.rigs[0].home[0] or 1.0)
    for worlds in (plain, tied):
        for _ in range(12):
            worlds.step(np.tile([0.0, away * 0.3, 0, 0, 0, 0, 1.0], (2, 1)))
    free, held = plain.state()[0], tied.state()[0]
    assert np.abs(free.q - held.q).max() > 1e-4
    assert np.abs(free.wrench[:, :3] - held.wrench[:, :3]).max() < 20.0
    assert (30.0 * (length[:, 0] - 0.25) < 20.0).all()


def test_half_of_the_mass_moves_and_mass_and_inertia_stay_those_of_a_body():
    """`lopsided` agrees with MuJoCo's own sum of a body and a point."""
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body(name="b")
    body.add_freejoint()
    body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.02, 0.03, 0.04], mass=0.05)
    body.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[1e-3, 0, 0], pos=[0.01, 0.005, -0.02], mass=0.05)
    model = spec.compile()
    box = 0.1 / 3 * np.diag([0.03**2 + 0.04**2, 0.02**2 + 0.04**2, 0.02**2 + 0.03**2])
    shift, inertia = lopsided(box, 0.1, np.array([0.01, 0.005, -0.02]), 0.5)
    np.testing.assert_allclose(shift, model.body_ipos[1], atol=1e-9)
    np.testing.assert_allclose(np.linalg.eigvalsh(inertia), np.sort(model.body_inertia[1]), rtol=1e-3)
    for task in ("pick_place", "peg"):
        plain, uneven = (_worlds(strengths, task=task).model for strengths in ({}, {"uneven_mass": 1.0}))
        name = {"pick_place": "cube"}.get(task, task)
        assert uneven.body(name).mass[0] == pytest.approx(plain.body(name).mass[0])
        assert 0.002 < np.linalg.norm(uneven.body(name).ipos - plain.body(name).ipos) < 0.03


def test_a_block_slides_on_its_slick_half_and_holds_on_the_other():
    """On a slope of 20 degrees, with 0.6 above tan(20) = 0.36 and 0.12 below."""
    worlds = _worlds({"uneven_friction": 1.0})
    slick = worlds.model.geom("cube_slick")
    assert worlds.model.body("cube").mass[0] == pytest.approx(0.08)
    np.testing.assert_allclose(worlds.model.body("cube").ipos, 0.0, atol=1e-12)
    towards = np.array(slick.pos) / np.linalg.norm(slick.pos)
    axis = np.cross(towards, [0.0, 0.0, -1.0])
    level = np.linalg.norm(axis) > 0.5
    half_turn = [0.0, 1.0, 0.0, 0.0]
    below = np.array([1.0, *axis] if level else [1.0, 0.0, 0.0, 0.0] if towards[2] < 0 else half_turn)
    below /= np.linalg.norm(below)  # brings the slick half below
    turns = np.array([[1.0, 0.0, 0.0, 0.0], half_turn])
    worlds.view.pose("cube")[:, :3] = [0.45, 0.2, 0.02]
    worlds.view.pose("cube")[:, 3:] = quat_multiply(turns, np.tile(below, (2, 1)))
    for _ in range(3):
        worlds.step(np.zeros((2, 7)))
    start = worlds.view.pose("cube")[:, 1].copy()
    worlds.view.model_field("opt.gravity")[:] = 9.81 * np.array([0.0, np.sin(0.35), -np.cos(0.35)])
    for _ in range(8):
        worlds.step(np.zeros((2, 7)))
    moved = worlds.view.pose("cube")[:, 1] - start
    assert moved[0] > 0.05
    assert abs(moved[1]) < 0.005


def test_a_riper_fruit_is_softer_and_bruises_earlier():
    plain, ripe = make_task("soft_grasp"), make_task("soft_grasp", injectors={"ripeness": 0.5})
    for before, after in zip(plain.family.parameters, ripe.family.parameters):
        factor = {"stiffness": 0.7, "ripeness": 0.8}.get(before.name, 1.0)
        assert (after.low, after.high) == pytest.approx((before.low * factor, before.high * factor))
    assert ripe.reality.parameters[0].low == pytest.approx(0.7 * plain.reality.parameters[0].low)
    fields = [_worlds(s, task="soft_grasp").view.model_field("flex_stiffness") for s in ({}, {"ripeness": 0.5})]
    np.testing.assert_allclose(fields[1], 0.7 * fields[0])


def test_scenes_with_more_serve_a_task_with_less_and_not_the_other_way_round():
    cluttered = make_task("pick_place", injectors={"clutter": 0.5})
    rows = [_PLAIN.family.as_dict(row) for row in _PLAIN.family.sample(np.random.default_rng(0), 1)]
    TaskWorlds(_PLAIN, 1, threads=1).reset(np.arange(1), cluttered.sample(np.random.default_rng(0), 1), rows)
    with pytest.raises(BadInput, match="scenes without clutter"):
        TaskWorlds(cluttered, 1, threads=1).reset(np.arange(1), _PLAIN.sample(np.random.default_rng(0), 1), rows)


def test_bad_switches_are_refused():
    with pytest.raises(UnknownName, match="textures"):
        make_task("peg", injectors={"fog": 0.5})
    with pytest.raises(BadInput, match="outside"):
        make_task("peg", injectors={"light": 1.5})
    with pytest.raises(BadInput, match="seed -1"):
        make_task("peg", injectors={"light": 0.5}, injector_seed=-1)
    with pytest.raises(BadInput, match="has no stiffness"):
        make_task("peg", injectors={"ripeness": 0.5})
    with pytest.raises(BadInput, match="already"):
        inject(make_task("peg", injectors={"light": 0.5}), {"blur": 0.5})
    for name in ("uneven_mass", "uneven_friction"):
        with pytest.raises(BadInput, match="no rigid object"):
            TaskWorlds(make_task("soft_grasp", injectors={name: 0.5}), 1)
