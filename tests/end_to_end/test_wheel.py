"""The built wheel runs outside the checkout, in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)],
        check=True, capture_output=True,
    )  # fmt: skip
    return next(out.glob("*.whl"))


def test_it_holds_the_configuration_and_the_data_cards(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "dexprior/configs/demo.yaml" in names
    assert "dexprior/configs/preset/demo/smoke.yaml" in names
    assert "dexprior/configs/accelerate/fsdp2.yaml" in names
    assert any(name.startswith("dexprior/datasets/") for name in names)
    assert {
        f"dexprior/{path.relative_to(ROOT)}" for path in (ROOT / "checkpoints").rglob("*") if path.is_file()
    } <= set(names)
    assert not [name for name in names if name.startswith(("tests/", "scripts/", "docs/"))]


def test_it_runs_its_own_policy_and_the_smoke_demo_from_an_empty_folder(wheel, tmp_path):
    """The wheel alone on the path: its dependencies come from this environment, its own code does not."""
    import os

    site, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    environment = {**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"}
    where = subprocess.run(
        [sys.executable, "-c", "import dexprior; print(dexprior.__file__)"],
        cwd=empty, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert where.stdout.startswith(str(site))
    play = ["play", "policy=shipped", "n=1", "film=0"]
    played = subprocess.run(
        [sys.executable, "-m", "dexprior", *play], cwd=empty, env=environment, capture_output=True, text=True
    )
    assert played.returncode == 0, played.stderr[-3000:]
    assert (empty / "runs" / "play" / "pick_place.json").is_file()
    done = subprocess.run(
        [sys.executable, "-m", "dexprior", "demo", "preset=smoke", "threads=1"],
        cwd=empty, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert (empty / "runs" / "smoke" / "report.html").is_file()
    assert str(ROOT) not in done.stderr
