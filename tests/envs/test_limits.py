"""Limits come from the robot's entry in the catalog and from where the task's things can be; a user overrides them."""

from __future__ import annotations

import numpy as np
import pytest

from dexprior.envs.hardware import HardwareOptions, gate_config, start_gate
from dexprior.errors import BadInput, ConfigError
from dexprior.robots.catalog import end_effector
from dexprior.worlds.tasks import TaskWorlds, make_task

TASKS = {
    "pick_place": make_task("pick_place", half_size=0.014),
    "standing peg": make_task("peg", start="standing"),
    "held peg": make_task("peg"),
    "insertion": make_task("insertion").other(),
}
PERIOD = 0.04


@pytest.mark.parametrize("name", TASKS)
def test_every_scene_of_a_task_fits_its_gate(name):
    """Scenes that the limits were not made from: the start is inside, and things are where contact is meant."""
    task, gate = TASKS[name], gate_config(TASKS[name])
    worlds = TaskWorlds(task, 64, threads=1)
    worlds.reset(np.arange(64), task.sample(np.random.default_rng(77), 64), [{}] * 64)
    truth = worlds.truth()
    envelope = gate.envelope(PERIOD)
    for tool in worlds.view.rigs[0].tcp[:, :3].tolist():
        assert envelope.workspace.holds(tuple(tool))
    table = gate.contact_zones[0]
    floor = gate.workspace_low[2]
    assert table.high[2] > floor > end_effector("parallel").depth
    for x, y, _ in task.cloud(worlds.view, truth).reshape(-1, 3).tolist():
        assert table.holds((x, y, end_effector("parallel").depth))
    fixed = [part for part in task.parts if not part.moves]
    assert len(gate.contact_zones) == 1 + len(fixed)
    for part, zone in zip(fixed, gate.contact_zones[1:]):
        top = part.surface()[0][:, 2].max()
        for x, y, z in worlds.view.body_pose(part.body)[:, :3].tolist():
            assert zone.holds((x, y, z))
            assert zone.holds((x, y, z + top + end_effector("parallel").depth))


def test_two_tasks_have_two_gates_and_one_robot():
    one, two = gate_config(TASKS["pick_place"]), gate_config(TASKS["standing peg"])
    assert one.contact_zones != two.contact_zones
    assert one.robot == two.robot
    assert (one.max_force, one.contact_speed) == (two.max_force, two.contact_speed) == (60.0, 0.03)


def test_what_a_user_sets_is_what_holds():
    changes = {"max_force": 40.0, "workspace_high": [0.6, 0.3, 0.4], "robot": {"watchdog": 0.05}}
    task = TASKS["pick_place"]
    gate, plain = gate_config(task, changes), gate_config(task)
    assert (gate.max_force, gate.workspace_high, gate.robot.watchdog) == (40.0, (0.6, 0.3, 0.4), 0.05)
    assert (gate.contact_zones, gate.workspace_low, gate.robot.lag) == (
        plain.contact_zones,
        plain.workspace_low,
        plain.robot.lag,
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_forse": 1.0}, r"gate\.max_forse: unknown setting\. Known here: .*max_force"),
        ({"robot": {"colour": "red"}}, r"gate\.robot\.colour: unknown setting\. Known here: .*watchdog"),
        ({"robot": 3}, r"gate\.robot is 3, expected settings by name"),
    ],
)
def test_a_setting_that_there_is_not_is_named_at_once(changes, message):
    with pytest.raises(BadInput, match=message):
        HardwareOptions(gate=changes)


def test_a_setting_out_of_range_is_named_before_anything_starts():
    with pytest.raises(ConfigError, match=r"gate of pick_place\.contact_speed = 1\.0"):
        start_gate(HardwareOptions(gate={"contact_speed": 1.0}), task=TASKS["pick_place"])


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (("pick_place", {"arm": "gantry"}), r"no limits are known of the arm 'gantry'; arms with limits: arm7\."),
        (
            ("soft_grasp", {"arm": "arm7", "hand": "parallel"}),
            "no limits are known for the task 'soft_grasp': it holds someth",
        ),
        (("folding", {}), "hardware is one arm with a parallel gripper"),
    ],
)
def test_where_no_limits_are_known_one_line_says_so(task, message):
    with pytest.raises(BadInput, match=message) as caught:
        gate_config(make_task(task[0], **task[1]))
    assert "\n" not in str(caught.value)


def test_an_arm_of_which_nothing_is_known_moves_where_the_user_gives_everything():
    robot = {"arm": "gantry", "end": "parallel", "deceleration": 2.0, "angular_deceleration": 4.0, "lag": 0.1}
    speeds = {"max_linear_speed": 0.2, "max_angular_speed": 0.5, "contact_speed": 0.01}
    forces = {"max_force": 20.0, "press_force": 10.0}
    gate = gate_config(make_task("pick_place", arm="gantry"), {"robot": robot, **speeds, **forces})
    assert (gate.robot.arm, gate.max_linear_speed, gate.max_force) == ("gantry", 0.2, 20.0)


def test_the_pads_reach_below_the_tool_by_half_their_height():
    assert end_effector("parallel").joints == ("pad_left", "pad_right")
    assert end_effector("parallel").depth == pytest.approx(0.010)
