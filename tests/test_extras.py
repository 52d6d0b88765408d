"""An absent optional package is a sentence with the line that installs it."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest

from dexprior import extras
from dexprior.errors import MissingExtra, UnknownName


@pytest.fixture
def absent(monkeypatch):
    """No optional package is installed."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


def test_message_names_package_purpose_and_install_line(absent):
    with pytest.raises(MissingExtra) as caught:
        extras.require("smplx")
    assert str(caught.value) == (
        "MANO layers (research-only licence) needs the package 'smplx', which is not installed. "
        "Install it with: pip install 'dexprior[mano]'"
    )


def test_a_purpose_of_the_callers_comes_first(absent):
    with pytest.raises(MissingExtra, match=r"^the viewer of traces needs the package 'viser'"):
        extras.require("viser", purpose="the viewer of traces")


def test_absent_is_not_available(absent):
    assert not any(extras.available(name) for name in extras.OPTIONAL)


def test_asking_does_not_import():
    for name in extras.OPTIONAL:
        loaded = name in sys.modules
        extras.available(name)
        assert (name in sys.modules) == loaded


def test_present_packages_are_imported():
    present = [name for name in extras.OPTIONAL if extras.available(name)]
    if not present:
        pytest.skip("no optional package is installed")
    assert extras.require(present[0]).__name__ == present[0]


@pytest.mark.parametrize("ask", [extras.available, extras.require])
def test_only_known_packages_may_be_asked_for(ask):
    with pytest.raises(UnknownName, match=r"'numpy'.*Known: smplx"):
        ask("numpy")


def test_every_extra_is_declared():
    pyproject = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    declared = pyproject["project"]["optional-dependencies"]
    for module, (extra, _, _) in extras.OPTIONAL.items():
        packages = [line.replace("-", "_") for line in declared[extra]]
        name = module.replace(".", "_")  # mujoco.mjx comes as mujoco-mjx
        assert any(line.startswith(name) for line in packages), (module, extra)


def test_a_missing_library_of_open3d_is_named(monkeypatch):
    def fail(name):
        raise ImportError("libusb-1.0.so.0: cannot open shared object file")

    monkeypatch.setattr("importlib.import_module", fail)
    with pytest.raises(MissingExtra, match=r"libusb-1\.0\.so\.0.*apt-get install libusb-1\.0-0"):
        extras.open3d()
