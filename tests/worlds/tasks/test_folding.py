"""The folding task: laws of the cloth's geometry, and what a fold is judged by."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.errors import BadInput, ConfigError, MissingExtra, UnknownName
from dexprior.worlds.tasks import Task, TaskWorlds, expert_of, make_task
from dexprior.worlds.tasks.experts import run_expert
from dexprior.worlds.tasks.folding import OUTLINES, Cloth, carried, flap_coverage, mirrored, planar_fit, turned, wrinkle

CLOTHS = [Cloth(outline=outline, side=0.2, resolution=n) for outline in OUTLINES for n in (7, 11)]


def _folded(cloth: Cloth, line: float, shift: float = 0.0) -> np.ndarray:
    """Vertices of an exactly folded cloth, its flap shifted along the fold."""
    flap = cloth.vertices[:, 0] > line
    across = mirrored(cloth.vertices, np.full(len(cloth.vertices), line)) + np.array([0.0, shift])
    xy = np.where(flap[:, None], across, cloth.vertices)
    return np.column_stack([xy, np.where(flap, 0.006, 0.0)])


@pytest.mark.parametrize("cloth", CLOTHS, ids=lambda c: f"{c.outline}-{c.resolution}")
def test_a_cloth_is_one_flat_disc_of_the_outlines_area(cloth):
    body = {"square": 1.0, "shirt": 0.6 * 0.6 + 0.4}[cloth.outline] * cloth.side**2  # sleeves: the outer 0.4 of a side
    tolerance = 1e-12 if cloth.resolution == 11 or cloth.outline == "square" else 0.25 * body
    assert cloth.areas.sum() == pytest.approx(body, abs=tolerance)
    assert cloth.vertex_areas.sum() == pytest.approx(cloth.areas.sum())
    assert (cloth.areas > 0).all()
    assert len(cloth.vertices) - len(cloth.edges) + len(cloth.triangles) == 1  # Euler's number of a disc
    assert len(cloth.hinges) == 3 * len(cloth.triangles) - len(cloth.edges)
    assert len(cloth.samples) * 0.0025**2 == pytest.approx(cloth.areas.sum(), rel=0.02)


@pytest.mark.parametrize("cloth", CLOTHS, ids=lambda c: f"{c.outline}-{c.resolution}")
def test_material_points_follow_affine_motion(cloth):
    rng = np.random.default_rng(0)
    F, shift = rng.normal(size=(2, 3)), rng.normal(size=3)
    moved = cloth.vertices @ F + shift
    np.testing.assert_allclose(carried(cloth.sampled, moved[None])[0], cloth.samples @ F + shift, atol=1e-12)
    np.testing.assert_allclose(carried(cloth.locate(cloth.vertices), moved[None])[0], moved, atol=1e-12)


@pytest.mark.parametrize("cloth", CLOTHS, ids=lambda c: f"{c.outline}-{c.resolution}")
def test_an_exact_fold_covers_all_wherever_it_lies(cloth):
    line = 0.0
    flat = np.column_stack([cloth.vertices, np.zeros(len(cloth.vertices))])
    x = np.stack([_folded(cloth, line), flat])
    x[..., :2] = turned(x[..., :2], np.full(2, 0.4)) + np.array([0.3, -0.1])
    covered = flap_coverage(cloth, x[..., :2], np.full(2, line))
    assert covered[0] > 0.97  # samples at a cell's edge may fall on either side of it
    assert covered[1] < 0.1
    np.testing.assert_allclose(wrinkle(cloth, x, np.full(2, line)), 0.0, atol=1e-9)


def test_coverage_falls_with_the_shift_of_the_flap():
    """A flap of width w that lies s too far sideways covers w - s of w + s."""
    cloth = Cloth(outline="square", side=0.2, resolution=11)
    line = np.zeros(1)
    for shift in (0.024, 0.048):
        covered = flap_coverage(cloth, _folded(cloth, 0.0, shift)[None, :, :2], line)[0]
        assert covered == pytest.approx((0.2 - shift) / (0.2 + shift), abs=0.05)


def test_wrinkle_is_the_area_that_slopes_hide():
    cloth = Cloth(outline="square", side=0.2, resolution=11)
    slope = 0.5
    x, y = cloth.vertices.T
    zigzag = slope * np.abs((x + 0.1) % 0.04 - 0.02)
    hidden = 1.0 - 1.0 / np.sqrt(1.0 + slope**2)
    assert wrinkle(cloth, np.column_stack([x, y, zigzag])[None], np.zeros(1))[0] == pytest.approx(hidden)


def test_the_planar_fit_finds_a_rigid_motion():
    cloth = Cloth(outline="shirt", side=0.2, resolution=11)
    moved = turned(cloth.vertices[None], np.array([-0.7])) + np.array([0.2, 0.5])
    moved[:, cloth.vertices[:, 0] > 0] += 1.0  # is not used
    origin, turn = planar_fit(cloth.vertices, moved, cloth.vertices[None, :, 0] <= 0)
    np.testing.assert_allclose(origin, [[0.2, 0.5]], atol=1e-12)
    np.testing.assert_allclose(turn, -0.7)


def test_settings_of_the_cloth_are_checked():
    with pytest.raises(ConfigError, match="outline"):
        make_task("folding", outline="sock")
    with pytest.raises(ConfigError, match="robots"):
        make_task("folding", robots=3)
    with pytest.raises(ConfigError, match="engine"):
        make_task("folding", engine="springs")
    with pytest.raises(ConfigError, match="side"):
        make_task("folding", side=2.0)
    with pytest.raises(ConfigError, match="resolution"):
        make_task("folding", resolution=2)
    with pytest.raises(UnknownName, match="shirt"):
        Cloth(outline="sock", side=0.2, resolution=11)  # type: ignore[arg-type]


# --- engines ------------------------------------------------------------------------------------------------

G = 9.81


def _worlds(task: Task, n: int = 2, **values: float) -> TaskWorlds:
    """The middle of the training family, but for some values."""
    worlds = TaskWorlds(task, n, threads=1)
    middle = {p.name: (p.low + p.high) / 2 for p in task.family.parameters} | values
    worlds.reset(np.arange(n), task.sample(np.random.default_rng(5), n), [middle] * n)
    return worlds


def _fabric(worlds: TaskWorlds) -> tuple[np.ndarray, np.ndarray]:
    """Live positions and velocities of the particles."""
    x = worlds.view.field("mocap_pos")
    return x, worlds.view.field("userdata")[:, : x[0].size].reshape(x.shape)


def _wait(worlds: TaskWorlds, steps: int) -> None:
    open_hands = np.zeros((worlds.n, worlds.action_size))
    for _ in range(steps):
        worlds.step(open_hands)


def test_hinges_bend_as_those_of_the_flex():
    task = make_task("folding", resolution=7, outline="shirt")
    model = task.layout().spec.compile()
    shear = task.config.young / 2.6
    c, area = task.cloth.bends
    wanted = {}
    for edge, flap, row in zip(model.flex_edge, model.flex_edgeflap, model.flex_bending.reshape(-1, 17)):
        if flap.min() >= 0:
            ids = [*edge, *flap]
            wanted[tuple(sorted(edge))] = ids, row[:16].reshape(4, 4)
    assert len(wanted) == len(task.cloth.hinges)
    for k, hinge in enumerate(task.cloth.hinges):
        ids, matrix = wanted[tuple(hinge[:2])]
        order = [ids.index(i) for i in hinge]
        mine = shear * task.config.thickness**3 / (8 * area[k]) * np.outer(c[k], c[k])
        np.testing.assert_allclose(mine, matrix[np.ix_(order, order)], atol=1e-12)


def test_a_grain_stiffens_one_direction_and_softens_the_other():
    cloth = Cloth(outline="square", side=0.2, resolution=7)
    along = cloth.vertices[cloth.hinges[:, 1]] - cloth.vertices[cloth.hinges[:, 0]]
    factors = cloth.grained(cloth.hinges[:, :2], 9.0, 0.0)
    np.testing.assert_allclose(factors[np.abs(along[:, 0]) < 1e-9], 3.0)  # edges along y: bent in x
    np.testing.assert_allclose(factors[np.abs(along[:, 1]) < 1e-9], 1 / 3.0)
    np.testing.assert_allclose(factors[np.abs(along).min(axis=1) > 1e-9], 1.0)  # diagonals
    turned_by_90 = cloth.grained(cloth.hinges[:, :2], 9.0, np.pi / 2)
    np.testing.assert_allclose(factors * turned_by_90, 1.0)
    np.testing.assert_array_equal(cloth.grained(cloth.hinges[:, :2], 1.0, 0.3), 1.0)


def test_both_engines_have_the_same_grain():
    task, plain = (make_task("folding", resolution=7, grain=g, grain_angle=0.4) for g in (4.0, 1.0))
    models = [t.layout().spec.compile() for t in (task, plain)]
    for t, model in zip((task, plain), models):
        t.configure(model, {})
    grained, even = (model.flex_bending.reshape(-1, 17) for model in models)
    factors = task.cloth.grained(models[0].flex_edge, 4.0, 0.4)
    np.testing.assert_allclose(grained, factors[:, None] * even)
    assert factors.max() == pytest.approx(4.0 ** (np.cos(2 * (np.pi / 4 - 0.4)) / 2))


def test_fabric_springs_back_faster_when_it_is_bent_along_its_grain():
    def speed(axis: int) -> float:
        worlds = _worlds(make_task("folding", engine="particles", resolution=7, grain=25.0), 1)
        worlds.view.model_field("opt.gravity")[:] = 0.0
        x, v = _fabric(worlds)
        x[..., 2] += 0.4 + 5.0 * worlds.task.cloth.vertices[:, axis] ** 2
        _wait(worlds, 1)
        return float(np.abs(v[..., 2]).mean())

    assert speed(0) > 1.3 * speed(1)


def test_the_injector_gives_a_grain_to_cloth_alone():
    task = make_task("folding", injectors={"directional": 1.0}, injector_seed=3)
    assert task.config.grain == pytest.approx(5.0)
    assert 0.0 <= task.config.grain_angle < np.pi
    with pytest.raises(BadInput, match="has no fabric; it is for folding"):
        make_task("pick_place", injectors={"directional": 0.5})


def test_both_engines_lay_the_cloth_on_the_board():
    for engine in ("flex", "particles"):
        worlds = _worlds(make_task("folding", engine=engine, resolution=7), 1)
        _wait(worlds, 5)
        task = worlds.task
        z = task._positions(worlds.view)[0, :, 2]
        on_board = task.cloth.vertices[:, 0] < task.config.side / 2 - task.cloth.spacing
        np.testing.assert_allclose(z[on_board], 0.113, atol=1e-3)
        assert (z[~on_board] < 0.1135).all()
        assert worlds.truth()["speed"][0] < 0.01


def test_inner_forces_keep_momentum_and_lose_energy():
    worlds = _worlds(make_task("folding", engine="particles", resolution=7))
    worlds.view.model_field("opt.gravity")[:] = 0.0
    x, v = _fabric(worlds)
    x[..., 2] += 0.4
    v[:] = np.random.default_rng(0).normal(scale=0.2, size=v.shape)
    mass = worlds.task.cloth.vertex_areas[:, None]

    def totals() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return (mass * v).sum(1), (mass * np.cross(x, v)).sum(1), (mass * v**2).sum((1, 2))

    before = totals()
    _wait(worlds, 3)
    after = totals()
    np.testing.assert_allclose(after[0], before[0], atol=1e-9)
    np.testing.assert_allclose(after[1], before[1], atol=2e-2 * np.abs(before[1]).max())
    assert (after[2] < before[2]).all()


def test_friction_holds_inside_its_cone_and_slides_outside_of_it():
    """On a slope of angle a, a sheet stays where tan a < mu; above, it gains g (sin a - mu cos a)."""
    mu, slopes, time = 0.6, np.arctan([0.5, 0.9]), 0.12
    worlds = _worlds(make_task("folding", engine="particles", resolution=7), cloth_friction=mu)
    worlds.view.model_field("opt.gravity")[:] = G * np.column_stack([np.zeros(2), np.sin(slopes), -np.cos(slopes)])
    x, _ = _fabric(worlds)
    before = x.mean(axis=1)[:, 1].copy()
    _wait(worlds, round(time / 0.04))
    moved = x.mean(axis=1)[:, 1] - before
    assert abs(moved[0]) < 5e-4
    wanted = G * (np.sin(slopes[1]) - mu * np.cos(slopes[1])) * time**2 / 2
    assert moved[1] == pytest.approx(wanted, rel=0.1)


def test_a_pinch_without_friction_slips():
    task = make_task("folding", engine="particles")

    def lifted(friction: float) -> np.ndarray:
        worlds, memory = _worlds(task, 1, pad_friction=friction), np.zeros((1, 4))
        for k in range(72):
            worlds.step(expert_of("folding")(worlds.truth(), worlds.view.rigs, 0.04 * k, memory))
        return worlds.truth()

    held, lost = lifted(0.8), lifted(1e-4)
    assert held["pinched"].all()
    assert held["slipped"] < 0.008
    assert held["grip"][0, :, 2].min() > 0.16
    assert lost["grip"][0, :, 2].max() < 0.13


def test_a_snapshot_holds_the_particles():
    task = make_task("folding", engine="particles", resolution=7)
    worlds = _worlds(task)
    values = list(worlds.view.parameters)
    rng = np.random.default_rng(0)
    for _ in range(5):
        worlds.step(rng.uniform(-1, 1, (2, worlds.action_size)))
    kept, later = worlds.snapshot(), rng.uniform(-1, 1, (4, 2, worlds.action_size))
    other = TaskWorlds(task, 2, threads=1)
    other.restore(kept, values)
    for action in later:
        worlds.step(action)
        other.step(action)
    for mine, theirs in zip(_fabric(other), _fabric(worlds)):
        np.testing.assert_array_equal(mine, theirs)


def test_a_shirt_is_folded_by_its_sleeves():
    worlds = _worlds(make_task("folding", engine="particles", outline="shirt"))
    solved, truth = run_expert(worlds, expert_of("folding"))
    assert solved.all()
    assert (truth["slipped"] < 0.01).all()


def test_one_robot_carries_the_hem_over():
    """Low and fast, so that the free corners do not fold under."""
    worlds = _worlds(make_task("folding", engine="particles", robots=1), 4)
    solved, truth = run_expert(worlds, expert_of("folding"))
    assert worlds.action_size == 7
    assert solved.all()
    assert np.linalg.norm(truth["grip"] - truth["goal"], axis=-1).max() < 0.05


def test_particles_fold_like_the_flex():
    """One centimetre, on average over the vertices, where the flex lies after the same instance."""
    lies = {}
    for engine in ("flex", "particles"):
        worlds = _worlds(make_task("folding", engine=engine), 1)
        solved, _ = run_expert(worlds, expert_of("folding"))
        assert solved.all(), engine
        lies[engine] = worlds.task._positions(worlds.view)
    assert np.linalg.norm(lies["flex"] - lies["particles"], axis=-1).mean() < 0.01


def test_particles_say_what_they_need(monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "numba" else find(name))
    with pytest.raises(MissingExtra, match=r"particle cloth needs.*compiled"):
        TaskWorlds(make_task("folding", engine="particles"), 1)
