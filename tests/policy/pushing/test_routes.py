"""Routes: the planner looks one segment ahead, and a run is judged segment by segment."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.collision import RestitutionFriction
from dexprior.collision.planar import PlanarStriker
from dexprior.envs.pushing import PushingTask, Segments
from dexprior.errors import BadInput
from dexprior.policy.pushing import Route, draw_route, draw_strike, evaluate_routes, next_segment
from dexprior.worlds.pushing import PushingConfig, Strikes

WORLD, TASK = PushingConfig(), PushingTask()


class Centre:
    """Always strikes the middle of the arc."""

    def predict(self, observation, *, deterministic=False):
        return np.zeros((len(observation), 3)), None


class Carried:
    """A world in which each strike carries the object to a place given in its segment's frame."""

    def __init__(self, route, places):
        self.route, self.places, self.count = route, places, 0

    def __call__(self, pose, strikes):
        local, done = self.places[self.count]
        self.count += 1
        origin, turn = next_segment(self.route, done)
        segment = Segments(np.tile(origin, (len(pose), 1)), np.full(len(pose), turn))
        return segment.world(np.tile(local, (len(pose), 1)))


def test_sub_goals_look_along_the_segment_after():
    route = Route.turning(3, TASK, angle=0.5)
    np.testing.assert_allclose(route.heading, [0, 0.5, 0], atol=1e-12)
    assert [next_segment(route, k)[1] for k in range(3)] == pytest.approx([0.5, -0.5, 0.0])
    np.testing.assert_allclose(next_segment(route, 1)[0], [0.3, 0, 0.5])
    with pytest.raises(BadInput, match="none is left"):
        next_segment(route, 3)
    with pytest.raises(BadInput, match="max_turn"):
        Route.turning(2, TASK, angle=1.5)


def test_a_route_is_done_when_every_sub_goal_is():
    route = Route.turning(2, TASK)
    good = Carried(route, [([0.2, 0, 0], 0), ([0.3, 0.01, 0.7], 0), ([0.29, 0, 0.1], 1)])
    run = evaluate_routes(Centre(), good, route, runs=3, seed=0)
    np.testing.assert_array_equal(run.completed, 2)
    np.testing.assert_array_equal(run.strikes, 3)
    np.testing.assert_allclose(run.deviation, [[np.pi / 4 - 0.7, 0.1]] * 3, atol=1e-9)
    assert run.as_dict()["success"]["rate"] == 1.0


def test_leaving_the_zone_or_running_out_of_strikes_ends_a_run():
    route = Route.turning(2, TASK)
    off = evaluate_routes(Centre(), Carried(route, [([0.3, 0, 0], 0), ([0.1, 0.09, 0], 1)]), route, runs=2)
    np.testing.assert_array_equal(off.completed, 1)
    assert off.as_dict()["sub_goals"]["k"] == 2
    stuck = evaluate_routes(Centre(), Carried(route, [([0.1, 0, 0], 0)] * TASK.max_strikes), route, runs=2)
    np.testing.assert_array_equal(stuck.completed, 0)
    np.testing.assert_array_equal(stuck.strikes, TASK.max_strikes)
    assert stuck.as_dict()["deviation"] is None


def test_segments_of_another_length_are_refused():
    with pytest.raises(BadInput, match="the policy knows"):
        evaluate_routes(Centre(), lambda pose, strikes: pose, Route(corners=np.array([[0.0, 0], [0.5, 0]])))


def test_pictures_are_drawn(tmp_path):
    striker = PlanarStriker(config=WORLD, model=RestitutionFriction(), phi=np.array([0.4, 0.2]))
    run = evaluate_routes(Centre(), striker, Route.turning(2, TASK), runs=2, seed=0)
    draw_route(WORLD, TASK, run, 0, tmp_path / "route.png")
    strike = Strikes(alpha=np.array([0.3]), speed=np.array([0.6]), beta=np.zeros(1))
    final = striker(np.zeros((1, 3)), strike)[0]
    draw_strike(WORLD, np.zeros(3), strike, np.stack([np.zeros(3), final]), {"planar": final}, tmp_path / "strike.png")
    for name in ("route", "strike"):
        assert (tmp_path / f"{name}.png").stat().st_size > 5000
