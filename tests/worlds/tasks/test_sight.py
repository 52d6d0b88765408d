"""What a camera sees: not through things, the same as MuJoCo's picture, and the same whoever else is looked at."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.envs.panel import Panel
from dexprior.envs.sim import SimBackend
from dexprior.errors import UnknownName
from dexprior.families import SensorModels, SightConfig
from dexprior.worlds.tasks import make_task
from dexprior.worlds.tasks.scene import CAMERAS
from dexprior.worlds.tasks.sight import Sight, filled

TASK = make_task("pick_place")
FRONT = SensorModels(sight=SightConfig())
PLAIN = SensorModels(sight=SightConfig(labels=False))
BLOCK = TASK.bodies[0]


@pytest.fixture(scope="module")
def panel():
    return Panel.sample("p", TASK, 3, seed=4)


def noiseless(panel):
    rows = panel.parameters.copy()
    rows[:, [p.name for p in panel.family.parameters].index("cloud_noise")] = 0.0
    return Panel(panel.name, panel.task, panel.family, panel.scenes, rows, panel.seeds)


def test_a_convex_body_shows_the_faces_that_are_turned_to_the_camera(panel):
    """And no others; every point that is shown is one of its own."""
    sharp = SensorModels(sight=SightConfig(slack=1e-5))
    shown, whole = (SimBackend(TASK, 3, sensors=s, threads=1).reset(noiseless(panel)) for s in (sharp, None))
    true, half = whole.truth["object"], TASK.config.half_size
    yaw = panel.scenes["yaw"]
    for k in range(3):
        eye = np.array(CAMERAS["front"][0]) - true[k, :3]
        turn = np.array([[np.cos(yaw[k]), np.sin(yaw[k])], [-np.sin(yaw[k]), np.cos(yaw[k])]])
        eye[:2] = turn @ eye[:2]
        local = whole.cloud[k, :BLOCK].astype(np.float64) - true[k, :3]
        local[:, :2] = local[:, :2] @ turn.T
        axis = np.abs(local).argmax(axis=1)
        side = np.sign(local[np.arange(BLOCK), axis])
        faces = side * eye[axis] > half
        seen = (shown.cloud[k, :BLOCK] == whole.cloud[k, :BLOCK]).all(axis=1)
        np.testing.assert_array_equal(seen, faces)
        own = {tuple(p) for p in whole.cloud[k, :BLOCK][faces].tolist()}
        assert {tuple(p) for p in shown.cloud[k, :BLOCK].tolist()} == own


def test_what_is_hidden_stays_where_it_was_seen(panel):
    """Until something of it is seen again."""
    backend = SimBackend(TASK, 3, sensors=FRONT, threads=1)
    first = backend.reset(noiseless(panel))
    view = backend.worlds.view
    view.pose("cube")[:, 2] -= 0.5  # under the table: hidden in every world
    backend.worlds.engine.forward()
    hidden = backend.step(backend.actions.commands(np.zeros((3, backend.actions.size))))
    np.testing.assert_array_equal(hidden.cloud[:, :BLOCK], first.cloud[:, :BLOCK])
    assert (hidden.truth["object"][:, 2] < -0.05).all()
    again = backend.reset(noiseless(panel))
    np.testing.assert_array_equal(again.cloud, first.cloud)


def test_a_world_is_seen_alike_alone_and_among_others(panel):
    together = SimBackend(TASK, 3, sensors=FRONT, threads=1)
    alone = SimBackend(TASK, 1, sensors=FRONT, threads=1)
    a, b = together.reset(panel), alone.reset(panel.take([1]))
    for k in range(3):
        action = np.full((3, together.actions.size), 0.3 - 0.2 * k)
        np.testing.assert_array_equal(a.cloud[1], b.cloud[0])
        a, b = together.step(together.actions.commands(action)), alone.step(alone.actions.commands(action[1:2]))


def test_a_snapshot_holds_what_was_seen(panel):
    backend = SimBackend(TASK, 3, sensors=FRONT, threads=1)
    backend.reset(panel)
    kept = backend.worlds.snapshot()
    assert kept["memory/sight/last"].shape == (3, TASK.points, 3)
    assert kept["memory/sight/known"].all()


def test_a_camera_that_is_not_there_is_named():
    with pytest.raises(UnknownName, match=r"unknown camera 'behind'\. Known: front, side"):
        SimBackend(TASK, 1, sensors=SensorModels(sight=SightConfig(camera="behind")), threads=1)


def test_hidden_points_take_the_place_of_seen_ones_in_turn():
    seen = np.array([[True, False, False, True, False], [True] * 5, [False, False, True, False, False]])
    assert filled(seen).tolist() == [[0, 0, 3, 3, 0], [0, 1, 2, 3, 4], [2, 2, 2, 2, 2]]


# --- without labels ---------------------------------------------------------------------------------------------


def points_of(cloud: np.ndarray) -> set[tuple[float, ...]]:
    return {tuple(point) for point in cloud.tolist()}


def test_without_labels_the_same_points_are_seen(panel):
    """And `bodies` says which body they lie on, as their places do with labels."""
    labelled, plain = (SimBackend(TASK, 3, sensors=s, threads=1).reset(panel) for s in (FRONT, PLAIN))
    assert labelled.bodies is None
    for k in range(3):
        for body, own in enumerate((labelled.cloud[k, :BLOCK], labelled.cloud[k, BLOCK:])):
            assert points_of(plain.cloud[k, plain.bodies[k] == body]) == points_of(own)


def test_without_labels_nothing_hangs_on_which_body_comes_first(panel):
    """Points in any other order, each with its own random number, give the same cloud, to the last bit."""
    backend = SimBackend(TASK, 3, sensors=PLAIN, threads=1)
    backend.reset(panel)
    view = backend.worlds.view
    cloud, rng = TASK.cloud(view, backend.worlds.truth()), np.random.default_rng(0)
    noisy, chance = cloud + rng.normal(size=cloud.shape), rng.random(cloud.shape[:2])
    shown = {}
    turned = np.r_[BLOCK : TASK.points, :BLOCK]
    for name, order in (
        ("as it is", np.arange(TASK.points)),
        ("turned", turned),
        ("mixed", rng.permutation(TASK.points)),
    ):
        view.memory.clear()
        sight = Sight(PLAIN.sight, view, TASK.bodies)
        shown[name], _ = sight.show(cloud[:, order], noisy[:, order], chance[:, order])
    np.testing.assert_array_equal(shown["turned"], shown["as it is"])
    np.testing.assert_array_equal(shown["mixed"], shown["as it is"])


def test_without_labels_every_place_shows_every_body_as_often(panel):
    backend = SimBackend(TASK, 3, sensors=PLAIN, threads=1)
    block = [backend.reset(panel).bodies == 0]
    still = backend.actions.commands(np.zeros((3, backend.actions.size)))
    block += [backend.step(still).bodies == 0 for _ in range(60)]
    by_place = np.concatenate(block).mean(axis=0)
    share, draws = by_place.mean(), 3 * len(block)
    assert np.abs(by_place - share).max() < 4.5 * np.sqrt(share * (1 - share) / draws)


def test_without_labels_a_hidden_body_is_not_there(panel):
    """Nor does anything stand for it; where nothing at all is seen, the last picture stays."""
    backend = SimBackend(TASK, 3, sensors=PLAIN, threads=1)
    backend.reset(panel)
    view = backend.worlds.view
    view.pose("cube")[:, 2] -= 0.5
    backend.worlds.engine.forward()
    still = backend.actions.commands(np.zeros((3, backend.actions.size)))
    shown = backend.step(still)
    assert (shown.bodies == 1).all()
    np.testing.assert_allclose(np.ptp(shown.cloud[..., 2], axis=1), 0.0, atol=0.03)
    view.pose("cube")[:, 2] = -0.5
    view.field("mocap_pos")[:, view.model.body("goal").mocapid[0], 2] -= 0.5
    dark = backend.step(still)
    np.testing.assert_array_equal(dark.cloud, shown.cloud)


def test_without_labels_a_world_is_seen_alike_alone_among_others_and_again(panel):
    together = SimBackend(TASK, 3, sensors=PLAIN, threads=1)
    alone = SimBackend(TASK, 1, sensors=PLAIN, threads=1)
    a, b = together.reset(panel), alone.reset(panel.take([1]))
    first = a
    for k in range(3):
        action = np.full((3, together.actions.size), 0.3 - 0.2 * k)
        for name in ("cloud", "bodies"):
            np.testing.assert_array_equal(getattr(a, name)[1], getattr(b, name)[0])
        a, b = together.step(together.actions.commands(action)), alone.step(alone.actions.commands(action[1:2]))
    assert (a.cloud != first.cloud).any(axis=2).mean() > 0.8
    again = together.reset(panel)
    np.testing.assert_array_equal(again.cloud, first.cloud)
    np.testing.assert_array_equal(again.bodies, first.bodies)
