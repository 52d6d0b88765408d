"""What the demo's page says first and last: where most is lost, a success beside a failure, and what to do next."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

from dexprior.cli.compose import compose
from dexprior.cli.main import VERBS
from dexprior.pipeline.report import next_commands, stills
from dexprior.pipeline.rungs import CHAIN, largest_loss, worlds_by_loss
from dexprior.pipeline.settings import LineConfig, changed_settings


def _ladder(**rates: list[float]) -> dict[str, Any]:
    """A ladder of so many successes on every rung of the chain, by world."""
    return {"rungs": {rung: {w: {"rate": r[k]} for w, r in rates.items()} for k, rung in enumerate(CHAIN)}}


def _that_loses(rung: str) -> dict[str, Any]:
    rates = np.ones(len(CHAIN))
    rates[CHAIN.index(rung) :] = 0.5
    return _ladder(training=list(np.ones(len(CHAIN))), other=list(rates))


def test_the_world_that_loses_most_comes_first():
    found = _ladder(training=[1, 1, 0.9, 0.9, 0.8], other=[1, 0.4, 0.4, 0.4, 0.3], laws=[1, 1, 1, 0.5, 0.5])
    assert worlds_by_loss(found) == ["other", "laws", "training"]
    found["rungs"]["policy"].pop("laws")  # a world in which not all of the chain is judged
    assert worlds_by_loss(found) == ["other", "training"]


@pytest.mark.parametrize("rung", CHAIN[1:])
def test_what_to_do_next_names_the_rung_that_loses_most_and_runs(rung):
    config = compose("demo", LineConfig, ["preset=smoke", "out=runs/my first", "policy.kl.start=0.2"])
    found = _that_loses(rung)
    assert largest_loss(found, worlds_by_loss(found)[0])[1] == rung
    steps = next_commands(config, found)
    assert {"demonstration": "demonstrations", "sample": "prior samples", "bank": "bank", "policy": "policy"}[
        rung
    ] in steps[0][0]
    _check(steps)


def test_where_nothing_is_lost_a_harder_task_comes_next():
    steps = next_commands(LineConfig(), _ladder(training=[1, 1, 1, 1, 1]))
    assert "task=peg" in steps[0][1]
    _check(steps)


def _check(steps: list[tuple[str, str]]) -> None:
    """Every command is one that the verb takes, of settings that are files or folders of the run and those beside."""
    for what, command in steps:
        assert what.endswith(".")
        program, verb, *words = shlex.split(command)
        assert program == "dexprior"
        assert verb in VERBS
        module = __import__(f"dexprior.cli.{verb.replace('-', '_')}", fromlist=["Config"])
        compose(verb, module.Config, [word for word in words if "=" in word])


def test_the_run_is_repeated_with_its_own_settings():
    words = ["preset=smoke", "task=peg", "settings.clearance=0.0001", "bank.views=[]", "bank.gated=false"]
    config = compose("demo", LineConfig, words)
    again = compose("demo", LineConfig, changed_settings(config))
    assert dataclasses.replace(again, out=config.out) == config
    assert changed_settings(LineConfig(out="elsewhere")) == []


def test_outcomes_stand_side_by_side():
    films = [np.full((9, 8, 8, 3), shade, dtype=np.uint8) for shade in (0, 255)]
    figure = stills(["success, scene 0", "failure, scene 3"], films, 0.5)
    assert [part.get_suptitle() for part in figure.subfigs] == ["success, scene 0", "failure, scene 3"]
    assert [ax.get_title() for ax in figure.axes[:4]] == ["0.0 s", "1.5 s", "2.5 s", "4.0 s"]
    assert len(figure.axes) == 8
    plt.close(figure)
