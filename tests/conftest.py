"""One valid example of every type, and what tests that render need."""

from __future__ import annotations

import dataclasses
import os
import pickle
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import dexprior  # noqa: F401  # before MuJoCo: chooses the off-screen OpenGL platform
import dexprior.types as types

settings.register_profile("dexprior", deadline=None, derandomize=True)  # a busy machine is no failure
settings.load_profile("dexprior")


def _pose(n: int, rng: np.random.Generator) -> np.ndarray:
    pose = rng.normal(size=(n, 7))
    pose[:, 3:] /= np.linalg.norm(pose[:, 3:], axis=1, keepdims=True)
    return pose


def make_examples(n: int = 5, seed: int = 0, size: int = 32) -> dict[type, Any]:
    """A valid value of every type of `dexprior.types`, with n frames."""
    rng = np.random.default_rng(seed)
    t = np.arange(n) / 24.0
    hand = types.HandTrajectory(
        t=t,
        side="right",
        wrist_pose=_pose(n, rng),
        finger_pose=rng.normal(size=(n, 45)),
        betas=rng.normal(size=10),
        joints=rng.normal(size=(n, 21, 3)),
        contact=rng.random((n, 5)),
        force=rng.random((n, 5)),
        valid=rng.random(n) > 0.2,
        sigma=rng.random((n, 21)),
        scale_known=True,
    )
    nut = types.ObjectTrajectory(
        object="nut", t=t, points=rng.normal(size=(n, 16, 3)), valid=np.ones(n, dtype=bool), pose=_pose(n, rng)
    )
    contact = types.ContactSchedule(
        side=("right", "right"),
        finger=("thumb", "index"),
        t_on=np.array([0.1, 0.2]),
        t_off=np.array([0.3, 0.3]),
        point=rng.normal(size=(2, 3)),
        normal_force=np.array([1.0, 2.0]),
    )
    T = np.eye(4)
    T[:3, 3] = [0.5, 0.0, 0.4]
    K = np.array([[30.0, 0, size / 2], [0, 30.0, size / 2], [0, 0, 1]])
    camera = types.Camera(K=K, T_base_cam=T, width=size, height=size)
    start = types.ContactConfiguration(
        side="right",
        wrist_pose=_pose(1, rng)[0],
        finger_pose=rng.normal(size=45),
        betas=np.zeros(10),
        touching=np.array([True, True, False, False, False]),
        points=rng.normal(size=(5, 3)),
    )
    normals = rng.normal(size=(8, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    condition = types.PriorCondition(
        cloud=np.concatenate([rng.uniform(-1, 1, (8, 3)), normals], axis=1),
        moves=np.arange(8) < 5,
        points=nut.points[0],
        start=(start,),
        target=(start,),
        target_at=(n - 1) / 24.0,
        seconds=n / 24.0,
        camera=camera,
        text="put the nut on the bolt",
        pose=nut.pose[0],
        goal=_pose(1, rng)[0],
    )
    sample = types.VideoSample(
        frames=rng.integers(0, 255, (n, size, size, 3), dtype=np.uint8),
        fps=24.0,
        camera=camera,
        hands=(hand,),
        object=nut,
        contact=contact,
        provenance={"source": "prior", "seed": 3},
    )
    wrench = types.WrenchTrack(t=t, wrench=rng.normal(size=(n, 6)), tared=True, gravity_compensated=False)
    channel = types.Channel(
        t=t, t_host=t + 100.0, value=rng.normal(size=(n, 6)), unit="N", frame="sensor", kind="measured"
    )
    view = types.View(
        name="side", camera=camera, frames=sample.frames[:, ::-1], depth=rng.random((n, size, size), dtype=np.float32)
    )
    values = [
        hand,
        view,
        nut,
        contact,
        camera,
        start,
        condition,
        sample,
        wrench,
        channel,
        types.Trace(channels={"wrench": channel, "tcp": channel}, panel_hash="abc", info={"success": True}),
        types.Episode(sample=sample, condition=condition, wrench=wrench, info={"bolt": [0.5, 0.1, 0.0]}),
        types.JointTrajectory(
            robot="arm7+parallel",
            model_hash="0" * 12,
            names=("a", "b"),
            t=t,
            q=rng.normal(size=(n, 2)),
            ee_pose=_pose(n, rng),
            feasible=np.ones(n, dtype=bool),
            fingers=("thumb", "index"),
            contact=rng.random((n, 2)),
            force=rng.random((n, 2)),
        ),
        types.Command(seq=4, t=1.5, mode="cartesian_velocity", value=rng.normal(size=6), gripper=0.04),
        types.ContactGeometry(
            jacobian=rng.normal(size=(3, 2, 3)),
            inverse_inertia=rng.normal(size=(3, 3, 3)),
            context=rng.normal(size=(3, 4)),
        ),
    ]
    return {type(value): value for value in values}


def assert_same(a: Any, b: Any) -> None:
    """Equal to the last bit, types and dtypes included."""
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    elif dataclasses.is_dataclass(a):
        for field in dataclasses.fields(a):
            assert_same(getattr(a, field.name), getattr(b, field.name))
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            assert_same(x, y)
    else:
        assert a == b


@pytest.fixture(scope="session")
def examples() -> dict[type, Any]:
    """Every type's example."""
    return make_examples()


@pytest.fixture(scope="session")
def example_makers():
    """Makes examples of another length, seed or image size."""
    return make_examples


@pytest.fixture(scope="session")
def same():
    """The comparison of two typed values."""
    return assert_same


@pytest.fixture(scope="session")
def graphics() -> None:
    """Skips a test where nothing can be rendered."""
    from dexprior.worlds.render import check_graphics

    reason = check_graphics()
    if reason is not None:
        pytest.skip(f"no off-screen rendering here: {reason}")


@pytest.fixture
def one_thread():
    """Torch on one thread: sums in one order, so that two runs are equal to the last bit."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny_stack(graphics, tmp_path_factory):
    """A batch of generated demonstrations of pick-and-place at 32 px, as a `Stack`; ten of them."""
    from dexprior.data.demonstrating import TaskDemonstrationConfig, generate_demonstrations
    from dexprior.data.stacks import load_stack

    folder = tmp_path_factory.mktemp("demonstrations")
    config = TaskDemonstrationConfig(n=16, size=32, cameras=("front",), depth=(), workers=1)
    generate_demonstrations("pick_place", config, folder, seed=0)
    return load_stack(folder, 32)[:10]


_VICTIM = """
import importlib, os, pickle, signal, sys
module, function, args, kwargs = pickle.load(open(sys.argv[1], "rb"))
module = importlib.import_module(module)
from dexprior.artifacts import save_training_state as save
def save_and_die(*args, **kwargs):
    save(*args, **kwargs)
    os.kill(os.getpid(), signal.SIGKILL)
for loaded in [m for name, m in sys.modules.items() if name.startswith("dexprior.") and name != "dexprior.artifacts"]:
    if getattr(loaded, "save_training_state", None) is save:
        loaded.save_training_state = save_and_die
getattr(module, function)(*args, **kwargs)
"""


@pytest.fixture
def kill_at_checkpoint(tmp_path):
    """Calls a training function in a process of its own that is SIGKILLed right after its first checkpoint."""

    def kill(function, *args: Any, **kwargs: Any) -> None:
        job = tmp_path / "job.pickle"
        job.write_bytes(pickle.dumps((function.__module__, function.__name__, args, kwargs)))
        command = [sys.executable, "-c", _VICTIM, str(job)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, timeout=100, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-2000:]

    return kill
