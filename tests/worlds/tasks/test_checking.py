"""`check_task` finds broken promises."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dexprior.errors import BadInput
from dexprior.worlds.tasks import SUITE, PickPlace, check_task, expert_of, make_task, register_task


@pytest.mark.parametrize("name", ["insertion", "peg", "pick_place", "soft_grasp", "wipe"])
def test_the_suite_keeps_its_promises(name):
    check_task(make_task(name))


def test_a_robot_without_joints_is_quiet():
    check_task(make_task("cube_in_hand"))


def test_an_object_that_an_injector_hides_is_no_broken_promise():
    check_task(make_task("soft_grasp", injectors={"occlusion": 1.0}))


def test_cloth_beside_clutter_does_the_same_alone():
    check_task(make_task("folding", engine="flex", injectors={"clutter": 1.0}))


class _Bright(PickPlace):
    def terms(self, truth):
        return super().terms(truth) | {"carry": np.full(len(truth["held"]), 1.5)}


class _Unfinished(PickPlace):
    weights = {**PickPlace.weights, "carry": 0.5}  # noqa: RUF012

    def terms(self, truth):
        return {name: value for name, value in super().terms(truth).items() if name != "still"}


class _Solved(PickPlace):
    def success(self, truth):
        return np.ones(len(truth["held"]), dtype=bool)


class _Entangled(PickPlace):
    """Every world's cube is where all of them are on average."""

    def measure(self, view):
        truth = super().measure(view)
        return truth | {"tool": truth["tool"].mean(axis=0, keepdims=True).repeat(view.n, axis=0)}


class _Elsewhere(PickPlace):
    def cloud(self, view, truth):
        return super().cloud(view, truth)[:, :10] + 1.0


class _Silent(PickPlace):
    def measure(self, view):
        return {name: value for name, value in super().measure(view).items() if name != "slip"}

    def terms(self, truth):
        return super().terms(truth | {"slip": np.zeros(len(truth["held"]))})


class _Blurred(PickPlace):
    reality = dataclasses.replace(PickPlace.reality, parameters=PickPlace.family.parameters[1:])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (_Bright, r"reward 'carry' is not one number in \[0, 1\]"),
        (_Unfinished, "weights sum to 1.1"),
        (_Unfinished, "its terms are carry, grasp, lift, reach, its weights are of"),
        (_Solved, "solved before anybody acted"),
        (_Entangled, "beside another than alone: tool"),
        (_Elsewhere, r"cloud has the shape \(2, 10, 3\)"),
        (_Silent, "its truth lacks slip"),
        (_Blurred, "no 'cube_friction'"),
        (_Blurred, "'pad_friction' of its other world lies inside"),
    ],
)
def test_a_broken_promise_is_named(kind, message):
    with pytest.raises(BadInput, match=message):
        check_task(kind())


def test_names_are_taken_once():
    known = {field.name: getattr(SUITE["peg"], field.name) for field in dataclasses.fields(SUITE["peg"])}
    kind, settings = known.pop("task"), known.pop("settings")
    register_task(kind, settings, **known)  # again does nothing
    with pytest.raises(BadInput, match="'pick_place' is registered already"):
        register_task(_Bright, SUITE["pick_place"].settings)
    with pytest.raises(BadInput, match="'peg' is registered already"):
        register_task(kind, settings, **known | {"expert": expert_of("pick_place")})
