"""Twelve faults that no test noticed once, or that would cost most: the tests notice them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WATCHED = (
    "coupling sign", "passivity bound left out", "deflection turned", "identification that does nothing",
    "conformal rank of recovery", "conformal p without the group itself", "sign of the lag",
    "Tango's interval mirrored", "Holm without running maximum", "fusion by variance of the other",
    "prior without feedback", "slip of instances that one world never held",
)  # fmt: skip


def _script():
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "scripts" / "mutants.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_fault_still_fits_the_code():
    """Each is one place in one file, and changes it; its tests exist."""
    for mutant in _script().MUTANTS:
        text = (ROOT / "dexprior" / mutant.file).read_text()
        assert text.count(mutant.before) == 1, mutant.name
        assert mutant.before != mutant.after
        assert all((ROOT / "tests" / word).exists() for word in mutant.tests.split()), mutant.name


@pytest.mark.slow
def test_twelve_faults_are_noticed():
    script = _script()
    chosen = [mutant for mutant in script.MUTANTS if mutant.name in WATCHED]
    assert len(chosen) == len(WATCHED)
    assert [mutant.name for mutant, status, _ in script.run(chosen) if status != "killed"] == []
