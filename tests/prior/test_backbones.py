"""Backbones of the video behind one signature: tiny random instances of the pretrained classes, from a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args, get_type_hints

import diffusers
import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file

from dexprior.config import validate
from dexprior.errors import ArtifactError, BadInput, ConfigError, UnknownName
from dexprior.prior.backbones import BACKBONES, SIZES, DiT, Latents, Pixels, make_backbone
from dexprior.prior.backbones.dit import turned, turns
from dexprior.prior.conditioning import condition_tensors
from dexprior.prior.denoiser import JointDenoiser
from dexprior.prior.maps import map_channels
from dexprior.prior.sampling import HandObjectPipeline, load_prior, save_prior
from dexprior.prior.training import PriorConfig, train_prior

pytestmark = pytest.mark.usefixtures("one_thread")
SIZE, FPS, FRAMES = 32, 3.0, 6  # two seconds, as the conditions'
NAMES = ("unet", "dit", "latent dit", "wan", "ltx")


@pytest.fixture(scope="session")
def folders(tmp_path_factory) -> dict[str, Path]:
    """Architecture -> folder of a tiny random model, in the layout of a pretrained one."""
    torch.manual_seed(0)
    made = {
        "wan": (
            diffusers.WanTransformer3DModel(
                num_attention_heads=2, attention_head_dim=12, in_channels=16, out_channels=16, text_dim=16, freq_dim=32,
                ffn_dim=32, num_layers=2, rope_max_seq_len=32,
            ),
            diffusers.AutoencoderKLWan(
                base_dim=3, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1, temperal_downsample=[False, True, True]
            ),
        ),
        "ltx": (
            diffusers.LTXVideoTransformer3DModel(
                in_channels=8, out_channels=8, num_attention_heads=2, attention_head_dim=12, cross_attention_dim=24,
                num_layers=2, caption_channels=16,
            ),
            diffusers.AutoencoderKLLTXVideo(
                latent_channels=8, block_out_channels=(8, 8, 8, 8), decoder_block_out_channels=(8, 8, 8, 8),
                layers_per_block=(1, 1, 1, 1, 1), decoder_layers_per_block=(1, 1, 1, 1, 1), patch_size=1,
                spatio_temporal_scaling=(True, True, False, False),
                decoder_spatio_temporal_scaling=(True, True, False, False),
            ),
        ),
    }  # fmt: skip
    places = {name: tmp_path_factory.mktemp(name) for name in made}
    for name, (transformer, vae) in made.items():
        transformer.save_pretrained(places[name] / "transformer")
        vae.save_pretrained(places[name] / "vae")
    return places


@pytest.fixture
def small_dit(monkeypatch):
    monkeypatch.setitem(SIZES, "small", (48, 2, 2))


def _settings(name: str, folders: dict[str, Path]) -> dict:
    """Of `JointDenoiser`."""
    if name == "latent dit":
        return {"backbone": "dit", "backbone_name": str(folders["wan"])}
    return {"backbone": name, "backbone_name": str(folders[name]) if name in folders else None, "backbone_rank": 4}


def _denoiser(name: str, folders: dict[str, Path]) -> JointDenoiser:
    torch.manual_seed(1)
    net = JointDenoiser(
        frames=FRAMES, size=SIZE, width=32, layers=1, heads=2, channels=10, fps=FPS, **_settings(name, folders)
    )
    net.motion_mean[[3, 7]] = 1.0  # a rotation
    return net.eval()


def _shaken(net: JointDenoiser) -> JointDenoiser:
    """No weight that trains at zero."""
    torch.manual_seed(2)
    with torch.no_grad():
        for weight in net.parameters():
            if weight.requires_grad:
                weight.add_(0.05 * torch.randn_like(weight))
    return net


def _given(net: JointDenoiser, conditions, frames: int = FRAMES):
    """(clean video in the space, noise, noise levels, guide)."""
    generator = torch.Generator().manual_seed(0)
    n, space = len(conditions), net.video.space
    motion = torch.randn(n, frames, net.motion_mean.shape[0], generator=generator)
    clean = torch.rand(n, frames, 3, 1, 1, generator=generator).expand(-1, -1, -1, SIZE, SIZE) * 2 - 1
    clean = space.encode(clean)
    noise = torch.randn(clean.shape, generator=generator)
    return clean, noise, torch.linspace(0.3, 0.9, n), net.guide_video(motion, condition_tensors(conditions))


@pytest.mark.parametrize("name", NAMES)
def test_one_signature_for_all(name, folders, conditions, small_dit):
    net = _shaken(_denoiser(name, folders))
    for frames in (1, 5, FRAMES):
        clean, noise, sigma, guide = _given(net, conditions, frames)
        assert clean.shape[1:] == net.video.space.shape(frames, SIZE)
        with torch.no_grad():
            made = net.denoise_video(noise, sigma, guide)
            assert made.shape == clean.shape
            assert (net.denoise_video(noise, 0.5 * sigma, guide) - made).abs().max() > 1e-4
            frames_again = net.video.space.decode(made, frames)
        assert frames_again.shape == (len(conditions), frames, 3, SIZE, SIZE)


@pytest.mark.parametrize("name", NAMES)
def test_training_steps_lower_the_loss(name, folders, conditions, small_dit):
    net = _denoiser(name, folders).train()
    weights = [weight for weight in net.video.parameters() if weight.requires_grad]
    optimizer = torch.optim.Adam(weights, lr=3e-3)
    pretrained = {key: value.clone() for key, value in net.video.named_parameters() if not value.requires_grad}
    losses = []
    for _ in range(12):
        clean, noise, sigma, guide = _given(net, conditions)
        s = sigma[:, None, None, None, None]
        loss = (net.denoise_video((1 - s) * clean + s * noise, sigma, guide) - clean).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.95 * losses[0]
    own = dict(net.video.named_parameters())
    assert all(torch.equal(value, own[key]) for key, value in pretrained.items())


@pytest.mark.parametrize("name", ["wan", "ltx"])
@torch.no_grad()
def test_a_pretrained_network_begins_as_it_was(name, folders, conditions):
    """Whatever control maps and tokens say; without a sentence."""
    net = _denoiser(name, folders).video
    _, noise, sigma, (hints, words) = _given(_denoiser(name, folders), conditions)
    assert hints.abs().max() > 0
    assert words.shape[1] == 1 + 6 + FRAMES // 3
    kind, width = type(net.net).__name__, net.scene.out_features
    plain = getattr(diffusers, kind).from_pretrained(folders[name] / "transformer")
    empty = torch.zeros(len(noise), 1, width)
    velocity = net.row.call(plain, noise, sigma, empty, net.space, FPS)
    s = sigma[:, None, None, None, None]
    torch.testing.assert_close(net(noise, sigma, (hints, words)), noise - s * velocity, atol=1e-5, rtol=1e-5)
    shaken = _shaken(_denoiser(name, folders)).video
    made = shaken(noise, sigma, (hints, words))
    for other in ((hints + 1, words), (hints, words.roll(1, 0)), (hints, words[:, :1])):
        assert (shaken(noise, sigma, other) - made).abs().max() > 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_keeps_what_was_trained_and_samples(name, folders, conditions, tmp_path, small_dit):
    net = _shaken(_denoiser(name, folders))
    save_prior(net, tmp_path, seed=0, extra={})
    weights = load_file(tmp_path / "denoiser" / "diffusion_pytorch_model.safetensors")
    assert not [key for key in weights if ".vae." in key or ".layer." in key]
    loaded, _ = load_prior(tmp_path)
    settings = {"seed": 3, "motion_steps": 3, "video_steps": 2, "overlap": 2}
    pipeline = HandObjectPipeline.fresh(net)
    for one in (pipeline, loaded):
        one.set_progress_bar_config(disable=True)
    made, again = pipeline(conditions[:2], **settings), loaded(conditions[:2], **settings)
    for a, b in zip(made, again):
        assert a.frames.shape == (FRAMES, SIZE, SIZE, 3)
        assert (a.frames == b.frames).all()
        assert (a.hands[0].joints == b.hands[0].joints).all()
    assert len({a.frames.tobytes() for a in made}) == 2
    (view,) = loaded.film(made[:1], conditions[:1], [conditions[1].camera], "side")
    assert view.frames.shape == made[0].frames.shape


def test_a_checkpoint_wants_the_weights_that_it_was_trained_with(folders, tmp_path):
    own = tmp_path / "own"
    for part in ("transformer", "vae"):
        (own / part).mkdir(parents=True)
        for file in (folders["wan"] / part).iterdir():
            (own / part / file.name).write_bytes(file.read_bytes())
    save_prior(_denoiser("wan", {"wan": own}), tmp_path / "prior", seed=0, extra={})
    load_prior(tmp_path / "prior")
    file = own / "transformer" / "diffusion_pytorch_model.safetensors"
    damaged = bytearray(file.read_bytes())
    damaged[-5] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(ArtifactError, match="other weights than those that it was trained with"):
        load_prior(tmp_path / "prior")
    file.unlink()
    with pytest.raises(ArtifactError, match="its transformer cannot be read"):
        load_prior(tmp_path / "prior")


@pytest.mark.parametrize("name", ["dit", "wan"])
def test_it_trains_through_the_verb_s_loop_and_goes_on(name, folders, tiny_stack, tmp_path, small_dit):
    settings = _settings(name, folders)
    config = PriorConfig(
        size=32, width=32, layers=1, heads=2, channels=10, batch=2, video_clips=2, video_window=5, steps=2,
        checkpoint_every=1, **settings,
    )  # fmt: skip
    whole = train_prior(tiny_stack, config, tmp_path, seed=0)
    again = train_prior(tiny_stack, config, tmp_path, seed=0)  # from the state of the last step
    for (key, a), b in zip(whole.state_dict().items(), again.state_dict().values()):
        assert torch.equal(a, b), key
    again = train_prior(tiny_stack, config, tmp_path, seed=0, more=(1,))
    assert any(not torch.equal(a, b) for a, b in zip(whole.video.parameters(), again.video.parameters()))


# --- the transformer of our own ---


def test_turns_tell_differences_of_places_alone():
    """Products of a query and a key depend on how far apart they are in time, rows and columns."""
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 1, 1, 24).expand(-1, -1, 4 * 3 * 5, -1, -1)
    turn = turns((4, 3, 5), 24, torch.device("cpu"))
    products = torch.einsum("bihd,bjhd->ij", turned(q, turn), turned(k, turn)).view(4, 3, 5, 4, 3, 5)
    torch.testing.assert_close(products[0, 0, 1, 2, 1, 3], products[1, 1, 2, 3, 2, 4], atol=1e-4, rtol=1e-4)
    for other in (products[0, 0, 1, 3, 1, 3], products[0, 0, 1, 2, 2, 3], products[0, 0, 1, 2, 1, 4]):
        assert (other - products[0, 0, 1, 2, 1, 3]).abs() > 1e-3


def test_a_transformer_sees_the_whole_clip_and_every_map(small_dit):
    torch.manual_seed(0)
    net = DiT(Pixels(), 15, width=48, blocks=2, heads=2, patch=4)
    with torch.no_grad():
        for weight in net.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
        noisy, maps, sigma = torch.randn(1, 5, 3, 16, 16), torch.rand(1, 5, 15, 16, 16), torch.full((1,), 0.5)
        made = net(noisy, sigma, net.guide(maps))
        other = noisy.clone()
        other[:, -1] += 1.0
        assert (net(other, sigma, net.guide(maps))[:, 0] - made[:, 0]).abs().max() > 1e-5
        for channel in range(15):
            changed = maps.clone()
            changed[:, 2, channel] = 1 - changed[:, 2, channel]
            assert (net(noisy, sigma, net.guide(changed)) - made).abs().max() > 1e-4


def test_the_sizes_are_those_that_the_help_tells():
    with torch.device("meta"):
        nets = [DiT(Pixels(), map_channels(1), width=w, blocks=b, heads=h, patch=4) for w, b, h in SIZES.values()]
    millions = [sum(weight.numel() for weight in net.parameters()) / 1e6 for net in nets]
    assert millions == pytest.approx([5.4, 310, 810], rel=0.03)


def test_latents_have_unit_spread_and_come_back_in_shape(folders):
    space = Latents(folders["wan"])
    video = torch.rand(1, 6, 3, 32, 32) * 2 - 1
    z = space.encode(video)
    assert z.shape[1:] == space.shape(6, 32) == (3, 16, 4, 4)
    raw = space.vae.encode(torch.cat([video, video[:, -1:].expand(-1, 3, -1, -1, -1)], 1).transpose(1, 2))
    mean, std = (torch.tensor(space.vae.config[f"latents_{name}"]) for name in ("mean", "std"))
    wanted = (raw.latent_dist.mode().permute(0, 2, 3, 4, 1) - mean) / std
    torch.testing.assert_close(z.permute(0, 1, 3, 4, 2), wanted)
    assert space.decode(z, 6).shape == video.shape
    assert not space.state_dict()


# --- bad input ---


def _make(name="dit", **settings):
    return make_backbone(name, **{"size": 32, "hands": 1, "channels": 10, "width": 32, "fps": 3.0, **settings})


def test_the_settings_name_the_choices():
    hints = get_type_hints(PriorConfig)
    assert get_args(hints["backbone"]) == BACKBONES
    assert get_args(hints["backbone_size"]) == tuple(SIZES)
    for name, value in (("backbone", "wam"), ("backbone_size", "huge")):
        with pytest.raises(ConfigError, match=name) as told:
            validate(PriorConfig, {name: value}, where="prior")
        assert all(choice in str(told.value) for choice in get_args(hints[name]))


def test_unknown_names_and_sizes_are_named():
    with pytest.raises(UnknownName, match=r"unknown backbone 'wam'; did you mean 'wan'"):
        _make("wam")
    with pytest.raises(UnknownName, match=r"unknown size of a backbone 'huge'. Known: small, base, large"):
        _make(scale="huge")


def test_nothing_pretrained_is_trained_from_nothing(folders, tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(BadInput, match=r"prior\.backbone = wan: give prior\.backbone_name"):
        _make("wan")
    with pytest.raises(
        ArtifactError, match=r"backbone 'Wan-AI/Wan2.1-T2V-1.3B-Diffusers': no such folder, and it cannot"
    ):
        _make("wan", pretrained="Wan-AI/Wan2.1-T2V-1.3B-Diffusers")
    with pytest.raises(ArtifactError, match=r"backbone '\.\./nowhere/at/all'"):
        _make("wan", pretrained="../nowhere/at/all")
    with pytest.raises(ArtifactError, match=r"no transformer/config.json in it"):
        _make("wan", pretrained=str(tmp_path))


def test_other_architectures_are_refused(folders, tmp_path):
    with pytest.raises(
        BadInput, match="its transformer is a LTXVideoTransformer3DModel; here it has to be a WanTransf"
    ):
        _make("wan", pretrained=str(folders["ltx"]))
    with pytest.raises(BadInput, match="the backbone unet has no pretrained weights"):
        _make("unet", pretrained=str(folders["wan"]))
    for part, file in (("transformer", folders["wan"] / "transformer"), ("vae", folders["wan"] / "vae")):
        (tmp_path / part).mkdir()
        for one in file.iterdir():
            (tmp_path / part / one.name).write_bytes(one.read_bytes())
    note = tmp_path / "vae" / "config.json"
    note.write_text(json.dumps({**json.loads(note.read_text()), "_class_name": "AutoencoderKL"}))
    with pytest.raises(BadInput, match="its vae is a AutoencoderKL; here it has to be a AutoencoderKLWan or"):
        _make("wan", pretrained=str(tmp_path))


def test_frames_that_patches_do_not_fill_are_refused(folders):
    with pytest.raises(BadInput, match=r"prior\.size = 40: the backbone wan needs a multiple of 16"):
        _make("wan", size=40, pretrained=str(folders["wan"]))


def test_a_checkpoint_of_another_backbone_is_refused(folders, tmp_path, small_dit):
    save_prior(_denoiser("dit", folders), tmp_path, seed=0, extra={})
    note = tmp_path / "denoiser" / "config.json"
    note.write_text(json.dumps({**json.loads(note.read_text()), "backbone": "unet"}))
    with pytest.raises(ArtifactError, match="is not a complete prior checkpoint"):
        load_prior(tmp_path)
    note.write_text(json.dumps({**json.loads(note.read_text()), "backbone": "mmdit"}))
    with pytest.raises(ArtifactError, match="unknown backbone 'mmdit'"):
        load_prior(tmp_path)
