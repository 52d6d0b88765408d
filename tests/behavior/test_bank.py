"""The behavioral prior is a distribution, and its mean follows its trajectories."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dexprior.artifacts import read_tensors, write_tensors
from dexprior.behavior import BehaviorConfig, BehaviorPrior
from dexprior.errors import ArtifactError, BadInput
from dexprior.geometry.rotations import quat_from_axis_angle, quat_multiply, rotation_angle
from dexprior.retarget.gripper import ToolTrajectory
from dexprior.retarget.grips import GripMap

DT, SCALE = 0.04, np.array([0.5, 0.5, 0.5, 2.0, 2.0, 2.0])
FRAMES = 48


def _trajectory(shift=0.0) -> ToolTrajectory:
    """An arc over the table with a slow turn of the tool, in two seconds; the gripper closes after one, on nothing."""
    t = np.arange(FRAMES) / 24
    u = t / t[-1]
    position = np.stack([0.4 + 0.1 * u + shift, 0.2 * u - 0.1, 0.05 + 0.4 * u * (1 - u)], axis=1)
    turn = quat_from_axis_angle(np.stack([0 * u, 0 * u, 0.8 * u], axis=1))
    quat = quat_multiply(turn, np.broadcast_to([0.0, 1.0, 0.0, 0.0], (FRAMES, 4)))
    opening = np.where(np.arange(FRAMES) < 24, 0.08, 0.03)
    tool = np.concatenate([position, quat], axis=1)
    return ToolTrajectory(t=t, tool=tool, opening=opening, force=np.zeros(FRAMES), clip=t)


def _build(trajectories, **config):
    return BehaviorPrior.of_tools(
        trajectories, BehaviorConfig(**config), grip=GripMap.of_pads(widest=0.08, stiffness=500.0, depth=0.01),
        scale=SCALE, dt=DT, panel_hash="p",
    )  # fmt: skip


@pytest.fixture(scope="module")
def one():
    """One scene with one trajectory: a single Gaussian."""
    return _build([[_trajectory()]])


@pytest.fixture(scope="module")
def two():
    """One scene with two trajectories, 3 cm apart."""
    return _build([[_trajectory(), _trajectory(0.03)]])


def _at(prior, step=20, n=1, sample=0):
    return np.repeat(prior.tool[:1, sample, step], n, axis=0), np.full(n, step * DT), np.zeros(n, dtype=int)


# --- a distribution -----------------------------------------------------------------------------------------------


def test_the_log_density_of_its_own_samples_is_minus_the_entropy(one):
    n = 20_000
    where = _at(one, n=n)
    log_p = one.log_prob(one.sample(np.random.default_rng(0), *where), *where)
    entropy = 0.5 * np.log(2 * np.pi * np.e * one.std**2).sum()
    assert log_p.mean() == pytest.approx(-entropy, abs=4 * log_p.std() / np.sqrt(n))


def test_the_mixture_integrates_to_one(two):
    """Importance sampling from a wider Gaussian at a tool between the two trajectories."""
    n = 40_000
    tcp, t, scene = _at(two, n=n)
    tcp = tcp + np.array([0.015, 0, 0, 0, 0, 0, 0])
    mean, log_weight = two.components(tcp[:1], t[:1], scene[:1])
    assert np.exp(log_weight[0]).min() > 0.3  # a real mixture
    middle, wide = mean[0].mean(axis=0), 2.0 * two.std + np.abs(mean[0, 0] - mean[0, 1])
    z = np.random.default_rng(0).normal(size=(n, 7))
    log_q = (-0.5 * z**2 - np.log(wide) - 0.5 * np.log(2 * np.pi)).sum(1)
    ratio = np.exp(two.log_prob(middle + wide * z, tcp, t, scene) - log_q)
    assert ratio.mean() == pytest.approx(1.0, abs=4 * ratio.std() / np.sqrt(n))


def test_samples_gather_around_the_mean_with_the_spread(one):
    where = _at(one, n=20_000)
    actions = one.sample(np.random.default_rng(1), *where)
    mean = one.components(*where)[0][0, 0]
    np.testing.assert_allclose(actions.mean(axis=0), mean, atol=4 * one.std.max() / np.sqrt(20_000))
    np.testing.assert_allclose(actions.std(axis=0), one.std, rtol=0.03)


def test_both_components_are_drawn_as_often_as_they_weigh(two):
    n = 20_000
    tcp, t, scene = _at(two, n=n)
    tcp = tcp + np.array([0.010, 0, 0, 0, 0, 0, 0])  # 10 mm from one, 20 mm from the other
    mean, log_weight = two.components(tcp, t, scene)
    actions = two.sample(np.random.default_rng(2), tcp, t, scene)
    share = np.exp(log_weight[0, 0])
    expected = share * mean[0, 0] + (1 - share) * mean[0, 1]
    np.testing.assert_allclose(actions.mean(axis=0), expected, atol=0.01)


def test_the_nearest_trajectory_weighs_most(two):
    for sample in (0, 1):
        _, log_weight = two.components(*_at(two, sample=sample))
        assert log_weight[0].argmax() == sample
        np.testing.assert_allclose(np.exp(log_weight).sum(axis=1), 1.0)
    far = _at(two)[0] + np.array([100.0, 0, 0, 0, 0, 0, 0])
    assert np.isfinite(two.log_prob(np.zeros((1, 7)), far, *_at(two)[1:])).all()


def test_log_prob_of_one_component_is_the_gaussians(one):
    from scipy.stats import multivariate_normal

    where = _at(one)
    mean = one.components(*where)[0][0, 0]
    action = mean + 0.3
    expected = multivariate_normal(mean, np.diag(one.std**2)).logpdf(action)
    assert one.log_prob(action[None], *where)[0] == pytest.approx(expected)


# --- a controller -------------------------------------------------------------------------------------------------


def _integrate(prior, start, steps=70):
    """A tool that moves exactly as told: poses before each step."""
    tcp, poses = start.copy(), [start.copy()]
    for k in range(steps):
        mean, _ = prior.components(tcp[None, None], np.array([k * DT]), np.array([0]))
        twist = mean[0, 0, :6] * SCALE
        turn = quat_multiply(quat_from_axis_angle(twist[3:] * DT), tcp[3:])
        tcp = np.concatenate([tcp[:3] + DT * twist[:3], turn])
        poses.append(tcp.copy())
    return np.array(poses)


def test_following_the_mean_stays_on_the_trajectory(one):
    path = one.tool[0, 0, :, 0]
    poses = _integrate(one, path[0])
    error = np.linalg.norm(poses[:70, :3] - path[:70, :3], axis=1)
    assert error.max() < 0.002
    assert rotation_angle(poses[:70, 3:], path[:70, 3:]).max() < np.deg2rad(5)


def test_a_tool_that_was_pushed_aside_comes_back(one):
    path = one.tool[0, 0, :, 0]
    start = path[0] + np.array([0.03, -0.02, 0.04, 0, 0, 0, 0])
    error = np.linalg.norm(_integrate(one, start)[:70, :3] - path[:70, :3], axis=1)
    assert error[0] > 0.05
    assert error[40:].max() < 0.002


def test_after_its_end_the_trajectory_is_held(one):
    poses = _integrate(one, one.tool[0, 0, 0, 0], steps=120)
    np.testing.assert_allclose(poses[-1, :3], _trajectory().tool[-1, :3], atol=1e-3)
    assert np.linalg.norm(np.diff(poses[-20:, :3], axis=0), axis=1).max() < 1e-3


def test_actions_are_normalised(one):
    far = _at(one)[0] + np.array([5.0, 0, 0, 0, 0, 0, 0])
    mean, _ = one.components(far, *_at(one)[1:])
    assert np.abs(mean).max() <= 1.0
    assert mean[0, 0, 0] == -1.0


def test_the_end_effector_is_told_what_was_commanded(one):
    for step, wanted in ((5, 1.0), (40, -0.25)):
        assert one.components(*_at(one, step))[0][0, 0, 6] == pytest.approx(wanted)


def test_two_robots_are_one_distribution(one, two):
    """The action of both is laid out robot by robot, and the weights count both tools."""
    pair = replace(
        two, tool=np.concatenate([two.tool, two.tool + np.array([0, 0.3, 0, 0, 0, 0, 0])], axis=3),
        end=np.concatenate([two.end, -two.end], axis=3),
    )  # fmt: skip
    assert (pair.size, two.size) == (14, 7)
    np.testing.assert_array_equal(pair.std, np.tile(two.std, 2))
    (tools, t, scene), aside = _at(pair), np.array([0.01, 0, 0, 0, 0, 0, 0])
    mean, log_weight = pair.components(tools + aside, t, scene)
    alone, its = two.components(tools[:, :1] + aside, t, scene)
    np.testing.assert_allclose(mean[..., :7], alone)
    np.testing.assert_allclose(mean[..., 7:13], alone[..., :6])
    np.testing.assert_allclose(mean[..., 13], -alone[..., 6])
    apart = lambda weights: weights[0, 0] - weights[0, 1]  # noqa: E731  # each tool counts alike
    assert apart(log_weight) == pytest.approx(2 * apart(its))
    where = _at(pair, n=3)
    assert pair.log_prob(pair.sample(np.random.default_rng(0), *where), *where).shape == (3,)


# --- building, saving ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trajectories", [[[_trajectory()], [_trajectory()] * 2], [[]], []])
def test_scenes_need_as_many_samples(trajectories):
    with pytest.raises(BadInput, match="same number of trajectories"):
        _build(trajectories)


def test_a_file_gives_the_same_prior(two, tmp_path):
    loaded = BehaviorPrior.load(two.save(tmp_path / "behavior.safetensors"))
    assert (loaded.config, loaded.panel_hash, loaded.dt) == (two.config, two.panel_hash, two.dt)
    where = _at(two)
    for a, b in zip(two.components(*where), loaded.components(*where)):
        np.testing.assert_array_equal(a, b)


def test_foreign_and_tampered_files_are_refused(two, tmp_path):
    with pytest.raises(ArtifactError, match="no such file"):
        BehaviorPrior.load(tmp_path / "none.safetensors")
    path = two.save(tmp_path / "behavior.safetensors")
    tensors, meta = read_tensors(path)
    write_tensors(tmp_path / "other", tensors, meta | {"config": meta["config"] | {"gain": 7.0}})
    with pytest.raises(ArtifactError, match="does not fit its header"):
        BehaviorPrior.load(tmp_path / "other")
    write_tensors(tmp_path / "old", tensors, meta | {"header": meta["header"] | {"schema": "dexprior.behavior/3"}})
    with pytest.raises(
        ArtifactError, match=r"no behavioral prior of schema 'dexprior.behavior/5'; make one: dexprior build-behavior"
    ):
        BehaviorPrior.load(tmp_path / "old")
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(ArtifactError, match="truncated"):
        BehaviorPrior.load(path)


def test_scenes_do_not_mix():
    prior = _build([[_trajectory()], [_trajectory(0.2)]])
    tcp, t, _ = _at(prior, n=2)
    mean, _ = prior.components(tcp, t, np.array([0, 1]))
    alone = replace(prior, tool=prior.tool[1:], end=prior.end[1:])
    np.testing.assert_array_equal(mean[1], alone.components(tcp[1:], t[1:], np.array([0]))[0][0])
    assert np.abs(mean[0] - mean[1]).max() > 0.1


# --- grip ---------------------------------------------------------------------------------------------------------


def _gripping(force: float, **config):
    t = np.arange(50) * DT
    tool = np.tile([0.4, 0.0, 0.1, 0.0, 1.0, 0.0, 0.0], (50, 1))
    held = (t > 0.5).astype(float)
    one = ToolTrajectory(t=t, tool=tool, opening=0.08 - 0.04 * held, force=force * held, clip=t)
    return BehaviorPrior.of_tools(
        [[one]], BehaviorConfig(**config), grip=GripMap.of_pads(widest=0.08, stiffness=3000.0, depth=0.01),
        scale=SCALE, dt=DT, panel_hash="p",
    )  # fmt: skip


def _number(prior, t: float, grips=None) -> float:
    at = prior.tool[:, 0, round(t / DT)]
    felt = None if grips is None else np.array([[grips]])
    return float(prior.components(at, np.array([t]), np.zeros(1, dtype=int), felt)[0][0, 0, 6])


def test_a_wanted_force_closes_the_gripper_by_what_its_servo_gives_way():
    prior = _gripping(6.0)
    assert _number(prior, 0.2) == pytest.approx(1.0)
    # 6 N on each pad of 3,000 N/m are 2 mm a pad: 4 mm of the opening of 8 cm
    assert _number(prior, 1.0, 6.0) == pytest.approx(2 * (0.04 - 0.004) / 0.08 - 1)
    assert _number(prior, 1.0) == _number(prior, 1.0, 6.0)
    assert _number(prior, 1.0, 0.0) < _number(prior, 1.0, 6.0) < _number(prior, 1.0, 12.0)
    assert _number(prior, 0.2, 12.0) == _number(prior, 0.2)  # touch says nothing where no force is wanted


def test_numbers_of_a_hand_that_closes_by_one_are_all_the_same():
    t = np.arange(50) * DT
    one = ToolTrajectory(
        t=t, tool=np.tile([0.4, 0.0, 0.1, 0.0, 1.0, 0.0, 0.0], (50, 1)), opening=np.linspace(0.08, 0.02, 50),
        force=np.linspace(0.0, 2.0, 50), clip=t,
    )  # fmt: skip
    pads = GripMap.of_pads(widest=0.08, stiffness=500.0, depth=0.01)
    one_number, three = (
        BehaviorPrior.of_tools(
            [[one]], BehaviorConfig(), grip=replace(pads, size=size), scale=SCALE, dt=DT, panel_hash="p"
        )
        for size in (1, 3)
    )
    assert (one_number.size, three.size) == (7, 9)
    at = (one_number.tool[:, 0, 20], np.array([20 * DT]), np.zeros(1, dtype=int), np.array([[0.5]]))
    mean, same = one_number.components(*at)[0][0, 0], three.components(*at)[0][0, 0]
    assert np.array_equal(same, np.append(mean, mean[[6, 6]]))


def test_without_feedback_touch_changes_nothing():
    prior = _gripping(6.0, grip_feedback=0.0)
    assert _number(prior, 1.0, 0.0) == _number(prior, 1.0, 12.0)


def test_forces_survive_the_disk(tmp_path):
    prior = _gripping(6.0)
    back = BehaviorPrior.load(prior.save(tmp_path / "bank.safetensors"))
    assert np.array_equal(back.force, prior.force)
    assert _number(back, 1.0, 2.0) == _number(prior, 1.0, 2.0)
