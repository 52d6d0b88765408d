"""Trajectories refined in the training world: what the numbers change, what the search keeps, and the same by seed."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dexprior.behavior import BehaviorConfig
from dexprior.envs.panel import Panel
from dexprior.errors import BadInput
from dexprior.geometry.rotations import quat_multiply
from dexprior.pipeline import following, refining
from dexprior.pipeline.following import bank_of, gripper_of, make_bank
from dexprior.pipeline.refining import NUMBERS, astray, changed, refine
from dexprior.pipeline.settings import BankConfig
from dexprior.retarget.gripper import GripperConfig, ToolTrajectory
from dexprior.retarget.grips import Follower
from dexprior.worlds.tasks import robot_task

TASK = robot_task("pick_place")
DOWN = np.array([0.0, 1.0, 0.0, 0.0])


def grasp(x: float = 0.45, y: float = 0.0) -> ToolTrajectory:
    """Down to a place, closed on 4 cm for two seconds, half of them 10 cm higher, and open again."""
    rig = gripper_of(TASK)
    start = Follower.of(rig.arm.name, rig.end.name, rig.home).start
    low, high = (np.array([x, y, z, *DOWN]) for z in (0.02, 0.12))
    t = np.array([0.0, 1.0, 1.2, 1.4, 2.4, 3.4, 3.5])
    return ToolTrajectory(
        t=t, clip=t, tool=np.stack([start, low, low, low, high, high, high]),
        opening=np.array([0.08, 0.08, 0.04, 0.04, 0.04, 0.04, 0.08]),
        force=np.array([0.0, 0.0, 0.0, 5.0, 5.0, 5.0, 0.0]),
    )  # fmt: skip


def only(name: str, value: float) -> np.ndarray:
    return np.where(np.array(NUMBERS) == name, value, 0.0)


def test_without_numbers_a_trajectory_stays_as_it_is():
    one = grasp()
    assert changed(one, np.zeros(6)) is one
    idle = replace(one, force=np.zeros(7))
    assert changed(idle, np.ones(6)) is idle


@pytest.mark.parametrize(("name", "axis"), [("offset_x", 0), ("offset_y", 1), ("offset_z", 2)])
def test_an_offset_is_in_the_tool_s_frame_and_leaves_the_start(name, axis):
    one = grasp()
    turned = quat_multiply(np.array([[np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)]]), DOWN[None])[0]
    one.tool[1:, 3:] = turned
    new = changed(one, only(name, 1.0))
    moved = new.at(one.t).tool[:, :3] - one.tool[:, :3]
    np.testing.assert_allclose(moved[0], 0.0, atol=1e-12)
    base = {0: [0.0, 1.0, 0.0], 1: [1.0, 0.0, 0.0], 2: [0.0, 0.0, -1.0]}[axis]  # that axis of the turned tool
    np.testing.assert_allclose(np.abs(moved[3:] / refining._OFFSET), np.abs([base] * 4), atol=1e-9)
    np.testing.assert_array_equal(new.force, one.force)


def test_force_opening_and_delay_change_what_they_say():
    one = grasp()
    np.testing.assert_allclose(changed(one, only("force", -1.0)).force, one.force / refining._FORCE)
    wide = changed(one, only("opening", 1.0))
    np.testing.assert_allclose(wide.opening - one.opening, refining._OPENING * (one.opening > 0.04))
    assert changed(one, only("opening", -1.0) * 100).opening.min() == 0.04  # never narrower than what it holds
    late = changed(one, only("delay", 1.0))
    np.testing.assert_allclose(late.at(np.array([1.4 + refining._DELAY])).force, 5.0)
    assert late.at(np.array([1.4])).force[0] < 5.0
    assert late.held[1] == one.held[1]  # it lets go when it did
    early = changed(one, only("delay", -1.0))
    np.testing.assert_allclose(early.at(np.array([1.4 - refining._DELAY])).force, 5.0)
    np.testing.assert_allclose(early.at(one.t).tool, one.tool)


def test_a_path_beyond_the_arm_s_reach_is_far_astray():
    def bank(*made):
        return bank_of(TASK, gripper_of(TASK), made, BehaviorConfig(), "panel")

    near, far = astray(TASK, bank(grasp(), grasp(1.6)))
    assert near < 0.02
    assert far > 0.3


def panel_and_bank(n: int):
    panel = Panel.sample("train", TASK, n, seed=3, purpose="training")
    return panel, lambda made: bank_of(TASK, gripper_of(TASK), made, BehaviorConfig(), panel.hash)


@pytest.mark.parametrize("alike", [True, False])
def test_the_same_seed_refines_bit_by_bit_the_same(alike):
    panel, bank = panel_and_bank(3)
    near = [grasp(*(row[:2] + 0.012)) for row in panel.scenes["cube"]]

    def found(seed: int):
        return refine(TASK, panel, near, bank, rollouts=6, alike=alike, seed=seed)

    one, same, other = found(0), found(0), found(1)
    np.testing.assert_array_equal(one.numbers, same.numbers)
    for a, b in zip(one.trajectories, same.trajectories, strict=True):
        np.testing.assert_array_equal(a.tool, b.tool)
    assert not one.numbers.any() or not np.array_equal(one.numbers, other.numbers)


def judged(monkeypatch, panel, wanted: np.ndarray) -> None:
    """A training world in which a trajectory succeeds whose force is near what each scene wants."""
    by_seed = dict(zip(panel.seeds.tolist(), wanted))

    def episodes(forces, backend, shown):
        off = np.abs(forces - [by_seed[seed] for seed in shown.seeds.tolist()])
        return SimpleNamespace(success=off < 1.0, slip_rate=np.clip(off / 10, 0, 1))

    monkeypatch.setattr(refining, "SimBackend", lambda *a, **k: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(refining, "prior_policy", lambda bank, ids: bank)
    monkeypatch.setattr(refining, "run_episodes", episodes)


def test_alike_all_scenes_are_refined_by_the_numbers_that_serve_them_together(monkeypatch):
    panel, _ = panel_and_bank(4)
    judged(monkeypatch, panel, np.array([6.5, 6.5, 6.5, 5.0]))
    found = refine(
        TASK, panel, [grasp()] * 4, lambda made: np.array([one.force.max() for one in made]), rollouts=21, alike=True,
        seed=0,
    )  # fmt: skip
    assert found.before.tolist() == [False, False, False, True]
    assert found.after[:3].all()
    assert len(np.unique(found.numbers, axis=0)) == 1


def test_otherwise_only_scenes_that_fail_are_refined_each_by_itself(monkeypatch):
    panel, _ = panel_and_bank(4)
    judged(monkeypatch, panel, np.array([6.5, 3.5, 5.0, 50.0]))
    found = refine(
        TASK, panel, [grasp()] * 4, lambda made: np.array([one.force.max() for one in made]), rollouts=21, alike=False,
        seed=0,
    )  # fmt: skip
    assert found.before.tolist() == [False, False, True, False]
    assert found.after.tolist() == [True, True, True, False]
    assert found.numbers.any(axis=1).tolist() == [True, True, False, False]
    assert found.trajectories[0].force.max() > 5.0 > found.trajectories[1].force.max()


def test_one_rollout_changes_nothing(monkeypatch):
    panel, _ = panel_and_bank(2)
    judged(monkeypatch, panel, np.array([6.5, 6.5]))
    found = refine(
        TASK, panel, [grasp()] * 2, lambda made: np.array([one.force.max() for one in made]), rollouts=1, alike=True,
        seed=0,
    )  # fmt: skip
    assert not found.numbers.any()
    np.testing.assert_array_equal(found.before, found.after)


def test_bad_input_is_named():
    panel, bank = panel_and_bank(2)
    with pytest.raises(BadInput, match="rollouts = 0: at least one"):
        refine(TASK, panel, [grasp()] * 2, bank, rollouts=0, alike=True, seed=0)
    with pytest.raises(BadInput, match="3 trajectories for the 2 scenes of panel 'train'"):
        refine(TASK, panel, [grasp()] * 3, bank, rollouts=1, alike=True, seed=0)


@pytest.mark.parametrize(("alike", "kept"), [(True, [0, 0, 0]), (False, [0, 1, 0])])
def test_a_bank_keeps_the_draw_that_breaks_least(monkeypatch, tmp_path, alike, kept):
    """Of two draws the first breaks less on average, the second less in one scene; alike, all keep the first."""
    broken = {0: np.array([0.0, 0.5, 0.0]), 1: np.array([1.0, 0.0, 1.0])}
    net = SimpleNamespace(frames=50, fps=12.5, size=48)
    pipeline, seeds = SimpleNamespace(denoiser=SimpleNamespace(config=net)), []

    def sampled(prior, conditions, settings, *, seed, alike):
        seeds.append(seed)
        return [SimpleNamespace(of_side=lambda side: None, object=None, draw=len(seeds) - 1) for _ in conditions]

    taken = []
    monkeypatch.setattr(following, "load_prior", lambda folder: (pipeline, {}))
    monkeypatch.setattr(following, "sample_prior", sampled)
    monkeypatch.setattr(following, "checked", lambda task, samples, *rest: broken[samples[0].draw])
    monkeypatch.setattr(following, "save", lambda values, *a, **k: taken.extend(values))
    monkeypatch.setattr(following, "tool_trajectories", lambda *a, **k: [grasp()] * 3)
    answer = make_bank(
        TASK, BankConfig(scenes=3, draws=2, alike=alike), GripperConfig(), tmp_path, tmp_path, seed=4
    )  # fmt: skip
    assert seeds[0] == 4
    assert len(set(seeds)) == 2
    assert [sample.draw for sample in taken[:3]] == kept
    assert answer["draws"]["broken"] == pytest.approx([0.5 / 3, 2.0 / 3])
    assert answer["draws"]["kept"] == np.bincount(kept, minlength=2).tolist()
    assert "refined" not in answer
    assert not (tmp_path / "unrefined.safetensors").exists()
