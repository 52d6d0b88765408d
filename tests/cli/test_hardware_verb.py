"""`dexprior hardware`, with the robot that stands in for one."""

import json

import pytest

from dexprior.cli.main import main


def test_check_moves_nothing_and_shows_the_gates_limits(tmp_path, capfd):
    assert main(["hardware", "check", f"out={tmp_path / 'robot'}"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["driver"] == "loopback"
    assert told["gate"]["max_force"] > 0


def test_home_says_where_the_tool_is(tmp_path, capfd):
    assert main(["hardware", "home", f"out={tmp_path / 'robot'}"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert len(told["joints_rad"]) == 7
    assert told["opening_m"] == pytest.approx(0.08, abs=2e-3)
    assert told["points"] > 0
    assert (tmp_path / "robot").is_dir()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["stop"], "word 'stop'"),
        (["trip", "link=nowhere/franka.link"], "nowhere/franka.link: no record of a Franka's loop"),
        (["check", "hardware.driver=franka"], "hardware.address: required"),
        (["check", "hardware.driver=ur5e"], "loopback"),
    ],
)
def test_what_cannot_be_is_one_line(words, said, tmp_path, capfd):
    assert main(["hardware", *words, f"out={tmp_path}"]) == 1
    assert said in capfd.readouterr().err
