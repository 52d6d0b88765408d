"""One self-contained check of the video prior on an accelerator: data, training in bf16, sampling; JSON on stdout.

    python scripts/gpu_check.py            under eight minutes on one H100
    python scripts/gpu_check.py --tiny     seconds, on a CPU

Generates clips with the project's own demonstrator, trains the joint denoiser at a size that suits the device,
samples from it, and times a stock diffusers Wan loop of 64 tokens a clip in the same call. Then the backbone `dit` of
the size `base` trains on random latents of 49 frames of 256 px, beside a stock loop of the same width and depth. Model
FLOPs are counted by torch's own FLOP counter on one training step, those of the backbone by its matrix products;
utilisation is against the device's published dense bf16 peak.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="a few clips and steps, for a CPU")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="also write the JSON here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = check(Path(folder), tiny=arguments.tiny, seed=arguments.seed)
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n")


def check(folder: Path, *, tiny: bool, seed: int) -> dict:
    """Everything, in one process."""
    from dexprior.artifacts import package_versions
    from dexprior.data.demonstrating import TaskDemonstrationConfig, generate_demonstrations
    from dexprior.data.stacks import load_stack
    from dexprior.prior.training import PriorConfig

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    start = time.perf_counter()
    data = TaskDemonstrationConfig(n=6 if tiny else 208, size=48, cameras=("front",), depth=())
    counts = generate_demonstrations("pick_place", data, folder / "demonstrations", seed=seed)
    seconds_data = time.perf_counter() - start
    stack = load_stack(folder / "demonstrations", 48)
    config = (
        PriorConfig(steps=4, batch=2, video_clips=1, width=32, layers=1, heads=2, channels=10, checkpoint_every=4)
        if tiny
        else PriorConfig(
            steps=600, batch=256, video_clips=32, video_window=16, video_every=1, width=512, layers=8, heads=8,
            channels=120, learning_rate=6e-4, precision="bf16", checkpoint_every=600,
        )
    )  # fmt: skip
    return {
        "device": torch.cuda.get_device_name(0) if device.type == "cuda" else "cpu",
        "versions": package_versions(),
        "seed": seed,
        "data": {**counts, "seconds": seconds_data},
        "train": _train(stack, config, folder, seed, device),
        "stock_loop": _stock(config, device, tiny=tiny),
        "dit": _dit(device, tiny=tiny),
    }


def _train(stack, config, folder: Path, seed: int, device: torch.device) -> dict:
    from dexprior.prior.evaluation import Motion, evaluate_samples
    from dexprior.prior.metering import flops_of_step, peak_flops
    from dexprior.prior.sampling import HandObjectPipeline
    from dexprior.prior.training import PriorData, batch_losses, draw_batch, train_prior

    run = folder / "prior"
    run.mkdir()
    _reset_memory(device)
    start = time.perf_counter()
    model = train_prior(stack, config, run, seed=seed)
    _synchronise(device)
    seconds = time.perf_counter() - start
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else None

    batch = draw_batch(PriorData(stack, config.patch), config, seed, 0, 0, device)
    flops, published = flops_of_step(model, batch, batch_losses), peak_flops(device)
    step = seconds / config.steps

    pipeline = HandObjectPipeline.fresh(model.eval())
    pipeline.set_progress_bar_config(disable=True)
    pipeline(stack.conditions[:1], seed=seed)
    _synchronise(device)
    start = time.perf_counter()
    few = stack[: min(len(stack), 32)]
    samples = pipeline(few.conditions, seed=seed)
    _synchronise(device)
    sampling = time.perf_counter() - start
    start = time.perf_counter()
    pipeline(stack.conditions[:1], seed=seed)
    _synchronise(device)
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": config.steps,
        "precision": config.precision,
        "seconds": seconds,
        "motion_clips_per_s": config.batch / step,
        "video_clips_per_s": config.video_clips / config.video_every / step,
        "flops_per_step": flops,
        "model_flops_utilisation": flops / step / published if published else None,
        "peak_memory_bytes": peak,
        "samples_per_s": len(samples) / sampling,
        "latency_s": time.perf_counter() - start,
        "quality": evaluate_samples([Motion.of(sample) for sample in samples], few),
    }


def _stock(config, device: torch.device, *, tiny: bool) -> dict:
    """A stock diffusers Wan transformer trained on noise with 64 tokens a clip."""
    from diffusers import WanTransformer3DModel

    heads = config.heads
    model = WanTransformer3DModel(
        patch_size=(1, 2, 2), num_attention_heads=heads, attention_head_dim=config.width // heads, in_channels=16,
        out_channels=16, text_dim=128, freq_dim=64, ffn_dim=4 * config.width, num_layers=config.layers,
        rope_max_seq_len=64,
    ).to(device)  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    generator = torch.Generator().manual_seed(0)
    batch = min(config.batch, 64)
    latents = torch.randn(batch, 16, 4, 8, 8, generator=generator).to(device)
    text = torch.randn(batch, 8, 128, generator=generator).to(device)
    t = torch.full((batch,), 500, device=device)

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bf16"):
            out = model(hidden_states=latents, timestep=t, encoder_hidden_states=text, return_dict=False)[0]
            loss = (out.float() - latents).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    step()
    _synchronise(device)
    repeats = 2 if tiny else 20
    start = time.perf_counter()
    for _ in range(repeats):
        step()
    _synchronise(device)
    seconds = (time.perf_counter() - start) / repeats
    return {
        "clips_per_s": batch / seconds,
        "tokens": 64,
        "parameters": int(np.sum([p.numel() for p in model.parameters()])),
    }


def _dit(device: torch.device, *, tiny: bool) -> dict:
    """The backbone `dit base` and a stock Wan transformer of its width and depth, on the same random latents."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from dexprior.prior.backbones import SIZES, DiT, Pixels
    from dexprior.prior.maps import map_channels
    from dexprior.prior.metering import peak_flops

    frames, side = (5, 32) if tiny else (49, 256)
    width, depth, heads = (48, 2, 2) if tiny else SIZES["base"]
    space, patch = Pixels(), 2
    space.channels, space.ratio = 16, (4, 8, 8)  # those of Wan's autoencoder
    shape = space.shape(frames, side)
    tokens = shape[0] * shape[2] * shape[3] // patch**2
    # products of a token with weights, and with all other tokens; forwards, and twice as much backwards
    flops = 3 * tokens * depth * (24 * width**2 + 4 * tokens * width)

    def ours(batch: int):
        torch.manual_seed(0)
        net = DiT(space, map_channels(1), width=width, blocks=depth, heads=heads, patch=patch, compiled=True).to(device)
        clean, noise = (torch.randn(batch, *shape, device=device) for _ in range(2))
        maps = torch.rand(batch, frames, map_channels(1), side, side, device=device)
        sigma = torch.rand(batch, device=device)
        s = sigma[:, None, None, None, None]

        def loss() -> torch.Tensor:
            return (net((1 - s) * clean + s * noise, sigma, net.guide(maps)).float() - clean).abs().mean()

        return net, loss

    def stock(batch: int):
        from diffusers import WanTransformer3DModel

        net = WanTransformer3DModel(
            num_attention_heads=heads, attention_head_dim=width // heads, in_channels=16, out_channels=16, text_dim=128,
            freq_dim=64, ffn_dim=4 * width, num_layers=depth, rope_max_seq_len=64,
        ).to(device)  # fmt: skip
        latents = torch.randn(batch, shape[1], shape[0], *shape[2:], device=device)
        text, t = torch.randn(batch, 64, 128, device=device), torch.full((batch,), 500, device=device)

        def loss() -> torch.Tensor:
            out = net(hidden_states=latents, timestep=t, encoder_hidden_states=text, return_dict=False)[0]
            return (out.float() - latents).square().mean()

        return net, loss

    quick = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    found = {"tokens": tokens, "flops_per_clip": flops, "stock": _timed(stock, device, tiny=tiny)}
    found["ours"] = _timed(ours, device, tiny=tiny)
    if device.type == "cuda":
        with sdpa_kernel(quick, set_priority=True):
            found["ours_cudnn_attention"] = _timed(ours, device, tiny=tiny)
    best = max((found[name] for name in found if name.startswith("ours")), key=lambda one: one.get("clips_per_s", 0.0))
    peak = peak_flops(device)
    if "clips_per_s" in best:
        found["model_flops_utilisation"] = best["clips_per_s"] * flops / peak if peak else None
        if "clips_per_s" in found["stock"]:
            found["times_stock"] = best["clips_per_s"] / found["stock"]["clips_per_s"]
    return found


def _timed(make, device: torch.device, *, tiny: bool) -> dict:
    """Training steps of a network in bf16, with the largest of a few batches that fits into memory."""
    for batch in (2,) if tiny else (16, 8, 4, 2):
        _reset_memory(device)
        try:
            return {"batch": batch, **_steps(*make(batch), batch, device, tiny=tiny)}
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
        except RuntimeError as error:  # an attention that this device lacks
            return {"batch": batch, "error": " ".join(str(error).split())[:300]}
    return {"error": "no batch fits into memory"}


def _steps(net, loss, batch: int, device: torch.device, *, tiny: bool) -> dict:
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=device.type == "cuda")
    start = time.perf_counter()

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16):
            value = loss()
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

    for _ in range(1 if tiny else 3):
        step()
    _synchronise(device)
    begun, repeats = time.perf_counter(), 2 if tiny else 10
    for _ in range(repeats):
        step()
    _synchronise(device)
    return {
        "clips_per_s": repeats * batch / (time.perf_counter() - begun),
        "first_steps_s": begun - start,
        "parameters": sum(weight.numel() for weight in net.parameters()),
        "peak_memory_bytes": torch.cuda.max_memory_allocated() if device.type == "cuda" else None,
    }


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _reset_memory(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
