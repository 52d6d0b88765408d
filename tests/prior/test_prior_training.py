"""Training of the prior: it learns, and a killed run loses nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import dexprior.prior.training as training
from dexprior.artifacts import read_tensors
from dexprior.config import to_plain, validate
from dexprior.data.clips import write_clip
from dexprior.data.plain_clips import PlainClips
from dexprior.errors import ArtifactError, BadInput, ConfigError
from dexprior.geometry.rotations import matrix_from_quat, quat_from_matrix
from dexprior.prior.averaging import Average
from dexprior.prior.conditioning import CONDITIONS
from dexprior.prior.evaluation import evaluate_prior
from dexprior.prior.sampling import HandObjectPipeline
from dexprior.prior.training import PriorConfig, PriorData, batch_losses, draw_batch, train_prior
from dexprior.prior.validation import ValidationConfig
from dexprior.progress import place_in_parts
from dexprior.types import SIDES

TINY = {
    "size": 32, "width": 32, "layers": 1, "heads": 2, "channels": 10, "batch": 6, "video_clips": 2, "video_window": 4,
}  # fmt: skip
pytestmark = pytest.mark.usefixtures("one_thread")


def _history(folder):
    return read_tensors(folder / "state.safetensors")[1]["progress"]["history"]


@pytest.fixture(scope="module")
def trained(tiny_stack, tmp_path_factory):
    """A run of 30 steps: (model, its folder)."""
    folder = tmp_path_factory.mktemp("prior")
    return train_prior(tiny_stack, PriorConfig(**TINY, steps=30), folder, seed=0), folder


def test_every_loss_falls_in_thirty_steps(trained):
    history = _history(trained[1])
    assert [row["step"] for row in history] == list(range(1, 31))
    for name in ("motion", "joints", "video"):
        values = [row[name] for row in history if name in row]
        assert np.mean(values[-4:]) < 0.8 * np.mean(values[:4]), name
    assert [row["step"] for row in history if "video" in row] == list(range(1, 31, 2))


def test_a_killed_run_goes_on_as_if_nothing_had_happened(tiny_stack, tmp_path, kill_at_checkpoint):
    """Weights, optimizer and learning curve equal those of an uninterrupted run to the last bit (dropout included)."""
    config = PriorConfig(**TINY, steps=6, checkpoint_every=3, ema=0.99, accumulate=2)
    whole = train_prior(tiny_stack, config, tmp_path / "whole", seed=4)
    kill_at_checkpoint(train_prior, tiny_stack, config, tmp_path / "killed", seed=4)
    assert len(_history(tmp_path / "killed")) == 3
    resumed = train_prior(tiny_stack, config, tmp_path / "killed", seed=4)
    assert _history(tmp_path / "killed") == _history(tmp_path / "whole")
    for a, b in zip(whole.state_dict().values(), resumed.state_dict().values()):
        assert torch.equal(a, b)
    states = [read_tensors(tmp_path / name / "state.safetensors")[0] for name in ("whole", "killed")]
    for name, value in states[0].items():
        np.testing.assert_array_equal(value, states[1][name], err_msg=name)
    assert {f"arrays/average/{name}" for name, _ in whole.named_parameters()} <= states[0].keys()


def test_the_average_of_the_weights_is_what_comes_out(tiny_stack, tmp_path):
    """After two steps with decays 2/11 and 3/12, of the weights at the start and after each."""
    runs = {}
    for steps in (1, 2):
        config = PriorConfig(**TINY, steps=steps, ema=0.999)
        made = train_prior(tiny_stack, replace(config, learning_rate=1e-3), tmp_path / str(steps), seed=0)
        runs[steps] = read_tensors(tmp_path / str(steps) / "state.safetensors")[0], made
    state, made = runs[1]
    for name, weight in made.named_parameters():
        np.testing.assert_array_equal(weight.detach(), state[f"arrays/average/{name}"])
    assert any((state[f"module/model/{n}"] != w.detach().numpy()).any() for n, w in made.named_parameters())
    for decay, before in ((0.999, 2 / 11), (0.1, 0.1)):
        average = Average(made, decay)
        name, weight = next(iter(made.named_parameters()))
        start = weight.detach().clone()
        with torch.no_grad():
            weight += 1.0
        average.update(made, 1)
        torch.testing.assert_close(average.weights[name], before * start + (1 - before) * (start + 1.0))


def test_an_average_of_another_network_is_refused():
    average = Average(torch.nn.Linear(2, 3), 0.9)
    kept = average.arrays()
    for lost in ({}, kept | {"average/weight": np.zeros((3, 4), dtype=np.float32)}):
        with pytest.raises(ArtifactError, match="no average of this network's weight"):
            average.restore(lost)
    average.restore(kept)


def test_looks_at_held_out_clips_change_nothing_and_are_to_be_seen(tiny_stack, tmp_path):
    """Beside a run without them: weights, average and history are the same to the last bit."""
    train, held = tiny_stack[:8], tiny_stack[8:]
    config = PriorConfig(**TINY, steps=4, ema=0.9)
    looking = replace(config, validate=ValidationConfig(every=3, samples=2))
    train_prior(train, config, tmp_path / "plain", seed=0)
    for name in ("looking", "again"):
        train_prior(train, looking, tmp_path / name, seed=0, held_out=held)
    (plain, meta), (seen, told) = (read_tensors(tmp_path / name / "state.safetensors") for name in ("plain", "looking"))
    assert meta["progress"] == told["progress"]
    for name, value in plain.items():
        np.testing.assert_array_equal(value, seen[name], err_msg=name)
    found = sorted(path.name for path in (tmp_path / "looking" / "validation").iterdir())
    assert found == ["000003.gif", "000003.json", "000004.gif", "000004.json"]
    for name in found:
        first, second = ((tmp_path / run / "validation" / name).read_bytes() for run in ("looking", "again"))
        assert first == second
    numbers = json.loads((tmp_path / "looking" / "validation" / "000004.json").read_text())
    assert set(numbers) >= {"step", "motion", "joints", "video", "joints_error_mm", "object_end_mm"}
    with Image.open(tmp_path / "looking" / "validation" / "000004.gif") as film:
        assert film.size == (2 * 2 * 32, 2 * 2 * 32)
        assert film.n_frames > 10
    with pytest.raises(BadInput, match="give held_out"):
        train_prior(train, looking, tmp_path / "blind", seed=0)


def test_levels_of_noise_lie_in_the_middle_where_it_is_asked_for(tiny_stack):
    data = PriorData(tiny_stack, 3)

    def levels(**settings):
        config = validate(PriorConfig, {**TINY, "batch": 600, "blind": 0.0, **settings}, where="prior")
        batch = draw_batch(data, config, 0, 0, 0, torch.device("cpu"))
        return torch.cat([batch["sigma"], batch["video_sigma"]])

    uniform, normal = levels(), torch.logit(levels(noise="logit-normal"))
    assert float(uniform.mean()) == pytest.approx(0.5, abs=0.03)
    assert float(uniform.std()) == pytest.approx(12**-0.5, abs=0.02)
    assert float(normal.mean()) == pytest.approx(0.0, abs=0.1)
    assert float(normal.std()) == pytest.approx(1.0, abs=0.1)


def test_out_of_memory_is_one_line_that_says_what_to_turn(tiny_stack, tmp_path, monkeypatch):
    def full(*args):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")

    monkeypatch.setattr(training, "draw_batch", full)
    message = (
        r"out of memory: prior.batch = 6, prior.video_clips = 2 .* prior.batch=3 prior.accumulate=2 is a step of as "
        r"many clips, and prior.precision=bf16 takes less \(CUDA out of memory"
    )
    with pytest.raises(BadInput, match=message):
        train_prior(tiny_stack, PriorConfig(**TINY, steps=1), tmp_path, seed=0)


@pytest.fixture
def fresh_accelerate():
    """accelerate knows nothing of earlier runs and forgets this one; a call makes it forget at once."""
    from accelerate.state import AcceleratorState

    def forget():
        AcceleratorState._reset_state(reset_partial_state=True)

    forget()
    yield forget
    forget()


def test_the_launcher_says_the_precision_unless_a_setting_does(tiny_stack, tmp_path, monkeypatch, fresh_accelerate):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    train_prior(tiny_stack, PriorConfig(**TINY, steps=1), tmp_path, seed=0)
    fresh_accelerate()
    with pytest.raises(ArtifactError, match=r"precision is .bf16. there, .no. here"):
        train_prior(tiny_stack, PriorConfig(**TINY, steps=1, precision="no"), tmp_path, seed=0)
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp16")
    with pytest.raises(BadInput, match="mixed_precision = fp16: the prior is trained in no or bf16"):
        train_prior(tiny_stack, PriorConfig(**TINY, steps=1), tmp_path, seed=0)


def test_a_finished_training_goes_on_with_a_schedule_of_its_own_and_may_be_killed(
    tiny_stack, tmp_path, kill_at_checkpoint
):
    config = PriorConfig(**TINY, steps=2, checkpoint_every=2)
    train_prior(tiny_stack, config, tmp_path / "whole", seed=4)
    shutil.copytree(tmp_path / "whole", tmp_path / "killed")
    whole = train_prior(tiny_stack, config, tmp_path / "whole", seed=4, more=(4,))
    kill_at_checkpoint(train_prior, tiny_stack, config, tmp_path / "killed", seed=4, more=(4,))
    assert len(_history(tmp_path / "killed")) == 4
    resumed = train_prior(tiny_stack, config, tmp_path / "killed", seed=4, more=(4,))
    assert len(_history(tmp_path / "whole")) == 6
    assert _history(tmp_path / "killed") == _history(tmp_path / "whole")
    for a, b in zip(whole.state_dict().values(), resumed.state_dict().values()):
        assert torch.equal(a, b)
    assert [place_in_parts(step, (2, 4)) for step in range(6)] == [(0, 2), (1, 2), (0, 4), (1, 4), (2, 4), (3, 4)]
    once = train_prior(
        tiny_stack, replace(config, steps=6), tmp_path / "once", seed=4
    )  # the same steps, another schedule
    assert any((a != b).any() for a, b in zip(once.state_dict().values(), whole.state_dict().values()))


def test_plain_clips_train_the_video_stage_and_a_killed_run_goes_on_with_them(tiny_stack, tmp_path, kill_at_checkpoint):
    colours = np.random.default_rng(0).integers(0, 255, (2, 1, 1, 1, 3)).astype(np.uint8)
    for name, colour in zip(("a", "b"), colours):
        write_clip(tmp_path / "clips" / f"{name}.mp4", np.broadcast_to(colour, (30, 40, 60, 3)), 20.0)
    rows = [{"file_path": f"{name}.mp4", "text": name, "type": "video"} for name in "ab"]
    (tmp_path / "clips" / "metadata.json").write_text(json.dumps(rows))
    config = PriorConfig(**TINY, steps=24, checkpoint_every=12)
    plain = PlainClips(tmp_path / "clips", size=32, fps=tiny_stack.fps, window=config.video_window)
    model = train_prior(tiny_stack, config, tmp_path / "whole", seed=0, plain=plain)
    assert sum("plain" in row for row in _history(tmp_path / "whole")) == 12
    without = train_prior(tiny_stack, config, tmp_path / "without", seed=0)
    batch = draw_batch(PriorData(tiny_stack, 3), config, 1, 0, 0, torch.device("cpu"), plain)
    with torch.no_grad():
        learned, ignorant = (float(batch_losses(m, batch)["plain"]) for m in (model, without))
    assert learned < 0.8 * ignorant
    kill_at_checkpoint(train_prior, tiny_stack, config, tmp_path / "killed", seed=0, plain=plain)
    resumed = train_prior(tiny_stack, config, tmp_path / "killed", seed=0, plain=plain)
    for a, b in zip(model.state_dict().values(), resumed.state_dict().values()):
        assert torch.equal(a, b)
    with pytest.raises(ArtifactError, match="belongs to another run"):
        train_prior(tiny_stack, config, tmp_path / "killed", seed=0)


def test_a_finished_run_is_not_trained_again(tiny_stack, trained):
    again = train_prior(tiny_stack, PriorConfig(**TINY, steps=30), trained[1], seed=0)
    for a, b in zip(trained[0].state_dict().values(), again.state_dict().values()):
        assert torch.equal(a, b)


def test_a_state_of_another_configuration_is_refused(tiny_stack, trained):
    with pytest.raises(ArtifactError, match="belongs to another run"):
        train_prior(tiny_stack, PriorConfig(**TINY, steps=31), trained[1], seed=0)


def test_a_damaged_state_or_one_of_another_network_is_one_error(tiny_stack, trained, tmp_path):
    config = PriorConfig(**TINY, steps=30)
    state = tmp_path / "state.safetensors"
    shutil.copy(trained[1] / state.name, state)
    with pytest.raises(ArtifactError, match=r"state.safetensors: its weights do not fit the network 'model'"):
        train_prior(two_handed(tiny_stack), config, tmp_path, seed=0)
    state.write_bytes(state.read_bytes()[: state.stat().st_size // 2])
    with pytest.raises(ArtifactError, match=r"state.safetensors is truncated or damaged"):
        train_prior(tiny_stack, config, tmp_path, seed=0)


def test_a_batch_depends_on_seed_step_and_rank_alone(tiny_stack):
    data = PriorData(tiny_stack, 3)
    config = PriorConfig(**TINY)

    def draw(*key):
        batch = draw_batch(data, config, *key, torch.device("cpu"))
        return torch.cat([batch["motion"].flatten(), batch["motion_noise"].flatten(), batch["sigma"]])

    torch.manual_seed(1)
    first = draw(0, 5, 0)
    torch.manual_seed(2)
    assert torch.equal(first, draw(0, 5, 0))
    for other in ((1, 5, 0), (0, 6, 0), (0, 5, 1)):
        assert not torch.equal(first, draw(*other))


def test_the_model_knows_its_data(tiny_stack, trained):
    model, data = trained[0], PriorData(tiny_stack, 3)
    motion = data.motion
    torch.testing.assert_close(model.motion_mean, motion.mean((0, 1)), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model.physical(model.standard(motion)), motion)
    assert not model.training  # dropout is off in what is returned


def test_the_configuration_is_strict():
    assert validate(PriorConfig, to_plain(PriorConfig(**TINY))) == PriorConfig(**TINY)
    with pytest.raises(ConfigError, match=r"blind = 1.5"):
        validate(PriorConfig, {"blind": 1.5})


@pytest.mark.slow
def test_two_processes_train_one_model(tmp_path, tiny_stack):
    """Half of the steps give the video stage no gradient, which distributed training must have been told."""
    import pickle

    (tmp_path / "stack").write_bytes(pickle.dumps(tiny_stack))
    script = tmp_path / "run.py"
    script.write_text(
        "import os, pathlib, pickle, sys\n"
        "from dexprior.prior.training import PriorConfig, train_prior\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        f"config = PriorConfig(**{TINY!r}, steps=4)\n"
        "model = train_prior(pickle.loads((folder / 'stack').read_bytes()), config, folder / 'run', seed=0)\n"
        "total = sum(float(p.double().sum()) for p in model.parameters())\n"
        "(folder / ('sum' + os.environ['RANK'])).write_text(repr(total))\n"
    )
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    environment = {**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*launch, str(script), str(tmp_path)], env=environment, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "sum0").read_text() == (tmp_path / "sum1").read_text()


def test_clips_of_several_lengths_and_with_gaps_train_what_they_know(tiny_stack, tmp_path):
    """What was not measured, and what lies behind a clip's end, changes nothing: not even if it is nonsense."""
    rng = np.random.default_rng(0)
    n, time = tiny_stack.valid.shape
    valid = np.arange(time) < rng.integers(20, time + 1, n)[:, None]
    hand, thing = valid & (rng.random((n, time)) > 0.2), valid & (np.arange(n)[:, None] % 3 > 0)
    touch = np.arange(n) % 2 > 0
    conditions = [
        replace(c, seconds=k / 24.0, target_at=(k - 1) / 24.0) for c, k in zip(tiny_stack.conditions, valid.sum(axis=1))
    ]
    stack = replace(
        tiny_stack,
        valid=valid,
        hand_known=hand[..., None],
        object_known=thing,
        touch_known=touch,
        conditions=conditions,
    )
    nonsense = {
        "wrist_pose": np.where(hand[..., None, None], stack.wrist_pose, [9.0, 9, 9, 1, 0, 0, 0]),
        "finger_pose": np.where(hand[..., None, None], stack.finger_pose, 1.0),
        "points": np.where(thing[..., None, None], stack.points, 5.0),
        "contact": np.where((valid & touch[:, None])[..., None, None], stack.contact, 0.5),
        "force": np.where((valid & touch[:, None])[..., None, None], stack.force, 50.0),
    }
    config = PriorConfig(**TINY, steps=4, video_every=1, blind=1.0)
    known, wild = (
        train_prior(s, config, tmp_path / name, seed=0)
        for name, s in (("known", stack), ("wild", replace(stack, **nonsense)))
    )
    torch.testing.assert_close(known.motion_mean, wild.motion_mean)
    torch.testing.assert_close(known.motion_std, wild.motion_std)
    histories = [_history(tmp_path / name) for name in ("known", "wild")]
    assert all(np.isfinite(list(row.values())).all() for row in histories[0])
    for a, b in zip(*histories):
        assert a == pytest.approx(b, rel=1e-4)


def test_clips_of_one_hand_or_two_train_one_prior(tiny_stack, tmp_path):
    """Of the hand that a clip does not show, nothing changes anything; of the one that it shows, the loss falls."""
    stack = two_handed(tiny_stack)
    config = PriorConfig(**TINY, steps=30, video_every=1)
    model = train_prior(stack, config, tmp_path / "two", seed=0)
    assert model.sides == ("right", "left")
    history = _history(tmp_path / "two")
    for name in ("motion", "joints"):
        assert history[-1][name] < history[0][name]
    wild = {
        name: np.where(_of(stack, name), getattr(stack, name), 7.0) for name in ("finger_pose", "contact", "joints")
    }
    few = replace(config, steps=3)
    for name, given in (("plain", stack), ("wild", replace(stack, **wild))):
        train_prior(given, few, tmp_path / name, seed=0)
    assert _history(tmp_path / "plain") == _history(tmp_path / "wild")
    samples = HandObjectPipeline.fresh(model)
    samples.set_progress_bar_config(disable=True)
    found = evaluate_prior(samples(stack.conditions, motion_steps=2, video_steps=1, overlap=0), stack, stack)
    assert all(np.isfinite(found[name]["joints_error_mm"]["mean"]) for name in ("prior", "constant", "copy", "nearest"))
    assert found["demonstrations"]["joints_error_mm"]["mean"] == found["nearest"]["joints_error_mm"]["mean"] == 0.0


def test_one_side_is_learned_where_one_is_wanted(tiny_stack, tmp_path):
    left = two_handed(tiny_stack).of_sides(("left",))
    model = train_prior(left, PriorConfig(**TINY, steps=2), tmp_path, seed=0)
    assert model.sides == ("left",)
    assert len(left) == 6
    with pytest.raises(ConfigError, match="sides"):
        validate(PriorConfig, {"sides": ["right", "right"]})


def two_handed(stack):
    """Three kinds of clips: right, left (the right hand, mirrored), and both."""
    n = len(stack)
    mirror, axial = np.array([1.0, -1, 1]), np.tile([1.0, -1, -1], 15)

    def mirrored(pose):
        R = np.diag(mirror) @ matrix_from_quat(pose[..., 3:]) @ np.diag([-1.0, 1, 1])
        return np.concatenate([pose[..., :3] * mirror, quat_from_matrix(R)], axis=-1)

    left = {
        "wrist_pose": mirrored(stack.wrist_pose), "finger_pose": stack.finger_pose * axial,
        "joints": stack.joints * mirror, "contact": stack.contact, "force": stack.force,
    }  # fmt: skip
    shows = np.array([((True, False), (False, True), (True, True))[k % 3] for k in range(n)])
    conditions = []
    for k, c in enumerate(stack.conditions):
        hands = []
        for (hand,) in (c.start, c.target):
            other = replace(
                hand, side="left", wrist_pose=mirrored(hand.wrist_pose), finger_pose=hand.finger_pose * axial,
                points=hand.points * mirror,
            )  # fmt: skip
            hands.append([found for found, shown in zip((hand, other), shows[k]) if shown])
        conditions.append(replace(c, start=hands[0], target=hands[1]))
    arrays = {name: np.concatenate([getattr(stack, name), value], axis=2) for name, value in left.items()}
    known = np.repeat(stack.hand_known, 2, axis=2) & shows[:, None]
    return replace(stack, **arrays, shows=shows, hand_known=known, sides=SIDES, conditions=conditions)


def _of(stack, name):
    """Where a hand's numbers are those of a clip that shows it."""
    array = getattr(stack, name)
    return np.broadcast_to(stack.shows.reshape(len(stack), 1, 2, *[1] * (array.ndim - 3)), array.shape)


def test_windows_of_the_video_stage_lie_within_their_clips(tiny_stack):
    n = tiny_stack.frames.shape[1]
    valid = np.arange(n) < np.array([n, 5, 3, 30, 4, n, n, 20, 7, 6])[:, None]
    stack = replace(tiny_stack, valid=valid, frames=np.where(valid[..., None, None, None], tiny_stack.frames, 255))
    data, config = PriorData(stack, 3), PriorConfig(**TINY)
    for step in range(0, 20, 2):
        video = draw_batch(data, config, 0, step, 0, torch.device("cpu"))["video"]
        assert not (video["clean"] == 1.0).all(dim=(2, 3, 4)).any()
    with pytest.raises(BadInput, match="clips of at most 3 frames"):
        train_prior(replace(stack, valid=np.arange(n) < np.full((10, 1), 3)), config, None, seed=0)


def test_each_condition_hides_with_its_own_probability(tiny_stack):
    data = PriorData(tiny_stack, 3)

    def hidden(**hiding) -> dict[str, float]:
        config = validate(PriorConfig, {**TINY, "batch": 400, "hiding": hiding}, where="prior")
        told = draw_batch(data, config, 0, 1, 0, torch.device("cpu"))["condition"]["told"]
        return dict(zip(CONDITIONS, (~told).float().mean(dim=0).tolist()))

    assert not any(hidden(share=0.0).values())
    chances = {"start": 0.1, "target": 1.0, "fingers": 0.7, "time": 0.0, "cloud": 0.3, "text": 0.5}
    for name, rate in hidden(share=1.0, **chances).items():
        assert rate == pytest.approx(chances[name], abs=0.08)
    for name, rate in hidden(share=0.5, **chances).items():
        assert rate == pytest.approx(0.5 * chances[name], abs=0.08)


def test_a_clip_whose_length_is_hidden_goes_on_at_rest(tiny_stack):
    """In all frames of the longest clip; what lies in the arrays behind its end plays no part."""
    short = tiny_stack.valid.copy()
    short[:, 20:] = False
    data = PriorData(replace(tiny_stack, valid=short, hand_known=tiny_stack.hand_known & short[..., None]), 3)
    assert not data.known[:, 20:].any()
    assert torch.equal(data.resting[:, 20:], data.resting[:, 19:20].expand_as(data.resting[:, 20:]))
    assert torch.equal(data.motion[:, 20:], data.motion[:, 19:20].expand_as(data.motion[:, 20:]))
    for hides in (0.0, 1.0):
        config = validate(PriorConfig, {**TINY, "hiding": {"share": 1.0, "time": hides}}, where="prior")
        known = draw_batch(data, config, 0, 1, 0, torch.device("cpu"))["known"]
        assert bool(known[:, 20:, :54].all()) == bool(hides)
