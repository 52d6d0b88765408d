"""The command line says what it can do, and turns every mistake into one line that ends the search."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from dexprior import extras
from dexprior.cli.main import VERBS, main
from dexprior.errors import MissingExtra


def test_bare_call_lists_the_verbs_in_flow_order(capsys):
    assert main([]) == 0
    shown = capsys.readouterr().out
    places = [shown.index(f"\n  {verb} ") for verb in VERBS]
    assert places == sorted(places)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb, capsys):
    assert main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: dexprior {verb}")
    for line in shown.splitlines():
        if line.startswith("  ") and "=" in line:  # a setting: its sentence stands behind it
            assert line.rstrip().endswith((".", ")", "]", ":")) or "   " in line.strip(), line


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_script(verb):
    from pathlib import Path

    script = Path(__file__).parents[2] / "scripts" / f"{verb.replace('-', '_')}.py"
    assert f'run_script("{verb}")' in script.read_text()


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["demoo"], 2, "unknown verb 'demoo'; did you mean 'demo'?"),
        (["demo", "prior.stepz=3"], 1, "demo.prior.stepz: unknown key. Did you mean 'prior.steps'?"),
        (["demo", "prior.steps=-3"], 1, "demo.prior.steps = -3: input should be greater than or equal to 1"),
        (["demo", "prior.steps=many"], 1, "demo.prior.steps = 'many': input should be a valid integer"),
        (["demo", "preset=smok"], 1, "unknown preset; choices: full, smoke"),
        (["demo", "smoke"], 1, "demo takes key=value only"),
        (["train-policy", "policy.discount=1.5"], 1, "train-policy.policy.discount = 1.5"),
        (["retarget", "robot=centaur"], 1, "unknown robot 'centaur'"),
        (["retarget", "hand=absent.safetensors"], 1, "looked at absent.safetensors"),
        (["estimate-pose"], 1, "give either video=CLIP or samples=FILE"),
        (["estimate-pose", "video=absent.mp4"], 1, "absent.mp4"),
        (["sample", "views=[roof]"], 1, "unknown camera 'roof'. Known: front, side"),
        (["data", "get", "nothing"], 1, "unknown data set 'nothing'"),
        (["doctor", "seed=1"], 1, "doctor takes no settings"),
        (["build-behavior", "prior=absent"], 1, "no such file"),
    ],
)
def test_a_mistake_ends_in_one_line_that_names_it(words, status, message, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(words) == status
    shown = capsys.readouterr()
    assert message in shown.err
    assert len(shown.err.strip().splitlines()) == 1
    assert "Traceback" not in shown.err


def test_sample_without_a_checkpoint_says_how_to_train_one(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["sample", "prior=runs/prior"]) == 1
    assert (
        "no video prior found (looked at runs/prior); make one with `dexprior demo` or `dexprior train-prior`"
        in capsys.readouterr().err
    )


def test_doctor_says_which_verbs_need_what_is_missing_and_the_demo_does_not(monkeypatch, capsys):
    def absent():
        raise MissingExtra("Open3D cannot be loaded: libusb-1.0.so.0. On Debian: apt-get install libusb-1.0-0")

    monkeypatch.setattr(extras, "open3d", absent)
    monkeypatch.setattr(extras, "available", lambda module: False)
    monkeypatch.setattr("dexprior.worlds.render.check_graphics", lambda: None)
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "ready: dexprior demo" in shown
    needed = shown.partition("what only some verbs need")[2]
    assert re.search(r"open3d +no .*verbs: data generate task=, data import.*apt-get install libusb", needed)
    assert re.search(r"gymnasium_robotics +no .*verbs: retarget robot=shadow.*dexprior\[robots\]", needed)


def test_doctor_names_what_is_missing_without_graphics():
    code = "import sys; from dexprior.cli.main import main; sys.exit(main(['doctor']))"
    import os

    environment = {**os.environ, "MUJOCO_GL": "disable"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "rendering  does not work" in done.stdout
    assert "MUJOCO_GL" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_module_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "dexprior", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("dexprior 0.")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["demo", "estimator.size=32"], "must equal demo.prior.size = 48"),
        (["demo", "demonstrations.size=50"], "must divide demo.demonstrations.size = 50"),
        (["demo", "prior.channels=15"], "prior.channels = 15: must be a multiple of 10"),
        (["demo", "prior.heads=3"], "prior.width = 128: must be a multiple of 3"),
        (["demo", "evaluation.seed=-1"], "demo.evaluation.seed = -1"),
        (["data", "out=/dev/null/x"], "Not a directory: /dev/null/x"),
    ],
)
def test_settings_that_do_not_fit_are_refused_before_any_work(words, message, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 1
    shown = capsys.readouterr().err
    assert message in shown
    assert "Traceback" not in shown


def test_help_shows_what_a_verb_makes_of_a_nested_default_and_whole_sentences(capsys):
    assert main(["collision", "--help", "all"]) == 0
    shown = capsys.readouterr().out
    assert "strikes.residual.noise=0.03" in shown  # a fit to strikes has another one than a fit to impacts
    assert "collision.residual.noise=0.06" in shown
    assert "For distill with pairs: the folder of a shape to score on." in shown
    assert main(["ledger", "update", "--help", "all"]) == 0
    assert "answer.update.conditioning.sampler.particles=32" in capsys.readouterr().out
