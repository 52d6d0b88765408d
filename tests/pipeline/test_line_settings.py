"""The line's settings: what help says of them, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from dexprior.cli import demo
from dexprior.data.demonstrating import TaskDemonstrationConfig
from dexprior.errors import ConfigError
from dexprior.pipeline.settings import BankConfig, LineConfig
from dexprior.pose.estimator import EstimatorConfig
from dexprior.prior.training import PriorConfig
from dexprior.worlds.tasks import demonstrated_tasks

ROOT = Path(__file__).resolve().parents[2]


def test_help_and_documents_name_every_task_that_the_line_takes():
    verbs = (ROOT / "docs" / "verbs.md").read_text().splitlines()
    row = next(line for line in verbs if line.startswith("| `dexprior demo`"))
    settings = (ROOT / "dexprior" / "pipeline" / "settings.py").read_text()
    for name in demonstrated_tasks():
        assert f"`{name}`" in row.replace("task=", "")
        assert name in str(demo.__doc__)
        assert name in settings.split("class LineConfig", 1)[1].split("settings:", 1)[0]


def test_what_reads_samples_sees_them_as_demonstrations_were_seen():
    one = TaskDemonstrationConfig(size=48, cameras=("front",), depth=())
    with pytest.raises(ConfigError, match=r"bank.views = \['side'\]: no camera 'side' beside the first .*\['front'\]"):
        LineConfig(demonstrations=one)
    assert LineConfig(demonstrations=one, bank=BankConfig(views=())).bank.views == ()


def test_frames_of_one_size_go_through_the_line():
    with pytest.raises(ConfigError, match=r"size = 32.*prior.size = 48"):
        LineConfig(estimator=EstimatorConfig(size=32))
    with pytest.raises(ConfigError, match=r"prior.size = 40: must divide demo.demonstrations.size = 48"):
        LineConfig(prior=PriorConfig(size=40), estimator=EstimatorConfig(size=40))
