"""A task's family takes parameters of files: replaced by name, added where the task has their target, refused else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dexprior.artifacts import write_json
from dexprior.errors import BadInput
from dexprior.families import ACTUATOR_DELAY, Parameter, ParameterFamily, actuation
from dexprior.families.densities import Copula
from dexprior.worlds.tasks import TaskWorlds, learned_family, make_task

TASK = make_task("pick_place")
FRICTION = next(p for p in TASK.family.parameters if p.name == "cube_friction")
FITTED = replace(FRICTION, low=0.31, high=0.32, provenance="fitted")
DELAY = replace(actuation()[0], low=0.02, high=0.03, provenance="fitted")


@pytest.fixture
def write(tmp_path):
    def written(name: str, *parameters: Parameter, **more) -> str:
        path = tmp_path / f"{name}.json"
        write_json(path, ParameterFamily(name, parameters, **more).to_json())
        return str(path)

    return written


def test_parameters_of_files_replace_and_are_added(write):
    family = learned_family(TASK, [write("round", FITTED), write("arm", DELAY)])
    assert family.names == (*TASK.family.names, ACTUATOR_DELAY)
    assert family.parameters[family.names.index("cube_friction")] == FITTED
    others = [p for p in family.parameters if p.name not in ("cube_friction", ACTUATOR_DELAY)]
    assert others == [p for p in TASK.family.parameters if p.name != "cube_friction"]
    worlds, rng = TaskWorlds(TASK, 2, family=family), np.random.default_rng(0)
    rows = [family.as_dict(row) for row in family.sample(rng, 2)]
    worlds.reset(np.arange(2), TASK.sample(rng, 2), rows)
    model = worlds.data(1)[0]
    assert model.geom("cube").friction[0] == rows[1]["cube_friction"]


def test_the_last_file_counts_and_none_leaves_the_task_s_own(write):
    again = replace(FITTED, low=0.5, high=0.6)
    family = learned_family(TASK, [write("one", FITTED), write("two", again)])
    assert family.parameters[family.names.index("cube_friction")] == again
    assert learned_family(TASK, []) is TASK.family


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": "geom/plate/friction/0"}, "'cube_friction': task .* has no target 'geom/plate/friction/0'"),
        ({"target": "geom/cube/rubbing/0"}, "has no target 'geom/cube/rubbing/0'.*rubbing"),
        ({"target": "world/-/humidity"}, "has no target 'world/-/humidity'; of that kind: .*world/-/wrench_noise"),
        ({"name": "mu"}, "'mu' goes to 'geom/cube/friction/0', as 'cube_friction' of 'pick_place' does"),
    ],
)  # fmt: skip
def test_what_the_task_does_not_have_is_named_with_the_file(write, changes, message):
    path = write("round", replace(FITTED, **changes))
    with pytest.raises(BadInput, match=rf"round\.json: parameter .*{message}"):
        learned_family(TASK, [path])


def test_how_parameters_hang_together_comes_along_whole_or_not_at_all(write):
    mass = next(p for p in TASK.family.parameters if p.name == "cube_mass")
    joint = Copula(("cube_friction", "cube_mass"), np.array([[1.0, -0.9], [-0.9, 1.0]]))
    path = write("round", FITTED, mass, density=joint)
    values = learned_family(TASK, [path, write("arm", DELAY)]).sample(np.random.default_rng(0), 400)
    columns = [TASK.family.names.index(name) for name in joint.names]
    assert np.corrcoef(values[:, columns].T)[0, 1] < -0.7
    with pytest.raises(BadInput, match="both say how parameters hang together"):
        learned_family(TASK, [path, write("part", FITTED)])
    assert not learned_family(TASK, [path, write("all", FITTED, mass)]).density.names
