"""Episodes of scripted policies, what slips, and the traces that the ledger reads."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.envs.panel import Panel
from dexprior.envs.sim import SimBackend
from dexprior.errors import BadInput
from dexprior.policy.rollout import prior_policy, run_episodes, traces
from dexprior.worlds.measures import SLIP_SPEED
from dexprior.worlds.tasks import make_task

TASK = make_task("insertion")
HORIZON, CONTROL_DT = TASK.steps, TASK.control_dt


@pytest.fixture(scope="module")
def episodes(panel, bank):
    """The bank, followed: it grasps and lifts, and never inserts."""
    return run_episodes(prior_policy(bank, np.arange(4)), SimBackend(TASK, 4), panel)


def _still(observation, reading):
    action = np.zeros((len(reading.t), 7))
    action[:, 6] = 1.0
    return action


def test_following_the_prior_reaches_and_holds_the_nut(episodes, bank):
    assert episodes.held.all()
    assert not episodes.success.any()
    lifted = episodes.object[-1, :, 2] - episodes.object[0, :, 2]
    assert (lifted > 0.04).all()
    lag = np.linalg.norm(episodes.robots[0].tcp[:, :, :3].swapaxes(0, 1) - bank.tool[:, 0, :, 0, :3], axis=-1)
    assert lag.max() < 0.02  # a real arm follows with a delay


def test_an_episode_is_complete(episodes):
    np.testing.assert_allclose(episodes.t, CONTROL_DT * np.arange(1, HORIZON + 1), atol=1e-9)
    for name in ("opening", "slip", "object", "action"):
        assert getattr(episodes, name).shape[:2] == (HORIZON, 4), name
    (robot,) = episodes.robots
    for name, value in vars(robot).items():
        assert value.shape[:2] == (HORIZON, 4), name
    np.testing.assert_allclose(episodes.opening[..., 0], robot.end.sum(axis=2))
    assert not episodes.lost.any()
    assert episodes.saturated == 0


def test_the_slip_rate_is_the_share_of_held_steps_that_slip(panel):
    """Recounted from what each reading says."""
    held, slipping = [], []

    def clumsy(observation, reading):
        held.append(reading.truth["held"])
        slipping.append(reading.truth["slip"] > SLIP_SPEED)
        action = np.zeros((4, 7))
        to_nut = reading.truth["object"][:, :3] - reading.tools[:, 0, :3]
        action[:, :3] = np.clip(6 * to_nut / 0.5, -1, 1)
        late = reading.t[0] > 1.4
        action[:, 6] = -0.4 if late else 1.0
        if reading.t[0] > 1.9:  # jerk a nut that is held loosely
            action[:, 2] = np.sign(np.sin(25 * reading.t[0]))
        return action

    result = run_episodes(clumsy, SimBackend(TASK, 4), panel)
    # the policy sees the reading before each step; the episode keeps the one after
    held, slipping = np.array(held)[1:], np.array(slipping)[1:]
    after_last = (result.slip[-1] > SLIP_SPEED) & (result.robots[0].touch[-1] > 0).all(axis=1)
    total = held.sum(axis=0) + (result.robots[0].touch[-1] > 0.3).all(axis=1)
    expected = ((held & slipping).sum(axis=0) + after_last) / np.maximum(total, 1)
    np.testing.assert_allclose(result.slip_rate, expected, atol=1.5 / HORIZON)
    assert ((result.slip_rate >= 0) & (result.slip_rate <= 1)).all()
    assert result.slip_rate.max() > 0


def test_who_never_holds_never_slips(panel):
    result = run_episodes(_still, SimBackend(TASK, 4), panel)
    assert not result.held.any()
    assert (result.slip_rate == 0).all()
    assert not result.success.any()


def test_worlds_side_by_side_are_worlds_one_after_another(panel):
    together = run_episodes(_still, SimBackend(TASK, 4), panel)
    in_pairs = run_episodes(_still, SimBackend(TASK, 2), panel)
    assert together.robots == in_pairs.robots
    for name in ("object", "action", "success"):
        np.testing.assert_array_equal(getattr(together, name), getattr(in_pairs, name), err_msg=name)


def test_a_panel_that_does_not_fill_the_worlds_is_refused(panel):
    with pytest.raises(BadInput, match="1 instances for 3 worlds"):
        run_episodes(_still, SimBackend(TASK, 3), panel)


def test_traces_say_who_may_read_what(episodes, panel):
    made = traces(episodes, panel, "mujoco")
    assert len(made) == 4
    kinds = {name: channel.kind for name, channel in made[0].channels.items()}
    assert kinds == {
        "tool_position": "measured", "force": "measured", "touch": "measured", "opening": "measured",
        "slip": "privileged", "object": "privileged", "command": "commanded",
    }  # fmt: skip
    units = {name: channel.unit for name, channel in made[0].channels.items()}
    assert units == {
        "tool_position": "m", "force": "N", "touch": "N", "opening": "m", "slip": "m/s", "object": "m", "command": "1",
    }  # fmt: skip


def test_traces_carry_both_clocks_and_their_panel(episodes, panel):
    for i, trace in enumerate(traces(episodes, panel, "mujoco")):
        assert trace.panel_hash == panel.hash
        assert trace.info == {"instance": i, "backend": "mujoco", "success": False}
        for channel in trace.channels.values():
            np.testing.assert_array_equal(channel.t, episodes.t)
            np.testing.assert_array_equal(channel.t_host, channel.t)  # one clock in simulation
        np.testing.assert_array_equal(trace["tool_position"].value, episodes.robots[0].tcp[:, i, :3])
        np.testing.assert_array_equal(trace["opening"].value[:, 0], episodes.opening[:, i, 0])


def test_traces_of_two_worlds_on_one_panel_can_be_compared(episodes, panel):
    other = Panel.sample("other", TASK.other(), 4, seed=0, family=TASK.reality)
    assert traces(episodes, other, "reality")[0].panel_hash == traces(episodes, panel, "mujoco")[0].panel_hash
