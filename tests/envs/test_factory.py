"""One name, one backend: all of them take the same commands and give the same kind of reading."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from dexprior.collision import ImpulseNetwork, Surrogate, SurrogateConfig
from dexprior.config import to_plain, validate
from dexprior.envs import BackendConfig, make_backend
from dexprior.envs.base import ObservationSpec, tracked
from dexprior.envs.factory import HardwareOptions, RealityOptions, SimulationOptions
from dexprior.envs.panel import Panel
from dexprior.envs.reality import start_server
from dexprior.errors import ConfigError, SafetyStop, UnknownName
from dexprior.worlds.tasks import make_task

FORWARD = np.array([[0.2, 0, 0, 0, 0, 0, 1.0]])


@pytest.fixture
def easy():
    """An instance in the training simulator."""
    return Panel.sample("test", make_task("insertion"), 1, seed=3)


@pytest.fixture
def config(tmp_path) -> BackendConfig:
    surrogate = Surrogate.from_network(ImpulseNetwork(SurrogateConfig(width=8, depth=1)), np.array([[-9.0, 9.0]] * 4))
    path = surrogate.save(tmp_path / "collision.safetensors", producer="test", seed=0)
    return BackendConfig(simulation=SimulationOptions(checkpoint=str(path), phi=(0.3, 0.5, 0.001, 1.0, 0.0)))


@pytest.mark.parametrize("kind", ["mujoco", "hybrid", "reality", "hardware"])
def test_every_kind_reads_alike(kind, config, easy):
    backend = make_backend(BackendConfig(kind=kind, simulation=config.simulation))
    try:
        backend.reset(easy)
        reading = backend.step(backend.actions.commands(FORWARD))
        assert backend.n == 1
        assert reading.t[0] == pytest.approx(0.04)
        shown = ObservationSpec.of(backend).observe(reading, reading.cloud)
        assert {name: value.shape for name, value in shown.items()} == {
            "proprio": (1, 25), "wrench": (1, 6), "touch": (1, 2), "cloud": (1, 64, 3), "first_cloud": (1, 64, 3),
            "time": (1, 1),
        }  # fmt: skip
        assert 0.0 <= backend.task.reward(tracked(reading))["total"][0] <= 1.0
    finally:
        backend.close()


def test_a_name_is_enough():
    assert make_backend("mujoco").n == 1


def test_an_unknown_name_lists_the_names():
    with pytest.raises(UnknownName, match=r"'mujocco'.*'mujoco'.*hybrid, warp, reality, hardware"):
        make_backend("mujocco")


def test_options_reach_the_backend(easy):
    assert make_backend(BackendConfig(n=3)).n == 3
    backend = make_backend(
        BackendConfig(kind="hardware", hardware=HardwareOptions(gate={"max_saturated": 0.0}, tracker=False))
    )
    assert backend.reset(easy).truth is None
    with pytest.raises(SafetyStop, match=r"saturated: 1 of the arm's numbers .* limit 0"):
        backend.step(backend.actions.commands(15.0 * FORWARD))
    backend.close()


def test_a_running_server_is_used(easy):
    with start_server(tracker=False) as server:
        options = RealityOptions(host=server.address[0], port=server.address[1])
        backend = make_backend(BackendConfig(kind="reality", reality=options))
        assert backend.reset(easy).truth is None
        backend.close()
        assert server.running


def test_what_is_required_is_asked_for():
    with pytest.raises(ConfigError, match="checkpoint"):
        make_backend("hybrid")


def test_configuration_is_plain_data_and_strict():
    config = BackendConfig(kind="reality", hardware=HardwareOptions(gate={"max_force": 20.0, "robot": {"lag": 0.1}}))
    assert validate(BackendConfig, to_plain(config)) == config
    with pytest.raises(ConfigError, match=r"hardware.*gate\.max_forse.*max_force"):
        validate(BackendConfig, {"hardware": {"gate": {"max_forse": 1.0}}})
    with pytest.raises(ConfigError, match="kind"):
        validate(BackendConfig, {"kind": "dream"})


def test_the_package_loads_neither_torch_nor_mujoco():
    code = "import sys, dexprior.envs; print([m for m in ('torch', 'mujoco') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_a_task_goes_by_name_to_every_kind():
    peg = make_backend("mujoco", task="peg")
    assert peg.task.name == "peg"
    backend = make_backend("reality", task="peg")
    try:
        panel = Panel.sample("p", peg.task, 1, seed=0)
        reading = backend.reset(panel)
        assert reading.truth["object"].shape == (1, 7)
        assert backend.task.name == "peg"
    finally:
        backend.close()
    with pytest.raises(UnknownName, match="juggling"):
        make_backend("mujoco", task="juggling")
