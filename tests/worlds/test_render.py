"""Frames show the scene where graphics work, and a sentence says why where they do not."""

from __future__ import annotations

import os
import subprocess
import sys

import mujoco
import numpy as np
import pytest

from dexprior.geometry.transforms import project
from dexprior.worlds.render import FrameRenderer, check_graphics
from dexprior.worlds.tasks import make_task
from dexprior.worlds.tasks.scene import camera


def in_another_process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    keep = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "MUJOCO_GL", "PYOPENGL_PLATFORM")}
    return subprocess.run(
        [sys.executable, "-c", code], env=keep | environment, capture_output=True, text=True, timeout=60, check=False
    )


RENDER = """
import dexprior, mujoco
from dexprior.errors import NoGraphics
from dexprior.worlds.render import FrameRenderer, check_graphics
model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><camera name='c'/></worldbody></mujoco>")
try:
    FrameRenderer(model, camera="c", width=8, height=8)
except NoGraphics as error:
    print(error)
    assert check_graphics() == str(error)
"""


def test_without_graphics_there_is_a_sentence_with_the_fix():
    """No OpenGL at all: what a server without libegl1 shows."""
    done = in_another_process(RENDER, MUJOCO_GL="disable")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("no off-screen OpenGL context: ")
    assert "Set MUJOCO_GL=egl (needs libegl1) or MUJOCO_GL=osmesa (needs libosmesa6)" in done.stdout
    assert "`dexprior doctor`" in done.stdout


def test_a_platform_that_does_not_exist_is_named():
    done = in_another_process(RENDER, MUJOCO_GL="crayons")
    assert "crayons" in done.stdout + done.stderr
    assert "MUJOCO_GL" in done.stdout + done.stderr


def test_without_a_display_the_off_screen_platform_is_chosen():
    code = "import os, dexprior; print(os.environ.get('MUJOCO_GL'))"
    if sys.platform != "linux":
        pytest.skip("only Linux servers lack a display")
    assert in_another_process(code).stdout.strip() == "egl"
    assert in_another_process(code, MUJOCO_GL="osmesa").stdout.strip() == "osmesa"
    assert in_another_process(code, DISPLAY=":0").stdout.strip() == "None"


@pytest.fixture(scope="module")
def scene(graphics):
    model = make_task("insertion").layout().spec.compile()
    data = mujoco.MjData(model)
    data.mocap_pos[model.body("bolt").mocapid[0]] = [0.46, 0.08, 0.0]
    mujoco.mj_forward(model, data)
    return model, data


def test_frames_are_bright_sized_and_repeat(scene):
    model, data = scene
    with FrameRenderer(model, camera="front", width=64, height=48) as renderer:
        one, two = renderer.render(data), renderer.render(data)
    assert one.shape == (48, 64, 3)
    assert one.dtype == np.uint8
    np.testing.assert_array_equal(one, two)
    assert one.std() > 5
    with FrameRenderer(model, camera="front", width=64, height=48) as renderer:
        np.testing.assert_array_equal(renderer.render(data), one)


def test_the_orange_nut_is_where_the_camera_type_projects_it(scene):
    """Image, K and T_base_cam agree to a pixel: what the estimator is trained on."""
    model, data = scene
    size = 128
    with FrameRenderer(model, camera="front", width=size, height=size) as renderer:
        frame = renderer.render(data).astype(float)
    seen = camera("front", size)
    orange = (frame[..., 0] > 1.6 * frame[..., 2]) & (frame[..., 0] > 100) & (frame[..., 0] > 1.2 * frame[..., 1])
    rows, columns = np.nonzero(orange)
    found = np.array([columns.mean(), rows.mean()]) + 0.5
    expected = project(seen.K, seen.T_base_cam, data.body("nut").xpos)
    assert len(rows) > 20
    np.testing.assert_allclose(found, expected, atol=3.0)


def test_graphics_are_checked_the_same_way(graphics):
    assert check_graphics() is None
