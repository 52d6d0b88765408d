"""Which robots `dexprior retarget` takes, and what it says of others."""

from __future__ import annotations

import pytest

from dexprior.cli.main import main
from dexprior.robots import catalog

CHOICES = "tendon_hand, human_hand, builtin-hand, allegro, leap, shadow, arm7+parallel"


@pytest.mark.parametrize("name", ["panda", "parallel", "claw4", "three_finger", "robotiq_2f85"])
def test_a_machine_without_a_persons_fingers_is_refused_with_the_choices(name, capsys):
    assert main(["retarget", f"robot={name}"]) != 0
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert f"'{name}' has no fingers that follow a human hand's; choices: {CHOICES}" in line


def test_a_name_that_is_none_is_refused_with_the_choices(capsys):
    assert main(["retarget", "robot=shadw"]) != 0
    assert "unknown robot 'shadw'; did you mean 'shadow'?" in capsys.readouterr().err


def test_help_names_the_hands(capsys):
    main(["retarget", "--help"])
    shown = capsys.readouterr().out
    assert all(name in shown for name in (*catalog.hands(), "arm7+parallel"))
