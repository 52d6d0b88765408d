"""The denoiser: shapes, where it starts, and that one sample knows nothing of the next."""

from __future__ import annotations

import copy

import pytest
import torch

from dexprior.prior.conditioning import CONDITIONS, condition_tensors, straight_path
from dexprior.prior.denoiser import LOW, JointDenoiser
from dexprior.prior.motion import HANDS, POINTS, motion_size
from dexprior.types import SIDES

FRAMES, SIZE, FPS = 12, 16, 6.0  # two seconds, as the conditions'
pytestmark = pytest.mark.usefixtures("one_thread")


def _denoiser(**kwargs) -> JointDenoiser:
    torch.manual_seed(0)
    return JointDenoiser(frames=FRAMES, size=SIZE, width=32, layers=2, heads=2, channels=10, fps=FPS, **kwargs).eval()


@pytest.fixture(scope="module")
def fresh(conditions):
    """As training starts: statistics of data, weights of chance."""
    model = _denoiser()
    model.motion_mean.normal_(0, 0.3)
    model.motion_std.uniform_(0.1, 0.5)
    model.motion.condition.fit(condition_tensors(conditions))
    return model


@pytest.fixture(scope="module")
def shaken(fresh):
    """The same with no weight at zero: what it still obeys, it obeys by construction."""
    model = _denoiser()
    model.load_state_dict(fresh.state_dict())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model


@pytest.fixture(scope="module")
def inputs(conditions):
    generator = torch.Generator().manual_seed(1)
    n = len(conditions)
    return {
        "motion": torch.randn(n, FRAMES, motion_size(1), generator=generator),
        "low": torch.randn(n, FRAMES, 3, SIZE // LOW, SIZE // LOW, generator=generator),
        "video": torch.randn(n, FRAMES, 3, SIZE, SIZE, generator=generator),
        "sigma": torch.rand(n, generator=generator),
        "condition": condition_tensors(conditions),
    }


@torch.no_grad()
def _both(model, x, rows=slice(None)):
    condition = {k: v[rows] for k, v in x["condition"].items()}
    motion = model.denoise_motion(x["motion"][rows], x["sigma"][rows], x["low"][rows], 1 - x["sigma"][rows], condition)
    return motion, model.denoise_video(
        x["video"][rows], x["sigma"][rows], model.guide_video(x["motion"][rows], condition)
    )


def test_both_streams_keep_their_shapes(shaken, inputs):
    motion, video = _both(shaken, inputs)
    assert motion.shape == inputs["motion"].shape
    assert video.shape == inputs["video"].shape


def test_training_starts_from_the_straight_path(fresh, inputs):
    predicted = fresh.physical(_both(fresh, inputs)[0])
    path = straight_path(inputs["condition"], FRAMES, FPS)
    torch.testing.assert_close(predicted[..., : POINTS.stop], path, atol=1e-5, rtol=1e-5)
    for group in (HANDS[0].contact, HANDS[0].force):  # the condition says nothing of these: their mean
        mean = fresh.motion_mean[group].expand_as(predicted[..., group])
        torch.testing.assert_close(predicted[..., group], mean, atol=1e-5, rtol=1e-5)


def test_a_sample_does_not_depend_on_its_neighbours(shaken, inputs):
    """Up to the order of float32 sums; measured on one CPU: 5e-7 in motion, 9.5e-7 in video, of values of order one."""
    together = _both(shaken, inputs)
    for k in range(len(inputs["motion"])):
        for a, b in zip(together, _both(shaken, inputs, slice(k, k + 1))):
            torch.testing.assert_close(a[k], b[0], atol=2e-5, rtol=1e-4)
    order = torch.tensor([2, 0, 3, 1])
    for a, b in zip(together, _both(shaken, inputs, order)):
        torch.testing.assert_close(a[order], b, atol=2e-5, rtol=1e-4)


def test_what_the_condition_gives_is_given(shaken, inputs):
    """Hand and object at the first frame and the wrist at the target's, whatever the weights and the noise are."""
    condition = {**inputs["condition"], "target_at": torch.tensor([1.0, 1.5, 11 / 6, 0.5])}
    predicted = shaken.physical(_both(shaken, {**inputs, "condition": condition})[0])
    start = torch.cat([condition["start"][:, 0, :54], condition["points"].flatten(1)], -1)
    torch.testing.assert_close(predicted[:, 0, : POINTS.stop], start, atol=1e-6, rtol=1e-5)
    rows = torch.arange(len(predicted))
    at = predicted[rows, [6, 9, 11, 3]]
    torch.testing.assert_close(at[:, :9], condition["target"][:, 0, :9], atol=1e-6, rtol=1e-5)
    before = predicted[rows, [5, 8, 10, 2]]
    assert (before[:, :9] - condition["target"][:, 0, :9]).abs().max() > 1e-3


def test_frames_behind_the_end_are_not_attended_to(shaken, inputs):
    """Of a clip of six frames the others may hold anything."""
    short = {**inputs["condition"], "seconds": torch.full((4,), 1.0), "target_at": torch.full((4,), 5 / 6)}
    first = _both(shaken, {**inputs, "condition": short})[0][:, :6]
    other = {**inputs, "motion": inputs["motion"].clone(), "low": inputs["low"].clone(), "condition": short}
    other["motion"][:, 6:], other["low"][:, 6:] = 9.0, 9.0
    torch.testing.assert_close(_both(shaken, other)[0][:, :6], first)
    assert (_both(shaken, {**other, "condition": inputs["condition"]})[0][:, :6] - first).abs().max() > 1e-3


@pytest.mark.parametrize(
    "name", ["cloud", "moves", "points", "start", "target", "target_at", "seconds", "camera", "text"]
)
def test_every_condition_is_heard(shaken, inputs, name):
    condition = dict(inputs["condition"])
    shift = {"camera": 0.1, "target_at": -0.5, "seconds": -0.5}.get(name, 0.0)
    condition[name] = ~condition[name] if name == "moves" else condition[name].roll(1, 0) + shift
    assert (_both(shaken, inputs)[0] - _both(shaken, {**inputs, "condition": condition})[0]).abs().max() > 1e-3


def test_a_camera_that_moves_is_heard_and_one_with_a_constant_path_stands_still(shaken, inputs):
    still = inputs["condition"]
    path = still["camera"][:, None].expand(-1, FRAMES, -1)
    walks = path.clone()
    walks[:, :, 7] += 0.02 * torch.arange(FRAMES)
    plain = _both(shaken, inputs)
    for a, b in zip(plain, _both(shaken, {**inputs, "condition": {**still, "camera": path}})):
        torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-4)
    motion, video = _both(shaken, {**inputs, "condition": {**still, "camera": walks}})
    assert (motion - plain[0]).abs().max() > 1e-4
    assert (video[:, 6:] - plain[1][:, 6:]).abs().max() > 1e-4


@pytest.fixture(scope="module")
def two_handed(handed):
    """A model of both hands with no weight at zero, and its inputs."""
    model = _denoiser(sides=SIDES)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    model.motion_std.uniform_(0.1, 0.5)
    condition = condition_tensors(handed, sides=SIDES)
    model.motion.condition.fit(condition)
    generator = torch.Generator().manual_seed(1)
    return model, {
        "motion": torch.randn(4, FRAMES, motion_size(2), generator=generator),
        "low": torch.randn(4, FRAMES, 3, SIZE // LOW, SIZE // LOW, generator=generator),
        "video": torch.randn(4, FRAMES, 3, SIZE, SIZE, generator=generator),
        "sigma": torch.rand(4, generator=generator),
        "condition": condition,
    }


def test_what_is_given_of_each_hand_is_given_and_a_hand_that_is_not_there_is_zero(two_handed):
    model, x = two_handed
    motion, video = _both(model, x)
    assert (motion.shape, video.shape) == (x["motion"].shape, x["video"].shape)
    physical = model.physical(motion)
    for k, places in enumerate(HANDS):
        shown = x["condition"]["shows"][:, k]
        numbers = [index for place in places for index in range(place.start, place.stop)]
        assert not motion[~shown][..., numbers].any()
        first = physical[shown][:, 0, places.pose]
        torch.testing.assert_close(first, x["condition"]["start"][shown, k, :54], atol=1e-6, rtol=1e-5)
        assert motion[shown][:, 1:, places.fingers].std() > 0


def test_each_hand_is_heard_by_the_other_and_by_the_video(two_handed):
    model, x = two_handed
    motion, video = _both(model, x)
    start = x["condition"]["start"].clone()
    start[2, 1, :3] += 0.1
    moved = _both(model, {**x, "condition": {**x["condition"], "start": start}})
    assert (moved[0][2, :, HANDS[0].wrist] - motion[2, :, HANDS[0].wrist]).abs().max() > 1e-4
    noisy = x["motion"].clone()
    noisy[2, :, HANDS[1].wrist] += 1.0
    assert (_both(model, {**x, "motion": noisy})[1][2] - video[2]).abs().max() > 1e-4


def test_a_model_of_one_hand_has_the_size_and_the_first_weights_that_it_would_have_alone():
    """What a second hand needs is made last within its part: sizes follow from the sides alone."""
    one, left, both = (_denoiser(sides=sides) for sides in (("right",), ("left",), SIDES))
    sizes = [sum(p.numel() for p in model.parameters()) for model in (one, left, both)]
    assert sizes[0] == sizes[1] < sizes[2]
    for a, b in zip(one.parameters(), left.parameters()):
        assert torch.equal(a, b)


def test_each_stream_sees_the_other(shaken, inputs):
    motion, video = _both(shaken, inputs)
    assert (motion - _both(shaken, {**inputs, "low": -inputs["low"]})[0]).abs().max() > 1e-3
    assert (video - _both(shaken, {**inputs, "motion": -inputs["motion"]})[1]).abs().max() > 1e-4


def test_bf16_runs_and_stays_near(shaken, inputs):
    exact = _both(shaken, inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = _both(shaken, inputs)
    for a, b in zip(exact, rough):
        assert torch.isfinite(b).all()
        assert (a - b.float()).abs().mean() < 0.02 * a.abs().mean() + 0.01


def test_a_window_of_a_clip_is_drawn_as_in_the_clip(shaken, inputs):
    """A frame's maps depend on that frame alone."""
    condition, sigma = inputs["condition"], inputs["sigma"]
    model = copy.deepcopy(shaken)
    model.video.temporal.weight.data.zero_()  # frames then do not mix
    with torch.no_grad():
        whole = model.denoise_video(inputs["video"], sigma, model.guide_video(inputs["motion"], condition))
        guide = model.guide_video(inputs["motion"][:, 4:8], condition)
        part = model.denoise_video(inputs["video"][:, 4:8], sigma, guide)
    torch.testing.assert_close(whole[:, 4:8], part, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_a_frame_sees_the_next_one_and_no_further(shaken, inputs):
    """In one step of the video: what lies further behind a clip's end need not be denoised."""
    guide, sigma = shaken.guide_video(inputs["motion"], inputs["condition"]), inputs["sigma"]
    whole, part = (shaken.denoise_video(inputs["video"][:, :n], sigma, guide[:, :n]) for n in (FRAMES, 7))
    torch.testing.assert_close(whole[:, :6], part[:, :6], atol=1e-5, rtol=1e-4)
    assert (whole[:, 6] - part[:, 6]).abs().max() > 1e-4


def test_frames_that_do_not_fill_a_patch_are_refused():
    with pytest.raises(ValueError, match="no multiple of the patch"):
        _denoiser(patch=5)


_OF = {
    "start": ("start",), "target": ("target",), "fingers": ("target",), "time": ("target_at", "seconds"),
    "cloud": ("cloud", "moves", "points", "pose", "goal", "brought"), "text": ("text",),
}  # fmt: skip


@pytest.mark.parametrize("name", CONDITIONS)
def test_nothing_depends_on_what_is_hidden(shaken, inputs, name):
    """Neither motion nor control maps; of what is told the motion does."""

    def changed(condition):
        other = {key: value.clone() for key, value in condition.items()}
        for part in _OF[name]:
            if part in ("moves", "brought"):
                other[part] = ~other[part]
            elif name == "fingers":
                other[part][..., 9:54] += 0.3
            elif name in ("start", "target"):
                other[part][..., :9] += 0.3
            else:
                other[part] += 0.3
        return other

    told = inputs["condition"]
    hidden = {**told, "told": told["told"].clone()}
    hidden["told"][:, list(CONDITIONS).index(name)] = False
    for one, alike in ((hidden, True), (told, False)):
        a, b = (_both(shaken, {**inputs, "condition": c})[0] for c in (one, changed(one)))
        assert torch.equal(a, b) == alike
    guides = [shaken.guide_video(inputs["motion"], c) for c in (hidden, changed(hidden))]
    assert torch.equal(*guides)


def test_a_hidden_condition_is_not_that_of_the_neutral_value(shaken, inputs):
    """The network is told that it is not told."""
    condition = {**inputs["condition"], "told": inputs["condition"]["told"].clone()}
    condition["told"][0, list(CONDITIONS).index("text")] = False
    with torch.no_grad():
        shaken.motion.condition.hidden.add_(0.5)
        made = _both(shaken, {**inputs, "condition": condition})[0] - _both(shaken, inputs)[0]
        shaken.motion.condition.hidden.sub_(0.5)
    assert made[0].abs().max() > 1e-4
    assert made[1:].abs().max() < 1e-5


def test_guidance_in_one_call_is_that_of_several(shaken, inputs, monkeypatch):
    x = inputs
    streams = (x["motion"], x["sigma"], x["low"], 1 - x["sigma"])
    with torch.no_grad():
        plain = shaken.denoise_motion(*streams, x["condition"])
        assert torch.equal(shaken.denoise_guided(*streams, x["condition"], {}), plain)
        wanted = plain.clone()
        for name, weight in (("text", 2.0), ("start", 0.5)):
            lost = {**x["condition"], "told": x["condition"]["told"].clone()}
            lost["told"][:, list(CONDITIONS).index(name)] = False
            wanted += weight * (plain - shaken.denoise_motion(*streams, lost))
        calls = []
        whole = shaken.denoise_motion
        monkeypatch.setattr(shaken, "denoise_motion", lambda *args: calls.append(1) or whole(*args))
        made = shaken.denoise_guided(*streams, x["condition"], {"text": 2.0, "start": 0.5})
    assert len(calls) == 1
    wanted[:, 0, HANDS[0].pose] = plain[:, 0, HANDS[0].pose]  # what is given stays
    torch.testing.assert_close(made, wanted, atol=1e-4, rtol=1e-4)
    assert (made - plain).abs().max() > 1e-3
