"""Sampling: what a sample depends on, and checkpoints that come back whole or not at all."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from diffusers import DiffusionPipeline, FlowMatchEulerDiscreteScheduler

from dexprior.errors import ArtifactError, BadInput, UnknownName
from dexprior.hands.skeleton import forward
from dexprior.prior.conditioning import CONDITIONS, condition_tensors
from dexprior.prior.denoiser import LOW, JointDenoiser
from dexprior.prior.familiarity import Familiarity
from dexprior.prior.motion import POINTS
from dexprior.prior.sampling import HandObjectPipeline, load_prior, save_prior

FEW = {"motion_steps": 4, "video_steps": 2}
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def pipeline(conditions):
    """A small untrained prior with weights that are nowhere zero."""
    torch.manual_seed(0)
    model = JointDenoiser(
        frames=6, size=16, width=32, layers=1, heads=2, channels=10, fps=3.0, hides=[*CONDITIONS]
    ).eval()  # fmt: skip
    model.motion_mean[:3] = torch.tensor([0.4, -0.1, 0.1])
    model.motion_std.fill_(0.1)
    model.motion.condition.fit(condition_tensors(conditions))
    with torch.no_grad():
        model.motion.head.weight.normal_(0, 0.05)
    made = HandObjectPipeline.fresh(model)
    made.set_progress_bar_config(disable=True)
    return made


@pytest.fixture
def checkpoint(pipeline, tmp_path):
    """The same, written."""
    save_prior(pipeline.denoiser, tmp_path / "prior", seed=3, extra={"clips": 5})
    return tmp_path / "prior"


def test_one_seed_gives_one_sample(pipeline, conditions, same):
    first = pipeline(conditions[:2], seed=1, **FEW)
    torch.manual_seed(99)  # torch's own generator plays no part
    np.random.seed(99)  # noqa: NPY002
    for a, b in zip(first, pipeline(conditions[:2], seed=1, **FEW)):
        same(a, b)
    other = pipeline(conditions[:2], seed=2, **FEW)
    assert np.abs(first[0].hand.joints - other[0].hand.joints).max() > 1e-3


def _low_frames(samples, size):
    """Frames as the motion stage sees them."""
    frames = torch.tensor(np.stack([sample.frames for sample in samples])).permute(0, 1, 4, 2, 3) / 127.5 - 1
    return torch.nn.functional.avg_pool2d(frames.flatten(0, 1), LOW).unflatten(0, frames.shape[:2])


def test_a_motion_that_is_given_stays_and_its_video_is_drawn(pipeline, conditions):
    clips = pipeline(conditions[:2], seed=1, motion_steps=4, video_steps=0)
    made = pipeline(conditions[:2], seed=1, video_steps=2, given={"motion": clips})
    again = pipeline(conditions[:2], seed=1, video_steps=2, given={"motion": made})
    for a, b, c in zip(clips, made, again):
        assert np.abs(a.hand.joints - b.hand.joints).max() < 1e-6
        assert np.abs(a.object.points - b.object.points).max() < 1e-6
        assert not a.frames.any()
        assert b.frames.std() > 1
        assert np.abs(b.frames.astype(int) - c.frames.astype(int)).max() <= 1
        assert b.provenance["kept"] == "motion"
    other = pipeline(conditions[:2], seed=1, video_steps=2, given={"motion": clips[::-1]})
    assert np.abs(other[0].frames.astype(int) - made[0].frames.astype(int)).max() > 1


def test_a_video_that_is_given_is_seen_clean_in_every_step(pipeline, conditions, monkeypatch):
    net, seen = pipeline.denoiser, []
    whole = net.denoise_motion
    monkeypatch.setattr(
        net, "denoise_motion", lambda noisy, sigma, low, video_sigma, c: (
            seen.append((low, video_sigma)) or whole(noisy, sigma, low, video_sigma, c)
        ),
    )  # fmt: skip
    clips = pipeline(conditions[:2], seed=1, **FEW)
    seen.clear()
    made = pipeline(conditions[:2], seed=2, motion_steps=3, given={"video": clips})
    wanted = _low_frames(clips, 16)
    assert len(seen) == 3
    for low, video_sigma in seen:
        torch.testing.assert_close(low, wanted, atol=1.0 / 127, rtol=0)
        assert not video_sigma.any()
    for a, b in zip(clips, made):
        assert (a.frames == b.frames).all()
        assert b.provenance["kept"] == "video"
    other = pipeline(conditions[:2], seed=2, motion_steps=3, given={"video": clips[::-1]})
    assert np.abs(other[0].hand.joints - made[0].hand.joints).max() > 1e-5


def test_what_is_given_must_fit(pipeline, conditions):
    clips = pipeline(conditions[:2], seed=1, motion_steps=1, video_steps=0)
    for given, error, said in (
        ({"pixels": clips}, UnknownName, r"unknown stream 'pixels'. Known: video, motion"),
        ({"video": clips[:1]}, BadInput, "1 clips give their video for 2 conditions: one each"),
        ({"video": clips, "motion": clips}, BadInput, "nothing is left to sample"),
    ):
        with pytest.raises(error, match=said):
            pipeline(conditions[:2], given=given)
    shorter = [replace(c, seconds=1.0, target_at=2 / 3) for c in conditions[:2]]
    with pytest.raises(BadInput, match="given clip 0 has 6 frames at 3 a second, its condition asks for 3 at 3"):
        pipeline(shorter, given={"motion": clips})


def test_a_sample_does_not_depend_on_how_many_are_drawn_together(pipeline, conditions):
    """Up to the order of float32 sums: measured on one CPU, joints differ by 4e-8 m and pixels by one grey level."""
    many = pipeline([conditions[k % 4] for k in range(6)], seed=1, **FEW)
    one = pipeline(conditions[:1], seed=1, **FEW)[0]
    np.testing.assert_allclose(many[0].hand.joints, one.hand.joints, atol=1e-5)
    np.testing.assert_allclose(many[0].object.points, one.object.points, atol=1e-5)
    assert np.abs(many[0].frames.astype(int) - one.frames.astype(int)).max() <= 1
    twice = [s.hand.joints for s in pipeline([conditions[0]] * 2, seed=1, **FEW)]
    assert np.abs(twice[0] - twice[1]).max() > 1e-3  # two samples of one condition are two


def test_samples_from_the_same_noise_differ_by_their_conditions_alone(pipeline, conditions):
    first, other = conditions[0], conditions[-1]
    one, twin, third = pipeline([first, first, other], seed=3, motion_steps=3, video_steps=2, alike=True)
    np.testing.assert_allclose(one.hand.joints, twin.hand.joints, atol=1e-5)  # to the rounding of float32 sums
    assert np.abs(one.frames.astype(int) - twin.frames.astype(int)).max() <= 1
    assert not np.array_equal(one.hand.joints[:1], third.hand.joints[:1])
    apart = pipeline([first, first], seed=3, motion_steps=3, video_steps=2)
    assert np.abs(apart[0].hand.joints - apart[1].hand.joints).max() > 1e-3


def test_samples_are_valid_clips_of_their_conditions(pipeline, conditions):
    samples = pipeline(conditions, seed=0, provenance={"scene": 7}, **FEW)
    for k, (sample, condition) in enumerate(zip(samples, conditions)):
        assert sample.frames.shape == (6, 16, 16, 3)
        np.testing.assert_allclose(sample.hand.t, np.arange(6) / 3)
        assert sample.camera.width == 16
        np.testing.assert_array_equal(sample.camera.T_base_cam, condition.camera.T_base_cam)
        np.testing.assert_allclose(sample.hand.wrist_pose[0, :3], condition.start[0].wrist_pose[:3], atol=1e-5)
        np.testing.assert_allclose(sample.hand.wrist_pose[-1, :3], condition.target[0].wrist_pose[:3], atol=1e-5)
        np.testing.assert_allclose(sample.object.points[0], condition.points, atol=1e-5)
        assert sample.provenance == {"source": "prior", "seed": 0, "scene": 7, "index": k}


def test_diffusers_draws_the_progress(pipeline, conditions, capfd):
    pipeline(conditions[:1], **FEW)
    assert "it/s" not in capfd.readouterr().err
    pipeline.set_progress_bar_config(disable=False)
    try:
        pipeline(conditions[:1], overlap=1, **FEW)
    finally:
        pipeline.set_progress_bar_config(disable=True)
    assert "5/5" in capfd.readouterr().err  # four motion steps, two video steps, one shared


def test_diffusers_schedulers_do_the_steps(pipeline, conditions):
    assert isinstance(pipeline, DiffusionPipeline)
    assert set(pipeline.components) == {"denoiser", "motion_scheduler", "video_scheduler"}
    plain = pipeline(conditions[:1], **FEW)[0]
    shifted = HandObjectPipeline(
        pipeline.denoiser, FlowMatchEulerDiscreteScheduler(shift=3.0), FlowMatchEulerDiscreteScheduler()
    )
    shifted.set_progress_bar_config(disable=True)
    assert np.abs(shifted(conditions[:1], **FEW)[0].hand.joints - plain.hand.joints).max() > 1e-4


def test_a_rigid_object_stays_rigid_and_a_soft_one_need_not(pipeline, conditions):
    def apart(points):
        return np.linalg.norm(points[:, :, None] - points[:, None], axis=-1)

    rigid, soft = pipeline([conditions[0], replace(conditions[0], pose=None)], seed=1, **FEW)
    np.testing.assert_allclose(apart(rigid.object.points), apart(conditions[0].points[None]).repeat(6, 0), atol=1e-6)
    np.testing.assert_allclose(rigid.object.pose[0], conditions[0].pose, atol=1e-4)
    assert soft.object.pose is None
    assert np.ptp(apart(soft.object.points), axis=0).max() > 1e-3


def test_a_sample_is_as_long_as_its_condition_says(pipeline, conditions):
    short = replace(conditions[0], seconds=1.0, target_at=0.5)
    lengths = [len(s.frames) for s in pipeline([short, conditions[1]], seed=1, **FEW)]
    assert lengths == [3, 6]
    with pytest.raises(BadInput, match="asks for 30 frames"):
        pipeline([replace(conditions[0], seconds=10.0)], **FEW)


def test_a_sample_is_seen_along_its_conditions_path(pipeline, conditions):
    """Its own camera has the path; the pictures of a camera that moves are others."""

    def walking(frames):
        path = np.tile(conditions[0].camera.T_base_cam, (frames, 1, 1))
        path[:, 0, 3] += 0.05 * np.arange(frames)
        return replace(conditions[0], camera=replace(conditions[0].camera, T_base_cam=path))

    asked = walking(6)
    walked, still = pipeline([asked, conditions[0]], seed=1, alike=True, **FEW)
    np.testing.assert_array_equal(walked.camera.T_base_cam, asked.camera.T_base_cam)
    assert not still.camera.moves
    assert np.abs(walked.frames[3:].astype(int) - still.frames[3:]).max() > 1
    with pytest.raises(BadInput, match="condition 1: 6 frames, but its camera moves through 5 poses"):
        pipeline([conditions[0], walking(5)], **FEW)


def test_a_sample_shows_the_hands_that_its_condition_asks_for(handed, tmp_path, same):
    torch.manual_seed(0)
    model = JointDenoiser(
        frames=6, size=16, width=32, layers=1, heads=2, channels=10, fps=3.0, sides=("right", "left")
    ).eval()  # fmt: skip
    model.motion_std.fill_(0.1)
    made = HandObjectPipeline.fresh(model)
    made.set_progress_bar_config(disable=True)
    samples = made(handed, seed=1, **FEW)
    for sample, condition in zip(samples, handed):
        assert [hand.side for hand in sample.hands] == [hand.side for hand in condition.start]
        for hand, start, target in zip(sample.hands, condition.start, condition.target):
            np.testing.assert_allclose(hand.wrist_pose[0, :3], start.wrist_pose[:3], atol=1e-5)
            np.testing.assert_allclose(hand.wrist_pose[-1, :3], target.wrist_pose[:3], atol=1e-5)
            np.testing.assert_allclose(hand.joints, forward(hand.wrist_pose, hand.finger_pose, side=hand.side))
        assert set(sample.contact.side) <= {hand.side for hand in sample.hands}
    save_prior(model, tmp_path, seed=0, extra={})
    again = load_prior(tmp_path)[0]
    again.set_progress_bar_config(disable=True)
    for a, b in zip(samples, again(handed, seed=1, **FEW)):
        same(a, b)


def test_a_prior_of_one_hand_says_which(pipeline, handed):
    message = "condition 0 asks for a right hand and a left hand; only the right hand is known here, not the left one"
    with pytest.raises(BadInput, match=message):
        pipeline(handed[2:3], **FEW)


def test_of_a_short_clip_hardly_more_than_its_frames_are_denoised(conditions, monkeypatch):
    """Each of two steps needs one frame more, and the motion sees whole tokens of three."""
    net = JointDenoiser(frames=30, size=16, width=32, layers=1, heads=2, channels=10, fps=3.0).eval()
    whole, seen = net.denoise_video, []
    monkeypatch.setattr(net, "denoise_video", lambda noisy, *rest: seen.append(noisy.shape[1]) or whole(noisy, *rest))
    made = HandObjectPipeline.fresh(net)
    made.set_progress_bar_config(disable=True)
    short = replace(conditions[0], seconds=1.0, target_at=0.5)
    assert [len(s.frames) for s in made([short, conditions[1]], **FEW)] == [3, 6]
    assert seen == [3 + 5, 6 + 5] * 2


def test_another_camera_films_the_same_motion(pipeline, conditions, same):
    """What it sees depends on where it stands, on the seed and on its name, and not on how many are filmed."""
    asked = conditions[:2]
    samples, cameras = pipeline(asked, seed=1, **FEW), [c.camera for c in asked]
    aside = np.zeros((4, 4))
    aside[1, 3] = 0.2
    moved = [replace(c, T_base_cam=c.T_base_cam + aside) for c in cameras]
    views = pipeline.film(samples, asked, moved, "side", seed=1)
    assert [len(view) for view in views] == [len(sample.frames) for sample in samples]
    same(pipeline.film(samples[:1], asked[:1], moved[:1], "side", seed=1)[0], views[0])
    for others in (
        pipeline.film(samples, asked, cameras, "side", seed=1), pipeline.film(samples, asked, moved, "side", seed=2),
        pipeline.film(samples, asked, moved, "above", seed=1),
    ):  # fmt: skip
        assert not np.array_equal(others[0].frames, views[0].frames)
    with pytest.raises(BadInput, match="2 samples, 1 conditions, 2 cameras: one each"):
        pipeline.film(samples, asked[:1], cameras, "side")


def test_a_perfect_denoiser_is_sampled_exactly(pipeline, conditions, monkeypatch):
    """Euler steps of a straight flow end at the clean value, whatever the number of steps or the overlap."""
    net = pipeline.denoiser
    physical = torch.zeros(net.motion_mean.shape)
    physical[:9] = torch.tensor([0.4, -0.1, 0.1, 1.0, 0, 0, 0, 1, 0])
    physical[POINTS] = torch.tensor(conditions[0].points).flatten()
    clean = net.standard(physical)
    monkeypatch.setattr(net, "denoise_motion", lambda noisy, *rest: clean.expand_as(noisy))
    monkeypatch.setattr(net, "denoise_video", lambda noisy, *rest: torch.full_like(noisy, 0.5))
    for motion_steps, video_steps, overlap in ((1, 1, 0), (4, 2, 1), (3, 3, 3), (12, 3, 0)):
        sample = pipeline(conditions[:1], motion_steps=motion_steps, video_steps=video_steps, overlap=overlap)[0]
        np.testing.assert_allclose(sample.hand.wrist_pose[:, :3], np.tile([0.4, -0.1, 0.1], (6, 1)), atol=1e-5)
        assert (sample.frames == 191).all()


def test_nothing_to_sample_and_impossible_overlaps_are_refused(pipeline, conditions):
    with pytest.raises(BadInput, match="empty"):
        pipeline([])
    with pytest.raises(BadInput, match=r"overlap = 3: must lie in 0\.\.2"):
        pipeline(conditions[:1], overlap=3, **FEW)


def test_a_checkpoint_gives_the_same_samples(pipeline, conditions, checkpoint, same):
    loaded, note = load_prior(checkpoint)
    loaded.set_progress_bar_config(disable=True)
    for a, b in zip(pipeline(conditions[:2], seed=1, **FEW), loaded(conditions[:2], seed=1, **FEW)):
        same(a, b)
    assert (note["fps"], note["clips"], note["header"]["seed"]) == (3.0, 5, 3)
    others = [p.name for p in checkpoint.rglob("*") if p.is_file() and p.suffix not in (".json", ".safetensors")]
    assert sorted(others) == ["README.md", "pipeline.py"]


def test_diffusers_loads_a_checkpoint_both_ways(pipeline, conditions, tmp_path, same, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("diffusers.utils.dynamic_modules_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    encoder = pipeline.denoiser.motion.condition
    known = Familiarity.fit(encoder, condition_tensors(conditions))
    where = str(save_prior(pipeline.denoiser, tmp_path / "prior", seed=3, extra={}, familiarity=known).parent)
    direct = HandObjectPipeline.from_pretrained(where)
    custom = DiffusionPipeline.from_pretrained(where, custom_pipeline=where, trust_remote_code=True)
    first, _ = load_prior(where)
    for loaded in (direct, custom):
        assert type(loaded) is HandObjectPipeline
        assert loaded.info["header"]["seed"] == 3
        loaded.set_progress_bar_config(disable=True)
        for a, b in zip(first(conditions[:2], seed=1, **FEW), loaded(conditions[:2], seed=1, **FEW)):
            np.testing.assert_allclose(a.hand.joints, b.hand.joints, atol=1e-6)
            assert a.provenance["cloud_distance"] == b.provenance["cloud_distance"]


def test_what_is_pushed_is_a_whole_checkpoint(pipeline, checkpoint, tmp_path, monkeypatch):
    """By stand-ins for the hub's two calls: nothing leaves this machine."""
    import huggingface_hub

    def create_repo(name, **settings):
        assert settings == {"private": True, "token": None, "exist_ok": True}
        return SimpleNamespace(repo_id=f"me/{name}")

    def upload_folder(*, repo_id, folder_path, **settings):
        shutil.copytree(folder_path, tmp_path / "there")
        return f"https://hub/{repo_id}"

    monkeypatch.setattr(huggingface_hub, "create_repo", create_repo)
    monkeypatch.setattr(huggingface_hub, "upload_folder", upload_folder)
    (checkpoint / "README.md").write_text("a card of one's own\n")
    assert load_prior(checkpoint)[0].push_to_hub("mine", private=True) == "https://hub/me/mine"
    assert str(tmp_path) not in (tmp_path / "there" / "denoiser" / "config.json").read_text()
    loaded, note = load_prior(tmp_path / "there")
    assert note == load_prior(checkpoint)[1]
    for a, b in zip(pipeline.denoiser.state_dict().values(), loaded.denoiser.state_dict().values()):
        assert torch.equal(a, b)
    assert (tmp_path / "there" / "README.md").read_text() == "a card of one's own\n"
    assert (tmp_path / "there" / "pipeline.py").is_file()


def _truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _other_schema(path):
    note = json.loads(path.read_text())
    note["header"]["schema"] = "dexprior.prior/0"
    path.write_text(json.dumps(note))


def _lose_a_weight(path):
    from safetensors.torch import load_file, save_file

    weights = load_file(path)
    weights.pop("motion.head.weight")
    save_file(weights, path, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        (
            "dexprior.json",
            _other_schema,
            "this version reads 'dexprior.prior/6'. Make it again with `dexprior train-prior`",
        ),
        ("dexprior.json", _truncate, "truncated"),
        ("dexprior.json", lambda path: path.unlink(), "holds no prior checkpoint"),
        ("denoiser/diffusion_pytorch_model.safetensors", _truncate, "not a complete prior"),
        ("denoiser/diffusion_pytorch_model.safetensors", lambda path: path.unlink(), "not a complete prior"),
        ("denoiser/diffusion_pytorch_model.safetensors", _lose_a_weight, "weights are missing: motion.head.weight"),
        ("denoiser/config.json", lambda path: path.unlink(), "not a complete prior"),
        ("motion_scheduler/scheduler_config.json", _truncate, "not a complete prior"),
    ],
)
def test_a_damaged_checkpoint_is_one_error(checkpoint, file, damage, message):
    damage(checkpoint / file)
    with pytest.raises(ArtifactError, match=message):
        load_prior(checkpoint)


@pytest.mark.parametrize("other", [{"width": 64}, {"layers": 2}, {"layers": 0}, {"channels": 20}])
def test_weights_of_another_architecture_are_one_error(checkpoint, other):
    path = checkpoint / "denoiser" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | other))
    with pytest.raises(ArtifactError, match=r"not a complete prior checkpoint: .*(motion|video)"):
        load_prior(checkpoint)


def test_a_pickle_is_never_loaded_in_place_of_the_weights(checkpoint):
    """diffusers falls back to `.bin` files, which are pickles, unless it is told not to."""
    weights = checkpoint / "denoiser" / "diffusion_pytorch_model.safetensors"
    from safetensors.torch import load_file

    torch.save(load_file(weights), weights.with_suffix(".bin"))
    weights.unlink()
    with pytest.raises(ArtifactError, match="not a complete prior"):
        load_prior(checkpoint)


def test_a_missing_folder_is_not_looked_for_on_the_internet(tmp_path, monkeypatch):
    """A relative folder `a/denoiser` reads like the name of a model on a hub."""
    import huggingface_hub.file_download as download

    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "dexprior.json").write_text(json.dumps({"header": {"schema": "dexprior.prior/6"}}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(download, "get_hf_file_metadata", lambda *a, **k: pytest.fail("asked the hub"))
    with pytest.raises(ArtifactError, match="not a complete prior"):
        load_prior("a")


def test_a_sample_knows_nothing_of_what_is_hidden(pipeline, conditions):
    (target,) = conditions[0].target
    moved = replace(target, wrist_pose=target.wrist_pose + np.array([0.1, 0, 0, 0, 0, 0, 0]))
    asked = [conditions[0], replace(conditions[0], target=(moved,), target_at=0.5, text="another one")]
    hidden = ("target", "fingers", "time", "text")
    one, other = pipeline(asked, seed=1, alike=True, hidden=hidden, **FEW)
    np.testing.assert_allclose(one.hand.joints, other.hand.joints, atol=1e-5)
    assert one.provenance["hidden"] == list(hidden)
    np.testing.assert_allclose(one.hand.wrist_pose[0, :3], conditions[0].start[0].wrist_pose[:3], atol=1e-5)
    free = pipeline(asked[:1], seed=1, hidden=["start"], **FEW)[0]
    assert np.abs(free.hand.wrist_pose[0, :3] - conditions[0].start[0].wrist_pose[:3]).max() > 1e-3
    assert "hidden" not in pipeline(asked[:1], seed=1, **FEW)[0].provenance


def test_guidance_and_motion_without_video(pipeline, conditions):
    plain = pipeline(conditions[:1], seed=1, motion_steps=4, video_steps=2, overlap=0)[0]
    motion = pipeline(conditions[:1], seed=1, motion_steps=4, video_steps=0)[0]
    np.testing.assert_allclose(motion.hand.joints, plain.hand.joints, atol=1e-5)
    assert not motion.frames.any()
    guided = pipeline(conditions[:1], seed=1, motion_steps=4, video_steps=0, guidance={"start": 3.0})[0]
    assert np.abs(guided.hand.joints - motion.hand.joints).max() > 1e-3
    np.testing.assert_allclose(guided.hand.joints[0], motion.hand.joints[0], atol=1e-5)
    with pytest.raises(BadInput, match="guidance by text, which is hidden"):
        pipeline(conditions[:1], hidden=["text"], guidance={"text": 1.0}, **FEW)
    pipeline.denoiser.register_to_config(hides=["target"])
    with pytest.raises(BadInput, match="never trained without text and start, which it needs to be told"):
        pipeline(conditions[:1], hidden=["text", "target"], guidance={"start": 1.0}, **FEW)
    pipeline.denoiser.register_to_config(hides=[*CONDITIONS])
    with pytest.raises(UnknownName, match="unknown condition 'texts'"):
        pipeline(conditions[:1], guidance={"texts": 1.0}, **FEW)
